"""Values as Arrow columns: the types they have there, and what their fields note.

A row of a column is one step of a leaf's first dimension:

    numbers              the number; `arrow.fixed_shape_tensor` with more dimensions
    strings              binary, or string where they are known to be text
                         (`tensorferry.tensors.texts`); lists of fixed size with more dimensions
    ragged               a list for each ragged dimension, of fixed size for the uniform ones
    sparse               struct{indices: list, values: list} of the row's entries, and `order`
                         where they do not stand in the order of rows
    list of arrays       `arrow.variable_shape_tensor`
    complex              two floats: one more dimension
    int4, uint4 ...      int8 and uint8; qint8 ... the integers they are stored as
    bfloat16, float8 ... binary of fixed size
    nothing              (an inner dimension of 0) an empty list

What the type does not say is in the field's metadata, under keys that begin with "tensorferry.":
see `Note`. Back again is `tensorferry.formats.tables.values`; files are `arrow` and `parquet`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tensorferry import dtypes
from tensorferry.budget import check_spread
from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tables.metadata import ROWS as ROWS
from tensorferry.tensors import texts
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor, check_budget

if TYPE_CHECKING:
    import pyarrow as pa

Leaf = Array | SparseTensor | RaggedTensor | list[Array]

VARIABLE_SHAPE_TENSOR = "arrow.variable_shape_tensor"

# Offsets and sizes of lists are int32 up to here.
_INT32 = int(np.iinfo(np.int32).max)

# Sparse tensors alone are taken for rows up to here: the next one may have 2^40 and one entry.
_SPARSE_ROWS = 1 << 20

# Of NumPy's arrays, at most; every dimension takes memory, and a file may claim 2^31 of them.
_DIMENSIONS = 64

_OTHERS = 'format="npz", "structure" and "json" have no such limit'


@dataclass(frozen=True, slots=True)
class Note:
    """What a field's metadata says beyond its Arrow type.

    Attributes:
        dtype: Of the values, where Arrow has no such type ("tensorferry.dtype").
        sparse: Whether it is a sparse tensor ("tensorferry.kind": "sparse").
        shape: The dimensions behind the first of a sparse tensor, or of one without values behind
            its ragged ones ("tensorferry.shape": JSON).
        row_splits: The dtypes of a ragged tensor's row splits, where one is int32
            ("tensorferry.row_splits": JSON).
    """

    dtype: dtypes.DType | None = None
    sparse: bool = False
    shape: tuple[int, ...] | None = None
    row_splits: tuple[str, ...] | None = None

    def metadata(self) -> dict[str, str]:
        """As metadata of a field."""
        if self is _NOTHING:
            return {}
        found = {
            "dtype": None if self.dtype is None else self.dtype.name,
            "kind": "sparse" if self.sparse else None,
            "shape": None if self.shape is None else json.dumps(self.shape),
            "row_splits": None if self.row_splits is None else json.dumps(self.row_splits),
        }
        return {f"tensorferry.{key}": text for key, text in found.items() if text is not None}

    @classmethod
    def of(cls, field: pa.Field) -> Note:
        """The note in the metadata of a field.

        Raises:
            FormatError: It says what none says.
        """
        if not field.metadata:
            return _NOTHING
        found = {
            key.removeprefix(b"tensorferry."): text
            for key, text in (field.metadata or {}).items()
            if key.startswith(b"tensorferry.")
        }
        if not found:
            return _NOTHING
        name = found.get(b"dtype", b"").decode(errors="replace")
        kind = found.get(b"kind", b"").decode(errors="replace")
        shape, splits = (_listed(found.get(key), field.name) for key in (b"shape", b"row_splits"))
        if name and (name not in dtypes.BY_NAME or dtypes.BY_NAME[name].numpy is None):
            raise FormatError(f"its note names a dtype {name[:60]!r}", tensor=field.name)
        if kind not in ("", "sparse"):
            raise FormatError(f"its note says {kind[:60]!r}, expected sparse", tensor=field.name)
        if shape is not None and not all(type(size) is int and 0 <= size < 2**63 for size in shape):
            raise FormatError(f"its note has the shape {shape!r:.60}", tensor=field.name)
        if splits is not None and not all(name in ("int32", "int64") for name in splits):
            raise FormatError(f"its note has row splits of {splits!r:.60}", tensor=field.name)
        return cls(dtypes.BY_NAME[name] if name else None, bool(kind), shape, splits)


_NOTHING = Note()


def _listed(text: bytes | None, name: str) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or len(value) > _DIMENSIONS:
        raise FormatError(f"its note is {text[:60]!r}, expected a JSON list", tensor=name)
    return tuple(value)


class VariableShapeTensorType(pa.ExtensionType):  # type: ignore[misc]
    """The canonical type of tensors of one rank and different shapes, to write.

    PyArrow has no class for it. Versions that know the type read it as their own, others as its
    storage; registering this one would change the whole process.

    Args:
        value_type: Of the numbers.
        rank: How many dimensions each tensor has.
        parameters: Of the specification: `dim_names`, `permutation`, `uniform_shape`.
    """

    def __init__(
        self, value_type: Any, rank: int, parameters: Mapping[str, Any] | None = None
    ) -> None:
        self.parameters = check_parameters(parameters or {}, rank)
        fields = [("data", pa.list_(value_type)), ("shape", pa.list_(pa.int32(), rank))]
        super().__init__(pa.struct(fields), VARIABLE_SHAPE_TENSOR)

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self.parameters).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
        value_type, rank = check_storage(storage)
        return cls(value_type, rank, parse_parameters(serialized, rank))


def check_storage(storage: Any) -> tuple[Any, int]:
    """The type of the numbers and the rank that the storage of such tensors has.

    Raises:
        FormatError: It is not what the specification says.
        UnsupportedError: It has more dimensions than NumPy.
    """
    names: dict[str, Any] = {
        storage.field(i).name: storage.field(i).type for i in range(storage.num_fields)
    }
    data: Any = names.get("data")
    shape: Any = names.get("shape")
    if (
        set(names) != {"data", "shape"}
        or storage.num_fields != 2
        or not (pa.types.is_list(data) or pa.types.is_large_list(data))
        or not pa.types.is_fixed_size_list(shape)
        or shape.value_type != pa.int32()
    ):
        raise FormatError(
            f"{VARIABLE_SHAPE_TENSOR} is stored as {storage}, "
            "expected struct<data: list, shape: fixed_size_list<int32>>"
        )
    if shape.list_size > _DIMENSIONS:
        raise UnsupportedError(
            f"tensors of {shape.list_size} dimensions, NumPy's arrays have at most {_DIMENSIONS}"
        )
    return data.value_type, shape.list_size


def parse_parameters(serialized: bytes, rank: int) -> dict[str, Any]:
    """The parameters of the extension type, which are JSON or nothing.

    Raises:
        FormatError: They are something else.
    """
    try:
        parameters = json.loads(serialized or b"{}")
    except (ValueError, RecursionError):
        parameters = None
    if not isinstance(parameters, dict):
        raise FormatError(f"{VARIABLE_SHAPE_TENSOR} has parameters that are no JSON object")
    return check_parameters(parameters, rank)


def check_parameters(parameters: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The parameters, if each is a list of the right kind and length, or not there.

    Raises:
        FormatError: They are not.
    """
    names, uniform, permutation = (
        parameters.get(key) for key in ("dim_names", "uniform_shape", "permutation")
    )
    good = (
        _is_list(names, rank, lambda name: isinstance(name, str))
        and _is_list(uniform, rank, lambda size: size is None or (type(size) is int and size >= 0))
        and _is_list(permutation, rank, lambda axis: type(axis) is int)
        and (permutation is None or sorted(permutation) == list(range(rank)))
    )
    if not good:
        raise FormatError(f"{VARIABLE_SHAPE_TENSOR} of rank {rank} has other parameters")
    return dict(parameters)


