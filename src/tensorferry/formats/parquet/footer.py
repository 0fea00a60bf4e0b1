"""The footer of a Parquet file, as far as it is looked at before PyArrow reads the file.

The footer is a `FileMetaData` in Thrift's compact protocol: structs of fields, each a byte of type
and distance to the last field's number, then its value; integers are varints with the sign in the
last bit. Of it are taken:

    FileMetaData     1 version, 2 schema, 4 row groups, 5 metadata (1 key, 2 value)
    SchemaElement    4 name, 5 number of children
    RowGroup         1 column chunks, 3 rows
    ColumnChunk      1 name of another file, 3 metadata
    ColumnMetaData   1 type, 2 encodings, 3 path, 4 codec, 5 values, 6 size unpacked,
                     7 size stored, 9 place of the data, 11 place of the dictionary,
                     12 statistics (3 nulls)
    PageHeader       1 type, 2 size unpacked, 3 size stored, 4 checksum, 5 data (1 values,
                     2 encoding), 8 data of the second version (1 values, 4 encoding)

PyArrow reads all of this, too, but asking it for a column of a damaged footer can end the process:
its Python interface does not catch what C++ throws there, as for a column whose type or level
histograms contradict the schema. tests/formats/test_parquet_footer.py shows it with one flipped
bit. Structs are read in `tensorferry._native`, and usual footers as a whole. Everything else is
`tensorferry.formats.parquet.file`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorferry import _native, limits
from tensorferry._native import ThriftTable
from tensorferry.classes import NamedTuple, dataclass, make_many
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.parquet import schema

if TYPE_CHECKING:
    from typing_extensions import Buffer

BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 6, 7

CODECS = {
    0: None, 1: "snappy", 2: "gzip", 3: "lzo", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4",
}  # fmt: skip
"""The names of compressions; PyArrow has two numbers for the two frames of lz4."""

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3

# Bytes that a value takes in memory, by the number of its type; of strings without the text.
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 8, 4: 4, 5: 8, BYTE_ARRAY: 12, FIXED_LEN_BYTE_ARRAY: 1}


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


# What is wanted of the structs: see the top of this module.
_STATISTICS = ThriftTable([(3, "integer", None)])
_COLUMN_METADATA = ThriftTable(
    [
        (1, "integer", None),
        (2, "integers", None),
        (3, "binaries", None),
        *((number, "integer", None) for number in (4, 5, 6, 7, 9, 11)),
        (12, "struct", _STATISTICS),
    ]
)
_COLUMN = ThriftTable([(1, "binary", None), (3, "struct", _COLUMN_METADATA)])
_ROW_GROUP = ThriftTable([(1, "structs", _COLUMN), (3, "integer", None)])
_ELEMENT = ThriftTable([(4, "binary", None), (5, "integer", None)])
_PAIR = ThriftTable([(1, "binary", None), (2, "binary", None)])
_FILE = ThriftTable(
    [
        (1, "integer", None),
        (2, "structs", _ELEMENT),
        (4, "structs", _ROW_GROUP),
        (5, "structs", _PAIR),
    ]
)
_ANY = ThriftTable([])
_COUNTED = ThriftTable([(2, "structs", _ANY), (4, "structs", ThriftTable([(1, "structs", _ANY)]))])
_DATA_PAGE = ThriftTable([(1, "integer", None), (2, "integer", None)])
_DATA_PAGE_V2 = ThriftTable([(1, "integer", None), (4, "integer", None)])
_PAGE = ThriftTable(
    [
        *((number, "integer", None) for number in (1, 2, 3, 4)),
        (5, "struct", _DATA_PAGE),
        (8, "struct", _DATA_PAGE_V2),
    ]
)


class Page(NamedTuple):
    """The header of a page.

    Attributes:
        kind: The number of its type.
        unpacked: The size of the page, not compressed.
        stored: The size of the page in the file.
        checksum: Of the page, if it has one.
        values: How many there are, in a page of data.
        encoding: The number of their encoding; None in other pages.
        length: Number of bytes of the header itself.
    """

    kind: int
    unpacked: int
    stored: int
    checksum: int | None
    values: int
    encoding: int | None
    length: int


def count_parts(footer: bytes, *, offset: int) -> tuple[int, int, int]:
    """How many elements the schema has, how many row groups there are, and columns of all of them.

    Raises:
        FormatError: It is no such footer.
    """
    (elements, groups), _ = _COUNTED.read(footer, offset, limits.depth)
    return (
        len(elements or ()),
        len(groups or ()),
        sum(len(columns or ()) for (columns,) in groups or ()),
    )


def read_footer(footer: bytes, *, offset: int) -> Footer:
    """The version and the row groups of a footer, which lies at `offset`.

    Raises:
        FormatError: It is no such footer, or its columns overlap.
        UnsupportedError: It is one of columns in other files.
        LimitError: PyArrow would make far more of the schema than there is.
    """
    return _read_usual(footer, offset) or _read_any(footer, offset)


def _read_usual(footer: bytes, offset: int) -> Footer | None:
    """What a footer of the usual form says; None for any other, whatever is wrong with it."""
    found = _native.parquet_footer(footer, offset, limits.depth)
    if found is None:
        return None
    version, pairs, rows, values = found
    schema.check_metadata(pairs, offset=offset)
    chunks = make_many(Chunk, values)
    columns = len(chunks) // max(1, len(rows))
    groups = [
        RowGroup(count, chunks[number * columns : (number + 1) * columns])
        for number, count in enumerate(rows)
    ]
    return Footer(version, groups)


def _read_any(footer: bytes, offset: int) -> Footer:
    (version, elements, found, pairs), _ = _FILE.read(footer, offset, limits.depth)
    schema.check_elements(elements or (), size=len(footer), offset=offset)
    schema.check_metadata(pairs or (), offset=offset)
    groups = []
    for columns, rows in found or ():
        if rows is not None and rows < 0:
            raise FormatError(f"a row group has {rows} rows, expected 0 or more", offset=offset)
        chunks = [_values(file, metadata, offset) for file, metadata in columns or ()]
        groups.append(RowGroup(rows or 0, make_many(Chunk, chunks)))
    if len({len(group.chunks) for group in groups}) > 1:
        raise FormatError("row groups have different numbers of columns", offset=offset)
    # Whoever walks over all columns takes as long as the file is, if no two share their bytes.
    stored = sum([chunk.stored for group in groups for chunk in group.chunks])
    if stored > offset:
        raise FormatError(
            f"the columns take {stored} bytes together, {offset} stand before the footer",
            offset=offset,
        )
    return Footer(version or 0, groups)


def read_page(header: Buffer, *, offset: int) -> Page:
    """What the header of a page says.

    Args:
        header: Bytes that start with it.
        offset: Where that is in the file.

    Raises:
        FormatError: It is no such header.
    """
    (kind, size, stored, checksum, first, second), length = _PAGE.read(header, offset, limits.depth)
    if kind is None or size is None or stored is None:
        raise FormatError("a page has no type or no size", offset=offset)  # as a byte of 0 is
    data = {DATA_PAGE: first, DATA_PAGE_V2: second}.get(kind)
    count, encoding = data or (None, None)
    return Page(kind, size, stored, checksum, count or 0, encoding, length)


def _values(file: bytes | None, metadata: tuple[Any, ...] | None, offset: int) -> tuple[Any, ...]:
    """The values of a `Chunk`, in the order of its fields."""
    if file is not None:
        raise UnsupportedError(
            f"a column stands in another file, {file[:60]!r}", hint="open that file"
        )
    if metadata is None:
        raise FormatError("a column has no metadata", offset=offset)
    kind, encodings, path, codec, values, unpacked, stored, data, dictionary, statistics = metadata
    sizes = values or 0, unpacked or 0, stored or 0
    start, before = data or 0, dictionary or 0
    if min(*sizes, start) < 0:
        raise FormatError("a column has a size or place below 0", offset=offset)
    return (
        tuple([name.decode(errors="replace") for name in path or ()]),
        kind or 0,
        tuple(encodings or ()),
        codec or 0,
        *sizes,
        before if 0 < before < start else start,
        None if statistics is None else statistics[0],
    )
