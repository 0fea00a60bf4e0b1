"""Parquet checksums: how many pages have one.

A column chunk is pages one behind the other, each behind a header of its own:

    1 type | 2 size | 3 size in the file | 4 checksum, which may be missing | ...

PyArrow writes no checksums unless it is asked to. Damage shows only in pages that have one.
"""

from __future__ import annotations

import struct

from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError
from tensorferry.formats.parquet.footer import Chunk, Page, read_footer, read_page
from tensorferry.storage import Source

MAGIC = b"PAR1"
# Number of bytes that nearly all headers take; those that hold statistics may take more.
USUAL = 512


@dataclass(slots=True)
class Pages:
    """How many pages a file has, and how many have a checksum.

    Attributes:
        total: All of them.
        checked: Those that have a checksum.
        unchecked: Number of pages without one, by the name of the column.
    """

    total: int = 0
    checked: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)


def count_pages(source: Source) -> Pages:
    """Walks over the headers of all pages.

    Raises:
        FormatError: The footer or a header is damaged.
    """
    size = len(source.everything()) if source.size is None else source.size
    if size < 12 or bytes(source.range(size - 4, size)) != MAGIC:
        raise FormatError("the file does not end as Parquet does", path=source.path, offset=size)
    (length,) = struct.unpack("<I", source.range(size - 8, size - 4))
    start = size - 8 - length
    if start < 4:
        raise FormatError(f"the footer takes {length} bytes", path=source.path, offset=size - 8)
    found = Pages()
    for group in read_footer(bytes(source.range(start, size - 8)), offset=start).groups:
        for chunk in group.chunks:
            _walk(source, chunk, min(chunk.start + chunk.stored, start), found)
    return found


def _walk(source: Source, chunk: Chunk, end: int, found: Pages) -> None:
    position = chunk.start
    while 0 <= position < end:
        page = _header(source, position, end)
        found.total += 1
        if page.checksum is not None:
            found.checked += 1
        else:
            name = "/".join(chunk.path)
            found.unchecked[name] = found.unchecked.get(name, 0) + 1
        position += page.length + max(page.stored, 0)


def _header(source: Source, position: int, end: int) -> Page:
    """The header of a page, read from hardly more bytes than it takes."""
    size = USUAL
    while True:
        stop = min(position + size, end)
        try:
            return read_page(source.range(position, stop), offset=position)
        except FormatError:
            if stop == end:
                raise
        size *= 8
