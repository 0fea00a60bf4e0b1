"""Text formats of rows, CSV and JSON Lines: a file is cut into blocks of whole lines.

A block is a piece of a table (`tensorferry.formats.tables.pieces`): PyArrow parses it alone, with
the types that the first block has, or those that the user gives by `schema=`. Cutting looks at
every byte once, counts the rows, and holds lines against `tensorferry.limits`.

The formats are `tensorferry.formats.csv` and `tensorferry.formats.jsonlines`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import limits
from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    UnknownFeatureError,
)
from tensorferry.formats.contract import WriteOptions
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.reads import TableReads
from tensorferry.formats.tables.writer import BatchWriter, TableWriter
from tensorferry.rows.schema import as_schema
from tensorferry.storage.place import Target
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Span
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.outline import Outline

BLOCK = 1 << 20
# PyArrow counts the bytes of a block in an int32.
LONGEST = (1 << 31) - 1

NEWLINE = 10

_ROW = re.compile(r"\bRow #(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextOptions(TableOptions):
    """How text is read.

    Attributes:
        schema: What some columns are; see `tensorferry.rows.schema.as_schema`. By default the first
            block of the file tells it.
    """

    schema: pa.Schema = None


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


Ends = Callable[[Array], Array]
"""The places of the newlines that end rows, among the bytes of some text."""


def newlines(text: Array) -> Array:
    """The places of all newlines."""
    return np.flatnonzero(text == NEWLINE)


def cut(data: memoryview, start: int, ends: Ends) -> list[Block]:
    """The blocks of a text.

    Args:
        data: The whole file.
        start: Where the rows begin.
        ends: Finds the ends of rows.

    Raises:
        LimitError: A line is longer than `limits.memory` allows.
    """
    blocks: list[Block] = []
    size, first = BLOCK, 0
    while start < len(data):
        text = np.frombuffer(data[start : start + size], np.uint8)
        found = ends(text)
        if start + size >= len(data) and (not len(found) or found[-1] != len(text) - 1):
            found = np.append(found, len(text))  # the last line has no newline
        if not len(found):
            if 2 * size > min(limits.memory, LONGEST):
                raise LimitError(
                    f"a line of more than {size} bytes, "
                    f"{min(limits.memory, LONGEST)} are allowed in memory",
                    offset=start,
                    hint="raise tensorferry.limits.memory if the file is to be trusted",
                )
            size *= 2
            continue
        rows = _count(text, found)
        stop = min(start + int(found[-1]) + 1, len(data))
        blocks.append(Block(start, stop, rows, first))
        start, first, size = stop, first + rows, BLOCK
    return [block for block in blocks if block.rows]


def _count(text: Array, ends: Array) -> int:
    """Number of lines that are not blank."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    inside = starts < len(text)
    first = np.full(len(starts), NEWLINE, np.uint8)
    first[inside] = text[starts[inside]]
    doubtful = (lengths > 0) & np.isin(first, [9, 13, 32])
    blank = int((lengths == 0).sum())
    for place in np.flatnonzero(doubtful).tolist():
        blank += not text[starts[place] : ends[place]].tobytes().strip()
    return len(ends) - blank


class TextReader(ABC):
    """The blocks of a text: see `tensorferry.formats.tables.pieces.Reader`.

    Args:
        data: All bytes.
        blocks: Of whole lines.
        how: The options.
        like: The schema of the first file of several.

    Raises:
        FormatError: The first block is no such text.
    """

    def __init__(
        self, data: memoryview, blocks: Sequence[Block], how: TextOptions, like: Any
    ) -> None:
        pieces.require_pyarrow()
        self._data = data
        self._blocks = blocks
        self.size = len(data)
        self.rows = [block.rows for block in blocks]
        given = _types(how.schema if like is None else like)
        whole = like is not None or _is_arrow(how.schema)
        self.schema = self._find_schema(given, whole)
        pieces.check_names(self.schema)
        for name in given:
            if name not in self.schema.names:
                raise UnknownFeatureError(
                    f"schema= has a column {name!r}, which the file lacks",
                    hint=f"there are {', '.join(self.schema.names)[:200]}",
                )

    @abstractmethod
    def _find_schema(self, given: dict[str, Any], whole: bool) -> Any:
        """The schema.

        Args:
            given: Types of columns.
            whole: Whether these are all columns; otherwise the first block tells the others.
        """

    @abstractmethod
    def _parse(self, text: Any, columns: Sequence[str]) -> Any:
        """The table that is in a block."""

    def _text(self, index: int) -> Any:
        import pyarrow as pa

        block = self._blocks[index]
        return pa.py_buffer(self._data[block.start : block.stop])

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A block, parsed."""
        block = self._blocks[index]
        with self._located(block):
            table = self._parse(self._text(index), columns).select(list(columns))
            table.validate(full=True)
        if table.num_rows != block.rows and columns:
            raise FormatError(
                f"rows {block.first} to {block.first + block.rows - 1}: {table.num_rows} rows are "
                f"in {block.rows} lines",
                offset=block.start,
            )
        return list(table.to_batches())

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
            for leaf in wanted:
                if leaf.name not in found:
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

    def settled(self, how: TableOptions, schema: pa.Schema) -> TableOptions:
        """The options with the types that the first file told."""
        assert isinstance(how, TextOptions)
        return replace(how, schema=schema)


class TextWrites(ABC):
    """Writes a text format."""

    options = WriteOptions

    @abstractmethod
    def begin(self, sink: Sink, schema: pa.Schema) -> BatchWriter:
        """Begins a file."""

    def writer(
        self,
        target: Target,
        how: WriteOptions,
        *,
        shards: int | None,
        metadata: Mapping[str, Any],
    ) -> TableWriter:
        """Opens a writer of rows."""
        return TableWriter(target, self.begin, shards=shards, keeps_index=False)


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
    """A type with texts in place of bytes, of times, and of nothing at all."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return as_text(kind.storage_type)
    if types.is_null(kind) or types.is_temporal(kind) or types.is_binary(kind):
        return pa.string()
    if types.is_fixed_size_list(kind) or types.is_list(kind):
        return pa.list_(as_text(kind.value_type))
    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, as_text(field.type)) for field in fields])
    return kind
