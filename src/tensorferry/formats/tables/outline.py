"""Outlines: the leaves of an Arrow schema's columns, known without reading any of them.

Reading columns is `tensorferry.formats.tables.values`. A leaf that it has no counterpart for is
outlined with the reason, so that the other columns can be read. Arrow numbers arrays, and Parquet
columns, from the outside in and over all columns of a schema: by these numbers a leaf is found in
the metadata of a record batch or a row group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tensorferry import _native, dtypes
from tensorferry.classes import NamedTuple, dataclass, make_many, replace
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.tables import columns as arrow_columns, pieces
from tensorferry.formats.tables.columns import Note
from tensorferry.formats.tables.values import NUMBERS, is_list, no_counterpart

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Outline:
    """A leaf of a schema.

    Attributes:
        name: Of the leaf.
        column: Of the column it is in.
        dtype: The name of its dtype, or Arrow's for a type that has no counterpart.
        shape: The dimensions behind the first; None for ragged ones.
        sparse: Whether it is a sparse tensor.
        listed: Whether it stands inside lists, where a missing one is an empty one.
        nodes: The numbers of the arrays around it, outside of any list, and of its own.
        leaf: The number of its (first) column in Parquet.
        several: Whether it is a list of arrays of different shapes.
        nullable: Whether the schema allows nulls in rows.
        error: Why it cannot be read, if it cannot.
    """

    name: str
    column: str
    dtype: str
    shape: tuple[int | None, ...]
    sparse: bool
    listed: bool
    nodes: tuple[int, ...]
    leaf: int
    several: bool = False
    nullable: bool = True
    error: FerryError | None = None


class _Walk(NamedTuple):
    """Where in a column a type stands."""

    name: str
    column: str
    note: Note
    counters: tuple[Iterator[int], Iterator[int]]
    shape: tuple[int | None, ...] = ()
    nodes: tuple[int, ...] = ()
    listed: bool = False
    nullable: bool = False


def outline(schema: pa.Schema) -> list[Outline]:
    """The leaves of a schema, in order; those that cannot be read have an `error`."""
    found = _usual(schema)
    return _any(schema) if found is None else found


def checked(schema: pa.Schema) -> list[Outline] | None:
    """Checks the names of columns, and gives their leaves if all columns are of the usual types.

    Raises:
        FormatError: Several columns have one name.
        LimitError: See `tensorferry.formats.tables.pieces.check_names`.
    """
    found = _usual(schema)
    if found is None:
        pieces.check_names(schema)
    else:  # whose paths are no longer than twice their names
        pieces.check_different(schema.names)
    return found


def _usual(schema: pa.Schema) -> list[Outline] | None:
    """The leaves of columns of numbers, texts, and lists of numbers of one size.

    Returns:
        None if there is any other column, or one with metadata.
    """
    found = _native.arrow_leaves(schema.names, schema.__arrow_c_schema__())
    return None if found is None else make_many(Outline, found)


def _any(schema: pa.Schema) -> list[Outline]:
    """The leaves of columns of any type."""
    found: list[Outline] = []
    nodes = leaves = 0
    for column in schema:
        kind = column.type
        storage = _storage(kind)
        plain = None if column.metadata else _plain(column, storage, nodes, leaves)
        if plain is not None:
            found.append(plain)
            nodes, leaves = nodes + len(plain.nodes), leaves + 1
            continue
        counters = itertools.count(nodes), itertools.count(leaves)
        try:
            found += _leaves(column, counters)
        except (FormatError, UnsupportedError) as error:
            error.located(tensor=column.name)
            name = column.name
            found.append(Outline(name, name, str(kind), (), False, False, (), leaves, error=error))
        nodes += 1 + _descendants(storage)
        leaves += _columns(storage)
    return found


def _plain(column: pa.Field, storage: pa.DataType, node: int, leaf: int) -> Outline | None:
    """The leaf of a column of numbers, texts, tensors or lists of one shape, as nearly all are."""
    name, kind, nullable = column.name, column.type, column.nullable
    shape: tuple[int | None, ...] = ()
    nodes: tuple[int, ...] = (node,)
    if kind.id in _NAMES:
        dtype = _NAMES[kind.id]
        return Outline(name, name, dtype, shape, False, False, nodes, leaf, nullable=nullable)
    if isinstance(kind, pa.FixedShapeTensorType) and not storage.value_type.num_fields:
        order = kind.permutation
        shape = tuple(kind.shape if order is None else [kind.shape[axis] for axis in order])
        nullable = nullable or storage.field(0).nullable
        storage, nodes = storage.value_type, (node, node + 1)
    elif pa.types.is_fixed_size_list(storage) and storage.value_type.id in NUMBERS:
        inner = storage.field(0)
        if isinstance(kind, pa.BaseExtensionType) or inner.metadata:
            return None
        shape, nullable = (storage.list_size,), nullable or inner.nullable
        storage, nodes = storage.value_type, (node, node + 1)
    elif storage.num_fields:
        return None
    is_bool8 = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.bool8"
    dtype = "bool" if is_bool8 else _dtype(storage, Note())
    error = _refusal(dtype, name)
    return Outline(
        name, name, dtype, shape, False, False, nodes, leaf, nullable=nullable, error=error
    )


def _storage(kind: pa.DataType) -> Any:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _columns(kind: pa.DataType) -> int:
    """Number of columns that a type has in Parquet."""
    if not kind.num_fields:
        return 1
    if pa.types.is_struct(kind) or is_list(kind) or pa.types.is_fixed_size_list(kind):
        return sum(_columns(_storage(kind.field(i).type)) for i in range(kind.num_fields))
    return 1


def _leaves(column: Any, counters: tuple[Iterator[int], Iterator[int]]) -> list[Outline]:
    note = Note.of(column)
    leaves = list(_walk(column, _Walk(column.name, column.name, note, counters)))
    if not note.sparse:
        return leaves
    values = next((leaf for leaf in leaves if leaf.name.endswith("/values")), None)
    if values is None or note.shape is None:
        raise FormatError(f"its note says sparse, its type is {column.type}")
    return [replace(values, name=column.name, shape=note.shape, sparse=True)]


def _walk(column: Any, walk: _Walk) -> Iterator[Outline]:
    kind, node = column.type, next(walk.counters[0])
    extension = (column.metadata or {}).get(b"ARROW:extension:name", b"").decode(errors="replace")
    storage = kind
    if isinstance(kind, pa.BaseExtensionType):
        storage, extension = kind.storage_type, kind.extension_name
    if not walk.listed:
        is_nullable = walk.nullable or column.nullable
        walk = walk._replace(nodes=(*walk.nodes, node), nullable=is_nullable)
    if pa.types.is_struct(storage):
        members = [
            walk._replace(name=f"{walk.name}/{storage.field(index).name}")
            for index in range(storage.num_fields)
        ]
        leaves = [
            leaf
            for index, member in enumerate(members)
            for leaf in _walk(storage.field(index), member)
        ]
        if extension == arrow_columns.VARIABLE_SHAPE_TENSOR:
            yield _variable(storage, walk, leaves)
        else:
            yield from leaves
    elif is_list(storage):
        inner = walk._replace(shape=(*walk.shape, None), listed=True)
        yield from _walk(storage.field(0), inner)
    elif pa.types.is_fixed_size_list(storage):
        is_tensor = isinstance(kind, pa.FixedShapeTensorType)
        shape = tuple(kind.shape) if is_tensor else (storage.list_size,)
        if is_tensor and kind.permutation is not None:
            shape = tuple(shape[axis] for axis in kind.permutation)
        inner = walk._replace(shape=(*walk.shape, *shape))
        yield from _walk(storage.field(0), inner)
    else:
        for _ in range(_descendants(storage)):  # run ends and values, members of a union
            next(walk.counters[0])
        yield _leaf("bool" if extension == "arrow.bool8" else _dtype(storage, walk.note), walk)


def _descendants(kind: pa.DataType) -> int:
    if not kind.num_fields:
        return 0
    storages = [_storage(kind.field(index).type) for index in range(kind.num_fields)]
    return len(storages) + sum(map(_descendants, storages))


def _variable(storage: Any, walk: _Walk, leaves: list[Outline]) -> Outline:
    value_type, rank = arrow_columns.check_storage(storage)
    is_complex = walk.note.dtype is not None and walk.note.dtype.name.startswith("complex")
    return replace(
        leaves[0],
        name=walk.name,
        dtype=_dtype(value_type, walk.note),
        shape=(None,) * (rank - is_complex),
        listed=False,
        nodes=walk.nodes,
        several=True,
        nullable=walk.nullable,
        error=_refusal(_dtype(value_type, walk.note), walk.name),
    )


def _leaf(dtype: str, walk: _Walk) -> Outline:
    shape, note = walk.shape, walk.note
    if not note.sparse and note.shape is not None:
        shape = (*shape[:-1], *note.shape)
    elif note.dtype is not None and note.dtype.name.startswith("complex"):
        shape = shape[:-1]
    leaf = next(walk.counters[1])
    return Outline(
        walk.name,
        walk.column,
        dtype,
        shape,
        False,
        walk.listed,
        walk.nodes,
        leaf,
        nullable=walk.nullable,
        error=_refusal(dtype, walk.name),
    )


def _refusal(dtype: str, name: str) -> UnsupportedError | None:
    return None if dtype in dtypes.BY_NAME else no_counterpart(dtype, name)


_TEXTS = (
    pa.string(),
    pa.binary(),
    pa.large_string(),
    pa.large_binary(),
    pa.string_view(),
    pa.binary_view(),
    pa.binary(1),
)
# By the number that PyArrow has for a type.
_NAMES = {number: dtype.name for number, dtype in NUMBERS.items()}
_NAMES |= {pa.bool_().id: "bool", **{kind.id: "string" for kind in _TEXTS}}


def _dtype(kind: pa.DataType, note: Note) -> str:
    if note.dtype is not None:
        return note.dtype.name
    if kind.id in _NAMES:
        return _NAMES[kind.id]
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _dtype(kind.value_type, note)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return f"int{kind.bit_width}"
    return str(kind)
