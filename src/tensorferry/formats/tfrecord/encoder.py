"""Encoding: rows or columns as framed tf.train.Example messages.

Values that lists of Examples can hold (integers and bools, float32 and strings; scalars or one
dimension) become lists, which `tf.io.parse_example` reads directly; int32 labels are an int64 list.
Python's float and str become float32 and bytes, as everywhere in TensorFlow. Everything else
(float64, uint64, bfloat16, two dimensions and more, sparse, ragged) would be narrowed or flattened:
it becomes one bytes value, the serialized tensor, which readers recognise, and a warning says so
once where a list was to be expected. A schema can ask for something else: int32 kept as a tensor, a
float32 matrix as a plain list, or float64 rounded to float32.

A feature has one kind in all rows, or no reader could make a column of it: a row of another kind is
refused. Keys are written in order, so that the same values give the same bytes. The bytes are put
together in `tensorferry._native`.
"""

from __future__ import annotations

import copy
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.classes import NamedTuple
from tensorferry.errors import FerryError, FormatError, LimitError, UnsupportedError
from tensorferry.formats.tfrecord import tensors
from tensorferry.formats.tfrecord.example import KIND_NUMBERS
from tensorferry.rows.schema import Feature, Schema
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor

BYTES, FLOATS, INTEGERS = 1, 2, 3
# Columns are encoded in pieces of about this number of bytes, in this number of threads, including
# the caller's: three keep up with a file in memory.
PIECE_BYTES = 1 << 19
THREADS = min(3, os.cpu_count() or 1)
EMPTY = 0  # of an empty Python list, which says nothing about what it would hold

