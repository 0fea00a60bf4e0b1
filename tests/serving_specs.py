"""Strategies for what names a model, and how the official message has it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

VERSIONS = st.one_of(
    st.just({}),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: {"version": number}),
    st.text(max_size=8).map(lambda label: {"version_label": label}),
)


@st.composite
def specs(draw: Any) -> dict[str, Any]:
    """The arguments that name a model, its signature and its version."""
    return {
        "model": draw(st.text(max_size=12)),
        "signature_name": draw(st.text(max_size=12)),
        **draw(VERSIONS),
    }


def fill(spec: Any, given: dict[str, Any]) -> None:
    """Sets an official ModelSpec."""
    if given["model"]:
        spec.name = given["model"]
    if given["signature_name"]:
        spec.signature_name = given["signature_name"]
    if "version" in given:
        spec.version.value = given["version"]
    if "version_label" in given:
        spec.version_label = given["version_label"]


def has_one_order(names: Iterable[str]) -> bool:
    """Whether all of protobuf's deterministic writers put a map with these keys in one order.

    Where one key starts with another, C++ writes the shorter one first, and Python the longer one.
    """
    ordered = sorted(names)
    return not any(after.startswith(before) for before, after in pairwise(ordered))


def names_same(message: Any, given: dict[str, Any]) -> bool:
    """Whether a message of ours names the model that was given."""
    return (message.model, message.signature_name, message.version, message.version_label) == (
        given["model"],
        given["signature_name"],
        given.get("version"),
        given.get("version_label"),
    )
