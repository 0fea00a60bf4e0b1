"""Stored tensors: how a file holds tensors of every kind as arrays of numbers.

A format of named arrays (npy, npz, safetensors) carries numbers of some dtypes. Every other tensor
is taken apart to such arrays, in the same way for all formats, so that the format's own readers
still see the parts:

    strings   name/bytes and name/offsets: where each string starts, and the last one ends
    sparse    name/indices, name/values and name/dense_shape
    ragged    name/flat_values and name/row_splits_0, name/row_splits_1, ... from the outside in

A dtype that the format lacks is stored as another: int4 as int8, complex128 as pairs of float64,
all others as their bits. The note (`tensorferry.tensors.note`) says which tensors are stored so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.tensors.entries import Entry, Extent
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import (
    Array,
    Kind,
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    clean_bits,
)

# The dtype as which a format stores values of another; None where it has that one itself.
Storage = Callable[[DType], np.dtype[Any] | None]


# Tensors to parts


def take_apart(
    name: str, tensor: Tensor, storage: Storage, note: Note
) -> Iterator[tuple[str, Array]]:
    """The arrays that a tensor is stored as, by name; what they cannot say is noted.

    Args:
        name: The name of the tensor.
        tensor: A tensor of any kind.
        storage: The dtype as which the format stores each dtype.
        note: Gets what the arrays cannot say.
    """
    if isinstance(tensor, SparseTensor):
        note.tensors[name] = {"kind": "sparse"}
        for part in ("indices", "values", "dense_shape"):
            yield from take_apart(f"{name}/{part}", getattr(tensor, part), storage, note)
    elif isinstance(tensor, RaggedTensor):
        note.tensors[name] = {"kind": "ragged", "levels": tensor.ragged_rank}
        yield from take_apart(f"{name}/flat_values", tensor.flat_values, storage, note)
        for level, splits in enumerate(tensor.nested_row_splits):
            yield from take_apart(f"{name}/row_splits_{level}", splits, storage, note)
    elif tensor.dtype == object:
        note.tensors[name] = {"kind": "string", "shape": list(tensor.shape)}
        strings = tensor.ravel().tolist()
        offsets = np.zeros(len(strings) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)), out=offsets[1:])
        yield f"{name}/bytes", np.frombuffer(b"".join(strings), np.uint8)
        yield f"{name}/offsets", offsets
    else:
        row = dtypes.from_numpy(tensor.dtype)
        stored = storage(row)
        if stored is not None:
            note.dtypes[name] = row.name
            tensor = _store(tensor, row, stored)
        yield name, tensor


@cache
def stored_as_is(storage: Storage) -> frozenset[np.dtype[Any]]:
    """The dtypes of numbers that a format has itself, so that an array of them is its own part."""
    rows = ((dtype, row) for dtype, row in dtypes.BY_NUMPY.items() if row is not dtypes.STRING)
    return frozenset(dtype for dtype, row in rows if storage(row) is None)


def plain_storage(row: DType) -> np.dtype[Any]:
    """The dtype that values are stored as if the format offers nothing better."""
    assert row.numpy is not None
    if row.name == "complex128":
        return np.dtype(np.float64)
    if row.bits < 8 and "int" in row.name:
        return np.dtype(np.uint8 if row.name.startswith("u") else np.int8)
    sign = "i" if row.name.startswith("qint") else "u"
    return np.dtype(f"{sign}{row.numpy.itemsize}")


def _store(array: Array, row: DType, stored: np.dtype[Any]) -> Array:
    if row.name == "complex128":
        return np.ascontiguousarray(array).view(stored).reshape(*array.shape, 2)
    if row.bits < 8 and "int" in row.name:
        return array.astype(stored)
    return array.view(stored)


def restore(array: Array, row: DType) -> Array:
    """Values of a dtype from what they are stored as.

    Raises:
        FormatError: They cannot be that.
    """
    assert row.numpy is not None
    if row.name == "complex128" and array.dtype == np.float64 and array.shape[-1:] == (2,):
        return np.ascontiguousarray(array).view(row.numpy).reshape(array.shape[:-1])
    if row.bits < 8 and "int" in row.name and array.dtype in (np.int8, np.uint8):
        values = array.astype(row.numpy)
        if (values.astype(array.dtype) != array).any():
            raise FormatError(f"a number is outside the range of {row.name}")
        return values
    if array.dtype.kind not in "iuV" or array.dtype.itemsize != row.numpy.itemsize:
        raise FormatError(f"values of {row.name} are stored as {array.dtype}, which they cannot be")
    return clean_bits(array.astype(array.dtype.newbyteorder("="), copy=False).view(row.numpy))


# Parts to tensors


class Stored:
    """A tensor in a file, or ready to be one: what is known of it, and how it is read.

    The four properties that every tensor has are fields or properties of the classes below.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # a dataclass would take properties of its base for the defaults of fields

        @property
        def kind(self) -> Kind:
            """The kind of the tensor."""

        @property
        def dtype(self) -> DType:
            """The dtype of its values."""

        @property
        def shape(self) -> tuple[int | None, ...]:
            """None for each ragged dimension."""

        @property
        def nbytes(self) -> int:
            """Number of bytes it takes in the file."""

        @property
        def quantized(self) -> str | None:
            """The stored dtype, if its values represent others."""

        @property
        def unreadable(self) -> str | None:
            """Why the tensor cannot be read, if it cannot."""

    else:
        quantized = unreadable = None  # of nearly all tensors

    @property
    def dtype_name(self) -> str:
        """The name of its dtype, which we may have no counterpart of."""
        return self.dtype.name

    def extents(self) -> Iterable[Extent]:
        """The position of its bytes, if known, to plan many reads together."""
        return ()

    def read(self) -> Tensor:
        """The tensor."""
        raise NotImplementedError

    def read_part(self, index: Any) -> Array:
        """A slice of the tensor."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Unreadable(Stored):
    """A tensor that is in the file and cannot be read.

    Attributes:
        error: The error that accessing it raises.
        found: The dtype as the file calls it.
        shape: As far as it is known.
        nbytes: Number of bytes it takes in the file.
    """

    error: FerryError
    found: str
    shape: tuple[int | None, ...]
    nbytes: int
    kind: Kind = "dense"

    @property
    def dtype(self) -> DType:
        """None of ours."""
        raise self.error

    @property
    def dtype_name(self) -> str:
        """The dtype as the file calls it."""
        return self.found

    @property
    def unreadable(self) -> str:
        """The reason."""
        return self.error.message

    def read(self) -> Tensor:
        """Raises a new copy of the error each time."""
        kind, arguments = self.error.__reduce__()
        raise kind(*arguments)

    def read_part(self, index: Any) -> Array:
        """Raises the error."""
        self.read()
        raise AssertionError


@dataclass(frozen=True, slots=True)
class StoredArray(Stored):
    """Numbers: one entry."""

    entry: Entry
    row: DType | None = None  # where it is stored as another
    kind: Kind = "dense"

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        if self.row is not None:
            return self.row
        if self.entry.dtype.kind in "SU":
            return dtypes.STRING
        return dtypes.from_numpy(self.entry.dtype)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of the values."""
        return self.entry.shape[:-1] if self._is_pairs else self.entry.shape

    @property
    def _is_pairs(self) -> bool:
        return (
            self.row is not None
            and self.row.name == "complex128"
            and self.entry.dtype == np.float64
        )

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.entry.nbytes if self.entry.stored is None else self.entry.stored

    def extents(self) -> Iterable[Extent]:
        """The position of its bytes."""
        return self.entry.extents()

    def read(self) -> Array:
        """The values."""
        return self._values(self.entry.read())

    def read_part(self, index: Any) -> Array:
        """Some of the values."""
        if self._is_pairs:
            return np.asarray(self.read()[index])
        return self._values(self.entry.read_part(index))

    def _values(self, array: Array) -> Array:
        if self.row is not None:
            return restore(array, self.row)
        return clean_bits(as_tensor(array))


