"""Measures: statistics of numbers and strings that come in pieces, in one pass.

    measure = Measure()
    for chunk in chunks:
        measure.add(chunk)
    measure.summary()

Mean and variance are put together chunk by chunk (Chan's formula), quantiles come from a uniform
sample, and the number of different strings from the smallest of their hashes: the former are exact
up to `SAMPLE` values, the latter up to `DISTINCT`, and nothing here grows beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from tensorferry.tensors.values import Array

CHUNK = 1 << 18
"""How many values are looked at together."""

SAMPLE = 1 << 15
"""How many values are kept."""

DISTINCT = 1 << 18
"""How many hashes of different strings are kept, which take about 20 MB."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class Summary:
    """What was found of some values.

    Attributes:
        count: How many there are, those that are no number among them.
        minimum: Of the finite ones; of strings the length of the shortest.
        maximum: The same.
        mean: The same.
        deviation: The standard deviation of the finite ones.
        zeros: How many are zero, or empty.
        nan: How many are no number.
        infinite: How many are infinite.
        quantiles: Approximate beyond `SAMPLE` values.
        distinct: Of strings: how many differ.
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
        # The mean of numbers near the largest is infinite, and that is no news.
        with np.errstate(over="ignore", invalid="ignore"):
            for chunk in chunks_of(values):
                if chunk.dtype == object:
                    self._add_strings(chunk)
                else:
                    self._add_numbers(as_numbers(chunk))

    def _add_strings(self, chunk: Array) -> None:
        strings = chunk.tolist()
        if self._hashes is None:
            self._hashes = _Hashes()
        self._hashes.add(strings)
        self._add_numbers(np.fromiter(map(len, strings), np.int64, len(strings)))

    def _add_numbers(self, chunk: Array) -> None:
        if chunk.dtype.kind == "c":
            self._complex = True
            chunk = np.abs(chunk)
        self._count += chunk.size
        self._zeros += chunk.size - int(np.count_nonzero(chunk))
        if chunk.dtype.kind == "f":
            finite = np.isfinite(chunk)
            if not finite.all():
                self._nan += int(np.isnan(chunk).sum())
                self._infinite += int(np.isinf(chunk).sum())
                chunk = chunk[finite]
        if not chunk.size:
            return
        low, high = chunk.min().item(), chunk.max().item()
        self._minimum = low if self._minimum is None else min(self._minimum, low)
        self._maximum = high if self._maximum is None else max(self._maximum, high)
        self._sample.add(chunk)
        wide = chunk.astype(np.float64)
        mean = float(wide.mean())
        self._join(wide.size, mean, float(np.square(wide - mean).sum()))

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
        with np.errstate(over="ignore", invalid="ignore"):
            self._join(later._finite, later._mean, later._squares)

    def summary(self) -> Summary:
        """What was found so far."""
        some = self._finite > 0
        hashes = self._hashes
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
            distinct=None if hashes is None else min(hashes.count(), self._count),
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
    """A uniform sample of values: those with the smallest of random keys."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)  # the same values give the same answer
        self._values: Array = np.empty(0)
        self._keys: Array = np.empty(0, np.float32)
        self._highest = np.float32(1)

    def add(self, chunk: Array) -> None:
        if self._keys.size < SAMPLE:
            keys = self._random.random(chunk.size, dtype=np.float32)
        else:
            # As many as would have got a key that is small enough, without a key for each.
            count = int(self._random.binomial(chunk.size, self._highest))
            chunk = chunk[self._random.choice(chunk.size, count, replace=False, shuffle=False)]
            keys = self._random.random(count, dtype=np.float32) * self._highest
        self._keep(keys, chunk.astype(np.float64))

    def merge(self, later: _Sample) -> None:
        self._keep(later._keys, later._values)

    def _keep(self, keys: Array, values: Array) -> None:
        """Adds values by their keys, and leaves those with the smallest."""
        self._keys = np.concatenate([self._keys, keys])
        self._values = np.concatenate([self._values, values])
        if self._keys.size > SAMPLE:
            kept = np.argpartition(self._keys, SAMPLE)[:SAMPLE]
            self._keys, self._values = self._keys[kept], self._values[kept]
            self._highest = self._keys.max()

    def quantiles(self) -> dict[str, float]:
        if not self._values.size:
            return {}
        found = np.quantile(self._values, QUANTILES)
        return {f"{q:g}": float(value) for q, value in zip(QUANTILES, found, strict=True)}


class _Hashes:
    """The smallest hashes of strings, from which their number can be told."""

    def __init__(self) -> None:
        self._kept: set[int] = set()
        self._limit = 1 << 64
        self.is_exact = True

    def add(self, strings: list[bytes]) -> None:
        for text in set(strings):
            number = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
            if number < self._limit:
                self._kept.add(number)
        self._shrink()

    def merge(self, later: _Hashes) -> None:
        self.is_exact &= later.is_exact
        self._limit = min(self._limit, later._limit)
        self._kept = {one for one in self._kept | later._kept if one < self._limit}
        self._shrink()

    def _shrink(self) -> None:
        # Exact as long as there are few; then the smallest of all, whichever parts they came in.
        if len(self._kept) > (DISTINCT if self.is_exact else SAMPLE):
            self.is_exact = False
            smallest = sorted(self._kept)[:SAMPLE]
            self._kept, self._limit = set(smallest), smallest[-1] + 1

    def count(self) -> int:
        if self.is_exact:
            return len(self._kept)
        return round((len(self._kept) - 1) / (max(self._kept) / (1 << 64)))
