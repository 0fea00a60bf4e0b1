"""Kernels: loops over all numbers of an array, native, without the GIL and on all processors.

    kernels.moments(array).mean
    kernels.compare(array, other).largest

An array may start at any address. A kernel needs contiguous elements in native byte order: `raw`
copies any other array, so callers pass large ones piece by piece. Results do not depend on the
number of processors. If an array changes while a kernel reads it, the result mixes old and new
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.classes import NamedTuple

Array = np.ndarray[Any, np.dtype[Any]]

NAMES = frozenset(
    (
        *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)
"""The dtypes that kernels are made for; bools are looked at as uint8."""


class Moments(NamedTuple):
    """Statistics of numbers, in one pass.

    Attributes:
        zeros: How many are zero.
        nans: How many are NaN.
        infinities: How many are infinite.
        finite: How many are finite.
        low: The lowest finite number; integers stay integers.
        high: The highest finite number.
        mean: The mean of the finite numbers.
        squares: The sum of the squares of their distances from the mean.
    """

    zeros: int
    nans: int
    infinities: int
    finite: int
    low: float | int
    high: float | int
    mean: float
    squares: float


class Comparison(NamedTuple):
    """How two arrays differ, in one pass.

    Attributes:
        differing: How many pairs differ beyond the tolerance.
        nonfinite: How many of these have no finite distance, as of a number and NaN.
        first: The place of the first such pair; None if there is none.
        finite: How many pairs have a finite distance; the following are about these.
        largest: The largest distance.
        sum: The sum of the distances.
        squares: The sum of the squares of the distances.
        products: The sums of left * right, left * left and right * right.
    """

    differing: int
    nonfinite: int
    first: int | None
    finite: int
    largest: float
    sum: float
    squares: float
    products: tuple[float, float, float]


def has(dtype: np.dtype[Any]) -> bool:
    """Whether there are kernels for arrays of a dtype."""
    return name_of(dtype) in NAMES


@lru_cache(maxsize=256)
def name_of(dtype: np.dtype[Any]) -> str:
    """The name by which kernels know a dtype, which NumPy takes microseconds to tell."""
    return "uint8" if dtype.kind == "b" else dtype.name


def raw(array: Array) -> Array:
    """The bytes of an array in C order and the byte order of the machine, copied only if needed."""
    if array.dtype.isbuiltin == 1 and array.flags.c_contiguous:  # it is a buffer as it is
        return array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def moments(array: Array) -> Moments:
    """The statistics of all numbers of an array."""
    return Moments(*_native.moments_of(raw(array), name_of(array.dtype)))


def compare(left: Array, right: Array, *, rtol: float = 0.0, atol: float = 0.0) -> Comparison:
    """Compares two arrays of one dtype and size, element by element.

    Numbers are the same if `|left - right| <= atol + rtol * |right|`, and NaN is the same as NaN.
    """
    name = name_of(left.dtype)
    return Comparison(*_native.compare_numbers(raw(left), raw(right), name, rtol, atol))


def compare_pairs(
    pairs: Iterable[tuple[Array, Array]], *, rtol: float = 0.0, atol: float = 0.0
) -> list[Comparison]:
    """Compares many pairs of small arrays by one call: see `compare`."""
    raws = [(raw(left), raw(right), name_of(left.dtype)) for left, right in pairs]
    return [Comparison(*found) for found in _native.compare_pairs(raws, rtol, atol)]


def count_bins(array: Array, *, exponent: int, first: int, counts: Array) -> None:
    """Adds the finite numbers of an array to the counts of histogram bins.

    Args:
        array: The numbers; those outside of all bins do not count.
        exponent: A bin is 2**exponent wide.
        first: The first bin starts at this number of widths.
        counts: The counts of the bins, uint64.
    """
    _native.count_bins(raw(array), name_of(array.dtype), exponent, float(first), counts)


LOWEST = -3300
"""The first bin of `count_magnitudes`: that of 10**-330."""


def count_magnitudes(array: Array) -> tuple[Array, Array]:
    """How many positive and how many negative finite numbers are of each magnitude.

    Bin `n` counts numbers from `10**((LOWEST + n) / 10)` on.
    """
    counts = np.frombuffer(_native.count_magnitudes(raw(array), name_of(array.dtype)), np.uint64)
    positive, negative = counts.reshape(2, -1)
    return positive, negative
