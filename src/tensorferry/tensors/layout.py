"""Layouts: how named tensors form a structure.

A file of named tensors is a flat list. A layout adds what the list lacks: the nesting of the
structure, and its plain Python values. A layout is JSON in the typed form of
`tensorferry.formats.json.typed`, with the name of each tensor in place of its values:

    {"value": {"$type": "tuple", "values": [{"$type": "tensor", "name": "0"}, null]}}

The name of a tensor is its place in the structure, such as "decoder/layers/0/kernel". A tensor with
"list": true was a list of numbers, and is rebuilt as one. A flat dict of tensors needs no layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.budget import PATH, room_for_paths
from tensorferry.codecs.json_text import too_deep
from tensorferry.errors import FormatError, LimitError
from tensorferry.tensors import tree as trees
from tensorferry.tensors.infos import ROOT as ROOT
from tensorferry.tensors.values import Array, Tensor

# The layout of a value that is one tensor.
WHOLE = {"value": {trees.TYPE: "tensor", "name": ROOT}}

Layout = dict[str, Any] | None


def flatten(value: Any, *, lists: list[Array] | None = None) -> tuple[dict[str, Tensor], Layout]:
    """The tensors of a value by name, and its layout, which is None for a flat dict of tensors.

    Args:
        value: A tensor or a structure.
        lists: If given, the lists of numbers among the entries of a dict are tensors too, and are
            appended here.

    Raises:
        UnsupportedError: A leaf is neither a tensor nor a plain value.
        LimitError: The value nests deeper than `limits.depth`, or contains itself; or a long key
            has very many tensors behind it.
    """
    tensors: dict[str, Tensor] = {}
    characters = 0

    def take(tensor: Tensor, place: str) -> dict[str, Any]:
        nonlocal characters
        characters += len(place)
        if characters > room_for_paths(PATH * len(tensors)):
            raise LimitError(
                f"the names of {len(tensors)} tensors have {characters} characters",
                tensor=place[:60],
                hint="shorter keys of the structure: each stands in all names behind it",
            )
        name = stem = place or ROOT
        number = 1
        while name in tensors:  # {"a/b": ..., "a": {"b": ...}}
            number += 1
            name = f"{stem}_{number}"
        tensors[name] = tensor
        return {trees.TYPE: "tensor", "name": name}

    listed: dict[str, Array] = {}
    if lists is not None and isinstance(value, dict) and trees.is_object(value):
        for name, entry in value.items():
            array = array_of_numbers(entry) if _is_uniform_list(entry) else None
            if array is not None:
                listed[name] = array
        lists += listed.values()
    tree = trees.to_tree({**value, **listed} if listed else value, take)
    for name in listed:
        tree[name]["list"] = True
    is_plain = not listed and isinstance(value, dict) and list(value) == list(tensors)
    return tensors, None if is_plain else {"value": tree}


def rebuild(layout: Layout, tensors: Mapping[str, Tensor], *, lists: bool = True) -> Any:
    """The value that a layout and its tensors form.

    Args:
        layout: As `flatten` gave it.
        tensors: By name.
        lists: Whether tensors that were lists of numbers become lists again.

    Raises:
        FormatError: The layout is malformed, or does not fit the tensors.
    """
    if layout is None:
        return dict(tensors)
    if layout == WHOLE and tensors.keys() == {ROOT}:
        return tensors[ROOT]
    if layout.keys() != {"value"}:
        raise FormatError("a layout has one field, its value")
    left = set(tensors)

    def find(node: dict[str, Any], decode: trees.Decode) -> Any:
        name, listed = node.get("name"), node.get("list", False)
        if not node.keys() <= {trees.TYPE, "name", "list"} or not isinstance(name, str):
            raise FormatError("a tensor of the layout has other fields than its name")
        if name not in tensors:
            raise FormatError("the layout has a tensor that the file lacks", tensor=name[:60])
        left.discard(name)
        tensor = tensors[name]
        return tensor.tolist() if lists and listed and isinstance(tensor, np.ndarray) else tensor

    try:
        value = trees.from_tree(layout["value"], find)
    except RecursionError:
        raise too_deep() from None
    if left:
        raise FormatError(
            f"the layout says nothing of {len(left)} tensors of the file",
            tensor=min(left)[:60],
            hint="tensorferry.open(path) has all of them; another program may have added some",
        )
    return value


def array_of_numbers(value: Any) -> Array | None:
    """A Python number, or lists of numbers of equal lengths, as NumPy's array; None for others."""
    if not _are_numbers(value):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths are a structure
        return None
    # An integer of 70 bits has no dtype.
    return array if array.dtype in dtypes.BY_NUMPY and array.dtype != object else None


def _are_numbers(value: Any) -> bool:
    """Whether a value is a Python number, or lists of numbers in any depth, and not empty."""
    if value.__class__ in (list, tuple):
        return bool(value) and all(map(_are_numbers, value))
    return isinstance(value, bool | int | float | complex)


def _is_uniform_list(value: Any) -> bool:
    """Whether a value is lists of numbers of one type, which survive a trip through an array."""
    return value.__class__ is list and len(set(_types(value))) == 1


def _types(value: Any) -> Iterator[type]:
    if value.__class__ is list:
        for element in value:
            yield from _types(element)
    else:
        yield type(value)
