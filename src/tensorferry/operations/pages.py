"""Pages: rows by their numbers, whatever the file, and the search for rows.

    pages = Pages(subject)
    pages.take(range(500_000, 500_050))         # Row(number, values, problem) each
    for number in search(subject, where="label == 3"): ...

Uncompressed files have random access. Others are read from their start, and the place where the
last page ended is kept, so that going on costs nothing. A row that cannot be decoded is given with
the reason, and its neighbours are given as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.operations import conditions
from tensorferry.operations.distribution import Distribution, Spread, pieces_of
from tensorferry.operations.subject import Subject
from tensorferry.rows.columns import length_of
from tensorferry.rows.rows import Rows
from tensorferry.tensors.values import RaggedTensor

FREQUENT = 4096
"""Up to how many different values of a column are counted."""

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Row:
    """A row of a file.

    Attributes:
        number: Counted from 0.
        values: By column; empty where the row cannot be read.
        problem: Why it cannot be read.
    """

    number: int
    values: Mapping[str, Any]
    problem: str | None = None


class Pages:
    """Rows of a file, by their numbers.

    Args:
        subject: Rows that were opened; a stream cannot be.

    Raises:
        UnsupportedError: There are no rows, or they can be read only once.
    """

    def __init__(self, subject: Subject) -> None:
        if not isinstance(subject.opened, Rows) or subject.is_stream:
            raise UnsupportedError("rows of a file are expected", path=subject.name)
        readable = [name for name in subject.infos if name not in subject.unreadable]
        rows = subject.opened
        self._rows = rows if len(readable) == len(subject.infos) else rows.select(readable)
        self.columns = readable
        self._random = True
        self._forward: Iterator[Any] | None = None
        self._next = 0

    def take(self, numbers: Sequence[int]) -> list[Row]:
        """Some rows, in the order asked for; fewer where the file ends."""
        if self._random:
            try:
                return self._taken(numbers)
            except UnsupportedError:
                self._random = False
        return self._walked(numbers)

    def _taken(self, numbers: Sequence[int]) -> list[Row]:
        count = self._rows.count()
        wanted = [number for number in numbers if count is None or number < count]
        try:
            found = self._rows.take(wanted)
        except UnsupportedError:
            raise
        except FerryError:
            return [self._alone(number) for number in wanted]
        return [Row(number, values) for number, values in zip(wanted, found, strict=True)]

    def _alone(self, number: int) -> Row:
        try:
            return Row(number, self._rows.take([number])[0])
        except FerryError as error:
            return Row(number, {}, error.message)

    def _walked(self, numbers: Sequence[int]) -> list[Row]:
        """Reads on from where the last page ended, or from the start."""
        found: dict[int, Row] = {}
        for number in sorted(set(numbers)):
            if self._forward is None or number < self._next:
                self._forward, self._next = iter(self._rows), 0
            try:
                values = next(islice(self._forward, number - self._next, None), None)
            except FerryError as error:
                self._forward = None
                found[number] = Row(number, {}, error.message)
                break
            if values is None:
                self._forward = None
                break
            self._next = number + 1
            found[number] = Row(number, values)
        return [found[number] for number in numbers if number in found]


def search(
    subject: Subject,
    *,
    where: str | None = None,
    text: str | None = None,
    progress: Progress | None = None,
) -> Iterator[int]:
    """The numbers of rows for which a condition holds, and that have some text, in their order.

    Args:
        subject: Rows that were opened.
        where: A condition: see `tensorferry.operations.conditions`.
        text: Is looked for in all columns, upper and lower case alike; numbers have to be equal.
        progress: Is told how many rows were looked at, and how many there are.

    Raises:
        UnsupportedError: The condition is none, or names a column that is not there.
    """
    condition = None if where is None else conditions.parse(where)
    names = list(subject.infos) if text or condition is None else []
    needed = list(dict.fromkeys([*names, *(condition.names if condition else ())]))
    subject.check_names(needed)
    needed = [name for name in needed if name not in subject.unreadable]
    if condition is not None:
        subject.check_readable(condition.names)
    total = subject.count()
    wanted = text.encode(errors="replace").lower() if text else None
    for number, row in enumerate(subject.rows(needed)):
        if progress is not None and number % 1024 == 0:
            progress(number, total)
        if condition is not None and not condition.holds(row):
            continue
        if wanted is None or any(_has(value, wanted) for value in row.values()):
            yield number
    if progress is not None and total is not None:
        progress(total, total)


def _has(value: Any, wanted: bytes) -> bool:
    if isinstance(value, bytes):
        return wanted in value.lower()
    if isinstance(value, str):
        return wanted in value.lower().encode(errors="replace")
    if isinstance(value, RaggedTensor):
        value = value.flat_values
    if isinstance(value, np.ndarray):
        if value.dtype == object or value.size <= 64:
            return any(_has(part, wanted) for part in value.reshape(-1).tolist())
        return False
    if isinstance(value, list | tuple):
        return any(_has(part, wanted) for part in value)
    if isinstance(value, np.generic):
        value = value.item()
    return value is not None and str(value).encode() == wanted


@dataclass(frozen=True)
class ColumnDistribution:
    """How the values of a column are spread.

    Attributes:
        name: Of the column.
        rows: How many rows were looked at.
        missing: How many of them lack it.
        values: The values of all rows together; of strings, their lengths.
        frequent: The most frequent values and how often each is there, if there are not too many
            different ones.
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
        UnsupportedError: There is no such column, or it cannot be read.
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
