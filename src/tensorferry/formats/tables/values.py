"""Arrow columns as values: those of `tensorferry.formats.tables.columns`, and anybody else's.

    numbers, bool            an array
    strings, binary          an object array of bytes
    timestamps, dates ...    their counts, int64 or int32
    lists of fixed size      one more dimension
    other lists, maps        a ragged dimension; a missing list is an empty one
    structs                  a column for each member, "name/member"
    dictionaries, runs       what they stand for
    null in a row            a ragged tensor of none or one value in each row

Decimals, intervals, unions, columns of only null, and nulls inside lists are refused. Arrays are
views of Arrow's memory wherever both lay them out alike. Offsets, indices and text are PyArrow's
to check (`validate`) before columns come here; what a file may claim without holding it (rows that
take no bytes, repeated values) is held against `tensorferry.limits` here.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tensorferry import _native, dtypes
from tensorferry.classes import NamedTuple
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tables import (
    chunks as arrow_chunks,
    columns as arrow_columns,
    metadata as marks,
)
from tensorferry.formats.tables.chunks import Part
from tensorferry.formats.tables.columns import Leaf, Note
from tensorferry.rows.columns import nbytes_of
from tensorferry.tensors import texts
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, check_budget, clean_bits

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = b"ARROW:extension:name"
_PARAMETERS = b"ARROW:extension:metadata"

_WITHOUT = "leave it out: columns=[...] names those to read"


def from_batches(
    schema: pa.Schema,
    batches: Sequence[Any],
    *,
    optional: Collection[str] = (),
    wanted: Collection[str] | None = None,
) -> dict[str, Leaf]:
    """The leaves of some record batches, all rows together.

    Args:
        schema: Of the batches.
        batches: In order; validated.
        optional: Leaves that have none or one value in each row, even if no row here is null.
        wanted: Names of the leaves to read; by default all.

    Raises:
        FormatError: A note or an extension type does not fit its column.
        UnsupportedError: A column is of a type that has no counterpart.
    """
    leaves: dict[str, Leaf] = {}
    ordered = None if wanted is None else sorted(wanted)
    for index, field in enumerate(schema):
        chunks = [batch.column(index) for batch in batches]
        for name, leaf in _from_chunks(field, chunks, optional, ordered).items():
            if name in leaves:
                raise FormatError(
                    f"there are several columns {name!r}, expected different names",
                    hint="rename them: pyarrow.Table.rename_columns",
                )
            leaves[name] = leaf
    return leaves


def usual(names: Sequence[str], batch: pa.RecordBatch) -> dict[str, Leaf] | None:
    """The leaves of a record batch whose columns have no metadata; None if one is unusual."""
    found: dict[str, Leaf] = {}
    for name, array in zip(names, batch.columns, strict=True):
        values = _usual(array)
        if values is None:
            return None
        found[name] = values
    return found


def from_chunks(
    field: pa.Field,
    chunks: Iterable[Any],
    *,
    optional: Collection[str] = (),
    wanted: Collection[str] | None = None,
) -> dict[str, Leaf]:
    """The leaves of one column: one, or several of a struct; see `from_batches`."""
    return _from_chunks(field, list(chunks), optional, None if wanted is None else sorted(wanted))


def _from_chunks(
    field: pa.Field, chunks: list[Any], optional: Collection[str], wanted: list[str] | None
) -> dict[str, Leaf]:
    if len(chunks) == 1 and field.name not in optional and field.metadata is None:
        values = _usual(chunks[0])
        if values is not None:
            return {field.name: values}
    try:
        note = Note.of(field)
        found = [_parts(chunk, field, note, wanted) for chunk in chunks]
        if not found:
            found = [_parts(_empty(field.type), field, note, wanted)]
        return {
            name: arrow_chunks.join([parts[name] for parts in found], name in optional)
            for name in found[0]
        }
    except (FormatError, UnsupportedError) as error:
        raise error.located(tensor=field.name) from None


def _usual(array: pa.Array) -> Array | None:
    """The values of what nearly all columns are, by the shortest way; None for anything else.

    That is numbers, texts, and lists of numbers of a fixed size, without nulls.
    """
    kind = array.type
    if array.null_count:
        return None
    number = NUMBERS.get(kind.id)
    if number is not None:
        return _buffer(array.buffers()[1], number, array.offset, len(array))
    if kind.id == _STRING:
        return texts.as_text(_strings(array))
    if kind.id == _FIXED_SIZE_LIST and kind.value_type.id in NUMBERS and kind.list_size:
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        if not values.null_count and kind.field(0).metadata is None:
            return _flat(values, None).reshape(len(array), size)
    return None


def is_plain(kind: pa.DataType) -> bool:
    """Whether a column of a type has one number or text in each row that is not null."""
    return kind.id in NUMBERS or kind.id == _STRING


def metadata_of(schema: pa.Schema) -> dict[str, str]:
    """The metadata of a schema, and the types of columns whose values do not tell them."""
    metadata = marks.texts_of(schema.metadata)
    for field in schema:
        if pa.types.is_temporal(field.type):
            metadata[f"tensorferry.type.{field.name}"] = str(field.type)
    return metadata


# One chunk of a column


class _Place(NamedTuple):
    """Where in a column an array stands, and what is known of it.

    Attributes:
        name: Of the leaf.
        note: Of the field.
        rows: How many rows there are, without those that are missing.
        levels: The dimensions behind the first: splits of a ragged one, the size of a fixed one.
        present: Which rows are there; None if all are.
        order: The permutation of a tensor's own dimensions.
        wanted: Sorted names of the leaves to read; None for all.
    """

    name: str
    note: Note
    rows: int
    levels: tuple[Array | int, ...] = ()
    present: Array | None = None
    order: tuple[int, ...] | None = None
    wanted: list[str] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether it leads to a leaf that is wanted."""
        if self.wanted is None:
            return True
        inside = f"{self.name}/"
        # A struct may have as many members as there are names: they are not all looked at.
        own, first = bisect_left(self.wanted, self.name), bisect_left(self.wanted, inside)
        return self.wanted[own : own + 1] == [self.name] or any(
            name.startswith(inside) for name in self.wanted[first : first + 1]
        )

    def without_null(self, array: pa.Array) -> _Place:
        """The place of what is left of an array whose rows may be null."""
        if not array.null_count:
            return self
        if self.levels:
            raise UnsupportedError(
                "it has nulls inside its lists, expected a value in each place",
                tensor=self.name,
                hint=f"fill them with pyarrow.compute.fill_null, or {_WITHOUT}",
            )
        present = _present(array)
        return self._replace(rows=int(present.sum()), present=present)


