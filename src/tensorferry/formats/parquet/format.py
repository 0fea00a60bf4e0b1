"""Parquet's place among the formats: how files are opened and written.

The bytes are `tensorferry.formats.parquet.file`; rows, bundles and the writer of rows are
`tensorferry.formats.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.formats.contract import Format, WriteOptions, Written
from tensorferry.formats.parquet import encoding as encodings, file, groups
from tensorferry.formats.parquet.encoding import COMPRESSION, Compression, Encoding
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.reads import TableReads
from tensorferry.formats.tables.writer import BatchWriter, TableWriter
from tensorferry.storage.place import Target, size_of
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Source
from tensorferry.tensors.content import Content

if TYPE_CHECKING:
    import pyarrow as pa


class Reads(TableReads):
    """Reads Parquet files; of remote ones the footer, and the column chunks asked for."""

    name = "parquet"

    def pieces(self, source: Source, how: TableOptions, like: Any) -> pieces.Reader:
        """Opens a file."""
        return file.Reader(source, verify=how.verify)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetOptions(WriteOptions):
    """How Parquet files are written.

    Attributes:
        rows: Whether each step of the first dimension is a row. False puts each tensor whole into
            the only row. By default they are rows if all tensors have the same first dimension.
        compression: Of the pages: "zstd", "snappy", "gzip", "lz4", "brotli" or None.
        batch_rows: Number of rows in a row group; by default as many as PyArrow puts there.
        byte_stream_split: Whether floats are encoded by byte-stream-split: all first bytes before
            all second ones, which compresses better.
    """

    rows: bool | None = None
    compression: Compression | None = COMPRESSION
    batch_rows: int | None = None
    byte_stream_split: bool = False


class Writes:
    """Writes tensors as columns."""

    options = ParquetOptions

    def write(self, content: Content, target: Target, how: ParquetOptions) -> Written:
        """Writes a value."""
        tensors = dict(content.tensors())
        with target.sink() as sink:
            encodings.write(
                tensors,
                sink,
                metadata=content.texts(),
                rows=how.rows,
                compression=how.compression,
                byte_stream_split=how.byte_stream_split,
                batch_rows=how.batch_rows,
            )
            return Written(size_of(sink), (target.path,))


class WritesRows:
    """Writes rows one by one."""

    options = ParquetOptions

    def writer(
        self,
        target: Target,
        how: ParquetOptions,
        *,
        shards: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TableWriter:
        """Opens a writer."""

        def begin(sink: Sink, schema: pa.Schema) -> BatchWriter:
            return groups.GroupWriter(
                sink, schema, encoding=encoding, rows=how.batch_rows, shards=count
            )

        encoding = Encoding(how.compression, how.byte_stream_split, spare_floats=True)
        writer = TableWriter(target, begin, shards=shards, metadata=metadata)
        count = len(writer.paths)
        return writer


_READS = Reads()
FORMAT = Format(reads=_READS, writes=Writes(), reads_rows=_READS, writes_rows=WritesRows())
