"""Workers: the same work on several tensors at once, in threads of this process.

Work that runs without the GIL gains by it, such as hashing. The caller works on small values
itself: handing one over takes longer than hashing it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

import numpy as np

from tensorferry.storage.pages import is_mapped
from tensorferry.tensors.values import RaggedTensor, SparseTensor

T = TypeVar("T")
R = TypeVar("R")

LEAST = 1 << 17
"""Number of bytes from which on a value is handed over."""

MOST = 1 << 28
"""Number of bytes that values beside the oldest one may take in memory."""


class Workers:
    """As many threads as there are processors, started when the first large value comes."""

    def __init__(self) -> None:
        self._count = os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._count, "tensorferry-workers")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run_all(self, parts: Sequence[tuple[Callable[[Any], object], Any]]) -> None:
        """Calls functions, each with its value, and returns when all are done."""
        running = []
        for function, value in parts:
            if self._count > 1 and len(parts) > 1 and _size(value) >= LEAST:
                running.append(self._pool.submit(function, value))
            else:
                function(value)
        for one in running:
            one.result()

    def map(self, function: Callable[[T], R], values: Sequence[T]) -> list[R]:
        """The results of a function for each value, in their order; no worker may call this."""
        return list((self._pool.map if self._count > 1 else map)(function, values))

    def in_order(
        self,
        items: Iterable[T],
        work: Callable[[T], R],
        value_of: Callable[[T], Any],
        is_shared: Callable[[Any], bool] = lambda value: False,
    ) -> Iterator[R]:
        """The results of items, in their order; some items are worked on ahead.

        Args:
            items: Taken one by one, as memory allows.
            work: What is done with an item.
            value_of: The value of an item, by whose size memory is counted.
            is_shared: Whether the work on a value is shared by all, through `map`: it is the
                caller's then.
        """
        running: deque[tuple[Future[R], int]] = deque()
        held = 0
        for item in items:
            value = value_of(item)
            size = _size(value)
            future: Future[R] = Future()
            if size >= LEAST and self._count > 1 and not is_shared(value):
                future = self._pool.submit(work, item)
            else:
                future.set_result(work(item))
            weight = 0 if is_mapped(value) else size
            running.append((future, weight))
            held += weight
            del item, value
            while len(running) > self._count or (held > MOST and running):
                done, weight = running.popleft()
                yield done.result()
                held -= weight
        for done, _ in running:
            yield done.result()


def _size(value: Any) -> int:
    """About how many bytes a value takes; of strings, only their places are known."""
    if isinstance(value, SparseTensor):
        return value.values.nbytes + value.indices.nbytes
    if isinstance(value, RaggedTensor):
        return value.flat_values.nbytes
    return value.nbytes if isinstance(value, np.ndarray) else 0
