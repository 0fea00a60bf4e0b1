"""JSON: any tensor or structure as text that every JSON reader takes.

None, booleans, integers, finite floats, strings, lists and dicts are what they are. All else is an
object with a "$type":

    tensor      dtype, shape, and "values" (nested lists) or "base64" (little-endian, C order)
    sparse      indices, values, dense_shape: tensors
    ragged      flat_values: a tensor; nested_row_splits: a list of them
    tuple       values
    namedtuple  name, fields, values
    bytes       base64
    float       value: "nan", "inf" or "-inf"; or base64, for a NaN with other bits
    dict        items: pairs, for a dict that has the key "$type" itself

Small tensors have "values" where their digits give back every bit, strings always. The text is
UTF-8 on one line, without NaN or Infinity, and depends on nothing but the value.

The bodies of TensorFlow Serving's REST API, without types, are `tensorferry.formats.json_bodies`.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorferry import limits
from tensorferry.dtypes import BY_NAME, STRING, from_numpy
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from tensorferry.formats.json_bodies import (
    Form,
    describe,
    from_base64,
    from_body,
    from_leaves,
    nest,
    to_base64,
    to_body,
    to_leaves,
    to_utf8,
)
from tensorferry.storage import Sink, byte_view
from tensorferry.tensors import (
    MAX_RANK,
    Array,
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    clean_bits,
    is_namedtuple,
    make_namedtuple,
)

NAME = "json"

TYPE = "$type"
INLINE = 32

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NAN = struct.pack("<d", math.nan)

# How others put something else into a tree for a tensor: of any kind, at a place.
EncodeTensor = Callable[[Tensor, str], Any]
DecodeTensor = Callable[[dict[str, Any]], Any]
TENSORS = ("tensor", "sparse", "ragged")

# How a builder has the parts of its object turned into values: a part, and its name for errors.
Decode = Callable[[Any, str | int], Any]


def sniff(head: bytes) -> bool:
    """An object or a list comes first, perhaps after white space."""
    return head.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def write(
    value: Any,
    sink: Sink,
    *,
    inline: int = INLINE,
    serving: Form | None = None,
    signature_name: str | None = None,
) -> None:
    """Writes a value as typed JSON, or as a body for TensorFlow Serving.

    Args:
        value: A tensor or structure; for Serving, a tensor or a dict of tensors.
        sink: Takes the bytes.
        inline: Up to how many elements a tensor of numbers is readable; 0 for none.
        serving: "instances" or "inputs" for a request by rows or by columns, "predictions" or
            "outputs" for the answers to them.
        signature_name: Which of the model's signatures a request is for.
    """
    if serving is not None:
        sink.write(to_text(to_body(value, serving, signature_name), allow_nan=True))
        return
    if signature_name is not None:
        raise TypeError('signature_name goes with serving="instances" or serving="inputs"')
    tree = to_tree(value, lambda tensor, place: _encode_tensor(tensor, inline))
    sink.write(to_text(tree))


def to_text(tree: Any, *, allow_nan: bool = False) -> bytes:
    """A tree as UTF-8, on one line."""
    try:
        text = json.dumps(tree, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedError(
            f"a string holds half a character, U+{ord(error.object[error.start]):04X}, "
            "which UTF-8 cannot",
            hint="pass its bytes: text.encode(errors='surrogatepass')",
        ) from None
    except ValueError as error:  # Python's limit on the digits of an integer
        raise UnsupportedError(f"an integer is too long for JSON: {error}") from None


def to_tree(value: Any, encode: EncodeTensor) -> Any:
    """What `json.dumps` takes for a value.

    Args:
        value: A tensor or structure.
        encode: Makes what stands for a tensor of any kind, whose place in the structure it is told.
    """
    return _to_tree(value, encode, "", limits.depth)


def _to_tree(value: Any, encode: EncodeTensor, place: str, depth: int) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return encode(as_tensor(value), place)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _encode_special(value)
    if isinstance(value, bytes):
        return {TYPE: "bytes", "base64": to_base64(value)}
    if isinstance(value, SparseTensor | RaggedTensor):
        return encode(value, place)
    if not isinstance(value, dict | list | tuple):
        raise UnsupportedError(
            f"{type(value).__name__} is no tensor, structure or plain value",
            hint="expected an array, a dict, list or tuple of them, or a Python scalar",
            tensor=place or None,
        )
    if depth == 0:
        raise LimitError(f"the structure nests deeper than {limits.depth}, or contains itself")

    def below(element: Any, name: str | int) -> Any:
        return _to_tree(element, encode, f"{place}/{name}" if place else str(name), depth - 1)

    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise UnsupportedError(f"a dict key is {key!r}, expected a string")
        items = [(key, below(element, key)) for key, element in value.items()]
        return {TYPE: "dict", "items": items} if TYPE in value else dict(items)
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


def _encode_special(value: float) -> dict[str, str]:
    bits = struct.pack("<d", value)
    if math.isnan(value) and bits != _NAN:
        return {TYPE: "float", "base64": to_base64(bits)}
    return {TYPE: "float", "value": str(value)}


def _encode_tensor(value: Tensor, inline: int) -> dict[str, Any]:
    if isinstance(value, SparseTensor):
        names = ("indices", "values", "dense_shape")
        parts = {name: _encode_tensor(getattr(value, name), inline) for name in names}
        return {TYPE: "sparse", **parts}
    if isinstance(value, RaggedTensor):
        return {
            TYPE: "ragged",
            "flat_values": _encode_tensor(value.flat_values, inline),
            "nested_row_splits": [_encode_tensor(s, inline) for s in value.nested_row_splits],
        }
    return _encode_array(value, inline)


def _encode_array(array: Array, inline: int) -> dict[str, Any]:
    row = from_numpy(array.dtype)
    head = {TYPE: "tensor", "dtype": row.name, "shape": list(array.shape)}
    leaves = to_leaves(array) if row is STRING else _exact_leaves(array, inline)
    if leaves is None:
        return {**head, "base64": to_base64(byte_view(np.ascontiguousarray(array)))}
    # Nested, no values at all could still be any number of lists.
    return {**head, "values": nest(leaves, array.shape) if leaves else []}


def _exact_leaves(array: Array, inline: int) -> list[Any] | None:
    """The numbers of a small tensor, unless one of its bits would not come back from them."""
    if inline <= 0 or array.size > inline:
        return None
    row = from_numpy(array.dtype)
    try:
        leaves = to_leaves(array)
        if not all(map(math.isfinite, leaves)):
            return None
        return leaves if from_leaves(leaves, row).tobytes() == array.tobytes() else None
    except UnsupportedError:
        return None


def read(source: bytes | memoryview, *, serving: bool = False, dtypes: Any = None) -> Any:
    """The value in a JSON text.

    Args:
        source: The text, in UTF-8.
        serving: Whether it is a body of TensorFlow Serving's REST API, whichever of the four.
        dtypes: For those, the dtype of all tensors, or a dict of dtypes by name. By default numbers
            become float32, or int64 where all are written as integers.
    """
    if dtypes is not None and not serving:
        raise TypeError("dtypes goes with serving=True: typed JSON has its own")
    try:
        if serving:
            return from_body(parse(source, SERVING), dtypes)
        return from_tree(parse(source))
    except RecursionError:  # the parser's, or the caller left little of the stack
        raise too_deep() from None


def parse(source: bytes | memoryview, decoder: json.JSONDecoder | None = None) -> Any:
    """The tree of a JSON text: standard JSON without repeated keys."""
    decoder = decoder or _TYPED
    if source[:3] == _BYTE_ORDER_MARK:
        raise FormatError(
            "a byte order mark, which JSON has not", offset=0, hint="pass data[3:] to read the rest"
        )
    try:
        text = str(source, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"no UTF-8: {error.reason}", offset=error.start) from None
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text) or error.msg.startswith("Unterminated")
        raise (TruncatedError if ended else FormatError)(
            f"no JSON: {error.msg[:1].lower()}{error.msg[1:]}",
            offset=len(text[: error.pos].encode()),
        ) from None
    except FormatError:
        raise
    except ValueError as error:  # Python's limit on the digits of an integer
        raise FormatError(f"a number is too long: {error}") from None


def too_deep() -> LimitError:
    """The error for text that nests too deep."""
    return LimitError(
        f"lists and objects nest deeper than {limits.depth}",
        hint="raise tensorferry.limits.depth if the text is to be trusted",
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise FormatError(f"an object has the key {twice[:60]!r} more than once")
    return found


def _refuse(literal: str) -> None:
    raise FormatError(
        f"{literal} is no number of standard JSON",
        hint="serving=True reads the bodies of TensorFlow Serving, which have it",
    )


_TYPED = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
SERVING = json.JSONDecoder(object_pairs_hook=_unique)


def from_tree(tree: Any, decode: DecodeTensor | None = None) -> Any:
    """The value of what the parser gave.

    Args:
        tree: As from `parse`.
        decode: Makes a tensor of the object that `to_tree` was given for it; by default of the
            objects of this format.
    """
    return _from_tree(tree, decode, limits.depth)


def _from_tree(node: Any, decode_tensor: DecodeTensor | None, depth: int) -> Any:
    kind = type(node)
    if kind is float and math.isinf(node):
        raise FormatError("a number is too large for a float")
    if kind is not list and kind is not dict:
        return _checked(node) if kind is str else node
    name = node.get(TYPE, "dict") if kind is dict else "list"
    if depth <= 0 and name in ("list", "dict", "tuple", "namedtuple"):
        raise too_deep()

    def decode(part: Any, name: str | int) -> Any:
        try:
            return _from_tree(part, decode_tensor, depth - 1)
        except FormatError as error:
            place = str(name)[:60]
            error.tensor = f"{place}/{error.tensor}" if error.tensor else place
            raise

    if kind is list:
        return [decode(element, index) for index, element in enumerate(node)]
    if decode_tensor is not None and name in TENSORS:
        return decode_tensor(node)
    if TYPE in node:
        return _build(node, decode)
    return {_checked(key): decode(element, key) for key, element in node.items()}


def _checked(text: str) -> str:
    if not text.isascii():
        to_utf8(text)
    return text


def _build(node: dict[str, Any], decode: Decode) -> Any:
    """The value of an object with a type."""
    name = node[TYPE]
    builder = _BUILDERS.get(name) if isinstance(name, str) else None
    if builder is None:
        found = repr(name[:60]) if isinstance(name, str) else describe(name)
        raise FormatError(f'"{TYPE}" is {found}, expected one of {", ".join(_BUILDERS)}')
    return builder(node, decode)


def _fields(node: dict[str, Any], **types: type) -> list[Any]:
    """The fields of an object, which has these and no others; `object` stands for any type."""
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


def _build_tensor(node: dict[str, Any], decode: Decode) -> Array:
    if "values" in node:
        dtype, shape, values = _fields(node, dtype=str, shape=list, values=object)
    else:
        dtype, shape, values = _fields(node, dtype=str, shape=list, base64=str)
    row = BY_NAME.get(dtype)
    if row is None or row.numpy is None:
        raise FormatError(f"dtype is {dtype[:60]!r}", hint=f"expected one of {', '.join(BY_NAME)}")
    _check_shape(shape)
    if "values" in node:
        try:
            flat = from_leaves(_flatten(values, shape), row)
        except UnsupportedError:
            raise FormatError(f"{dtype} has 'values', expected 'base64'") from None
        if row is not STRING and not np.isfinite(flat).all():
            raise FormatError(f"a number is too large for {dtype}")
    elif row is STRING:
        raise FormatError("string has 'base64', expected 'values'")
    else:
        data = from_base64(values)
        expected = math.prod(shape) * row.numpy.itemsize
        if len(data) != expected:
            raise FormatError(
                f"'base64' holds {len(data)} bytes, "
                f"expected {expected} for {dtype} of shape {shape}"
            )
        flat = clean_bits(np.frombuffer(data, row.numpy))
    try:
        return flat.reshape(shape)
    except ValueError as error:  # empty, and yet too large
        raise FormatError(f"no array has the shape {shape}: {error}") from None


def _check_shape(shape: list[Any]) -> None:
    if len(shape) > MAX_RANK:
        raise FormatError(f"a tensor of {len(shape)} dimensions, expected at most {MAX_RANK}")
    for dimension in shape:
        if type(dimension) is not int or not 0 <= dimension < 2**63:
            found = str(dimension)[:40] if isinstance(dimension, int) else describe(dimension)
            raise FormatError(f"a dimension is {found}, expected an integer of 0 or more")


def _flatten(values: Any, shape: list[int]) -> list[Any]:
    """The elements of nested lists, which must have exactly this shape."""
    if type(values) is list and not values and 0 in shape:
        return []
    level = [values]
    for axis, length in enumerate(shape):
        for node in level:
            if type(node) is not list or len(node) != length:
                found = f"{len(node)} elements" if type(node) is list else describe(node)
                raise FormatError(
                    f"'values' have {found} at dimension {axis}, expected {length} elements "
                    f"for shape {shape}"
                )
        level = [element for node in level for element in node]
    return level


def _build_part(node: Any, name: str | int, decode: Decode, dtypes: tuple[str, ...] = ()) -> Array:
    """A tensor that is a part of another."""
    part = decode(node, name)
    if not isinstance(part, np.ndarray) or (dtypes and str(part.dtype) not in dtypes):
        found = f"a tensor of {part.dtype}" if isinstance(part, np.ndarray) else describe(part)
        expected = f" of {' or '.join(dtypes)}" if dtypes else ""
        raise FormatError(f"{name!r} is {found}, expected a tensor{expected}")
    return part


def _build_sparse(node: dict[str, Any], decode: Decode) -> SparseTensor:
    indices, values, shape = _fields(node, indices=object, values=object, dense_shape=object)
    return SparseTensor(
        _build_part(indices, "indices", decode, ("int64",)),
        _build_part(values, "values", decode),
        _build_part(shape, "dense_shape", decode, ("int64",)),
    )


def _build_ragged(node: dict[str, Any], decode: Decode) -> RaggedTensor:
    values, nested = _fields(node, flat_values=object, nested_row_splits=list)
    splits = [_build_part(part, i, decode, ("int32", "int64")) for i, part in enumerate(nested)]
    return RaggedTensor(_build_part(values, "flat_values", decode), tuple(splits))


def _build_tuple(node: dict[str, Any], decode: Decode) -> tuple[Any, ...]:
    (values,) = _fields(node, values=list)
    return tuple(decode(value, index) for index, value in enumerate(values))


def _build_namedtuple(node: dict[str, Any], decode: Decode) -> tuple[Any, ...]:
    name, fields, values = _fields(node, name=str, fields=list, values=list)
    if len(fields) != len(values) or not all(isinstance(field, str) for field in fields):
        raise FormatError(
            f"namedtuple has {len(values)} values for {len(fields)} fields, "
            "expected as many, and strings for the fields"
        )
    kind = make_namedtuple(name, tuple(fields))
    return kind(*(decode(value, field) for field, value in zip(fields, values, strict=True)))


def _build_bytes(node: dict[str, Any], decode: Decode) -> bytes:
    (text,) = _fields(node, base64=str)
    return from_base64(text)


def _build_float(node: dict[str, Any], decode: Decode) -> float:
    if "base64" in node:
        (text,) = _fields(node, base64=str)
        bits = from_base64(text)
        if len(bits) != 8:
            raise FormatError(f"'base64' of float holds {len(bits)} bytes, expected 8")
        return float(struct.unpack("<d", bits)[0])
    (value,) = _fields(node, value=str)
    if value not in ("nan", "inf", "-inf"):
        raise FormatError(f"'value' of float is {value[:60]!r}, expected nan, inf or -inf")
    return float(value)


def _build_dict(node: dict[str, Any], decode: Decode) -> dict[str, Any]:
    (items,) = _fields(node, items=list)
    for item in items:
        if type(item) is not list or len(item) != 2 or type(item[0]) is not str:
            raise FormatError("an item of dict is no pair of a string and a value")
    return _unique([(_checked(key), decode(value, key)) for key, value in items])


_BUILDERS: dict[str, Callable[[dict[str, Any], Decode], Any]] = {
    "tensor": _build_tensor,
    "sparse": _build_sparse,
    "ragged": _build_ragged,
    "tuple": _build_tuple,
    "namedtuple": _build_namedtuple,
    "bytes": _build_bytes,
    "float": _build_float,
    "dict": _build_dict,
}


def json_default(value: Any) -> Any:
    """For `json.dumps(..., default=json_default)`: tensors and bytes in the typed form.

    `json` itself asks only for what it does not know: it writes tuples as lists, and floats that
    are not finite as bare words, unless `allow_nan=False`. `tensorferry.dumps` keeps both apart.
    """
    if isinstance(value, np.ndarray | np.generic | SparseTensor | RaggedTensor | bytes):
        return to_tree(value, lambda tensor, place: _encode_tensor(tensor, INLINE))
    if not hasattr(value, "__array__") or isinstance(value, type):
        raise TypeError(
            f"{type(value).__name__} is no array: json_default takes NumPy arrays, bytes, and what "
            "turns itself into an array; tensorferry.dumps(value, format='json') takes all tensors"
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedError(
            f"NumPy cannot take a {type(value).__name__}: {error}",
            hint="tensorferry.dumps(value, format='json') takes the tensors of all frameworks",
        ) from error
    return _encode_array(as_tensor(array), INLINE)


def json_object_hook(node: dict[str, Any]) -> Any:
    """For `json.loads(..., object_hook=json_object_hook)`: the values of typed objects.

    Raises:
        FormatError: An object's "$type" is none of ours, or its fields are not what it has.
    """
    # Hooks run from the inside out: the parts of this object are values already.
    return _build(node, lambda part, name: part) if TYPE in node else node
