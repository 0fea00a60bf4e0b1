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
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tensorferry import _native
from tensorferry.budget import allowed
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.parquet import pages
from tensorferry.formats.parquet.footer import BYTE_ARRAY, CODECS, Chunk, count_parts, read_footer
from tensorferry.formats.parquet.nulls import look_for_nulls
from tensorferry.formats.parquet.ranges import RangedFile
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.lending import lend
from tensorferry.rows.rows import ROWS
from tensorferry.storage.source import Source, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.outline import Outline

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"

# Of a remote file, so much of its end is fetched at first: nearly always all of the footer.
TAIL = 1 << 16

# So many bytes are read and decoded by one thread: others take as long to wake up.
ALONE = 2 << 20

# More steps than this are avoided if possible; one step takes about as long as unpacking so many
# bytes of dictionaries, which may tell that one step will do.
STEPS, STEP = 8, 1 << 18

# Who reads all rows gets so many bytes of them at a time: new memory takes longer than decoding.
STREAMED = 2 << 20

DICTIONARY = 16 << 20
"""Number of bytes of the largest dictionary in which we look for its longest string."""

UNPACKED = (None, "snappy", "gzip", "brotli", "zstd")
"""The compressions of such a dictionary."""


class Reader:
    """The row groups of a file: see `tensorferry.formats.tables.pieces.Reader`.

    Args:
        source: The file.
        verify: Check the checksums of pages that have one, and all that arrays hold.

    Raises:
        FormatError: The bytes are damaged.
        MissingExtraError: PyArrow is not installed.
    """

    plain = None
    is_parsed = False  # PyArrow reads the columns of a row group in threads of its own

    def __init__(self, source: Source, *, verify: bool = True) -> None:
        pa = pieces.require_pyarrow()
        from pyarrow import parquet

        from tensorferry.formats.tables.outline import checked

        if source.size is None:
            source.everything()  # a stream: it is in memory from now on
        assert source.size is not None
        self._source = source
        self._ranged = None if source.buffer is not None else RangedFile(source)
        self._verify = verify
        self.size = source.size
        start, footer = _footer(source, self._ranged)
        if pieces.PART * len(footer) > allowed(self.size):  # else there is no room for too many
            columns, groups, chunks = count_parts(footer, offset=start)
            pieces.check_parts(columns, groups, held=self.size, chunks=chunks)
        self._footer = read_footer(footer, offset=start)
        self._groups = self._footer.groups
        self.rows = [group.rows for group in self._groups]
        # Those that somebody still reads from: they hold the file, too.
        self._streams: WeakSet[Generator[Any, None, None]] = WeakSet()
        # The columns of the row group that was asked for last, and those that were wanted of it.
        self._by_column: tuple[int, dict[str, list[Chunk]]] = (-1, {})
        self._asked: tuple[int, tuple[str, ...], list[Chunk]] = (-1, (), [])
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
                pre_buffer=source.buffer is not None and self.size > ALONE,
            )
            self.schema = self._file.schema_arrow
            self._names = self.schema.names
            self.outlines = checked(self.schema)

    def release(self) -> None:
        """Lets go of the file: nothing is read any more."""
        for parts in list(self._streams):
            with suppress(ValueError):  # a thread is just reading from it
                parts.close()
        vars(self).pop("_file", None)
        self._ranged = None

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A row group as record batches."""
        if not columns or not self.rows[index]:
            return self._hollow(index, columns)
        return list(self._parts(index, columns, self.rows[index]))

    def _hollow(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A row group without columns, or without rows."""
        self._prepare(index, columns)
        with pieces.translated():
            table = self._file.read_row_group(index, columns=list(columns), use_threads=False)
            if columns:
                self._check_rows(index, table.num_rows)
            return list(table.select(list(columns)).to_batches())

    def stream(
        self, index: int, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch] | None:
        """A row group, decoded in parts that fit into the processor's cache."""
        if not columns or self.rows[index] <= rows:
            return None
        each = max(1, self.memory(index, columns) // self.rows[index])
        most = max(1, STREAMED // (each * rows)) * rows
        if self.rows[index] <= most:
            return None
        parts = self._parts(index, columns, most)
        self._streams.add(parts)
        return parts

    def _parts(
        self, index: int, columns: Sequence[str], most: int
    ) -> Generator[pa.RecordBatch, None, None]:
        """A row group, some rows at a time; if not all surely fit into memory, they are counted."""
        columns = list(columns)
        are_all = columns == self._names
        step, rows, size, count = self._prepare(index, columns), self.rows[index], 0, 0
        with pieces.translated():
            for batch in self._file.iter_batches(
                min(step, most),
                row_groups=[index],
                columns=None if are_all else columns,
                use_threads=self._is_large(index, columns),
            ):
                if step < rows:
                    size += batch.get_total_buffer_size()
                    pieces.check_memory(size, held=self.size)
                if not are_all and batch.schema.names != columns:
                    batch = batch.select(columns)
                batch.validate(full=self._verify)
                count += batch.num_rows
                yield batch
                if count >= rows:  # PyArrow needs a while to find that there are no more
                    break
            self._check_rows(index, count)

    def _prepare(self, index: int, columns: Sequence[str]) -> int:
        """Checks what can be known of columns before they are read.

        Returns:
            Number of rows that surely fit into memory: see `_step`.
        """
        pieces.check_memory(self.memory(index, columns), held=self.size)
        if self.outlines is None:
            for name in columns:
                _check_type(self.schema.field(name).type, name)
        self._fetch(index, columns)
        self._check_pages(index, columns)
        return self._step(index, columns)

    def _check_rows(self, index: int, found: int) -> None:
        if found != self.rows[index]:
            raise FormatError(f"row group {index} has {found} rows, expected {self.rows[index]}")

    def _check_pages(self, index: int, columns: Sequence[str]) -> None:
        """Refuses pages that unpack to more than the footer says and the file may take."""
        total, limit = 0, allowed(self.size)
        for chunk in self._chunks(index, columns):
            if chunk.codec not in pages.MOST:
                name = CODECS.get(chunk.codec, str(chunk.codec))
                raise UnsupportedError(
                    f"its pages are compressed by {name}, expected one of snappy, gzip, brotli, "
                    "lz4 and zstd",
                    tensor=".".join(chunk.path),
                    offset=chunk.start,
                )
            if chunk.codec and pages.most(chunk) > limit:
                total += pages.unpacked(self._bytes, chunk, self.size)
        pieces.check_memory(total, held=self.size)

    def memory(self, index: int, columns: Sequence[str]) -> int:
        """Number of bytes that the values take, at least."""
        rows = self.rows[index]
        return sum([chunk.memory(rows) for chunk in self._chunks(index, columns)])

    def spans(self, index: int, columns: Sequence[str]) -> list[Span]:
        """The column chunks."""
        chunks = self._chunks(index, columns)
        return [
            (chunk.start, min(chunk.start + chunk.stored, self.size))
            for chunk in chunks
            if chunk.start < self.size
        ]

    def _chunks(self, index: int, columns: Sequence[str]) -> list[Chunk]:
        names = tuple(columns)
        if self._asked[:2] == (index, names):
            return self._asked[2]
        held, found = self._by_column
        if held != index:
            found = {}
            for chunk in self._groups[index].chunks:
                if chunk.path:
                    found.setdefault(chunk.path[0], []).append(chunk)
            self._by_column = index, found
        chunks = [chunk for name in dict.fromkeys(names) for chunk in found.get(name, ())]
        self._asked = index, names, chunks
        return chunks

    def _fetch(self, index: int, columns: Sequence[str]) -> None:
        """Fetches the column chunks of a remote row group, by one plan."""
        if self._ranged is not None:
            self._ranged.fetch(self.spans(index, columns))

    def _step(self, index: int, columns: Sequence[str]) -> int:
        """Number of rows that surely fit into memory, whatever their strings are."""
        rows, most = self.rows[index], allowed(self.size)
        chunks = [chunk for chunk in self._chunks(index, columns) if chunk.is_text]
        longest = sum(map(pages.most, chunks))
        if longest * rows > most:
            found = [pages.texts(self._bytes, chunk, self.size) for chunk in chunks]
            longest = sum(texts.longest for texts in found)
            steps = longest * rows // most
            if steps > STEPS or steps * STEP > longest:  # the dictionaries themselves say more
                longest = sum(map(self._longest, chunks, found))
        step = max(1, most // max(longest, 1))
        return step if step < ROWS else step // ROWS * ROWS  # batches lie in one step then

    def _longest(self, chunk: Chunk, texts: pages.Texts) -> int:
        """The longest string that many rows may share, as a small dictionary says."""
        codec = CODECS.get(chunk.codec, "")
        is_near = self._ranged is None  # else it would be a request more
        is_usual = chunk.kind == BYTE_ARRAY and codec in UNPACKED and is_near
        if texts.dictionary is None or max(texts.dictionary[1:]) > DICTIONARY or not is_usual:
            return texts.longest
        start, stored, unpacked = texts.dictionary
        data = self._bytes(start, start + stored)
        try:
            return max(texts.shared, _native.longest_string(_unpacked(data, codec, unpacked)))
        except (FormatError, OSError, ValueError):  # PyArrow says what is wrong with it
            return texts.longest

    def _bytes(self, start: int, stop: int) -> bytes:
        start, stop = min(start, self.size), min(stop, self.size)
        if self._ranged is not None:
            return bytes(self._ranged.range(start, stop))
        return self._source.copy(start, stop)

    def _is_large(self, index: int, columns: Sequence[str]) -> bool:
        """Whether several threads read a row group faster than one."""
        return sum(chunk.stored for chunk in self._chunks(index, columns)) > ALONE

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The leaves that are null in some row, as the statistics or the values say."""
        found: set[str] = set()
        unsure: dict[str, list[str]] = {}
        for leaf in leaves:
            if leaf.error is None:
                place = leaf.leaf
                counts = [
                    group.chunks[place].nulls if place < len(group.chunks) else None
                    for group in self._groups
                ]
                if any(counts):
                    found.add(leaf.name)
                elif None in counts:
                    unsure.setdefault(leaf.column, []).append(leaf.name)
        return found | look_for_nulls(self, unsure) if unsure else found

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


def _unpacked(data: bytes, codec: str | None, size: int) -> Any:
    """What a page of so many bytes holds, compressed as it is."""
    if codec is None:
        return data
    if codec != "snappy":
        import pyarrow as pa

        return pa.decompress(data, size, codec=codec)
    import cramjam  # takes half as long, and most files are packed so

    room = memoryview(bytearray(size))
    try:
        return room[: cramjam.snappy.decompress_raw_into(data, room)]
    except cramjam.DecompressionError as error:
        raise FormatError(f"a page cannot be unpacked: {error}") from None


def _footer(source: Source, ranged: RangedFile | None) -> tuple[int, bytes]:
    """Where the footer starts, and its bytes."""
    size = source.size or 0
    tail = _tail(source, ranged, min(size, 8 if ranged is None else TAIL))
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
