"""Batching: the rows of a chunk as batches of a training loop.

    Plain(256)                              256 rows each
    Bucketed(256, "tokens", (32, 64))       rows of similar length together
    Packed(8, "tokens", 512)                several short rows in one of 512 values

A chunk is the rows that have to be seen together. Its batches depend on the chunk alone, so a feed
that stopped in the middle of a chunk reads the chunk again and goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.rows.columns import Batch, Column, length_of, rows_between, taken
from tensorferry.tensors.ragged import pad_parts
from tensorferry.tensors.values import RaggedTensor

Fill = bool | float | str | bytes | np.generic | None
"""What stands where a row has no value; None for zero, or the empty string."""

Padding = Fill | tuple[Fill, int]
"""What to fill the end of short rows with, or that and the length of all rows."""

BATCHES = 64
"""Number of batches of rows that are sorted into buckets, or packed, together."""

OPEN = 16
"""Number of packed rows that are filled at a time."""


class Batching(Protocol):
    """How the rows of a chunk become batches."""

    @property
    def chunk(self) -> int:
        """Number of rows of a chunk."""

    @property
    def is_plain(self) -> bool:
        """Whether a chunk is one batch."""

    def batches(self, columns: Batch, pad: Mapping[str, Padding]) -> Iterator[Batch]:
        """The batches of a chunk, padded as in `cut`; a last one may be shorter."""


@dataclass(frozen=True)
class Plain:
    """A fixed number of rows a batch, in their order.

    Attributes:
        rows: Number of rows of a batch.
    """

    rows: int

    @property
    def chunk(self) -> int:
        """Number of rows of a chunk: a feed that shuffles in windows reads several together."""
        return self.rows

    @property
    def is_plain(self) -> bool:
        """A chunk is one batch."""
        return True

    def batches(self, columns: Batch, pad: Mapping[str, Padding]) -> Iterator[Batch]:
        """The batches of the rows that were read together."""
        total = rows_of(columns)
        return cut(columns, [*range(self.rows, total, self.rows), total] if total else [], pad)


@dataclass(frozen=True)
class Bucketed:
    """Rows of similar length together, so that little has to be padded.

    Attributes:
        rows: Number of rows of a batch.
        column: The ragged column whose lengths count.
        bounds: The length of the longest row of each bucket but the last, in rising order.
    """

    rows: int
    column: str
    bounds: tuple[int, ...]

    @property
    def chunk(self) -> int:
        """Number of rows of a chunk."""
        return self.rows * BATCHES

    @property
    def is_plain(self) -> bool:
        """A chunk is many batches."""
        return False

    def batches(self, columns: Batch, pad: Mapping[str, Padding]) -> Iterator[Batch]:
        """The batches of a chunk, in the order in which their first rows come."""
        buckets = np.searchsorted(
            self.bounds, ragged(columns, self.column).row_lengths, side="left"
        )
        groups = []
        for bucket in np.unique(buckets):
            rows = np.flatnonzero(buckets == bucket)
            groups += [rows[start : start + self.rows] for start in range(0, len(rows), self.rows)]
        for group in sorted(groups, key=lambda group: int(group[0])):
            batch = {name: taken(column, group) for name, column in columns.items()}
            yield from cut(batch, [len(group)], pad)


@dataclass(frozen=True)
class Packed:
    """Several short rows in one long row, for models that read tokens.

    A batch has the column as [rows, length], `<column>_segment` with the number of the row that a
    value is of, from 1 (0 is padding), and `<column>_position` with its place in that row. Rows
    longer than `length` are cut.

    Attributes:
        rows: Number of rows of a batch.
        column: The ragged column of tokens.
        length: Number of values of a packed row.
    """

    rows: int
    column: str
    length: int

    @property
    def chunk(self) -> int:
        """Number of rows of a chunk."""
        return self.rows * BATCHES

    @property
    def is_plain(self) -> bool:
        """A chunk is many batches."""
        return False

    def batches(self, columns: Batch, pad: Mapping[str, Padding]) -> Iterator[Batch]:
        """The batches of a chunk, which need no padding."""
        tokens = ragged(columns, self.column)
        lengths = np.minimum(tokens.row_lengths, self.length)
        bins = _bins(lengths.tolist(), self.length)
        for start in range(0, len(bins), self.rows):
            yield self._packed(tokens, bins[start : start + self.rows])

    def _packed(self, tokens: RaggedTensor, bins: Sequence[Sequence[int]]) -> Batch:
        shape = (len(bins), self.length, *tokens.flat_values.shape[1:])
        values = np.zeros(shape, tokens.dtype)
        segment, position = np.zeros(shape[:2], np.int32), np.zeros(shape[:2], np.int32)
        splits = tokens.nested_row_splits[0]
        for line, rows in enumerate(bins):
            place = 0
            for number, row in enumerate(rows, 1):
                count = min(int(splits[row + 1] - splits[row]), self.length)
                part = slice(place, place + count)
                values[line, part] = tokens.flat_values[splits[row] : splits[row] + count]
                segment[line, part] = number
                position[line, part] = np.arange(count)
                place += count
        name = self.column
        return {name: values, f"{name}_segment": segment, f"{name}_position": position}


def _bins(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Rows by the packed row they go to: one of the last few that has room, or else a new one."""
    bins: list[list[int]] = []
    left: list[int] = []
    for row, length in enumerate(lengths):
        if not length:
            continue
        recent = range(max(0, len(bins) - OPEN), len(bins))
        place = next((place for place in recent if left[place] >= length), None)
        if place is None:
            bins.append([])
            left.append(room)
            place = len(bins) - 1
        bins[place].append(row)
        left[place] -= length
    return bins


def rows_of(columns: Mapping[str, Column]) -> int:
    """Number of rows of a batch."""
    return next((length_of(column) for column in columns.values()), 0)


def ragged(columns: Batch, name: str) -> RaggedTensor:
    """The ragged column of a name.

    Raises:
        UnsupportedError: There is no such column, or it is not ragged.
    """
    column = columns.get(name)
    if not isinstance(column, RaggedTensor):
        what = "no column" if column is None else f"a column of {type(column).__name__}"
        raise UnsupportedError(
            f"{name!r} is {what}, expected a ragged column", hint="name a column of lists"
        )
    return column


def cut(columns: Batch, ends: Sequence[int], pad: Mapping[str, Padding]) -> Iterator[Batch]:
    """Cuts columns into batches; ragged columns that are padded become arrays.

    Args:
        columns: The columns of all batches, concatenated.
        ends: The row behind the last of each batch.
        pad: For each column what to fill the end of short rows with, or that and a length:
            `{"tokens": (0, 512)}`. Rows longer than the length are cut.
    """
    if not columns:
        return ({} for _ in ends)
    bounds = list(itertools.pairwise([0, *ends]))
    names = tuple(columns)
    parts = [_parts(columns[name], bounds, name in pad, pad.get(name)) for name in names]
    return (dict(zip(names, batch, strict=True)) for batch in zip(*parts, strict=True))


def _parts(
    column: Column, bounds: Sequence[tuple[int, int]], padded: bool, how: Padding
) -> Iterable[Column]:
    if padded and isinstance(column, RaggedTensor):
        fill, length = how if isinstance(how, tuple) else (how, None)
        return pad_parts(column, bounds, length, fill)
    if isinstance(column, np.ndarray):
        return [column[start:stop] for start, stop in bounds]
    return (rows_between(column, start, stop) for start, stop in bounds)