_PLAIN = {np.dtype(np.int64): INTEGERS, np.dtype(np.float32): FLOATS, np.dtype(object): BYTES}
# An int64 list holds every value of these.
_NARROW = frozenset(map(np.dtype, ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32")))
_DTYPES = {INTEGERS: np.int64, FLOATS: np.float32}
# The classes of arrays and scalars whose memory is read natively, the most frequent first.
_ARRAYS = (
    *(np.ndarray, np.int64, np.float32, np.int32, np.bool_, np.uint8, np.int8),
    *(np.int16, np.uint16, np.uint32, np.float64, np.longlong, np.intc),
)
_NAMES = {BYTES: "strings", FLOATS: "float32 values", INTEGERS: "int64 values"}

Source = tuple[str, int, bool, Array | list[bytes], Array | None, int, Array | None, Array | None]
"""A feature of many rows, as `_native.ExampleEncoder` takes it: name, kind, whether it is a
sequence, values, where lists begin or else their length, where rows begin, which rows lack it."""


class Cell(NamedTuple):
    """The list of one feature in one row."""

    kind: int
    values: Any  # a list, or an array of one dimension
    tensor: str = ""  # what a serialized tensor is: dtype and rank
    unlisted: str = ""  # the dtype that keeps a number or a list of numbers from being a list

    @property
    def sort(self) -> str:
        """What all rows of a feature must have in common."""
        return self.tensor or _NAMES[self.kind]


class ExampleWriter:
    """Turns rows and columns into framed Examples.

    Rows are gathered with `add` and encoded together with `flush`, which is several times as fast
    as one by one. What a row holds is copied when it is added.

    Args:
        schema: How features are to be written; what it does not name is written by its type.
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = Schema() if schema is None else schema
        # A dict, because a schema searches for similar names when a name is missing.
        self._features = dict(self.schema)
        self._required = [
            feature.name
            for feature in self.schema.values()
            if not feature.optional and not feature.sequence
        ]
        self._encoder = _native.ExampleEncoder()
        self._kinds: dict[str, tuple[int, str]] = {}  # and what `Cell.sort` was
        self._plan: tuple[int, _native.RowPlan] | None = None  # and how many kinds it knows
        self._told = False
        self._unlisted: dict[str, Cell] = {}
        self._pending: list[dict[str, Any]] = []
        self._open: set[str] = set()  # features that had nothing but empty lists so far

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds a row: a dict from feature names to values, None for a missing value.

        Raises:
            FormatError: It does not fit the rows before it, or the schema; it is not added.
            UnsupportedError: An Example cannot carry it.
        """
        cells = {}
        for name, value in row.items():
            _check_name(name)
            if value is None:
                continue
            feature = self._features.get(name)
            try:
                if feature is not None and feature.sequence:
                    _sequence_source(name, [value], feature)  # what is wrong is told now
                    cells[name] = copy.deepcopy(value)
                else:
                    cells[name] = _cell(value, feature)
                    self._check_kind(name, cells[name])
            except FerryError as error:
                raise error.located(tensor=name) from None
        for name in self._required:
            if name not in cells:
                raise _lacking(name)
        for name, cell in cells.items():
            if isinstance(cell, Cell):
                self._learn_kind(name, cell)
                if name not in self._kinds:
                    self._open.add(name)
        self._tell_unlisted()
        self._pending.append(cells)

    def flush(self) -> bytes:
        """The framed Examples of the rows that were added since the last time."""
        rows, self._pending = self._pending, []
        self._open.clear()
        names = sorted({name for row in rows for name in row})
        sources: list[Source | None] = []
        for name in names:
            values = [row.get(name) for row in rows]
            feature = self._features.get(name)
            try:
                if feature is not None and feature.sequence:
                    sources.append(_sequence_source(name, values, feature))
                else:
                    sources.append(self._source_of_cells(name, values))
            except FerryError as error:
                raise error.located(tensor=name) from None
        self._encoder.prepare([source for source in sources if source], len(rows))
        return bytes(self._encoder.encode(0, len(rows)))

    @property
    def plan(self) -> _native.RowPlan:
        """Encodes rows natively that have nothing but features whose kinds are known by now.

        It refuses other rows, and all of those that something is wrong with: they are for `add`.
        """
        if self._plan is None or self._plan[0] != len(self._kinds):
            self._plan = len(self._kinds), _native.RowPlan(self._planned(), _ARRAYS)
        return self._plan[1]

    def _planned(self) -> list[tuple[str, int, tuple[int | None, ...] | None, bool]]:
        """The features that lists hold: name, kind, shape in the schema, whether it is required."""
        if any(feature.sequence for feature in self._features.values()):
            return []  # rows of sequences are SequenceExamples
        planned: list[tuple[str, int, tuple[int | None, ...] | None, bool]] = []
        for name in sorted({*self._features, *self._kinds}):
            feature = self._features.get(name)
            if feature is None:
                kind, sort = self._kinds[name]
                if sort == _NAMES[kind]:
                    planned.append((name, kind, None, False))
            elif feature.encoding == "plain":
                required = name in self._required
                planned.append((name, KIND_NUMBERS[feature.kind], feature.shape, required))
            elif name in self._required:
                return []  # no row without the tensor, which is not planned
        return planned

    @property
    def is_undecided(self) -> bool:
        """Whether it depends on rows to come how rows that were added are encoded."""
        return bool(self._open) or not any(self._pending)

    def encode_rows(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """Framed Examples of rows."""
        for row in rows:
            self.add(row)
        return self.flush()

    def encode(self, first: int, end: int, hand_on: Callable[[memoryview], object]) -> None:
        """Encodes some rows of the columns that were prepared, in threads.

        Args:
            first: The first row.
            end: The row behind the last.
            hand_on: Gets the framed Examples, piece by piece in order, here in this thread. A piece
                is good for the time of that call: its memory is used again, because fresh memory
                would cost more than the encoding.
        """
        self._encoder.encode_pieces(first, end, PIECE_BYTES, THREADS - 1, hand_on)

    def prepare_columns(self, columns: Mapping[str, Any]) -> int:
        """Takes columns of one length for `encode`, and gives that length."""
        for name in columns:
            _check_name(name)
        lengths = {name: _rows_of(name, column) for name, column in columns.items()}
        rows = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != rows:
                raise FormatError(
                    f"column {name!r} has {length} rows, expected {rows} as the first one"
                )
        for name in self._required:
            if rows and name not in columns:
                raise _lacking(name)
        sources = []
        for name in sorted(columns):
            try:
                sources.append(self._source_of_column(name, columns[name], rows))
            except FerryError as error:
                raise error.located(tensor=name) from None
        self._tell_unlisted()
        self._encoder.prepare([source for source in sources if source], rows)
        return rows

    def _check_kind(self, name: str, cell: Cell) -> None:
        known = self._kinds.get(name)
        if cell.kind != EMPTY and known is not None and known[1] != cell.sort:
            raise FormatError(
                f"feature {name!r} is {cell.sort}, expected {known[1]} as in the rows before",
                hint="pass a schema= that says what it is to be, or give every row the same type",
            )

    def _learn_kind(self, name: str, cell: Cell) -> None:
        if cell.kind != EMPTY and name not in self._kinds:
            self._open.discard(name)
            self._kinds[name] = cell.kind, cell.sort
            if cell.unlisted and not self._told and name not in self._features:
                self._unlisted[name] = cell

    def _tell_unlisted(self) -> None:
        """Says once, of the first rows, which numbers are not stored as lists."""
        if not self._unlisted or self._told:
            return
        self._told = True
        schema: dict[str, Any] = {}
        for name, cell in self._unlisted.items():
            listed = "int64" if cell.unlisted == "uint64" else "float32"
            schema[name] = listed if cell.tensor.endswith(" 0 dimensions") else (listed, (None,))
        said = ", ".join(f"{name!r} is {cell.unlisted}" for name, cell in self._unlisted.items())
        _tell(
            f"{said}, which no list of an Example holds: it is stored as a serialized tensor, a "
            "string for tf.io.parse_example. Pass numbers of float32 or int64, or "
            f"schema={schema}, to store a list"
        )

    def _source_of_column(self, name: str, column: Any, rows: int) -> Source | None:
        feature = self._features.get(name)
        if feature is not None and feature.sequence:
            return _sequence_source(name, column, feature)
        if isinstance(column, np.ndarray) and (feature is None or feature.encoding == "plain"):
            array = as_tensor(column)
            if feature is not None:
                _check_shape(array.shape[1:], feature)
                array = _cast(array.reshape(rows, -1), feature)
            if array.ndim <= 2:
                _check_length(math.prod(array.shape[1:]))
                array = _widened(array)
            kind = _PLAIN.get(array.dtype)
            if kind is not None and array.ndim <= 2:
                self._check_kind(name, Cell(kind, ()))
                self._learn_kind(name, Cell(kind, ()))
                length = math.prod(array.shape[1:])
                return name, kind, False, np.ascontiguousarray(array), None, length, None, None
        if feature is None and isinstance(column, RaggedTensor):
            values = _widened(column.flat_values)
            kind = _PLAIN.get(values.dtype)
            if kind is not None and column.ragged_rank == 1 and values.ndim == 1:
                self._check_kind(name, Cell(kind, ()))
                self._learn_kind(name, Cell(kind, ()))
                splits = column.nested_row_splits[0].astype(np.int64, copy=False)
                values = np.ascontiguousarray(values)
                return name, kind, False, values, np.ascontiguousarray(splits), 0, None, None
        if isinstance(column, np.ndarray) and _fits(column, feature):
            strings = tensors.to_strings(as_tensor(column))
            if strings is not None:
                rank = column.ndim - 1
                unlisted = str(column.dtype) if rank <= 1 else ""
                cell = Cell(BYTES, (), _tensor_sort(column.dtype, rank), unlisted)
                self._check_kind(name, cell)
                self._learn_kind(name, cell)
                return name, BYTES, False, strings, None, 1, None, None
        cells = []
        for value in column.rows() if isinstance(column, SparseTensor) else column:
            cells.append(None if value is None else _cell(value, feature))
            if cells[-1] is not None:
                self._check_kind(name, cells[-1])
                self._learn_kind(name, cells[-1])
            elif name in self._required:
                raise _lacking(name)
        return self._source_of_cells(name, cells)

    def _source_of_cells(self, name: str, cells: list[Cell | None]) -> Source | None:
        if all(cell is None for cell in cells):
            return None
        known = self._kinds.get(name)
        if known is None:
            raise UnsupportedError(
                f"feature {name!r} holds nothing but empty lists, which do not say their kind",
                hint="pass a schema=, or arrays, which have a dtype",
            )
        kind, _ = known
        lists = [() if cell is None else cell.values for cell in cells]
        splits = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(part) for part in lists], out=splits[1:])
        missing = None
        if any(cell is None for cell in cells):
            missing = np.array([cell is None for cell in cells], np.uint8)
        flat: Array | list[bytes]
        if kind == BYTES:
            flat = [text for part in lists for text in part]
        else:
            flat = _join([part for part in lists if len(part)], _DTYPES[kind])
        return name, kind, False, flat, splits, 0, None, missing


@lru_cache(maxsize=4096)
def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise UnsupportedError(f"a feature is called {name!r}, expected a string")
    _encode(name)


def _encode(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(
            f"{text[:60]!r} is no text that UTF-8 can carry",
            hint="pass its bytes: text.encode(errors='surrogatepass')",
        ) from None


def _lacking(name: str) -> FormatError:
    return FormatError(
        f"a row has no feature {name!r}, which the schema requires",
        hint="make it optional in schema=",
    )


def _rows_of(name: str, column: Any) -> int:
    if isinstance(column, SparseTensor) and len(column.shape) > 1:
        return column.shape[0]
    if isinstance(column, SparseTensor | str | bytes | Mapping) or not hasattr(column, "__len__"):
        found = type(column).__name__
    else:
        try:
            return len(column)
        except TypeError:  # an array without dimensions
            found = "scalar"
    raise FormatError(
        f"column {name!r} is a single {found}, expected one value a row",
        hint="write one row with write()",
    )


def _join(lists: Sequence[Any], dtype: Any) -> Array:
    if lists and all(isinstance(part, np.ndarray) for part in lists):
        return np.concatenate(lists).astype(dtype, copy=False)
    return np.array([number for part in lists for number in part], dtype)


def _cell(value: Any, feature: Feature | None) -> Cell:
    """The list for a value, by its feature or else by its type."""
    if feature is not None:
        return _cell_by_feature(value, feature)
    kind = _kind_of(value.__class__)
    if kind is not None:
        return Cell(kind, _numbers([value], kind))
    if isinstance(value, list | tuple):
        kinds = {_kind_of(kind) for kind in set(map(type, value))}
        if not kinds:
            return Cell(EMPTY, ())
        if kinds == {INTEGERS, FLOATS}:
            kinds = {FLOATS}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            return Cell(kind, _numbers(value, kind))
    if isinstance(value, SparseTensor | RaggedTensor):
        return _tensor_cell(value)
    if isinstance(value, Mapping):
        raise UnsupportedError(
            "a dict in a row, expected values",
            hint="give each value a name of its own, as in 'image/height'",
        )
    array = _as_array(value)
    if array.ndim > 1:
        return _tensor_cell(array)
    _check_length(array.size)
    array = _widened(array)
    kind = _PLAIN.get(array.dtype)
    if kind is None:
        return _tensor_cell(array)._replace(unlisted=str(array.dtype))
    return Cell(kind, array.ravel().tolist() if kind == BYTES else array.flatten())


def _check_length(count: int) -> None:
    """Refuses a list of which each value takes a byte at least, before it is widened.

    Raises:
        LimitError: Protobuf parses no message of that size.
    """
    if count >= 2**31:
        raise LimitError(f"a list of {count} values, and an Example has less than 2 GiB")


def _widened(array: Array) -> Array:
    """Integers of fewer than 64 bits, and bools, as int64; other arrays as they are."""
    return array.astype(np.int64) if array.dtype in _NARROW else array


def _tell(message: str) -> None:
    """Warns the caller of this package; operations have their own way to say what they did."""
    level, frame = 1, sys._getframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("tensorferry.operations", "tensorferry.cli")):
            return
        if module.partition(".")[0] != "tensorferry":
            break
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, stacklevel=level)


