"""Quantization: arrays of floats as smaller arrays, and back to nearly the same values.

    cast        value = kind(x)                                  float16, bfloat16, float8
    symmetric   value = round(x / scale)          -127 to 127    int8 (uint8: 128 more)
    affine      value = round(x / scale) + zero_point            int8, uint8: all 256 values

A `Spec` says which kind and scheme to use. A `Recipe` says how an array was quantized: together
with the values it restores an array of the original dtype. Both are defined in
`tensorferry.codecs.quantization.recipe`; this module does the arithmetic.

Integers have one scale and zero point for the whole tensor, or one for each index along an axis.
Zero is always representable, so zeros stay zeros. Arithmetic is in float32, and in float64 for
float64 arrays. The loops are native (`native/core/quantize.cc`); an array that is not contiguous is
copied a chunk at a time.

Elements that a kind cannot represent are refused: NaN and infinity in integers, infinity in
float8_e4m3fn, and finite numbers beyond the largest one of the kind. With `clip` they become the
nearest number that the kind has, and NaN becomes zero in integers.

Where a recipe is stored is up to each format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from tensorferry import _native, dtypes, kernels
from tensorferry.classes import dataclass
from tensorferry.codecs.quantization.recipe import (
    KINDS,
    ORIGINALS,
    SCHEMES,
    Array,
    Kind,
    Recipe,
    Scheme,
    Spec,
    numpy_dtype,
    parse,
    work_dtype,
)
from tensorferry.errors import FerryError, FormatError, UnsupportedError

__all__ = [
    "KINDS",
    "ORIGINALS",
    "SCHEMES",
    "Kind",
    "Quantized",
    "Recipe",
    "Report",
    "Scheme",
    "Spec",
    "dequantize",
    "parse",
    "quantize",
    "quantize_by",
]

CHUNK = 1 << 16
"""Number of elements that are copied at a time from an array that is not contiguous."""


@dataclass(frozen=True, slots=True)
class Report:
    """The error that quantizing a tensor introduced. Errors are those of its finite elements.

    Attributes:
        nbytes_before: Number of bytes of the original.
        nbytes_after: Number of bytes of the values, scales and zero points.
        largest_error: The largest absolute difference from the original.
        mean_error: The mean of the absolute differences.
        relative_error: The largest error divided by the largest magnitude.
        nans: Number of elements that are NaN.
        infinities: Number of elements that are infinite.
        clipped: Number of elements that the kind cannot represent; always 0 without `clip`.
    """

    nbytes_before: int
    nbytes_after: int
    largest_error: float
    mean_error: float
    relative_error: float
    nans: int
    infinities: int
    clipped: int


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """A quantized tensor.

    Attributes:
        values: The smaller array, of the same shape.
        recipe: How to restore the original.
        report: The error that was introduced.
    """

    values: Array
    recipe: Recipe
    report: Report


def quantize(array: Array, spec: Spec | str | tuple[Any, ...] | Mapping[str, Any]) -> Quantized:
    """Makes an array smaller.

    Args:
        array: An array of float64, float32, bfloat16 or float16, in any memory layout.
        spec: How to quantize, as `parse` takes it.

    Raises:
        UnsupportedError: The array has another dtype or lacks the axis, the kind cannot represent
            some elements, or an error is larger than `max_error`.
    """
    wanted = parse(spec)
    name = _original(array)
    counts = _Counts()
    if wanted.scheme == "cast":
        recipe = Recipe(wanted.kind, "cast", name)
        values = _cast(array, recipe, wanted.clip, counts)
    else:
        recipe = _measure(array, name, wanted, counts)
        values = _round(array, recipe, counts)
    report = counts.report(array.nbytes, values.nbytes + recipe.nbytes, array.size)
    if wanted.max_error is not None and report.largest_error > wanted.max_error:
        raise UnsupportedError(
            f"the largest error of {wanted.kind} is {report.largest_error:.6g}, "
            f"at most {wanted.max_error:g} is wanted",
            hint=_alternatives(array, wanted),
        )
    return Quantized(values, recipe, report)


def quantize_by(array: Array, recipe: Recipe, *, clip: bool = False) -> Quantized:
    """Makes an array smaller by the recipe of a larger array that it is a part of.

    Args:
        array: An array of the recipe's original dtype.
        recipe: How the larger array was quantized.
        clip: Whether elements that the kind cannot represent become the nearest number it has.

    Raises:
        UnsupportedError: A floating kind cannot represent some elements.
    """
    counts = _Counts()
    if recipe.scheme == "cast":
        values = _cast(array, recipe, clip, counts)
    else:
        counts.nans = sum(kernels.moments(piece).nans for _, piece in _pieces(array))
        values = _round(array, recipe, counts)
    return Quantized(values, recipe, counts.report(array.nbytes, values.nbytes, array.size))


def dequantize(values: Array, recipe: Recipe) -> Array:
    """Restores the tensor in its original dtype, with values close to the original ones.

    Raises:
        FormatError: The recipe is for values of another dtype or shape.
    """
    kind = numpy_dtype(recipe.kind)
    if values.dtype != kind:
        raise FormatError(f"the values are of {values.dtype}, expected {kind} by their recipe")
    recipe.check(values.shape)
    result = np.empty(values.shape, numpy_dtype(recipe.dtype))
    for place, piece in _pieces(values):
        with _Target(result, place) as target:
            source, restored = kernels.raw(piece), kernels.raw(target)
            if recipe.scheme == "cast":
                _native.dequantize_floats(source, recipe.kind, restored, recipe.dtype)
            else:
                steps = _steps(recipe, place, piece.shape)
                _native.dequantize_integers(source, recipe.kind, restored, recipe.dtype, *steps)
    return result


class _Counts:
    """The numbers of a report, added up piece by piece."""

    def __init__(self) -> None:
        self.nans = self.infinities = self.clipped = 0
        self.largest = 0.0  # magnitude
        self.largest_error = 0.0
        self.share = 0.0  # the sum of error / total over the elements

    def add(self, found: tuple[int, int, int, float, float, float], weight: float) -> None:
        """Adds what a kernel found in a piece, which has that part of all elements."""
        nans, infinities, clipped, largest, largest_error, share = found
        self.nans += nans
        self.infinities += infinities
        self.clipped += clipped
        self.largest = max(self.largest, largest)
        self.largest_error = max(self.largest_error, largest_error)
        self.share += share * weight

    def report(self, before: int, after: int, total: int) -> Report:
        finite = total - self.nans - self.infinities
        return Report(
            before,
            after,
            self.largest_error,
            self.share * total / finite if finite else 0.0,
            self.largest_error / self.largest if self.largest else 0.0,
            self.nans,
            self.infinities,
            self.clipped,
        )


def _original(array: Array) -> str:
    row = dtypes.BY_NUMPY.get(array.dtype.newbyteorder("="))
    if row is None or row.name not in ORIGINALS:
        raise UnsupportedError(
            f"an array of {array.dtype} cannot be quantized, expected {', '.join(ORIGINALS)}",
            hint="leave it as it is",
        )
    return row.name


def _largest(name: str) -> float:
    return float(ml_dtypes.finfo(numpy_dtype(name)).max)


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Indices that together cover a shape, each with at most `CHUNK` elements and full rank."""
    if 0 in shape:
        return
    if not shape:
        yield (...,)
        return
    inner = math.prod(shape[1:])
    if inner > CHUNK:
        for index in range(shape[0]):
            for rest in _chunks(shape[1:]):
                yield (slice(index, index + 1), *rest)
        return
    step = CHUNK // inner
    for start in range(0, shape[0], step):
        stop = min(start + step, shape[0])
        yield (slice(start, stop), *(slice(0, size) for size in shape[1:]))


