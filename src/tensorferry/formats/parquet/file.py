"""Parquet: columns of tensors in row groups, compressed, as data lakes and query engines keep them.

    "PAR1" | column chunks of the row groups | Thrift `FileMetaData` | uint32 its length | "PAR1"

The types that columns have in Arrow are restored from the key "ARROW:schema" of the file's
metadata, which PyArrow (the extra "arrow") writes and reads; the bytes are its work entirely. Pages
carry a CRC-32, which is verified. Values are never as they lie in memory: all of them are copied.

Of a remote file only the footer and the column chunks asked for are fetched
(`tensorferry.formats.parquet.ranges`). What is in columns is `tensorferry.formats.tables.columns`
and `tensorferry.formats.tables.values`; rows are `tensorferry.formats.tables.table`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import _native, limits
from tensorferry.budget import RATIO
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.parquet import pages
from tensorferry.formats.parquet.footer import CODECS, PAGE_HEADER, Chunk, count_parts, read_footer
from tensorferry.formats.parquet.nulls import look_for_nulls
from tensorferry.formats.parquet.ranges import RangedFile
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.lending import lend
from tensorferry.rows.columns import nbytes_of
from tensorferry.rows.rows import ROWS
from tensorferry.storage import Sink
from tensorferry.storage.source import Source, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.outline import Outline

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"

Compression = Literal["zstd", "snappy", "gzip", "lz4", "brotli"]

COMPRESSION: Compression = "zstd"

# Of a remote file, so much of its end is fetched at first: nearly always all of the footer.
TAIL = 1 << 16

# A row group of no more bytes is read by one thread: others take longer to wake up.
ALONE = 1 << 18

DICTIONARY = 16 << 20
"""Number of bytes of the largest dictionary in which we look for its longest string."""

UNPACKED = (None, "snappy", "gzip", "brotli", "zstd")
"""The compressions of such a dictionary."""


def write(
    leaves: Mapping[str, Leaf],
    sink: Sink,
    *,
    metadata: Mapping[str, str] | None = None,
    rows: bool | None = None,
    compression: Compression | None = COMPRESSION,
    byte_stream_split: bool = False,
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
        byte_stream_split: Whether the bytes of floats are split: see `Encoding`.
        batch_rows: Number of rows in a row group; by default as many as PyArrow puts there.

    Raises:
        UnsupportedError: A leaf has no place in Parquet.
        MissingExtraError: PyArrow is not installed.
    """
    pa = pieces.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    batch = arrow_columns.to_batch(leaves, metadata=metadata or {}, rows=rows)
    target = pa.PythonFile(pieces.SinkFile(sink), "w")
    encoding = Encoding(compression, byte_stream_split)
    with encoding.writer(target, batch.schema) as writer:
        for part in pieces.pieces(batch, batch_rows):
            writer.write_table(pa.Table.from_batches([part]))


@dataclass(frozen=True, slots=True)
class Encoding:
    """How columns become pages.

    Attributes:
        compression: Of the pages.
        byte_stream_split: Whether the bytes of floats are put together by their place in the value,
            all first bytes before all second ones, which compresses better.
        spare_floats: Whether floats are not even tried to be written as dictionaries: they hardly
            repeat, and trying it takes most of the time.
    """

    compression: Compression | None = COMPRESSION
    byte_stream_split: bool = False
    spare_floats: bool = False

    def check(self) -> None:
        """Refuses a compression that Parquet does not have.

        Raises:
            UnsupportedError: There is no such compression.
        """
        if self.compression not in (None, "zstd", "snappy", "gzip", "lz4", "brotli"):
            raise UnsupportedError(
                f"compression is {self.compression!r}, expected zstd, snappy, gzip, lz4, brotli "
                "or None"
            )

    def writer(self, target: Any, schema: pa.Schema) -> Any:
        """A writer of PyArrow's that takes tables of a schema.

        Args:
            target: A file of PyArrow's.
            schema: Of the tables.

        Raises:
            UnsupportedError: Parquet has no such compression.
        """
        import pyarrow as pa
        from pyarrow import parquet

        self.check()
        dictionary: bool | list[str] = True
        split: bool | list[str] = False
        if self.byte_stream_split or self.spare_floats:
            leaves = list(_leaves_of(schema))
            dictionary = [path for path, kind in leaves if not pa.types.is_floating(kind)]
            if self.byte_stream_split:
                split = [path for path, kind in leaves if pa.types.is_floating(kind)]
        return parquet.ParquetWriter(
            target,
            schema,
            compression=self.compression or "none",
            write_page_checksum=True,
            use_dictionary=dictionary,
            use_byte_stream_split=split,
        )


