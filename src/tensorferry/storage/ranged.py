"""Remote files: ranges are fetched when they are asked for, large ones in several pieces at once.

A source holds the start of its file and, once the last bytes were asked for, the end: formats look
there first. `expect` plans the requests for everything that will be read next
(`tensorferry.storage.plan`): the first read that the plan covers starts its request and some of
those that follow, and the bytes are held until the next plan.

Reading in order fetches the next pieces ahead, and larger ones the further it goes: a look at the
start of a file costs little, and a reader of the whole file rarely waits. Memory is bounded by what
is asked for, by `HOLD` and by `AHEAD` pieces.

The requests themselves are made by `tensorferry.storage.remote` and
`tensorferry.storage.filesystem`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from tensorferry.errors import LimitError, TruncatedError
from tensorferry.storage.plan import Block, Held, Span, plan
from tensorferry.storage.source import Source

# The most that one request asks for: small enough to be tried again.
PIECE = 4 << 20
# Number of requests that run at once.
CONCURRENCY = 8
# Number of pieces that a reader in order fetches ahead.
AHEAD = 2
# The size of the first piece for a reader in order; each following piece is twice as large.
FIRST_PIECE = 1 << 18
# What is fetched of the start when a file is opened, and of the end when its last bytes are asked
# for: the headers of most formats, Parquet's footer, the directory of a zip archive behind its
# longest comment. Fetching this much takes hardly longer than fetching a few bytes.
HEAD = 1 << 16
TAIL = 1 << 17
# What one plan holds at most: a bundle plans 64 MiB of tensors, and there are gaps between them.
HOLD = 72 << 20
MOST_REQUESTS = 512


class RangedSource(Source):
    """A file of which ranges can be fetched.

    `range`, `ranges`, `head` and `expect` can be called from several threads.

    Attributes:
        size: Number of bytes in the file.
        reads: Number of requests that brought bytes.
        bytes_read: Number of bytes they brought.
    """

    size: int

    def __init__(self, path: str, size: int, *, start: memoryview | None = None) -> None:
        """Makes a source.

        Args:
            path: Names the file in errors.
            size: Number of bytes in the file.
            start: The first bytes, where they are known already.
        """
        super().__init__(path)
        self.size = size
        self.reads = 0
        self.bytes_read = 0
        self._start = memoryview(b"") if start is None else start
        self._end = memoryview(b"")
        self._held = Held()
        self._is_open = True
        self._lock = Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._pieces: Iterator[memoryview] | None = None
        self._piece = memoryview(b"")

    def fetch(self, start: int, stop: int) -> memoryview:
        """Makes one request for bytes that are in the file, or were when it was opened.

        Returns:
            The bytes; fewer if the file has become shorter.
        """
        raise NotImplementedError

    def count(self, size: int) -> None:
        """Counts a request that brought `size` bytes."""
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
        """The first bytes, fewer if the file is shorter."""
        if self.buffer is not None:
            return super().head(size)
        self._check_open()
        size = min(size, self.size)
        if size > len(self._start):
            self._start = self._exactly(0, min(max(size, HEAD), self.size))
        return bytes(self._start[:size])

    def range(self, start: int, stop: int) -> bytes | memoryview:
        """Exactly these bytes, from what is held or by a request.

        Raises:
            TruncatedError: The file ends before `stop`.
            OSError: The request failed, or the file has changed since it was opened.
        """
        return self.ranges([(start, stop)])[0]

    def ranges(self, pairs: Iterable[Span]) -> list[bytes | memoryview]:
        """Several ranges at once; those that lie close together come in one request."""
        if self.buffer is not None:
            return [super(RangedSource, self).range(start, stop) for start, stop in pairs]
        self._check_open()
        wanted = [(int(start), int(stop)) for start, stop in pairs]
        found: dict[Span, memoryview] = {}
        missing: dict[Span, None] = {}
        for start, stop in wanted:
            self._check_range(start, stop, self.size)
            data = self._take(start, stop)
            if data is None:
                missing[start, stop] = None
            else:
                found[start, stop] = data
        if len(missing) == 1 and self._fetch_end(*next(iter(missing))):
            found |= {(start, stop): self._end[start - self.size :] for start, stop in missing}
            missing = {}
        blocks = [*plan(missing, PIECE)]
        for block, data in zip(blocks, self._fetch_blocks(blocks), strict=True):
            for start, stop in block.spans:
                found[start, stop] = data[start - block.start : stop - block.start]
        return [found[pair] for pair in wanted]

    def everything(self) -> bytes | memoryview:
        """All bytes, fetched in pieces, several at once."""
        return self.buffer if self.buffer is not None else self.range(0, self.size)

    def expect(self, spans: Iterable[Span]) -> None:
        """Plans few requests for what will be read next; none is made before a read needs it.

        What is fetched is held until the next call or until the source is closed. Spans beyond
        `HOLD` bytes or `MOST_REQUESTS` requests are left out of the plan: reading them makes
        requests of their own.

        Args:
            spans: Pairs of a start and a stop, in any order.
        """
        if self.buffer is not None:
            return
        self._check_open()
        wanted = [(int(start), int(stop)) for start, stop in spans]
        with self._lock:
            old = self._held
            kept: dict[int, Block] = {}
            missing = []
            for start, stop in wanted:
                place = old.find(start, stop)
                if place is not None and old.blocks[place].parts:
                    kept[place] = old.blocks[place]
                elif 0 <= start < stop <= self.size and self._ends_have(start, stop) is None:
                    missing.append((start, stop))
            room = HOLD - sum(block.size for block in kept.values())
            blocks = [*kept.values()]
            for block in islice(plan(missing, PIECE), MOST_REQUESTS):
                if block.size <= room:
                    room -= block.size
                    blocks.append(block)
            self._held = Held(blocks)
        for place, block in enumerate(old.blocks):
            if place not in kept:
                block.cancel()

    def again(self) -> RangedSource:
        """Another reader of the same version of the file, which asks nothing to be opened."""
        self._check_open()
        source = self._another()
        source.buffer, source._start, source._end = self.buffer, self._start, self._end
        return source

    def _another(self) -> RangedSource:
        """A source of the same version of the file, which holds nothing yet."""
        raise NotImplementedError

    def close(self) -> None:
        """Drops everything held, and stops fetching."""
        super().close()
        with self._lock:
            self._is_open = False
            workers, self._workers = self._workers, None
            self._held = Held()
        self._pieces = None
        self._piece = self._start = self._end = memoryview(b"")
        if workers is not None:
            workers.shutdown(wait=False, cancel_futures=True)

    def pieces(self) -> Iterator[memoryview]:
        """The bytes in order; the next pieces are always under way."""
        position = 0
        # Nothing is fetched ahead of the first piece: it may be all that is wanted.
        size, ahead = FIRST_PIECE, 1
        running: deque[Future[memoryview]] = deque()
        while True:
            while position < self.size and len(running) < ahead:
                held = self._held_from(position)
                if held is not None:
                    running.append(Future())
                    running[-1].set_result(held)
                    position += len(held)
                    continue
                stop = min(position + size, self.size)
                running.append(self._submit(self._exactly, position, stop))
                position, size = stop, min(2 * size, PIECE)
            if not running:
                return
            piece = running.popleft().result()
            if position > len(self._start):
                ahead = AHEAD
            yield piece

    # What is held

    def _ends_have(self, start: int, stop: int) -> memoryview | None:
        """A span, if the start or the end of the file that is held has all of it."""
        if stop <= len(self._start):
            return self._start[start:stop]
        end = self._end
        offset = self.size - len(end)
        return end[start - offset : stop - offset] if start >= offset else None

    def _take(self, start: int, stop: int) -> memoryview | None:
        """A span from what is held or planned; None if neither has all of it."""
        found = self._ends_have(start, stop)
        if found is not None:
            return found
        with self._lock:
            held = self._held
            place = held.find(start, stop)
            if place is None:
                return None
            following = held.blocks[place : place + CONCURRENCY]
            new = [block for block in following if not block.parts and not block.failed]
        block = held.blocks[place]
        try:
            for other in new:
                self._begin(other)
            return block.wait()[start - block.start : stop - block.start]
        except Exception:
            # The bytes are asked for once more, by a request that raises the reader's own error.
            block.failed = True
            self._check_open()
            return None

    def _begin(self, block: Block) -> None:
        """Starts the requests of a block, unless another thread did."""
        target = None if block.size <= PIECE else self._allocate(block.size)
        with self._lock:
            if block.parts:
                return
            if target is None:
                block.parts = [self._start_work(self._exactly, block.start, block.stop)]
                return
            block.target = target.data
            block.parts = [
                self._start_work(self._fill, block.start + first, target[first : first + PIECE])
                for first in range(0, block.size, PIECE)
            ]

    def _held_from(self, position: int) -> memoryview | None:
        """What is held from a position on, up to where nothing follows it at once."""
        if position < len(self._start):
            return self._start[position:]
        held = self._held
        place = held.find(position, position + 1)
        if place is not None:
            return self._take(position, held.blocks[place].stop)
        return self._ends_have(position, self.size)

    def _fetch_end(self, start: int, stop: int) -> bool:
        """Fetches the end of the file and holds it, if the last bytes are asked for."""
        if stop != self.size or stop - start > TAIL:
            return False
        self._end = self._exactly(max(0, self.size - TAIL), self.size)
        return True

    # Requests

    def _fetch_blocks(self, blocks: list[Block]) -> list[memoryview]:
        """The bytes of blocks of any size, in pieces, several of them at once."""
        if len(blocks) == 1 and blocks[0].size <= PIECE:
            return [self._exactly(blocks[0].start, blocks[0].stop)]
        running: deque[Future[memoryview]] = deque()
        results: list[Future[memoryview] | memoryview] = []
        try:
            for block in blocks:
                if block.size <= PIECE:
                    running.append(self._submit(self._exactly, block.start, block.stop))
                    results.append(running[-1])
                else:
                    target = self._allocate(block.size)
                    results.append(target.data.toreadonly())
                    for first in range(0, block.size, PIECE):
                        part = target[first : first + PIECE]
                        running.append(self._submit(self._fill, block.start + first, part))
                        if len(running) > 2 * CONCURRENCY:
                            running.popleft().result()
            while running:
                running.popleft().result()
        finally:
            for future in running:
                future.cancel()
        return [result.result() if isinstance(result, Future) else result for result in results]

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
            raise LimitError(f"there is no memory for {size} bytes", path=self.path) from None

    def _submit(self, work: Callable[..., memoryview], *arguments: Any) -> Future[memoryview]:
        with self._lock:
            return self._start_work(work, *arguments)

    def _start_work(self, work: Callable[..., memoryview], *arguments: Any) -> Future[memoryview]:
        """Hands work to the threads; the caller holds the lock."""
        self._check_open()
        if self._workers is None:
            self._workers = ThreadPoolExecutor(CONCURRENCY, "tensorferry-fetch")
        return self._workers.submit(work, *arguments)

    def _check_open(self) -> None:
        if not self._is_open:
            raise self._closed()
