"""Name maps: the names that the user gives for variables in a file, and transforms of tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from tensorferry import frameworks
from tensorferry.errors import MismatchError
from tensorferry.tensors.values import Array

# "transpose", an order of axes, or a function of the array.
Transform = str | Sequence[int] | Callable[[Array], Any]
Mapped = str | tuple[str, Transform] | None
NameMap = Mapping[str, Mapped] | Callable[[str], Mapped] | Sequence[tuple[str, str]]


def as_function(given: NameMap, variables: Mapping[str, Sequence[str]]) -> Callable[[str], Mapped]:
    """A name map as a function from a variable's name to the tensor's.

    Args:
        given: The name map of the user.
        variables: All names of each variable, by the variable's own name.

    Raises:
        MismatchError: The map names a variable that the model does not have.
    """
    if callable(given):
        return given
    if isinstance(given, Mapping):
        owners = {other: name for name, names in variables.items() for other in names}
        owners |= {name: name for name in variables}
        owners |= _endings([name for name in given if name not in owners], variables)
        unknown = [name for name in given if name not in owners]
        if unknown:
            near = get_close_matches(unknown[0], list(owners), 1, 0.4)
            raise MismatchError(
                "map names a variable that the model does not have",
                tensor=unknown[0],
                hint=f"nearest is {near[0]}" if near else None,
            )
        said = {owners[name]: mapped for name, mapped in given.items()}
        return said.get
    pairs = [(re.compile(pattern), replacement) for pattern, replacement in given]

    def rename(name: str) -> Mapped:
        renamed = name
        for pattern, replacement in pairs:
            renamed = pattern.sub(replacement, renamed)
        return None if renamed == name else renamed

    return rename


def _endings(given: Sequence[str], variables: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The variables that a given name is the end of, where there is one: `dense/kernel`."""
    found = {}
    for ending in given:
        owners = [name for name in variables if name.endswith((f"/{ending}", f".{ending}"))]
        if len(owners) == 1:
            found[ending] = owners[0]
    return found


def transformed(value: Array, transform: Transform, name: str) -> Array:
    """A tensor after the user's transform.

    Raises:
        MismatchError: The transform is none, or does not fit the tensor.
    """
    if callable(transform):
        return np.asarray(frameworks.accept(transform(value)))
    if isinstance(transform, str) and transform != "transpose":
        raise MismatchError(
            f"the transform is {transform!r}, expected 'transpose', axes or a function", tensor=name
        )
    try:
        return np.transpose(value, None if isinstance(transform, str) else tuple(transform))
    except ValueError as error:
        raise MismatchError(
            f"{transform} are no axes of its tensor: {error}", tensor=name
        ) from None
