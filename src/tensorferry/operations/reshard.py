"""Resharding: the records of TFRecord files in other files, as they are, without decoding them.

    cut("train.tfrecord", "some.tfrecord", start=100, stop=200)
    cut("train.tfrecord", "threes.tfrecord", where="label == 3")

Splitting and merging are `tensorferry.operations.convert.convert` with `shards`, and of several
files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tensorferry import storage
from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord.frames import Damage
from tensorferry.formats.tfrecord.records import Records, repair
from tensorferry.formats.tfrecord.writer import writer
from tensorferry.operations import conditions
from tensorferry.operations.opened import OpenedRecords, open_input


@dataclass(frozen=True)
class CutReport:
    """Which records went over.

    Attributes:
        source: As it was named.
        target: The file.
        count: How many records it has.
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
        count: How many records it has.
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
        stop: The record behind the last.
        step: Every so manieth.
        where: Only records like this: see `tensorferry.operations.conditions`.
        compression: As in `tensorferry.writer`.
        force: Replace a target that is there.
    """
    with open_input(source) as opened:
        paths = _records_of(opened)
        check_free(os.fspath(target), force=force)
        records: Iterator[Any] = iter(Records(paths, raw=True))
        if where is not None:
            records = _chosen(opened, records, conditions.parse(where))
        begin, end, every = start, stop, step
        if any(number is not None and number < 0 for number in (start, stop)):
            begin, end, every = slice(start, stop, step).indices(len(opened.records))
        if every is not None and every < 1:
            raise UnsupportedError(f"the step is {every}, expected 1 or more")
        count = 0
        with writer(target, compression=compression) as out:
            for record in islice(records, begin, end, every):
                out.write(record)
                count += 1
        return CutReport(opened.name, os.fspath(target), count)


def _chosen(
    opened: OpenedRecords, records: Iterator[Any], condition: conditions.Condition
) -> Iterator[Any]:
    opened.check_names(condition.names)
    rows = opened.rows(columns=list(condition.names))
    return (record for record, row in zip(records, rows, strict=True) if condition.holds(row))


def _records_of(opened: Any) -> list[Any]:
    if not isinstance(opened, OpenedRecords) or opened.is_stream:
        raise UnsupportedError(
            "expected TFRecord files",
            path=opened.name,
            hint="`ferry convert` makes TFRecords of other formats",
        )
    return opened.records.paths


def repair_file(source: str, target: str, *, force: bool = False) -> RepairReport:
    """Writes every whole record of a damaged TFRecord file into a new one.

    Raises:
        FileExistsError: The target is there, and `force` is not set.
    """
    check_free(target, force=force)
    count, damages = repair(source, target)
    return RepairReport(source, target, count, tuple(damages))


def write_indexes(sources: Sequence[Any]) -> list[str]:
    """Writes an index beside each TFRecord file, and gives their names.

    Raises:
        UnsupportedError: One of them is compressed, or something else.
    """
    names = []
    for source in sources:
        with open_input(source) as opened:
            _records_of(opened)
            names += opened.records.write_index()
    return names
