"""Infos of many tensors are those that `TensorInfo` itself would be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tensorferry.tensors.infos import TensorInfo, infos_of


def test_infos_of_many():
    """Each is an ordinary one: equal, of the same text, and frozen."""
    facts = [("a", "float32", (2, 3), 24), ("b", "int64", (), 8)]
    first, second = TensorInfo(*facts[0]), TensorInfo(*facts[1], origin={"aliases": ("c",)})

    infos = infos_of(facts, {"b": "c"})

    assert infos == {"a": first, "b": second}
    assert [repr(info) for info in infos.values()] == [repr(first), repr(second)]
    with pytest.raises(FrozenInstanceError):
        infos["a"].name = "b"  # type: ignore[misc]
