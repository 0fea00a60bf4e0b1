"""Problems: what is wrong with TFRecord files, told one by one; `check` raises the first.

Whether the records are Examples throughout is a question to `tensorferry.formats.tfrecord.survey`.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from tensorferry import _native
from tensorferry.errors import FormatError, Problem
from tensorferry.formats.tfrecord import index as indexes
from tensorferry.formats.tfrecord.files import RecordFiles
from tensorferry.formats.tfrecord.frames import PROBLEMS, Segment, Status, Trail
from tensorferry.progress import Progress
from tensorferry.rows.rows import Damage


def check(segments: Iterable[Segment], threads: int, tell: Progress | None) -> int:
    """Verifies the data of all records, in threads, and gives their number.

    Args:
        segments: The frames of the records.
        threads: Number of threads.
        tell: Is told how many records are checked.

    Raises:
        FormatError: A record does not fit its checksum, or a frame is damaged.
    """
    trail, count = Trail(), 0
    running: deque[tuple[Segment, Future[int]]] = deque()
    last = None  # handed to a thread when there is another: a small file needs none
    with ThreadPoolExecutor(threads) as workers:
        for segment in segments:
            if last is not None:
                running.append((last, workers.submit(last.check)))
            last = segment
            if len(running) > threads:
                done, future = running.popleft()
                count += future.result()
                trail.add(done)
                if tell is not None:
                    tell(count, None)
        if last is not None and running:
            running.append((last, workers.submit(last.check)))
        elif last is not None:
            count += last.check()
        count += sum(future.result() for _, future in running)
    if tell is not None:
        tell(count, count)
    return count


def in_frames(
    segments: Iterator[Segment], damages: list[Damage]
) -> Iterator[tuple[int, Problem | None]]:
    """Counts whole records and tells of damage: pairs of a number of records and a problem.

    Args:
        segments: The frames of files whose damage is skipped.
        damages: The list that gets what is skipped; empty at first.
    """
    told = 0
    try:
        for segment in Trail().follow(segments):
            yield _count(segment, damages), None
            for damage in damages[told:]:
                yield 0, _problem(damage)
            told = len(damages)
    except FormatError as error:
        yield 0, Problem.of(error)
    for damage in damages[told:]:
        yield 0, _problem(damage)


def _count(segment: Segment, damages: list[Damage]) -> int:
    """Number of whole records; the others, if nobody has checked them yet, are noted."""
    if not segment.verify:
        return segment.count
    whole = 0
    while segment.count:
        found, _, status = _native.tfrecord_scan(segment.buffer, segment.start, segment.count, True)
        whole += found
        if status == Status.RECORD:
            break
        bad, segment = segment.split(found)[1].split(1)
        size = bad.end - bad.start
        problem = PROBLEMS[Status.BAD_DATA]
        damages.append(Damage(bad.path, bad.first, bad.base + bad.start, size, problem))
    return whole


def _problem(damage: Damage) -> Problem:
    return Problem(
        f"{damage.problem} ({damage.size} bytes)",
        damage.path,
        damage.record,
        damage.offset,
        hint=f"`ferry repair {shlex.quote(damage.path)} OUT` keeps every whole record",
    )


def in_indexes(files: RecordFiles) -> Iterator[Problem]:
    """The indexes beside local files that are older than their file, or do not fit it."""
    for part in files.parts:
        path = part.place.path
        beside = [path + suffix for suffix in indexes.SUFFIXES]
        beside = [name for name in beside if not part.place.is_url and os.path.exists(name)]
        if not beside:
            continue
        with files.reading(part.place) as source:
            if source.buffer is None or indexes.read(path, source.buffer) is not None:
                continue
        for name in beside:
            yield Problem(
                "the index is older than its file, or does not fit it",
                name,
                hint=f"`ferry index {shlex.quote(path)}` writes it again",
            )
