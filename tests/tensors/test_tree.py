"""Structures as trees of JSON."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from tensorferry import limits
from tensorferry.errors import FerryError
from tensorferry.tensors import tree as trees

SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=3),
    st.just("\ud800"),
)
NAMES = st.text(max_size=2) | st.just("$type") | st.just("\ud800")
TREES = st.recursive(
    SIMPLE, lambda inside: st.lists(inside) | st.dictionaries(NAMES, inside), max_leaves=12
)


def outcome(call, tree):
    """What a call gives, or the text of its error."""
    try:
        return repr(call(tree, lambda *given: "tensor"))
    except FerryError as error:
        return f"{error} {error.tensor}"


@given(TREES, st.integers(0, 4))
@pytest.mark.parametrize("call", [trees.from_tree, trees.to_tree])
def test_copies_are_what_the_parts_give(call, tree, depth):
    """A copy of a list or dict as a whole is what its parts give, and so are the errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "depth", depth)
        found = outcome(call, tree)
        patch.setattr(trees, "_copied", lambda node, depth: None)
        assert found == outcome(call, tree)


@pytest.mark.parametrize(
    "tree",
    [
        [{} for _ in range(1000)],
        [[] for _ in range(1000)],
        [{"a": 1.5, "b": "text", "c": None} for _ in range(1000)],
        {str(number): math.pi for number in range(1000)},
    ],
)
@pytest.mark.parametrize("name", ["_from_tree", "_to_tree"])
def test_plain_values_take_one_call(tree, name, monkeypatch):
    """Of a million lists or objects of plain values, none takes a call of its own."""
    calls = []
    original = getattr(trees, name)
    monkeypatch.setattr(trees, name, lambda *given: calls.append(given) or original(*given))
    call = trees.from_tree if name == "_from_tree" else trees.to_tree
    found = call(tree, lambda *given: None)

    assert found == tree
    assert found is not tree
    assert len(calls) == 1
