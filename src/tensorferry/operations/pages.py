"""Pages: rows by number, in any file, and the search for rows.

    pages = Pages(subject)
    pages.take(range(500_000, 500_050))         # Row(number, values, problem) each
    for number in search(subject, where="label == 3"): ...

Uncompressed files have random access, once `locate` has found where the rows are; the first rows
are there before. Other files are read from their start, and the place where the last page ended is
kept, so that going on costs nothing. A row that cannot be decoded is given with the reason, and its
neighbours are given as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.operations import conditions
from tensorferry.operations.nulls import rows_of
from tensorferry.operations.subject import Subject
from tensorferry.rows.rows import Rows
from tensorferry.tensors.values import RaggedTensor

FIRST = 500
"""So many rows of a large file are read from its start until it is known where all rows are."""

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

    Attributes:
        columns: The names of those that can be read.
        total: Number of rows, once `locate` or reading to the end has told it.

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
        self.total: int | None = None
        self._random = True
        self._is_located = rows.known_count() is not None
        self._forward: Iterator[Any] | None = None
        self._next = 0

    def locate(self, progress: Progress | None = None) -> int | None:
        """Finds where all rows are, and what is damaged between them; the number of rows.

        Args:
            progress: Receives the number of rows counted, for files that have to be read for it.

        Returns:
            None where only reading everything would tell.
        """
        rows = self._rows
        # The places of rows tell their number: files that have them are not read twice.
        self.total = rows.count() if rows.is_seekable else rows.count(progress)
        self._is_located = True
        return self.total

    def take(self, numbers: Sequence[int]) -> list[Row]:
        """Some rows, in the given order; fewer if the file ends."""
        if self.total is not None:
            numbers = [number for number in numbers if number < self.total]
        if not self._is_located and max(numbers, default=0) < FIRST:
            known = len(self._rows.damages)
            found = self._walked(numbers)
            # Rows that cannot be decoded are passed over when others are read in their order.
            if len(self._rows.damages) == known and not any(row.problem for row in found):
                return found
            self.locate()
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

    def close(self) -> None:
        """Lets go of what was read ahead."""
        self._forward = None

    def _walked(self, numbers: Sequence[int]) -> list[Row]:
        """Reads on from where the last page ended, or from the start."""
        found: dict[int, Row] = {}
        for number in sorted(set(numbers)):
            if self._forward is None or number < self._next:
                self._forward, self._next = iter(self._rows), 0
            try:
                self._next += sum(1 for _ in islice(self._forward, number - self._next))
                values = next(self._forward, None)
            except FerryError as error:
                self._forward = None
                found[number] = Row(number, {}, error.message)
                break
            if values is None:
                self.total, self._forward = self._next, None
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
        progress: Receives the number of rows read and the total.

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
    for number, row in enumerate(rows_of(subject, needed)):
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