@dataclass(frozen=True, slots=True)
class StoredStrings(Stored):
    """Strings: all their bytes, and the offsets of each."""

    data: Entry
    offsets: Entry
    shape: tuple[int, ...]
    kind: Kind = "string"
    dtype: DType = dtypes.STRING

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return StoredArray(self.data).nbytes + StoredArray(self.offsets).nbytes

    def extents(self) -> Iterable[Extent]:
        """The position of the bytes and the offsets."""
        return (*self.data.extents(), *self.offsets.extents())

    def read(self) -> Array:
        """The strings."""
        data, offsets = self.data.read(), as_tensor(self.offsets.read())
        count = math.prod(self.shape)
        if data.dtype != np.uint8 or data.ndim != 1 or offsets.dtype != np.int64:
            raise FormatError("the parts of a string tensor are not uint8 and int64")
        if offsets.shape != (count + 1,):
            raise FormatError(
                f"{offsets.size} offsets of strings, "
                f"expected {count + 1} for shape {list(self.shape)}"
            )
        if offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise FormatError("the offsets of strings do not run from 0 to the end of their bytes")
        text = data.tobytes()
        strings: Array = np.empty(count, object)
        strings[:] = [text[start:end] for start, end in itertools.pairwise(offsets.tolist())]
        try:
            return strings.reshape(self.shape)
        except ValueError as error:  # empty, and yet too large
            raise FormatError(f"no array has the shape {list(self.shape)}: {error}") from None

    def read_part(self, index: Any) -> Array:
        """Some of the strings."""
        return np.asarray(self.read()[index])


