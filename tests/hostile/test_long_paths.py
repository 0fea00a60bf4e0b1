"""A long name with many behind it.

Paths share all but their ends: a small file could ask for gigabytes of them, and for the time to
make, sort and show them.
"""

from __future__ import annotations

import json
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from tables import element, parquet_of

import tensorferry as ferry

LONG = "k" * 60_000
MANY = 3000


@contextmanager
def refused():
    """A small file is refused with few megabytes of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ferry.LimitError):
            yield
        assert tracemalloc.get_traced_memory()[1] < 120 << 20
    finally:
        tracemalloc.stop()


def arrow_struct(path):
    kind = pa.struct([(str(number), pa.int8()) for number in range(MANY)])
    schema = pa.schema([(LONG, kind)])
    with pa.ipc.new_file(path / "a.arrow", schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([None], kind)], schema=schema))
    return path / "a.arrow"


def json_lines(path):
    found = path / "a.jsonl"
    found.write_text(json.dumps({LONG: {str(number): number for number in range(MANY)}}) + "\n")
    return found


def json_tensors(path):
    tensor = {"$type": "tensor", "dtype": "int32", "shape": [], "values": 1}
    found = path / "a.json"
    found.write_text(json.dumps({LONG: {str(number): tensor for number in range(MANY)}}))
    return found


def structure(path):
    found = path / "a.structure"
    tensors = {str(number): np.int32(number) for number in range(MANY)}
    found.write_bytes(ferry.dumps({LONG: tensors}, format="structure"))
    return found


def parquet(path):
    found = path / "a.parquet"
    leaves = [element(b"x%d" % number) for number in range(MANY)]
    root, group = element(b"schema", 1), element(LONG.encode(), MANY)
    found.write_bytes(parquet_of([root, group, *leaves]))
    return found


@pytest.mark.parametrize("make", [arrow_struct, json_lines, json_tensors, structure, parquet])
def test_long_name_with_many_behind_it(tmp_path, make):
    """Nobody lists, verifies or opens such a file at the price of all its paths."""
    path = make(tmp_path)
    assert path.stat().st_size < 1_000_000
    with refused():
        ferry.inspect(path).to_json()
    with refused(), ferry.open(path) as opened:
        list(opened.infos() if hasattr(opened, "infos") else opened.schema)
    assert not ferry.verify(path).sound


def test_parquet_that_nests():
    """Groups in groups: refused here, and not only by those versions of PyArrow that count them."""
    groups = [element(b"g", 1) for _ in range(2000)]
    data = parquet_of([element(b"schema", 1), *groups, element(b"x")])
    with pytest.raises(ferry.LimitError, match="nests deeper than 100"):
        ferry.loads(data, format="parquet")


def test_features_of_a_dataset(tmp_path):
    """The names of features.json are joined, too."""
    scalar = {
        "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
        "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
    }

    def features(inner):
        name = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
        return {"pythonClassName": name, "featuresDict": {"features": inner}}

    tree = features({LONG: features({str(number): scalar for number in range(MANY)})})
    (tmp_path / "features.json").write_text(json.dumps(tree))
    ferry.save([{"a": np.int64(1)}], tmp_path / "a.tfrecord")
    with refused(), ferry.open(tmp_path / "a.tfrecord", schema=tmp_path / "features.json") as rows:
        len(rows)


def test_paths_that_are_usual(tmp_path):
    """Many tensors in groups of groups with names of their own are no such file."""
    tensors = {
        f"block_{block}": {f"layer_{n:04}": {"kernel": np.zeros(1)} for n in range(500)}
        for block in range(40)
    }
    for name in ("a.json", "a.structure"):
        ferry.save(tensors, tmp_path / name)
        with ferry.open(tmp_path / name) as opened:
            assert len(opened.infos()) == 20_000
