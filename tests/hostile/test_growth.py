"""Time is bounded by the size of a file: twice as many parts take twice the work, not four times.

Work is counted in lines of Python that run, each turn of a loop being one. Other tests bound what
native code does.
"""

from __future__ import annotations

import contextlib
import json
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format

import tensorferry as ferry
from tensorferry import storage
from tensorferry.codecs import leveldb, textproto
from tensorferry.formats import jsonlines
from tensorferry.formats.checkpoint import entries, index as indexes, slices
from tensorferry.formats.checkpoint.messages import WRITER
from tensorferry.formats.checkpoint.tensors import TensorReader
from tensorferry.rows.rows import Rows

SMALL = 120
"""Number of parts of the smaller file."""


def parquet_columns(path, count):
    name = path / "a.parquet"
    pq.write_table(pa.table({f"c{n}": [1, None] for n in range(count)}), name)
    return name


def parquet_lists(path, count):
    name = path / "a.parquet"
    pq.write_table(pa.table({f"c{n}": [[1], None] for n in range(count)}), name)
    return name


def parquet_nulls(path, count):
    name = path / "a.parquet"
    pq.write_table(pa.table({f"c{n}": [[1, None]] for n in range(count)}), name)
    return name


def parquet_structs(path, count):
    name = path / "a.parquet"
    pq.write_table(pa.table({f"c{n}": [{"x": 1, "y": 2}] for n in range(count)}), name)
    return name


def parquet_groups(path, count):
    name = path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(count)}), name, row_group_size=1)
    return name


def arrow_columns(path, count):
    name = path / "a.arrow"
    ferry.save(pa.table({f"c{n}": ["x", "y"] for n in range(count)}), name)
    return name


def csv_columns(path, count):
    name = path / "a.csv"
    row = ",".join(["1"] * count)
    name.write_text(",".join(f"c{n}" for n in range(count)) + f"\n{row}\n{row}\n")
    return name


def json_lines_columns(path, count):
    name = path / "a.jsonl"
    name.write_text(json.dumps({f"c{n}": {"x": n} for n in range(count)}) + "\n")
    return name


def json_lines_lists(path, count):
    name = path / "a.jsonl"
    name.write_text(json.dumps({f"c{n}": [[1, 2], [3]] for n in range(count)}) + "\n")
    return name


def json_objects(path, count):
    name = path / "a.json"
    name.write_text(json.dumps([{} for _ in range(count)]))
    return name


def json_keys(path, count):
    name = path / "a.json"
    name.write_text(json.dumps({f"c{n}": n for n in range(count)}))
    return name


def safetensors(path, count):
    name = path / "a.safetensors"
    ferry.save({f"layer.{n}.weight": np.ones(2, np.float32) for n in range(count)}, name)
    return name


def safetensors_shards(path, count):
    name = path / "a.safetensors"
    ferry.save({f"layer.{n}": np.float32(n) for n in range(count)}, name, shard_size=4)
    return path / "a.safetensors.index.json"


def npz(path, count):
    name = path / "a.npz"
    np.savez_compressed(name, **{f"c{n}": np.ones(2, np.float32) for n in range(count)})
    return name


def checkpoint(path, count):
    name = path / "model.ckpt"
    ferry.save({f"layer/{n}": np.float32(n) for n in range(count)}, name, format="checkpoint")
    return name


def checkpoint_slices(path, count):
    halves = [((0, 1),), ((1, 1),)]
    whole = WRITER.encode(
        "BundleEntryProto",
        dtype=1,
        shape={"dim": [{"size": 2}]},
        slices=[{"extent": [{"start": start, "length": 1}]} for ((start, _),) in halves],
    )
    half = WRITER.encode("BundleEntryProto", dtype=1, shape={"dim": [{"size": 1}]}, size=4)
    table = {b"": entries.encode_header(1)}
    for number in range(count):
        name = b"v%06d" % number
        table[name] = whole
        for half_number, extents in enumerate(halves):
            place = WRITER.encode("BundleEntryProto", offset=8 * number + 4 * half_number)
            checksum = WRITER.encode("BundleEntryProto", crc32c=0)
            table[slices.key(name, extents)] = half + place + checksum
    keys = sorted(table)
    with storage.open_sink(str(path / "model.ckpt.index")) as sink:
        leveldb.write(keys, [table[key] for key in keys], sink)
    (path / "model.ckpt.data-00000-of-00001").write_bytes(bytes(8 * count))
    return path / "model.ckpt"


def hdf5(path, count):
    name = path / "a.h5"
    with h5py.File(name, "w") as file:
        for number in range(count):
            file.create_group(f"g{number}").create_dataset("d", data=np.float32(number))
    return name


