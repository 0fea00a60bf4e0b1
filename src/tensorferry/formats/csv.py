"""CSV: rows of numbers and texts, a line each, between commas.

    id,text
    1,"one, two"

The first line names the columns. A text with a comma, a quote or a newline stands in quotes, a
quote in it is doubled. Nothing in the file tells the types: the first rows do, or `schema=`. A
number that is missing is null, a text that is missing is empty: we write nothing at all for a null,
and two quotes for an empty text, which pandas, polars and duckdb tell apart. Numbers come back as
int64 and float64, times and dates as PyArrow finds them, all else as text. Where a frame was
written, the schema beside the file has its types, and a text that is missing is null.

Blocks (`tensorferry.formats.tables.text`) of the usual form are parsed natively in one call: those
of whole numbers, floats and texts, in which no number is missing. PyArrow (the extra "arrow")
parses all others, tells what is wrong with them, and writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorferry import _native
from tensorferry.budget import check_spread
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.contract import Format, WriteOptions
from tensorferry.formats.tables import pieces, text
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.text import TextOptions
from tensorferry.formats.tables.writer import BatchWriter
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

QUOTE = b'"'

# What the native parser calls the types that it knows, a type that it finds out, and no column.
LETTERS = {"int64": "i", "double": "f", "string": "t"}
ANY_TYPE, UNWANTED = "?", "-"

# Those of PyArrow's that do not mean the number NaN.
NULLS = ["", "#N/A", "#N/A N/A", "#NA", "-NaN", "N/A", "NA", "NULL", "n/a", "null"]


class Reader(text.TextReader):
    """The blocks of a CSV file."""

    def __init__(self, source: Source, how: TextOptions, like: Any) -> None:
        pieces.require_pyarrow()
        view = memoryview(source.everything())
        self._types: dict[str, Any] = {}
        self._names: list[str] = []
        self._header, start = _first_line(view)
        super().__init__(source, view, text.cut(view, start, quotes=True), how, like)

    def _find_schema(self, given: dict[str, Any], whole: bool) -> Any:
        import pyarrow as pa

        with pieces.translated(offset=0):
            pieces.check_parts(self._header.count(b",") + 1, held=self.size)
            self._names = _plain_names(self._header) or _names(self._header)
            check_spread(self._names, offset=0)
            pieces.check_different(self._names)
        self._types = {name: kind for name, kind in given.items() if name in self._names}
        if self._typed is not None:
            return pa.schema([(n, self._types.get(n, pa.string())) for n in self._names])
        if self._blocks and not whole:
            with self._located(self._blocks[0]):
                found = self._parse(self._text(0), self._names, self._blocks[0].rows)
                schema = found.schema
                kinds = dict(zip(schema.names, schema.types, strict=True))
                self._types = {name: _found(kind) for name, kind in kinds.items()}
            if self._types == kinds:
                self._first = found
        return _schema({name: self._types.get(name, pa.string()) for name in self._names})

    @staticmethod
    def _written(kind: pa.DataType) -> Any:
        """The type that PyArrow reads where a type was written."""
        import pyarrow as pa

        from tensorferry.formats.tables.frames import holds_strings

        types = pa.types
        if types.is_dictionary(kind):
            return Reader._written(kind.value_type)
        is_text = types.is_decimal(kind) or types.is_fixed_size_binary(kind)
        if types.is_null(kind) or holds_strings(kind) or is_text:
            return pa.string()
        if types.is_duration(kind):
            return pa.int64()
        return pa.float32() if types.is_float16(kind) else kind

    def _parse(self, given: Any, columns: Sequence[str], rows: int) -> Any:
        exact = self._typed is not None
        usual = None if exact else self._parse_usual(given, columns, rows)
        if usual is not None:
            return usual
        import pyarrow as pa
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(given),
            read_options=csv.ReadOptions(
                use_threads=False, column_names=self._names, block_size=given.size + 1
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=self._types,
                include_columns=list(columns),
                null_values=[""] if exact else NULLS,
                strings_can_be_null=exact,
                quoted_strings_can_be_null=False,
            ),
        )

    def _parse_usual(self, given: Any, columns: Sequence[str], rows: int) -> Any:
        """The table that is in a block of the usual form; None for PyArrow to parse it."""
        import pyarrow as pa

        wanted = set(columns)
        letters = []
        for name in self._names:
            kind = self._types.get(name)
            letter = ANY_TYPE if kind is None else LETTERS.get(str(kind))
            if name not in wanted:
                letter = UNWANTED
            if letter is None:
                return None
            letters.append(letter)
        found = _native.csv_columns(given, "".join(letters), rows, pa.allocate_buffer)
        if found is None:
            return None
        types = {"i": pa.int64(), "f": pa.float64(), "t": pa.string()}
        names = [name for name in self._names if name in wanted]
        arrays, kinds = [], {}
        for name, (letter, values, offsets) in zip(names, found, strict=True):
            buffers = [None, values]
            if offsets is not None:  # quotes left some of the memory over
                size = memoryview(offsets).cast("i")[rows]
                buffers = [None, offsets, values.slice(0, size)]
            kinds[name] = types[letter]
            arrays.append(pa.Array.from_buffers(kinds[name], rows, buffers, 0))
        return pa.Table.from_arrays(arrays, schema=_schema(kinds))


_VISIBLE = re.compile(rb"\S")
_PLAIN_NAME = rb'"[^"\r\n,]*"|[^"\r\n,]*'
_PLAIN_HEADER = re.compile(rb"(?:%b)(?:,(?:%b))*" % (_PLAIN_NAME, _PLAIN_NAME))


def _first_line(data: memoryview) -> tuple[bytes, int]:
    """The first line that is not blank, and where the lines behind it start.

    Raises:
        TruncatedError: There is none, or it ends inside of quotes.
    """
    visible = _VISIBLE.search(data)
    if visible is None:
        raise TruncatedError("no line, expected one with the names of columns", offset=0)
    start = _start_of_line(data, visible.start())
    size = 1 << 12
    while True:
        head = bytes(data[start : start + size])
        end = head.find(b"\n")
        quotes = head.count(QUOTE, 0, end)
        while end >= 0 and quotes % 2:
            last, end = end, head.find(b"\n", end + 1)
            quotes += head.count(QUOTE, last, len(head) if end < 0 else end)
        if end >= 0 or start + size >= len(data):
            break
        size *= 8
    if end < 0 and head.count(QUOTE) % 2:
        raise TruncatedError("the file ends inside of quotes", offset=len(data))
    return (head, start + len(head)) if end < 0 else (head[:end], start + end + 1)


def _start_of_line(data: memoryview, place: int) -> int:
    """Where the line starts that a place lies in."""
    size = 1 << 12
    while True:
        head = bytes(data[max(place - size, 0) : place])
        end = head.rfind(b"\n")
        if end >= 0 or size >= place:
            return place - len(head) + end + 1
        size *= 8


def _plain_names(header: bytes) -> list[str] | None:
    """The names in a line without anything unusual; None where there is, for PyArrow to read."""
    line = header.removesuffix(b"\r")
    if not line or not line.isascii() or not _PLAIN_HEADER.fullmatch(line):
        return None
    return [name.strip('"') for name in line.decode().split(",")]


def _names(header: bytes) -> list[str]:
    """The names in a line, which PyArrow reads as values, not yet as names of columns."""
    import pyarrow as pa
    from pyarrow import csv

    most = header.count(b",") + 1
    found = csv.read_csv(
        pa.BufferReader(header + b"\n"),
        read_options=csv.ReadOptions(
            autogenerate_column_names=True, use_threads=False, block_size=len(header) + 2
        ),
        convert_options=csv.ConvertOptions(
            column_types={f"f{number}": pa.string() for number in range(most)}
        ),
    )
    if found.num_rows != 1:
        raise FormatError("lines end with a carriage return alone, expected a newline")
    return [column[0].as_py() for column in found.columns]


def _schema(kinds: Mapping[str, pa.DataType]) -> Any:
    """The schema of columns of some types; a text that is missing is empty, not null."""
    import pyarrow as pa

    text = pa.string()
    return pa.schema([pa.field(name, kind, kind != text) for name, kind in kinds.items()])


def _found(kind: pa.DataType) -> Any:
    """A type that PyArrow has found; a column that is always empty may be text further on."""
    import pyarrow as pa

    return pa.string() if pa.types.is_null(kind) or pa.types.is_binary(kind) else kind


class Reads(text.TextReads):
    """Reads CSV files."""

    name = "csv"

    def pieces(self, source: Source, how: TableOptions, like: Any) -> pieces.Reader:
        """Opens a file; one that cannot be mapped is read into memory."""
        assert isinstance(how, TextOptions)
        return Reader(source, how, like)


class _Copies:
    """A sink that takes bytes of its own."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, buffer: Any, /) -> None:
        """Takes the bytes of a buffer that is used again."""
        self._sink.write(bytes(buffer))


