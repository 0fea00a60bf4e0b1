"""Structures as trees of JSON."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorferry as ferry
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


KEYS = st.text(max_size=2) | st.integers(-(2**63), 2**63 - 1)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 9)) | st.booleans()))
@pytest.mark.parametrize("format", ["json", "npz", "safetensors"])
def test_integers_as_keys(format, value):
    """Keys come back in their order and with their types: 1 and "1" are two."""
    value = {"tensor": np.arange(3), "value": value}
    found = ferry.loads(ferry.dumps(value, format=format), format=format)

    assert repr(found["value"]) == repr(value["value"])
    assert found["tensor"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("key", ["true", "null", "1.5", "[]", str(2**63)])
def test_keys_that_no_dict_has(key):
    """A dict of a file has texts and integers of 64 bits as keys, each once."""
    with pytest.raises(FerryError, match="no pair of a string or an integer and a value"):
        ferry.loads(b'{"$type":"dict","items":[[%s,2]]}' % key.encode(), format="json")
    with pytest.raises(FerryError, match="the key '7' more than once"):
        ferry.loads(b'{"$type":"dict","items":[[7,1],[7,2]]}', format="json")
