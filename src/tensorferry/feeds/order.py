"""Orders: which row comes at which position of an epoch.

    order = Shuffled(rows=1_000_000, seed=7, epoch=2)
    order.rows(0, 256)                      # the numbers of the first 256 rows

An order is a function of its seed and epoch alone. It is computed where it is asked for, so that an
epoch of a billion rows takes no memory, and its middle is reached at once. The arithmetic is our
own, in 64-bit integers: the same seed gives the same order with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SORTED = 1 << 14
"""Up to so many rows are shuffled by sorting random numbers: every order is equally likely."""

ROUNDS = 6
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


class Order(Protocol):
    """The numbers of the rows of an epoch, in the order in which they come."""

    def rows(self, start: int, stop: int) -> Array:
        """The numbers of the rows at the positions from `start` to `stop`."""


@dataclass(frozen=True)
class InTurn:
    """Rows in the order of the files."""

    def rows(self, start: int, stop: int) -> Array:
        """The positions themselves."""
        return np.arange(start, stop)


@dataclass(frozen=True)
class Shuffled:
    """A permutation of all rows.

    Attributes:
        size: Number of rows.
        seed: Of the feed.
        epoch: Each has an order of its own.
    """

    size: int
    seed: int
    epoch: int

    def rows(self, start: int, stop: int) -> Array:
        """The numbers of the rows at the positions from `start` to `stop`."""
        return self._permutation.at(np.arange(start, stop))

    @cached_property
    def _permutation(self) -> Permutation:
        return Permutation(self.size, (self.seed, self.epoch))


@dataclass(frozen=True)
class Permutation:
    """The numbers from 0 to `size` in a random order.

    Attributes:
        size: How many there are.
        key: Numbers that choose the order.
    """

    size: int
    key: Sequence[int]

    def at(self, positions: Array) -> Array:
        """The numbers at some positions."""
        if self.size <= SORTED:
            return self._sorted[positions]
        found = positions.astype(np.uint64)
        outside = np.arange(len(found))
        # The round trip is a permutation of a power of two. What falls outside goes on walking.
        while len(outside):
            found[outside] = self._mixed(found[outside])
            outside = outside[found[outside] >= self.size]
        return found.astype(np.int64)

    @cached_property
    def _sorted(self) -> Array:
        numbers = np.arange(self.size, dtype=np.uint64)
        return np.argsort(_mix(numbers, _combine(self.key)), kind="stable")

    @cached_property
    def _keys(self) -> list[int]:
        return [_combine((*self.key, number)) for number in range(ROUNDS)]

    def _mixed(self, numbers: Array) -> Array:
        """A Feistel network: each half of the bits in turn is changed by what the other one is."""
        bits = (self.size - 1).bit_length()
        low = np.uint64(bits // 2)
        ones_low = np.uint64((1 << (bits // 2)) - 1)
        ones_high = np.uint64((1 << (bits - bits // 2)) - 1)
        right, left = numbers & ones_low, numbers >> low
        for number, key in enumerate(self._keys):
            if number % 2:
                right = right ^ (_mix(left, key) & ones_low)
            else:
                left = left ^ (_mix(right, key) & ones_high)
        return (left << low) | right


def _combine(key: Sequence[int]) -> int:
    """One number of 64 bits out of several, each of which matters."""
    state = 0
    for number in key:
        state = _scramble((state ^ (number & _MASK)) + _STEP)
        state = _scramble(state + (number >> 64 & _MASK))
    return state


def _scramble(number: int) -> int:
    number &= _MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31


def _mix(numbers: Array, key: int) -> Array:
    """Random bits for each number."""
    mixed = numbers * np.uint64(_STEP) + np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
