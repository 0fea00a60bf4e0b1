"""Protobuf's wire format, as far as Python writes and reads it: numbers of seven bits a byte, tags.

Messages are split into their fields by `tensorferry._native.MessageFields`.
"""

from __future__ import annotations

from typing import Any

from tensorferry.errors import FormatError

MAX_VARINT = 10


def varint(number: int) -> bytes:
    """A number of 0 or more, seven bits a byte, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """What stands before the value of a field."""
    return varint(number << 3 | wire)


def read_varint(data: Any, position: int, end: int) -> tuple[int, int]:
    """A number, and where it ends.

    Raises:
        FormatError: It does not end before `end`, or is none of 64 bits.
    """
    number = shift = 0
    start = position
    while position < end:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 64:
                break
            return number, position
        shift += 7
        if shift >= 7 * MAX_VARINT:
            break
    raise FormatError("a varint that does not end where it should", offset=start)