def _leaves_of(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The leaves of a schema: their paths in Parquet, and their types."""
    import pyarrow as pa

    pending = [(field.name, field.type) for field in reversed(schema)]
    while pending:
        path, kind = pending.pop()
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_struct(kind):
            pending += ((f"{path}.{member.name}", member.type) for member in reversed(kind))
        elif (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            pending.append((f"{path}.list.element", kind.value_type))
        else:
            yield path, kind


class Reader:
    """The row groups of a file: see `tensorferry.formats.tables.pieces.Reader`.

    Args:
        source: The file.
        verify: Check the checksums of pages that have one, and all that arrays hold.

    Raises:
        FormatError: The bytes are damaged.
        MissingExtraError: PyArrow is not installed.
    """

    is_parsed = False  # PyArrow reads the columns of a row group in threads of its own

    def __init__(self, source: Source, *, verify: bool = True) -> None:
        pa = pieces.require_pyarrow()
        from pyarrow import parquet

        if source.size is None:
            source.everything()  # a stream: it is in memory from now on
        assert source.size is not None
        self._source = source
        self._ranged = None if source.buffer is not None else RangedFile(source)
        self._verify = verify
        self.size = source.size
        start, footer = _footer(source, self._ranged)
        columns, groups, chunks = count_parts(footer, offset=start)
        pieces.check_parts(columns, groups, held=self.size, chunks=chunks)
        self._footer = read_footer(footer, offset=start)
        self._groups = self._footer.groups
        self.rows = [group.rows for group in self._groups]
        # The columns of the row group that was asked for last.
        self._by_column: tuple[int, dict[str, list[Chunk]]] = (-1, {})
        with pieces.translated():
            file = _unmapped(source)
            if file is not None:
                pass
            elif source.buffer is not None:
                view = source.buffer[:]
                lend(view, self)
                file = pa.BufferReader(pa.py_buffer(view))
                del view
            else:
                lend(self._ranged, self)
                file = pa.PythonFile(self._ranged, "r")
            # Chunks of a remote file were fetched together already, and are read one by one.
            self._file = parquet.ParquetFile(
                file,
                page_checksum_verification=verify,
                pre_buffer=source.buffer is not None,
            )
            self.schema = self._file.schema_arrow
            pieces.check_names(self.schema)

    def release(self) -> None:
        """Lets go of the file: nothing is read any more."""
        vars(self).pop("_file", None)
        self._ranged = None

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A row group as record batches."""
        import pyarrow as pa

        pieces.check_memory(self.memory(index, columns), held=self.size)
        for name in columns:
            _check_type(self.schema.field(name).type, name)
        self._fetch(index, columns)
        self._check_pages(index, columns)
        with pieces.translated():
            step = self._step(index, columns)
            if step >= self.rows[index]:
                stored = sum(chunk.stored for chunk in self._chunks(index, columns))
                table = self._file.read_row_group(
                    index, columns=list(columns), use_threads=stored > ALONE
                )
            else:
                table = pa.Table.from_batches(self._steps(index, columns, step))
            table = table.select(list(columns))
            table.validate(full=self._verify)
            if table.num_rows != self.rows[index] and columns:
                raise FormatError(
                    f"row group {index} has {table.num_rows} rows, expected {self.rows[index]}"
                )
            return list(table.to_batches())

    def _check_pages(self, index: int, columns: Sequence[str]) -> None:
        """Refuses pages that unpack to more than the footer says and the file may take."""
        total, most = 0, max(limits.memory, RATIO * self.size)
        for chunk in self._chunks(index, columns):
            name = CODECS.get(chunk.codec, str(chunk.codec))
            if name is None:
                continue
            if name not in pages.MOST:
                raise UnsupportedError(
                    f"its pages are compressed by {name}, expected one of snappy, gzip, brotli, "
                    "lz4 and zstd",
                    tensor=".".join(chunk.path),
                    offset=chunk.start,
                )
            if chunk.stored * pages.MOST[name] > most:
                total += pages.unpacked(self._bytes_of(chunk), chunk)
        pieces.check_memory(total, held=self.size)

    def _bytes_of(self, chunk: Chunk) -> memoryview:
        start = min(chunk.start, self.size)
        stop = min(start + chunk.stored, self.size)
        if self._ranged is not None:
            return memoryview(self._ranged.range(start, stop))
        return memoryview(self._source.copy(start, stop))

    def memory(self, index: int, columns: Sequence[str]) -> int:
        """Number of bytes that the values take, at least."""
        return sum(chunk.memory(self.rows[index]) for chunk in self._chunks(index, columns))

    def spans(self, index: int, columns: Sequence[str]) -> list[Span]:
        """The column chunks."""
        chunks = self._chunks(index, columns)
        return [
            (chunk.start, min(chunk.start + chunk.stored, self.size))
            for chunk in chunks
            if chunk.start < self.size
        ]

    def _chunks(self, index: int, columns: Sequence[str]) -> list[Chunk]:
        held, found = self._by_column
        if held != index:
            found = {}
            for chunk in self._groups[index].chunks:
                if chunk.path:
                    found.setdefault(chunk.path[0], []).append(chunk)
            self._by_column = index, found
        return [chunk for name in dict.fromkeys(columns) for chunk in found.get(name, ())]

    def _fetch(self, index: int, columns: Sequence[str]) -> None:
        """Fetches the column chunks of a remote row group, by one plan."""
        if self._ranged is not None:
            self._ranged.fetch(self.spans(index, columns))

    def _step(self, index: int, columns: Sequence[str]) -> int:
        """Number of rows that surely fit into memory, whatever their strings are."""
        longest = sum(
            self._longest(chunk) for chunk in self._chunks(index, columns) if chunk.is_text
        )
        step = max(1, max(limits.memory, RATIO * self.size) // max(longest, 1))
        return step if step < ROWS else step // ROWS * ROWS  # batches lie in one step then

    def _longest(self, chunk: Chunk) -> int:
        """The longest string that many rows may share, as a small dictionary says."""
        head = self._bytes(chunk.start, chunk.start + PAGE_HEADER)
        bound = chunk.longest(head)
        page = chunk.dictionary(head) if bound else None
        codec = CODECS.get(chunk.codec, "")
        is_near = self._ranged is None  # else it would be a request more
        if page is None or max(page[1:]) > DICTIONARY or codec not in UNPACKED or not is_near:
            return bound
        start, stored, unpacked = page
        data = self._bytes(start, start + stored)
        try:
            if codec is not None:
                import pyarrow as pa

                data = pa.decompress(data, unpacked, codec=codec)
            return min(bound, _native.longest_string(data))
        except (FormatError, OSError, ValueError):  # PyArrow says what is wrong with it
            return bound

    def _bytes(self, start: int, stop: int) -> bytes:
        start, stop = min(start, self.size), min(stop, self.size)
        if self._ranged is not None:
            return bytes(self._ranged.range(start, stop))
        return self._source.copy(start, stop)

    def _steps(self, index: int, columns: Sequence[str], step: int) -> Iterator[Any]:
        size = 0
        for batch in self._file.iter_batches(step, row_groups=[index], columns=list(columns)):
            size += nbytes_of(batch)
            pieces.check_memory(size, held=self.size)
            yield batch

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The leaves that are null in some row, as the statistics or the values say."""
        found: set[str] = set()
        unsure: dict[str, list[str]] = {}
        for leaf in leaves:
            if leaf.error is None:
                counts = self._counts_of_nulls(leaf)
                if any(counts):
                    found.add(leaf.name)
                elif None in counts:
                    unsure.setdefault(leaf.column, []).append(leaf.name)
        return found | look_for_nulls(self, unsure)

    def sizes(self) -> dict[str, int]:
        """Number of bytes of the file that each column takes, compressed as it is."""
        found: dict[str, int] = {}
        for group in self._groups:
            for chunk in group.chunks:
                name = chunk.path[0] if chunk.path else ""
                found[name] = found.get(name, 0) + chunk.stored
        return found

    def version(self) -> str | None:
        """The version that the footer names."""
        # As PyArrow names them: PyArrow's own answer about a damaged footer may end the process.
        return {1: "1.0", 2: "2.6"}.get(self._footer.version, str(self._footer.version))

    def compressions(self) -> set[str]:
        """Those of the column chunks."""
        found = {chunk.codec for group in self._groups for chunk in group.chunks}
        names = {CODECS.get(codec, f"codec {codec}") for codec in found}
        return {name for name in names if name is not None}

    def offset(self, index: int, column: str) -> int | None:
        """Where the first page of a column of a row group is."""
        chunks = self._groups[index].chunks
        return next((chunk.start for chunk in chunks if chunk.path[:1] == (column,)), None)

    def _counts_of_nulls(self, leaf: Outline) -> list[int | None]:
        return [
            group.chunks[leaf.leaf].nulls if leaf.leaf < len(group.chunks) else None
            for group in self._groups
        ]


def _unmapped(source: Source) -> Any:
    """The file of a path as PyArrow's own; None if it is something else.

    PyArrow copies what it reads, and reads a file as fast as a map of it. A file that is cut
    meanwhile is an error then, and a map would end the process.
    """
    import pyarrow as pa

    # PyArrow before 25 does not tell the descriptor of its file, so the name is asked: if it means
    # the mapped file before and after PyArrow opens it, PyArrow has opened that file.
    if source.mapped is None or not source.mapped.is_at(source.path):
        return None
    try:
        file = pa.OSFile(source.path)
    except OSError:
        return None
    return file if source.mapped.is_at(source.path) else None


def _footer(source: Source, ranged: RangedFile | None) -> tuple[int, bytes]:
    """Where the footer starts, and its bytes."""
    size = source.size or 0
    tail = _tail(source, ranged, min(size, TAIL))
    end = tail[-4:]
    if end == ENCRYPTED:
        raise UnsupportedError("an encrypted Parquet file", hint="decrypt it with its own tools")
    if size < 12 or end != MAGIC:
        raise TruncatedError(
            f"a Parquet file of {size} bytes does not end with {MAGIC.decode()}",
            offset=size,
            hint="copy it again; a file that was not closed has no footer",
        )
    (length,) = struct.unpack_from("<I", tail, len(tail) - 8)
    if not 0 < length <= size - 12:
        raise FormatError(
            f"the footer takes {length} bytes, expected 1 to {size - 12}", offset=size - 8
        )
    if length + 8 > len(tail):
        tail = _tail(source, ranged, length + 8)
    return size - 8 - length, tail[len(tail) - 8 - length : len(tail) - 8]


def _tail(source: Source, ranged: RangedFile | None, length: int) -> bytes:
    size = source.size or 0
    if ranged is not None:
        ranged.keep_tail(length)
        return bytes(ranged.range(size - length, size))
    return bytes(source.range(size - length, size))


def _check_type(kind: pa.DataType, name: str) -> None:
    """Refuses lists of fixed size 0, which PyArrow's reader does not survive in all places."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_fixed_size_list(kind) and kind.list_size < 1:
        raise UnsupportedError("lists of fixed size 0 have no place in Parquet", tensor=name)
    for index in range(kind.num_fields):
        _check_type(kind.field(index).type, name)