def _tensor_cell(value: Any) -> Cell:
    if value.shape == () and isinstance(value, SparseTensor):
        raise UnsupportedError("a sparse tensor without dimensions", hint="use its to_dense()")
    return Cell(BYTES, [tensors.dump(value)], _tensor_sort(value.dtype, len(value.shape)))


def _tensor_sort(dtype: np.dtype[Any], rank: int) -> str:
    return f"a {dtypes.from_numpy(dtype).name} tensor of {rank} dimensions"


def _fits(column: Array, feature: Feature | None) -> bool:
    """Whether the rows of a column are tensors of a feature without a conversion."""
    if feature is None:
        return True
    dtype = dtypes.BY_NAME[feature.dtype].numpy
    return column.dtype == dtype and _is_shape(column.shape[1:], feature.shape)


@lru_cache(maxsize=256)
def _kind_of(python: type) -> int | None:
    """The kind of list for values of a Python type; None if no list holds them."""
    if issubclass(python, np.generic):
        return None  # a NumPy scalar has a dtype to be kept; np.float64 is a float, too
    if issubclass(python, int):
        return INTEGERS
    if issubclass(python, float):
        return FLOATS
    return BYTES if issubclass(python, str | bytes) else None


def _numbers(values: Sequence[Any], kind: int) -> Sequence[Any]:
    """Python's values as the values of a list, if they fit."""
    if kind == BYTES:
        return [_encode(text) for text in values]
    if kind == INTEGERS:
        if min(values) < -(2**63) or max(values) >= 2**63:
            raise UnsupportedError("an integer is beyond 64 bits, expected an int64")
        return list(values)
    for number in values:
        if abs(number) > _LARGEST and not math.isinf(number):
            raise UnsupportedError(
                f"{number} is too large for float32", hint="pass np.float64 values"
            )
    return list(values)


