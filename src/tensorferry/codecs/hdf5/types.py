"""HDF5 types: the type, shape, fill value and filters that the messages of a dataset describe.

Numbers are integers and IEEE floats of either byte order, and bfloat16, which is the upper half of
a float32. A boolean is an enumeration of FALSE and TRUE in one byte, as h5py writes it; other
enumerations are the integers they are made of, and bit fields unsigned integers. Opaque bytes stay
opaque: h5py stores bfloat16 that way. Strings have a fixed length or lie in a heap. No tensor has
values of the other types (compounds, references, sequences, times).

A float of two bytes may be a float16 or a bfloat16, so the layout of its bits is compared with the
layouts that are known.

Objects and their messages are found by `tensorferry.codecs.hdf5.file`.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tensorferry.classes import dataclass

UNDEFINED = (1 << 64) - 1
MAX_SIZE = 1 << 31  # of a NumPy dtype

INTEGER, FLOAT, STRING, BITFIELD, OPAQUE, ENUMERATION, VARIABLE = 0, 1, 3, 4, 5, 8, 9

# By the layout of a float: its bits, place and width of the exponent and of the mantissa, the bias.
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
        size: Number of bytes of a value.
        numpy: Its dtype, with the byte order of the file; None for strings of variable length.
        dtype: The name of the dtype whose bits `numpy` holds, if that is another.
        is_text: Whether values are strings.
        is_variable: Whether the strings lie in a heap.
        is_padded: Whether spaces at the end of a string are padding.
    """

    size: int
    numpy: np.dtype[Any] | None
    dtype: str | None = None
    is_text: bool = False
    is_variable: bool = False
    is_padded: bool = False


def read_datatype(data: bytes) -> Datatype | None:
    """The type that a message describes; None for one that no tensor has."""
    head, bits, more, _, size = struct.unpack_from("<BBBBI", data)
    kind, version = head & 15, head >> 4
    if not 0 < size < MAX_SIZE:
        return None
    order = ">" if bits & 1 else "<"
    if kind in (INTEGER, BITFIELD):
        offset, precision = struct.unpack_from("<HH", data, 8)
        if size not in (1, 2, 4, 8) or offset or precision != 8 * size:
            return None
        is_signed = kind == INTEGER and bits & 8
        return Datatype(size, np.dtype(f"{order}{'i' if is_signed else 'u'}{size}"))
    if kind == FLOAT:
        return _float(data, size, order, bits)
    if kind == STRING:
        return Datatype(size, np.dtype(f"S{size}"), is_text=True, is_padded=bits & 15 == 2)
    if kind == OPAQUE:
        return Datatype(size, np.dtype(f"V{size}"))
    if kind == ENUMERATION:
        return _enumeration(data, bits | more << 8, version, size)
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


def _enumeration(data: bytes, count: int, version: int, size: int) -> Datatype | None:
    """Booleans as h5py writes them; other enumerations are the integers they are made of."""
    if data[8] & 15 != INTEGER:
        return None
    base = read_datatype(data[8:])
    if base is None or base.size != size:
        return None
    is_boolean = base.numpy == np.int8 and count == 2 and _is_boolean(data, version)
    return Datatype(1, np.dtype(np.bool_)) if is_boolean else base


def _is_boolean(data: bytes, version: int) -> bool:
    position, names = 20, []
    for _ in range(2):
        end = data.find(b"\0", position)
        if end < 0:
            return False
        names.append(data[position:end])
        length = end + 1 - position
        position += length if version >= 3 else -(-length // 8) * 8
    values = data[position : position + 2]
    return dict(zip(names, values, strict=False)) == {b"FALSE": 0, b"TRUE": 1}


def read_shape(data: bytes) -> tuple[int, ...] | None:
    """The shape that a message describes; None for a dataset without values of any shape."""
    version, rank, _, kind = struct.unpack_from("<4B", data)
    if version == 1:
        return struct.unpack_from(f"<{rank}Q", data, 8)
    if version != 2 or kind == 2:
        return None
    return struct.unpack_from(f"<{rank}Q", data, 4)


def read_largest_shape(data: bytes) -> tuple[int, ...]:
    """The largest shape that a dataset may grow to; empty if it stays as it is."""
    version, rank, flags = struct.unpack_from("<3B", data)
    if not flags & 1:
        return ()
    return struct.unpack_from(f"<{rank}Q", data, (8 if version == 1 else 4) + 8 * rank)


def read_fill_value(data: bytes) -> bytes:
    """The bytes of the value of elements that were never written; empty for zero."""
    version, flags = struct.unpack_from("<BB", data)
    if version == 3:
        defined, position = flags & 32, 2
    else:
        defined, position = data[3], 4
    if not defined:
        return b""
    (size,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + size]


def read_filters(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """The filters that chunks went through, in order, each with its parameters."""
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
