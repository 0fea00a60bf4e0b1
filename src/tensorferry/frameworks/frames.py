"""Frames: tables of pandas, polars, PyArrow, duckdb and others, in and out.

    with frames.reader(df) as batches:      # a `pyarrow.RecordBatchReader`
        for batch in batches: ...
    frames.to_pandas(table)                 # a `pandas.DataFrame`

A frame is recognised without importing its package, by the name of its class or by Arrow's own
interface, the method `__arrow_c_stream__`. PyArrow (the extra "arrow") carries the columns over,
with the types that the package itself gives them in Arrow. Packages are imported to make their
frames, never to take them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tensorferry.errors import FerryError, MissingExtraError, UnsupportedError
from tensorferry.frameworks.contract import Foreign
from tensorferry.tensors.values import is_namedtuple

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import polars as pl
    import pyarrow as pa

# What PyArrow calls the levels of an index that have no name.
_INDEX = re.compile(r"__index_level_\d+__$")

# The classes of a package that are one column, and no frame, though Arrow can take them.
_COLUMNS = {"pandas": "Series", "polars": "Series", "pyarrow": "ChunkedArray"}

# A table of so many bytes becomes a pandas frame on all cores: below, handing out takes longer.
_THREADS_FROM = 16 << 20


@runtime_checkable
class ArrowStream(Protocol):
    """What Arrow's PyCapsule interface asks of a table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of record batches."""


def is_frame(value: Foreign) -> bool:
    """Whether a value is a table with named columns, of whichever package."""
    kind: Any = type(value)
    return _are_frames(kind)


@lru_cache(maxsize=1024)
def _are_frames(kind: Any) -> bool:
    """Whether the values of a class are frames: asking for a protocol takes long."""
    if _is_named(kind, "polars", "LazyFrame"):
        return True
    return issubclass(kind, ArrowStream) and not any(
        _is_named(kind, package, name) for package, name in _COLUMNS.items()
    )


def no_row(value: Foreign, expected: str) -> UnsupportedError:
    """The error for a value that is to be written as a row, and is none.

    Args:
        value: What was given.
        expected: What a row is.
    """
    kind = type(value)
    hint = None
    if is_frame(value):
        hint = "write_batch(frame) writes all of its rows"
    elif is_namedtuple(value):
        hint = "a row is a dict: row._asdict()"
    elif _is_named(kind, "pandas", "Series"):
        hint = "a row is a dict: row.to_dict(); write_batch(frame) writes all rows at once"
    elif "__dataclass_fields__" in vars(kind):
        hint = "a row is a dict: dataclasses.asdict(row)"
    return UnsupportedError(f"a row is {kind.__name__}, expected {expected}", hint=hint)


def _is_of(package: str, name: str, value: Foreign) -> bool:
    """Whether a value is of a class of a package, by name: nothing is imported for that."""
    return _is_named(type(value), package, name)


def _is_named(kind: type, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package
        for base in kind.__mro__
    )


def reader(value: Foreign, *, index: bool = True) -> pa.RecordBatchReader:
    """The record batches of a frame, one after the other, in the types that it has in Arrow.

    The index of a pandas frame becomes columns, as in `DataFrame.to_parquet`, unless it only counts
    the rows.

    Args:
        value: The frame.
        index: Whether an index of pandas that has no name becomes a column, too: only formats that
            keep the metadata of a schema can make an index of it again.

    Raises:
        UnsupportedError: Arrow has no types for its columns.
        MissingExtraError: PyArrow is not installed.
    """
    with _needed("pyarrow", "pip install 'tensorferry[arrow]'"):
        import pyarrow as pa
    with _refused(value):
        if _is_of("polars", "LazyFrame", value):
            value = value.collect()
        if _is_of("polars", "DataFrame", value):
            # Its newest types, views of texts, are some that PyArrow cannot write everywhere.
            oldest = sys.modules["polars"].CompatLevel.oldest()
            return _read(value.to_arrow(compat_level=oldest))
        if _is_of("pandas", "DataFrame", value):
            table = pa.Table.from_pandas(value)
            unnamed = [] if index else [name for name in table.column_names if _INDEX.match(name)]
            return _read(table.drop_columns(unnamed))
        if isinstance(value, pa.Table):
            return _read(value)
        if isinstance(value, pa.RecordBatch):
            return pa.RecordBatchReader.from_batches(value.schema, iter([value]))
        return pa.RecordBatchReader.from_stream(value)


