"""Distributions: a summary of numbers and two histograms, in one pass over pieces of any number.

    spread = Spread()
    for piece in pieces:
        spread.add(piece)
    spread.result().histogram.counts

The bins of the linear histogram are of one width, a power of two, so that two neighbours can become
one when a later number lies outside: the counts are exact, and nothing is read twice. The other
histogram counts numbers by their magnitude, ten bins a decade, negative and positive ones apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from tensorferry import kernels
from tensorferry.classes import dataclass, replace
from tensorferry.operations.measures import Measure, Summary, as_numbers
from tensorferry.operations.show import Histogram
from tensorferry.operations.subject import Subject
from tensorferry.storage.pages import release
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

BINS = 1024
"""The most bins while numbers are added."""

SHOWN = 96
"""About how many bins a result has, at most."""

PIECE = 1 << 20
"""How many values are looked at together."""


@dataclass(frozen=True)
class Magnitudes:
    """How many numbers are of each order of magnitude.

    Attributes:
        start: The exponent of 10 where the first bin starts, times ten: there are ten bins between
            1 and 10.
        negative: The counts of numbers below zero, by magnitude.
        positive: The counts of numbers above zero.
        zeros: How many are zero.
    """

    start: int
    negative: tuple[int, ...]
    positive: tuple[int, ...]
    zeros: int


@dataclass(frozen=True)
class Distribution:
    """How the values of a tensor or column are spread.

    Attributes:
        summary: Range, mean, quantiles and counts; of strings about their lengths.
        histogram: The histogram of the finite numbers; None if there are none.
        magnitudes: The same by order of magnitude.
        first_nan: The index of the first NaN.
        first_infinite: The index of the first infinite value.
        looked: Number of values that were read; fewer than `total` for a sample.
        total: How many values there are.
    """

    summary: Summary
    histogram: Histogram | None
    magnitudes: Magnitudes | None
    first_nan: tuple[int, ...] | None
    first_infinite: tuple[int, ...] | None
    looked: int
    total: int


class Spread:
    """Takes arrays of numbers or strings, of one kind all of them."""

    def __init__(self) -> None:
        self._measure = Measure()
        self._counts: Array = np.zeros(0, np.uint64)
        self._first_bin = 0
        self._exponent: int | None = None  # a bin is 2**exponent wide
        self._whole = True
        self._magnitudes: dict[bool, Counter[int]] = {False: Counter(), True: Counter()}
        self._nan: int | None = None
        self._infinite: int | None = None
        self._seen = 0

    def add(self, values: Array) -> None:
        """Adds the values of an array, in the order of their indices."""
        flat = values.reshape(-1)
        for start in range(0, flat.size, PIECE):
            self._add(flat[start : start + PIECE])

    def _add(self, piece: Array) -> None:
        self._measure.add(piece)
        if piece.dtype == object:
            numbers: Array = np.fromiter(map(len, piece.tolist()), np.int64, piece.size)
        else:
            numbers = piece if kernels.has(piece.dtype) else as_numbers(piece)
        if numbers.dtype.kind == "c":
            numbers = np.abs(numbers)
        found = kernels.moments(numbers)
        if numbers.dtype.kind not in "iub":
            self._whole = False
            if found.nans or found.infinities:
                self._note_first(as_numbers(numbers))
        self._seen += piece.size
        if found.finite:
            self._count(numbers, float(found.low), float(found.high))
            self._count_magnitudes(numbers)

    def _note_first(self, numbers: Array) -> None:
        nan, infinite = np.isnan(numbers), np.isinf(numbers)
        if self._nan is None and nan.any():
            self._nan = self._seen + int(np.argmax(nan))
        if self._infinite is None and infinite.any():
            self._infinite = self._seen + int(np.argmax(infinite))

    # The linear histogram

    def _count(self, numbers: Array, low: float, high: float) -> None:
        if self._exponent is None:
            self._exponent = self._finest(low, high)
            self._first_bin = math.floor(math.ldexp(low, -self._exponent))
        while not self._fits(low, high):
            self._halve()
        end = self._first_bin + self._counts.size
        first = min(self._first_bin, math.floor(math.ldexp(low, -self._exponent)))
        last = max(end, math.floor(math.ldexp(high, -self._exponent)) + 1)
        if first < self._first_bin or last > end:
            counts: Array = np.zeros(last - first, np.uint64)
            start = self._first_bin - first
            counts[start : start + self._counts.size] = self._counts
            self._counts, self._first_bin = counts, first
        kernels.count_bins(numbers, exponent=self._exponent, first=first, counts=self._counts)

    def _finest(self, low: float, high: float) -> int:
        """The exponent of bins that are fine enough for numbers of a range, and not finer."""
        if self._whole:
            return 0
        size = high - low if math.isfinite(high - low) else max(abs(low), abs(high))
        # Numbers that are all the same lie in one bin, however large they are.
        size = max(size, max(abs(low), abs(high)) * 2**-40, 2.0**-1000)
        return math.frexp(size)[1] - 9

    def _fits(self, low: float, high: float) -> bool:
        assert self._exponent is not None
        try:
            first = math.floor(math.ldexp(low, -self._exponent))
            last = math.floor(math.ldexp(high, -self._exponent))
        except OverflowError:  # the bins are much too narrow for such numbers
            return False
        end = self._first_bin + self._counts.size - 1
        return max(last, end) - min(first, self._first_bin) < BINS

    def _halve(self) -> None:
        """Makes one bin of two neighbours."""
        assert self._exponent is not None
        self._exponent += 1
        if not self._counts.size:
            self._first_bin //= 2
            return
        before = self._first_bin % 2
        after = (before + self._counts.size) % 2
        padded = np.pad(self._counts, (before, after))
        self._counts = padded.reshape(-1, 2).sum(axis=1)
        self._first_bin //= 2

    def _histogram(self) -> Histogram | None:
        if self._exponent is None or not self._counts.size:
            return None
        counts, first, exponent = self._counts, self._first_bin, self._exponent
        while counts.size > SHOWN:
            before = first % 2
            counts = np.pad(counts, (before, (before + counts.size) % 2))
            counts = counts.reshape(-1, 2).sum(axis=1)
            first, exponent = first // 2, exponent + 1
        edges = [math.ldexp(first + place, exponent) for place in range(counts.size + 1)]
        return Histogram(tuple(counts.tolist()), tuple(edges))

    # Magnitudes

    def _count_magnitudes(self, numbers: Array) -> None:
        for negative, counts in enumerate(kernels.count_magnitudes(numbers)):
            counter = self._magnitudes[bool(negative)]
            for place in np.flatnonzero(counts).tolist():
                counter[kernels.LOWEST + place] += int(counts[place])

    def _by_magnitude(self, zeros: int) -> Magnitudes | None:
        keys = [*self._magnitudes[False], *self._magnitudes[True]]
        if not keys:
            return None
        first, last = min(keys), max(keys)
        negative, positive = (
            tuple(self._magnitudes[side][key] for key in range(first, last + 1))
            for side in (True, False)
        )
        return Magnitudes(first, negative, positive, zeros)

    def result(
        self, shape: tuple[int, ...] | None = None, total: int | None = None
    ) -> Distribution:
        """The result so far.

        Args:
            shape: Of the tensor whose values were added in order, to say where the first NaN is.
            total: How many values there are, if only a sample was added.
        """
        summary = self._measure.summary()
        return Distribution(
            summary,
            self._histogram(),
            self._by_magnitude(summary.zeros),
            _place(self._nan, shape),
            _place(self._infinite, shape),
            self._seen,
            self._seen if total is None else total,
        )


def _place(index: int | None, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if index is None or not shape:
        return None if index is None else (index,)
    return tuple(int(step) for step in np.unravel_index(index, shape))


def pieces_of(value: object, *, most: int = PIECE) -> Iterator[Array]:
    """The numbers or strings of a tensor of any kind, in order, in pieces of about `most` values.

    Pages of a mapped file that were read are given back, so that memory stays small.
    """
    if isinstance(value, list):
        for part in value:
            if part is not None:
                yield from pieces_of(part, most=most)
        return
    if isinstance(value, bytes):
        yield np.array([value], object)
        return
    if isinstance(value, SparseTensor | RaggedTensor):
        value = values_of(value)
    array = np.asarray(value)
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        # A piece that starts and ends with a page can be given back as a whole.
        step = max(most, (1 << 20) // max(array.itemsize, 1))
        for start in range(0, flat.size, step):
            piece = flat[start : start + step]
            yield piece
            release(piece)
    elif array.size <= most:
        yield array.reshape(-1)
    else:
        for row in array:
            yield from pieces_of(row, most=most)


def distribution(
    subject: Subject,
    name: str,
    *,
    most: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Distribution:
    """How the values of a tensor of a bundle are spread.

    Args:
        subject: The opened file.
        name: The name of the tensor.
        most: Read about this many values of a larger tensor, in evenly spaced runs.
        progress: Receives the number of values done and the total.

    Raises:
        UnsupportedError: The tensor does not exist, or cannot be read.
    """
    tensor = subject.tensor(name)
    spread = Spread()
    shape = tensor.shape if isinstance(tensor, np.ndarray) else None
    if most is not None and isinstance(tensor, np.ndarray) and tensor.size > most:
        for piece in _sample(tensor, most):
            spread.add(piece)
        found = spread.result(total=tensor.size)
        return replace(found, first_nan=None, first_infinite=None)  # of the sample, not of all
    done, total = 0, tensor.size if isinstance(tensor, np.ndarray) else None
    for piece in pieces_of(tensor):
        spread.add(piece)
        done += piece.size
        if progress is not None:
            progress(done, total)
    return spread.result(shape)


def _sample(tensor: Array, most: int, runs: int = 64) -> Iterator[Array]:
    """Evenly spaced runs of values of a tensor."""
    if not tensor.flags.c_contiguous:
        step = math.ceil(tensor.size / most)
        yield np.array(tensor[:: min(step, max(len(tensor) // 8, 1))]).reshape(-1)[:most]
        return
    flat = tensor.reshape(-1)
    size = max(most // runs, 1)
    for run in range(runs):
        start = (flat.size - size) * run // (runs - 1)
        piece = flat[start : start + size]
        yield piece
        release(piece)