class Writer:
    """Writes a CSV file: see `tensorferry.formats.tables.writer.BatchWriter`.

    Args:
        sink: Takes the bytes.
        schema: Of the batches.

    Raises:
        UnsupportedError: A column is no column of numbers or texts.
    """

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        import pyarrow as pa
        from pyarrow import csv

        self._schema = pa.schema([_as_text(field) for field in schema])
        # A line of one column without quotes may be blank, and no row.
        style = "all_valid" if len(schema) == 1 else "needed"
        with pieces.translated():
            self._writer = csv.CSVWriter(
                # PyArrow writes into one buffer again and again, which memory would keep.
                pa.PythonFile(pieces.SinkFile(_Copies(sink)), "w"),
                self._schema,
                write_options=csv.WriteOptions(quoting_style=style),
            )

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Takes a record batch."""
        import pyarrow as pa

        arrays = []
        for array, field in zip(batch.columns, self._schema, strict=True):
            if array.null_count and len(self._schema) == 1:
                raise UnsupportedError(
                    "a null has no place in CSV of one column, where its line is blank",
                    tensor=field.name,
                    hint="fill it, or write Parquet or JSON Lines",
                )
            try:
                arrays.append(array.cast(field.type))
            except pa.ArrowInvalid as error:
                raise UnsupportedError(
                    f"bytes that are no text have no place in CSV: {error}", tensor=field.name
                ) from None
        with pieces.translated():
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


def _as_text(field: pa.Field) -> Any:
    """The field of a column of numbers, times or texts; a category is the text that it means."""
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Note
    from tensorferry.formats.tables.frames import holds_strings

    types = pa.types
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    is_text = holds_strings(kind) or types.is_null(kind) or types.is_fixed_size_binary(kind)
    is_time = types.is_temporal(kind) and not types.is_interval(kind)
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    is_number = any(test(kind) for test in tests)
    if Note.of(field) != Note() or not (is_text or is_time or is_number):
        raise UnsupportedError(
            f"a column of {field.type} has no place in CSV, which has numbers, times and texts",
            tensor=field.name,
            hint="write Parquet or JSON Lines",
        )
    return pa.field(field.name, pa.string() if is_text else kind)


class Writes(text.TextWrites):
    """Writes rows of columns."""

    def begin(self, sink: Sink, schema: pa.Schema, *, beside: bool) -> BatchWriter:
        """Begins a file.

        Raises:
            UnsupportedError: A column has no place in it.
        """
        import pyarrow as pa

        for field in schema:
            if pa.types.is_duration(field.type) and not beside:
                raise UnsupportedError(
                    f"a column of {field.type} is a count of a unit, which no schema beside tells",
                    tensor=field.name,
                    hint="write to a path",
                )
        return Writer(sink, schema)


_READS = Reads()
FORMAT: Format[TextOptions, WriteOptions] = Format(
    reads=_READS, reads_rows=_READS, writes_rows=Writes()
)
