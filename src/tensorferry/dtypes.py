"""Element types: one table of all names that TensorFlow's dtypes go by.

A value's dtype is a NumPy dtype; `ml_dtypes` has the small ones. TensorFlow's quantized kinds are
one-field records, as `tf.DType.as_numpy_dtype` has them; strings are object arrays of `bytes`.
Kinds narrower than a byte take one byte an element, in memory and in TensorFlow's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from tensorferry.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class DType:
    """A row of the table.

    Attributes:
        name: TensorFlow's name, which is ours too.
        enum: Its number in TensorFlow's `DataType`.
        numpy: The NumPy dtype of such values; None for what stays opaque.
        bits: The width of one element as a number, 0 for strings and opaque kinds.
        safetensors: Its name there; None where it has none.
        arrow: Its name in PyArrow (`pa.<name>()`); None where Arrow has no such type.
    """

    name: str
    enum: int
    numpy: np.dtype[Any] | None
    bits: int
    safetensors: str | None = None
    arrow: str | None = None


def _row(
    enum: int,
    name: str,
    safetensors: str | None = None,
    arrow: str | None = None,
    *,
    numpy: Any = None,
    bits: int | None = None,
) -> DType:
    dtype = np.dtype(name if numpy is None else numpy)
    return DType(
        name, enum, dtype, dtype.itemsize * 8 if bits is None else bits, safetensors, arrow
    )


def _quantized(enum: int, name: str, storage: str) -> DType:
    return _row(enum, name, numpy=[(name, storage)])


def _small(enum: int, name: str, bits: int | None = None, safetensors: str | None = None) -> DType:
    return _row(enum, name, safetensors, numpy=getattr(ml_dtypes, name), bits=bits)


TABLE: tuple[DType, ...] = (
    _row(1, "float32", "F32", "float32"),
    _row(2, "float64", "F64", "float64"),
    _row(3, "int32", "I32", "int32"),
    _row(4, "uint8", "U8", "uint8"),
    _row(5, "int16", "I16", "int16"),
    _row(6, "int8", "I8", "int8"),
    _row(7, "string", None, "binary", numpy=object, bits=0),
    _row(8, "complex64", "C64"),
    _row(9, "int64", "I64", "int64"),
    _row(10, "bool", "BOOL", "bool_"),
    _quantized(11, "qint8", "<i1"),
    _quantized(12, "quint8", "<u1"),
    _quantized(13, "qint32", "<i4"),
    _small(14, "bfloat16", safetensors="BF16"),
    _quantized(15, "qint16", "<i2"),
    _quantized(16, "quint16", "<u2"),
    _row(17, "uint16", "U16", "uint16"),
    _row(18, "complex128"),
    _row(19, "float16", "F16", "float16"),
    DType("resource", 20, None, 0),
    DType("variant", 21, None, 0),
    _row(22, "uint32", "U32", "uint32"),
    _row(23, "uint64", "U64", "uint64"),
    _small(24, "float8_e5m2", safetensors="F8_E5M2"),
    _small(25, "float8_e4m3fn", safetensors="F8_E4M3"),
    _small(26, "float8_e4m3fnuz", safetensors="F8_E4M3FNUZ"),
    _small(27, "float8_e4m3b11fnuz"),
    _small(28, "float8_e5m2fnuz", safetensors="F8_E5M2FNUZ"),
    _small(29, "int4", bits=4),
    _small(30, "uint4", bits=4),
    _small(31, "int2", bits=2),
    _small(32, "uint2", bits=2),
    _small(33, "float4_e2m1fn", bits=4),
)

STRING = TABLE[6]

BY_NAME: dict[str, DType] = {row.name: row for row in TABLE}
BY_ENUM: dict[int, DType] = {row.enum: row for row in TABLE}
BY_NUMPY: dict[np.dtype[Any], DType] = {row.numpy: row for row in TABLE if row.numpy is not None}


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The row of a NumPy dtype, whatever its byte order.

    Raises:
        UnsupportedError: TensorFlow has no such dtype.
    """
    row = BY_NUMPY.get(dtype)
    if row is None:
        row = BY_NUMPY.get(dtype.newbyteorder("="))
    if row is None:
        raise UnsupportedError(f"dtype {dtype} has no TensorFlow counterpart", hint=_advice(dtype))
    return row


def _advice(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "mM":
        return "store the counts: array.view('int64')"
    if dtype.kind == "V":
        return "store each field of the records as a tensor of its own"
    return "convert it first, as in array.astype('float64')"


def as_dtype(dtype: Any) -> DType:
    """The row of whatever names a dtype.

    Args:
        dtype: A row, a name, TensorFlow's number, a NumPy dtype or scalar type, a `tf.DType` or a
            `torch.dtype`.

    Raises:
        UnsupportedError: It names none of the table.
    """
    if isinstance(dtype, DType):
        return dtype
    number = getattr(dtype, "as_datatype_enum", dtype)
    if isinstance(number, int) and not isinstance(number, bool):
        row = BY_ENUM.get(int(number) % 100)
        if row is None:
            raise UnsupportedError(f"dtype number {number}, expected 1 to {TABLE[-1].enum}")
        return row
    return _named(dtype) if isinstance(dtype, str) else _described(dtype)


@lru_cache(maxsize=256)
def _named(name: str) -> DType:
    row = BY_NAME.get(name.removeprefix("torch."))
    if row is not None:
        return row
    return _described(name)


def _described(dtype: Any) -> DType:
    if type(dtype).__module__ == "torch":
        return _named(str(dtype))
    try:
        described = np.dtype(dtype)
    except TypeError:
        raise UnsupportedError(
            f"{dtype!r} names no dtype", hint=f"expected one of {', '.join(BY_NAME)}"
        ) from None
    return STRING if described.kind in "SUO" else from_numpy(described)