def _present(array: pa.Array) -> Array:
    """Which values of an array are not null."""
    bitmap = array.buffers()[0]
    end = array.offset + len(array)
    if bitmap is None or bitmap.size * 8 < end:
        return _bits(array.is_valid())  # imports pyarrow.compute
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=end, bitorder="little")
    return bits[array.offset :].astype(bool)


def _empty(kind: pa.DataType) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _empty(kind.storage_type))
    return pa.nulls(0, kind)


def _parts(
    array: pa.Array, field: pa.Field, note: Note, wanted: list[str] | None
) -> dict[str, Part]:
    if note.sparse:
        return {field.name: _sparse(array, field.name, note)}
    parts: dict[str, Part] = {}
    place = _Place(field.name, note, len(array), wanted=wanted)
    for name, part in _walk(array, field, place):
        if name in parts:
            raise FormatError(f"a struct has several members {name!r}, expected different names")
        parts[name] = part
    return parts


def _walk(array: pa.Array, field: pa.Field, place: _Place) -> Iterator[tuple[str, Part]]:
    """The leaves of an array, from the outside in."""
    kind, extension = array.type, _extension(field)
    if isinstance(kind, pa.BaseExtensionType):
        array, extension = array.storage, kind.extension_name
    storage = array.type
    if extension == arrow_columns.VARIABLE_SHAPE_TENSOR:
        yield place.name, _variable(array, field, place)
    elif pa.types.is_struct(storage):
        for member, child in zip(storage, array.flatten(), strict=True):
            inner = place._replace(name=f"{place.name}/{member.name}")
            if inner.is_wanted:
                yield from _walk(child, member, inner)
    elif is_list(storage):
        splits, values = list_parts(array)
        inner = place._replace(levels=(*place.levels, splits))
        yield from _walk(values, storage.field(0), inner)
    elif pa.types.is_fixed_size_list(storage):
        inner = place.without_null(array)
        if inner is not place:
            array = array.filter(pa.array(inner.present))
        size = storage.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        shape, order = _tensor_shape(kind, size)
        inner = inner._replace(levels=(*inner.levels, *shape), order=order)
        yield from _walk(values, storage.field(0), inner)
    else:
        inner = place.without_null(array)
        values = _flat(array, place.note.dtype)
        if inner is not place:
            values = values[inner.present]
        if extension == "arrow.bool8" and values.dtype == np.int8:
            values = values != 0
        yield place.name, Part(_assembled(values, inner), inner.present)


