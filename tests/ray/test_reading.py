from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import ray

import tensorferry as ferry
from tensorferry import ray as ferry_ray

from .conftest import rows_of


def ids_of(dataset):
    return sorted(int(row["id"]) for row in dataset.select_columns(["id"]).take_all())


def test_examples_become_arrays(train):
    """Columns of Examples come as the arrays, lists and bytes that were written."""
    dataset = ferry_ray.read(train)
    batch = dataset.take_batch(7)

    assert dataset.count() == 4000
    assert batch["embedding"].shape == (7, 16)
    assert batch["embedding"].dtype == np.float32
    for place, number in enumerate(batch["id"]):
        (wanted,) = rows_of(1, int(number))
        np.testing.assert_array_equal(batch["embedding"][place], wanted["embedding"])
        np.testing.assert_array_equal(batch["tokens"][place], wanted["tokens"])
        assert batch["text"][place] == wanted["text"]
    assert ids_of(dataset) == list(range(4000))


@pytest.mark.parametrize("suffix", ["tfrecord", "tfrecord.gz", "parquet", "arrow", "jsonl"])
def test_formats(tmp_path, suffix):
    """Every format of rows is read, with its tensors of fixed and of varying shape as arrays."""
    path = str(tmp_path / f"x.{suffix}")
    rows = [{"id": n, "fixed": np.full((2, 3), n, np.float32)} for n in range(1, 5)]
    if suffix != "jsonl":  # which says nothing about shapes: lists in lists
        for row in rows:
            row["open"] = np.full((row["id"], 2), row["id"], np.float32)
    ferry.save(iter(rows), path)
    batch = ferry_ray.read(path).take_batch(4)

    for place, number in enumerate(batch["id"]):
        row = rows[int(number) - 1]
        np.testing.assert_array_equal(np.stack(list(batch["fixed"][place])), row["fixed"])
        if suffix != "jsonl":
            assert batch["fixed"].shape == (4, 2, 3)
            np.testing.assert_array_equal(batch["open"][place], row["open"])


def test_bools(tmp_path):
    """A tensor of bools, which NumPy and Arrow keep in different memory, comes as an array."""
    path = str(tmp_path / "x.parquet")
    ferry.save({"flags": np.array([[True, False], [False, True], [True, True]])}, path)
    batch = ferry_ray.read(path).take_batch(3)

    np.testing.assert_array_equal(batch["flags"], [[True, False], [False, True], [True, True]])


def test_columns(train):
    """Only the columns that are asked for are decoded, whichever way they are asked for."""
    one = ferry_ray.read(train, columns=["id", "text"])
    other = ferry_ray.read(train).select_columns(["text", "id"])

    assert one.schema().names == ["id", "text"]
    assert sorted(other.schema().names) == ["id", "text"]
    assert one.take(1)[0].keys() == {"id", "text"}
    source = ferry_ray.Source(train).apply_projection({"id": "id"})
    assert source.estimate_inmemory_data_size() == pytest.approx(8 * 4000, rel=0.2)


def test_raw(train, tmp_path):
    """With `raw` each record comes as its bytes, and is written as such."""
    dataset = ferry_ray.read(train, raw=True)
    wanted = sorted(ferry.open(train, raw=True))
    assert sorted(row["record"] for row in dataset.take_all()) == wanted

    sink = ferry_ray.Sink(tmp_path / "raw.tfrecord", raw=True)
    dataset.write_datasink(sink)
    assert sorted(ferry.open(sink.paths, raw=True)) == wanted


def test_schema_is_inferred_once(train):
    """The driver infers the schema, and every task reads by it, also where rows differ."""
    source = ferry_ray.Source(train)
    tasks = source.get_read_tasks(8)

    assert len(tasks) == 8
    assert sum(task.metadata.num_rows for task in tasks) == 4000
    assert len({task.schema.to_string() for task in tasks}) == 1
    for task in tasks:
        for block in task():
            assert block.schema.equals(task.schema)


def test_damage(train, tmp_path):
    """Damage names the file, and is passed over with `on_error="skip"`."""
    data = bytearray(Path(train.replace("@4", "-00001-of-00004")).read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "broken.tfrecord"
    path.write_bytes(data)

    with pytest.raises(Exception, match=r"broken\.tfrecord"):
        ferry_ray.read(str(path)).materialize()
    assert ferry_ray.read(str(path), on_error="skip").count() == 999


def test_large_files_are_split(tmp_path):
    """One large file is read by several tasks, in blocks below Ray's limit, always the same."""
    path = str(tmp_path / "large.tfrecord")
    value = np.zeros((2000, 256), np.float32)
    ferry.save({"id": np.arange(2000), "value": value}, path, format="tfrecord")
    source = ferry_ray.Source(path)
    context = ray.data.DataContext.get_current().copy()
    context.target_max_block_size = 200_000
    tasks = source.get_read_tasks(3, data_context=context)
    blocks = [block for task in tasks for block in task()]

    assert len(tasks) == 3
    assert len(blocks) > 9
    assert max(block.nbytes for block in blocks) <= 200_000
    assert pa.concat_tables(blocks).column("id").to_pylist() == list(range(2000))
    again = [block for task in source.get_read_tasks(3, data_context=context) for block in task()]
    assert [block.num_rows for block in again] == [block.num_rows for block in blocks]
    estimate = source.estimate_inmemory_data_size()
    assert estimate == pytest.approx(sum(block.nbytes for block in blocks), rel=0.2)


@pytest.mark.parametrize("suffix", ["tfrecord.gz", "parquet"])
def test_sizes_of_compressed_files(tmp_path, suffix):
    """The size in memory is estimated from decoded rows, and not from that of the files."""
    path = str(tmp_path / f"x.{suffix}")
    ferry.save({"zeros": np.zeros((5000, 64), np.float32)}, path)
    estimate = ferry_ray.Source(path).estimate_inmemory_data_size()

    assert 0.25 < estimate / (5000 * 64 * 4) < 4


def test_central_storage(s3, train):
    """Files of an object store are read on every node, with the credentials of the environment."""
    for number in range(4):
        name = f"train-{number:05}-of-00004.tfrecord"
        data = Path(train).parent.joinpath(name).read_bytes()
        s3.put(f"in/{name}", data)

    assert ids_of(ferry_ray.read(s3.url("in/train@4.tfrecord"))) == list(range(4000))


def test_tensors_by_name_are_refused(tmp_path):
    """A file that holds tensors by name is no dataset."""
    path = str(tmp_path / "model.npz")
    ferry.save({"a": np.zeros(3)}, path)
    with pytest.raises(ferry.UnsupportedError, match="tensors by name"):
        ferry_ray.read(path)


class DiesOnce:
    """Ends its process at the first row of some batch, the first time it is called at all."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, batch):
        if 2500 in batch["id"]:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return batch
            os.kill(os.getpid(), signal.SIGKILL)
        return batch


def test_a_worker_dies_while_it_reads(train, tmp_path):
    """The rows of a worker that is killed are read again: all of them once."""
    marker = str(tmp_path / "died")
    dataset = ferry_ray.read(train, override_num_blocks=8).map_batches(DiesOnce(marker).__call__)

    assert ids_of(dataset) == list(range(4000))
    assert os.path.exists(marker)


def test_ray_is_asked_for_on_first_use():
    """Importing the module imports no Ray; where there is none, its first use says so."""
    program = """
import sys
sys.modules["ray"] = None
from tensorferry import ray
import tensorferry as ferry
try:
    ray.read("x.tfrecord")
except ferry.MissingExtraError as error:
    assert "tensorferry[ray]" in error.hint
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
