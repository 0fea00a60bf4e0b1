"""Measures: statistics of numbers and strings that come in pieces, in one pass.

    measure = Measure()
    for chunk in chunks:
        measure.add(chunk)
    measure.summary()

`tensorferry.kernels` sums up the numbers of an array, and Chan's formula joins mean and variance of
several. Quantiles come from a uniform sample, and the number of different strings from the
smallest of their hashes: the former are exact up to `SAMPLE` values, the latter up to `DISTINCT`,
and nothing here grows beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import _native, kernels
from tensorferry.classes import dataclass, field
from tensorferry.progress import METER
from tensorferry.tensors.values import Array

CHUNK = 1 << 18
"""How many values are looked at together, where they are copied for it."""

SAMPLE = 1 << 15
"""How many values are kept."""

DISTINCT = 1 << 18
"""How many hashes of different strings are kept, which take 2 MB."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
QUANTILE_NAMES = tuple(f"{quantile:g}" for quantile in QUANTILES)
# Of so many values, quantiles are calculated in Python.
FEW = 64


@dataclass(frozen=True)
class Summary:
    """Statistics of some values.

    Attributes:
        count: Number of values, including NaN.
        minimum: The smallest finite value; for strings, the shortest length.
        maximum: The same.
        mean: The same.
        deviation: The standard deviation of the finite ones.
        zeros: How many are zero, or empty.
        nan: Number of NaN.
        infinite: How many are infinite.
        quantiles: Approximate beyond `SAMPLE` values.
        distinct: For strings: the number of different ones.
        approximate: Whether quantiles are.
        estimated: Whether `distinct` is.
        complex: Whether all this is about magnitudes.
    """

    count: int = 0
    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    deviation: float | None = None
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    quantiles: Mapping[str, float] = field(default_factory=dict)
    distinct: int | None = None
    approximate: bool = False
    complex: bool = False
    estimated: bool = False


class Measure:
    """Takes values, of one kind all of them, and sums them up.

    Args:
        seed: Of the sample: measures that are merged have different ones.
    """

    def __init__(self, seed: int = 0) -> None:
        self._count = self._finite = self._zeros = self._nan = self._infinite = 0
        self._minimum: Any = None
        self._maximum: Any = None
        self._mean = self._squares = 0.0
        self._complex = False
        self._sample = _Sample(seed)
        self._hashes: _Hashes | None = None

    def add(self, values: Array) -> None:
        """Adds the values of an array of any shape: numbers, or strings."""
        if values.flags.c_contiguous and values.dtype.isnative and kernels.has(values.dtype):
            self._add_numbers(values.reshape(-1))
            return
        for chunk in chunks_of(values):
            if chunk.dtype == object:
                self._add_strings(chunk)
            elif kernels.has(chunk.dtype):
                self._add_numbers(chunk)
            else:
                self._add_numbers(self._magnitudes(as_numbers(chunk)))

    def _add_strings(self, chunk: Array) -> None:
        strings = chunk.tolist()
        lengths, hashes = np.empty(len(strings), np.int64), np.empty(len(strings), np.uint64)
        _native.measure_strings(strings, lengths, hashes)
        if self._hashes is None:
            self._hashes = _Hashes()
        self._hashes.add(hashes)
        self._add_numbers(lengths)

    def _magnitudes(self, chunk: Array) -> Array:
        if chunk.dtype.kind != "c":
            return chunk
        self._complex = True
        with np.errstate(over="ignore", invalid="ignore"):
            return np.abs(chunk)

    def _add_numbers(self, numbers: Array) -> None:
        found = kernels.moments(numbers)
        METER.add(numbers.nbytes)
        self._count += numbers.size
        self._zeros += found.zeros
        self._nan += found.nans
        self._infinite += found.infinities
        if not found.finite:
            return
        is_first = self._minimum is None
        self._minimum = found.low if is_first else min(self._minimum, found.low)
        self._maximum = found.high if is_first else max(self._maximum, found.high)
        self._sample.add(numbers)
        self._join(found.finite, found.mean, found.squares)

    def _join(self, count: int, mean: float, squares: float) -> None:
        """Takes in so many finite numbers, by their mean and the squares of their distances."""
        total = self._finite + count
        apart = mean - self._mean
        self._squares += squares + apart * apart * self._finite * count / total
        self._mean += apart * count / total
        self._finite = total

    def merge(self, later: Measure) -> None:
        """Adds all that another measure was given."""
        self._count += later._count
        self._zeros += later._zeros
        self._nan += later._nan
        self._infinite += later._infinite
        self._complex |= later._complex
        if later._hashes is not None:
            self._hashes = self._hashes or _Hashes()
            self._hashes.merge(later._hashes)
        if not later._finite:
            return
        is_first = self._minimum is None
        self._minimum = later._minimum if is_first else min(self._minimum, later._minimum)
        self._maximum = later._maximum if is_first else max(self._maximum, later._maximum)
        self._sample.merge(later._sample)
        self._join(later._finite, later._mean, later._squares)

    def summary(self) -> Summary:
        """The result so far."""
        some = self._finite > 0
        hashes = self._hashes
        distinct = None if hashes is None else min(hashes.count(), self._count)
        return Summary(
            count=self._count,
            minimum=self._minimum,
            maximum=self._maximum,
            mean=self._mean if some else None,
            deviation=math.sqrt(self._squares / self._finite) if some else None,
            zeros=self._zeros,
            nan=self._nan,
            infinite=self._infinite,
            quantiles=self._sample.quantiles(),
            distinct=distinct,
            approximate=self._finite > SAMPLE,
            complex=self._complex,
            estimated=hashes is not None and not hashes.is_exact,
        )


