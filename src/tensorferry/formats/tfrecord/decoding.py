"""Decoding: the batches of many records, several at a time and in several threads.

`tensorferry.formats.tfrecord.example` decodes the records of one batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorferry import _native, limits
from tensorferry.errors import FormatError
from tensorferry.formats.tfrecord.example import PLACE, BatchDecoder, room_of
from tensorferry.formats.tfrecord.frames import Segment, Trail
from tensorferry.rows.rows import ROWS, Damage, To, hand
from tensorferry.rows.schema import Schema

# Several small batches are decoded together, up to this number of rows or bytes, because handing
# work to a thread costs more than decoding it.
TASK_ROWS = 1024
TASK_BYTES = 8 << 20
TASK_BATCHES = 16

# Rows are read one at first, because it may be large, and then so many times more: each task takes
# a decoder of its own.
GROWTH = 16


def decoded(
    tasks: Iterator[list[Segment]],
    schema: Schema,
    columns: Sequence[str] | None,
    *,
    to: To,
    threads: int,
    damages: list[Damage] | None,
    in_order: bool = True,
    least: int = 0,
) -> Iterator[Any]:
    """The batches of tasks, in their order; an error comes behind the batches before it.

    Args:
        tasks: The segments of each batch.
        schema: The schema of the records.
        columns: The features wanted; None for all.
        to: The framework whose tensors the columns are.
        threads: Number of threads, including the caller's.
        damages: As in `BatchDecoder.decode`.
        in_order: Whether the segments follow each other in their files, so that the memory of
            those that are done is not needed any more.
        least: Batches of fewer rows are left out.
    """
    team = DecodingTeam(
        lambda: make_decoder(schema, columns, to), threads, damages, in_order, least
    )
    # One thread decodes what is asked for; several have work while this one makes columns.
    ahead = threads + 2 if threads > 1 else 1
    failures: list[Exception] = []
    for group in _groups(tasks, failures):
        team.begin(group)
        if len(team) == ahead:
            yield from (hand(batch, to) for batch in team.finish())
    while len(team):
        yield from (hand(batch, to) for batch in team.finish())
    if failures:
        raise failures[0]


class DecodingTeam:
    """Decodes groups of batches ahead, in the caller's thread and in others.

    The other threads run native code only: they decode while this thread, with the GIL, makes
    columns of finished batches.

    Args:
        make: Makes one more decoder.
        threads: Number of threads, including the caller's.
        damages: As in `BatchDecoder.decode`.
        in_order: As in `decoded`.
        least: As in `decoded`.
    """

    def __init__(
        self,
        make: Callable[[], BatchDecoder],
        threads: int,
        damages: list[Damage] | None,
        in_order: bool,
        least: int,
    ) -> None:
        self._make = make
        self._damages = damages
        self._in_order = in_order
        self._least = least
        self._team = _native.ExampleTeam(threads - 1)
        self._trail = Trail()
        self._idle: list[BatchDecoder] = []
        self._running: deque[list[tuple[BatchDecoder, Sequence[Segment]]]] = deque()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, group: Sequence[Sequence[Segment]]) -> None:
        """Takes the segments of one batch or more, which are then decoded together."""
        batches = [(self._idle.pop() if self._idle else self._make(), task) for task in group]
        work = []
        for decoder, task in batches:
            decoder.native.clear()
            decoder.check_room(*room_of(task))
            for part in task:
                work.append((decoder.native, part.buffer, part.start, part.count, part.verify))
        self._team.submit(work)
        self._running.append(batches)

    def finish(self) -> Iterator[Any]:
        """The batches of the group that was begun first.

        Raises:
            FormatError: As in `BatchDecoder.decode`.
        """
        whole = self._team.wait()
        for decoder, task in self._running.popleft():
            columns, problems = decoder.columns() if whole else ({}, {0: ""})
            if problems:
                batch = decoder.decode(task, damages=self._damages)
            else:
                batch = decoder.finish(columns)
            if decoder.native.rows >= self._least:
                yield batch
            self._idle.append(decoder)
            for segment in task if self._in_order else ():
                self._trail.add(segment)


Walk = Callable[[Callable[[], int]], Iterator[Segment]]
"""Walks over frames in segments; its argument says the most frames of the next one."""


def batch_tasks(walk: Walk, rows: int) -> Iterator[list[Segment]]:
    """The frames of batches of so many rows; the last may have fewer."""
    task: list[Segment] = []
    left = rows
    segments = walk(lambda: left)
    for segment in segments:
        task.append(segment)
        left -= segment.count
        if left == 0:
            yield task
            task, left = [], rows
    if task:
        yield task


def row_tasks(walk: Walk, columns: int = 0, *, first: int = 1) -> Iterator[list[Segment]]:
    """The frames of some rows at a time, fewer of them the larger they are.

    Args:
        walk: Gives the frames.
        columns: Number of columns that the rows are decoded into.
        first: Number of rows to begin with.
    """
    most = max(1, min(ROWS, limits.memory // (PLACE * max(columns, 1))))
    rows = min(first, most)
    segments = walk(lambda: rows)
    for segment in segments:
        yield [segment]
        size = (segment.end - segment.start) // segment.count
        rows = max(1, min(GROWTH * rows, most, TASK_BYTES // size))


def _groups(
    tasks: Iterator[list[Segment]], failures: list[Exception]
) -> Iterator[list[list[Segment]]]:
    """Tasks that are done together; an error ends them and goes into `failures`."""
    group: list[list[Segment]] = []
    rows = size = 0
    try:
        for task in tasks:
            group.append(task)
            rows += sum(segment.count for segment in task)
            size += sum(segment.end - segment.start for segment in task)
            if rows >= TASK_ROWS or size >= TASK_BYTES or len(group) >= TASK_BATCHES:
                yield group
                group, rows, size = [], 0, 0
    except (FormatError, OSError) as error:
        failures.append(error)
    if group:
        yield group


def bytes_of(tasks: Iterator[list[Segment]]) -> Iterator[list[bytes]]:
    """The bytes of the records of each task."""
    trail = Trail()
    for task in tasks:
        yield [record for segment in task for record in segment.records()]
        for segment in task:
            trail.add(segment)


def make_decoder(schema: Schema, columns: Sequence[str] | None, to: To) -> BatchDecoder:
    """A decoder that gives batches of columns, or Arrow's record batches."""
    if to == "arrow":
        from tensorferry.formats.tfrecord.arrow import ArrowDecoder

        return ArrowDecoder(schema, columns)
    return BatchDecoder(schema, columns)