def _extension(field: pa.Field) -> str:
    """The extension type of a field that PyArrow does not know."""
    name: bytes = (field.metadata or {}).get(_NAME, b"")
    return name.decode(errors="replace")


# By their numbers: asking PyArrow's functions one by one takes as long as reading a small column.
_LISTS = frozenset(
    kind.id
    for kind in (
        pa.list_(pa.null()),
        pa.large_list(pa.null()),
        pa.map_(pa.string(), pa.null()),
        pa.list_view(pa.null()),
        pa.large_list_view(pa.null()),
    )
)


_STRING = pa.string().id
_LARGE = pa.large_string().id, pa.large_binary().id
_FIXED_SIZE_LIST = pa.list_(pa.null(), 1).id

NUMBERS = {
    getattr(pa, name)().id: np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
"""NumPy's dtypes of Arrow's numbers."""


def is_list(kind: pa.DataType) -> bool:
    """Whether each value of a type is any number of others."""
    return kind.id in _LISTS


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def list_parts(array: pa.Array) -> tuple[Array, Any]:
    """The splits of lists, and the values of all of them; a missing one is empty."""
    if array.null_count and pa.types.is_map(array.type):
        # PyArrow computes nothing of maps: their entries are the same as lists of structs.
        array = array.cast(pa.list_(array.type.field(0)))
    if _is_view(array.type) or array.null_count:
        import pyarrow.compute as pc  # takes half as long to import as PyArrow itself

        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        splits = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        # Views may overlap: a few bytes can stand for many values. PyArrow before 22 does not know
        # the size of views, but that of their buffers.
        held = array.get_total_buffer_size()
        check_budget((int(splits[-1]),), np.dtype(np.int64), what="lists", held=held)
        return splits, array.flatten()
    dtype = np.dtype(np.int64 if pa.types.is_large_list(array.type) else np.int32)
    offsets = _buffer(array.buffers()[1], dtype, array.offset, len(array) + 1)
    if not len(offsets):
        return np.zeros(1, np.int64), array.values.slice(0, 0)
    first, last = int(offsets[0]), int(offsets[-1])
    splits = offsets - offsets[0] if first else offsets
    return splits, array.values.slice(first, last - first)


def _tensor_shape(kind: pa.DataType, size: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The dimensions in a list of fixed size, and how they are permuted."""
    if not isinstance(kind, pa.FixedShapeTensorType):
        return (size,), None
    shape = tuple(kind.shape)
    if math.prod(shape) != size or min(shape, default=0) < 0:
        raise FormatError(f"tensors of shape {list(shape)} in lists of {size} values")
    order = kind.permutation
    if order is None or list(order) == sorted(order):
        return shape, None
    if sorted(order) != list(range(len(shape))):
        raise FormatError(f"{list(order)} is no permutation of {len(shape)} dimensions")
    return shape, tuple(order)


def _flat(array: pa.Array, dtype: dtypes.DType | None) -> Array:
    """The values of an array without inner arrays; anything where it is null."""
    kind = array.type
    number = NUMBERS.get(kind.id)
    if number is not None:
        return _buffer(array.buffers()[1], number, array.offset, len(array))
    types = pa.types
    if types.is_boolean(kind):
        return _bits(array)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _buffer(array.buffers()[1], f"i{kind.bit_width // 8}", array.offset, len(array))
    if types.is_fixed_size_binary(kind) and dtype is not None and kind.byte_width:
        return _buffer(array.buffers()[1], f"V{kind.byte_width}", array.offset, len(array))
    if types.is_dictionary(kind):
        return _taken(array.dictionary, array.indices, dtype)
    if types.is_run_end_encoded(kind):
        check_budget((len(array),), np.dtype(np.int64), what="runs", held=nbytes_of(array))
        wanted = np.arange(array.offset, array.offset + len(array))
        places = np.searchsorted(array.run_ends.to_numpy(), wanted, side="right")
        return _taken(array.values, pa.array(places), dtype)
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        _check_views(array)
        array = array.cast(pa.large_binary())
    elif types.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
    elif not (is_text or types.is_binary(kind) or types.is_large_binary(kind)):
        raise no_counterpart(str(kind))
    strings = _strings(array)
    return texts.as_text(strings) if is_text else strings


def _check_views(array: pa.Array) -> None:
    """Refuses views of texts that take far more than their buffers: all may be of the same text.

    A view is four int32, the first of which is the number of bytes.
    """
    views = _buffer(array.buffers()[1], np.int32, 4 * array.offset, 4 * len(array))
    total = int(np.maximum(views[::4], 0).sum(dtype=np.int64))
    check_budget((total,), np.dtype(np.uint8), what="views", held=array.get_total_buffer_size())


def no_counterpart(kind: str, name: str | None = None) -> UnsupportedError:
    """The error for a type of Arrow's that tensors do not have."""
    return UnsupportedError(
        f"Arrow's type {kind} has no counterpart",
        tensor=name,
        hint=f"cast it, as in table.cast(...), or {_WITHOUT}",
    )


def _strings(array: pa.Array) -> Array:
    """Texts or bytes as objects, None for nulls."""
    wide = array.type.id in _LARGE
    strings = np.empty(len(array), object)
    if not len(array):
        return strings
    _, offsets, data = array.buffers()
    places = _buffer(offsets, "i8" if wide else "i4", array.offset, len(array) + 1)
    _native.arrow_strings(places, b"" if data is None else data, strings, wide)
    if array.null_count:
        strings[~_present(array)] = None
    return strings


def _taken(values: Any, indices: Any, dtype: dtypes.DType | None) -> Array:
    """Values at places; of strings, each is one object however often it stands there."""
    if values.null_count:
        raise UnsupportedError(
            "there is a null among the values of a dictionary or of runs",
            hint=f"decode it first: pyarrow.Array.dictionary_decode, or {_WITHOUT}",
        )
    places = indices.fill_null(0).to_numpy(zero_copy_only=False)
    known = _flat(values, dtype)
    if not len(known):
        known = np.zeros(1, known.dtype)  # of only nulls, which are left out
    taken: Array = known[places]
    return taken


def _bits(array: pa.Array) -> Array:
    count = array.offset + len(array)
    data = _buffer(array.buffers()[1], np.uint8, 0, -(-count // 8))
    return np.unpackbits(data, count=count, bitorder="little")[array.offset :].view(bool)


def _buffer(buffer: Any, dtype: Any, offset: int, count: int) -> Array:
    """A view of a part of a buffer; empty where there is none."""
    dtype = np.dtype(dtype)
    if buffer is None or buffer.size == 0 or count == 0:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, offset * dtype.itemsize)


def _assembled(values: Array, place: _Place) -> Array | RaggedTensor:
    """Values of a column's innermost arrays, with all its dimensions."""
    note, levels, rows = place.note, place.levels, place.rows
    if note.shape is not None:
        if not levels or isinstance(levels[-1], int) or levels[-1][-1] or 0 not in note.shape:
            raise FormatError(f"its note has the shape {list(note.shape)}, its lists have values")
        levels = (*levels[:-1], *note.shape)
    elif note.dtype is not None and note.dtype.name.startswith("complex"):
        if not levels or not isinstance(levels[-1], int) or levels[-1] != 2:
            raise FormatError(f"its note says {note.dtype.name}, its values are not two floats")
        levels = levels[:-1]
    values = _restored(values, note.dtype)
    nested: list[Array] = []
    shape: list[int] = []
    for level in levels:
        if isinstance(level, int):
            shape.append(level)
            continue
        for size in shape:  # ragged inside of fixed: each of these is ragged, too
            check_budget((rows + 1,), np.dtype(np.int64), what="lists of fixed size")
            nested.append(np.arange(rows + 1) * size)
            rows *= size
        nested.append(level)
        rows, shape = int(level[-1]), []
    try:
        flat = values.reshape(rows, *shape)
    except ValueError as error:
        raise FormatError(f"{len(values)} values do not fill {[rows, *shape]}: {error}") from None
    if place.order is not None:
        kept = flat.ndim - len(place.order)
        flat = flat.transpose(*range(kept), *(kept + axis for axis in place.order))
    if not nested:
        return flat
    names = note.row_splits or ("int64",) * len(nested)
    if len(names) != len(nested):
        raise FormatError(f"its note has {len(names)} row splits, its type {len(nested)}")
    splits = [part.astype(name, copy=False) for part, name in zip(nested, names, strict=True)]
    return RaggedTensor(flat, tuple(splits))


def _restored(values: Array, dtype: dtypes.DType | None) -> Array:
    """Values as what their note says they are."""
    if dtype is None:
        return values
    assert dtype.numpy is not None
    if dtype.bits < 8 and "int" in dtype.name:
        narrow = values.astype(dtype.numpy) if values.dtype.kind in "iu" else None
        if narrow is not None and (narrow.astype(values.dtype) == values).all():
            return narrow
        raise FormatError(f"its note says {dtype.name}, its {values.dtype} values are others")
    if dtype.numpy.names:
        fits = values.dtype == dtype.numpy[0]
    elif dtype.name.startswith("complex"):
        fits = values.dtype == f"f{dtype.numpy.itemsize // 2}" and len(values) % 2 == 0
    else:
        fits = values.dtype == f"V{dtype.numpy.itemsize}" and dtype.arrow is None
    if not fits:
        raise FormatError(f"its note says {dtype.name}, its values are {values.dtype}")
    return clean_bits(values.view(dtype.numpy))


def _sparse(array: pa.Array, name: str, note: Note) -> Part:
    """The entries of sparse rows, and their places in the order they had if that is another."""
    inner = note.shape
    kind = array.type
    if inner is None or not pa.types.is_struct(kind):
        raise FormatError(f"its note says sparse, its type is {kind} and its shape {inner}")
    members: dict[str, RaggedTensor] = {}
    for member, child in zip(kind, array.flatten(), strict=True):
        place = _Place(name, Note(note.dtype if member.name == "values" else None), len(array))
        for path, part in _walk(child, member, place):
            if path != name or not isinstance(part.leaf, RaggedTensor) or part.leaf.ragged_rank > 1:
                raise FormatError(f"a sparse tensor has a member {member}, expected a list")
            members[member.name] = part.leaf
    values, order = members.get("values"), members.get("order")
    if values is None:
        raise FormatError(f"a sparse tensor has the type {kind}, expected a member 'values'")
    empty = RaggedTensor.trusted(
        np.empty((len(values.flat_values), 0), np.int64), values.nested_row_splits
    )
    indices = members.get("indices", empty)
    for other in (indices, order):
        if other is not None and not np.array_equal(
            other.nested_row_splits[0], values.nested_row_splits[0]
        ):
            raise FormatError("a sparse tensor's rows have other numbers of indices and values")
    if order is not None and order.flat_values.dtype.kind != "i":
        raise FormatError(f"a sparse tensor's order is of {order.dtype}, expected int64")
    lengths = values.row_lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)[:, None]
    places = indices.flat_values
    if places.shape != (len(rows), len(inner)) or places.dtype.kind != "i":
        raise FormatError(f"a sparse tensor's indices have the shape {places.shape}")
    whole = np.array([len(lengths), *inner], np.int64)
    leaf = SparseTensor(np.concatenate([rows, places], axis=1), values.flat_values, whole)
    return Part(leaf, order=None if order is None else order.flat_values)


def _variable(array: pa.Array, field: pa.Field, place: _Place) -> Part:
    """Tensors of one rank and different shapes, as a list."""
    if place.levels:
        raise UnsupportedError("tensors of different shapes inside lists have no counterpart")
    _, rank = arrow_columns.check_storage(array.type)
    parameters = _parameters(field, rank)
    place = place.without_null(array)
    if place.present is not None:
        array = array.filter(pa.array(place.present))
    members = dict(zip((member.name for member in array.type), array.flatten(), strict=True))
    splits, flat = list_parts(members["data"])
    _Place(place.name, Note(), 0, levels=(splits,)).without_null(flat)
    values = _flat(flat, place.note.dtype)
    (_, shapes), *_ = _walk(
        members["shape"], array.type.field("shape"), _Place("", Note(), len(array))
    )
    if shapes.present is not None or not isinstance(shapes.leaf, np.ndarray):
        raise UnsupportedError("a tensor without a shape has no counterpart")
    uniform = parameters.get("uniform_shape") or [None] * rank
    ends = splits.tolist()
    tensors: list[Array] = []
    for row, shape in enumerate(shapes.leaf.tolist()):
        part = values[ends[row] : ends[row + 1]]
        if math.prod(shape) != len(part) or min(shape, default=0) < 0:
            raise FormatError(f"row {row} has {len(part)} values for the shape {shape}")
        if any(size not in (None, found) for size, found in zip(uniform, shape, strict=True)):
            raise FormatError(f"row {row} has the shape {shape}, expected {uniform}")
        tensors.append(_tensor(part, shape, place.note.dtype, parameters.get("permutation")))
    return Part(tensors, place.present)


def _parameters(field: pa.Field, rank: int) -> dict[str, Any]:
    kind = field.type
    if isinstance(kind, arrow_columns.VariableShapeTensorType):
        return dict(kind.parameters)
    if isinstance(kind, pa.BaseExtensionType):
        # PyArrow knows the type, but shows what it knows of it only as text.
        found = re.search(r", ndim=\d+, permutation=\[([\d,]+)\]", str(kind))
        order = [int(axis) for axis in found[1].split(",")] if found else None
        return arrow_columns.check_parameters({"permutation": order}, rank)
    serialized = (field.metadata or {}).get(_PARAMETERS, b"")
    return arrow_columns.parse_parameters(serialized, rank)


def _tensor(
    values: Array, shape: list[int], dtype: dtypes.DType | None, order: list[int] | None
) -> Array:
    if dtype is not None and dtype.name.startswith("complex"):
        if shape[-1] != 2:
            raise FormatError(f"its note says {dtype.name}, its values are not two floats")
        shape = shape[:-1]
    array = _restored(values, dtype).reshape(shape)
    return array if order is None else array.transpose(order)