def _is_list(value: Any, length: int, test: Any) -> bool:
    return value is None or (
        isinstance(value, list) and len(value) == length and all(map(test, value))
    )


def to_batch(
    leaves: Mapping[str, Leaf], *, metadata: Mapping[str, str], rows: bool | None = None
) -> Any:
    """Leaves as the columns of one `pyarrow.RecordBatch`.

    Args:
        leaves: By name.
        metadata: Of the schema.
        rows: Whether each step of the first dimension is a row, or each leaf stands whole in the
            only row. By default they are rows if all leaves have as many of them.

    Raises:
        UnsupportedError: A leaf, a name or the metadata has no place in Arrow.
    """
    leaves = {name: _as_leaf(leaf, name) for name, leaf in leaves.items()}
    counts = {name: _count(leaf) for name, leaf in leaves.items()}
    if rows is None:
        rows = _are_rows(leaves, counts)
    elif rows and len(set(counts.values())) > 1:
        found = ", ".join(f"{name!r}: {count}" for name, count in list(counts.items())[:4])
        raise UnsupportedError(
            f"the leaves have different first dimensions ({found}), expected one for all",
            hint="rows=False puts each of them whole into one row",
        )
    fields, columns = [], []
    for name, leaf in leaves.items():
        try:
            column, field = to_column(name, leaf if rows else _in_one_row(leaf))
        except UnsupportedError as error:
            raise error.located(tensor=name) from None
        fields.append(field)
        columns.append(column)
    check_spread(leaves)
    schema = pa.schema(fields, {**texts_of(metadata), ROWS: "true" if rows else "false"})
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_column(name: str, leaf: Leaf) -> tuple[Any, Any]:
    """A leaf as a `pyarrow.Array`, and its field, which is never null.

    Raises:
        UnsupportedError: The leaf has no place in Arrow.
    """
    try:
        column, note = _column(leaf)
    except UnsupportedError as error:
        raise error.located(tensor=name) from None
    return column, pa.field(_text(name), column.type, nullable=False, metadata=note.metadata())


