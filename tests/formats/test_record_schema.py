"""The schema of records: inferred, given, or in a file beside the data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from formats.records import write

import tensorferry as ferry
from tensorferry.rows.schema import Feature


def test_types_are_of_all_first_records(tmp_path):
    """One value in the first row and several in the second: a ragged column for both."""
    rows = [{"x": [1]}, {"x": [1, 2]}, {"x": []}]
    records = ferry.open(write(tmp_path / "a", rows))

    assert records.schema["x"].shape == (None,)
    assert [batch["x"].to_list() for batch in records.batches(1)] == [[[1]], [[1, 2]], [[]]]


def test_a_row_that_breaks_the_inferred_schema(tmp_path):
    """What comes after the records that were looked at: named, with three ways out."""
    rows = [{"x": [1]}] * 1500
    one = write(tmp_path / "a.tfrecord", rows)
    two = write(tmp_path / "b.tfrecord", [{"x": [1]}, {"x": [1, 2]}, {"x": [3]}])

    with pytest.raises(ferry.FormatError, match="record 1: feature 'x' has 2 values") as caught:
        list(ferry.open([one, two]))
    assert caught.value.path == two
    assert "infer='all'" in caught.value.hint
    assert sum(len(b["x"]) for b in ferry.open([one, two], infer="all").batches()) == 1503
    schema = {"x": ("int64", (None,))}
    assert sum(len(b["x"]) for b in ferry.open([one, two], schema=schema).batches()) == 1503
    with ferry.open([one, two], on_error="skip", threads=2) as records:
        assert sum(len(batch["x"]) for batch in records.batches(100)) == 1502
        assert [(one.path, one.record) for one in records.damages] == [(two, 1)]


def test_infer_all_looks_at_all_tensors(tmp_path):
    """A shape that changes late is an open one with infer="all", and an error without."""
    rows = [{"x": np.zeros((2, 2))}] * 1200 + [{"x": np.zeros((3, 2))}]
    path = write(tmp_path / "a.tfrecord", rows)

    assert ferry.open(path, infer="all").schema["x"].shape == (None, 2)
    assert len(list(ferry.open(path, infer="all"))) == 1201
    with pytest.raises(ferry.FormatError, match=r"record 1200: .* shape \[3, 2\]"):
        list(ferry.open(path))


def test_schema_beside_the_data(path):
    """A schema in a file beside the data counts, for what it names."""
    feature = Feature("tokens", "int64", (None,), "int64")
    tree = ferry.open(path, schema={"tokens": feature}).schema.to_json()
    Path(path + ".schema.json").write_text(json.dumps(tree))

    assert list(ferry.open(path).schema) == ["tokens"]
    assert next(ferry.open(path).batches(4))["tokens"].to_list() == [[], [0], [0, 1], [0, 1, 2]]
