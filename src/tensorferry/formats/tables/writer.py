"""Writing tables: batches of columns into an Arrow or Parquet file, one after the other.

`tensorferry.save` makes a table of columns that are whole; this one never holds more than a batch,
or of Parquet two row groups. All batches have the schema of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tables import pieces as arrow_files
from tensorferry.storage import Sink

if TYPE_CHECKING:
    from concurrent.futures import Future

COMPRESSION = "zstd"

# Of a row group: small ones cost time and room, of a large one all is in memory.
GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 << 20


def write_table(
    batches: Iterable[Any],
    sink: Sink,
    *,
    format: str,
    metadata: Mapping[str, str] | None = None,
    compression: str | None = None,
    stream: bool = False,
) -> int:
    """Writes batches into a file, and gives the number of rows.

    Args:
        batches: Dicts of columns, or `pyarrow.RecordBatch`es.
        sink: Takes the bytes.
        format: "arrow" or "parquet".
        metadata: Texts that stand beside the schema.
        compression: One of the format's own; of Parquet by default zstd, as in `save`.
        stream: Write Arrow's stream format.

    Raises:
        UnsupportedError: A column has no place in Arrow, or changes its type on the way.
        MissingExtraError: PyArrow is not installed.
    """
    pa = arrow_files.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    file = pa.PythonFile(arrow_files.SinkFile(sink), "w")
    writer: Any = None
    schema: Any = None
    rows = 0
    with ExitStack() as stack:
        for given in batches:
            batch = given
            if isinstance(given, Mapping):
                batch = arrow_columns.to_batch(given, metadata=metadata or {}, rows=True)
            if writer is None:
                schema = batch.schema
                if not isinstance(given, Mapping) and metadata:
                    schema = schema.with_metadata({**(schema.metadata or {}), **metadata})
                writer = stack.enter_context(_writer(file, schema, format, compression, stream))
            if batch.schema.types != schema.types:
                raise UnsupportedError(
                    f"row {rows}: the columns are of other types than in the rows before",
                    hint="name them one by one, or convert to npz or safetensors",
                )
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            rows += batch.num_rows
        if writer is None:
            raise UnsupportedError("there are no rows, and so no columns for a table")
    return rows


class _GroupWriter:
    """Writes Parquet: batches are gathered to row groups, each encoded while others are read."""

    def __init__(self, file: Any, schema: Any, compression: str | None) -> None:
        from concurrent.futures import ThreadPoolExecutor

        from pyarrow import parquet

        self._thread = ThreadPoolExecutor(1, "parquet")
        self._running: Future[None] | None = None
        self._writer = parquet.ParquetWriter(
            file,
            schema,
            compression=compression or COMPRESSION,
            write_page_checksum=True,
            use_dictionary=repeating(schema),
        )
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def write_batch(self, batch: Any) -> None:
        """Takes a batch."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write()

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._write()
                self._wait()
        finally:
            self._thread.shutdown()
            self._writer.close()


def repeating(schema: Any) -> list[str]:
    """The columns of a schema whose values may well repeat, by their paths in Parquet.

    A dictionary makes them smaller. Floats hardly repeat, and trying it takes most of the time.
    """
    from pyarrow import types

    found = []
    for field in schema:
        path, kind = field.name, field.type
        while True:
            if hasattr(kind, "storage_type"):
                kind = kind.storage_type
            if not hasattr(kind, "value_field"):
                break
            path, kind = f"{path}.list.element", kind.value_type
        if not types.is_floating(kind):
            found.append(path)
    return found


def _writer(file: Any, schema: Any, format: str, compression: str | None, stream: bool) -> Any:
    if format == "parquet":
        return _GroupWriter(file, schema, compression)
    from pyarrow import ipc

    options = ipc.IpcWriteOptions(compression=compression, allow_64bit=True)
    return (ipc.new_stream if stream else ipc.new_file)(file, schema, options=options)
