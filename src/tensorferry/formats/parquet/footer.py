"""The footer of a Parquet file, as far as it is looked at before PyArrow reads the file.

The footer is a `FileMetaData` in Thrift's compact protocol: structs of fields, each a byte of type
and distance to the last field's number, then its value; integers are varints with the sign in the
last bit. Of it are taken:

    FileMetaData     1 version, 4 row groups
    RowGroup         1 column chunks, 3 rows
    ColumnChunk      1 name of another file, 3 metadata
    ColumnMetaData   1 type, 2 encodings, 3 path, 4 codec, 5 values, 6 size unpacked,
                     7 size stored, 9 place of the data, 11 place of the dictionary,
                     12 statistics (3 nulls)

PyArrow reads all of this, too, but asking it for a column of a damaged footer can end the process:
its Python interface does not catch what C++ throws there, as for a column whose type or level
histograms contradict the schema. tests/formats/test_parquet_footer.py shows it with one flipped
bit. Everything else is `tensorferry.formats.parquet.file`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorferry import limits
from tensorferry.errors import FormatError, LimitError, UnsupportedError

BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 6, 7

CODECS = {
    0: None, 1: "snappy", 2: "gzip", 3: "lzo", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4",
}  # fmt: skip
"""The names of compressions; PyArrow has two numbers for the two frames of lz4."""

DELTA_BYTE_ARRAY = 7

# Number of bytes at the start of a chunk that tell the kind and size of its first page.
PAGE_HEADER = 64

_DICTIONARY_PAGE = 2

# Bytes that a value takes in memory, by the number of its type; of strings without the text.
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 8, 4: 4, 5: 8, BYTE_ARRAY: 12, FIXED_LEN_BYTE_ARRAY: 1}

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, STRUCT, _UUID = (
    1, 2, 3, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip
_INTEGERS = (4, 5, 6)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group.

    Attributes:
        path: Names from the column down to its leaf.
        kind: The number of its type.
        encodings: The numbers of those it uses.
        codec: The number of its compression.
        values: How many there are.
        unpacked: The size of its pages, not compressed.
        stored: The size of its pages in the file.
        start: Where its first page is, the dictionary if there is one.
        nulls: How many values are null; None if nothing tells.
    """

    path: tuple[str, ...]
    kind: int
    encodings: tuple[int, ...]
    codec: int
    values: int
    unpacked: int
    stored: int
    start: int
    nulls: int | None

    @property
    def is_text(self) -> bool:
        """Whether a value is as long as it likes."""
        return self.kind in (BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY)

    def memory(self, rows: int) -> int:
        """The bytes that it takes in memory at least: a few in the file may stand for all rows."""
        size = max(self.values, rows) * _WIDTHS.get(self.kind, 8)
        return size + self.unpacked if self.is_text else size

    def longest(self, start: bytes) -> int:
        """The longest value that may take less space in its page than in memory.

        Such values stand in the dictionary, or share what they begin with.

        Args:
            start: The first bytes of the chunk: `PAGE_HEADER` of them, or fewer at its end.
        """
        if DELTA_BYTE_ARRAY in self.encodings:
            return self.unpacked
        head = Thrift(start, self.start)
        try:
            page = head.fields({1: head.integer, 2: head.integer}, stop_after=2)
        except FormatError:
            return self.unpacked
        return page.get(2, 0) if page.get(1) == _DICTIONARY_PAGE else 0

    def dictionary(self, start: bytes) -> tuple[int, int, int] | None:
        """Where the strings of the dictionary are, and their sizes in the file and unpacked.

        Args:
            start: As for `longest`.

        Returns:
            None if there is no dictionary of strings, or if its header does not tell.
        """
        if self.kind != BYTE_ARRAY or DELTA_BYTE_ARRAY in self.encodings:
            return None
        head = Thrift(start, self.start)
        try:
            page = head.fields({1: head.integer, 2: head.integer, 3: head.integer})
        except FormatError:
            return None
        if page.get(1) != _DICTIONARY_PAGE or min(page.get(2, -1), page.get(3, -1)) < 0:
            return None
        return head.offset, page[3], page[2]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some rows, and a column chunk for each leaf of the schema."""

    rows: int
    chunks: list[Chunk]


@dataclass(frozen=True, slots=True)
class Footer:
    """What a footer says.

    Attributes:
        version: Of the format.
        groups: The row groups.
    """

    version: int
    groups: list[RowGroup]


def read_footer(footer: bytes, *, offset: int) -> Footer:
    """The version and the row groups of a footer, which lies at `offset`.

    Raises:
        FormatError: It is no such footer.
        UnsupportedError: It is one of columns in other files.
    """
    reader = Thrift(footer, offset)
    fields = reader.fields(
        {1: reader.integer, 4: reader.list_of(lambda kind: _row_group(reader, kind))}
    )
    groups = fields.get(4, [])
    if len({len(group.chunks) for group in groups}) > 1:
        raise FormatError("row groups have different numbers of columns", offset=offset)
    return Footer(fields.get(1, 0), groups)


def _row_group(reader: Thrift, kind: int) -> RowGroup:
    reader.expect(kind, STRUCT)
    columns = reader.list_of(lambda kind: _chunk(reader, kind))
    found = reader.fields({1: columns, 3: reader.integer})
    if found.get(3, 0) < 0:
        raise FormatError(
            f"a row group has {found[3]} rows, expected 0 or more", offset=reader.offset
        )
    return RowGroup(found.get(3, 0), found.get(1, []))


def _chunk(reader: Thrift, kind: int) -> Chunk:
    reader.expect(kind, STRUCT)
    found = reader.fields({1: reader.binary, 3: lambda kind: _column_metadata(reader, kind)})
    if 1 in found:
        raise UnsupportedError(
            f"a column stands in another file, {found[1][:60]!r}", hint="open that file"
        )
    if 3 not in found:
        raise FormatError("a column has no metadata", offset=reader.offset)
    return found[3]  # type: ignore[no-any-return]


def _column_metadata(reader: Thrift, kind: int) -> Chunk:
    reader.expect(kind, STRUCT)

    def statistics(kind: int) -> Any:
        reader.expect(kind, STRUCT)
        return reader.fields({3: reader.integer}).get(3)

    integer = reader.integer
    found = reader.fields(
        {
            1: integer,
            2: reader.list_of(integer),
            3: reader.list_of(reader.binary),
            4: integer,
            5: integer,
            6: integer,
            7: integer,
            9: integer,
            11: integer,
            12: statistics,
        }
    )
    data, dictionary = found.get(9, 0), found.get(11, 0)
    if min(found.get(5, 0), found.get(6, 0), found.get(7, 0), data) < 0:
        raise FormatError("a column has a size or place below 0", offset=reader.offset)
    return Chunk(
        path=tuple(name.decode(errors="replace") for name in found.get(3, [])),
        kind=found.get(1, 0),
        encodings=tuple(found.get(2, [])),
        codec=found.get(4, 0),
        values=found.get(5, 0),
        unpacked=found.get(6, 0),
        stored=found.get(7, 0),
        start=dictionary if 0 < dictionary < data else data,
        nulls=found.get(12),
    )


class Thrift:
    """Values of Thrift's compact protocol, one after the other."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data, self._start, self._position = data, offset, 0

    @property
    def offset(self) -> int:
        """Where in the file the next value is."""
        return self._start + self._position

    @property
    def position(self) -> int:
        """Number of bytes that were read."""
        return self._position

    def expect(self, found: int, *kinds: int) -> None:
        """Refuses a field of another type."""
        if found not in kinds:
            raise FormatError(
                f"a field of the footer is of type {found}, expected {kinds[0]}", offset=self.offset
            )

    def fields(
        self, wanted: dict[int, Callable[[int], Any]], *, stop_after: int | None = None
    ) -> dict[int, Any]:
        """The fields wanted of a struct, by number; the others are skipped."""
        found, number = {}, 0
        while (head := self._byte()) != 0:
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in wanted:
                found[number] = wanted[number](kind)
            else:
                self._skip(kind, limits.depth)
            if number == stop_after:
                break
        return found

    def integer(self, kind: int) -> int:
        """A number."""
        self.expect(kind, 5, 4, 6)
        return self._signed()

    def binary(self, kind: int) -> bytes:
        """Bytes or a text."""
        self.expect(kind, _BINARY)
        return self._take(self._varint())

    def list_of(self, element: Callable[[int], Any]) -> Callable[[int], list[Any]]:
        """What reads a list."""

        def read(kind: int) -> list[Any]:
            self.expect(kind, _LIST)
            count, inner = self._list_head()
            return [element(inner) for _ in range(count)]

        return read

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if count > len(self._data) - self._position:
            raise self._cut()
        return count, head & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth == 0:
            raise LimitError("the footer nests deeper than limits.depth", offset=self.offset)
        if kind in _INTEGERS:
            self._varint()
        elif kind == _BINARY:
            self._take(self._varint())
        elif kind in (_BYTE, _DOUBLE, _UUID):
            self._take({_BYTE: 1, _DOUBLE: 8, _UUID: 16}[kind])
        elif kind in (_LIST, _SET):
            count, inner = self._list_head()
            self._skip_elements(count, (inner,), depth)
        elif kind == _MAP:
            count = self._varint()
            if count > len(self._data) - self._position:
                raise self._cut()
            kinds = self._byte() if count else 0
            self._skip_elements(count, (kinds >> 4, kinds & 15), depth)
        elif kind == STRUCT:
            while (head := self._byte()) != 0:
                if not head >> 4:
                    self._varint()
                self._skip(head & 15, depth - 1)
        elif kind not in (_TRUE, _FALSE):
            self.expect(kind, STRUCT)

    def _skip_elements(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                # In a list, a bool is a byte; as a field, its type says it.
                self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth - 1)

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise FormatError("a number of more than 64 bits", offset=self.offset)

    def _byte(self) -> int:
        position = self._position
        if position >= len(self._data):
            raise self._cut()
        self._position = position + 1
        return self._data[position]

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise self._cut()
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def _cut(self) -> FormatError:
        return FormatError("the footer ends inside of a value", offset=self.offset)
