"""Making batches ahead: a thread reads, others finish, and the loop gets them in their order.

What is ahead is bounded by its bytes, so that a loop that is slow does not fill the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tensorferry.feeds.batching import Batch
from tensorferry.feeds.chunks import Mark
from tensorferry.tensors.values import RaggedTensor, SparseTensor

Made = tuple[Mark, int, Batch]
Finished = tuple[Mark, int, Any]

MOST = 256
"""Number of batches that are ahead at most, however small they are."""


def finished(
    made: Iterator[Made], finish: Callable[[Batch], Any], nbytes: int, threads: int
) -> Iterator[Finished]:
    """Batches, finished in threads, in their order.

    Args:
        made: The batches; another thread iterates over them.
        finish: What is left to be done with each.
        nbytes: How many bytes of batches are ahead, unless one alone has more.
        threads: Number of threads that finish.
    """
    line = _Line(nbytes)
    with ThreadPoolExecutor(max(threads, 1), thread_name_prefix="feed") as workers:
        reader = threading.Thread(target=line.fill, args=(made, finish, workers), daemon=True)
        reader.start()
        try:
            while (entry := line.take()) is not None:
                mark, given, future = entry
                yield mark, given, future.result()
            line.check()
        finally:
            line.stop()
            reader.join()


class _Line:
    """Batches that are ahead, between the thread that reads and the loop."""

    def __init__(self, nbytes: int) -> None:
        self._most = nbytes
        self._held = 0
        self._entries: deque[tuple[Mark, int, Future[Any], int]] = deque()
        self._changed = threading.Condition()
        self._done = self._stopped = False
        self._error: BaseException | None = None

    def fill(
        self, made: Iterator[Made], finish: Callable[[Batch], Any], workers: ThreadPoolExecutor
    ) -> None:
        """Reads until the end, or until nobody wants more."""
        try:
            for mark, given, batch in made:
                size = size_of(batch)
                with self._changed:
                    self._changed.wait_for(lambda size=size: self._has_room(size))  # type: ignore[misc]
                    if self._stopped:
                        return
                    future = workers.submit(finish, batch)
                    self._entries.append((mark, given, future, size))
                    self._held += size
                    self._changed.notify_all()
        except BaseException as error:  # raised again by the loop
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        is_short = not self._entries or (
            self._held + size <= self._most and len(self._entries) < MOST
        )
        return self._stopped or is_short

    def take(self) -> tuple[Mark, int, Future[Any]] | None:
        """The next batch; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._done)
            if not self._entries:
                return None
            mark, given, future, size = self._entries.popleft()
            self._held -= size
            self._changed.notify_all()
            return mark, given, future

    def check(self) -> None:
        """Raises what ended the reading, if it was an error."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Wants no more."""
        with self._changed:
            self._stopped = True
            for _, _, future, _ in self._entries:
                future.cancel()
            self._entries.clear()
            self._changed.notify_all()


def size_of(batch: Mapping[str, Any]) -> int:
    """Number of bytes of a batch, about."""
    return sum(_size_of(column) for column in batch.values())


def _size_of(column: Any) -> int:
    if isinstance(column, RaggedTensor):
        return _size_of(column.flat_values) + sum(map(_size_of, column.nested_row_splits))
    if isinstance(column, SparseTensor):
        return _size_of(column.values) + _size_of(column.indices)
    if isinstance(column, list):
        return sum(map(_size_of, column))
    if column.dtype == object:
        return sum(map(len, column.ravel().tolist())) + 49 * int(column.size)
    return int(column.nbytes)
