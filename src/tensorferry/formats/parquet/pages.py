"""The pages of a Parquet column, as far as they are looked at before PyArrow unpacks them.

A column chunk is a row of pages, each behind a header of its own, a Thrift `PageHeader`:

    1 type, 2 size unpacked, 3 size stored, 4 checksum, 5 7 8 what kinds of pages have

The footer says what all pages of a chunk unpack to, and how their values are encoded; the headers
may say something else, and PyArrow follows them. A page of 4 kB may unpack to 2 GiB: so the sizes
of all pages are added up. A text that stands in a dictionary, or that shares its start with the one
before, may take far more in memory than in its page: so these pages are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorferry.classes import NamedTuple
from tensorferry.errors import FormatError
from tensorferry.formats.parquet.footer import (
    CODECS,
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    Chunk,
    Page,
    read_page,
)

_MOST = {None: 1, "snappy": 22, "lz4": 256, "gzip": 1033, "brotli": 1 << 40, "zstd": 1 << 40}

MOST = {codec: _MOST[name] for codec, name in CODECS.items() if name in _MOST}
"""How many bytes a compressed byte can stand for, by the number of the compression."""

LONGEST = 16 << 20
"""Number of bytes that a header may take, as in PyArrow: it may hold two values."""

# So many bytes are read to find a header, and those of small pages behind it.
WINDOW = 1 << 12

# The encoding of texts that share their starts.
DELTA_BYTE_ARRAY = 7

Read = Callable[[int, int], bytes]
"""Gives the bytes of a file from one offset to another."""


class Texts(NamedTuple):
    """What the pages of a chunk say of texts that take more in memory than there.

    Attributes:
        dictionary: Where the dictionary is, and its sizes stored and unpacked; None without one.
        shared: Number of bytes of the largest page of texts that share their starts.
    """

    dictionary: tuple[int, int, int] | None
    shared: int

    @property
    def longest(self) -> int:
        """The longest such text has no more bytes."""
        return max(self.shared, *(self.dictionary or (0, 0))[1:])


def most(chunk: Chunk) -> int:
    """Number of bytes that the pages of a chunk unpack to at most, whatever is said of them."""
    return chunk.stored * MOST[chunk.codec]


def unpacked(read: Read, chunk: Chunk, end: int) -> int:
    """Number of bytes that the pages of a chunk unpack to, as their headers say; see `walk`."""
    return sum(page.unpacked for _, page in walk(read, chunk, end))


def texts(read: Read, chunk: Chunk, end: int) -> Texts:
    """What the headers of pages of texts say; see `walk`."""
    dictionary, shared = None, 0
    for place, page in walk(read, chunk, end):
        if page.kind == DICTIONARY_PAGE:
            dictionary = place, page.stored, page.unpacked
        elif page.encoding == DELTA_BYTE_ARRAY:
            shared = max(shared, page.stored, page.unpacked)
    return Texts(dictionary, shared)


def walk(read: Read, chunk: Chunk, end: int) -> Iterator[tuple[int, Page]]:
    """The pages of a chunk: where each is, behind its header, and what the header says.

    Args:
        read: Reads the file.
        chunk: What the footer says of them.
        end: Where the file ends, which may be inside of the chunk.

    Raises:
        FormatError: A header is none, or its page reaches beyond the chunk.
    """
    position, end, values = chunk.start, min(chunk.start + chunk.stored, end), 0
    start, window = position, b""
    while position < end and values < chunk.values:
        if position + WINDOW // 8 > start + len(window):
            start, window = position, read(position, min(position + WINDOW, end))
        page = _header(read, memoryview(window)[position - start :], position, end)
        size, stored, count = page.unpacked, page.stored, page.values
        position += page.length
        if size < 0 or count < 0 or not 0 <= stored <= end - position:
            raise FormatError(
                f"a page of {count} values in {stored} bytes that unpack to {size}, "
                f"{end - position} bytes are left of its column",
                offset=position,
                tensor=".".join(chunk.path),
            )
        yield position, page
        position += stored
        values += count if page.kind in (DATA_PAGE, DATA_PAGE_V2) else 0


def _header(read: Read, head: memoryview, position: int, end: int) -> Page:
    """The header at a position, of which the first bytes were read: nearly always all of it."""
    size = WINDOW
    while True:
        try:
            return read_page(head, offset=position)
        except FormatError:
            if len(head) >= min(LONGEST, end - position):
                raise
        size *= 8  # so that all reading takes no longer than the header is
        head = memoryview(read(position, min(position + size, end)))
