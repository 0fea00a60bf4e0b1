"""Trees: structures as plain JSON values, with a placeholder for each tensor.

None, booleans, integers, finite floats, strings, lists and dicts stand for themselves. Every other
value is an object with a "$type":

    tuple       values
    namedtuple  name, fields, values
    bytes       base64
    float       value: "nan", "inf" or "-inf"; or base64, for a NaN with other bits
    dict        items: pairs, for a dict with an integer or "$type" among its keys

The caller encodes and decodes tensors ("tensor", "sparse", "ragged"): the JSON format writes their
values, a layout (`tensorferry.tensors.layout`) only their names.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from tensorferry import limits
from tensorferry.codecs.json_text import (
    describe,
    from_base64,
    to_base64,
    to_utf8,
    too_deep,
    unique,
)
from tensorferry.errors import FormatError, LimitError, UnsupportedError
from tensorferry.tensors.values import (
    Place,
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    check_keys,
    is_key,
    is_namedtuple,
    make_namedtuple,
    path_of,
)

TYPE = "$type"
TENSORS = ("tensor", "sparse", "ragged")

_NAN = struct.pack("<d", math.nan)

# What may stand for itself.
_SIMPLE = frozenset((type(None), bool, int, float, str))

# Decodes a part of an object, given the part and its name, which errors show.
Decode = Callable[[Any, str | int], Any]

# Encode a tensor, given its place in the structure; decode the object that stands for it.
EncodeTensor = Callable[[Tensor, str], Any]
DecodeTensor = Callable[[dict[str, Any], Decode], Any]


def to_tree(value: Any, encode: EncodeTensor) -> Any:
    """A value as an object that `json.dumps` takes.

    Args:
        value: A tensor or structure.
        encode: Makes the object that stands for a tensor, given the tensor and its place.
    """
    return _to_tree(value, encode, None, limits.depth)


def _to_tree(value: Any, encode: EncodeTensor, place: Place, depth: int) -> Any:
    if type(value) in (list, dict) and (copied := _copied(value, depth)) is not None:
        return copied
    if isinstance(value, np.ndarray | np.generic):
        return encode(as_tensor(value), path_of(place))
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _encode_special(value)
    if isinstance(value, bytes):
        return {TYPE: "bytes", "base64": to_base64(value)}
    if isinstance(value, SparseTensor | RaggedTensor):
        return encode(value, path_of(place))
    if not isinstance(value, dict | list | tuple):
        raise UnsupportedError(
            f"{type(value).__name__} is no tensor, structure or plain value",
            hint="expected an array, a dict, list or tuple of them, or a Python scalar",
            tensor=path_of(place) or None,
        )
    if depth == 0:
        raise LimitError(f"the structure nests deeper than {limits.depth}, or contains itself")

    def below(element: Any, name: str | int) -> Any:
        return _to_tree(element, encode, (place, name), depth - 1)

    if isinstance(value, dict):
        check_keys(value, place)
        items = [[key, below(element, key)] for key, element in value.items()]
        return dict(items) if is_object(value) else {TYPE: "dict", "items": items}
    names = value._fields if is_namedtuple(value) else range(len(value))  # type: ignore[union-attr]
    elements = [below(element, name) for name, element in zip(names, value, strict=True)]
    if isinstance(value, list):
        return elements
    if not is_namedtuple(value):
        return {TYPE: "tuple", "values": elements}
    name, fields = type(value).__name__, value._fields  # type: ignore[attr-defined]
    try:
        make_namedtuple(name, fields)
    except FormatError as error:
        raise UnsupportedError(f"{name} could not be read again: {error.message}") from None
    return {TYPE: "namedtuple", "name": name, "fields": list(fields), "values": elements}


def is_object(value: dict[Any, Any]) -> bool:
    """Whether an object of JSON with the same keys stands for a dict."""
    return TYPE not in value and all(isinstance(key, str) for key in value)


def _encode_special(value: float) -> dict[str, str]:
    bits = struct.pack("<d", value)
    if math.isnan(value) and bits != _NAN:
        return {TYPE: "float", "base64": to_base64(bits)}
    return {TYPE: "float", "value": str(value)}


def from_tree(tree: Any, decode: DecodeTensor) -> Any:
    """The value of a tree.

    Args:
        tree: A tree, for example from `tensorferry.codecs.json_text.parse`.
        decode: Makes a tensor from the object that stands for it.
    """
    return _from_tree(tree, decode, limits.depth)


def _from_tree(node: Any, decode_tensor: DecodeTensor, depth: int) -> Any:
    kind = type(node)
    if kind is list:
        return _from_list(node, decode_tensor, depth)
    if kind is float and math.isinf(node):
        raise FormatError("a number is too large for a float")
    if kind is not dict:
        return _checked(node) if kind is str else node
    if depth <= 0 and node.get(TYPE, "dict") in ("dict", "tuple", "namedtuple"):
        raise too_deep()

    def decode(part: Any, name: str | int) -> Any:
        try:
            return _from_tree(part, decode_tensor, depth - 1)
        except FormatError as error:
            raise _inside(error, name) from None

    if TYPE in node:
        return build(node, decode, decode_tensor)
    if (copied := _copied(node, depth)) is not None:
        return copied
    return {_checked(key): decode(element, key) for key, element in node.items()}


def _from_list(node: list[Any], decode_tensor: DecodeTensor, depth: int) -> list[Any]:
    if depth <= 0:
        raise too_deep()
    found: list[Any] | None = _copied(node, depth)
    if found is not None:
        return found
    found = []
    try:
        for element in node:
            found.append(_from_tree(element, decode_tensor, depth - 1))
    except FormatError as error:
        raise _inside(error, len(found)) from None
    return found


def _copied(node: Any, depth: int) -> Any:
    """A list or dict of values that stand for themselves, or a list of these; None for any other.

    Millions of lists fit into a small file, and to go through them one by one takes seconds.
    """
    if type(node) is dict:
        return node.copy() if depth > 0 and _are_plain([node]) else None
    kinds = {*map(type, node)}
    if kinds <= _SIMPLE:
        return node.copy() if depth > 0 and _are_simple(node, kinds) else None
    if depth <= 1:
        return None
    if kinds == {list}:
        inside = [*chain.from_iterable(node)]
        return [*map(list.copy, node)] if _are_simple(inside, {*map(type, inside)}) else None
    return [*map(dict.copy, node)] if kinds == {dict} and _are_plain(node) else None


def _are_plain(dicts: list[dict[Any, Any]]) -> bool:
    """Whether dicts are no marks of a type, and hold nothing but simple values."""
    values = [*chain.from_iterable(map(dict.values, dicts))]
    if not _are_simple(values, {*map(type, values)}):
        return False
    names = {*chain.from_iterable(dicts)}
    return TYPE not in names and {*map(type, names)} <= {str} and all(map(str.isascii, names))


def _are_simple(values: list[Any], kinds: set[type]) -> bool:
    """Whether values of these kinds stand for themselves; text that is not ASCII may be damaged."""
    if not kinds <= _SIMPLE:
        return False
    if str in kinds and not all(value.isascii() for value in values if type(value) is str):
        return False
    return float not in kinds or all(map(math.isfinite, _floats_in(values)))


def _floats_in(values: list[Any]) -> Iterator[float]:
    return (value for value in values if type(value) is float)


def _inside(error: FormatError, name: str | int) -> FormatError:
    """The error with the name of what holds its tensor."""
    place = str(name)[:60]
    error.tensor = f"{place}/{error.tensor}" if error.tensor else place
    return error


def _checked(text: str) -> str:
    if not text.isascii():
        to_utf8(text)
    return text


def build(node: dict[str, Any], decode: Decode, decode_tensor: DecodeTensor) -> Any:
    """The value of an object with a "$type"."""
    name = node[TYPE]
    if isinstance(name, str) and name in TENSORS:
        return decode_tensor(node, decode)
    builder = _BUILDERS.get(name) if isinstance(name, str) else None
    if builder is None:
        found = repr(name[:60]) if isinstance(name, str) else describe(name)
        expected = ", ".join((*TENSORS, *_BUILDERS))
        raise FormatError(f'"{TYPE}" is {found}, expected one of {expected}')
    return builder(node, decode)


def fields(node: dict[str, Any], **types: type) -> list[Any]:
    """The fields of an object, checked: these and no others; `object` accepts any type."""
    if node.keys() != {TYPE, *types}:
        found = ", ".join(sorted(key[:60] for key in node if key != TYPE)[:8])
        raise FormatError(
            f"{node[TYPE]} has the fields {found or 'none'}; expected {', '.join(types)}"
        )
    for name, kind in types.items():
        if kind is not object and type(node[name]) is not kind:
            raise FormatError(
                f"{name!r} of {node[TYPE]} is {describe(node[name])}, expected {describe(kind())}"
            )
    return [node[name] for name in types]


def _build_tuple(node: dict[str, Any], decode: Decode) -> tuple[Any, ...]:
    (values,) = fields(node, values=list)
    return tuple(decode(value, index) for index, value in enumerate(values))


def _build_namedtuple(node: dict[str, Any], decode: Decode) -> tuple[Any, ...]:
    name, words, values = fields(node, name=str, fields=list, values=list)
    if len(words) != len(values) or not all(isinstance(word, str) for word in words):
        raise FormatError(
            f"namedtuple has {len(values)} values for {len(words)} fields, "
            "expected as many, and strings for the fields"
        )
    kind = make_namedtuple(name, tuple(words))
    return kind(*(decode(value, word) for word, value in zip(words, values, strict=True)))


def _build_bytes(node: dict[str, Any], decode: Decode) -> bytes:
    (text,) = fields(node, base64=str)
    return from_base64(text)


def _build_float(node: dict[str, Any], decode: Decode) -> float:
    if "base64" in node:
        (text,) = fields(node, base64=str)
        bits = from_base64(text)
        if len(bits) != 8:
            raise FormatError(f"'base64' of float holds {len(bits)} bytes, expected 8")
        return float(struct.unpack("<d", bits)[0])
    (value,) = fields(node, value=str)
    if value not in ("nan", "inf", "-inf"):
        raise FormatError(f"'value' of float is {value[:60]!r}, expected nan, inf or -inf")
    return float(value)


def _build_dict(node: dict[str, Any], decode: Decode) -> dict[Any, Any]:
    (items,) = fields(node, items=list)
    for item in items:
        if type(item) is not list or len(item) != 2 or not is_key(item[0]):
            raise FormatError("an item of dict is no pair of a string or an integer and a value")
    return unique(
        [(_checked(key) if type(key) is str else key, decode(value, key)) for key, value in items]
    )


_BUILDERS: dict[str, Callable[[dict[str, Any], Decode], Any]] = {
    "tuple": _build_tuple,
    "namedtuple": _build_namedtuple,
    "bytes": _build_bytes,
    "float": _build_float,
    "dict": _build_dict,
}
