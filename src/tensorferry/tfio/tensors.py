"""Tensors as strings: the serializers, base64 and raw bytes of `tf.io`.

Strings are Python `bytes` where TensorFlow has a scalar, and object arrays of `bytes` where it has
a tensor; any framework's tensors are accepted. Beyond `tf.io`, `parse_tensor` and the sparse
readers need no dtype, every dtype can be written, and `deserialize_sparse` reads a single tensor.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, frameworks
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.storage import Buffers, as_source
from tensorferry.tensors.values import Array, SparseTensor, as_tensor, check_budget

__all__ = [
    "decode_base64",
    "decode_raw",
    "deserialize_many_sparse",
    "deserialize_sparse",
    "encode_base64",
    "parse_tensor",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
]


def serialize_tensor(tensor: Any, name: str | None = None) -> bytes:
    """A tensor as a serialized TensorProto.

    Args:
        tensor: Any dense tensor; Python numbers and lists get TensorFlow's dtype for them.
        name: Ignored; present for compatibility with `tf.io`.
    """
    return _serialize(_as_tensor(tensor))


def parse_tensor(serialized: Any, out_type: Any = None, name: str | None = None) -> Array:
    """The tensor in a serialized TensorProto, as a read-only view of the bytes where possible.

    Args:
        serialized: The bytes.
        out_type: The dtype that the tensor must have; by default any.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: The bytes are damaged, or the tensor has another dtype.
    """
    tensor = tensorproto.read(as_source(_as_bytes(serialized)))
    if not isinstance(tensor, np.ndarray):
        raise UnsupportedError("a variant is no dense tensor", hint="use tensorferry.loads")
    if out_type is not None:
        _check_dtype(tensor, out_type)
    return tensor


def serialize_sparse(sp_input: Any, out_type: Any = None, name: str | None = None) -> Array:
    """A sparse tensor as three serialized tensors: indices, values and dense shape.

    Args:
        sp_input: A SparseTensor, ours or a framework's.
        out_type: Must be string, which is the default.
        name: Ignored; present for compatibility with `tf.io`.
    """
    _check_string(out_type)
    parts = frameworks.sparse_parts(sp_input)
    if parts is not None and (encoded := tensorproto.encode_sparse(*parts)) is not None:
        return _as_strings([*encoded], (3,))
    sparse = _as_sparse(sp_input)
    return _as_strings(_sparse_parts(sparse.indices, sparse.values, sparse.dense_shape), (3,))


def serialize_many_sparse(sp_input: Any, out_type: Any = None, name: str | None = None) -> Array:
    """The rows of a sparse tensor, each serialized as a sparse tensor: [rows, 3] strings.

    The entries need not be in order.

    Args:
        sp_input: A SparseTensor of rank 2 or more; its first dimension counts the rows.
        out_type: Must be string, which is the default.
        name: Ignored; present for compatibility with `tf.io`.
    """
    _check_string(out_type)
    sparse = _as_sparse(sp_input)
    if len(sparse.shape) < 2:
        raise UnsupportedError(f"a sparse tensor of rank {len(sparse.shape)}, expected 2 or more")
    rows = sparse.shape[0]
    check_budget((rows, 3), np.dtype(object), what=f"{rows} serialized rows")
    parts = []
    for row in sparse.rows():
        parts += _sparse_parts(row.indices, row.values, row.dense_shape)
    return _as_strings(parts, (rows, 3))


def deserialize_sparse(
    serialized_sparse: Any, dtype: Any = None, name: str | None = None
) -> SparseTensor:
    """Serialized sparse tensors [..., 3] as one tensor with the same leading dimensions.

    The dense shape is the largest of all dense shapes.

    Args:
        serialized_sparse: The result of `serialize_sparse` or `serialize_many_sparse`, or a stack.
        dtype: The dtype that the values must have; by default any.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: The bytes are damaged, or their dtypes or ranks differ.
    """
    serialized = _as_tensor(serialized_sparse)
    if serialized.dtype != object or serialized.ndim == 0 or serialized.shape[-1] != 3:
        raise FormatError(
            f"serialized sparse tensors of shape {serialized.shape}, expected [..., 3]"
        )
    if serialized.size == 0:
        raise FormatError("no serialized sparse tensor, expected at least one")
    parts = [[parse_tensor(part) for part in row] for row in serialized.reshape(-1, 3)]
    sparse = [SparseTensor(*_check_sparse_parts(*row)) for row in parts]
    for one in sparse:
        _check_dtype(one.values, sparse[0].dtype if dtype is None else dtype)
        if len(one.shape) != len(sparse[0].shape):
            raise FormatError(
                f"sparse tensors of shapes {one.shape} and {sparse[0].shape} together"
            )
    batch = serialized.shape[:-1]
    values = np.concatenate([one.values for one in sparse])
    indices = np.empty((len(values), len(batch) + len(sparse[0].shape)), np.int64)
    end = 0
    for position, one in zip(np.ndindex(batch), sparse, strict=True):
        start, end = end, end + len(one.values)
        indices[start:end, : len(batch)] = position
        indices[start:end, len(batch) :] = one.indices
    dense_shape = np.max([one.dense_shape for one in sparse], axis=0)
    return SparseTensor(indices, values, np.array([*batch, *dense_shape], np.int64))


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any = None, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Serialized sparse tensors [N, 3] as one tensor with a first dimension of N.

    Args:
        serialized_sparse: The result of `serialize_many_sparse`, or stacked `serialize_sparse`.
        dtype: The dtype that the values must have; by default any.
        rank: The rank that the result must have; by default any.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: The bytes are damaged, or their dtypes or ranks differ.
    """
    sparse = deserialize_sparse(serialized_sparse, dtype)
    if rank is not None and len(sparse.shape) != rank:
        raise FormatError(f"a sparse tensor of rank {len(sparse.shape)}, expected {rank}")
    return sparse


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Any:
    """Strings in web-safe base64.

    Args:
        input: A string or string tensor.
        pad: Pad with "=" to a multiple of four characters.
        name: Ignored; present for compatibility with `tf.io`.
    """

    def encode(string: bytes) -> bytes:
        text = base64.urlsafe_b64encode(string)
        return text if pad else text.rstrip(b"=")

    return _map_strings(encode, input)


