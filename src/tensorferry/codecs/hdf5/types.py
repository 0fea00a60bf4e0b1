"""HDF5 types: what the messages of an object say of its values' type, shape and place.

Numbers are integers and IEEE floats of either byte order, and bfloat16, which is the upper half of
a float32. Booleans are, as h5py writes them, an enumeration of FALSE and TRUE in one byte. Opaque
bytes are given as such: h5py stores bfloat16 so. Strings have a fixed length or lie in a heap.
Other types (compounds, references, sequences, times) are not numbers that a tensor can have.

A reader that takes every float of two bytes for a float16 gives wrong numbers for a bfloat16: the
bits of a float are compared here with those of the formats that are known.

The objects and their messages are `tensorferry.codecs.hdf5.file`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

UNDEFINED = (1 << 64) - 1
MAX_SIZE = 1 << 31  # of a NumPy dtype

INTEGER, FLOAT, STRING, OPAQUE, ENUMERATION, VARIABLE = 0, 1, 3, 5, 8, 9

# Of each float: its bits, where the exponent is and how wide, where the mantissa, and the bias.
_FLOATS = {
    (16, 10, 5, 0, 10, 15): "f2",
    (32, 23, 8, 0, 23, 127): "f4",
    (64, 52, 11, 0, 52, 1023): "f8",
}
_BFLOAT16 = (16, 7, 8, 0, 7, 127)


@dataclass(frozen=True, slots=True)
class Datatype:
    """A type of values.

    Attributes:
        size: How many bytes one takes.
        numpy: Its dtype, with the byte order of the file; None for strings of variable length.
        dtype: The name of a dtype whose bits `numpy` holds.
        is_text: Whether it is a string.
        is_variable: Whether its bytes are in a heap.
        is_padded: Whether spaces at its end belong to no string.
    """

    size: int
    numpy: np.dtype[Any] | None
    dtype: str | None = None
    is_text: bool = False
    is_variable: bool = False
    is_padded: bool = False


def datatype(data: bytes) -> Datatype | None:
    """The type that a message says; None for one that no tensor has."""
    head, bits, more, _, size = struct.unpack_from("<BBBBI", data)
    kind, version = head & 15, head >> 4
    if not 0 < size < MAX_SIZE:
        return None
    order = ">" if bits & 1 else "<"
    if kind == INTEGER:
        offset, precision = struct.unpack_from("<HH", data, 8)
        if size not in (1, 2, 4, 8) or offset or precision != 8 * size:
            return None
        return Datatype(size, np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}"))
    if kind == FLOAT:
        return _float(data, size, order, bits)
    if kind == STRING:
        return Datatype(size, np.dtype(f"S{size}"), is_text=True, is_padded=bits & 15 == 2)
    if kind == OPAQUE:
        return Datatype(size, np.dtype(f"V{size}"))
    if kind == ENUMERATION:
        return _boolean(data, bits | more << 8, version, size)
    if kind == VARIABLE and bits & 15 == 1 and size == 16:
        return Datatype(size, None, is_text=True, is_variable=True)
    return None


def _float(data: bytes, size: int, order: str, bits: int) -> Datatype | None:
    offset, precision, *places, bias = struct.unpack_from("<HH4BI", data, 8)
    form = (precision, *places, bias)
    sign = data[2]
    if offset or bits & 64 or precision != 8 * size or sign != precision - 1:
        return None
    if form == _BFLOAT16:
        return Datatype(size, np.dtype(f"{order}u2"), "bfloat16")
    name = _FLOATS.get(form)
    return None if name is None else Datatype(size, np.dtype(order + name))


def _boolean(data: bytes, count: int, version: int, size: int) -> Datatype | None:
    base = datatype(data[8:])
    if base is None or base.numpy != np.int8 or size != 1 or count != 2:
        return None
    position, names = 20, []
    for _ in range(count):
        end = data.find(b"\0", position)
        if end < 0:
            return None
        names.append(data[position:end])
        length = end + 1 - position
        position += length if version >= 3 else -(-length // 8) * 8
    if dict(zip(names, data[position : position + 2], strict=False)) != {b"FALSE": 0, b"TRUE": 1}:
        return None
    return Datatype(1, np.dtype(np.bool_))


def shape(data: bytes) -> tuple[int, ...] | None:
    """The shape that a message says; None where there is not even an empty array."""
    version, rank, _, kind = struct.unpack_from("<4B", data)
    if version == 1:
        return struct.unpack_from(f"<{rank}Q", data, 8)
    if version != 2 or kind == 2:
        return None
    return struct.unpack_from(f"<{rank}Q", data, 4)


def fill_value(data: bytes) -> bytes:
    """The bytes of the value that stands where none was written; empty for zero."""
    version, flags = struct.unpack_from("<BB", data)
    if version == 3:
        defined, position = flags & 32, 2
    else:
        defined, position = data[3], 4
    if not defined:
        return b""
    (size,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + size]


def filters(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """The filters that chunks went through, in order, each with its numbers."""
    version, count = struct.unpack_from("<BB", data)
    position, found = (8 if version == 1 else 2), []
    for _ in range(count):
        (number,) = struct.unpack_from("<H", data, position)
        position += 2
        length = 0
        if version == 1 or number >= 256:
            (length,) = struct.unpack_from("<H", data, position)
            position += 2
        _, values = struct.unpack_from("<HH", data, position)
        position += 4 + (-(-length // 8) * 8 if version == 1 else length)
        found.append((number, struct.unpack_from(f"<{values}I", data, position)))
        position += 4 * (values + (values % 2 if version == 1 else 0))
    return found
