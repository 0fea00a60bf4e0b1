"""Blocks: record batches in the types that Ray's batches show as arrays, and back.

Ray shows a column of Arrow's lists as an object array. Tensors are given to Ray in these types:

    every row the same shape      arrow.fixed_shape_tensor (Ray's own where it holds bools)
    some dimensions vary          Ray's variable-shaped tensor
    one dimension of any length   a list, which Ray shows as arrays already
    may be missing                a list as it is: None where a row has no value

The memory of the values is the same in all of them. Blocks that are written come back as lists and
as Arrow's tensors, which every format of rows takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from ray.data.extensions import (
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorType,
)

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.files.bytes import loads
from tensorferry.formats.tables.columns import VARIABLE_SHAPE_TENSOR, check_storage
from tensorferry.rows.rows import Rows
from tensorferry.rows.schema import Schema

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Column:
    """How a column is given to Ray.

    Attributes:
        was: "lists" of numbers; "tensors" of Arrow, of one shape or several; or "bytes" of
            serialized tensors.
        shape: The shape of each row; None where rows differ.
        kind: The type of the numbers in serialized tensors.
        optional: Whether rows may lack it.
    """

    was: Literal["lists", "tensors", "bytes"]
    shape: tuple[int | None, ...]
    kind: pa.DataType | None = None
    optional: bool = False

    def change(self, column: pa.Array) -> pa.Array:
        """The column in Ray's types."""
        if self.was == "bytes":
            return _parsed(column, self.kind, len(self.shape))
        if None not in self.shape:
            shape = tuple(size for size in self.shape if size is not None)
            if self.optional:
                return _listed(_flat(column.storage.drop_null()), shape, column)
            return _fixed(column, shape) if self.was == "lists" else _arrays(column, shape)
        if self.was == "lists":
            return _varying(column, len(self.shape))
        return _nested(column, len(self.shape)) if self.optional else _shapes(column)


@dataclass(frozen=True)
class Layout:
    """What the columns of rows become in Ray's blocks; made on the driver, and pickled.

    Attributes:
        columns: Those that are given in another type than they are read in.
    """

    columns: Mapping[str, Column]

    @classmethod
    def of(cls, rows: Rows) -> Layout:
        """The layout of some rows."""
        optional = rows.optional
        found = {
            field.name: column
            for field in rows.arrow_schema
            if (column := _column(field.type, field.name in optional)) is not None
        }
        return cls({**found, **_serialized(rows.schema, optional)})

    def empty(self, schema: pa.Schema) -> pa.RecordBatch:
        """A batch without rows, in Ray's types."""
        arrays = [_empty(field.type) for field in schema]
        return self.apply(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in Ray's types."""
        for place, field in enumerate(batch.schema):
            column = self.columns.get(field.name)
            if column is not None:
                changed = column.change(batch.column(place))
                batch = batch.set_column(place, field.with_type(changed.type), changed)
        return batch


def _column(kind: pa.DataType, optional: bool) -> Column | None:
    """How a column of a type is given to Ray; None if it is given as it is."""
    if isinstance(kind, pa.FixedShapeTensorType):
        is_plain = kind.permutation is None and not pa.types.is_boolean(kind.value_type)
        if is_plain and not optional:
            return None
        return Column("tensors", tuple(kind.shape), optional=optional)
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name != VARIABLE_SHAPE_TENSOR:
            return None
        _, rank = check_storage(kind.storage_type)
        return Column("tensors", (None,) * rank, optional=optional)
    shape, inner = _shape_of(kind)
    if not shape or not _is_number(inner) or optional or None in shape[1:] or shape == (None,):
        return None
    return Column("lists", shape)


def _shape_of(kind: pa.DataType) -> tuple[tuple[int | None, ...], pa.DataType]:
    """The shape of a row of a type of nested lists, None where it varies; and what it holds."""
    shape: list[int | None] = []
    while True:
        if pa.types.is_fixed_size_list(kind):
            shape.append(kind.list_size)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            shape.append(None)
        else:
            return tuple(shape), kind
        kind = kind.value_type


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean))


def _serialized(schema: Schema, optional: frozenset[str]) -> dict[str, Column]:
    """The columns of serialized tensors whose shapes vary, and whose dtype Arrow has."""
    found = {}
    for feature in schema.features:
        row = dtypes.BY_NAME[feature.dtype]
        if feature.encoding != "tensor" or None not in feature.shape or feature.sequence:
            continue
        if row.arrow is not None and row is not dtypes.STRING and feature.name not in optional:
            kind = pa.type_for_alias(row.arrow)
            found[feature.name] = Column("bytes", feature.shape, kind)
    return found


def _flat(column: pa.Array) -> pa.Array:
    """The numbers of nested lists, concatenated."""
    while pa.types.is_nested(column.type):
        column = column.flatten()
    return column