def decode_base64(input: Any, name: str | None = None) -> Any:
    """Decodes web-safe base64, padded or not.

    Args:
        input: A string or string tensor.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: A string is not web-safe base64.
    """

    def decode(text: bytes) -> bytes:
        body = text
        if len(text) % 4 == 0 and text.endswith(b"="):
            body = text[:-2] if text.endswith(b"==") else text[:-1]
        if len(body) % 4 == 1:
            raise FormatError(f"{len(body)} characters of base64: that length cannot be")
        try:
            standard = body.translate(_TO_STANDARD)
            return base64.b64decode(standard + b"=" * (-len(body) % 4), validate=True)
        except binascii.Error:
            raise FormatError(
                f"{text[:40]!r} is no web-safe base64", hint="its alphabet is A-Z a-z 0-9 - _"
            ) from None

    return _map_strings(decode, input)


# The two characters in which the alphabets differ; the standard ones become invalid.
_TO_STANDARD = bytes.maketrans(b"-_+/=", b"+/***")


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Array:
    """The bytes of strings as numbers, in a new last dimension.

    Args:
        input_bytes: A string or string tensor, all of one length unless `fixed_length` is given.
        out_type: The dtype of the values.
        little_endian: Whether the bytes are little-endian.
        fixed_length: Cut each string to this many bytes, or pad it with zeros.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: The lengths differ, or are not a multiple of the dtype's size.
    """
    row = dtypes.as_dtype(out_type)
    if row.numpy is None or row is dtypes.STRING:
        raise UnsupportedError(f"{row.name} values have no fixed size", hint="use parse_tensor")
    strings = _as_tensor(input_bytes)
    values: list[bytes] = strings.ravel().tolist()
    if fixed_length is not None:
        if fixed_length <= 0:
            raise FormatError(f"fixed_length is {fixed_length}, expected more than 0")
        values = [value[:fixed_length].ljust(fixed_length, b"\0") for value in values]
    length = len(values[0]) if values else fixed_length or 0
    for position, value in enumerate(values):
        if len(value) != length:
            raise FormatError(
                f"string {position} has {len(value)} bytes, expected {length} as the first",
                hint="fixed_length= cuts and fills them to one length",
            )
    if length % row.numpy.itemsize:
        raise FormatError(
            f"{length} bytes are no multiple of {row.numpy.itemsize}, the size of {row.name}"
        )
    stored = row.numpy.newbyteorder("<" if little_endian else ">")
    array = np.frombuffer(b"".join(values), stored)
    array = array.reshape(*strings.shape, length // row.numpy.itemsize)
    return array.view(np.uint8) != 0 if row.name == "bool" else as_tensor(array)


def _serialize(array: Array, *, string_content: bool = False) -> bytes:
    small = tensorproto.encode(array)
    if small is not None:
        return small
    buffers = Buffers()
    tensorproto.write(array, buffers, string_content=string_content)
    return _native.join(buffers)


def _sparse_parts(indices: Array, values: Array, dense_shape: Array) -> list[bytes]:
    # TensorFlow puts the strings of a sparse tensor into the content, unlike serialize_tensor.
    return [_serialize(indices), _serialize(values, string_content=True), _serialize(dense_shape)]


def _check_sparse_parts(indices: Array, values: Array, dense_shape: Array) -> list[Array]:
    if indices.dtype != np.int64 or dense_shape.dtype != np.int64:
        raise FormatError(
            f"indices of {indices.dtype} and a dense shape of {dense_shape.dtype}, expected int64"
        )
    return [indices, values, dense_shape]


def _as_tensor(value: Any) -> Array:
    return as_tensor(frameworks.accept(value))


def _as_bytes(value: Any) -> Any:
    """One string: bytes, any other buffer, or a scalar string tensor."""
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    tensor = _as_tensor(value)
    if tensor.shape != () or tensor.dtype != object:
        raise FormatError(
            f"a tensor of {tensor.dtype} and shape {tensor.shape}, expected one string"
        )
    return tensor.item()


def _as_sparse(value: Any) -> SparseTensor:
    sparse = frameworks.accept(value)
    if not isinstance(sparse, SparseTensor):
        raise UnsupportedError(f"{type(value).__name__}, expected a SparseTensor")
    return sparse


def _as_strings(values: list[bytes], shape: tuple[int, ...]) -> Array:
    strings = np.array(values, dtype=object)
    return strings if strings.shape == shape else strings.reshape(shape)


def _map_strings(function: Any, value: Any) -> Any:
    strings = _as_tensor(value)
    if strings.dtype != object:
        raise UnsupportedError(f"a tensor of {strings.dtype}, expected strings")
    if strings.shape == ():
        return function(strings.item())
    return _as_strings([function(string) for string in strings.ravel().tolist()], strings.shape)


def _check_dtype(tensor: Array, expected: Any) -> None:
    row, found = dtypes.as_dtype(expected), dtypes.from_numpy(tensor.dtype)
    if row is not found:
        raise FormatError(f"a tensor of {found.name}, expected {row.name}")


def _check_string(out_type: Any) -> None:
    if out_type is not None and dtypes.as_dtype(out_type) is not dtypes.STRING:
        raise UnsupportedError(f"out_type {dtypes.as_dtype(out_type).name}, expected string")