@dataclass(frozen=True, slots=True)
class StoredSparse(Stored):
    """A sparse tensor: its three parts."""

    indices: StoredArray
    values: Stored
    dense_shape: StoredArray
    kind: Kind = "sparse"

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of the whole tensor, for which one part has to be read."""
        return tuple(self.dense_shape.read().reshape(-1).tolist())

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.indices.nbytes + self.values.nbytes + self.dense_shape.nbytes

    def extents(self) -> Iterable[Extent]:
        """The position of its three parts."""
        parts = (self.indices, self.values, self.dense_shape)
        return (extent for part in parts for extent in part.extents())

    def read(self) -> SparseTensor:
        """The tensor."""
        return SparseTensor(self.indices.read(), self.values.read(), self.dense_shape.read())  # type: ignore[arg-type]

    def read_part(self, index: Any) -> Array:
        """Refused."""
        raise TypeError("a sparse tensor has no slices: read it, and select among its entries")


@dataclass(frozen=True, slots=True)
class StoredRagged(Stored):
    """A ragged tensor: its values and the splits of each level."""

    values: Stored
    splits: tuple[StoredArray, ...]
    kind: Kind = "ragged"

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for each ragged dimension."""
        rows = max(0, math.prod(self.splits[0].entry.shape) - 1)
        return (rows, *(None,) * len(self.splits), *self.values.shape[1:])

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.values.nbytes + sum(splits.nbytes for splits in self.splits)

    def extents(self) -> Iterable[Extent]:
        """The position of its values and splits."""
        return (extent for part in (self.values, *self.splits) for extent in part.extents())

    def read(self) -> RaggedTensor:
        """The tensor."""
        return RaggedTensor(self.values.read(), tuple(part.read() for part in self.splits))  # type: ignore[arg-type]

    def read_part(self, index: Any) -> Any:
        """One row."""
        return self.read()[index]


# The first part that `take_apart` returns, for a tensor of several parts.
FIRST_PARTS = ("bytes", "indices", "flat_values", "flat_values/bytes")

KINDS: tuple[Kind, ...] = ("dense", "string", "sparse", "ragged")