def texts_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """A user's metadata, if a schema can carry it.

    Raises:
        UnsupportedError: It cannot, or the format has its own use for a key.
    """
    texts = {_text(key): _text(value) for key, value in metadata.items()}
    for reserved in (ROWS, "ARROW:schema"):
        if reserved in texts:
            raise UnsupportedError(
                f"{reserved!r} is no key for metadata", hint="the format has its own use for it"
            )
    return texts


def _as_leaf(leaf: Any, name: str) -> Leaf:
    try:
        if isinstance(leaf, SparseTensor | RaggedTensor):
            return leaf
        return [as_tensor(one) for one in leaf] if isinstance(leaf, list) else as_tensor(leaf)
    except UnsupportedError as error:
        raise error.located(tensor=name) from None


def _count(leaf: Leaf) -> int | None:
    """How many rows a leaf has; None for a scalar."""
    if isinstance(leaf, RaggedTensor | list):
        return len(leaf)
    return leaf.shape[0] if leaf.shape else None


def _are_rows(leaves: Mapping[str, Leaf], counts: Mapping[str, int | None]) -> bool:
    count = next(iter(counts.values()), None)
    if count is None or len(set(counts.values())) > 1:
        return False
    alone = all(isinstance(leaf, SparseTensor) for leaf in leaves.values())
    return not alone or count <= _SPARSE_ROWS


def _in_one_row(leaf: Leaf) -> Leaf:
    """The leaf with one more dimension in front, of size 1."""
    if isinstance(leaf, RaggedTensor):
        outer = np.array([0, len(leaf)], np.int64)
        return RaggedTensor(leaf.flat_values, (outer, *leaf.nested_row_splits))
    if isinstance(leaf, SparseTensor):
        indices = np.insert(leaf.indices, 0, 0, axis=1)
        return SparseTensor(indices, leaf.values, np.insert(leaf.dense_shape, 0, 1))
    if isinstance(leaf, list):
        raise UnsupportedError(
            "a list of arrays has no place in one row", hint="name each of them, as in a dict"
        )
    return leaf.reshape(1, *leaf.shape)


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"{text[:60]!r} is no text that UTF-8 can carry") from None
    return text


def _column(leaf: Leaf) -> tuple[Any, Note]:
    if isinstance(leaf, SparseTensor):
        return _sparse(leaf)
    if isinstance(leaf, RaggedTensor):
        return _ragged(leaf)
    if isinstance(leaf, list):
        return _variable(leaf)
    return _dense(leaf)


def _dense(array: Array) -> tuple[Any, Note]:
    flat, unit, dtype = _elements(array)
    inner = array.shape[1:]
    if 0 in inner:
        return _nothing(flat, len(array)), Note(dtype, shape=inner)
    shape = (*inner, *unit)
    note = _NOTHING if dtype is None else Note(dtype)
    if not inner or array.dtype == object:
        return _nest(flat, shape, len(array)) if shape else flat, note
    kind = pa.fixed_shape_tensor(flat.type, shape)
    storage = _nest(flat, (math.prod(shape),), len(array))
    return pa.ExtensionArray.from_storage(kind, storage), note


def _ragged(ragged: RaggedTensor) -> tuple[Any, Note]:
    values, nested = ragged.flat_values, ragged.nested_row_splits
    flat, unit, dtype = _elements(values)
    inner, shape = values.shape[1:], None
    if 0 in inner:
        column, shape = _nothing(flat, len(values)), inner
    else:
        column = _nest(flat, (*inner, *unit), len(values))
    for splits in reversed(nested):
        column = _list(splits, column)
    names = tuple(str(splits.dtype) for splits in nested)
    return column, Note(dtype, shape=shape, row_splits=names if "int32" in names else None)


