"""JSON: any tensor or structure as text that every JSON reader takes.

Structures are trees (`tensorferry.tensors.tree`); a tensor in one is an object with a "$type":

    tensor      dtype, shape, and "values" (nested lists) or "base64" (little-endian, C order)
    sparse      indices, values, dense_shape: tensors
    ragged      flat_values: a tensor; nested_row_splits: a list of them

Small tensors of numbers have "values" if the digits restore every bit; strings always do. The text
is UTF-8 on one line, without NaN or Infinity, and the same value always gives the same text.

The bodies of TensorFlow Serving's REST API, without types, are `tensorferry.formats.json.bodies`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.codecs.json_text import (
    describe,
    from_base64,
    parse,
    to_base64,
    to_text,
    too_deep,
)
from tensorferry.dtypes import BY_NAME, STRING, from_numpy
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.json import bodies
from tensorferry.formats.json.bodies import Form, from_leaves, nest, to_leaves
from tensorferry.storage import Sink, byte_view
from tensorferry.tensors.tree import TYPE, Decode, build, fields, from_tree, to_tree
from tensorferry.tensors.values import (
    MAX_RANK,
    Array,
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    clean_bits,
)

NAME = "json"

INLINE = 32


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
        sink.write(bodies.to_text(value, serving, signature_name))
        return
    if signature_name is not None:
        raise TypeError('signature_name goes with serving="instances" or serving="inputs"')
    most = max(0, min(inline, sys.maxsize))
    text = encode(value, inline=most) if isinstance(value, np.ndarray) else None
    if text is not None:
        sink.write(text)
        return
    tree = to_tree(value, lambda tensor, place: _encode_tensor(tensor, inline))
    sink.write(to_text(tree))


def encode(array: Array, *, inline: int = INLINE) -> bytes | None:
    """The text that `write` makes of an array of numbers; None if it has to be taken apart.

    Args:
        array: Any array.
        inline: As in `write`.
    """
    text: bytes | None = _native.json_tensor(array, _HEADS, inline)
    if text is not None:
        return text
    head = _HEADS.get(array.dtype)
    if head is None or not array.size:
        return None
    array = bodies.laid_out(array)
    text = _native.json_tensor(array, _HEADS, inline)
    if text is not None:
        return text
    shape = ",".join(map(str, array.shape))
    return head + f'[{shape}],"base64":"{to_base64(byte_view(array))}"}}'.encode()


# `dtype.name` takes as long as writing a small array.
_HEADS = {
    dtype: f'{{"{TYPE}":"tensor","dtype":"{dtype.name}","shape":'.encode()
    for dtype in bodies.NATIVE
}


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
        if bodies.has_numbers(array):
            return leaves
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
            return bodies.from_body(bodies.read_body(source), dtypes)
        return from_tree(parse(source), decode_tensor)
    except RecursionError:  # the parser's, or the caller left little of the stack
        raise too_deep() from None


def _build_tensor(node: dict[str, Any], decode: Decode) -> Array:
    if "values" in node:
        dtype, shape, values = fields(node, dtype=str, shape=list, values=object)
    else:
        dtype, shape, values = fields(node, dtype=str, shape=list, base64=str)
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
    indices, values, shape = fields(node, indices=object, values=object, dense_shape=object)
    return SparseTensor(
        _build_part(indices, "indices", decode, ("int64",)),
        _build_part(values, "values", decode),
        _build_part(shape, "dense_shape", decode, ("int64",)),
    )


def _build_ragged(node: dict[str, Any], decode: Decode) -> RaggedTensor:
    values, nested = fields(node, flat_values=object, nested_row_splits=list)
    splits = [_build_part(part, i, decode, ("int32", "int64")) for i, part in enumerate(nested)]
    return RaggedTensor(_build_part(values, "flat_values", decode), tuple(splits))


_BUILDERS: dict[str, Callable[[dict[str, Any], Decode], Tensor]] = {
    "tensor": _build_tensor,
    "sparse": _build_sparse,
    "ragged": _build_ragged,
}


def decode_tensor(node: dict[str, Any], decode: Decode) -> Tensor:
    """The tensor of an object that `write` made."""
    return _BUILDERS[node[TYPE]](node, decode)


def json_default(value: Any) -> Any:
    """For `json.dumps(..., default=json_default)`: tensors and bytes in the typed form.

    Python's `json` calls it only for types it does not know. It writes tuples as lists, and NaN and
    infinity as bare words unless `allow_nan=False`; `tensorferry.dumps` preserves both.

    Examples:
        >>> import json
        >>> text = json.dumps({"scores": np.float32([0.5])}, default=ferry.json_default)
        >>> json.loads(text, object_hook=ferry.json_object_hook)
        {'scores': array([0.5], dtype=float32)}
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
        FormatError: An object has an unknown "$type", or the wrong fields for it.

    Examples:
        >>> import json
        >>> text = ferry.dumps(np.float32([0.5]), format="json")
        >>> json.loads(text, object_hook=ferry.json_object_hook)
        array([0.5], dtype=float32)
    """
    # Hooks run from the inside out: the parts of this object are values already.
    if TYPE not in node:
        return node
    return build(node, lambda part, name: part, decode_tensor)