# The largest number that still rounds to a finite float32.
_LARGEST = float(np.finfo(np.float32).max) + 2.0**102


def _as_array(value: Any) -> Array:
    """A dense tensor, as `as_tensor`, but with int64 for Python's integers whatever their size."""
    if isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except ValueError:  # of different lengths; as_tensor says so
            return as_tensor(value)
        if array.dtype == np.int64:
            return array
    return as_tensor(value)


def _cell_by_feature(value: Any, feature: Feature) -> Cell:
    if feature.encoding == "tensor":
        return _tensor_cell(_as_dtype(value, feature))
    array = _as_array(np.asarray(value, object) if feature.kind == "bytes" else value)
    _check_shape(array.shape, feature)
    flat = _cast(array.flatten(), feature)
    return Cell(KIND_NUMBERS[feature.kind], flat.tolist() if feature.kind == "bytes" else flat)


def _as_dtype(value: Any, feature: Feature) -> Any:
    """A value as a tensor of a feature; only Python's numbers are converted to its dtype."""
    dtype: Any = dtypes.BY_NAME[feature.dtype].numpy
    tensor: Any
    if isinstance(value, SparseTensor | RaggedTensor):
        tensor = value
    elif isinstance(value, np.ndarray | np.generic) or feature.dtype == "string":
        tensor = as_tensor(value)
    else:
        tensor = _from_numbers(np.asarray(value), dtype)
    if tensor.dtype != dtype:
        raise FormatError(f"a tensor of {tensor.dtype}, expected {feature.dtype} by the schema")
    dense = isinstance(tensor, np.ndarray)
    if not dense and None in feature.shape and len(tensor.shape) == len(feature.shape):
        return tensor
    if not dense or not _is_shape(tensor.shape, feature.shape):
        raise _other_shape(tensor.shape, feature)
    return tensor