def keras(path, count):
    name = path / "a.keras"
    layers = [
        {"module": "keras.layers", "class_name": "Dense", "config": {"name": f"d{n}", "units": 1}}
        for n in range(count)
    ]
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": layers}}
    with h5py.File(path / "weights.h5", "w") as file:
        file.create_group("layers")
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("metadata.json", '{"keras_version": "3.8.0"}')
        archive.write(path / "weights.h5", "model.weights.h5")
    return name


def examples(path, count):
    name = path / "a.tfrecord"
    ferry.save([{f"c{n}": np.int64(n) for n in range(count)}] * 2, name)
    return name


def _model(path, graph):
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    graph(model.meta_graphs.add().graph_def)
    return model


def model_functions(path, count):
    def fill(graph):
        for number in range(count):
            function = graph.library.function.add()
            function.signature.name = f"f{number}"
            function.node_def.add(name="n", op=f"f{number + 1}")

    (path / "saved_model.pb").write_bytes(_model(path, fill).SerializeToString())
    return path


def _fill_nodes(count):
    def fill(graph):
        for number in range(count):
            graph.node.add(name=f"n{number}", op="NoOp")

    return fill


def model_text(path, count):
    text = text_format.MessageToString(_model(path, _fill_nodes(count)))
    (path / "saved_model.pbtxt").write_text(text)
    return path


SHAPES = [
    parquet_columns,
    parquet_lists,
    parquet_nulls,
    parquet_structs,
    parquet_groups,
    arrow_columns,
    csv_columns,
    json_lines_columns,
    json_lines_lists,
    json_objects,
    json_keys,
    safetensors,
    safetensors_shards,
    npz,
    checkpoint,
    checkpoint_slices,
    hdf5,
    keras,
    examples,
    model_functions,
    model_text,
]


def first_row(path):
    with ferry.open(path) as opened:
        return opened[:1] if isinstance(opened, Rows) else None


OPERATIONS = {
    "inspect": lambda path: str(ferry.inspect(path)),
    "verify": lambda path: str(ferry.verify(path)),
    "diff": lambda path: str(ferry.diff(path, path)),
    "stats": lambda path: str(ferry.stats(path)),
    "open": lambda path: ferry.open(path).close(),
    "head": first_row,
    "convert": lambda path: ferry.convert(path, f"{path}.parquet"),
}


def lines_of(call, *arguments):
    """Number of lines of Python that a call runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(ferry.FerryError):
            call(*arguments)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_parts_twice_the_work(shape, tmp_path):
    """Twice as many columns, tensors, layers, nodes or functions take about twice the work."""
    paths = []
    for parts in (2, SMALL, 2 * SMALL):
        folder = tmp_path / str(parts)
        folder.mkdir()
        paths.append(shape(folder, parts))

    for name, run in OPERATIONS.items():
        with contextlib.suppress(ferry.FerryError):
            run(paths[0])  # which imports what is needed
        once, twice = (lines_of(run, path) for path in paths[1:])
        assert twice < 2.4 * once, name


def test_text_is_parsed_once(tmp_path, monkeypatch):
    """A model as text is parsed once: not for its variables, its graph and its assets each."""
    parse = textproto.parse
    calls = []
    monkeypatch.setattr(textproto, "parse", lambda text: calls.append(text) or parse(text))

    assert ferry.verify(model_text(tmp_path, 3)).sound
    assert len(calls) == 1


@pytest.mark.parametrize("run", [first_row, OPERATIONS["stats"]])
def test_lines_are_not_parsed_for_each_column(run, tmp_path, monkeypatch):
    """JSON Lines of many lists are parsed a few times, and not once for each column."""
    parse = jsonlines.Reader._parse
    calls = []
    monkeypatch.setattr(
        jsonlines.Reader, "_parse", lambda *given: calls.append(given) or parse(*given)
    )

    run(json_lines_lists(tmp_path, 40))

    assert len(calls) < 10


def test_slices_are_found_without_a_list_of_all_keys(tmp_path):
    """The keys of a checkpoint are listed twice, and not for each variable that is in slices."""

    class Keys(list):
        listed = 0

        def __iter__(self):
            self.listed += 1
            return super().__iter__()

    path = checkpoint_slices(tmp_path, 5).with_suffix(".ckpt.index")
    index = indexes.read_content(path.read_bytes(), str(path))
    index.keys = Keys(index.keys)

    assert len(TensorReader(index, {}, verify=False).visible()) == 5
    assert index.keys.listed <= 2
