"""Listing: repeated layers, slots of optimizers, and trees."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tensorferry.operations.list import collapse, collapse_names, grow, is_optimizer, natural
from tensorferry.operations.names import is_match
from tensorferry.tensors.values import TensorInfo


def infos(*names: str) -> list[TensorInfo]:
    return [TensorInfo(name, "float32", (2, 3), 24) for name in names]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.0", "a.1", "a.2"], ["a.{0..2}"]),
        (["a.0", "a.2"], ["a.{0,2}"]),
        (["a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"], ["a.{0..1}.b.{0..1}"]),
        (["a.0.b.0", "a.0.b.1", "a.1.b.0"], ["a.0.b.0", "a.0.b.1", "a.1.b.0"]),
        (["layer_01", "layer_02", "x"], ["layer_{01..02}", "x"]),
        (["a.0", "a.2", "a.3", "a.4"], ["a.{0,2..4}"]),
        ([f"a.{n * n}" for n in range(40)], ["a.*"]),
        (["a.08", "a.09", "a.10"], ["a.{08..10}"]),
        (["w", "b"], ["w", "b"]),
        (["a" + "1" * 5000, "a" + "2" * 5000], ["a" + "1" * 5000, "a" + "2" * 5000]),
    ],
)
def test_ranges(names, expected):
    """Names that differ in numbers are one, if the numbers are all combinations of some."""
    assert [entry.name for entry in collapse(infos(*names))] == expected
    assert collapse_names(names) == expected


@given(st.lists(st.text("ab0123./", min_size=1, max_size=12), unique=True, max_size=30))
def test_nothing_is_lost(names):
    """Whatever the names, all tensors and bytes are counted, in lists and trees."""
    entries, nodes = collapse(infos(*names)), grow(infos(*names))

    assert sum(entry.count for entry in entries) == len(names)
    assert sum(node.nbytes for node in nodes) == 24 * len(names)
    assert sum(node.tensors for node in nodes) == len(names)


@given(st.lists(st.text("a019./", min_size=1, max_size=8), unique=True, max_size=30))
def test_listed_names_are_patterns(names):
    """What is listed for some tensors is a pattern that all of them fit."""
    for entry in collapse(infos(*names)):
        assert sum(is_match(name, [entry.name]) for name in names) >= entry.count


def test_long_numbers():
    """Names of thousands of digits are sorted as text."""
    names = ["a10", "a9", "a" + "1" * 5000]
    assert sorted(names, key=natural) == ["a9", "a10", "a" + "1" * 5000]
    assert len(grow(infos(*names))) == 2


def test_deep_names():
    """A name of many steps is no deep tree."""
    assert len(grow(infos("a/" * 100_000, "b"))) == 2


def test_other_shapes_are_other_entries():
    """Only tensors of one dtype and shape are collapsed."""
    mixed = [*infos("a.0", "a.1"), TensorInfo("a.2", "float32", (4,), 16)]

    assert [entry.name for entry in collapse(mixed)] == ["a.{0..1}", "a.2"]


def test_optimizers():
    """Names of slots in TensorFlow, Keras and PyTorch; not of layers that sound like them."""
    assert all(
        map(
            is_optimizer,
            ["w/.OPTIMIZER_SLOT/m", "optimizer/iter", "dense/kernel/Adam_1", "state.0.exp_avg"],
        )
    )
    assert not any(map(is_optimizer, ["madam/kernel", "encoder/kernel", "momentums"]))


def test_natural():
    """Layer 2 comes before layer 10."""
    assert sorted(["a10", "a2", "a"], key=natural) == ["a", "a2", "a10"]
