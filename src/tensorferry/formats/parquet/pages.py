"""The pages of a Parquet column, as far as they are looked at before PyArrow unpacks them.

A column chunk is a row of pages, each behind a header of its own, a Thrift `PageHeader`:

    1 type, 2 size unpacked, 3 size stored, 4 checksum, 5 7 8 what kinds of pages have

The footer says what all pages of a chunk unpack to; the headers may say something else, and PyArrow
follows them. A page of 4 kB may unpack to 2 GiB: so the sizes of all pages are added up.
"""

from __future__ import annotations

import re

from tensorferry.errors import FormatError
from tensorferry.formats.parquet.footer import STRUCT, Chunk, Thrift

MOST = {"snappy": 22, "lz4": 256, "gzip": 1033, "brotli": 1 << 40, "zstd": 1 << 40}
"""How many bytes a compressed byte can stand for, by the name of the compression."""

LONGEST = 16 << 20
"""Number of bytes that a header may take, as in PyArrow: it may hold two values."""

USUAL = 512
"""Number of bytes that nearly all headers take."""

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3

# Nearly all headers: those of pages without statistics, up to their last byte.
_HEADER = re.compile(
    rb"\x15([\x00-\x7f])\x15(N)\x15(N)(?:\x15N)?[\x1c-\x5c]\x15(N)(?:\x15N)*(?:[\x11\x12]|\x1c\x00)?"
    rb"\x00\x00".replace(b"N", rb"[\x80-\xff]{0,9}[\x00-\x7f]")
)


def unpacked(data: memoryview, chunk: Chunk) -> int:
    """Number of bytes that the pages of a chunk unpack to, as their headers say.

    Args:
        data: The pages.
        chunk: What the footer says of them.

    Raises:
        FormatError: A header is none, or its page reaches beyond the chunk.
    """
    total = values = position = 0
    while position < len(data) and values < chunk.values:
        found = _HEADER.match(data, position)
        if found is not None:
            kind, size, stored, count = map(_number, found.groups())
            position = found.end()
        else:
            offset = chunk.start + position
            try:
                header = Thrift(bytes(data[position : position + USUAL]), offset)
                kind, size, stored, count = _read(header)
            except FormatError:
                header = Thrift(bytes(data[position : position + LONGEST]), offset)
                kind, size, stored, count = _read(header)
            position += header.position
        if size < 0 or count < 0 or not 0 <= stored <= len(data) - position:
            raise FormatError(
                f"a page of {count} values in {stored} bytes that unpack to {size}, "
                f"{len(data) - position} bytes are left of its column",
                offset=chunk.start + position,
                tensor=".".join(chunk.path),
            )
        position += stored
        total += size
        values += count if kind in (_DATA, _DATA_V2) else 0
    return total


def _read(header: Thrift) -> tuple[int, int, int, int]:
    """The type of a page, its sizes, and its number of values."""

    def kind_of(kind: int) -> int:
        header.expect(kind, STRUCT)
        count: int = header.fields({1: header.integer}).get(1, 0)
        return count

    number = header.integer
    found = header.fields({1: number, 2: number, 3: number, 5: kind_of, 8: kind_of})
    count = found.get(5, 0) or found.get(8, 0)
    return found.get(1, 0), found.get(2, 0), found.get(3, 0), count


def _number(text: bytes) -> int:
    """A varint with the sign in the last bit."""
    value = shift = 0
    for byte in text:
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)
