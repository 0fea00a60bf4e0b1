"""The pages of a Parquet column, as far as they are looked at before PyArrow unpacks them.

A column chunk is a row of pages, each behind a header of its own, a Thrift `PageHeader`:

    1 type, 2 size unpacked, 3 size stored, 4 checksum, 5 7 8 what kinds of pages have

The footer says what all pages of a chunk unpack to; the headers may say something else, and PyArrow
follows them. A page of 4 kB may unpack to 2 GiB: so the sizes of all pages are added up.
"""

from __future__ import annotations

from tensorferry.errors import FormatError
from tensorferry.formats.parquet.footer import CODECS, Chunk, read_page

MOST = {None: 1, "snappy": 22, "lz4": 256, "gzip": 1033, "brotli": 1 << 40, "zstd": 1 << 40}
"""How many bytes a compressed byte can stand for, by the name of the compression."""

LONGEST = 16 << 20
"""Number of bytes that a header may take, as in PyArrow: it may hold two values."""

_DATA, _DATA_V2 = 0, 3


def most(chunk: Chunk) -> int:
    """Number of bytes that the pages of a chunk unpack to at most, whatever is said of them."""
    return chunk.stored * MOST[CODECS[chunk.codec]]


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
        page = read_page(data[position : position + LONGEST], offset=chunk.start + position)
        size, stored, count = page.unpacked, page.stored, page.values
        position += page.length
        if size < 0 or count < 0 or not 0 <= stored <= len(data) - position:
            raise FormatError(
                f"a page of {count} values in {stored} bytes that unpack to {size}, "
                f"{len(data) - position} bytes are left of its column",
                offset=chunk.start + position,
                tensor=".".join(chunk.path),
            )
        position += stored
        total += size
        values += count if page.kind in (_DATA, _DATA_V2) else 0
    return total
