"""Row groups to be written: batches are gathered, and encoded while the next ones are made."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tensorferry.formats.parquet import file
from tensorferry.storage.sink import Sink

if TYPE_CHECKING:
    import pyarrow as pa

# Of a row group: small ones cost time and room, of a large one all is in memory.
GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 << 20
# The least, if the files of many shards share the memory.
SHARED_BYTES = 1 << 20


class GroupWriter:
    """Writes a Parquet file; see `tensorferry.formats.tables.writer.BatchWriter`.

    Args:
        sink: Takes the bytes.
        schema: Of the batches.
        compression: Of the pages.
        rows: Number of rows of a row group; by default as many as are worth it.
        shards: Number of files that are written at once, and share the memory.
    """

    def __init__(
        self,
        sink: Sink,
        schema: pa.Schema,
        *,
        compression: file.Compression | None,
        rows: int | None = None,
        shards: int = 1,
    ) -> None:
        self._thread = ThreadPoolExecutor(1, "parquet")
        self._running: Future[None] | None = None
        self._schema = schema
        self._most_rows = rows or GROUP_ROWS
        self._most_bytes = None if rows else max(SHARED_BYTES, GROUP_BYTES // shards)
        self._writer = file.begin(
            sink, schema, compression=compression, dictionary=repeating(schema)
        )
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

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
        self._bytes += batch.nbytes

    def _write(self) -> None:
        import pyarrow as pa

        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._batches, self._rows, self._bytes = [], 0, 0
            self._wait()
            size = max(table.num_rows, 1)
            self._running = self._thread.submit(self._writer.write_table, table, size)

    def _wait(self) -> None:
        """Waits for the row group that is being encoded; what was wrong with it is raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Writes the last row group and the footer."""
        try:
            self._write()
            self._wait()
        finally:
            self._thread.shutdown()
            self._writer.close()


def repeating(schema: pa.Schema) -> list[str]:
    """The columns of a schema whose values may well repeat, by their paths in Parquet.

    A dictionary makes them smaller. Floats hardly repeat, and trying it takes most of the time.
    """
    import pyarrow as pa

    found = []
    for field in schema:
        path, kind = field.name, field.type
        while True:
            if isinstance(kind, pa.BaseExtensionType):
                kind = kind.storage_type
            if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind)
                    or pa.types.is_large_list(kind)):  # fmt: skip
                break
            path, kind = f"{path}.list.element", kind.value_type
        if not pa.types.is_floating(kind):
            found.append(path)
    return found
