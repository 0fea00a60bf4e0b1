"""Casting: floats in another floating dtype, integers in another integer one.

What does not fit is refused, never cut: a number beyond the largest of the new dtype. All other
tensors stay as they are.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tensorferry import dtypes
from tensorferry.dtypes import DType
from tensorferry.errors import UnsupportedError
from tensorferry.operations.measures import chunks_of
from tensorferry.tensors.held import values_of, with_values
from tensorferry.tensors.values import Array


def is_floating(dtype: DType) -> bool:
    """Whether its values are floating-point numbers."""
    return "float" in dtype.name


def _is_integer(dtype: DType) -> bool:
    return dtype.name.startswith(("int", "uint"))


def parse(name: str) -> DType:
    """The dtype to cast to.

    Raises:
        UnsupportedError: It is neither a floating nor an integer one.
    """
    dtype = dtypes.as_dtype(name)
    if not is_floating(dtype) and not _is_integer(dtype):
        raise UnsupportedError(
            f"tensors are not cast to {dtype.name}", hint="to a floating or an integer dtype"
        )
    return dtype


def cast(tensor: Any, dtype: DType, *, name: str) -> Any:
    """A tensor or column of any kind with its values in another dtype, where they are of its kind.

    Raises:
        UnsupportedError: A number is beyond the largest of that dtype.
    """
    if isinstance(tensor, list):
        return [None if part is None else cast(part, dtype, name=name) for part in tensor]
    values = values_of(tensor) if not isinstance(tensor, bytes | type(None)) else None
    if values is None or np.asarray(values).dtype == object:
        return tensor
    values = np.asarray(values)
    if values.dtype.names is not None:
        return tensor
    given = dtypes.from_numpy(values.dtype)
    if given is dtype or is_floating(given) != is_floating(dtype):
        return tensor
    if not is_floating(given) and not _is_integer(given):
        return tensor
    return with_values(tensor, _cast(values, dtype, name))


def _cast(values: Array, dtype: DType, name: str) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        cast_values: Array = values.astype(dtype.numpy)
    for given, made in zip(chunks_of(values), chunks_of(cast_values), strict=True):
        if is_floating(dtype):
            wide, narrow = given.astype(np.float64), made.astype(np.float64)
            bad = np.isfinite(wide) & ~np.isfinite(narrow)
        else:
            bad = given.astype(np.int64) != made.astype(np.int64)
            bad |= _is_negative(given) != _is_negative(made)
        if bad.any():
            raise UnsupportedError(
                f"{given[np.argmax(bad)]} does not fit into {dtype.name}",
                tensor=name,
                hint="choose a wider dtype, or quantize=",
            )
    return cast_values


def _is_negative(numbers: Array) -> Array:
    if "uint" in numbers.dtype.name:
        return np.zeros(numbers.shape, bool)
    negative: Array = numbers.astype(np.int64) < 0
    return negative


def error_of(dtype: DType) -> tuple[float, float]:
    """How far a float may be from what it was, relatively and absolutely."""
    if not is_floating(dtype):
        return 0.0, 0.0
    limits = ml_dtypes.finfo(dtype.numpy)
    return float(limits.eps), float(limits.smallest_normal)