def _sparse(sparse: SparseTensor) -> tuple[Any, Note]:
    rank, (count, *inner) = len(sparse.shape), sparse.shape
    check_budget((count,), np.dtype(np.int64), what="a row for each step of a sparse tensor")
    places = sparse.indices[:, 0]
    indices, values, parts = sparse.indices[:, 1:], sparse.values, []
    if (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        places, indices, values = places[order], indices[order], values[order]
        parts.append(("order", pa.array(order.astype(np.int64))))
    flat, unit, dtype = _elements(values)
    parts.insert(0, ("values", _nest(flat, unit, len(values))))
    if rank > 1:
        flat_indices = pa.array(np.ascontiguousarray(indices).reshape(-1))
        parts.insert(0, ("indices", _nest(flat_indices, (rank - 1,), len(values))))
    splits = np.searchsorted(places, np.arange(count + 1))
    lists = [_list(splits, part) for _, part in parts]
    fields = [
        pa.field(name, part.type, nullable=False)
        for (name, _), part in zip(parts, lists, strict=True)
    ]
    column = pa.StructArray.from_arrays(lists, fields=fields)
    return column, Note(dtype, sparse=True, shape=tuple(inner))


def _variable(arrays: list[Array]) -> tuple[Any, Note]:
    kinds = {(array.dtype, array.ndim) for array in arrays}
    if len(kinds) != 1 or not arrays[0].ndim or arrays[0].dtype == object:
        raise UnsupportedError(
            "a list of arrays that are not all numbers of one dtype and one rank, 1 or more",
            hint='name each of them, as in a dict, or use format="structure"',
        )
    if max(max(array.shape) for array in arrays) > _INT32:
        raise UnsupportedError("an array of 2^31 or more rows in a list of arrays", hint=_OTHERS)
    flat, unit, dtype = _elements(np.concatenate([array.reshape(-1) for array in arrays]))
    shapes = np.array([(*array.shape, *unit) for array in arrays], np.int32)
    splits = np.cumsum([0, *(array.size * math.prod(unit) for array in arrays)])
    if splits[-1] > _INT32:
        raise UnsupportedError("a list of arrays of 2^31 or more numbers", hint=_OTHERS)
    kind = VariableShapeTensorType(flat.type, shapes.shape[1])
    fields = [kind.storage_type.field(index) for index in range(2)]
    parts = [
        _list(splits, flat),
        _nest(pa.array(shapes.reshape(-1)), shapes.shape[1:], len(arrays)),
    ]
    storage = pa.StructArray.from_arrays(parts, fields=fields)
    return pa.ExtensionArray.from_storage(kind, storage), Note(dtype)


def _elements(array: Array) -> tuple[Any, tuple[int, ...], dtypes.DType | None]:
    """All elements in one Arrow array, their own dimensions, and their dtype if Arrow has it not.

    Numbers are the array's own memory if that is contiguous.
    """
    row = dtypes.from_numpy(array.dtype)
    if row is dtypes.STRING:
        return _strings(array), (), None
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    flat = array.reshape(-1)
    if row.name == "bool":
        return pa.array(flat), (), None
    if row.arrow is not None:
        return _numbers(flat, getattr(pa, row.arrow)()), (), None
    if row.name.startswith("complex"):
        half = f"float{row.bits // 2}"
        return _numbers(flat.view(half), getattr(pa, half)()), (2,), row
    if row.bits < 8 and "int" in row.name:
        wide = "uint8" if row.name.startswith("u") else "int8"
        return _numbers(flat.astype(wide), getattr(pa, wide)()), (), row
    if array.dtype.names:
        storage = str(array.dtype[0])
        return _numbers(flat.view(storage), getattr(pa, storage)()), (), row
    return _numbers(flat, pa.binary(array.dtype.itemsize)), (), row


def _numbers(flat: Array, kind: pa.DataType) -> Any:
    buffer = pa.py_buffer(flat.view(np.uint8))
    return pa.Array.from_buffers(kind, len(flat), [None, buffer])


def _strings(array: Array) -> Any:
    strings = array.reshape(-1).tolist()
    large = sum(map(len, strings)) > _INT32
    found = pa.array(strings, pa.large_binary() if large else pa.binary())
    if not texts.is_text(array):
        return found
    try:
        return found.cast(pa.large_string() if large else pa.string())
    except pa.ArrowInvalid:  # the bytes were changed since
        return found


def _nest(flat: Any, shape: tuple[int, ...], count: int) -> Any:
    """Lists of fixed size in each other, none of which is empty."""
    if math.prod(shape) > _INT32:
        raise UnsupportedError(
            f"{math.prod(shape)} values in a row, and Arrow's lists of fixed size hold less "
            "than 2^31",
            hint=_OTHERS,
        )
    for axis in reversed(range(len(shape))):
        length = count * math.prod(shape[:axis])
        kind = pa.list_(flat.type, shape[axis])
        flat = pa.Array.from_buffers(kind, length, [None], children=[flat])
    return flat


def _nothing(flat: Any, count: int) -> Any:
    """Empty lists: Parquet has none of a fixed size 0."""
    check_budget((count,), np.dtype(np.int64), what="a tensor of nothing")
    return _list(np.zeros(count + 1, np.int32), flat)


def _list(splits: Array, values: Any) -> Any:
    if splits[-1] > _INT32:
        return pa.LargeListArray.from_arrays(pa.array(splits.astype(np.int64)), values)
    return pa.ListArray.from_arrays(pa.array(splits.astype(np.int32, copy=False)), values)