def _from_numbers(array: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype) if array.dtype.kind in "iufcb" else array
        exact = dtype.kind in "fc" or (dtype.kind == "V" and dtype.names is None)
        same = True if exact else (cast.astype(array.dtype) == array).all()
    return cast if same else array


def _cast(array: Array, feature: Feature) -> Array:
    """The values in the dtype of the list: a float may be rounded, an integer may not be cut."""
    kinds = {"int64": "iub", "float32": "fiub", "bytes": "O"}[feature.kind]
    small = array.dtype.kind == "V" and feature.kind == "float32" and array.dtype.names is None
    if array.dtype.kind not in kinds and not small and array.size:
        raise FormatError(
            f"values of {array.dtype}, expected {feature.dtype} by the schema",
            hint="encoding='tensor' in the schema keeps any dtype",
        )
    if feature.kind == "bytes":
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(feature.kind)
    if feature.kind == "int64" and array.dtype == np.uint64 and (cast < 0).any():
        raise FormatError("a uint64 value does not fit int64")
    if array.dtype == np.float64 and (np.isinf(cast) & ~np.isinf(array)).any():
        raise FormatError("a float64 value is too large for float32")
    return cast


def _check_shape(shape: tuple[int, ...], feature: Feature) -> None:
    """Refuses a value that has neither the feature's shape nor as many values in a flat list."""
    expected = feature.shape
    size = math.prod(shape)
    unit = math.prod(part for part in expected if part is not None)
    flat = len(shape) <= 1 and (size % unit == 0 if None in expected else size == unit)
    if not flat and not _is_shape(shape, expected):
        raise _other_shape(shape, feature)


