"""What Arrow's files and Parquet's have in common: sinks, choosing columns, PyArrow's errors.

Formats do not import each other; `arrow` and `parquet` both stand on this. Each has a `Reader` that
gives record batches piece by piece (a piece is a record batch there, a row group here), which
`tensorferry.formats.tables.table` makes a table of.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    MissingExtraError,
    UnknownFeatureError,
    UnsupportedError,
)
from tensorferry.storage import Sink

if TYPE_CHECKING:
    from tensorferry.formats.tables.columns import Leaf


class Reader(Protocol):
    """A file of columns, in pieces that are read when they are asked for.

    Attributes:
        schema: The `pyarrow.Schema` of the columns wanted.
        rows: How many rows each piece has.
    """

    schema: Any
    rows: list[int]

    def check_memory(self, indexes: Sequence[int]) -> None:
        """Refuses pieces that take more memory than the file or `limits.memory` justifies."""

    def batches(self, index: int) -> list[Any]:
        """A piece as record batches of the columns wanted, verified."""

    def optional(self) -> set[str]:
        """The leaves that are null in some row of any piece."""

    def sizes(self) -> dict[str, int]:
        """How many bytes of the file each column takes, where the file says that."""

    def version(self) -> str | None:
        """The version of the format that the file names."""

    def compressions(self) -> set[str]:
        """Those that its pieces use."""

    def offset(self, index: int, column: str) -> int | None:
        """Where a column of a piece starts in the file, or the piece."""


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


def read_all(reader: Reader) -> tuple[dict[str, Leaf], dict[str, str]]:
    """The leaves and the metadata of a whole file."""
    from tensorferry.formats.tables import values as arrow_values

    pieces = range(len(reader.rows))
    reader.check_memory(pieces)
    batches = [batch for index in pieces for batch in reader.batches(index)]
    with translated():
        leaves = arrow_values.from_batches(reader.schema, batches)
        if not arrow_values.in_rows(reader.schema):
            leaves = arrow_values.out_of_one_row(leaves)
        return leaves, arrow_values.metadata_of(reader.schema)


class SinkFile:
    """A sink with the other methods that PyArrow calls."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self.write = sink.write

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The sink stays open."""


def pieces(batch: Any, rows: int | None) -> Iterator[Any]:
    """A record batch in pieces of so many rows."""
    if rows is None:
        yield batch
        return
    rows = operator.index(rows)
    if rows < 1:
        raise ValueError(f"batches of {rows} rows, expected 1 or more")
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def select(schema: Any, columns: Sequence[str] | None) -> list[str]:
    """The names of the columns wanted.

    Raises:
        FormatError: Several columns have one name.
        UnknownFeatureError: There is no such column.
    """
    names: list[str] = schema.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(
            f"there are several columns {twice!r}, expected different names",
            hint="rename them: pyarrow.Table.rename_columns",
        )
    for name in columns or ():
        if name not in names:
            raise UnknownFeatureError(
                f"no column is called {name!r}", hint=f"there are {', '.join(names)[:200]}"
            )
    return names if columns is None else list(columns)


@contextmanager
def translated(*, offset: int | None = None) -> Iterator[None]:
    """Turns what PyArrow raises into errors of ours."""
    import pyarrow as pa

    try:
        yield
    except FerryError as error:
        if error.offset is None and isinstance(error, FormatError):
            error.offset = offset
        raise
    except pa.ArrowMemoryError as error:
        raise LimitError(f"PyArrow has no memory for it: {error}", offset=offset) from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"PyArrow cannot read it: {error}", offset=offset) from error
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise FormatError(f"PyArrow refuses it: {error}", offset=offset) from error