Place = tuple[Any, ...] | None
"""Indices of a part of an array; None for all of it."""


def _pieces(array: Array) -> Iterable[tuple[Place, Array]]:
    """Places that together cover an array, each with its elements as kernels take them."""
    if array.flags.c_contiguous and array.dtype.isnative:
        return ((None, array),) if array.size else ()
    return (
        (place, np.array(array[place], array.dtype.newbyteorder("="), order="C"))
        for place in _chunks(array.shape)
    )


def _along(numbers: Array, place: Place, axis: int | None) -> Array:
    """Those of the numbers along an axis that belong to a place."""
    return numbers if axis is None or place is None else numbers[place[axis]]


class _Target:
    """A part of an array as memory that a kernel can write to: the array's own, or a copy."""

    def __init__(self, array: Array, place: Place) -> None:
        self._part = array if place is None else array[place]
        is_own = self._part.flags.c_contiguous
        self._memory = self._part if is_own else np.empty(self._part.shape, array.dtype)

    def __enter__(self) -> Array:
        return self._memory

    def __exit__(self, *exception: object) -> None:
        if self._memory is not self._part:
            self._part[...] = self._memory


def _steps(recipe: Recipe, place: Place, shape: tuple[int, ...]) -> tuple[int, int, Array, Array]:
    """The number of scales, of consecutive elements that share one, scales, zero points."""
    work, axis = work_dtype(recipe.dtype), recipe.axis
    scale = np.ascontiguousarray(_along(cast(Array, recipe.scale), place, axis), work)
    zero_point = _along(cast(Array, recipe.zero_point), place, axis).astype(work)
    return scale.size, _inner(shape, axis), scale, zero_point


