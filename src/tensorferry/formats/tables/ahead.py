"""Reading ahead: pieces that take long to parse, several at a time in threads, given in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tensorferry.formats.tables.pieces import Reader

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = list[pa.RecordBatch]


def read_ahead(
    reader: Reader, indices: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The record batches of some pieces; about as many are in memory as there are processors.

    The thread that asks for them is one of those that parse: while it would wait for a piece, it
    parses the next one that no other thread has begun.

    Args:
        reader: Of a file.
        indices: The numbers of the pieces, in order.
        columns: Of the schema.
    """
    count = min(os.cpu_count() or 1, len(indices))
    pool = ThreadPoolExecutor(max(1, count - 1))
    ahead: deque[tuple[int, Future[Batches]]] = deque()
    try:
        left = deque(indices)
        while left or ahead:
            while left and len(ahead) <= count:
                index = left.popleft()
                ahead.append((index, pool.submit(reader.batches, index, columns)))
            while not ahead[0][1].done() and _help(reader, ahead, columns):
                pass
            yield from ahead.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _help(
    reader: Reader, ahead: deque[tuple[int, Future[Batches]]], columns: Sequence[str]
) -> bool:
    """Parses the first piece that no thread has begun; False if there is none."""
    for place, (index, future) in enumerate(ahead):
        if future.cancel():
            own: Future[Batches] = Future()
            try:
                own.set_result(reader.batches(index, columns))
            except Exception as error:  # told when the pieces before it were given
                own.set_exception(error)
            ahead[place] = index, own
            return True
    return False
