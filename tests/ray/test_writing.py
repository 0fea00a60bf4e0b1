from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import ray
from clusters import meanwhile

import tensorferry as ferry
from tensorferry import ray as ferry_ray

from .test_reading import DiesOnce

LATEST = 60
"""How many seconds tasks wait for one that is to be lost."""


def ids_of(path):
    with ferry.open(path, columns=["id"]) as rows:
        return sorted(int(number) for batch in rows.batches() for number in batch["id"])


@pytest.mark.parametrize("suffix", ["tfrecord", "tfrecord.gz", "parquet", "arrow", "jsonl"])
def test_formats(train, tmp_path, suffix):
    """A dataset becomes a set of shards of every format of rows, with all values."""
    sink = ferry_ray.Sink(tmp_path / f"out@*.{suffix}")
    ferry_ray.read(train, override_num_blocks=4).write_datasink(sink)

    assert sink.count == 4000
    names = [f"out-{number:05}-of-00004.{suffix}" for number in range(4)]
    assert sorted(os.listdir(tmp_path)) == names
    rows = {row["id"]: row for row in ferry.open(str(tmp_path / f"out@4.{suffix}"))}
    for wanted in ferry.open(train):
        row = rows.pop(wanted["id"])
        np.testing.assert_array_equal(row["embedding"], wanted["embedding"])
        np.testing.assert_array_equal(row["tokens"], wanted["tokens"])
        assert row["score"] == wanted["score"]
    assert not rows


def test_tensorflow_reads_the_shards(train, tmp_path, tf):
    """TensorFlow reads the TFRecord shards of a sink as its own."""
    sink = ferry_ray.Sink(tmp_path / "out.tfrecord")
    ferry_ray.read(train).write_datasink(sink)
    spec = {"id": tf.io.FixedLenFeature([], tf.int64)}
    found = [
        int(tf.io.parse_single_example(record, spec)["id"])
        for record in tf.data.TFRecordDataset(sink.paths)
    ]

    assert sorted(found) == list(range(4000))


def test_tensors_of_ray(tmp_path):
    """Tensors that a function of the user's returns are written as tensors, of whichever shape."""

    def tensors(batch):
        varying = np.empty(len(batch["id"]), object)
        for place, number in enumerate(batch["id"]):
            varying[place] = np.full((int(number) % 3 + 1, 2), number, np.float32)
        fixed = np.stack([np.full((2, 2), number, np.float32) for number in batch["id"]])
        flags = np.stack([np.array([number % 2 == 0, True]) for number in batch["id"]])
        return {"id": batch["id"], "fixed": fixed, "varying": varying, "flags": flags}

    dataset = ray.data.range(20).map_batches(tensors)
    for suffix in ("tfrecord", "parquet"):
        sink = ferry_ray.Sink(tmp_path / f"out@*.{suffix}")
        dataset.write_datasink(sink)
        rows = list(ferry.open(sink.paths))
        assert sorted(row["id"] for row in rows) == list(range(20))
        for row in rows:
            number = row["id"]
            np.testing.assert_array_equal(row["fixed"], np.full((2, 2), number))
            np.testing.assert_array_equal(row["flags"], [number % 2 == 0, True])
            found = row["varying"]
            found = found.to_list() if isinstance(found, ferry.RaggedTensor) else found
            np.testing.assert_array_equal(found, np.full((number % 3 + 1, 2), number))


def test_python_objects_are_refused(tmp_path):
    """Values that Ray has pickled are refused, and nothing is left of the set."""

    def objects(batch):
        return {"id": batch["id"], "thing": [{"a", 1} for _ in batch["id"]]}

    dataset = ray.data.range(3).map_batches(objects)
    with pytest.raises(Exception, match="Python objects"):
        dataset.write_datasink(ferry_ray.Sink(tmp_path / "out.parquet"))
    assert os.listdir(tmp_path) == []


def test_a_set_replaces_an_older_one(train, tmp_path):
    """Written again, a set has the new shards only, however many there were before."""
    for blocks in (4, 2):
        sink = ferry_ray.Sink(tmp_path / "out.parquet")
        ferry_ray.read(train, override_num_blocks=blocks).write_datasink(sink)
        assert len(sink.paths) == blocks

    assert sorted(map(str, tmp_path.iterdir())) == sink.paths
    assert ids_of(str(tmp_path / "out.parquet@*")) == list(range(4000))


def test_no_rows(tmp_path):
    """A dataset without rows becomes one file without rows, which has its columns."""
    table = pa.table({"id": pa.array([], pa.int64())})
    for suffix in ("tfrecord", "parquet"):
        sink = ferry_ray.Sink(tmp_path / f"none.{suffix}")
        ray.data.from_arrow(table).write_datasink(sink)
        assert len(ferry.open(sink.paths, format=suffix)) == 0
        assert sink.paths == [str(tmp_path / f"none.{suffix}-00000-of-00001")]


def test_wrong_use_is_refused_at_once(tmp_path):
    """What every task would refuse is refused before any of them runs."""
    with pytest.raises(ferry.UnsupportedError, match="row by row"):
        ferry_ray.Sink(tmp_path / "x.npz")
    with pytest.raises(ferry.UnsupportedError, match="Ray decides"):
        ferry_ray.Sink(tmp_path / "x@10.parquet")
    with pytest.raises(ferry.OptionError, match="level"):
        ferry_ray.Sink(tmp_path / "x.parquet", level=3)
    with pytest.raises(ferry.UnsupportedError, match="append"):
        ferry_ray.Sink(tmp_path / "x.tfrecord", append=True)


