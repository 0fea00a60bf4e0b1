"""Resharding: some rows of files in a new one, as they are; repairing and indexing of TFRecords.

    cut("train.tfrecord", "some.tfrecord", start=100, stop=200)
    cut("train.parquet", "threes.parquet", where="label == 3")

Splitting is `tensorferry.operations.split`, and merging `tensorferry.operations.convert.convert` of
several files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

import numpy as np

from tensorferry import engines, storage
from tensorferry.classes import dataclass
from tensorferry.engines import Job
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tfrecord import frames
from tensorferry.formats.tfrecord.records import Records
from tensorferry.operations import conditions
from tensorferry.operations.freight import (
    Carried,
    Freight,
    RowsReport,
    carried,
    check_free,
)
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import Progress, following
from tensorferry.rows.rows import Damage
from tensorferry.tensors.values import Array


@dataclass(frozen=True)
class RepairReport:
    """What was kept of a damaged file.

    Attributes:
        source: The damaged file.
        target: The new one.
        count: Number of records in it.
        damages: The damage that was skipped.
    """

    source: str
    target: str
    count: int
    damages: tuple[Damage, ...]


def cut(
    source: Any,
    target: str | os.PathLike[str],
    *,
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    where: str | None = None,
    progress: Progress | bool | None = None,
    **how: Unpack[Carried],
) -> RowsReport:
    """Copies some rows into a new file, as they are stored.

    Args:
        source: Rows of any format.
        target: The new file.
        start: The first row; a negative number counts from the end.
        stop: The first row that is not copied any more.
        step: Copy every n-th row.
        where: Only rows like this: see `tensorferry.operations.conditions`. Numbers are then those
            of the rows for which it holds.
        progress: True shows a bar; a function is told how many rows were looked at, and how many
            there are, if that is known.
        **how: How rows are read and written: see `tensorferry.operations.freight.Carried`.
    """
    if step is not None and step < 1:
        raise UnsupportedError(f"the step is {step}, expected 1 or more")
    path = os.fspath(target)
    condition = None if where is None else conditions.parse(where)
    from_end = any(number is not None and number < 0 for number in (start, stop))
    is_again = from_end or where is not None
    with (
        carried(source, [path], how, again=is_again) as (freight, outputs),
        following(progress, path, "rows") as tell,
    ):
        begin, end, every = start or 0, stop, step or 1
        if from_end:
            count = _count(freight, condition)
            begin, end, every = slice(start, stop, step).indices(count)
        total = freight.subject.count() if tell is not None else None
        done = 0
        for looked, part, fitting in _fitting(freight, condition):
            numbers = np.arange(done, done + len(fitting))
            wanted = (numbers >= begin) & ((numbers - begin) % every == 0)
            if end is not None:
                wanted &= numbers < end
            outputs.add(freight.taken(part, fitting[wanted]))
            done += len(fitting)
            if tell is not None:
                tell(looked, total)
            if end is not None and done >= end:
                break
    return outputs.reports()[0]


def _fitting(
    freight: Freight, condition: conditions.Condition | None
) -> Iterator[tuple[int, Any, Array]]:
    """How many rows were looked at, a part of them, and which of its rows fit a condition."""
    looked = 0
    if condition is None:
        for part in freight.parts():
            looked += freight.length(part)
            yield looked, part, np.arange(freight.length(part))
        return
    for part, rows in freight.with_columns(condition.names):
        looked += freight.length(part)
        fitting = [number for number, row in enumerate(rows) if condition.holds(row)]
        yield looked, part, np.array(fitting, np.int64)


def _count(freight: Freight, condition: conditions.Condition | None) -> int:
    """How many rows fit a condition."""
    if condition is None:
        return freight.count()
    return sum(len(fitting) for _, _, fitting in _fitting(freight, condition))


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
    """Copies every undamaged record of a TFRecord file to a new, uncompressed file.

    Args:
        path: The damaged file.
        target: The new file.
        durable: Wait until the bytes are on disk.
        engine: The engine that runs it, as one task, because damage can only be found from the
            start of the file.
        progress: True shows a bar; a function receives the number of records written; with an
            engine, the number of tasks done.
        storage_options: Options for the stores of URLs.

    Returns:
        The number of records in the new file, and a list of the damage.

    Raises:
        FormatError: The file has no undamaged record.

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
        force: Replace an existing target.
        engine: As in `tensorferry.repair`.
        progress: As in `tensorferry.repair`.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
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
                raise FormatError(
                    "there is no whole record in it: is this a TFRecord file?",
                    path=self.source,
                    hint=f"`ferry info {self.source}` says what it is",
                )
            return count, damages

    def merge(self, partials: Iterable[tuple[int, list[Damage]]]) -> tuple[int, list[Damage]]:
        """What was done."""
        return next(iter(partials))


def write_index(source: Any, progress: Progress | None = None) -> list[str]:
    """Writes an index beside each TFRecord file, and returns their names.

    Args:
        source: Anything that `tensorferry.open` takes.
        progress: Receives the number of files done and the total.

    Raises:
        UnsupportedError: A file is compressed, or something else.
    """
    with open_one(source) as subject:
        return _records_of(subject).write_index(progress=progress)