def _read(table: pa.Table) -> pa.RecordBatchReader:
    """The record batches of a table; one without rows has one, which has its categories."""
    import pyarrow as pa

    if table.num_rows:
        return table.to_reader()
    arrays = [column.combine_chunks() for column in table.columns]
    empty = pa.RecordBatch.from_arrays(arrays, schema=table.schema)
    return pa.RecordBatchReader.from_batches(table.schema, iter([empty]))


@contextmanager
def _refused(value: Foreign) -> Iterator[None]:
    """Turns what PyArrow says of a frame that it cannot take into an error of ours."""
    import pyarrow as pa

    try:
        yield
    except FerryError:
        raise
    except (pa.ArrowException, ValueError, TypeError) as error:
        kind = type(value)
        what = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        reason = ": ".join(str(part) for part in reversed(error.args))
        raise UnsupportedError(
            f"a {what} has no counterpart in Arrow: {reason}",
            hint="give the column one type, as in df.astype({...}), or leave it out",
        ) from error


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """A `pandas.DataFrame` of an Arrow table; tensors are arrays of their shape in each row.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    with _needed("pandas", "pip install pandas"):
        import pandas  # noqa: F401  # PyArrow makes the frame, and needs it
    import pyarrow as pa

    is_large = table.get_total_buffer_size() >= _THREADS_FROM  # quicker to tell than `nbytes`
    frame = table.to_pandas(use_threads=is_large)
    for field in table.schema:
        if isinstance(field.type, pa.FixedShapeTensorType) and len(field.type.shape) > 1:
            shape, order = tuple(field.type.shape), field.type.permutation
            frame[field.name] = [_shaped(row, shape, order) for row in frame[field.name]]
    return frame


def _shaped(row: Any, shape: tuple[int, ...], order: list[int] | None) -> Any:
    if row is None:
        return None
    array = row.reshape(shape)
    return array if order is None else array.transpose(order)


def to_polars(table: pa.Table) -> pl.DataFrame:
    """A `polars.DataFrame` of an Arrow table; tensors are polars' arrays of their shape.

    Raises:
        MissingExtraError: polars is not installed.
    """
    with _needed("polars", "pip install polars"):
        import polars

    return polars.DataFrame(_without_extensions(table))


def to_hf(table: pa.Table) -> datasets.Dataset:
    """A `datasets.Dataset` of an Arrow table, which it holds as it is: nothing is copied.

    Raises:
        MissingExtraError: Hugging Face's datasets are not installed.
    """
    with _needed("datasets", "pip install datasets"):
        import datasets

    plain = _without_extensions(table).replace_schema_metadata(None)
    return datasets.Dataset(datasets.table.InMemoryTable(plain))


def _without_extensions(table: pa.Table) -> pa.Table:
    """A table whose tensors are lists of fixed size, which share their memory."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            column = _plain(table.column(place))
            table = table.set_column(place, pa.field(field.name, column.type), column)
    return table


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of tensors as lists of fixed size in each other; others as they are stored."""
    import pyarrow as pa

    kind = column.type
    chunks = [chunk.storage for chunk in column.chunks]
    target = kind.storage_type
    if isinstance(kind, pa.FixedShapeTensorType) and kind.permutation is None:
        target = kind.value_type
        for size in reversed(kind.shape):
            target = pa.list_(target, size)
        chunks = [_nested(chunk, tuple(kind.shape)) for chunk in chunks]
    return pa.chunked_array(chunks, target)


def _nested(chunk: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    import pyarrow as pa

    size = chunk.type.list_size
    inner = chunk.values.slice(chunk.offset * size, len(chunk) * size)
    for length in reversed(shape[1:]):
        inner = pa.FixedSizeListArray.from_arrays(inner, length)
    mask = chunk.is_null() if chunk.null_count else None
    return pa.FixedSizeListArray.from_arrays(inner, shape[0], mask=mask)


@contextmanager
def _needed(package: str, hint: str) -> Iterator[None]:
    """Says in an error how to install a package that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(f"{package} is not installed", hint=hint) from None
