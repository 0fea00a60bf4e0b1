"""Raw: the values of one tensor and nothing else, for systems that know nothing of tensors.

The values follow each other without header, padding or alignment. Reader and writer must agree on
dtype, shape, byte order, and whether the last index runs fastest (order "C") or the first ("F"). A
complex value is two numbers, real and imaginary; a bool is a byte 0 or 1; kinds narrower than a
byte take one byte each, with the value in its low bits.

Strings have no fixed size: `tensorferry.formats.tensorproto`, `structure` and `json` carry them.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np

from tensorferry import dtypes
from tensorferry.budget import Budget
from tensorferry.classes import dataclass
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, MissingDtypeError, TruncatedError, UnsupportedError
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.wholes import WholeReader
from tensorferry.storage import Sink
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.content import Content
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor, clean_bits

NAME = "raw"

ByteOrder = Literal["little", "big", "native"]
Order = Literal["C", "F"]

_PREFIXES = {"little": "<", "big": ">", "native": "="}
_CODES = {
    "bool": "?",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
}
_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


def write(
    value: Any,
    sink: Sink,
    *,
    dtype: Any = None,
    byteorder: ByteOrder = "little",
    order: Order = "C",
) -> None:
    """Writes a dense tensor, without a copy if its memory layout already fits.

    Args:
        value: The tensor.
        sink: Takes the bytes.
        dtype: The dtype to cast the values to, as NumPy's `astype` does, which may round, wrap or
            truncate. By default they stay what they are.
        byteorder: The byte order: "little", "big" or that of this machine.
        order: "C" when the last index runs fastest, "F" when the first does.
    """
    _check_choice("byteorder", byteorder, ByteOrder)
    _check_choice("order", order, Order)
    array = as_tensor(value)
    row = _numeric(array.dtype)
    if dtype is not None:
        row = _numeric(dtype)
        array = _cast(array, row)
    units = array.ravel(order=order).view(f"u{_unit(row)}")
    sink.write(units.byteswap() if _is_swapped(row, byteorder) else units)


def reading_options(
    value: Any, *, dtype: Any = None, byteorder: ByteOrder = "little", order: Order = "C"
) -> dict[str, Any]:
    """The options that `read` needs for a value that `write` wrote with these options."""
    array = as_tensor(value)
    return {
        "dtype": _numeric(array.dtype if dtype is None else dtype).name,
        "shape": list(array.shape),
        "byteorder": sys.byteorder if byteorder == "native" else byteorder,
        "order": order,
    }


def _cast(array: Array, row: DType) -> Array:
    try:
        return array.astype(row.numpy, copy=False)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"NumPy cannot cast {array.dtype} to {row.name}: {error}") from error


def read(
    source: bytes | memoryview,
    *,
    dtype: Any = None,
    shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
    byteorder: ByteOrder = "little",
    order: Order = "C",
) -> Array:
    """The tensor in a buffer, all of which it takes.

    It is a read-only view of the source. Numbers of the other byte order are copied, and so are
    bools other than 0 and 1 (which become 1) and narrow kinds with bits beyond their width (which
    are dropped).

    Args:
        source: The bytes.
        dtype: The dtype of the values; required.
        shape: The shape of the tensor; one dimension may be -1 and is then computed. By default one
            dimension of all values.
        byteorder: As in `write`.
        order: As in `write`.
    """
    if dtype is None:
        raise MissingDtypeError(
            "raw bytes do not say what they hold: pass its dtype",
            hint='as in loads(data, format="raw", dtype="float32", shape=[-1, 3])',
        )
    _check_choice("byteorder", byteorder, ByteOrder)
    _check_choice("order", order, Order)
    row = _numeric(dtype)
    dimensions = _complete(shape, len(source), row)
    try:
        if not _is_swapped(row, byteorder):
            return clean_bits(np.ndarray(dimensions, _dtype(row), source, order=order))
        swapped = np.frombuffer(source, f"u{_unit(row)}").byteswap()
        return swapped.view(_dtype(row)).reshape(dimensions, order=order)
    except ValueError as error:  # more dimensions, or larger ones, than NumPy has
        raise FormatError(f"no array has the shape {list(dimensions)}: {error}") from None


def _complete(shape: Any, size: int, row: DType) -> tuple[int, ...]:
    """The shape without -1, checked against the number of bytes."""
    if shape is None:
        shape = (-1,)
    elif isinstance(shape, int | np.integer):
        shape = (shape,)
    dimensions = [operator.index(dimension) for dimension in shape]
    if min(dimensions, default=0) < -1 or dimensions.count(-1) > 1:
        raise FormatError(f"shape is {dimensions}, expected 0 or more, and -1 at most once")
    stride = _dtype(row).itemsize * math.prod(
        dimension for dimension in dimensions if dimension != -1
    )
    if -1 not in dimensions:
        if size != stride:
            kind = TruncatedError if size < stride else FormatError
            raise kind(f"{size} bytes, expected {stride} for {row.name} of shape {dimensions}")
    elif stride == 0:
        raise FormatError(f"shape {dimensions} leaves open what -1 stands for")
    elif size % stride:
        raise FormatError(
            f"{size} bytes, expected a multiple of {stride} for {row.name} of shape {dimensions}"
        )
    else:
        dimensions[dimensions.index(-1)] = size // stride
    return tuple(dimensions)


def struct_format(value: Any, *, count: int | None = None, byteorder: ByteOrder = "little") -> str:
    """The format string with which the `struct` module reads raw bytes, such as "<6f".

    Dtypes that `struct` lacks are given as the integer with the same bits: bfloat16 as "H", float8
    and narrower dtypes as a byte, quantized dtypes as their storage. A complex value is two
    numbers.

    Args:
        value: A tensor, or a dtype or its name.
        count: Number of values, if `value` is a dtype; by default one.
        byteorder: As in `write`.

    Examples:
        >>> ferry.struct_format(np.zeros((2, 3), np.float32), byteorder="big")
        '>6f'
    """
    _check_choice("byteorder", byteorder, ByteOrder)
    if isinstance(value, list | tuple | SparseTensor | RaggedTensor):
        value = as_tensor(value)
    # NumPy's scalar types have these attributes too, as descriptors.
    if not isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype"):
        if count is not None:
            raise TypeError("count goes with a dtype: a tensor has its own number of values")
        count = math.prod(value.shape)
        value = value.dtype
    row = _numeric(value)
    code = _CODES.get(row.name)
    if code is None:
        code = _INTEGER_CODES[_dtype(row).itemsize]
        code = code if row.name.startswith(("int", "qint")) else code.upper()
    numbers = (1 if count is None else count) * (_dtype(row).itemsize // _unit(row))
    return f"{_PREFIXES[byteorder]}{numbers}{code}"


def _numeric(dtype: Any) -> DType:
    row = dtypes.as_dtype(dtype)
    if row.numpy is None or row is dtypes.STRING:
        raise UnsupportedError(
            f"raw bytes hold numbers of one size, no {row.name} values",
            hint='format="tensorproto", "structure" or "json" carries strings',
        )
    return row


def _dtype(row: DType) -> np.dtype[Any]:
    assert row.numpy is not None
    return row.numpy


def _unit(row: DType) -> int:
    """The size of what a byte order turns around: of one number, two of which are a complex."""
    return _dtype(row).itemsize // 2 if row.name.startswith("complex") else _dtype(row).itemsize


def _is_swapped(row: DType, byteorder: ByteOrder) -> bool:
    return byteorder not in ("native", sys.byteorder) and _unit(row) > 1


def _check_choice(name: str, found: str, choices: Any) -> None:
    if found not in get_args(choices):
        expected = ", ".join(map(repr, get_args(choices)))
        raise UnsupportedError(f"{name} is {found!r}, expected one of {expected}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading(TensorOptions):
    """How raw bytes are read; see `read`."""

    dtype: Any = None
    shape: Any = None
    byteorder: ByteOrder = "little"
    order: Order = "C"


class Reader(WholeReader[Reading]):
    """Reads raw bytes."""

    name = NAME
    options = Reading

    def value(
        self, source: bytes | memoryview, how: Reading, budget: Budget | None = None
    ) -> Array:
        """The tensor."""
        return read(
            source, dtype=how.dtype, shape=how.shape, byteorder=how.byteorder, order=how.order
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing(WriteOptions):
    """How raw bytes are written; see `write`."""

    dtype: Any = None
    byteorder: ByteOrder = "little"
    order: Order = "C"


class Writer:
    """Writes raw bytes."""

    options = Writing

    def write(self, content: Content, target: Target, how: Writing) -> Written:
        """Writes the one dense tensor that the value is; how to read it again is reported."""
        value = content.tensor()
        value = content.value() if value is None else value
        how_to_read = reading_options(
            value, dtype=how.dtype, byteorder=how.byteorder, order=how.order
        )
        with target.sink() as sink:
            write(value, sink, dtype=how.dtype, byteorder=how.byteorder, order=how.order)
            return Written(size_of(sink), (target.path,), how_to_read)


FORMAT = Format(reads=Reader(), writes=Writer())
