"""Infos of many tensors are those that `TensorInfo` itself would be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tensorferry.tensors.infos import TensorInfo, infos_of


def test_infos_of_many():
    """Each is an ordinary one: equal, of the same text, and frozen."""
    facts = [("a", "float32", (2, 3), 24), ("b", "int64", (), 8), ("c", "string", (2,), 9)]
    first, second = TensorInfo(*facts[0]), TensorInfo(*facts[1], origin={"aliases": ("d",)})
    third = TensorInfo(*facts[2], kind="string")

    infos = infos_of(facts, {"b": "d", "c": "c"})

    assert infos == {"a": first, "b": second, "c": third}
    assert [repr(info) for info in infos.values()] == [repr(first), repr(second), repr(third)]
    with pytest.raises(FrozenInstanceError):
        infos["a"].name = "b"  # type: ignore[misc]
