"""The record batches of files, one piece after the other.

A piece is read part by part if nobody needs all of it, and several pieces of text are parsed ahead.
The last piece that was read as a whole is kept. Damaged pieces can be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tensorferry.errors import FormatError
from tensorferry.formats.tables.ahead import read_ahead
from tensorferry.formats.tables.files import Files
from tensorferry.progress import METER
from tensorferry.rows.rows import Damage
from tensorferry.rows.splits import Part

Check = Callable[[list[Any], Sequence[str]], None]
"""Raises what is wrong inside of the record batches of a piece, of which some columns were read."""


class Stream:
    """The record batches of the rows wanted.

    Args:
        files: The files.
        parts: Of which these are read, in their order.
        damages: Takes a note of damaged pieces, which are skipped; without it they raise.
        window: The first row wanted and the one behind the last; None is all of them.
    """

    def __init__(
        self,
        files: Files,
        parts: Sequence[Part],
        damages: list[Damage] | None,
        window: tuple[int, int] | None = None,
    ) -> None:
        self._files = files
        self._parts = parts
        self._damages = damages
        self._window = window
        self._held: tuple[tuple[int, int, tuple[str, ...]], list[Any]] | None = None

    def again(self) -> Stream:
        """The same rows, of which nothing is kept yet."""
        return Stream(self._files, self._parts, self._damages, self._window)

    def within(self, start: int, stop: int) -> Stream:
        """The same for the rows from `start` to `stop`."""
        return Stream(self._files, self._parts, self._damages, (start, stop))

    @property
    def is_part(self) -> bool:
        """Whether not all rows are wanted."""
        return self._window is not None

    def count(self) -> int:
        """Number of rows; all files are opened for it."""
        total = sum(sum(self._files.rows(number)) for number in range(len(self._files)))
        if self._window is None:
            return total
        start, stop = self._window
        return max(min(stop, total) - start, 0)

    def forget(self) -> None:
        """Lets go of the piece that is kept."""
        self._held = None

    def batches(self, columns: Sequence[str], rows: int | None, *, check: Check) -> Iterator[Any]:
        """The record batches.

        Args:
            columns: The columns to read.
            rows: Number of rows that are used together, after which they may be gone; None if all
                of them are.
            check: Called for pieces where damage is skipped.
        """
        if self._window is None:
            yield from self._every(columns, rows, check)
            return
        start, stop = self._window
        before = 0
        for batch in self._every(columns, rows, check):
            first = max(start - before, 0)
            part = batch.slice(first, max(stop - before - first, 0))
            if part.num_rows:
                yield part
            before += batch.num_rows
            if before >= stop:
                return

    def _every(self, columns: Sequence[str], rows: int | None, check: Check) -> Iterator[Any]:
        """The record batches of all pieces, without those that are damaged if they are skipped."""
        before = 0
        for number in range(len(self._files)):
            indices = self._needed(number, before)
            before += sum(self._files.rows(number))
            if self._damages is None and len(indices) > 1:
                reader = self._files.reader(number)
                if reader.is_parsed:
                    with self._files.located(number):
                        yield from read_ahead(reader, indices, columns)
                    continue
            first = self._parts[number].first
            for index, count in zip(indices, self._files.rows(number), strict=False):
                try:
                    yield from self._parts_of(number, index, columns, rows, check)
                except FormatError as error:
                    if self._damages is None:
                        raise
                    self._damages.append(self._damage(number, index, columns, first, error))
                first += count

    def _needed(self, number: int, before: int) -> range:
        """The pieces of a file without those behind the rows wanted: pieces are read ahead.

        Args:
            number: Of the file.
            before: Number of rows of the files before it.
        """
        indices = self._files.pieces(number)
        # Rows that are skipped do not count.
        if self._window is None or self._damages is not None:
            return indices
        starts = np.cumsum([before, *self._files.rows(number)])[:-1]
        return indices[: int((starts < self._window[1]).sum())]

    def _parts_of(
        self, number: int, index: int, columns: Sequence[str], rows: int | None, check: Check
    ) -> Iterator[Any]:
        """A piece, which is read part by part if nobody needs all of it."""
        is_held = self._held is not None and self._held[0] == (number, index, tuple(columns))
        parts = None
        if rows is not None and self._damages is None and not is_held:
            parts = self._files.reader(number).stream(index, columns, rows)
        if parts is None:
            yield from self.piece(number, index, columns, check=check)
            return
        self._held = None
        with self._files.located(number):
            for batch in parts:
                METER.add(batch.get_total_buffer_size())
                yield batch

    def piece(self, number: int, index: int, columns: Sequence[str], *, check: Check) -> list[Any]:
        """A piece of a file; the last one that was read is kept."""
        key = (number, index, tuple(columns))
        reader = self._files.reader(number)
        if self._held is None or self._held[0] != key:
            self._held = None  # the old one goes before the new one comes
            with self._files.located(number):
                batches = reader.batches(index, columns)
                if not reader.is_parsed:  # text counts itself, in whichever thread parses it
                    METER.add(sum(batch.get_total_buffer_size() for batch in batches))
                if self._damages is not None:  # what is wrong inside must be known now
                    check(batches, columns)
            self._held = key, batches
        return self._held[1]

    def _damage(
        self, number: int, index: int, columns: Sequence[str], first: int, error: FormatError
    ) -> Damage:
        spans = self._files.reader(number).spans(index, columns)
        offset = error.offset
        if offset is None:
            offset = min((start for start, _ in spans), default=0)
        size = sum(stop - start for start, stop in spans)
        return Damage(self._files.path(number), first, offset, size, error.message)
