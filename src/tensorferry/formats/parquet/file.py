"""Parquet: columns of tensors in row groups, compressed, as data lakes and query engines keep them.

    "PAR1" | column chunks of the row groups | Thrift `FileMetaData` | uint32 its length | "PAR1"

The types that columns have in Arrow are restored from the key "ARROW:schema" of the file's
metadata, which PyArrow (the extra "arrow") writes and reads; the bytes are its work entirely. Pages
carry a CRC-32, which is verified. Values are never as they lie in memory: all of them are copied.

What is in columns is `tensorferry.formats.tables.columns` and `arrow_values`. Opening a file piece
by piece is `tensorferry.formats.tables.table`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tensorferry import limits
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.parquet.footer import Chunk, read_row_groups
from tensorferry.formats.tables import pieces as arrow_files
from tensorferry.storage import Sink
from tensorferry.tensors.values import RaggedTensor, check_budget

if TYPE_CHECKING:
    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.outline import Outline

NAME = "parquet"

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"

Compression = Literal["zstd", "snappy", "gzip", "lz4", "brotli"]


def sniff(head: bytes) -> bool:
    """The magic word."""
    return head.startswith(MAGIC)


def write(
    leaves: Mapping[str, Leaf],
    sink: Sink,
    *,
    metadata: Mapping[str, str] | None = None,
    rows: bool | None = None,
    compression: Compression | None = "zstd",
    batch_rows: int | None = None,
) -> None:
    """Writes named tensors as columns.

    Args:
        leaves: Arrays, SparseTensors, RaggedTensors or lists of arrays, by name.
        sink: Takes the bytes.
        metadata: Texts that stand beside the schema.
        rows: Whether each step of the first dimension is a row. False puts each leaf whole into the
            only row. By default they are rows if all leaves have the same first dimension.
        compression: Of the pages: "zstd", "snappy", "gzip", "lz4", "brotli" or None.
        batch_rows: Rows in a row group; by default as many as PyArrow puts there.

    Raises:
        UnsupportedError: A leaf has no place in Parquet.
        MissingExtraError: PyArrow is not installed.
    """
    pa = arrow_files.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    if compression not in (None, "zstd", "snappy", "gzip", "lz4", "brotli"):
        raise UnsupportedError(
            f"compression is {compression!r}, expected zstd, snappy, gzip, lz4, brotli or None"
        )
    batch = arrow_columns.to_batch(leaves, metadata=metadata or {}, rows=rows)

    from pyarrow import parquet

    file = pa.PythonFile(arrow_files.SinkFile(sink), "w")
    with parquet.ParquetWriter(
        file, batch.schema, compression=compression or "none", write_page_checksum=True
    ) as writer:
        for part in arrow_files.pieces(batch, batch_rows):
            writer.write_table(pa.Table.from_batches([part]))


def read(
    source: bytes | memoryview, *, columns: Sequence[str] | None = None, verify: bool = True
) -> tuple[dict[str, Leaf], dict[str, str]]:
    """The leaves and the metadata of a file.

    Args:
        source: The bytes.
        columns: The columns wanted; by default all.
        verify: Check the checksums of pages that have one, and all that arrays hold.

    Raises:
        FormatError: The bytes are damaged.
        UnsupportedError: A column has no counterpart.
        MissingExtraError: PyArrow is not installed.
    """
    return arrow_files.read_all(Reader(source, columns=columns, verify=verify))


class Reader:
    """The row groups of a file, each read when it is asked for; see `arrow_files.Reader`."""

    def __init__(
        self,
        source: bytes | memoryview,
        *,
        columns: Sequence[str] | None = None,
        verify: bool = True,
    ) -> None:
        pa = arrow_files.require_pyarrow()
        from pyarrow import parquet

        self._source = source
        self._verify = verify
        start, end = _footer(memoryview(source))
        self._groups = read_row_groups(bytes(source[start:end]), offset=start)
        self.rows = [group.rows for group in self._groups]
        with arrow_files.translated():
            self._file = parquet.ParquetFile(
                pa.BufferReader(pa.py_buffer(source)), page_checksum_verification=verify
            )
            self._whole = self._file.schema_arrow
            self._columns = arrow_files.select(self._whole, columns)
            fields = [self._whole.field(name) for name in self._columns]
            self.schema = pa.schema(fields, self._whole.metadata)
            for field in fields:
                _check_type(field.type, field.name)

    def check_memory(self, indexes: Sequence[int]) -> None:
        """Refuses row groups that take more memory than the file or `limits.memory` justifies."""
        self._check_size(sum(self._size_of(index) for index in indexes))

    def _check_size(self, size: int) -> None:
        what = "what was compressed"
        check_budget((size,), np.dtype(np.uint8), what=what, held=len(self._source))

    def _chunks(self, index: int) -> list[Chunk]:
        """The column chunks wanted of a row group."""
        chunks = self._groups[index].chunks
        return [chunk for chunk in chunks if chunk.path[:1] and chunk.path[0] in self._columns]

    def _size_of(self, index: int) -> int:
        return sum(chunk.memory(self.rows[index]) for chunk in self._chunks(index))

    def batches(self, index: int) -> list[Any]:
        """A row group as record batches of the columns wanted."""
        import pyarrow as pa

        self.check_memory([index])
        with arrow_files.translated():
            step = self._step(index)
            if step >= self.rows[index]:
                table = self._file.read_row_group(index, columns=self._columns)
            else:
                table = pa.Table.from_batches(self._steps(index, step))
            table = table.select(self._columns)
            table.validate(full=self._verify)
            if table.num_rows != self.rows[index] and self._columns:
                raise FormatError(
                    f"row group {index} has {table.num_rows} rows, expected {self.rows[index]}"
                )
            return list(table.to_batches())

    def _step(self, index: int) -> int:
        """How many rows surely fit into memory, whatever their strings are."""
        view = memoryview(self._source)
        chunks = self._chunks(index)
        longest = sum(chunk.longest(view) for chunk in chunks if chunk.is_text)
        return max(1, max(limits.memory, 16 * len(self._source)) // max(longest, 1))

    def _steps(self, index: int, step: int) -> Iterator[Any]:
        size = 0
        for batch in self._file.iter_batches(step, row_groups=[index], columns=self._columns):
            size += batch.nbytes
            self._check_size(size)
            yield batch

    def optional(self) -> set[str]:
        """The leaves that are null in some row, as the statistics or the values say."""
        from tensorferry.formats.tables import outline as arrow_outline

        return {
            leaf.name
            for leaf in arrow_outline.outline(self._whole)
            if leaf.column in self._columns and not leaf.listed and self._has_nulls(leaf)
        }

    def sizes(self) -> dict[str, int]:
        """How many bytes of the file each column takes, compressed as it is."""
        found: dict[str, int] = {}
        metadata = self._file.metadata
        with arrow_files.translated():
            for index, group in enumerate(self._groups):
                columns = metadata.row_group(index)
                for place, chunk in enumerate(group.chunks):
                    size = columns.column(place).total_compressed_size
                    found[chunk.path[0]] = found.get(chunk.path[0], 0) + max(size, 0)
        return found

    def version(self) -> str | None:
        """The version that the footer names."""
        return str(self._file.metadata.format_version)

    def compressions(self) -> set[str]:
        """Those of the column chunks."""
        metadata = self._file.metadata
        with arrow_files.translated():
            found = {
                metadata.row_group(group).column(place).compression.lower()
                for group in range(metadata.num_row_groups)
                for place in range(metadata.num_columns)
            }
        return found - {"uncompressed"}

    def offset(self, index: int, column: str) -> int | None:
        """Where the first page of a column of a row group is."""
        chunks = self._groups[index].chunks
        return next((chunk.start for chunk in chunks if chunk.path[:1] == (column,)), None)

    def _has_nulls(self, leaf: Outline) -> bool:
        counts = [
            group.chunks[leaf.leaf].nulls if leaf.leaf < len(group.chunks) else None
            for group in self._groups
        ]
        return self._finds_nulls(leaf) if None in counts else any(counts)

    def _finds_nulls(self, leaf: Outline) -> bool:
        from tensorferry.formats.tables import values as arrow_values

        field = self._whole.field(leaf.column)
        for group in range(len(self.rows)):
            with arrow_files.translated():
                column = self._file.read_row_group(group, columns=[leaf.column])[leaf.column]
                column.validate(full=True)
                found = arrow_values.from_chunks(field, column.chunks)[leaf.name]
            if isinstance(found, RaggedTensor):
                return True
        return False


def _footer(source: memoryview) -> tuple[int, int]:
    """Where the footer is."""
    size = len(source)
    end = bytes(source[-4:])
    if ENCRYPTED in (bytes(source[:4]), end):
        raise UnsupportedError("an encrypted Parquet file", hint="decrypt it with its own tools")
    if size < 12 or end != MAGIC:
        raise TruncatedError(
            f"a Parquet file of {size} bytes does not end with {MAGIC.decode()}",
            offset=size,
            hint="copy it again; a file that was not closed has no footer",
        )
    (length,) = struct.unpack_from("<I", source, size - 8)
    if not 0 < length <= size - 12:
        raise FormatError(
            f"the footer takes {length} bytes, expected 1 to {size - 12}", offset=size - 8
        )
    return size - 8 - length, size - 8


def _check_type(kind: Any, name: str) -> None:
    """Refuses lists of fixed size 0, which PyArrow's reader does not survive in all places."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_fixed_size_list(kind) and kind.list_size < 1:
        raise UnsupportedError("lists of fixed size 0 have no place in Parquet", tensor=name)
    for index in range(kind.num_fields):
        _check_type(kind.field(index).type, name)
