"""Orders: which row comes at which position of an epoch.

    order = Shuffled(rows=1_000_000, seed=7, epoch=2)
    order.rows(0, 256)                      # the numbers of the first 256 rows

An order depends only on its seed and epoch. It is computed for the positions that are asked for, so
an epoch of a billion rows takes no memory, and its middle is reached at once: see
`tensorferry.rows.permutation`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.rows.permutation import Permutation
from tensorferry.tensors.values import Array


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
        seed: The seed of the feed.
        epoch: The number of the epoch; each has an order of its own.
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
