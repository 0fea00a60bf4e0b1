"""Dtypes: one table with every name and number of TensorFlow's dtypes.

The dtype of a value is a NumPy dtype; `ml_dtypes` has the small ones. TensorFlow's quantized dtypes
are records of one field, as in `tf.DType.as_numpy_dtype`; strings are object arrays of `bytes`.
Dtypes narrower than a byte take one byte per element, in memory and in TensorFlow's files.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass, field
from tensorferry.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    BY_NUMPY: dict[np.dtype[Any], DType]


@dataclass(frozen=True, slots=True)
class DType:
    """A row of the table.

    Attributes:
        name: TensorFlow's name, which we use as well.
        enum: The number in TensorFlow's `DataType`; 0 if TensorFlow lacks it.
        bits: The width of one element in bits; 0 for strings and opaque dtypes.
        safetensors: The name in safetensors; None if that format lacks the dtype.
        arrow: The name in PyArrow (`pa.<name>()`); None if Arrow lacks the dtype.
    """

    name: str
    enum: int
    bits: int
    safetensors: str | None = None
    arrow: str | None = None
    _described: Any = field(default=None, repr=False, compare=False)

    @property
    def numpy(self) -> np.dtype[Any] | None:
        """The NumPy dtype of the values; None for an opaque dtype (resource, variant)."""
        return None if self._described is None else _numpy()[self.name]


def _row(
    enum: int,
    name: str,
    bits: int,
    safetensors: str | None = None,
    arrow: str | None = None,
    *,
    numpy: Any = None,
) -> DType:
    return DType(name, enum, bits, safetensors, arrow, name if numpy is None else numpy)


TABLE: tuple[DType, ...] = (
    _row(1, "float32", 32, "F32", "float32"),
    _row(2, "float64", 64, "F64", "float64"),
    _row(3, "int32", 32, "I32", "int32"),
    _row(4, "uint8", 8, "U8", "uint8"),
    _row(5, "int16", 16, "I16", "int16"),
    _row(6, "int8", 8, "I8", "int8"),
    _row(7, "string", 0, None, "binary", numpy="object"),
    _row(8, "complex64", 64, "C64"),
    _row(9, "int64", 64, "I64", "int64"),
    _row(10, "bool", 8, "BOOL", "bool_"),
    _row(11, "qint8", 8, numpy=[("qint8", "<i1")]),
    _row(12, "quint8", 8, numpy=[("quint8", "<u1")]),
    _row(13, "qint32", 32, numpy=[("qint32", "<i4")]),
    _row(14, "bfloat16", 16, "BF16"),
    _row(15, "qint16", 16, numpy=[("qint16", "<i2")]),
    _row(16, "quint16", 16, numpy=[("quint16", "<u2")]),
    _row(17, "uint16", 16, "U16", "uint16"),
    _row(18, "complex128", 128),
    _row(19, "float16", 16, "F16", "float16"),
    DType("resource", 20, 0),
    DType("variant", 21, 0),
    _row(22, "uint32", 32, "U32", "uint32"),
    _row(23, "uint64", 64, "U64", "uint64"),
    _row(24, "float8_e5m2", 8, "F8_E5M2"),
    _row(25, "float8_e4m3fn", 8, "F8_E4M3"),
    _row(26, "float8_e4m3fnuz", 8, "F8_E4M3FNUZ"),
    _row(27, "float8_e4m3b11fnuz", 8),
    _row(28, "float8_e5m2fnuz", 8, "F8_E5M2FNUZ"),
    _row(29, "int4", 4),
    _row(30, "uint4", 4),
    _row(31, "int2", 2),
    _row(32, "uint2", 2),
    _row(33, "float4_e2m1fn", 4),
)

OTHERS: tuple[DType, ...] = (_row(0, "float8_e8m0fnu", 8, "F8_E8M0"),)
"""Dtypes that TensorFlow lacks, and files of others have."""

STRING = TABLE[6]

BY_NAME: dict[str, DType] = {row.name: row for row in (*TABLE, *OTHERS)}
BY_ENUM: dict[int, DType] = {row.enum: row for row in TABLE}


@lru_cache(maxsize=1)
def _numpy() -> dict[str, np.dtype[Any]]:
    """The NumPy dtypes by name, made on first use: looking at names and widths needs no NumPy."""
    import ml_dtypes
    import numpy as np

    return {
        row.name: np.dtype(getattr(ml_dtypes, row.name, row._described))
        for row in (*TABLE, *OTHERS)
        if row._described is not None
    }


@lru_cache(maxsize=1)
def _by_numpy() -> dict[np.dtype[Any], DType]:
    return {dtype: BY_NAME[name] for name, dtype in _numpy().items() if BY_NAME[name].enum}


@lru_cache(maxsize=1)
def _others() -> dict[np.dtype[Any], DType]:
    return {_numpy()[row.name]: row for row in OTHERS}


def __getattr__(name: str) -> Any:
    """`BY_NUMPY`, the rows of TensorFlow's dtypes, on first use."""
    if name != "BY_NUMPY":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _by_numpy()
    return found


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The row of a NumPy dtype, whatever its byte order.

    Raises:
        UnsupportedError: There is no such row.
    """
    row = _by_numpy().get(dtype)
    if row is None:
        row = _by_numpy().get(dtype.newbyteorder("=")) or _others().get(dtype)
    if row is None:
        raise UnsupportedError(f"dtype {dtype} has no TensorFlow counterpart", hint=_advice(dtype))
    return row


def of_tensorflow(row: DType) -> DType:
    """The row, if TensorFlow has a number for it.

    Raises:
        UnsupportedError: TensorFlow lacks the dtype.
    """
    if not row.enum:
        raise UnsupportedError(
            f"TensorFlow has no dtype {row.name}",
            hint="convert it first, as in array.astype('float32'); safetensors has it",
        )
    return row


def _advice(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "mM":
        return "store the counts: array.view('int64')"
    if dtype.kind == "V":
        return "store each field of the records as a tensor of its own"
    return "convert it first, as in array.astype('float64')"


def as_dtype(dtype: Any) -> DType:
    """The row of a dtype, however it is named.

    Args:
        dtype: A row, a name, TensorFlow's number, a NumPy dtype or scalar type, a `tf.DType` or a
            `torch.dtype`.

    Raises:
        UnsupportedError: The table has no such dtype.
    """
    if isinstance(dtype, str):
        return _named(dtype)
    if isinstance(dtype, DType):
        return dtype
    number = getattr(dtype, "as_datatype_enum", dtype)
    if isinstance(number, int) and not isinstance(number, bool):
        row = BY_ENUM.get(int(number) % 100)
        if row is None:
            raise UnsupportedError(f"dtype number {number}, expected 1 to {TABLE[-1].enum}")
        return row
    return _described(dtype)


@lru_cache(maxsize=256)
def _named(name: str) -> DType:
    row = BY_NAME.get(name.removeprefix("torch."))
    if row is not None:
        return row
    return _described(name)


def _described(dtype: Any) -> DType:
    if type(dtype).__module__ == "torch":
        return _named(str(dtype))
    import numpy as np

    try:
        described = np.dtype(dtype)
    except TypeError:
        raise UnsupportedError(
            f"{dtype!r} names no dtype", hint=f"expected one of {', '.join(BY_NAME)}"
        ) from None
    return STRING if described.kind in "SUO" else from_numpy(described)
