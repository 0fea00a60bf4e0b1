"""Layouts: how a structure is made of named tensors.

Files of named tensors have a flat list of them. A layout is what is missing to a structure: its
nesting, and its plain Python values. It is JSON in the typed form of
`tensorferry.formats.json.typed`, in which a tensor is only named:

    {"value": {"$type": "tuple", "values": [{"$type": "tensor", "name": "0"}, null]}}

A tensor's name is its place in the structure, as in "decoder/layers/0/kernel". A dict of tensors is
just that, and needs no layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorferry.codecs.json_text import too_deep
from tensorferry.errors import FormatError
from tensorferry.tensors import tree as trees
from tensorferry.tensors.infos import ROOT as ROOT
from tensorferry.tensors.values import Tensor

# Of a tensor that is the whole value.
WHOLE = {"value": {trees.TYPE: "tensor", "name": ROOT}}

Layout = dict[str, Any] | None


def flatten(value: Any) -> tuple[dict[str, Tensor], Layout]:
    """The tensors of a value by name, and its layout; None for a dict of tensors.

    Raises:
        UnsupportedError: Something in it is neither a tensor nor a structure nor a plain value.
        LimitError: It nests deeper than `limits.depth`, or contains itself.
    """
    tensors: dict[str, Tensor] = {}

    def take(tensor: Tensor, place: str) -> dict[str, Any]:
        name = stem = place or ROOT
        number = 1
        while name in tensors:  # {"a/b": ..., "a": {"b": ...}}
            number += 1
            name = f"{stem}_{number}"
        tensors[name] = tensor
        return {trees.TYPE: "tensor", "name": name}

    tree = trees.to_tree(value, take)
    is_plain = isinstance(value, dict) and list(value) == list(tensors)
    return tensors, None if is_plain else {"value": tree}


def rebuild(layout: Layout, tensors: Mapping[str, Tensor]) -> Any:
    """The value of a layout.

    Raises:
        FormatError: It is no layout of these tensors.
    """
    if layout is None:
        return dict(tensors)
    if layout.keys() != {"value"}:
        raise FormatError("a layout has one field, its value")
    left = set(tensors)

    def find(node: dict[str, Any], decode: trees.Decode) -> Tensor:
        name = node.get("name")
        if node.keys() != {trees.TYPE, "name"} or not isinstance(name, str):
            raise FormatError("a tensor of the layout has other fields than its name")
        if name not in tensors:
            raise FormatError("the layout has a tensor that the file lacks", tensor=name[:60])
        left.discard(name)
        return tensors[name]

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