def _is_shape(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        part in (None, size) for size, part in zip(shape, expected, strict=True)
    )


def _other_shape(shape: tuple[Any, ...], feature: Feature) -> FormatError:
    return FormatError(
        f"a value of shape {list(shape)}, expected {list(feature.shape)} by the schema"
    )


def _sequence_source(name: str, column: Any, feature: Feature) -> Source:
    """A column of a sequence feature: rows of steps, each a list of values."""
    if feature.encoding == "tensor":
        raise UnsupportedError("a sequence of serialized tensors", hint="dump them: one of strings")
    steps = column
    if not isinstance(column, RaggedTensor):
        steps = RaggedTensor.from_rows([[] if row is None else row for row in column])
    row_splits = steps.nested_row_splits[0].astype(np.int64, copy=False)
    lists, inner = None, steps.flat_values.shape[1:]
    if steps.ragged_rank > 2 or (steps.ragged_rank == 2 and inner):
        raise UnsupportedError(
            f"steps of {steps.ragged_rank - 1 + len(inner)} dimensions, the first of them ragged, "
            "expected one at most"
        )
    if steps.ragged_rank == 2:
        lists = np.ascontiguousarray(steps.nested_row_splits[1].astype(np.int64, copy=False))
        for length in np.unique(np.diff(lists)).tolist():
            _check_shape((length,), feature)
    elif len(steps.flat_values):
        _check_shape(inner, feature)
    values = _cast(steps.flat_values.reshape(-1), feature)
    kind = KIND_NUMBERS[feature.kind]
    given: Array | list[bytes] = values.tolist() if kind == BYTES else np.ascontiguousarray(values)
    length = 0 if lists is not None else math.prod(inner)
    return name, kind, True, given, lists, length, np.ascontiguousarray(row_splits), None
