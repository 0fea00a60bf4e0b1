"""Counterparts: renamed tensors by their content, and rows that differ."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import UnsupportedError
from tensorferry.operations.counterparts import counterparts
from tensorferry.operations.diff import compare_each
from tensorferry.operations.row_pairs import RowPair, differing_rows, same
from tensorferry.operations.subject import open_one


def saved(path, value):
    ferry.save(value, path)
    return path


def test_renamed(tmp_path):
    """A tensor under another name is found by its values; equal shapes alone are not enough."""
    kernel, bias = np.arange(6.0).reshape(2, 3), np.ones(3)
    a = saved(
        tmp_path / "a.npz", {"same": bias, "kernel": kernel, "twice": bias, "gone": kernel + 1}
    )
    b = saved(
        tmp_path / "b.safetensors", {"same": bias * 2, "w": kernel, "one": bias, "new": kernel * 3}
    )
    with open_one(a) as first, open_one(b) as second:
        found = counterparts(first, second)
        blind = counterparts(first, second, by_content=False)

    assert found.same == ("same",)
    assert found.renamed == {"kernel": "w", "twice": "one"}
    assert (found.only_a, found.only_b) == (("gone",), ("new",))
    assert blind.only_a == ("kernel", "twice", "gone")


def test_one_by_one(tmp_path):
    """Tensors are compared one by one, with the length of the difference beside the old one."""
    a = saved(tmp_path / "a.npz", {"x": np.array([3.0, 4.0]), "y": np.ones(3), "z": np.zeros(2)})
    b = saved(tmp_path / "b.npz", {"x": np.array([3.0, 9.0]), "y": np.ones(3), "z": np.ones(2)})
    with open_one(a) as first, open_one(b) as second:
        found = {
            each.name: each
            for each in compare_each(
                first, second, dict.fromkeys("xyz") | {"x": "x", "y": "y", "z": "z"}
            )
        }

    assert found["x"].relative == pytest.approx(1.0)
    assert found["y"].relative == 0.0
    assert found["z"].relative is None
    assert [found[name].equal for name in "xyz"] == [False, True, False]


def rows(path, **columns):
    with ferry.writer(path) as writer:
        writer.write_batch(columns)
    return path


def test_rows(tmp_path):
    """Rows that differ, by position and by key, and those that only one file has."""
    a = rows(tmp_path / "a.tfrecord", id=np.array([1, 2, 3, 4]), x=np.array([1.0, 2, np.nan, 4]))
    b = rows(
        tmp_path / "b.parquet", id=np.array([1, 3, 2, 5, 6]), x=np.array([1.0, np.nan, 7, 5, 6])
    )
    with open_one(a) as first, open_one(b) as second:
        by_place = list(differing_rows(first, second))
        by_key = list(differing_rows(first, second, key="id"))
        with pytest.raises(UnsupportedError):
            list(differing_rows(first, second, key="none"))

    assert by_place == [
        RowPair(1, 1, ("id", "x")),
        RowPair(2, 2, ("id", "x")),
        RowPair(3, 3, ("id", "x")),
        RowPair(None, 4),
    ]
    assert by_key == [
        RowPair(1, 2, ("x",)),
        RowPair(3, None),
        RowPair(None, 3),
        RowPair(None, 4),
    ]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (None, None, True),
        (None, 1, False),
        (b"a", b"a", True),
        (np.nan, np.float32("nan"), True),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array([1, 2]), np.array([1, 2, 3]), False),
        ([np.ones(2)], [np.ones(2)], True),
        (ferry.RaggedTensor.from_rows([[1], []]), ferry.RaggedTensor.from_rows([[1], [2]]), False),
    ],
)
def test_same(left, right, expected):
    """What counts as the same value of two rows."""
    assert same(left, right) is expected