# The possible values of a sparse or ragged tensor.
FLAT: tuple[Kind, ...] = ("dense", "string")


def put_together(entries: Mapping[str, Entry | Unreadable], note: Note) -> dict[str, Stored]:
    """The tensors of a file, by name, in the order of their entries.

    An array that cannot be read, or has a dtype that we have no counterpart of, is listed as such.

    Raises:
        FormatError: The note does not fit the entries.
    """
    left = dict(entries)
    for name in note.dtypes:
        if name not in left:
            raise FormatError("the note has a dtype for what the file lacks", tensor=name[:60])
    builder = _Builder(left, note)
    if not note.tensors:
        return {name: builder.tensor(name) for name in entries}
    values = {"sparse": "values", "ragged": "flat_values"}
    inner = {f"{name}/{values.get(str(d.get('kind')))}" for name, d in note.tensors.items()}
    made = {name: builder.build(name) for name in note.tensors if name not in inner}
    tensors = made | {name: builder.build(name) for name in list(left)}
    places = {name: place for place, name in enumerate(entries)}

    def place(name: str) -> int:
        first = (name, *(f"{name}/{part}" for part in FIRST_PARTS))
        return next((places[part] for part in first if part in places), len(places))

    return dict(sorted(tensors.items(), key=lambda item: place(item[0])))


@dataclass(frozen=True, slots=True)
class _Builder:
    left: dict[str, Entry | Unreadable]
    note: Note

    def build(self, name: str, kinds: tuple[Kind, ...] = KINDS) -> Stored:
        """A tensor, whose entries are then taken."""
        description = self.note.tensors.get(name, {"kind": "dense"})
        kind = description.get("kind")
        if kind not in kinds:
            raise FormatError(
                f"the note has a tensor of kind {str(kind)[:60]!r}, expected {', '.join(kinds)}",
                tensor=name[:60],
            )
        if kind == "dense":
            return self.tensor(name)
        if kind == "string":
            shape = description.get("shape")
            if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
                raise FormatError("the shape of a string tensor is no list of numbers", tensor=name)
            data, offsets = self._take(f"{name}/bytes"), self._take(f"{name}/offsets")
            return StoredStrings(data, offsets, tuple(shape))
        if kind == "sparse":
            indices, shape = self._array(f"{name}/indices"), self._array(f"{name}/dense_shape")
            return StoredSparse(indices, self.build(f"{name}/values", FLAT), shape)
        levels = description.get("levels")
        if type(levels) is not int or not 0 < levels < len(self.left):
            raise FormatError(
                f"a ragged tensor of {str(levels)[:60]} levels is more than the file has",
                tensor=name[:60],
            )
        splits = [self._array(f"{name}/row_splits_{level}") for level in range(levels)]
        return StoredRagged(self.build(f"{name}/flat_values", FLAT), tuple(splits))

    def tensor(self, name: str) -> Stored:
        """A tensor of one entry."""
        found = self.left.get(name)
        if isinstance(found, Unreadable):
            return self.left.pop(name)  # type: ignore[return-value]
        array = self._array(name)
        try:
            array.dtype  # noqa: B018  # looked up in the table, which may lack it
        except UnsupportedError as error:
            return Unreadable(error, str(array.entry.dtype), array.entry.shape, array.nbytes)
        return array

    def _array(self, name: str) -> StoredArray:
        dtype = self.note.dtypes.get(name)
        row = None if dtype is None else dtypes.BY_NAME.get(dtype)
        if dtype is not None and (row is None or row.numpy is None or row is dtypes.STRING):
            raise FormatError(f"the note has dtype {dtype[:60]!r}", tensor=name[:60])
        return StoredArray(self._take(name), row)

    def _take(self, name: str) -> Entry:
        if name not in self.left:
            raise FormatError("the note has a part that the file lacks", tensor=name[:60])
        found = self.left.pop(name)
        if isinstance(found, Unreadable):
            raise FormatError("a part of a tensor is no array", tensor=name[:60])
        return found
