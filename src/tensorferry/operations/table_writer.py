"""Writing tables: batches of columns into an Arrow or Parquet file, one after the other.

`tensorferry.save` makes a table of columns that are whole; this one never holds more than a batch.
All batches have the schema of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.formats import arrow_files
from tensorferry.storage import Sink


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
        compression: One of the format's own.
        stream: Write Arrow's stream format.

    Raises:
        UnsupportedError: A column has no place in Arrow, or changes its type on the way.
        MissingExtraError: PyArrow is not installed.
    """
    pa = arrow_files.require_pyarrow()
    from tensorferry.formats import arrow_columns

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
            part = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if format == "parquet":
                writer.write_table(pa.Table.from_batches([part]))
            else:
                writer.write_batch(part)
            rows += part.num_rows
        if writer is None:
            raise UnsupportedError("there are no rows, and so no columns for a table")
    return rows


def _writer(file: Any, schema: Any, format: str, compression: str | None, stream: bool) -> Any:
    if format == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(
            file, schema, compression=compression or "none", write_page_checksum=True
        )
    from pyarrow import ipc

    options = ipc.IpcWriteOptions(compression=compression, allow_64bit=True)
    return (ipc.new_stream if stream else ipc.new_file)(file, schema, options=options)
