"""Rows gathered to record batches.

The first rows that are written together decide what a column is:

    numbers and bools           a number; the widest kind among them
    str                         string, if all of them are
    bytes                       binary
    arrays of one shape         a tensor of fixed shape
    lists, tuples               a list of any length, and of lists if they are nested
    arrays of other lengths     a list; with more dimensions `arrow.variable_shape_tensor`
    None, or no value at all    null

Rows that follow must fit: an integer fits floats, an array of the same rank fits lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tensorferry import frameworks
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.formats.tables import columns as arrow_columns
from tensorferry.formats.tables.frames import fitting
from tensorferry.formats.tables.values import NUMBERS, is_list
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor

if TYPE_CHECKING:
    import pyarrow as pa

# Rows are written together: so many for each file, or so many bytes of them.
GATHERED_ROWS = 1024
GATHERED_BYTES = 4 << 20

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))


class Gathered:
    """Rows that wait to be written together."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._count = self._size = 0

    def __len__(self) -> int:
        return self._count

    def is_full(self, files: int) -> bool:
        """Whether it is time to write the rows."""
        return self._count >= GATHERED_ROWS * files or self._size >= GATHERED_BYTES

    def add(self, row: Mapping[str, Any]) -> None:
        """Takes a row.

        Raises:
            UnsupportedError: A value is none of ours, and cannot be turned into one.
        """
        accepted = {}
        for name, value in row.items():
            if not isinstance(name, str):
                raise UnsupportedError(f"a column is called {name!r}, expected a string")
            try:
                plain = value.__class__ in _PLAIN
                accepted[name] = value if plain else frameworks.accept(value)
            except FerryError as error:
                raise error.located(tensor=name) from None
            self._size += _size_of(accepted[name])
        for name, value in accepted.items():
            if name not in self._columns:
                self._columns[name] = [None] * self._count
            self._columns[name].append(value)
        self._count += 1
        for values in self._columns.values():
            if len(values) < self._count:
                values.append(None)

    def take(self, schema: pa.Schema, first: int) -> Any:
        """The rows as a record batch; none are gathered then.

        Args:
            schema: Of the rows before; None if these are the first.
            first: The number of the first of these rows, for errors.

        Raises:
            UnsupportedError: A column's values do not fit each other, or the schema.
        """
        columns, count = self._columns, self._count
        self._columns, self._count, self._size = {}, 0, 0
        if schema is not None:
            for name in columns:
                if name not in schema.names:
                    raise UnsupportedError(
                        f"rows {first} to {first + count - 1} have a column that the rows before "
                        "do not have",
                        tensor=name,
                        hint="give the first row all columns, as None where it has no value",
                    )
        fields, arrays = [], []
        for name in columns if schema is None else schema.names:
            values = columns.get(name, [None] * count)
            try:
                array, field = _column(name, values, None if schema is None else schema.field(name))
            except FerryError as error:
                error.message = f"rows {first} to {first + count - 1}: {error.message}"
                raise error.located(tensor=name) from None
            arrays.append(array)
            fields.append(field)
        metadata = {arrow_columns.ROWS: "true"} if schema is None else schema.metadata
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata))


def are_rows(column: Any) -> bool:
    """Whether a column is a list of rows, and not of arrays, which may differ in their shapes."""
    return isinstance(column, list | tuple) and not all(
        isinstance(row, np.ndarray) and row.ndim for row in column
    )


def to_batch(
    columns: Mapping[str, Any], lists: Sequence[str], schema: pa.Schema, first: int
) -> pa.RecordBatch:
    """Columns, of which some are lists of rows, as a record batch.

    Args:
        columns: By name, all of one length.
        lists: The names of those that are lists of rows.
        schema: Of the rows before; None if these are the first.
        first: The number of the first of these rows, for errors.

    Raises:
        UnsupportedError: A column has no place in Arrow, or is as long as no other.
    """
    fields, arrays = [], []
    for name, column in columns.items():
        known = schema is not None and name in schema.names
        try:
            if name in lists:
                array, field = _column(name, column, schema.field(name) if known else None)
            else:
                leaf = column if isinstance(column, RaggedTensor | SparseTensor | list) else None
                array, field = arrow_columns.to_column(
                    name, as_tensor(column) if leaf is None else leaf
                )
        except FerryError as error:
            error.message = f"rows from {first} on: {error.message}"
            raise error.located(tensor=name) from None
        arrays.append(array)
        fields.append(field)
    if len({len(array) for array in arrays}) > 1:
        found = ", ".join(f"{f.name!r}: {len(a)}" for f, a in zip(fields, arrays, strict=True))
        raise UnsupportedError(f"the columns have different lengths ({found[:200]})")
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, {arrow_columns.ROWS: "true"})
    )


def _size_of(value: Any) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple):
        is_flat = not value or value[0].__class__ in (int, float, bool)
        return 8 * len(value) if is_flat else sum(map(_size_of, value))
    if isinstance(value, SparseTensor):
        return value.values.nbytes + value.indices.nbytes
    return value.flat_values.nbytes if isinstance(value, RaggedTensor) else 8


