"""Arrow's place among the formats: how files and streams are opened and written.

The bytes are `tensorferry.formats.arrow.file`; rows, bundles and the writer of rows are
`tensorferry.formats.tables`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.formats.arrow import file
from tensorferry.formats.arrow.file import Compression
from tensorferry.formats.contract import Format, WriteOptions, Written
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

STREAM_SUFFIX = ".arrows"


class Reads(TableReads):
    """Reads Arrow files and streams."""

    name = "arrow"

    def pieces(self, source: Source, how: TableOptions, like: Any) -> pieces.Reader:
        """Opens a file; one that cannot be mapped is read into memory."""
        return file.Reader(source.everything(), verify=how.verify)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrowOptions(WriteOptions):
    """How Arrow files are written.

    Attributes:
        rows: Whether each step of the first dimension is a row. False puts each tensor whole into
            the only row. By default they are rows if all tensors have the same first dimension.
        compression: Of the buffers: "lz4" or "zstd". What is compressed cannot be mapped.
        batch_rows: Number of rows in a record batch; by default all that are saved together.
        stream: Write the stream format, which needs no footer; by default for names with ".arrows".
    """

    rows: bool | None = None
    compression: Compression | None = None
    batch_rows: int | None = None
    stream: bool | None = None

    def is_stream(self, path: str) -> bool:
        """Whether the stream format is written."""
        named = STREAM_SUFFIX in os.path.basename(path)
        return named if self.stream is None else self.stream


class Writes:
    """Writes tensors as columns."""

    options = ArrowOptions

    def write(self, content: Content, target: Target, how: ArrowOptions) -> Written:
        """Writes a value."""
        tensors = dict(content.tensors())
        with target.sink() as sink:
            file.write(
                tensors,
                sink,
                metadata=content.texts(),
                rows=how.rows,
                compression=how.compression,
                batch_rows=how.batch_rows,
                stream=how.is_stream(target.path),
            )
            return Written(size_of(sink), (target.path,))


class WritesRows:
    """Writes rows one by one."""

    options = ArrowOptions

    def writer(
        self,
        target: Target,
        how: ArrowOptions,
        *,
        shards: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TableWriter:
        """Opens a writer."""

        def begin(sink: Sink, schema: pa.Schema) -> BatchWriter:
            stream = how.is_stream(target.path)
            writer: BatchWriter = file.begin(
                sink, schema, compression=how.compression, stream=stream
            )
            return writer

        return TableWriter(
            target, begin, shards=shards, metadata=metadata, batch_rows=how.batch_rows
        )


_READS = Reads()
FORMAT = Format(reads=_READS, writes=Writes(), reads_rows=_READS, writes_rows=WritesRows())
