"""Infos of many tensors are those that `TensorInfo` itself would be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tensorferry.tensors.infos import TensorInfo, infos_of


def test_infos_of_many():
    """Each is an ordinary one: equal, of the same text, and frozen."""
    facts = [("float32", (2, 3), 24), ("int64", (), 8), ("string", (2,), 9)]
    first, third = TensorInfo("a", *facts[0]), TensorInfo("c", *facts[2], kind="string")
    second = TensorInfo("b", *facts[1], origin={"aliases": ("d",)})

    infos = infos_of("abc", facts, {"b": "d", "c": "c"})

    assert infos == {"a": first, "b": second, "c": third}
    assert [repr(info) for info in infos.values()] == [repr(first), repr(second), repr(third)]
    with pytest.raises(FrozenInstanceError):
        infos["a"].name = "b"  # type: ignore[misc]
