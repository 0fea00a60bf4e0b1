"""Text formats of rows, CSV and JSON Lines: a file is cut into blocks of whole lines.

A block is a piece of a table (`tensorferry.formats.tables.pieces`): PyArrow parses it alone, with
the types that the first block has, those of the schema beside the file, which a frame left there
(`tensorferry.formats.tables.typed`), or those that the user gives by `schema=`. Cutting looks at
every byte once, counts the rows, and holds lines against `tensorferry.limits`.

The formats are `tensorferry.formats.csv` and `tensorferry.formats.jsonlines`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorferry import _native, limits
from tensorferry.classes import dataclass, replace
from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    TruncatedError,
    UnknownFeatureError,
)
from tensorferry.formats.contract import WriteOptions
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.reads import TableReads
from tensorferry.formats.tables.writer import BatchWriter, TableWriter
from tensorferry.progress import METER
from tensorferry.rows import schema as schemas
from tensorferry.rows.schema import Schema, as_schema
from tensorferry.storage.place import Place, Target
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Source, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.outline import Outline

BLOCK = 1 << 20
# PyArrow counts the bytes of a block in an int32.
LONGEST = (1 << 31) - 1

_ROW = re.compile(r"\bRow #(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextOptions(TableOptions):
    """How text is read.

    Attributes:
        schema: What some columns are; see `tensorferry.rows.schema.as_schema`. By default the
            schema beside the file tells it, where a frame was written, or else the first block.
    """

    schema: Any = None


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file.

    Attributes:
        start: The offset of the first byte.
        stop: The offset after the last byte.
        rows: Number of rows.
        first: The number of the first row.
    """

    start: int
    stop: int
    rows: int
    first: int


def cut(data: memoryview, start: int, *, quotes: bool, usual: int | None = None) -> list[Block]:
    """The blocks of a text.

    Args:
        data: The whole file.
        start: Where the rows begin.
        quotes: Whether a newline between quotes ends no row.
        usual: Number of bytes of a block, if no line is longer; by default `BLOCK`.

    Raises:
        LimitError: A line is longer than `limits.memory` allows.
        TruncatedError: The text ends inside of quotes.
    """
    most = min(limits.memory, LONGEST)
    found, is_open, is_too_long = _native.cut_lines(data, start, usual or BLOCK, most, quotes)
    blocks, first = [], 0
    for begin, stop, rows in found:
        blocks.append(Block(begin, stop, rows, first))
        first += rows
    if is_too_long:
        raise LimitError(
            f"a line of more than {most} bytes, which are allowed in memory",
            offset=blocks[-1].stop if blocks else start,
            hint="raise tensorferry.limits.memory if the file is to be trusted",
        )
    if is_open:
        raise TruncatedError("the file ends inside of quotes", offset=len(data))
    return blocks