def _fixed(column: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    flat = _flat(column)
    if pa.types.is_boolean(flat.type):
        return _bools(flat, shape)
    storage = pa.FixedSizeListArray.from_arrays(flat, math.prod(shape))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def _arrays(column: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """Arrow's tensors of one shape that Ray does not show as they are: bools, other orders."""
    if pa.types.is_boolean(column.type.value_type):
        return _bools(column.storage.flatten(), shape)
    return ArrowTensorArray.from_numpy(np.ascontiguousarray(column.to_numpy_ndarray()))


def _bools(flat: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """Tensors of bools in Ray's own type: their bits are no memory of NumPy's."""
    values = flat.to_numpy(zero_copy_only=False)
    return ArrowTensorArray.from_numpy(values.reshape(-1, *shape))


def _varying(column: pa.Array, dimensions: int) -> pa.Array:
    """Lists of tensors of one shape, as tensors whose first dimension varies."""
    inner: list[int] = []
    kind = column.type.value_type
    while pa.types.is_fixed_size_list(kind):
        inner.append(kind.list_size)
        kind = kind.value_type
    lengths = np.diff(column.offsets.to_numpy())
    shapes = np.empty((len(column), dimensions), np.int64)
    shapes[:, 0] = lengths
    shapes[:, 1:] = inner
    return _shaped(_flat(column), shapes)


def _shapes(column: pa.Array) -> pa.Array:
    """Arrow's tensors of several shapes, as Ray's."""
    rank = column.type.storage_type.field("shape").type.list_size
    sizes = column.storage.field("shape").flatten().to_numpy().reshape(len(column), rank)
    return _shaped(column.storage.field("data").flatten(), sizes.astype(np.int64))


def _shaped(flat: pa.Array, shapes: Any) -> pa.Array:
    """Tensors of several shapes, from their numbers one behind the other."""
    rows, dimensions = shapes.shape
    kind = ArrowVariableShapedTensorType(flat.type, dimensions)
    ends = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))])
    data = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), flat)
    starts = np.arange(rows + 1, dtype=np.int32) * dimensions
    sizes = pa.ListArray.from_arrays(pa.array(starts), pa.array(shapes.reshape(-1)))
    storage = pa.StructArray.from_arrays([data, sizes], fields=list(kind.storage_type))
    return pa.ExtensionArray.from_storage(kind, storage)


def _parsed(column: pa.Array, kind: pa.DataType, dimensions: int) -> pa.Array:
    """Serialized tensors, as tensors of several shapes."""
    tensors = [np.asarray(loads(one)) for one in column.to_pylist()]
    if any(tensor.dtype == object or tensor.ndim != dimensions for tensor in tensors):
        raise UnsupportedError(
            f"a tensor of another rank than {dimensions}, or a ragged one, in a column of tensors",
            hint="say in schema= that the column is a string, and use tensorferry.loads",
        )
    shapes = np.array([tensor.shape for tensor in tensors], np.int64).reshape(-1, dimensions)
    parts = [pa.array(tensor.reshape(-1), kind) for tensor in tensors]
    return _shaped(pa.concat_arrays(parts) if parts else pa.array([], kind), shapes)


# Back


def from_ray(table: pa.Table) -> pa.Table:
    """A block in types that every format of rows takes.

    Raises:
        UnsupportedError: A column holds pickled Python objects.
    """
    for place, field in enumerate(table.schema):
        change = _back(field)
        if change is None:
            continue
        chunks = [change(chunk) for chunk in table.column(place).chunks]
        kind = chunks[0].type if chunks else change(_empty(field.type)).type
        table = table.set_column(place, field.with_type(kind), pa.chunked_array(chunks, kind))
    return table


def _empty(kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array([], kind.storage_type))
    return pa.array([], kind)


def _back(field: pa.Field) -> Change | None:
    kind = field.type
    if isinstance(kind, ArrowPythonObjectType):
        raise UnsupportedError(
            "its values are Python objects, which Ray has pickled",
            tensor=field.name,
            hint="return arrays, numbers or bytes from map_batches, or leave the column out",
        )
    if isinstance(kind, ArrowTensorType | ArrowTensorTypeV2):
        return lambda column: _unfixed(column, tuple(kind.shape))
    if isinstance(kind, ArrowVariableShapedTensorType):
        return lambda column: _nested(column, kind.ndim)
    return None


def _unfixed(column: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    flat = column.storage.drop_null().flatten()
    if column.null_count or pa.types.is_boolean(flat.type) or not math.prod(shape):
        return _listed(flat, shape, column)
    storage = pa.FixedSizeListArray.from_arrays(flat, math.prod(shape))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def _listed(flat: pa.Array, shape: tuple[int, ...], column: pa.Array) -> pa.Array:
    """Tensors as lists in lists of fixed size; a row may be null."""
    for size in reversed(shape):
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    return _spread(flat, column.is_valid().to_numpy(zero_copy_only=False))


def _nested(column: pa.Array, rank: int) -> pa.Array:
    """Tensors of several shapes as lists in lists; a row may be null."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    whole = column.storage.filter(column.is_valid())
    sizes = whole.field("shape").flatten().to_numpy().astype(np.int64).reshape(len(whole), rank)
    nested = whole.field("data").flatten()
    for place in range(rank - 1, -1, -1):
        lengths = np.repeat(sizes[:, place], sizes[:, :place].prod(axis=1))
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pa.ListArray.from_arrays(pa.array(ends), nested)
    return _spread(nested, present)


def _spread(values: pa.Array, present: Any) -> pa.Array:
    """Values in the rows that have one, and null in the others."""
    return values if present.all() else values.take(pa.array(np.cumsum(present) - 1, mask=~present))
