"""Resharding: the records of TFRecord files in other files, as they are, without decoding them.

    cut("train.tfrecord", "some.tfrecord", start=100, stop=200)
    cut("train.tfrecord", "threes.tfrecord", where="label == 3")

Splitting and merging are `tensorferry.operations.convert.convert` with `shards`, and of several
files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tensorferry import engines, storage
from tensorferry.engines import Job
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.files.writer import open_writer
from tensorferry.formats.table import TABLE
from tensorferry.formats.tfrecord import frames
from tensorferry.formats.tfrecord.records import Records
from tensorferry.operations import conditions
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import Progress, following
from tensorferry.rows.rows import Damage
from tensorferry.storage.place import Target

RECORDS = next(facts.name for facts in TABLE.values() if facts.records)
"""The format whose records are copied without decoding them."""


@dataclass(frozen=True)
class CutReport:
    """Which records went over.

    Attributes:
        source: As it was named.
        target: The file.
        count: Number of records in it.
    """

    source: str
    target: str
    count: int


@dataclass(frozen=True)
class RepairReport:
    """What was kept of a damaged file.

    Attributes:
        source: The damaged file.
        target: The new one.
        count: Number of records in it.
        damages: What was lost.
    """

    source: str
    target: str
    count: int
    damages: tuple[Damage, ...]


def check_free(path: str, *, force: bool) -> None:
    """Refuses a target that is there already.

    Raises:
        FileExistsError: It is.
    """
    if not force and path != storage.STANDARD_STREAM and storage.exists(path):
        raise FileExistsError(
            errno.EEXIST, "it exists already; --force (force=True) replaces it", path
        )


def cut(
    source: Any,
    target: str | os.PathLike[str],
    *,
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    where: str | None = None,
    compression: str | None = None,
    force: bool = False,
) -> CutReport:
    """Copies some records into a new file, byte by byte.

    Args:
        source: TFRecord files.
        target: The new file.
        start: The first record; a negative number counts from the end.
        stop: The first record that is not copied any more.
        step: Copy every n-th record.
        where: Only records like this: see `tensorferry.operations.conditions`.
        compression: As in `tensorferry.writer`.
        force: Replace a target that is there.
    """
    with open_one(source) as subject:
        records = _records_of(subject)
        check_free(os.fspath(target), force=force)
        rows: Iterator[bytes] = records.bytes_of_records()
        if where is not None:
            rows = _chosen(subject, rows, conditions.parse(where))
        begin, end, every = start, stop, step
        if any(number is not None and number < 0 for number in (start, stop)):
            begin, end, every = slice(start, stop, step).indices(len(records))
        if every is not None and every < 1:
            raise UnsupportedError(f"the step is {every}, expected 1 or more")
        given = {} if compression is None else {"compression": compression}
        goal = Target(os.fspath(target))
        with open_writer(RECORDS, goal, given, shards=None, metadata={}) as out:
            for record in islice(rows, begin, end, every):
                out.write(record)
        return CutReport(subject.name, os.fspath(target), out.count)


def _chosen(
    subject: Subject, records: Iterator[bytes], condition: conditions.Condition
) -> Iterator[bytes]:
    """The records for whose rows a condition holds."""
    subject.check_names(condition.names)
    rows = subject.rows(list(condition.names))
    return (record for record, row in zip(records, rows, strict=True) if condition.holds(row))


def _records_of(subject: Subject) -> Records:
    opened = subject.opened
    if not isinstance(opened, Records) or opened.is_stream:
        raise UnsupportedError(
            "expected TFRecord files",
            path=subject.name,
            hint="`ferry convert` makes TFRecords of other formats",
        )
    return opened


def repair(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    durable: bool = True,
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[int, list[Damage]]:
    """Writes every whole record of a damaged TFRecord file into a new one, uncompressed.

    Args:
        path: The damaged file.
        target: The new file.
        durable: Wait until the disk has the bytes.
        engine: What does it, in one task: what is whole shows only from the start of the file.
        progress: True shows a bar; a function is told how many records are written; with an engine,
            how many tasks are done.
        storage_options: For the stores of URLs.

    Returns:
        The number of records in the new file, and what was lost.

    Raises:
        FormatError: There is no whole record in the file.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(5)})
        >>> with open("train.tfrecord", "r+b") as file:  # the last record loses its end
        ...     _ = file.truncate(file.seek(0, 2) - 3)
        >>> count, damages = ferry.repair("train.tfrecord", "whole.tfrecord")
        >>> count
        4
    """
    job = RepairJob(os.fspath(path), os.fspath(target), durable, storage_options)
    with following(progress, target, "rows" if engine is None else "tasks") as tell:
        if engine is None:
            return job.repair(tell)
        return engines.run(job, engines.choose(engine), tell)


def repair_file(
    source: str,
    target: str,
    *,
    force: bool = False,
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
) -> RepairReport:
    """Repairs a file, unless the target is there: see `tensorferry.repair`.

    Args:
        source: The damaged file.
        target: The new file.
        force: Replace a target that is there.
        engine: As in `tensorferry.repair`.
        progress: As in `tensorferry.repair`.

    Raises:
        FileExistsError: The target is there, and `force` is not set.
    """
    check_free(target, force=force)
    count, damages = repair(source, target, engine=engine, progress=progress)
    return RepairReport(source, target, count, tuple(damages))


@dataclass(frozen=True)
class RepairJob(Job[None, "tuple[int, list[Damage]]", "tuple[int, list[Damage]]"]):
    """Repairs a file, in one task.

    Attributes:
        source: The damaged file.
        target: The new file, which is replaced.
        durable: Whether to wait until the disk has the bytes.
        options: For the stores of URLs.
    """

    source: str
    target: str
    durable: bool
    options: Mapping[str, Any] | None

    def plan(self, size: int) -> list[None]:
        """The one task."""
        if storage.STANDARD_STREAM in (self.source, self.target):
            raise UnsupportedError("a worker has no part in this program's streams")
        return [None]

    def run(self, task: None, held: Any) -> tuple[int, list[Damage]]:
        """Does all of it."""
        return self.repair()

    def repair(self, tell: Progress | None = None) -> tuple[int, list[Damage]]:
        """Repairs the file, here."""
        with (
            storage.open_source(self.source, options=self.options) as source,
            storage.open_sink(self.target, durable=self.durable, options=self.options) as sink,
        ):
            count, damages = frames.repair(source, sink, tell)
            if count == 0 and damages:
                raise FormatError("no whole record in it", path=self.source)
            return count, damages

    def merge(self, partials: Iterable[tuple[int, list[Damage]]]) -> tuple[int, list[Damage]]:
        """What was done."""
        return next(iter(partials))


def write_indexes(sources: Sequence[Any]) -> list[str]:
    """Writes an index beside each TFRecord file, and gives their names.

    Raises:
        UnsupportedError: One of them is compressed, or something else.
    """
    names = []
    for source in sources:
        with open_one(source) as subject:
            names += _records_of(subject).write_index()
    return names
