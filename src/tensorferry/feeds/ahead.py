"""Batches made ahead of the loop: one thread reads, others finish, and the order is kept.

The bytes of the batches that wait are bounded, so that a slow loop does not fill the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tensorferry.feeds.chunks import Mark
from tensorferry.rows.columns import Batch, Column
from tensorferry.tensors.values import RaggedTensor, SparseTensor

Made = tuple[Mark, int, Batch]
Finished = tuple[Mark, int, Any]  # a transform may return anything

MOST = 256
"""The most batches that wait, however small they are."""


def finished(
    made: Iterator[Made],
    finish: Callable[[Batch], Any],
    nbytes: int,
    threads: int,
    *,
    together: int = 1,
) -> Iterator[Finished]:
    """Batches, finished in threads, in their order.

    Args:
        made: The batches; another thread iterates over them.
        finish: Called on each batch.
        nbytes: The most bytes of batches that wait, unless one alone has more.
        threads: Number of threads that call `finish`.
        together: Number of batches that a thread takes at a time, because handing over a small
            batch costs more than finishing it. The first batches are handed over one by one.
    """
    line = _Line(nbytes, together)
    with ThreadPoolExecutor(max(threads, 1), thread_name_prefix="feed") as workers:
        reader = threading.Thread(target=line.fill, args=(made, finish, workers), daemon=True)
        reader.start()
        try:
            while (future := line.take()) is not None:
                yield from future.result()
            line.check()
        finally:
            line.stop()
            reader.join()


class _Line:
    """The batches that wait, between the thread that reads and the loop."""

    def __init__(self, nbytes: int, together: int) -> None:
        self._most = nbytes
        self._together = together
        self._held = self._batches = 0
        self._entries: deque[tuple[Future[list[Finished]], int, int]] = deque()
        self._changed = threading.Condition()
        self._done = self._stopped = False
        self._error: BaseException | None = None

    def fill(
        self, made: Iterator[Made], finish: Callable[[Batch], Any], workers: ThreadPoolExecutor
    ) -> None:
        """Reads until the end, or until `stop` is called."""
        try:
            for group, size in self._groups(made):
                with self._changed:
                    self._changed.wait_for(lambda size=size: self._has_room(size))  # type: ignore[misc]
                    if self._stopped:
                        return
                    future = workers.submit(_finish_all, group, finish)
                    self._entries.append((future, size, len(group)))
                    self._held += size
                    self._batches += len(group)
                    self._changed.notify_all()
        except BaseException as error:  # raised again by the loop
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def _groups(self, made: Iterator[Made]) -> Iterator[tuple[list[Made], int]]:
        """Batches that are finished together, and their bytes: first one, then two, then four."""
        wanted, group, size = 1, [], 0
        failure: Exception | None = None
        try:
            for entry in made:
                group.append(entry)
                size += size_of(entry[2])
                if len(group) >= wanted or size * 4 >= self._most:
                    yield group, size
                    wanted, group, size = min(2 * wanted, self._together), [], 0
        except Exception as error:  # what was read before it is given first
            failure = error
        if group:
            yield group, size
        if failure is not None:
            raise failure

    def _has_room(self, size: int) -> bool:
        is_short = not self._entries or (self._held + size <= self._most and self._batches < MOST)
        return self._stopped or is_short

    def take(self) -> Future[list[Finished]] | None:
        """The next batches; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._done)
            if not self._entries:
                return None
            future, size, count = self._entries.popleft()
            self._held -= size
            self._batches -= count
            self._changed.notify_all()
            return future

    def check(self) -> None:
        """Raises the error that ended the reading, if there was one."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Ends the reading; batches that wait are dropped."""
        with self._changed:
            self._stopped = True
            for future, _, _ in self._entries:
                future.cancel()
            self._entries.clear()
            self._changed.notify_all()


def _finish_all(group: list[Made], finish: Callable[[Batch], Any]) -> list[Finished]:
    return [(mark, given, finish(batch)) for mark, given, batch in group]


def size_of(batch: Batch) -> int:
    """The approximate number of bytes of a batch."""
    return sum(_size_of(column) for column in batch.values())


def _size_of(column: Column) -> int:
    if isinstance(column, RaggedTensor):
        return _size_of(column.flat_values) + sum(map(_size_of, column.nested_row_splits))
    if isinstance(column, SparseTensor):
        return _size_of(column.values) + _size_of(column.indices)
    if isinstance(column, list):
        return sum(map(_size_of, column))
    if column.dtype == object:
        return sum(map(len, column.ravel().tolist())) + 49 * int(column.size)
    return int(column.nbytes)
