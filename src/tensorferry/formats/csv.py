"""CSV: rows of numbers and texts, a line each, between commas.

    id,text
    1,"one, two"

The first line names the columns. A text with a comma, a quote or a newline stands in quotes, a
quote in it is doubled. Nothing in the file tells the types: the first rows do, or `schema=`. A
number that is missing is null, a text that is missing is empty: we write nothing at all for a null,
and two quotes for an empty text, which pandas, polars and duckdb tell apart. Numbers come back as
int64 and float64, texts as text: times, too.

PyArrow (the extra "arrow") parses and writes; blocks are `tensorferry.formats.tables.text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.contract import Format, WriteOptions
from tensorferry.formats.tables import pieces, text
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.text import TextOptions
from tensorferry.formats.tables.writer import BatchWriter
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Source
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

QUOTE = 34

# Those of PyArrow's that do not mean the number NaN.
NULLS = ["", "#N/A", "#N/A N/A", "#NA", "-NaN", "N/A", "NA", "NULL", "n/a", "null"]


def row_ends(given: Array) -> Array:
    """The places of the newlines that are not between quotes."""
    is_end = given == text.NEWLINE
    quotes = given == QUOTE
    if quotes.any():
        is_end &= np.cumsum(quotes) % 2 == 0
    return np.flatnonzero(is_end)


class Reader(text.TextReader):
    """The blocks of a CSV file."""

    def __init__(self, data: bytes | memoryview, how: TextOptions, like: Any) -> None:
        pieces.require_pyarrow()
        view = memoryview(data)
        blocks = text.cut(view, 0, row_ends)
        if not blocks:
            raise TruncatedError("no line, expected one with the names of columns", offset=0)
        last = np.frombuffer(view[blocks[-1].start : blocks[-1].stop], np.uint8)
        if (last == QUOTE).sum() % 2:
            raise TruncatedError("the file ends inside of quotes", offset=len(view))
        first = np.frombuffer(view[blocks[0].start : blocks[0].stop], np.uint8)
        ends = [*row_ends(first).tolist(), len(first)]
        starts = [0, *(end + 1 for end in ends)]
        head = next(
            place
            for place in range(len(ends))
            if first[starts[place] : ends[place]].tobytes().strip()
        )
        self._header = first[starts[head] : ends[head]].tobytes()
        self._types: dict[str, Any] = {}
        self._names: list[str] = []
        start = min(blocks[0].start + ends[head] + 1, len(view))
        super().__init__(view, text.cut(view, start, row_ends), how, like)

    def _find_schema(self, given: dict[str, Any], whole: bool) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        with pieces.translated(offset=0):
            header = csv.read_csv(pa.BufferReader(self._header + b"\n"))
            if header.num_rows:
                raise FormatError("lines end with a carriage return alone, expected a newline")
            self._names = header.column_names
            pieces.check_names(pa.schema([(name, pa.null()) for name in self._names]))
        self._types = {name: kind for name, kind in given.items() if name in self._names}
        if self._blocks and not whole:
            with self._located(self._blocks[0]):
                found = self._parse(self._text(0), self._names).schema
                self._types = {name: text.as_text(found.field(name).type) for name in self._names}
        kinds = {name: self._types.get(name, pa.string()) for name in self._names}
        return pa.schema(
            [pa.field(n, kind, nullable=kind != pa.string()) for n, kind in kinds.items()]
        )

    def _parse(self, given: Any, columns: Sequence[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(given),
            read_options=csv.ReadOptions(
                use_threads=False, column_names=self._names, block_size=given.size + 1
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=self._types, include_columns=list(columns), null_values=NULLS
            ),
        )


class Reads(text.TextReads):
    """Reads CSV files."""

    name = "csv"

    def pieces(self, source: Source, how: TableOptions, like: Any) -> pieces.Reader:
        """Opens a file; one that cannot be mapped is read into memory."""
        assert isinstance(how, TextOptions)
        return Reader(source.everything(), how, like)


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
    is_text = holds_strings(kind) or types.is_null(kind)
    # PyArrow would write a duration as a count of a unit that nothing tells.
    is_time = types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind)
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

    def begin(self, sink: Sink, schema: pa.Schema) -> BatchWriter:
        """Begins a file."""
        return Writer(sink, schema)


_READS = Reads()
FORMAT: Format[TextOptions, WriteOptions] = Format(
    reads=_READS, reads_rows=_READS, writes_rows=Writes()
)
