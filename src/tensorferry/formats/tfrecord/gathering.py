"""Gathering: batches of records from anywhere in the files.

The records of several batches are decoded together, ahead of the caller, by native threads. A batch
is then a slice of the columns, which costs less than columns of its own.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tensorferry import _native
from tensorferry.formats.tfrecord.access import Access
from tensorferry.formats.tfrecord.example import BatchDecoder
from tensorferry.rows.rows import Damage, Gathered
from tensorferry.tensors.values import Array

ROWS = 4096
BYTES = 4 << 20
"""How much is decoded together, about, unless one batch alone has more."""

Group = list[Array]


class Gathering:
    """Decodes batches of records by their numbers.

    Args:
        access: Where the records are; all files are open at the same time.
        make: Makes one more decoder.
        threads: Number of threads, including the caller's.
        damages: As in `BatchDecoder.decode`.
        ahead: Number of bytes of records, about, that are decoded before they are asked for, unless
            one batch alone has more.
    """

    def __init__(
        self,
        access: Access,
        make: Callable[[], BatchDecoder],
        threads: int,
        damages: list[Damage] | None,
        ahead: int,
    ) -> None:
        self._access = access
        self._make = make
        self._damages = damages
        # Whoever wants records ahead gets a thread for them, if it is the only one.
        self._team = _native.ExampleTeam(max(threads - 1, min(ahead, 1)))
        self._ahead = ahead
        self._held = 0
        self._most = max(threads, 2) + 1
        self._idle: list[BatchDecoder] = []
        self._running: deque[tuple[BatchDecoder, Group]] = deque()

    def groups(self, wanted: Iterable[Array]) -> Iterator[Gathered]:
        """The columns of lists of record numbers, several lists together.

        Raises:
            FormatError: As in `BatchDecoder.decode`.
        """
        for group in self._groups(wanted):
            decoder = self._idle.pop() if self._idle else self._make()
            self._begin(decoder, group)
            while len(self._running) == self._most or self._held >= max(self._ahead, 1):
                yield from self._finish()
        while self._running:
            yield from self._finish()

    def _groups(self, wanted: Iterable[Array]) -> Iterator[Group]:
        most = max(1, min(ROWS, BYTES // max(self._access.average, 1)))
        group: Group = []
        rows = 0
        for numbers in wanted:
            group.append(numbers)
            rows += len(numbers)
            if rows >= most:
                yield group
                group, rows = [], 0
        if group:
            yield group

    def _begin(self, decoder: BatchDecoder, group: Group) -> None:
        numbers = group[0] if len(group) == 1 else np.concatenate(group)
        buffers, which, starts = self._access.locate(self._access.numbers(numbers))
        decoder.native.clear()
        decoder.check_room(len(starts), self._size(group))
        self._team.submit_at(decoder.native, buffers, which, starts, self._access.verify)
        self._running.append((decoder, group))
        self._held += self._size(group)

    def _size(self, group: Group) -> int:
        return sum(map(len, group)) * max(self._access.average, 1)

    def _finish(self) -> Iterator[Gathered]:
        whole = self._team.wait()
        decoder, group = self._running.popleft()
        self._held -= self._size(group)
        columns, problems = decoder.columns() if whole else ({}, {0: ""})
        if not problems:
            yield columns, list(itertools.accumulate(map(len, group)))
        for numbers in group if problems else ():
            segments = self._access.segments(numbers)
            batch = decoder.decode(segments, damages=self._damages)
            yield batch, [decoder.native.rows]
        self._idle.append(decoder)
