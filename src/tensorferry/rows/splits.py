"""Splits: parts of rows that can be read alone, in any process and on any machine.

    for split in ferry.open("train-*.tfrecord").splits(8):
        pool.submit(work, split)        # pickled: a few paths and numbers

    def work(split):
        with split.open() as rows:
            ...

Together, and in their order, the splits of rows are exactly the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tensorferry.classes import dataclass
from tensorferry.storage.place import Place

if TYPE_CHECKING:
    from tensorferry.formats.contract import Facts, RowOptions
    from tensorferry.rows.rows import Rows


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one file that follow each other.

    Attributes:
        place: The file.
        start: Where they begin, in the unit of the format: bytes of a TFRecord file, row groups of
            a Parquet file, record batches of an Arrow file. None is the start of the file.
        stop: Where they end; None is the end of the file.
        first: The number of the first row in its file.
        rows: Number of rows; None if only reading them tells.
        nbytes: Number of bytes they take in the file; None if that is not known.
    """

    place: Place
    start: int | None = None
    stop: int | None = None
    first: int = 0
    rows: int | None = None
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A part of rows; see `tensorferry.rows.rows.Rows.splits`.

    Attributes:
        number: The number of the split, from 0.
        parts: The rows, by file.
        kind: The class of the rows.
        how: The options they are read with; the schema is among them, so that nobody infers it
            a second time.
        facts: The facts of the format.
    """

    number: int
    parts: tuple[Part, ...]
    kind: type[Rows]
    how: RowOptions
    facts: Facts

    @property
    def rows(self) -> int | None:
        """Number of rows; None if only reading them tells."""
        return _total([part.rows for part in self.parts])

    @property
    def nbytes(self) -> int | None:
        """Number of bytes of the files that the rows take."""
        return _total([part.nbytes for part in self.parts])

    @property
    def files(self) -> list[str]:
        """The files that the rows lie in."""
        return [part.place.path for part in self.parts]

    def open(self) -> Rows:
        """Opens the rows of the split."""
        return self.kind.of_parts(self.parts, self.how, facts=self.facts)


def _total(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True)
class Portion:
    """Some rows of parts of files, by their numbers, counted from the first row of the parts."""

    parts: tuple[Part, ...]
    start: int
    stop: int


def portions(parts: Sequence[Part], rows: Sequence[int], count: int) -> list[Portion]:
    """Rows in so many portions of one size; the last is shorter, and some may be empty.

    Args:
        parts: Parts of files, in order.
        rows: Number of rows of each part.
        count: Number of portions.
    """
    total = sum(rows)
    each = max(1, -(-total // count))
    firsts = [0, *accumulate(rows)]
    found = []
    at = 0
    for number in range(count):
        start, stop = min(number * each, total), min((number + 1) * each, total)
        while at < len(parts) and firsts[at + 1] <= start:
            at += 1
        end = at
        while end < len(parts) and firsts[end] < stop:
            end += 1
        first = firsts[at] if start < stop else start
        some = tuple(parts[at:end]) if start < stop else tuple(parts[:1])
        found.append(Portion(some, start - first, stop - first))
    return found


def deal(parts: Sequence[Part], count: int) -> list[list[Part]]:
    """Parts, in their order, in so many groups of about one size; fewer if there are fewer parts.

    Args:
        parts: The smallest parts that can be read alone.
        count: Number of groups wanted.

    Raises:
        ValueError: The count is less than 1.
    """
    if count < 1:
        raise ValueError(f"{count} splits, expected 1 or more")
    count = min(count, len(parts))
    sizes = [1 if part.nbytes is None else part.nbytes for part in parts]
    total, done = sum(sizes) or 1, 0
    groups: list[list[Part]] = []
    for place, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        # The group that the middle of the part falls into, so that no part is counted twice; no
        # group is passed over, and the parts that are left suffice for the groups that are left.
        middle = (2 * done + size) * count // (2 * total)
        wanted = max(middle, count - len(parts) + place)
        if len(groups) <= wanted and len(groups) < count:
            groups.append([])
        groups[-1].append(part)
        done += size
    return groups
