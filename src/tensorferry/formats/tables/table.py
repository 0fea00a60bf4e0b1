"""Tables: Arrow and Parquet files opened as an ordered stream of rows and columns.

    with Table("predictions.parquet", columns=["id", "scores"]) as table:
        for batch in table.batches(1024):       # a dict of columns
            ...

A file stands in pieces (record batches, row groups), which `tensorferry.formats.arrow.file` and
`parquet` read one at a time, with the columns wanted only. Nothing larger than a piece, or the
pieces of one batch, is in memory, except for columns and tables that are asked for as a whole.
What is read of a file that is not compressed are views of it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.errors import FerryError, UnknownFeatureError, UnknownFormatError
from tensorferry.formats.arrow import file as arrow
from tensorferry.formats.parquet import file as parquet
from tensorferry.formats.tables import pieces as arrow_files
from tensorferry.storage import Source, as_source, open_source
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import Kind, RaggedTensor, SparseTensor, TensorInfo

if TYPE_CHECKING:
    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.outline import Outline

# How many rows are made of columns at a time, when rows are wanted.
ROWS = 1024

To = Literal["numpy", "tensorflow", "torch", "jax", "arrow"]


class Table:
    """Rows and columns of an Arrow or Parquet file, read when they are asked for.

    Iterating gives rows (dicts), `batches(n)` dicts of columns, `table["name"]` a whole column;
    `len`, `table[7]`, `table[2:5]` and `table[[3, 1, 4]]` work on all of them. In a row that is
    null, the value is None. Values stay valid when the table is closed. A table of a path can be
    pickled: workers open the file anew.

    Args:
        source: A path, "-" for the standard input, a binary file object, a `Source`, or the bytes
            themselves. What cannot be mapped is read into memory.
        columns: The columns wanted, by their names in the schema; by default all.
        format: "arrow" or "parquet"; by default recognised from the bytes.
        verify: Check all that is read: checksums, offsets, indices, text.

    Raises:
        FormatError: The file is damaged, or of neither format.
        UnknownFeatureError: There is no such column.
        MissingExtraError: PyArrow is not installed.
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        format: Literal["arrow", "parquet"] | None = None,
        verify: bool = True,
    ) -> None:
        self._given = source
        self._wanted = None if columns is None else list(columns)
        self._format, self._verify = format, verify
        self._owned = not isinstance(source, Source)
        self._source: Source = open_source(source) if self._owned else source
        self.path = self._source.path
        self._piece: tuple[int, list[Any]] | None = None
        self._buffer: bytes | memoryview | None = None
        try:
            self._buffer = _all_of(self._source)
            with self._located():
                self._reader = self._open(self._wanted)
        except BaseException:
            self.close()
            raise
        self._starts = np.cumsum([0, *self._reader.rows])

    def _open(self, columns: Sequence[str] | None) -> arrow_files.Reader:
        if self._buffer is None:
            raise ValueError(f"{self.path}: the table is closed")
        head = bytes(self._buffer[:64])
        if self._format == "parquet" or (self._format is None and parquet.sniff(head)):
            return parquet.Reader(self._buffer, columns=columns, verify=self._verify)
        if self._format == "arrow" or (self._format is None and arrow.sniff(head)):
            return arrow.Reader(self._buffer, columns=columns, verify=self._verify)
        raise UnknownFormatError(
            f"bytes that start with {head[:16].hex(' ')!r} are neither Arrow nor Parquet",
            offset=0,
            hint='format="arrow" reads streams of versions before 0.15',
        )

    def close(self) -> None:
        """Lets go of the file."""
        if self._owned:
            self._source.close()
        self._piece = self._buffer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self._given, str | os.PathLike):
            raise TypeError("a table can be pickled if it was opened by its path")
        return _reopen, (self._given, self._wanted, self._format, self._verify)

    def __repr__(self) -> str:
        return f"Table({self.path}: {len(self)} rows of {', '.join(self.columns)[:200]})"

    @contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except FerryError as error:
            raise error.located(path=self.path) from error.__cause__

    # What there is

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def format(self) -> Literal["arrow", "parquet"]:
        """The name of the file's format."""
        return "parquet" if isinstance(self._reader, parquet.Reader) else "arrow"

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the columns wanted."""
        return self._reader.schema

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What the user kept with it."""
        return self.note[1]

    @cached_property
    def note(self) -> tuple[Note, dict[str, Any]]:
        """What tensorferry noted about it, and the user's metadata."""
        from tensorferry.formats.tables import values as arrow_values

        with self._located():
            return Note.from_metadata(arrow_values.metadata_of(self.schema))

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [leaf.name for leaf in self._outline]

    @cached_property
    def info(self) -> dict[str, TensorInfo]:
        """What is known of each column without reading it."""
        rows = (len(self),) if self.in_rows else ()
        sizes = self._reader.sizes()
        return {
            leaf.name: _describe(
                leaf,
                rows,
                leaf.name in self._optional,
                # Of a column that is several leaves, nothing tells the part of each.
                sizes.get(leaf.column) if leaf.name == leaf.column else None,
            )
            for leaf in self._outline
        }

    @cached_property
    def _outline(self) -> list[Outline]:
        from tensorferry.formats.tables import outline as arrow_outline

        with self._located(), arrow_files.translated():
            return arrow_outline.outline(self.schema)

    @cached_property
    def in_rows(self) -> bool:
        """Whether its rows are those of columns; otherwise the only row holds whole tensors."""
        from tensorferry.formats.tables import values as arrow_values

        return arrow_values.in_rows(self.schema)

    @property
    def version(self) -> str | None:
        """The version of the format that the file names."""
        return self._reader.version()

    @property
    def compressions(self) -> list[str]:
        """Those of the format's own that the file uses."""
        return sorted(self._reader.compressions())

    @cached_property
    def _optional(self) -> set[str]:
        with self._located(), arrow_files.translated():
            return self._reader.optional()

    @property
    def optional(self) -> frozenset[str]:
        """The columns that are null in some row."""
        return frozenset(self._optional)

    # Columns

    def __getitem__(self, where: Any) -> Any:
        """A column by its name; a row by its number, or a list of them for a slice or a list."""
        if isinstance(where, str):
            return self._column(where)
        if isinstance(where, slice):
            return self.__getitems__(range(*where.indices(len(self))))
        if isinstance(where, Sequence | np.ndarray):
            return self.__getitems__(where)
        return self.__getitems__([where])[0]

    def _column(self, name: str) -> Leaf:
        found = next((leaf for leaf in self._outline if leaf.name == name), None)
        if found is None:
            raise UnknownFeatureError(
                f"no column is called {name!r}",
                path=self.path,
                hint=f"there are {', '.join(self.columns)[:200]}",
            )
        with self._located():
            return arrow_files.read_all(self._open([found.column]))[0][name]

    def to_arrow(self) -> Any:
        """The whole table as a `pyarrow.Table`."""
        import pyarrow as pa

        pieces = range(len(self._reader.rows))
        with self._located():
            self._reader.check_memory(pieces)
            batches = [batch for index in pieces for batch in self._reader.batches(index)]
            return pa.Table.from_batches(batches, schema=self.schema)

    def value(self) -> dict[str, Leaf]:
        """All columns."""
        with self._located():
            return arrow_files.read_all(self._reader)[0]

    # Batches and rows

    def batches(
        self, rows: int = ROWS, *, to: To = "numpy", drop_remainder: bool = False
    ) -> Iterator[Any]:
        """Batches of so many rows, over the boundaries of pieces; the last may be shorter.

        Args:
            rows: How many.
            to: Whose tensors the columns are; "arrow" gives `pyarrow.RecordBatch`.
            drop_remainder: Leave out a last batch that is shorter.
        """
        rows = operator.index(rows)
        if rows < 1:
            raise ValueError(f"batches of {rows} rows, expected 1 or more")
        end = len(self) - len(self) % rows if drop_remainder else len(self)
        for start in range(0, end, rows):
            parts = self._parts(start, min(start + rows, len(self)))
            if to == "arrow":
                yield _together(parts, self.schema)
            else:
                yield frameworks.give(self._leaves(parts), to)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), ROWS):
            end = min(start + ROWS, len(self))
            yield from self._rows(self._parts(start, end), end - start)

    def __getitems__(self, where: Any) -> list[dict[str, Any]]:
        """Several rows, in the order asked for."""
        numbers = []
        for number in where:
            row = operator.index(number)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {number} of {len(self)}")
            numbers.append(row % len(self))
        if not numbers:
            return []
        # Each piece is read once, whatever the order.
        order = sorted(set(numbers))
        parts = [part for start, end in _runs(order) for part in self._parts(start, end)]
        found = dict(zip(order, self._rows(parts, len(order)), strict=True))
        return [found[number] for number in numbers]

    def check(
        self, progress: Callable[[int, int | None], None] | None = None
    ) -> Iterator[tuple[int, FerryError]]:
        """What is wrong in the file: each damaged column of each piece, with its first row.

        Args:
            progress: Is told how many rows are done, and of how many.
        """
        for index, rows in enumerate(self._reader.rows):
            first = int(self._starts[index])
            try:
                self._leaves(self._read(index))
            except FerryError as error:
                found = list(self._damages(index))
                yield from ((first, damage) for damage in found or [error])
            if progress is not None:
                progress(first + rows, len(self))

    def _damages(self, index: int) -> Iterator[FerryError]:
        """What is wrong in the columns of a piece, each read alone."""
        for name in self.schema.names:
            try:
                with self._located():
                    self._open([name]).batches(index)
            except FerryError as error:
                if error.offset is None:
                    error.offset = self._reader.offset(index, name)
                error.tensor = error.tensor or name
                yield error

    def _parts(self, start: int, end: int) -> list[Any]:
        """Slices of record batches with these rows."""
        parts = []
        while start < end:
            index = int(np.searchsorted(self._starts, start, side="right")) - 1
            stop = min(end, int(self._starts[index + 1]))
            first = int(self._starts[index])
            for batch in self._read(index):
                last = first + batch.num_rows
                if first < stop and last > start:
                    skipped = max(start - first, 0)
                    parts.append(batch.slice(skipped, min(stop, last) - first - skipped))
                first = last
            start = stop
        return parts

    def _read(self, index: int) -> list[Any]:
        if self._buffer is None:
            raise ValueError(f"{self.path}: the table is closed")
        if self._piece is None or self._piece[0] != index:
            self._piece = None  # the old one goes before the new one comes
            with self._located():
                self._piece = index, self._reader.batches(index)
        return self._piece[1]

    def _leaves(self, parts: list[Any]) -> dict[str, Leaf]:
        from tensorferry.formats.tables import values as arrow_values

        with self._located(), arrow_files.translated():
            return arrow_values.from_batches(self.schema, parts, optional=self._optional)

    def _rows(self, parts: list[Any], count: int) -> Iterator[dict[str, Any]]:
        leaves = self._leaves(parts)
        if not leaves:
            return iter([{} for _ in range(count)])
        columns = [_row_values(leaf, name in self._optional) for name, leaf in leaves.items()]
        return (dict(zip(leaves, row, strict=True)) for row in zip(*columns, strict=True))


