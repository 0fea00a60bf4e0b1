"""Writing tables: rows, or batches of columns, streamed into one file or a set of shards.

Rows are gathered to batches (`tensorferry.formats.tables.gather`), and batches to the pieces of the
format, so that memory is bounded by a few batches. All of them have the schema of the first. The
files are written under temporary names and appear together when the writer is closed, or not at
all. `tensorferry.save` writes columns that are in memory as a whole.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from tensorferry import frameworks
from tensorferry.codecs import json_text
from tensorferry.errors import LimitError, UnsupportedError
from tensorferry.formats.contract import choose
from tensorferry.formats.table import to_write
from tensorferry.formats.tables import pieces
from tensorferry.frameworks import frames
from tensorferry.rows import schema as schemas
from tensorferry.storage import Sink, shards as names
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.note import Note

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.typed import Typed

_SHORTHAND = re.compile(r"@[0-9]{1,9}(\.[^@/]*)?$")


class BatchWriter(Protocol):
    """Writes one file of a format."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Takes a record batch of the schema."""

    def close(self) -> None:
        """Ends the file."""


Begin = Callable[[Sink, Any], BatchWriter]
"""Begins a file of a schema."""


class TableWriter:
    """Writes rows into a file of columns; see `tensorferry.writer`.

    Use it in a `with` block, or call `close`. What a column is, its first rows decide: see
    `tensorferry.formats.tables.gather`.

    Args:
        target: The file, or the name of a set of shards: "name@10.parquet".
        begin: Begins a file.
        shards: Number of files. Rows go to them in turn, a batch is divided among them.
        metadata: What the user wants to keep with every file.
        batch_rows: Number of rows that are written together; by default those of a batch.
        keeps_types: Whether the format keeps the types of Arrow, and the metadata of a schema.
            Otherwise a schema beside each file keeps those of a frame; a target that has nothing
            beside it, such as a stream, leaves out an index of pandas without a name.

    Attributes:
        paths: The files.
    """

    def __init__(
        self,
        target: Target,
        begin: Begin,
        *,
        shards: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        batch_rows: int | None = None,
        keeps_types: bool = True,
    ) -> None:
        pieces.require_pyarrow()
        from tensorferry.formats.tables.columns import texts_of
        from tensorferry.formats.tables.gather import Gathered

        self._target = target
        self._begin = begin
        self._keeps_types = keeps_types
        self._typed: Typed | None = None
        self._beside: list[Callable[[str], Sink]] = []  # opens a file beside each file
        self._texts = texts_of(Note().to_metadata(dict(metadata or {})))
        self._batch_rows = None if batch_rows is None else operator.index(batch_rows)
        if self._batch_rows is not None and self._batch_rows < 1:
            raise ValueError(f"batches of {self._batch_rows} rows, expected 1 or more")
        self.paths = _names(target, shards)
        self._count = self._turn = 0
        self._schema: Any = None
        self._first: Any = None  # the schema of the first batch, as it was given
        self._gathered = Gathered()
        self._writers: list[BatchWriter] = []
        self._stack: ExitStack | None = ExitStack()
        try:
            self._sinks = self._open(target, self._stack)
        except BaseException as error:
            self._stop(type(error), error, error.__traceback__)
            raise

    def _open(self, target: Target, stack: ExitStack) -> list[Any]:
        if not target.is_path:
            self._beside = [] if target.beside is None else [target.beside]
            return [stack.enter_context(target.sink())]
        files = stack.enter_context(target.opened(self.paths))
        if target.has_neighbours:
            self._beside = [partial(files.join, path) for path in self.paths]
        return [files.open(path) for path in self.paths]

    @property
    def count(self) -> int:
        """Number of rows it was given."""
        return self._count + len(self._gathered)

    @property
    def nbytes(self) -> int | None:
        """Number of bytes that were written so far, if somebody counts them."""
        sizes = [size_of(sink) for sink in self._sinks]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def write(self, row: Mapping[str, Any]) -> None:
        """Writes one row: a dict from column names to values; None is null.

        Raises:
            UnsupportedError: A value has no place in a column, or does not fit the rows before it.
        """
        self._check_open()
        if not isinstance(row, Mapping):
            raise frames.no_row(row, "a dict of columns")
        self._gathered.add(row)
        if self._gathered.is_full(len(self.paths)):
            self._flush()

    def write_batch(self, columns: Any) -> None:
        """Writes many rows.

        Args:
            columns: A dict from names to columns of one length, or a frame: a DataFrame of pandas
                or polars, a table or record batch of Arrow, rows that were opened, and whatever
                else has `__arrow_c_stream__`. A frame keeps its types.

        Raises:
            UnsupportedError: A column has no place in the file, or changes its type on the way.
        """
        self._check_open()
        self._flush()
        if isinstance(columns, Mapping):
            self._write_batch(self._batch_of(columns))
            return
        if not frames.is_frame(columns):
            raise UnsupportedError(
                f"a batch is {type(columns).__name__}, expected a dict of columns or a table"
            )
        is_first = self._schema is None
        is_typed = bool(self._beside) if is_first else self._typed is not None
        from tensorferry.formats.tables.outline import checked

        batches = frames.reader(columns, index=self._keeps_types or is_typed)
        checked(batches.schema)
        if is_first and is_typed and not self._keeps_types:
            self._typed = self._types_of(batches.schema)
        for batch in batches:
            self._write_batch(batch)
        if self._schema is None:  # a table without rows has a schema all the same
            self._start(batches.schema)

    def _types_of(self, schema: pa.Schema) -> Typed:
        from tensorferry.formats.tables.typed import Typed, restorable

        return Typed(restorable(schema))

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        batch = self._fitted(batch)
        if self._typed is not None:
            self._typed.learn(batch)
        block = -(-batch.num_rows // len(self.paths)) or 1
        for first in range(0, batch.num_rows, block):
            self._put(batch.slice(first, block))
            self._turn = (self._turn + 1) % len(self.paths)
        self._count += batch.num_rows

    def _batch_of(self, columns: Mapping[str, Any]) -> Any:
        """Columns as a record batch; a list is one of rows, unless it is one of arrays."""
        from tensorferry.formats.tables import columns as arrow_columns, gather

        accepted = {name: frameworks.accept(column) for name, column in columns.items()}
        lists = [name for name, column in accepted.items() if gather.are_rows(column)]
        if not lists:
            return arrow_columns.to_batch(accepted, metadata={}, rows=True)
        return gather.to_batch(accepted, lists, self._schema, self._count)

    def flush(self) -> None:
        """Encodes the rows that were gathered; the files appear on closing all the same."""
        self._check_open()
        self._flush()

    def _flush(self) -> None:
        """Deals the rows that were gathered to the shards, in turn."""
        import pyarrow as pa

        count, turns = len(self._gathered), len(self.paths)
        if not count:
            return
        batch = self._fitted(self._gathered.take(self._schema, self._count))
        for place in range(min(turns, count)):
            if turns == 1:
                self._put(batch)
            else:
                self._put(batch.take(pa.array(range(place, count, turns), pa.int64())))
            self._turn = (self._turn + 1) % turns
        self._turn = (self._turn - min(turns, count) + count) % turns
        self._count += count

    def _fitted(self, batch: pa.RecordBatch) -> Any:
        """A batch with the schema of the first."""
        import pyarrow as pa

        if self._schema is None:
            self._start(batch.schema)
        if batch.schema.equals(self._first, check_metadata=True):
            return batch.replace_schema_metadata(self._schema.metadata)
        columns: list[pa.Array | None] = list(batch.columns)
        if batch.schema.types != self._schema.types and len(columns) == len(self._schema):
            from tensorferry.formats.tables.frames import fitting

            columns = list(map(fitting, columns, self._schema.types))
        if batch.schema.names != self._schema.names or None in columns:
            raise UnsupportedError(
                f"row {self._count}: the columns are {_described(batch.schema)}, "
                f"and {_described(self._schema)} in the rows before",
                hint="give every batch the same columns, of the same types",
            )
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _start(self, schema: pa.Schema) -> None:
        self._first = schema
        self._schema = schema.with_metadata({**(schema.metadata or {}), **self._texts})
        with _refused():
            self._writers = [self._begin(sink, self._schema) for sink in self._sinks]

    def _put(self, batch: pa.RecordBatch) -> None:
        with _refused():
            for part in pieces.pieces(batch, self._batch_rows):
                self._writers[self._turn].write_batch(part)

    def _check_open(self) -> None:
        if self._stack is None:
            raise ValueError("the writer is closed")

    def close(self) -> None:
        """Finishes the files and lets them appear.

        Raises:
            UnsupportedError: There were no rows, and so there are no columns.
        """
        self.__exit__(None, None, None)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stack is None:
            return
        try:
            if kind is None:
                self._flush()
                if self._schema is None:
                    raise UnsupportedError("there are no rows, and so no columns for a table")
            writers, self._writers = self._writers, []
            while writers:
                with _refused():
                    writers.pop(0).close()
            if kind is None:
                self._keep_beside()
        except BaseException as failure:
            if kind is None:
                self._stop(type(failure), failure, failure.__traceback__)
                raise
        self._stop(kind, error, trace)
        if (
            kind is None
            and not self._keeps_types
            and self._target.has_neighbours
            and not self._typed
        ):
            schemas.remove_own(self.paths)

    def _keep_beside(self) -> None:
        """Writes the schemas that have the types of a frame; they appear with the files."""
        if self._typed is None:
            return
        schema = schemas.Schema(frame=self._typed.to_json())
        self._target.has_beside = True
        for join in self._beside:
            join(schemas.SUFFIX).write(json_text.to_text(schema.to_json()))

    def _stop(self, *exception: Any) -> None:
        """Closes the files: they appear unless there is an exception."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*exception)


class _refused:  # noqa: N801  # used like contextlib.suppress
    """Turns what PyArrow says of a column that it cannot write into an error of ours."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowMemoryError):
            raise LimitError(f"PyArrow has no memory for it: {error}") from error
        if isinstance(error, pa.ArrowNotImplementedError | pa.ArrowInvalid | pa.ArrowTypeError):
            raise UnsupportedError(
                f"PyArrow cannot write it: {error}", hint="cast the column, or leave it out"
            ) from error


def _names(target: Target, count: int | None) -> list[str]:
    if count is None and not _SHORTHAND.search(target.path):
        return [target.path]
    if not target.is_path:
        raise UnsupportedError("shards are written to a path", path=target.path)
    return names.shard_names(target.path, count)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:200]


def write_table(
    batches: Iterable[Any],
    sink: Sink,
    *,
    format: str,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    stream: bool = False,
) -> int:
    """Writes batches into a file, and gives the number of rows.

    Args:
        batches: Dicts of columns, or `pyarrow.RecordBatch`es.
        sink: Takes the bytes.
        format: "arrow" or "parquet".
        metadata: What the user wants to keep with it.
        compression: One of the format's own; of Parquet by default zstd, as in `save`.
        stream: Write Arrow's stream format.

    Raises:
        UnsupportedError: A column has no place in Arrow, or changes its type on the way.
        MissingExtraError: PyArrow is not installed.
    """
    given: dict[str, Any] = {} if compression is None else {"compression": compression}
    if stream:
        given["stream"] = True
    writes = to_write(format).writes_rows
    assert writes is not None
    how = choose(writes.options, given, format=format)
    target = Target("<table>", into=sink)
    with writes.writer(target, how, shards=None, metadata=metadata or {}) as out:
        for batch in batches:
            out.write_batch(batch)
    return out.count
