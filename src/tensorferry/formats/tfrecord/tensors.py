"""Serialized tensors: how an Example carries values that it has no list for.

A tensor becomes one bytes value: a TensorProto, or a structure for sparse and ragged tensors. The
messages of a column's rows, if they are dense tensors of one dtype and shape, differ in nothing but
their content, which stands at the end: `to_strings` and `from_strings` put them together and take
them apart as one matrix of bytes. The messages themselves are `tensorferry.formats.tensorproto` and
`tensorferry.formats.structure`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.errors import FerryError
from tensorferry.formats import signatures
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.structure import message as structure
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.storage import Buffers
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor


def dump(value: Any) -> bytes:
    """A tensor as one string."""
    buffers = Buffers()
    if isinstance(value, SparseTensor | RaggedTensor):
        structure.write(value, buffers)
    else:
        tensorproto.write(value, buffers)
    return _native.join(buffers)


def parse(text: bytes) -> Array | SparseTensor | RaggedTensor | None:
    """The tensor that a string is the serialized form of; None if it is some other string."""
    try:
        if text[:1] == tensorproto.START:
            tensor = tensorproto.read(text)
            # Strings of one's own rarely parse as a message; a message of nothing but a dtype does.
            return tensor if len(text) > 2 else None
        if signatures.structure(Glimpse("", text[:64])) == "perhaps":
            value = structure.read(text)
            return value if isinstance(value, SparseTensor | RaggedTensor) else None
    except FerryError:
        pass
    return None


def to_strings(array: Array) -> Array | None:
    """The TensorProto of each row: uint8 [rows, size]; None if the rows have no content."""
    row = dtypes.of_tensorflow(dtypes.from_numpy(array.dtype))
    size = array.dtype.itemsize * math.prod(array.shape[1:])
    if row is dtypes.STRING or size == 0 or len(array) == 0:
        return None
    header = np.frombuffer(_native.tensorproto_header(row.enum, array.shape[1:], size), np.uint8)
    strings = np.empty((len(array), len(header) + size), np.uint8)
    strings[:, : len(header)] = header
    content = np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)
    strings[:, len(header) :] = content
    return strings


def from_strings(data: Array, offsets: Array, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """The rows of strings that `to_strings` gives; None if the strings are others.

    Args:
        data: All strings, end to end: uint8.
        offsets: Where each string starts, and where the last one ends.
        dtype: The dtype of the tensors.
        shape: The shape of each tensor.
    """
    row = dtypes.of_tensorflow(dtypes.BY_NAME[dtype])
    # Only dtypes of which every bit pattern is a value: bools and narrow ones are parsed singly.
    if row.numpy is None or row.name == "bool" or row.bits != row.numpy.itemsize * 8:
        return None
    size = row.numpy.itemsize * math.prod(shape)
    header = np.frombuffer(_native.tensorproto_header(row.enum, shape, size), np.uint8)
    length = len(header) + size
    count = len(offsets) - 1
    if size == 0 or len(data) != count * length or (np.diff(offsets) != length).any():
        return None
    strings = data.reshape(count, length)
    if (strings[:, : len(header)] != header).any():
        return None
    content = np.ascontiguousarray(strings[:, len(header) :])
    return content.view(row.numpy).reshape(count, *shape)