def chunks_of(array: Array) -> Iterator[Array]:
    """The values of an array in flat pieces; a large one that is not contiguous row by row."""
    if array.flags.c_contiguous or array.size <= CHUNK:
        flat = array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            yield flat[start : start + CHUNK]
    else:
        for row in array:
            yield from chunks_of(row)


def as_numbers(array: Array) -> Array:
    """Numbers that NumPy calculates with: small floats as float32, bools and quantized as ints."""
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.names is not None:
        return array[array.dtype.names[0]]
    if array.dtype.kind == "V" or array.dtype.type.__module__ == "ml_dtypes":
        small = "int" in array.dtype.name
        return array.astype(np.int8 if small else np.float32)
    return array


class _Sample:
    """A uniform sample of finite values: those with the smallest of random keys.

    As long as all values fit, none has a key: a file may have a hundred thousand small tensors, and
    a generator of random numbers for each would take longer than all else.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random: np.random.Generator | None = None
        self._early: list[Array] = []  # all values, while there are few
        self._values: Array = np.empty(0)
        self._keys: Array = np.empty(0, np.float32)
        self._highest = np.float32(1)
        self._new: list[tuple[Array, Array]] = []  # not yet among them
        self._waiting = 0
        self._seen = 0

    def add(self, values: Array) -> None:
        if self._random is None and self._seen + values.size <= SAMPLE:
            self._seen += values.size
            self._early.append(as_numbers(values).astype(np.float64))
            return
        random = self._draw()
        start = 0
        while start < values.size:
            # A full sample takes about as many of twice as many values as of the values before.
            step = max(CHUNK, self._seen) if self._keys.size == SAMPLE else CHUNK
            self._add(values[start : start + step], random)
            start += step

    def _draw(self) -> np.random.Generator:
        """The generator of keys; the values that have none get theirs."""
        if self._random is None:
            # The same values give the same answer.
            self._random = np.random.default_rng(self._seed)
            for numbers in self._early:
                keys = self._random.random(numbers.size, dtype=np.float32)
                self._keep_finite(keys, numbers)
            self._early = []
        return self._random

    def _add(self, chunk: Array, random: np.random.Generator) -> None:
        self._seen += chunk.size
        if self._keys.size < SAMPLE:
            keys = random.random(chunk.size, dtype=np.float32)
        else:
            # As many as would have got a key that is small enough, without a key for each.
            count = int(random.binomial(chunk.size, self._highest))
            chunk = chunk[random.choice(chunk.size, count, replace=False, shuffle=False)]
            keys = random.random(count, dtype=np.float32) * self._highest
        self._keep_finite(keys, as_numbers(chunk).astype(np.float64))

    def _keep_finite(self, keys: Array, numbers: Array) -> None:
        finite = np.isfinite(numbers)
        if not finite.all():
            keys, numbers = keys[finite], numbers[finite]
        self._keep(keys, numbers)

    def merge(self, later: _Sample) -> None:
        self._draw()
        later._draw()
        later._fold()
        self._seen += later._seen
        self._keep(later._keys, later._values)

    def _keep(self, keys: Array, values: Array) -> None:
        """Adds values by their keys."""
        self._new.append((keys, values))
        self._waiting += keys.size
        if self._waiting > SAMPLE:
            self._fold()

    def _fold(self) -> None:
        """Leaves the values with the smallest keys."""
        self._keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
        self._values = np.concatenate([self._values, *(values for _, values in self._new)])
        self._new, self._waiting = [], 0
        if self._keys.size > SAMPLE:
            kept = np.argpartition(self._keys, SAMPLE)[:SAMPLE]
            self._keys, self._values = self._keys[kept], self._values[kept]
            self._highest = self._keys.max()

    def quantiles(self) -> dict[str, float]:
        if self._random is None:
            values = np.concatenate([self._values, *self._early])
            values = values[np.isfinite(values)]
        else:
            self._fold()
            values = self._values
        return quantiles_of(values)


def quantiles_of(values: Array) -> dict[str, float]:
    """The quantiles of finite values, by their names; none of no values."""
    if not values.size:
        return {}
    if values.size <= FEW:
        found = _quantiles_of_few(sorted(values.tolist()))
    else:
        found = np.quantile(values, QUANTILES).tolist()
    return dict(zip(QUANTILE_NAMES, found, strict=True))


def _quantiles_of_few(ordered: list[float]) -> list[float]:
    """The same as NumPy calculates, which takes a hundred microseconds for one number, too."""
    last = len(ordered) - 1
    found = []
    for quantile in QUANTILES:
        place = last * quantile
        before = int(place)
        low, high = ordered[before], ordered[min(before + 1, last)]
        share, apart = place - before, high - low
        found.append(high - apart * (1 - share) if share >= 0.5 else low + apart * share)
    return found


class _Hashes:
    """The smallest hashes of strings, from which their number can be told."""

    def __init__(self) -> None:
        self._kept: Array = np.empty(0, np.uint64)  # sorted, each once
        self._new: list[Array] = []
        self._room = 0
        self._limit: int | None = None  # hashes beyond it are not kept
        self.is_exact = True

    def add(self, hashes: Array) -> None:
        if self._limit is not None:
            hashes = hashes[hashes <= np.uint64(self._limit)]
        self._new.append(hashes)
        self._room -= hashes.size
        # Sorting is worth it when there are about as many new ones as old ones.
        if self._room < 0:
            self._fold()

    def merge(self, later: _Hashes) -> None:
        self.is_exact &= later.is_exact
        limits = [one for one in (self._limit, later._limit) if one is not None]
        self._limit = min(limits, default=None)
        self._new += [later._kept, *later._new]
        self._fold()

    def _fold(self) -> None:
        # np.unique, by a hash table, takes fifty times as long.
        kept = np.sort(np.concatenate([self._kept, *self._new]))
        kept = kept[np.concatenate([kept[:1] == kept[:1], kept[1:] != kept[:-1]])]
        self._new = []
        if self._limit is not None:
            kept = kept[kept <= np.uint64(self._limit)]
        # Exact as long as there are few; then the smallest of all, whichever parts they came in.
        if kept.size > (DISTINCT if self.is_exact else SAMPLE):
            self.is_exact = False
            kept = kept[:SAMPLE].copy()
            self._limit = int(kept[-1])
        self._kept = kept
        self._room = max(kept.size, SAMPLE)

    def count(self) -> int:
        self._fold()
        if self.is_exact:
            return int(self._kept.size)
        return round((self._kept.size - 1) / (int(self._kept[-1]) / (1 << 64)))