def _reopen(source: Any, columns: Any, format: Any, verify: bool) -> Table:
    return Table(source, columns=columns, format=format, verify=verify)


def _all_of(source: Source) -> bytes | memoryview:
    if source.buffer is not None:
        return source.buffer
    pieces = list(iter(lambda: source.read(1 << 24), b""))
    return as_source(b"".join(pieces))


def _describe(
    leaf: Outline, rows: tuple[int, ...], optional: bool, nbytes: int | None
) -> TensorInfo:
    shape = (*rows, *((None,) if optional and not leaf.several else ()), *leaf.shape)
    kind: Kind = "list" if leaf.several else "sparse" if leaf.sparse else "dense"
    if kind == "dense" and None in shape:
        kind = "ragged"
    elif kind == "dense" and leaf.dtype == dtypes.STRING.name:
        kind = "string"
    return TensorInfo(leaf.name, leaf.dtype, shape, nbytes, kind)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges of those that follow each other."""
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous + 1
            start = number
        previous = number
    yield start, previous + 1


def _row_values(leaf: Leaf, optional: bool) -> list[Any]:
    if isinstance(leaf, SparseTensor):
        return list(leaf.rows())
    values = list(leaf)
    if optional and isinstance(leaf, RaggedTensor):
        return [row[0] if len(row) else None for row in values]
    return values


def _together(parts: list[Any], schema: Any) -> Any:
    """Record batches as one."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    (batch,) = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return batch
