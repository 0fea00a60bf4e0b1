"""Chunks: rows in the order of an epoch, read some at a time, starting anywhere in the epoch.

A chunk comes with its `Mark`, a few numbers that say where it begins. Reading from a mark gives the
same chunk again, and those behind it, without reading the rows before it.

    Seeking         any row is read where it lies: uncompressed TFRecords on this machine
    Streaming       pieces of files are read from their start: compressed and remote files, Parquet
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from tensorferry.classes import NamedTuple, dataclass
from tensorferry.feeds.batching import rows_of
from tensorferry.feeds.order import Order
from tensorferry.rows.columns import Batch, joined, slice_rows, taken
from tensorferry.rows.permutation import Permutation
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split
from tensorferry.tensors.values import Array

READ = 4096
"""Number of rows that are read from a piece at a time."""

AHEAD = 1 << 16
"""Number of rows whose places in the order are computed together."""


class Mark(NamedTuple):
    """Where a chunk begins.

    Attributes:
        position: Number of rows of this shard before it.
        piece: Streaming: the piece that its first row is in, counted in the order of the epoch.
        row: Streaming: the number of that row in its piece.
    """

    position: int = 0
    piece: int = 0
    row: int = 0


class Group(NamedTuple):
    """Chunks that were read together.

    Attributes:
        marks: Where each chunk begins.
        columns: The columns of all chunks, concatenated.
        ends: The row after the last of each chunk.
    """

    marks: list[Mark]
    columns: Batch
    ends: list[int]


class Chunks(Protocol):
    """The rows of one shard of an epoch."""

    @property
    def size(self) -> int | None:
        """Number of rows; None if only reading them tells."""

    def read(self, mark: Mark, size: int, every: tuple[int, int]) -> Iterator[Group]:
        """Chunks from a mark on, one or several at a time.

        Args:
            mark: Where to begin.
            size: Number of rows of a chunk.
            every: `(1, 3)` gives the second chunk, and then each third.
        """


@dataclass
class Seeking:
    """Chunks of rows that can be read one by one.

    Attributes:
        rows: The rows.
        order: The order of the rows in this epoch.
        span: The positions of this shard.
        total: Number of rows; positions behind it start over.
        ahead: Number of bytes that may be read ahead.
    """

    rows: Rows
    order: Order
    span: range
    total: int
    ahead: int

    @property
    def size(self) -> int:
        """Number of rows of this shard."""
        return len(self.span)

    def read(self, mark: Mark, size: int, every: tuple[int, int]) -> Iterator[Group]:
        """Chunks from a mark on; those that are decoded together come together."""
        first, step = every
        starts = range(mark.position + first * size, self.size, step * size)
        wanted = (self._numbers(start, min(start + size, self.size)) for start in starts)
        places = iter(starts)
        for columns, ends in self.rows.gathered_together(wanted, ahead=self.ahead):
            marks = list(map(Mark, itertools.islice(places, len(ends))))
            yield Group(marks, columns, ends)

    def _numbers(self, start: int, stop: int) -> Array:
        start, stop = self.span.start + start, self.span.start + stop
        if stop <= self.total:
            return self._ahead(start, stop)
        turned = np.arange(start, stop) % self.total
        return np.concatenate([self.order.rows(at, at + 1) for at in turned.tolist()])

    def _ahead(self, start: int, stop: int) -> Array:
        """The row numbers at some positions; those of the next ones are computed with them."""
        first, numbers = self._known
        if not first <= start <= stop <= first + len(numbers):
            end = min(max(start + AHEAD, stop), self.total)
            first, numbers = self._known = start, self.order.rows(start, end)
        return numbers[start - first : stop - first]

    _known: tuple[int, Array] = (0, np.empty(0, np.int64))


@dataclass
class Streaming:
    """Chunks of rows that are read piece by piece.

    The pieces, in the order of the epoch, are one sequence of rows. It is cut into chunks, and the
    rows of a chunk are shuffled.

    Attributes:
        pieces: The pieces of all files.
        seed: None for the order of the files.
        epoch: Number of the epoch.
        span: The part of that sequence that is this shard; None for all of it.
        sizes: Number of rows of each piece, if there is a span.
    """

    pieces: Sequence[Split]
    seed: int | None
    epoch: int
    span: range | None = None
    sizes: Sequence[int] = ()

    def __post_init__(self) -> None:
        count = len(self.pieces)
        turn = np.arange(count)
        if self.seed is not None:
            turn = Permutation(count, (self.seed, self.epoch)).at(turn)
        self._turn: list[int] = turn.tolist()

    @property
    def size(self) -> int | None:
        """Number of rows of this shard."""
        if self.span is not None:
            return len(self.span)
        counts = [piece.rows for piece in self.pieces]
        return None if None in counts else sum(filter(None, counts))

    def begin(self) -> Mark:
        """Where the shard begins."""
        before = 0 if self.span is None else self.span.start
        for number, piece in enumerate(self._turn if before else ()):
            if before < self.sizes[piece]:
                return Mark(0, number, before)
            before -= self.sizes[piece]
        return Mark(0, len(self._turn) if before else 0, 0)

    def read(self, mark: Mark, size: int, every: tuple[int, int]) -> Iterator[Group]:
        """Chunks from a mark on; all of them are read, and those asked for are given."""
        first, step = every
        for number, (at, columns) in enumerate(self._chunks(mark, size)):
            if number >= first and (number - first) % step == 0:
                yield Group([at], self._shuffled(columns, at), [rows_of(columns)])

    def _shuffled(self, columns: Batch, at: Mark) -> Batch:
        count = rows_of(columns)
        if self.seed is None or count < 2:
            return columns
        order = Permutation(count, (self.seed, self.epoch, 1 + at.position)).at(np.arange(count))
        return {name: taken(column, order) for name, column in columns.items()}

    def _chunks(self, mark: Mark, size: int) -> Iterator[tuple[Mark, Batch]]:
        held: list[Batch] = []
        count, position = 0, mark.position
        left = None if self.span is None else len(self.span) - position
        at = mark
        for where, columns in self._parts(mark):
            while (there := rows_of(columns)) and left != 0:
                if not count:
                    at = where._replace(position=position)
                wanted = min(size - count, there, there if left is None else left)
                held.append(slice_rows(columns, 0, wanted))
                columns = slice_rows(columns, wanted, there)
                where = where._replace(row=where.row + wanted)
                count, position = count + wanted, position + wanted
                left = None if left is None else left - wanted
                if count == size:
                    yield at, joined(held)
                    held, count = [], 0
            if left == 0:
                break
        if held:
            yield at, joined(held)

    def _parts(self, mark: Mark) -> Iterator[tuple[Mark, Batch]]:
        """Rows as they come, and where each part begins."""
        skip = mark.row
        for number in range(mark.piece, len(self._turn)):
            row = 0
            with self.pieces[self._turn[number]].open() as rows:
                for columns in rows.batches(READ):
                    there = rows_of(columns)
                    if row + there > skip:
                        start = max(skip - row, 0)
                        yield Mark(0, number, row + start), slice_rows(columns, start, there)
                    row += there
            skip = 0


def span_of(rows: int, shard: tuple[int, int]) -> range:
    """The positions of one of several shards: they differ by at most one row."""
    number, count = shard
    return range(rows * number // count, rows * (number + 1) // count)