def _inner(shape: tuple[int, ...], axis: int | None) -> int:
    """Number of consecutive elements that share a scale, if there are several."""
    return 1 if axis is None else math.prod(shape[axis + 1 :])


def _cast(array: Array, recipe: Recipe, clip: bool, counts: _Counts) -> Array:
    values = np.empty(array.shape, numpy_dtype(recipe.kind))
    for place, piece in _pieces(array):
        with _Target(values, place) as target:
            source, smaller = kernels.raw(piece), kernels.raw(target)
            found = _native.quantize_floats(source, recipe.dtype, smaller, recipe.kind, clip)
        counts.add(found, piece.size / array.size)
    if counts.clipped and not clip:
        largest = _largest(recipe.kind)
        others = [k for k in ("float16", "bfloat16") if _largest(k) > largest]
        instead = f"use {' or '.join(map(repr, others))}; " if others else ""
        raise UnsupportedError(
            f"{counts.clipped} elements lie beyond {largest:g}, the largest {recipe.kind}",
            hint=f'{instead}quantize={{"kind": "{recipe.kind}", "clip": True}} '
            f"makes them {largest:g}",
        )
    return values


def _measure(array: Array, name: str, wanted: Spec, counts: _Counts) -> Recipe:
    """Finds the scales and zero points that cover the values of an array."""
    work, rank = work_dtype(name), array.ndim
    axis = wanted.axis
    if axis is not None:
        if not -rank <= axis < rank:
            raise UnsupportedError(f"axis is {axis}, the tensor has {rank} dimensions")
        axis %= rank
    shape = () if axis is None else (array.shape[axis],)
    # The range always includes zero.
    low, high = np.zeros(shape, work), np.zeros(shape, work)
    for place, piece in _pieces(array):
        least, most = _along(low, place, axis), _along(high, place, axis)
        inner = _inner(piece.shape, axis)
        found = _native.quantize_ranges(kernels.raw(piece), name, least.size, inner, least, most)
        counts.add(found, 0.0)
    counts.clipped = counts.nans + counts.infinities
    if counts.clipped and not wanted.clip:
        raise UnsupportedError(
            f"{counts.nans} elements are NaN and {counts.infinities} infinite, "
            f"which {wanted.kind} cannot represent",
            hint='use "float16" or "bfloat16", which keep them; '
            f'quantize={{"kind": "{wanted.kind}", "clip": True}} makes NaN 0 and infinities the '
            "largest numbers",
        )
    scale, zero_point = np.empty(shape, work), np.empty(shape, work)
    scheme = cast(Scheme, wanted.scheme)
    _native.quantize_steps(low, high, name, wanted.kind, scheme == "affine", scale, zero_point)
    return Recipe(
        wanted.kind, scheme, name, axis, scale, zero_point.astype(numpy_dtype(wanted.kind))
    )


def _round(array: Array, recipe: Recipe, counts: _Counts) -> Array:
    values = np.empty(array.shape, numpy_dtype(recipe.kind))
    whole = recipe.scheme == "affine"  # of the integers of a kind, symmetric ones lack the lowest
    for place, piece in _pieces(array):
        steps = _steps(recipe, place, piece.shape)
        with _Target(values, place) as target:
            source, smaller = kernels.raw(piece), kernels.raw(target)
            found = _native.quantize_integers(
                source, recipe.dtype, smaller, recipe.kind, whole, *steps
            )
        counts.add(found, piece.size / array.size)
    return values


def _alternatives(array: Array, wanted: Spec) -> str:
    """The hint that lists the kinds whose error is small enough."""
    good = []
    for kind in KINDS:
        axis = wanted.axis if SCHEMES[kind] != ("cast",) else None
        for scheme in SCHEMES[kind]:
            spec = Spec(kind, scheme, axis, None, wanted.clip)
            try:
                error = quantize(array, spec).report.largest_error
            except FerryError:
                continue
            if error <= cast(float, wanted.max_error):
                label = kind if scheme == "cast" else f"{scheme} {kind}"
                good.append(f"{label} ({error:.3g})")
    if not good:
        return "no kind is that exact: leave the tensor as it is"
    return f"exact enough are {', '.join(good)}"