class TextReader(ABC):
    """The blocks of a text: see `tensorferry.formats.tables.pieces.Reader`.

    Args:
        source: The file.
        data: All of its bytes.
        blocks: Of whole lines.
        how: The options.
        like: The schema of the first file of several.

    Raises:
        FormatError: The first block is no such text.
    """

    is_parsed = True
    plain = None
    outlines = None

    def __init__(
        self,
        source: Source,
        data: memoryview,
        blocks: Sequence[Block],
        how: TextOptions,
        like: Any,
    ) -> None:
        pieces.require_pyarrow()
        self._source = source
        self._blocks = blocks
        self.size = len(data)
        self.rows = [block.rows for block in blocks]
        self._first: pa.Table | None = (
            None  # what the first block was found to be, until it is read
        )
        from tensorferry.formats.tables.typed import Typed

        self._typed = how.schema if isinstance(how.schema, Typed) else None
        if self._typed is not None:
            given = {field.name: self._written(field.type) for field in self._typed.schema}
        else:
            given = _types(how.schema if like is None else like)
        whole = like is not None or _is_arrow(how.schema)
        self.schema = self._find_schema(given, whole)
        pieces.check_names(self.schema)
        for name in given:
            if name not in self.schema.names:
                raise UnknownFeatureError(
                    f"its schema has a column {name!r}, which the file lacks",
                    hint=f"there are {', '.join(self.schema.names)[:200]}",
                )
        if self._typed is not None:
            self.schema = self._typed.among(self.schema)
            if not blocks:  # a frame without rows has categories all the same
                self._blocks, self.rows = [Block(len(data), len(data), 0, 0)], [0]

    @staticmethod
    @abstractmethod
    def _written(kind: pa.DataType) -> Any:
        """The type that PyArrow reads where a type was written."""

    @abstractmethod
    def _find_schema(self, given: dict[str, Any], whole: bool) -> Any:
        """The schema.

        Args:
            given: Types of columns.
            whole: Whether these are all columns; otherwise the first block tells the others.
        """

    @abstractmethod
    def _parse(self, text: Any, columns: Sequence[str], rows: int) -> Any:
        """The table that is in a block.

        Args:
            text: Whole lines.
            columns: The columns to read.
            rows: Number of lines that are not blank.
        """

    def _text(self, index: int) -> Any:
        import pyarrow as pa

        block = self._blocks[index]
        return pa.py_buffer(self._source.copy(block.start, block.stop))

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A block, parsed."""
        block = self._blocks[index]
        if not block.rows:
            return [self._empty(columns)]
        # In JSON, a line of few bytes may lack thousands of columns.
        pieces.check_memory(8 * block.rows * len(self.schema), held=self.size)
        with self._located(block):
            first, self._first = (self._first, None) if index == 0 else (None, self._first)
            if first is None:
                first = self._parse(self._text(index), columns, block.rows)
            table = first
            if table.column_names != list(columns):
                table = table.select(list(columns))
        METER.add(block.stop - block.start)
        if table.num_rows != block.rows and columns:
            raise FormatError(
                f"rows {block.first} to {block.first + block.rows - 1}: {table.num_rows} rows are "
                f"in {block.rows} lines",
                offset=block.start,
            )
        if self._typed is None:
            return list(table.to_batches())
        typed = self._typed.select(columns, self.schema)
        with self._located(block):
            return [
                typed.restored(dict(zip(columns, batch.columns, strict=True)), batch.num_rows)
                for batch in table.to_batches()
            ]

    def _empty(self, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns of a frame without rows."""
        import pyarrow as pa

        assert self._typed is not None
        typed = self._typed.select(columns, self.schema)
        found = {field.name: pa.array([], self._written(field.type)) for field in typed.schema}
        return typed.restored(found, 0)

    @contextmanager
    def _located(self, block: Block) -> Iterator[None]:
        """Says in errors which rows it was."""
        try:
            with pieces.translated(offset=block.start):
                yield
        except FerryError as error:
            raise self._explained(error, block) from error.__cause__

    def _explained(self, error: FerryError, block: Block) -> FerryError:
        """An error with the number of its row in the file."""
        message = error.message.removeprefix("PyArrow refuses it: ")
        found = _ROW.search(message)
        if found is not None:
            message = _ROW.sub(f"row {block.first + int(found[1]) - 1}", message, count=1)
        else:
            message = f"rows {block.first} to {block.first + block.rows - 1}: {message}"
        error.message = message
        if error.hint is None and block.first:
            error.hint = "the first rows told the types; schema={...} gives others"
        return error

    def stream(
        self, index: int, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch] | None:
        """A piece is parsed as a whole."""
        return None

    def memory(self, index: int, columns: Sequence[str]) -> int:
        """Numbers take about as much as their text."""
        block = self._blocks[index]
        return block.stop - block.start

    def spans(self, index: int, columns: Sequence[str]) -> list[Span]:
        """The lines."""
        return [(self._blocks[index].start, self._blocks[index].stop)]

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The leaves that are null in some row: all of the file is parsed for it."""
        from tensorferry.formats.tables import values as arrow_values
        from tensorferry.tensors.values import RaggedTensor

        wanted = [leaf for leaf in leaves if not leaf.error]
        found: set[str] = set()
        names = list(dict.fromkeys(leaf.column for leaf in wanted))
        for index in range(len(self.rows) if names else 0):
            batches = self.batches(index, names)
            # A number or a text is missing where it is null. Only other columns are looked into.
            lacking = {
                name
                for batch in batches
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if column.null_count or not arrow_values.is_plain(column.type)
            }
            for leaf in wanted:
                if leaf.name not in found and leaf.column in lacking:
                    field = self.schema.field(leaf.column)
                    chunks = [batch.column(leaf.column) for batch in batches]
                    value = arrow_values.from_chunks(field, chunks, wanted=[leaf.name])[leaf.name]
                    if isinstance(value, RaggedTensor):
                        found.add(leaf.name)
        return found

    def sizes(self) -> dict[str, int]:
        """Columns stand in the same lines."""
        return {}

    def version(self) -> str | None:
        """Text names none."""
        return None

    def compressions(self) -> set[str]:
        """Text has none of its own."""
        return set()

    def offset(self, index: int, column: str) -> int:
        """Where a block starts."""
        return self._blocks[index].start


class TextReads(TableReads):
    """Reads a text format."""

    options = TextOptions

    def prepared(self, how: TableOptions, place: Place) -> TableOptions:
        """The options with the types of the frame that was written, by the schema beside a file."""
        assert isinstance(how, TextOptions)
        if how.schema is None:
            found = schemas.find_own(place)
        elif isinstance(how.schema, Schema | str | PathLike):
            found = as_schema(how.schema)
        else:
            return how
        if found is None or found.frame is None:
            return how
        pieces.require_pyarrow()
        from tensorferry.formats.tables.typed import Typed

        return replace(how, schema=Typed.from_json(found.frame))

    def settled(self, how: TableOptions, schema: pa.Schema) -> TableOptions:
        """The options with the types that the first file told."""
        from tensorferry.formats.tables.typed import Typed

        assert isinstance(how, TextOptions)
        return how if isinstance(how.schema, Typed) else replace(how, schema=schema)


class TextWrites(ABC):
    """Writes a text format."""

    options = WriteOptions

    @abstractmethod
    def begin(self, sink: Sink, schema: pa.Schema, *, beside: bool) -> BatchWriter:
        """Begins a file.

        Args:
            sink: Takes the bytes.
            schema: Of the batches.
            beside: Whether a schema beside the file can keep the types of a frame.
        """

    def writer(
        self,
        target: Target,
        how: WriteOptions,
        *,
        shards: int | None,
        metadata: Mapping[str, Any],
    ) -> TableWriter:
        """Opens a writer of rows."""
        begin = partial(self.begin, beside=target.has_neighbours or target.beside is not None)
        return TableWriter(target, begin, shards=shards, keeps_types=False)


def _is_arrow(schema: pa.Schema) -> bool:
    import pyarrow as pa

    return isinstance(schema, pa.Schema)


def _types(schema: pa.Schema) -> dict[str, Any]:
    """The types of Arrow's that a user, or a file before, gives to columns."""
    if schema is None:
        return {}
    found = schema if _is_arrow(schema) else as_schema(schema).to_arrow()
    return {field.name: as_text(field.type) for field in found}


def as_text(kind: pa.DataType) -> Any:
    """A type with texts in place of bytes, of times, of decimals, and of nothing at all."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return as_text(kind.storage_type)
    if types.is_null(kind) or types.is_temporal(kind) or types.is_binary(kind):
        return pa.string()
    if types.is_decimal(kind):  # PyArrow does not survive every number: see rows.schema.casting
        return pa.string()
    if types.is_fixed_size_list(kind) or types.is_list(kind):
        return pa.list_(as_text(kind.value_type))
    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, as_text(field.type)) for field in fields])
    return kind
