"""The small parts of conversion: casting, slices of columns, names."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import UnsupportedError
from tensorferry.operations.convert import casting
from tensorferry.operations.names import Renaming
from tensorferry.rows.columns import batches_of


def test_casting():
    """Floats become floats, integers integers; strings, bools and quantized kinds stay."""
    half = casting.parse("float16")
    ragged = ferry.RaggedTensor(np.arange(3, dtype=np.float32), (np.array([0, 1, 3]),))

    assert casting.cast(np.ones(2, np.float64), half, name="x").dtype == np.float16
    assert casting.cast(ragged, half, name="x").dtype == np.float16
    assert casting.cast(np.array([np.inf, np.nan]), half, name="x").dtype == np.float16
    for other in (np.ones(2, np.int32), np.ones(2, bool), np.array([b"a"], object)):
        assert casting.cast(other, half, name="x") is other
    with pytest.raises(UnsupportedError, match="70000"):
        casting.cast(np.array([1.0, 70000.0]), half, name="x")
    with pytest.raises(UnsupportedError, match="300"):
        casting.cast(np.array([1, 300]), casting.parse("uint8"), name="x")
    with pytest.raises(UnsupportedError, match="-1"):
        casting.cast(np.array([-1]), casting.parse("uint64"), name="x")
    with pytest.raises(UnsupportedError, match="18446744073709551615"):
        casting.cast(np.array([2**64 - 1], np.uint64), casting.parse("int64"), name="x")
    assert casting.cast(np.array([-8, 7]), casting.parse("int4"), name="x").tolist() == [-8, 7]


def test_slices():
    """Pieces of columns of every kind are their rows."""
    dense = np.arange(10).reshape(5, 2) % 3
    columns = {
        "dense": dense,
        "ragged": ferry.RaggedTensor.from_rows([[[1], []], [], [[2, 3]], [[4]], [[], [5]]]),
        "sparse": ferry.SparseTensor.from_dense(dense),
        "list": [np.zeros(n) for n in range(5)],
    }
    batches = list(batches_of(columns, 2))

    assert [len(batch["list"]) for batch in batches] == [2, 2, 1]
    rows = [row for batch in batches for row in batch["ragged"].to_list()]
    assert rows == columns["ragged"].to_list()
    assert np.array_equal(np.concatenate([b["sparse"].to_dense() for b in batches]), dense)


def test_names():
    """The first rule that fits counts; stars stand for what they matched, in their order."""
    renaming = Renaming.parse(["a/*/b/*=x.*.y.*", "a/*=z", "same=same"])

    assert renaming("a/1/b/2") == "x.1.y.2"
    assert renaming("a/1") == "z"
    assert renaming("other[*]") == "other[*]"
    assert not Renaming.parse(None)
    for wrong in (["a"], ["=b"], ["a=*"]):
        with pytest.raises(UnsupportedError):
            Renaming.parse(wrong)


def test_a_feature_that_comes_late(tmp_path):
    """A feature that only the last of many records has is not left out."""
    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(1500):
            out.write({"id": number, **({"late": 1} if number == 1499 else {})})
    report = ferry.convert(tmp_path / "a.tfrecord", tmp_path / "a.parquet", verify=True)

    assert report.verified
    with ferry.open(tmp_path / "a.parquet") as table:
        assert table[1499] == {"id": 1499, "late": 1}
        assert table[0] == {"id": 0, "late": None}


def test_a_stream_is_copied_as_it_is(tmp_path):
    """Records of a stream go over byte by byte, whatever is in them."""
    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(1500):
            out.write({"id": number, **({"late": 1} if number == 1499 else {})})
    with open(tmp_path / "a.tfrecord", "rb") as file:
        report = ferry.convert(file, tmp_path / "b.tfrecord")

    assert report.count == 1500
    assert (tmp_path / "a.tfrecord").read_bytes() == (tmp_path / "b.tfrecord").read_bytes()