def _column(name: str, values: Sequence[Any], field: pa.Field) -> tuple[Any, Any]:
    """The values of a column, nulls among them, and its field."""
    present = [value for value in values if value is not None]
    if not present:
        if field is None:
            raise UnsupportedError(
                "all values are None, so that nothing tells what the column is",
                hint="write a row with a value first, or leave the column out",
            )
        return _nulls(field.type, len(values)), field
    wanted = None if field is None else field.type
    array, found = arrow_columns.to_column(name, _leaf(present, wanted))
    if field is not None and found.type != field.type:
        fitted = fitting(array, field.type)
        if fitted is None:
            raise UnsupportedError(
                f"values are {found.type}, and {field.type} in the rows before",
                hint="values of different lengths are given as lists from the first row on",
            )
        array = fitted
    if len(present) < len(values):
        places, number = [], 0
        for value in values:
            places.append(None if value is None else number)
            number += value is not None
        array = array.take(pa.array(places, pa.int64()))
    return array, found.with_nullable(True) if field is None else field


def _nulls(kind: pa.DataType, count: int) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(count, kind.storage_type))
    return pa.nulls(count, kind)


def _leaf(values: list[Any], wanted: Any) -> Any:
    """Values as the column that they are: an array, ragged, sparse, or a list of arrays."""
    if any(isinstance(value, SparseTensor) for value in values):
        return _sparse(values)
    if all(value.__class__ in _PLAIN for value in values):
        return _typed(_scalars(values, wanted), wanted)
    lists = wanted is not None and is_list(wanted)
    if lists or any(isinstance(value, list | tuple | RaggedTensor) for value in values):
        return _ragged(values, wanted)
    arrays = [as_tensor(value) for value in values]
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1 and not isinstance(wanted, arrow_columns.VariableShapeTensorType):
        return _typed(np.stack(arrays), wanted)
    if {len(shape) for shape in shapes} == {1} and wanted is None:
        return _ragged(values, None)
    return arrays


def _scalars(values: Sequence[Any], wanted: Any) -> Array:
    """Python's values: int64, float64, bool or strings, in which nothing is lost."""
    if not values:
        if wanted is None:
            raise UnsupportedError(
                "all lists are empty, so that nothing tells what the column is",
                hint="write a row with values first, or give arrays, which have a dtype",
            )
        return np.empty(0, bool if pa.types.is_boolean(wanted) else NUMBERS.get(wanted.id, object))
    if any(isinstance(value, str | bytes) for value in values):
        return as_tensor(list(values))
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "bif":
        raise UnsupportedError(
            f"values are {array.dtype} of {array.ndim} dimensions, expected numbers or strings"
        )
    return array


def _ragged(values: list[Any], wanted: Any) -> RaggedTensor:
    """Lists of any length, nested to one depth, and arrays among them."""
    while wanted is not None and (is_list(wanted) or pa.types.is_fixed_size_list(wanted)):
        wanted = wanted.value_type
    level = [value.to_list() if isinstance(value, RaggedTensor) else value for value in values]
    dtype = _dtype_of(values)
    nested = []
    while True:
        for row in level:
            is_scalar = isinstance(row, np.ndarray) and not row.ndim
            if is_scalar or not isinstance(row, list | tuple | np.ndarray):
                raise UnsupportedError(f"a value is {type(row).__name__}, and others are lists")
        splits = np.cumsum([0, *map(len, level)], dtype=np.int64)
        nested.append(splits)
        if level and all(isinstance(row, np.ndarray) for row in level):
            flat = np.concatenate(level)
            break
        level = [element for row in level for element in row]
        if not level or not isinstance(level[0], list | tuple | np.ndarray):
            plain = [one.item() if isinstance(one, np.generic) else one for one in level]
            flat = _scalars(plain, wanted)
            break
    flat = as_tensor(flat if dtype is None else flat.astype(dtype))
    return RaggedTensor(_typed(flat, wanted), tuple(nested))


def _dtype_of(values: list[Any]) -> Any:
    """The dtype of ragged tensors; None of Python's lists, and of arrays, which keep theirs."""
    known = [value.dtype for value in values if isinstance(value, RaggedTensor)]
    return np.result_type(*known) if known and known[0].kind != "O" else None


def _typed(array: Array, wanted: Any) -> Array:
    """Integers as floats where the column has floats."""
    if isinstance(wanted, pa.BaseExtensionType):
        wanted = wanted.storage_type
    while wanted is not None and pa.types.is_fixed_size_list(wanted):
        wanted = wanted.value_type
    if wanted is not None and array.dtype.kind in "iu" and pa.types.is_floating(wanted):
        return array.astype(NUMBERS[wanted.id])
    return array


def _sparse(values: list[Any]) -> SparseTensor:
    shapes = {value.shape if isinstance(value, SparseTensor) else None for value in values}
    if len(shapes) != 1 or None in shapes:
        raise UnsupportedError("sparse tensors of different shapes have no place in one column")
    (shape,) = shapes
    assert shape is not None
    indices = [np.insert(value.indices, 0, row, axis=1) for row, value in enumerate(values)]
    return SparseTensor(
        np.concatenate(indices),
        np.concatenate([value.values for value in values]),
        np.array([len(values), *shape], np.int64),
    )
