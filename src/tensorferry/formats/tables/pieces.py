"""Pieces: what a format of columns must be able to do to be opened as a table.

A file of columns stands in pieces that can be read one at a time: record batches of Arrow, row
groups of Parquet. A format has a `Reader` that gives pieces as PyArrow's record batches;
`tensorferry.formats.tables.table` makes rows of them, and `tensorferry.formats.tables.reads` the
format's `FORMAT`. Here are also PyArrow itself and its errors, translated.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tensorferry.budget import check_size, room_for_paths
from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    MissingExtraError,
    UnsupportedError,
)
from tensorferry.storage import Sink
from tensorferry.storage.source import Span

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.outline import Outline
    from tensorferry.formats.tables.plain import Plain

PART = 1 << 14
"""As so many bytes each column counts, and each piece: parsing CSV takes about nine thousand."""

CHUNK = 1 << 11
"""As so many bytes counts what a file says of a column of a piece."""


class Reader(Protocol):
    """A file of columns, in pieces that are read when they are asked for.

    `columns` are always names of the schema's fields, in the order wanted.

    Attributes:
        rows: Number of rows of each piece.
        size: Number of bytes of the file.
        is_parsed: Whether a piece is text, parsed as a whole whichever columns are wanted;
            several threads may parse several pieces.
    """

    rows: list[int]
    size: int
    is_parsed: bool

    @property
    def plain(self) -> Plain | None:
        """What is known of a file whose columns are numbers, as they lie in memory."""

    @property
    def schema(self) -> pa.Schema:
        """The `pyarrow.Schema` of the file."""

    @property
    def outlines(self) -> list[Outline] | None:
        """The leaves of that schema, if they were found when it was checked."""

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """A piece as record batches, validated.

        Raises:
            FormatError: The piece is damaged.
            LimitError: It takes more memory than the file or `limits.memory` justifies.
            UnsupportedError: PyArrow cannot read it.
        """

    def stream(
        self, index: int, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch] | None:
        """A piece as record batches that are read one after the other, validated.

        Args:
            index: Of the piece.
            columns: The columns to read.
            rows: A record batch has a multiple of so many rows, if possible.

        Returns:
            None if the piece is to be read as a whole, because it is small or nothing is gained.

        Raises:
            FormatError: The piece is damaged; record batches may have come before that is found.
        """

    def memory(self, index: int, columns: Sequence[str]) -> int:
        """Number of bytes that a piece takes in memory beside those of the file, at least."""

    def spans(self, index: int, columns: Sequence[str]) -> list[Span]:
        """Where a piece lies in the file."""

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The names of those of some leaves, outside of lists, that are null in some row."""

    def sizes(self) -> dict[str, int]:
        """Number of bytes of the file that each column takes, where the file says that."""

    def version(self) -> str | None:
        """The version of the format that the file names."""

    def compressions(self) -> set[str]:
        """The format's own compressions that its pieces use."""

    def offset(self, index: int, column: str) -> int | None:
        """Where a column of a piece starts in the file, or else the piece."""


def require_pyarrow() -> Any:
    """PyArrow.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "Arrow and Parquet files need pyarrow, which is not installed",
            hint="pip install 'tensorferry[arrow]'",
        ) from None
    return pyarrow


def check_memory(size: int, *, held: int, what: str = "what was compressed") -> None:
    """Refuses pieces that take more memory than the file or `limits.memory` justifies.

    Args:
        size: Number of bytes they take.
        held: Number of bytes of the file.
        what: Names them in the error.
    """
    check_size(size, what=what, held=held)


def check_parts(columns: int, parts: int = 0, *, held: int, chunks: int = 0) -> None:
    """Refuses more columns and pieces than the file or `limits.memory` justifies.

    PyArrow and we hold something for each, however few bytes of the file stand for it.

    Args:
        columns: How many there are.
        parts: Number of pieces: record batches or row groups.
        held: Number of bytes of the file.
        chunks: Number of columns of all pieces together, where the file describes each of them.
    """
    size = PART * (columns + parts) + CHUNK * chunks
    check_memory(size, held=held, what=f"a table of {columns} columns and {parts} pieces")


class SinkFile:
    """A sink with the other methods that PyArrow calls."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self.write = sink.write

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The sink stays open."""


def pieces(batch: pa.RecordBatch, rows: int | None) -> Iterator[Any]:
    """A record batch in pieces of so many rows."""
    if rows is None:
        yield batch
        return
    rows = operator.index(rows)
    if rows < 1:
        raise ValueError(f"batches of {rows} rows, expected 1 or more")
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def check_names(schema: pa.Schema) -> None:
    """Refuses a schema in which several columns have one name, or of which the paths are endless.

    Raises:
        FormatError: There are such columns.
        LimitError: The paths ("box/corner/x") are far longer than the names.
    """
    check_different(schema.names)
    kinds = enumerate(schema.types)
    left = [(0, schema.field(place)) for place, kind in kinds if kind.num_fields]
    given = paths = 0
    while left:
        above, field = left.pop()
        given += len(field.name)
        path = above + len(field.name) + 1
        paths += path
        left += [(path, field.type.field(index)) for index in range(field.type.num_fields)]
    if paths > room_for_paths(given):
        raise LimitError(f"the paths of columns have {paths} characters, their names only {given}")


def check_different(names: Sequence[str]) -> None:
    """Refuses columns of which several have one name.

    Raises:
        FormatError: There are such columns.
    """
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise FormatError(
            f"there are several columns {twice!r}, expected different names",
            hint="rename them: pyarrow.Table.rename_columns",
        )


def translated(*, offset: int | None = None) -> Translated:
    """Turns what PyArrow raises in a `with` block into errors of ours.

    Args:
        offset: Where in the file that is, for errors that do not tell.
    """
    return Translated(offset)


class Translated:
    """What `translated` gives: a generator takes three times as long, and each file has many."""

    __slots__ = ("_offset",)

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            _translate(error, self._offset)


def _translate(error: BaseException, offset: int | None) -> None:
    """Raises what PyArrow has raised as an error of ours."""
    import pyarrow as pa

    if isinstance(error, FerryError):
        if error.offset is None and isinstance(error, FormatError):
            error.offset = offset
    elif isinstance(error, pa.ArrowMemoryError):
        raise LimitError(f"PyArrow has no memory for it: {error}", offset=offset) from error
    elif isinstance(error, pa.ArrowNotImplementedError):
        raise UnsupportedError(f"PyArrow cannot read it: {error}", offset=offset) from error
    elif isinstance(error, pa.ArrowException | OSError | UnicodeError | OverflowError):
        raise FormatError(f"PyArrow refuses it: {error}", offset=offset) from error