def fail_late(batch):
    """Fails at one row, when other tasks have written their files."""
    import time

    if 3999 in batch["id"]:
        time.sleep(0.3)
        raise ValueError("no such row")
    return batch


@pytest.mark.parametrize("where", ["local", "s3"])
def test_a_job_that_fails_leaves_nothing(s3, train, tmp_path, where):
    """A task that fails ends the job: no part is left, and the old set stays as it was."""
    base = str(tmp_path) if where == "local" else s3.url("out")
    local = f"{tmp_path}/in@4.tfrecord"
    ferry.save(ferry.open(train), local)
    sink = ferry_ray.Sink(f"{base}/out.tfrecord")
    ferry_ray.read(train, override_num_blocks=2).write_datasink(sink)
    before = s3.keys() if where == "s3" else sorted(os.listdir(tmp_path))
    dataset = ferry_ray.read(local, override_num_blocks=8).map_batches(fail_late)

    with pytest.raises(Exception, match="no such row"):
        dataset.write_datasink(ferry_ray.Sink(f"{base}/out.tfrecord"))
    after = s3.keys() if where == "s3" else sorted(os.listdir(tmp_path))
    assert after == before
    assert s3.uploads() == 0
    assert ids_of(f"{base}/out.tfrecord@2") == list(range(4000))


@pytest.mark.parametrize("where", ["local", "s3"])
def test_a_worker_dies_while_it_writes(s3, train, tmp_path, where):
    """The part of a worker that is killed is written again: every row once, and nothing else."""
    folder = tmp_path / "out"
    folder.mkdir()
    base = str(folder) if where == "local" else s3.url("out")
    marker = str(tmp_path / "died")
    dataset = ferry_ray.read(train, override_num_blocks=6).map_batches(DiesOnce(marker).__call__)
    sink = ferry_ray.Sink(f"{base}/out@*.tfrecord")
    dataset.write_datasink(sink)

    assert os.path.exists(marker)
    assert ids_of(f"{base}/out@*.tfrecord") == list(range(4000))
    found = sorted(map(str, folder.iterdir())) if where == "local" else map(s3.url, s3.keys())
    assert sorted(found) == sink.paths


class LosingSink(ferry_ray.Sink):
    """Loses a worker in the middle of its part, and a machine whose part is written.

    The first worker that has written a block ends itself. The worker on the machine that is lost
    has written its part and waits for the end; the others wait until it has come so far.
    """

    def __init__(self, path, *, node, folder):
        super().__init__(path)
        self.node = node
        self.killed, self.reached = f"{folder}/killed", f"{folder}/reached"

    def write(self, blocks, ctx):
        """Writes a part, if nothing happens."""
        is_lost = ray.get_runtime_context().get_node_id() == self.node
        written = super().write(blocks if is_lost else self.dying(blocks), ctx)
        if is_lost:
            Path(self.reached).touch()
            time.sleep(LATEST)
        return written

    def dying(self, blocks):
        """Blocks; the first worker dies when it has written one."""
        for number, block in enumerate(blocks):
            if number:
                with suppress(FileExistsError):
                    os.close(os.open(self.killed, os.O_CREAT | os.O_EXCL))
                    os.kill(os.getpid(), signal.SIGKILL)
            yield block
        deadline = time.monotonic() + LATEST
        while not os.path.exists(self.reached) and time.monotonic() < deadline:
            time.sleep(0.02)


def test_a_machine_is_lost_while_it_writes(s3, train, ray_cluster, tmp_path, monkeypatch):
    """A worker is killed and a machine lost between two blocks and behind a part that is written.

    The set in the store has every row once, with the bytes that it has without the loss, and
    nothing else is there.
    """
    for path in sorted(Path(train).parent.glob("train-*")):
        s3.put(f"in/{path.name}", path.read_bytes())
    inputs = s3.keys()
    context = ray.data.DataContext.get_current()
    monkeypatch.setattr(context, "target_max_block_size", 20_000)
    monkeypatch.setattr(context.execution_options, "preserve_order", True)
    dataset = ferry_ray.read(s3.url("in/train@4.tfrecord"), override_num_blocks=4)
    plain = ferry_ray.Sink(s3.url("plain/out.tfrecord"))
    dataset.write_datasink(plain)
    node = ray_cluster.add()
    sink = LosingSink(s3.url("out/out.tfrecord"), node=node.node_id, folder=tmp_path)
    with meanwhile(lambda: os.path.exists(sink.reached), lambda: ray_cluster.lose(node)) as removed:
        dataset.write_datasink(sink)

    assert removed
    assert os.path.exists(sink.killed)
    assert sink.count == 4000
    assert ids_of(s3.url("out/out.tfrecord@*")) == list(range(4000))
    keys = [path.removeprefix(s3.url("")) for path in (*plain.paths, *sink.paths)]
    assert sorted(s3.keys()) == sorted([*inputs, *keys])
    for key in keys[4:]:
        assert s3.get(key) == s3.get(key.replace("out/", "plain/"))
    assert s3.uploads() == 0
