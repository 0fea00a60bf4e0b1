"""Remote files: ranges are fetched as they are asked for, large ones in several pieces at once.

Reading in order fetches the next pieces ahead, larger ones the further it goes, so that looking at
the start of a file costs little and reading all of it waits for nothing. Memory is bounded by what
is asked for and by `AHEAD` pieces. Who fetches is for `tensorferry.storage.remote` and
`tensorferry.storage.filesystem`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np

from tensorferry.errors import LimitError, TruncatedError
from tensorferry.storage.source import Source

# The most that one request asks for: small enough that it can be tried again.
PIECE = 4 << 20
# How many of them are under way at once, and how many a reader in order has fetched ahead.
CONCURRENCY = 8
AHEAD = 2
# The first piece that a reader in order gets; each one that follows is twice as large.
FIRST_PIECE = 1 << 18
# Ranges that are as close as this to each other come in one request.
COALESCE = 1 << 18
# Whoever looks at the start looks at a little more of it next.
HEAD = 1 << 14

Span = tuple[int, int]


class RangedSource(Source):
    """A file of which ranges can be fetched.

    Attributes:
        size: How many bytes there are.
        reads: How many times something was fetched.
        bytes_read: How many bytes that were.
    """

    size: int

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path)
        self.size = size
        self.reads = 0
        self.bytes_read = 0
        self._start = memoryview(b"")
        self._is_open = True
        self._lock = Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._pieces: Iterator[memoryview] | None = None
        self._piece = memoryview(b"")

    def fetch(self, start: int, stop: int) -> memoryview:
        """These bytes, which are known to be there, or fewer if the file has become shorter."""
        raise NotImplementedError

    def count(self, size: int) -> None:
        """Counts one that was fetched."""
        with self._lock:
            self.reads += 1
            self.bytes_read += size

    def read(self, size: int) -> bytes:
        """The next bytes, fewer than `size` only at the end."""
        if self.buffer is not None:
            return super().read(size)
        self._check_open()
        if self._pieces is None:
            self._pieces = self.pieces()
        parts = []
        while size > 0:
            if not self._piece:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._piece = piece
            parts.append(self._piece[:size])
            self._piece = self._piece[size:]
            size -= len(parts[-1])
            self._position += len(parts[-1])
        return b"".join(parts)

    def head(self, size: int) -> bytes:
        """The first bytes, fewer at the end of a short file."""
        if self.buffer is not None:
            return super().head(size)
        self._check_open()
        size = min(size, self.size)
        if size > len(self._start):
            self._start = self._exactly(0, min(max(size, HEAD), self.size))
        return bytes(self._start[:size])

    def range(self, start: int, stop: int) -> bytes | memoryview:
        """Exactly these bytes, which are fetched.

        Raises:
            TruncatedError: The file ends before `stop`.
            OSError: They cannot be fetched, or the file has changed since it was opened.
        """
        return self.ranges([(start, stop)])[0]

    def ranges(self, pairs: Iterable[Span]) -> list[bytes | memoryview]:
        """Several ranges at once; those that lie close together come in one request."""
        if self.buffer is not None:
            return [super(RangedSource, self).range(start, stop) for start, stop in pairs]
        self._check_open()
        wanted = [(int(start), int(stop)) for start, stop in pairs]
        for start, stop in wanted:
            self._check_range(start, stop, self.size)
        spans = _coalesced(
            (start, stop) for start, stop in wanted if start < stop and stop > len(self._start)
        )
        found = dict(zip(spans, self._fetch_spans(spans), strict=True))
        results: list[bytes | memoryview] = []
        place = {pair: span for span, inside in spans.items() for pair in inside}
        for start, stop in wanted:
            if (start, stop) not in place:
                results.append(self._start[start:stop])
            else:
                span = place[start, stop]
                results.append(found[span][start - span[0] : stop - span[0]])
        return results

    def everything(self) -> bytes | memoryview:
        """All bytes, fetched in pieces, several at once."""
        return self.buffer if self.buffer is not None else self.range(0, self.size)

    def close(self) -> None:
        """Lets go of what was fetched, and stops fetching."""
        super().close()
        self._is_open = False
        self._pieces, self._piece, self._start = None, memoryview(b""), memoryview(b"")
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self._workers = None

    def pieces(self) -> Iterator[memoryview]:
        """The bytes in order, the next ones always under way."""
        position = len(self._start)
        if position:
            yield self._start
        # Nothing is fetched ahead of the first piece: it may be all that is wanted.
        size, ahead = FIRST_PIECE, 1
        running: deque[Future[memoryview]] = deque()
        while True:
            while position < self.size and len(running) < ahead:
                stop = min(position + size, self.size)
                running.append(self._submit(self._exactly, position, stop))
                position, size = stop, min(2 * size, PIECE)
            if not running:
                return
            yield running.popleft().result()
            ahead = AHEAD

    def _fetch_spans(self, spans: Iterable[Span]) -> list[memoryview]:
        """Spans of any size, in pieces, several of them at once."""
        wanted = list(spans)
        if len(wanted) == 1 and wanted[0][1] - wanted[0][0] <= PIECE:
            return [self._exactly(*wanted[0])]
        targets = [self._allocate(stop - start) for start, stop in wanted]
        running: deque[Future[memoryview]] = deque()
        try:
            for target, (start, stop) in zip(targets, wanted, strict=True):
                for first in range(start, stop, PIECE):
                    part = target[first - start : first - start + PIECE]
                    running.append(self._submit(self._fill, first, part))
                    if len(running) > 2 * CONCURRENCY:
                        running.popleft().result()
            while running:
                running.popleft().result()
        finally:
            for future in running:
                future.cancel()
        return [target.data.toreadonly() for target in targets]

    def _fill(self, start: int, target: np.ndarray[Any, Any]) -> memoryview:
        target[:] = np.frombuffer(self._exactly(start, start + len(target)), np.uint8)
        return target.data

    def _exactly(self, start: int, stop: int) -> memoryview:
        data = self.fetch(start, stop)
        self.count(len(data))
        if len(data) != stop - start:
            raise TruncatedError(
                f"{len(data)} bytes came of {stop - start} that were asked for",
                path=self.path,
                offset=start + len(data),
            )
        return data

    def _allocate(self, size: int) -> np.ndarray[Any, Any]:
        try:
            return np.empty(size, np.uint8)
        except (MemoryError, ValueError):
            raise LimitError(f"no memory for {size} bytes of it", path=self.path) from None

    def _submit(self, work: Callable[..., memoryview], *arguments: Any) -> Future[memoryview]:
        if self._workers is None:
            self._workers = ThreadPoolExecutor(CONCURRENCY, "tensorferry-fetch")
        return self._workers.submit(work, *arguments)

    def _check_open(self) -> None:
        if not self._is_open:
            raise self._closed()


def _coalesced(pairs: Iterable[Span]) -> dict[Span, list[Span]]:
    """Spans that cover the pairs, and the pairs that lie in each."""
    spans: dict[Span, list[Span]] = {}
    inside: list[Span] = []
    begin = end = 0
    for start, stop in sorted(pairs):
        if inside and start > end + COALESCE:
            spans[begin, end] = inside
            inside = []
        if not inside:
            begin, end = start, stop
        inside.append((start, stop))
        end = max(end, stop)
    if inside:
        spans[begin, end] = inside
    return spans
