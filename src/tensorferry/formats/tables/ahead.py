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


def read_ahead(
    reader: Reader, indices: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The record batches of some pieces; as many pieces are in memory as there are processors.

    Args:
        reader: Of a file.
        indices: The numbers of the pieces, in order.
        columns: Of the schema.
    """
    count = min(os.cpu_count() or 1, len(indices))
    pool = ThreadPoolExecutor(count)
    running: deque[Future[list[pa.RecordBatch]]] = deque()
    try:
        for index in indices:
            running.append(pool.submit(reader.batches, index, columns))
            if len(running) > count:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
