"""Permutations: the numbers from 0 to n in a random order, computed where they are asked for.

    order = Permutation(1_000_000_000, (seed,))
    order.at(np.arange(256))                # the first 256 numbers of the order
    order.places(np.array([7]))             # where the number 7 stands in it

A permutation of a billion rows takes no memory, and its middle is reached at once. The arithmetic
is our own, in 64-bit integers: the same key gives the same order with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.tensors.values import Array

SORTED = 1 << 14
"""Up to so many numbers are shuffled by sorting random ones: every order is equally likely."""

ROUNDS = 6
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


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
        return self._walk(positions, list(enumerate(self._keys)))

    def places(self, numbers: Array) -> Array:
        """The positions of some numbers: `at(places(numbers))` are the numbers again."""
        if self.size <= SORTED:
            return self._unsorted[numbers]
        return self._walk(numbers, list(enumerate(self._keys))[::-1])

    def _walk(self, start: Array, rounds: Sequence[tuple[int, int]]) -> Array:
        """Goes from each number to the next of a circle, until that is one of ours."""
        found = start.astype(np.uint64)
        outside = np.arange(len(found))
        # The circles are those of a power of two. What falls outside goes on walking.
        while len(outside):
            found[outside] = self._mixed(found[outside], rounds)
            outside = outside[found[outside] >= self.size]
        return found.astype(np.int64)

    @cached_property
    def _sorted(self) -> Array:
        numbers = np.arange(self.size, dtype=np.uint64)
        return np.argsort(_mix(numbers, _combine(self.key)), kind="stable")

    @cached_property
    def _unsorted(self) -> Array:
        return np.argsort(self._sorted, kind="stable")

    @cached_property
    def _keys(self) -> list[int]:
        return [_combine((*self.key, number)) for number in range(ROUNDS)]

    def _mixed(self, numbers: Array, rounds: Iterable[tuple[int, int]]) -> Array:
        """A Feistel network: each half of the bits in turn is changed by what the other one is.

        A round undoes itself, so that the rounds backwards undo all of it.
        """
        bits = (self.size - 1).bit_length()
        low = np.uint64(bits // 2)
        ones_low = np.uint64((1 << (bits // 2)) - 1)
        ones_high = np.uint64((1 << (bits - bits // 2)) - 1)
        right, left = numbers & ones_low, numbers >> low
        for number, key in rounds:
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
