"""Row groups to be written: batches are gathered, and encoded in threads meanwhile.

Rows that are one row group in all are PyArrow's own file, written as it is, without a thread.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tensorferry.formats.parquet.encoding import Encoding
from tensorferry.formats.parquet.joining import Joined
from tensorferry.rows.columns import nbytes_of
from tensorferry.storage.sink import Sink

if TYPE_CHECKING:
    import pyarrow as pa

# Of a row group: small ones cost time and room, of a large one all is in memory.
GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 << 20
# The least, if the files of many shards share the memory.
SHARED_BYTES = 1 << 20
# So many row groups are encoded at once, and are in memory.
THREADS = min(4, os.cpu_count() or 1)


class GroupWriter:
    """Writes a Parquet file; see `tensorferry.formats.tables.writer.BatchWriter`.

    Args:
        sink: Takes the bytes.
        schema: Of the batches.
        encoding: How columns are encoded.
        rows: Number of rows of a row group; by default as many as are worth it.
        shards: Number of files that are written at once, and share the memory.
    """

    def __init__(
        self,
        sink: Sink,
        schema: pa.Schema,
        *,
        encoding: Encoding,
        rows: int | None = None,
        shards: int = 1,
    ) -> None:
        import pyarrow as pa

        encoding.check()
        self._sink = sink
        self._threads: ThreadPoolExecutor | None = None
        self._running: deque[Future[Any]] = deque()
        self._schema = schema
        self._encoding = encoding
        self._most_rows = rows or GROUP_ROWS
        self._most_bytes = None if rows else max(SHARED_BYTES, GROUP_BYTES // shards)
        self._joined: Joined | None = None
        self._batches: list[Any] = []
        self._rows = self._bytes = 0
        # What a schema cannot be written as, PyArrow says before there are rows.
        self._target = pa.BufferOutputStream()
        self._whole = encoding.writer(self._target, schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Takes a record batch."""
        while self._rows + batch.num_rows >= self._most_rows:
            room = self._most_rows - self._rows
            self._add(batch.slice(0, room))
            self._write()
            batch = batch.slice(room)
        if batch.num_rows:
            self._add(batch)
        if self._most_bytes is not None and self._bytes >= self._most_bytes:
            self._write()

    def _add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += nbytes_of(batch)

    def _write(self) -> None:
        """Lets a thread encode what was gathered."""
        import pyarrow as pa

        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._batches, self._rows, self._bytes = [], 0, 0
            if self._joined is None or self._threads is None:
                self._joined = Joined(self._sink)
                self._threads = ThreadPoolExecutor(THREADS, "parquet")
            self._wait(self._joined, THREADS)
            self._running.append(self._threads.submit(_encode, table, self._encoding))

    def _wait(self, joined: Joined, most: int) -> None:
        """Writes row groups until so many are being encoded; what was wrong with one is raised."""
        while len(self._running) > most or (self._running and self._running[0].done()):
            joined.add(memoryview(self._running.popleft().result()))

    def close(self) -> None:
        """Writes the last row group and the footer."""
        try:
            if self._joined is None:
                self._write_whole()
                return
            self._write()
            self._wait(self._joined, 0)
            self._joined.close()
        finally:
            self._running.clear()
            self._whole.close()
            if self._threads is not None:
                self._threads.shutdown(cancel_futures=True)

    def _write_whole(self) -> None:
        """Writes all rows as one row group, or the file of no rows."""
        import pyarrow as pa

        if self._batches:
            self._whole.write_table(pa.Table.from_batches(self._batches), self._rows)
        self._whole.close()
        self._sink.write(memoryview(self._target.getvalue()))


def _encode(table: pa.Table, encoding: Encoding) -> Any:
    """A file of one row group, in memory."""
    import pyarrow as pa

    target = pa.BufferOutputStream()
    with encoding.writer(target, table.schema) as writer:
        writer.write_table(table, table.num_rows)
    return target.getvalue()
