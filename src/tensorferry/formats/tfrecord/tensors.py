"""Tensors of one dtype and shape as strings of one size, many at once.

An Example carries a tensor that it has no list for as a TensorProto in a bytes value. The messages
of a column's rows differ in nothing but their content, which stands at the end: they are put
together and taken apart as one matrix of bytes. Any other strings are left to
`tensorferry.formats.tensorproto`, one by one.
"""

from __future__ import annotations

import math

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.tensors.values import Array


def to_strings(array: Array) -> Array | None:
    """The TensorProto of each row: uint8 [rows, size]; None if they have no content."""
    row = dtypes.from_numpy(array.dtype)
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
    """The rows of strings that were written as above; None if they were not.

    Args:
        data: All strings, one behind the other: uint8.
        offsets: Where each starts, and the last one ends.
        dtype: Of the tensors.
        shape: Of each tensor.
    """
    row = dtypes.BY_NAME[dtype]
    # Only where any bits are good: bools and narrow kinds are looked at one by one.
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
