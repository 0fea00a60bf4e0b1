"""Gathering: batches of records from anywhere in the files.

The records of several batches are decoded together, by native threads. A batch is then a slice of
the columns, which costs less than columns of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.formats.tfrecord.access import Access
from tensorferry.formats.tfrecord.example import BatchDecoder
from tensorferry.rows.columns import rows_between
from tensorferry.rows.rows import Damage
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
    """

    def __init__(
        self,
        access: Access,
        make: Callable[[], BatchDecoder],
        threads: int,
        damages: list[Damage] | None,
    ) -> None:
        self._access = access
        self._make = make
        self._damages = damages
        self._team = _native.ExampleTeam(threads - 1)
        self._ahead = threads + 1 if threads > 1 else 1
        self._idle: list[BatchDecoder] = []
        self._running: deque[tuple[BatchDecoder, Group]] = deque()

    def batches(self, wanted: Iterable[Array]) -> Iterator[dict[str, Any]]:
        """The columns of each list of record numbers.

        Raises:
            FormatError: As in `BatchDecoder.decode`.
        """
        for group in self._groups(wanted):
            decoder = self._idle.pop() if self._idle else self._make()
            self._begin(decoder, group)
            if len(self._running) == self._ahead:
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
        self._team.submit_at(decoder.native, buffers, which, starts, self._access.verify)
        self._running.append((decoder, group))

    def _finish(self) -> Iterator[dict[str, Any]]:
        whole = self._team.wait()
        decoder, group = self._running.popleft()
        columns, problems = decoder.columns() if whole else ({}, {0: ""})
        if problems:
            for numbers in group:
                yield decoder.decode(self._access.segments(numbers), damages=self._damages)
        else:
            stop = 0
            for numbers in group:
                start, stop = stop, stop + len(numbers)
                yield {name: rows_between(each, start, stop) for name, each in columns.items()}
        self._idle.append(decoder)
