"""Ranges of a remote Parquet file, as the seekable file that PyArrow reads.

The footer is fetched once and kept. Before a row group is read, the column chunks wanted are
fetched by one plan (`RangedFile.fetch`): neighbours come in one request, several requests run at
once. PyArrow then reads from these bytes; what it asks for beyond them is fetched alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tensorferry.storage.source import Source, Span


class RangedFile:
    """A source as a file that can be read from any place.

    Args:
        source: Of a known size.
    """

    closed = False

    def __init__(self, source: Source) -> None:
        assert source.size is not None
        self._source = source
        self._size = source.size
        self._position = 0
        self._tail: tuple[int, bytes | memoryview] = (self._size, b"")
        self._fetched: list[tuple[int, bytes | memoryview]] = []

    def keep_tail(self, length: int) -> None:
        """Fetches the last bytes of the file, and keeps them."""
        start = self._size - length
        known, data = self._tail
        if start < known:
            self._tail = start, bytes(self._source.range(start, known)) + bytes(data)

    def fetch(self, spans: Sequence[Span]) -> None:
        """Fetches ranges together, in place of those that were fetched before."""
        self._fetched = []  # the old ones go before the new ones come
        self._source.expect(spans)
        found = self._source.ranges(spans)
        self._fetched = [(start, data) for (start, _), data in zip(spans, found, strict=True)]

    def range(self, start: int, stop: int) -> bytes | memoryview:
        """Some bytes of the file, which is not left before its start nor behind its end."""
        for first, data in (self._tail, *self._fetched):
            if first <= start and stop <= first + len(data):
                return data[start - first : stop - first]
        return self._source.range(start, stop)

    # What PyArrow calls

    def read(self, size: int = -1) -> bytes | memoryview:
        """The next bytes, fewer at the end."""
        stop = self._size if size < 0 else min(self._position + size, self._size)
        data = self.range(min(self._position, stop), stop)
        self._position = max(self._position, stop)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a place."""
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        self._position = starts[whence] + offset
        return self._position

    def tell(self) -> int:
        """The place of the next byte."""
        return self._position

    def close(self) -> None:
        """The source stays open."""

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False
