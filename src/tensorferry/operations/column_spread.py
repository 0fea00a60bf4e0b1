"""Column spread: how the values of a column of rows are spread, and which are frequent."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.operations.distribution import Distribution, Spread, pieces_of
from tensorferry.operations.subject import Subject
from tensorferry.progress import Progress
from tensorferry.rows.columns import length_of
from tensorferry.tensors.values import RaggedTensor

FREQUENT = 4096
"""Up to how many different values of a column are counted."""


@dataclass(frozen=True)
class ColumnDistribution:
    """How the values of a column are spread.

    Attributes:
        name: The name of the column.
        rows: Number of rows that were read.
        missing: How many of them lack it.
        values: The values of all rows together; of strings, their lengths.
        frequent: The most frequent values and their counts, if there are not too many different
            ones.
    """

    name: str
    rows: int
    missing: int
    values: Distribution
    frequent: tuple[tuple[str, int], ...] | None


def column_distribution(
    subject: Subject, name: str, *, progress: Progress | None = None
) -> ColumnDistribution:
    """How the values of a column are spread, in one pass over the rows.

    Raises:
        UnsupportedError: The column does not exist, or cannot be read.
    """
    subject.check_names([name])
    subject.check_readable([name])
    spread, counts = Spread(), _Counts()
    rows = missing = 0
    total = subject.count()
    optional = name in subject.optional
    for batch in subject.batches([name]):
        column = batch[name]
        rows += length_of(column)
        if isinstance(column, list):
            missing += sum(value is None for value in column)
        elif optional and isinstance(column, RaggedTensor):
            missing += int((column.row_lengths == 0).sum())
        for piece in pieces_of(column):
            spread.add(piece)
            counts.add(piece)
        if progress is not None:
            progress(rows, total)
    return ColumnDistribution(name, rows, missing, spread.result(), counts.result())


class _Counts:
    """Counts different values, as long as there are not too many."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] | None = {}

    def add(self, piece: Any) -> None:
        if self._counts is None:
            return
        if piece.dtype == object:
            for value in piece.tolist():
                self._counts[value] = self._counts.get(value, 0) + 1
        elif piece.dtype.kind in "iub":
            for value, count in zip(*np.unique(piece, return_counts=True), strict=True):
                key = value.item()
                self._counts[key] = self._counts.get(key, 0) + int(count)
        else:
            self._counts = None
            return
        if len(self._counts) > FREQUENT:
            self._counts = None

    def result(self, most: int = 20) -> tuple[tuple[str, int], ...] | None:
        if self._counts is None:
            return None
        order = sorted(self._counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
        return tuple((_text(value), count) for value, count in order[:most])


def _text(value: Any) -> str:
    return value.decode(errors="replace")[:80] if isinstance(value, bytes) else str(value)
