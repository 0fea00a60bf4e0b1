"""Values: the tensors and structures that users pass in and get back, as NumPy arrays.

A dense tensor is a NumPy array, a string tensor is an object array of `bytes`. `SparseTensor` and
`RaggedTensor` have the same parts and names as TensorFlow's. A structure is any nesting of dicts
with string keys, lists, tuples and named tuples over tensors, None, bool, int, float, str and
bytes. `tensorferry.frameworks` converts tensors of other frameworks.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, limits
from tensorferry.budget import Budget, check_size
from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, LimitError, UnsupportedError
from tensorferry.tensors.infos import (
    MAX_RANK as MAX_RANK,
    Kind as Kind,
    TensorInfo as TensorInfo,
    is_namedtuple as is_namedtuple,
    make_namedtuple as make_namedtuple,
)
from tensorferry.tensors.ragged import Array as Array, RaggedVerbs
from tensorferry.tensors.texts import TEXT, joined

LIST_SIZE = 64  # about what an empty list of Python takes

SCALARS = (type(None), bool, int, float, str, bytes)


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A tensor given by the indices and values of its entries, like `tf.SparseTensor`.

    Attributes:
        indices: int64 [entries, rank], the index of each entry.
        values: [entries], in the same order.
        dense_shape: int64 [rank].

    Examples:
        >>> attention = ferry.SparseTensor.from_dense([[0.0, 0.5], [0.25, 0.0]])
        >>> attention.values.tolist()
        [0.5, 0.25]
    """

    indices: Array
    values: Array
    dense_shape: Array

    def __post_init__(self) -> None:
        indices = _as_int64(self.indices, "indices")
        values = as_tensor(self.values)
        dense_shape = _as_int64(self.dense_shape, "dense_shape")
        rank = dense_shape.shape[0] if dense_shape.ndim == 1 else -1
        if rank < 0 or indices.ndim != 2 or values.ndim != 1:
            found = f"{indices.ndim}-D, {values.ndim}-D and {dense_shape.ndim}-D"
            raise FormatError(
                f"indices, values and dense_shape are {found}, expected 2-D, 1-D and 1-D"
            )
        if indices.shape != (values.shape[0], rank):
            raise FormatError(
                f"indices have shape {indices.shape}, "
                f"expected ({values.shape[0]}, {rank}) for the values and dense_shape given"
            )
        sizes = dense_shape.tolist()
        if sizes and min(sizes) < 0:
            raise FormatError(f"dense_shape is {sizes}, expected 0 or more")
        if indices.size and not _are_inside(indices, dense_shape):
            raise FormatError(f"an index lies outside the dense shape {sizes}")
        if indices is not self.indices:
            object.__setattr__(self, "indices", indices)
        if values is not self.values:
            object.__setattr__(self, "values", values)
        if dense_shape is not self.dense_shape:
            object.__setattr__(self, "dense_shape", dense_shape)

    @classmethod
    def from_dense(cls, array: Any) -> SparseTensor:
        """A sparse tensor with the non-zero (or non-empty) elements of a dense one."""
        array = as_tensor(array)
        mask = array != (b"" if array.dtype == object else np.zeros((), array.dtype))
        return cls(np.argwhere(mask), array[mask], np.array(array.shape, np.int64))

    def rows(self) -> Iterator[SparseTensor]:
        """The rows along the first dimension, each a sparse tensor with one dimension less."""
        order = np.argsort(self.indices[:, 0], kind="stable")
        indices, values = self.indices[order], self.values[order]
        ends = np.searchsorted(indices[:, 0], np.arange(self.shape[0] + 1)).tolist()
        for start, end in itertools.pairwise(ends):
            yield SparseTensor(indices[start:end, 1:], values[start:end], self.dense_shape[1:])

    def to_dense(self) -> Array:
        """The dense tensor, with zero (or the empty string) where there is no entry."""
        shape = tuple(self.dense_shape.tolist())
        check_budget(shape, self.values.dtype, what="the dense form")
        dense = np.full(shape, b"" if self.dtype == object else 0, self.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""
        return tuple(self.dense_shape.tolist())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RaggedTensor(RaggedVerbs):
    """A tensor whose rows differ in length, at one or more levels, like `tf.RaggedTensor`.

        ids = ferry.RaggedTensor.from_rows([[5, 17, 2], [8, 2]])
        ids[0], ids[:1], ids.to_dense(-1), ids.pad_to(2), ids == 2

    Attributes:
        flat_values: The values of all rows, one after the other; may have uniform inner dimensions.
        nested_row_splits: For each ragged dimension, from the outermost inward, where each row
            starts and the last one ends; int64 or int32.

    Examples:
        >>> tokens = ferry.RaggedTensor.from_rows([[5, 17, 2], [8, 2]])
        >>> tokens.row_lengths.tolist()
        [3, 2]
    """

    flat_values: Array
    nested_row_splits: tuple[Array, ...]

    def __post_init__(self) -> None:
        values = as_tensor(self.flat_values)
        nested = tuple(map(_as_splits, self.nested_row_splits))
        if not nested:
            raise FormatError("a ragged tensor has at least one array of row splits, found none")
        if values.ndim == 0:
            raise FormatError("flat_values is a scalar, expected at least one dimension")
        ends = list(map(_end_of, nested))
        lengths = [splits.shape[0] - 1 for splits in nested[1:]] + [values.shape[0]]
        for level, (end, length) in enumerate(zip(ends, lengths, strict=True)):
            if end != length:
                raise FormatError(
                    f"the row splits of level {level} end at {end}, expected {length}"
                )
        object.__setattr__(self, "flat_values", values)
        object.__setattr__(self, "nested_row_splits", nested)

    @classmethod
    def from_rows(cls, rows: Iterable[Any], *, dtype: Any = None) -> RaggedTensor:
        """A ragged tensor of rows: nested lists, or arrays that differ in their first dimension.

        Args:
            rows: Lists of equal depth, or arrays of one inner shape.
            dtype: The dtype of the values; by default that of the arrays, or TensorFlow's choice
                for lists.
        """
        level, nested = list(rows), []
        while True:
            lengths = np.fromiter((len(row) for row in level), np.int64, len(level))
            nested.append(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
            if level and all(isinstance(row, np.ndarray) for row in level):
                values = as_tensor(np.concatenate(level))
                break
            level = [element for row in level for element in row]
            if not (level and all(isinstance(element, list | tuple) for element in level)):
                values = as_tensor(level)
                break
        if dtype is not None:
            values = values.astype(dtypes.as_dtype(dtype).numpy)
        return cls(values, tuple(nested))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self.flat_values.dtype

    @property
    def ragged_rank(self) -> int:
        """Number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, None for each ragged dimension, then the uniform ones."""
        return (len(self), *(None,) * self.ragged_rank, *self.flat_values.shape[1:])

    @property
    def row_lengths(self) -> Array:
        """The length of each row of the outermost dimension."""
        return np.diff(self.nested_row_splits[0])


# A tensor of any kind: the leaves of a structure, besides plain Python values.
Tensor = Array | SparseTensor | RaggedTensor


def _as_integers(values: Any, name: str) -> Array:
    array = np.asarray(values)
    if array.size == 0 and array.dtype == np.float64:  # an empty list has no dtype of its own
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise FormatError(f"{name} are of {array.dtype}, expected int64")
    return array


def _as_int64(values: Any, name: str) -> Array:
    if values.__class__ is np.ndarray and values.dtype is _INT64:
        return values
    return _as_integers(values, name).astype(_INT64, copy=False)


_INT64 = np.dtype(np.int64)


def _are_inside(indices: Array, shape: Array) -> bool:
    """Whether all indices are inside a shape, without allocating memory."""
    if indices.flags.c_contiguous and shape.flags.c_contiguous:
        return _native.are_inside(indices, shape)
    return all(
        indices[:, axis].min() >= 0 and indices[:, axis].max() < size
        for axis, size in enumerate(shape.tolist())
    )


def _as_splits(splits: Any) -> Array:
    array = _as_integers(splits, "row splits")
    return array if array.dtype in _SPLITS else array.astype(np.int64)


_SPLITS = (np.dtype(np.int64), np.dtype(np.int32))


def _end_of(splits: Array) -> int:
    """The last of row splits."""
    end = -1
    if splits.ndim == 1:
        end = _native.last_split(np.ascontiguousarray(splits), splits.dtype.itemsize)
    if end < 0:
        raise FormatError("row splits must be one dimension that starts at 0 and never falls")
    return end


def check_budget(shape: Sequence[int], dtype: np.dtype[Any], *, what: str, held: int = 0) -> None:
    """Refuses to allocate a tensor that neither the file nor `limits.memory` justifies.

    Args:
        shape: The shape of the tensor.
        dtype: The dtype of the tensor.
        what: A name for the tensor in the error message.
        held: Number of bytes in the file that describe it.

    Raises:
        LimitError: The tensor is larger than both allow.
    """
    check_size(size_of(shape, dtype), what=what, held=held)


def count_lists(shape: Sequence[int]) -> int:
    """Number of empty lists that a tensor without elements is, as lists in lists; 0 for others."""
    return math.prod(shape[: shape.index(0)]) if 0 in shape else 0


def check_lists(shape: Sequence[int]) -> None:
    """Refuses to make lists, or their text, of a tensor like [2**40, 0], which takes no bytes.

    Raises:
        LimitError: They would take more than `limits.memory`.
    """
    if 0 in shape:
        size = LIST_SIZE * count_lists(shape)
        Budget(0).take(
            size, what=f"a tensor without elements, of shape {list(shape)[:8]}, as lists"
        )


def size_of(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Number of bytes that a tensor takes in memory; its dimensions may be beyond int64."""
    size = dtype.itemsize
    for dimension in shape:
        size *= int(dimension)
    return size


def as_tensor(value: Any) -> Array:
    """A dense tensor in canonical form: native byte order, strings as `bytes` objects.

    Arrays keep their dtype, layout and memory. Python numbers and lists get the dtype that
    TensorFlow gives them: int32 (int64 where needed), float32, bool, complex128 or string.

    Raises:
        UnsupportedError: The value is not a dense tensor, or TensorFlow lacks its dtype.
    """
    if value.__class__ is np.ndarray and value.dtype in dtypes.BY_NUMPY and value.dtype != object:
        return value
    if not isinstance(value, np.ndarray | np.generic):
        return _from_python(value)
    # Masked arrays exist only if numpy.ma was imported.
    if "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray):
        raise UnsupportedError(
            "a masked array has no counterpart", hint="use array.filled(...) or a SparseTensor"
        )
    array = np.asarray(value)
    if array.dtype.kind in "OSUT":
        return _as_strings(array)
    if array.dtype in dtypes.BY_NUMPY:
        return array
    return array.astype(dtypes.from_numpy(array.dtype).numpy)


NARROW = frozenset(
    row.numpy
    for row in dtypes.BY_NAME.values()
    if row.numpy is not None and (row.name == "bool" or 0 < row.bits < 8)
)
"""The dtypes of which `clean_bits` may change something."""


def clean_bits(array: Array) -> Array:
    """Bools as 0 or 1, and dtypes narrower than a byte without bits beyond their width.

    NumPy trusts these bytes blindly. Arrays that need no change, and arrays of other dtypes, are
    returned as they are.
    """
    row = dtypes.from_numpy(array.dtype)
    highest = 1 if row.name == "bool" else (1 << row.bits) - 1
    if not 0 < highest < 255 or array.size == 0:
        return array
    raw = array.view(np.uint8)
    if raw.max() <= highest:
        return array
    return raw != 0 if row.name == "bool" else (raw & np.uint8(highest)).view(array.dtype)


def _as_strings(array: Array) -> Array:
    flat = array.ravel()
    if array.dtype == object and _native.are_bytes(flat):
        return array
    values = flat.tolist()
    kinds = set(map(type, values))
    if not all(issubclass(kind, bytes | str) for kind in kinds):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UnsupportedError(
            f"an object array holds {names}, expected bytes or str",
            hint="use a structure (lists and dicts) for mixed values",
        )
    is_text = array.dtype.kind in "UT" or (kinds and all(issubclass(kind, str) for kind in kinds))
    strings = np.empty(len(values), dtype=TEXT if is_text else object)
    try:
        strings[:] = [text.encode() if isinstance(text, str) else bytes(text) for text in values]
    except UnicodeEncodeError as error:
        raise UnsupportedError(
            f"{error.object[:60]!r} is no text that UTF-8 can carry",
            hint="pass its bytes: text.encode(errors='surrogatepass')",
        ) from None
    return strings.reshape(array.shape)


def _from_python(value: Any) -> Array:
    if isinstance(value, str | bytes):
        array = np.empty((), dtype=object)
        array[()] = value
        return _as_strings(array)
    if hasattr(value, "__array__"):  # a tensor of another framework, with its own dtype
        return as_tensor(np.asarray(value))
    if value is None or isinstance(value, dict | SparseTensor | RaggedTensor):
        raise UnsupportedError(
            f"{type(value).__name__} is no dense tensor",
            hint='format="structure" and format="json" carry sparse, ragged and nested values',
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UnsupportedError(
            "nested lists of different lengths are no dense tensor",
            hint="use RaggedTensor.from_rows, or keep the list as a structure",
        ) from error
    if array.dtype.kind in "OSU":
        # NumPy turns [1, "a"] into text and cuts trailing zero bytes, so the objects are kept.
        return _as_strings(np.array(value, dtype=object))
    if array.dtype == np.int64 and not isinstance(value, np.generic):
        narrow = array.astype(np.int32)
        return narrow if (narrow == array).all() else array
    if array.dtype == np.float64 and not _has_numpy_floats(value):
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        if (np.isinf(narrow) & ~np.isinf(array)).any():
            raise UnsupportedError(
                "a Python float is too large for float32", hint="pass np.float64 values"
            )
        return narrow
    return as_tensor(array)


def _has_numpy_floats(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_numpy_floats(element) for element in value)
    return isinstance(value, np.ndarray | np.generic)


def concatenate(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one kind, concatenated along their first dimension."""
    if isinstance(tensors[0], SparseTensor):
        return _concatenated_sparse(tensors)  # type: ignore[arg-type]
    if isinstance(tensors[0], RaggedTensor):
        return _concatenated_ragged(tensors)  # type: ignore[arg-type]
    return joined(tensors)  # type: ignore[arg-type]


def _concatenated_ragged(tensors: Sequence[RaggedTensor]) -> RaggedTensor:
    nested = []
    for levels in zip(*(tensor.nested_row_splits for tensor in tensors), strict=True):
        start, pieces = 0, [np.zeros(1, levels[0].dtype)]
        for splits in levels:
            pieces.append(splits[1:] + np.asarray(start, splits.dtype))
            start += int(splits[-1])
        if start > np.iinfo(levels[0].dtype).max:
            raise FormatError(f"{start} values have row splits of {levels[0].dtype}")
        nested.append(np.concatenate(pieces))
    return RaggedTensor(joined([tensor.flat_values for tensor in tensors]), tuple(nested))


def _concatenated_sparse(tensors: Sequence[SparseTensor]) -> SparseTensor:
    pieces, rows = [], 0
    for tensor in tensors:
        indices = tensor.indices.copy()
        indices[:, 0] += rows
        pieces.append(indices)
        rows += tensor.shape[0]
    shape = np.array([rows, *tensors[0].shape[1:]], np.int64)
    values = np.concatenate([tensor.values for tensor in tensors])
    return SparseTensor(np.concatenate(pieces), values, shape)


Place = tuple["Place", str | int] | None
"""Where something stands in a structure: the place of what it is in, and its key or number there.

The path of it is made only if somebody asks: those of all elements would take the memory of a long
key as often as there are elements behind it.
"""


def path_of(place: Place) -> str:
    """A place as text: "decoder/layers/0/kernel"."""
    names = []
    while place is not None:
        place, name = place
        names.append(str(name))
    return "/".join(reversed(names))


_INTEGERS = range(-(2**63), 2**63)


def is_key(key: Any) -> bool:
    """Whether a dict in a structure may have a key: a string, or an integer of 64 bits.

    PyTorch's optimizers number their state. Of larger integers, very many have one hash.
    """
    return isinstance(key, str) or (type(key) is int and key in _INTEGERS)


def check_keys(value: dict[Any, Any], place: Place) -> None:
    """Refuses a dict with other keys.

    Raises:
        UnsupportedError: It has one.
    """
    for key in value:
        if not isinstance(key, str) and not is_key(key):
            raise UnsupportedError(
                f"a dict key is {key!r}, expected a string or an integer of 64 bits",
                tensor=path_of(place) or None,
            )


def map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    """The structure with `function` applied to each of its leaves.

    Raises:
        UnsupportedError: A dict has a key that is neither a string nor an integer.
        LimitError: The structure nests deeper than `limits.depth`, or contains itself.
    """
    try:
        return _map(function, value, None, limits.depth)
    except RecursionError:
        # The limit is higher than Python's, or the caller left little of the stack.
        raise LimitError("the structure nests deeper than Python's stack allows") from None


def _map(function: Callable[[Any], Any], value: Any, place: Place, depth: int) -> Any:
    if not isinstance(value, dict | list | tuple):
        try:
            return function(value)
        except UnsupportedError as error:
            raise error.located(tensor=path_of(place) or None) from None
    if depth == 0:
        raise LimitError(
            f"the structure nests deeper than {limits.depth}", tensor=path_of(place)[:60]
        )
    if isinstance(value, dict):
        check_keys(value, place)
        return {
            key: _map(function, element, (place, key), depth - 1) for key, element in value.items()
        }
    names = value._fields if is_namedtuple(value) else range(len(value))  # type: ignore[union-attr]
    elements = [
        _map(function, element, (place, name), depth - 1)
        for name, element in zip(names, value, strict=True)
    ]
    if is_namedtuple(value):
        return type(value)(*elements)
    return elements if isinstance(value, list) else tuple(elements)
