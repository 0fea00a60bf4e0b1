"""Verification: whether every byte of a file is sound.

    ferry.verify("train-*.tfrecord").problems

Whatever a format has is checked: checksums, offsets, lengths, names that occur twice. All problems
are listed that can be told apart: each damaged record, each damaged tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from tensorferry import storage
from tensorferry.errors import (
    FerryError,
    FormatError,
    MissingExtraError,
    UnknownFormatError,
    UnsupportedError,
)
from tensorferry.files.find import Input
from tensorferry.files.sizes import compression_of
from tensorferry.formats.tfrecord import index as indexes
from tensorferry.formats.tfrecord.records import Records
from tensorferry.operations import hash as digests
from tensorferry.operations.inspect import Problem
from tensorferry.operations.measures import as_numbers, chunks_of
from tensorferry.operations.opened import (
    Opened,
    OpenedRecords,
    OpenedTable,
    OpenedTensors,
    open_input,
)
from tensorferry.storage.pages import release
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import RaggedTensor, SparseTensor

# Formats whose own bytes are covered by checksums; others have them when they are compressed.
CHECKSUMMED = ("tfrecord", "npz", "parquet", "checkpoint", "savedmodel")

Progress = Callable[[int, int | None], None]
"""Is told how many parts are done, and of how many."""


@dataclass(frozen=True)
class VerifyReport:
    """What was checked, and what is wrong.

    Attributes:
        path: As it was named.
        format: The name of its format; None if it could not be opened.
        holds: "tensors", "records" or "rows".
        count: How many whole ones of them there are.
        problems: What is wrong.
        checksums: Whether checksums cover the values, so that a changed bit shows.
        quick: Whether only the structure was looked at.
    """

    path: str
    format: str | None = None
    holds: str | None = None
    count: int | None = None
    problems: tuple[Problem, ...] = ()
    checksums: bool = False
    quick: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    path: Any,
    *,
    quick: bool = False,
    nan: bool = False,
    duplicates: bool = False,
    format: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> VerifyReport:
    """Checks a file: every checksum, offset and length.

    Args:
        path: Whatever `tensorferry.open` takes.
        quick: Look at the structure only, not at the values.
        nan: Tell of numbers that are NaN or infinite.
        duplicates: Tell of records that are the same as one before.
        format: By default recognised.
        progress: See `Progress`.
        **options: Of `tensorferry.open`.

    Raises:
        UnknownFormatError: It is of no format known.
        OSError: It cannot be read at all.
    """
    name = path.name if isinstance(path, Input) else str(path)
    try:
        opened = open_input(path, format=format, **{**options, "on_error": "skip"})
    except (UnknownFormatError, MissingExtraError):
        raise
    except FormatError as error:
        return VerifyReport(name, format, problems=(Problem.of(error, name),), quick=quick)
    except FileNotFoundError as error:
        missing = error.filename
        if not isinstance(missing, str) or missing == name:
            raise
        # An index is there, and a file that it leads to is not.
        problem = Problem("the file is missing, and others lead to it", missing)
        return VerifyReport(name, format, problems=(problem,), quick=quick)
    with opened:
        count, problems = _check(opened, quick, progress)
        if not quick and not problems:
            problems += _wrong_digest(opened)
        if nan and not quick:
            problems += _not_finite(opened)
        if duplicates and isinstance(opened, OpenedRecords):
            problems += _duplicates(opened)
        return VerifyReport(
            opened.name,
            opened.format,
            opened.holds,
            count,
            tuple(problems),
            _has_checksums(opened) and not quick,
            quick,
        )


def _check(
    opened: Opened, quick: bool, progress: Progress | None
) -> tuple[int | None, list[Problem]]:
    if isinstance(opened, OpenedRecords):
        return _check_records(opened, quick)
    try:
        infos = opened.infos()
        count = opened.count()
    except FormatError as error:
        return None, [Problem.of(error, opened.name)]
    if quick:
        return count, []
    if isinstance(opened, OpenedTensors):
        problems = []
        for place, name in enumerate(infos):
            problems += _problems_of(lambda name=name: release(opened.tensor(name)), opened)  # type: ignore[misc]
            if progress is not None:
                progress(place + 1, len(infos))
        return count, problems
    assert isinstance(opened, OpenedTable)
    damages = [
        replace(Problem.of(damage, opened.name), record=row)
        for row, damage in opened.table.check(progress)
        if not isinstance(damage, UnsupportedError)
    ]
    return count, damages


def _problems_of(read: Callable[[], Any], opened: Opened) -> list[Problem]:
    try:
        read()
    except UnsupportedError:  # what we cannot read is not what is damaged
        return []
    except FerryError as error:
        return [Problem.of(error, opened.name)]
    return []


def _check_records(opened: OpenedRecords, quick: bool) -> tuple[int, list[Problem]]:
    records = opened.records
    if quick:
        records = Records(opened.records.paths, on_error="skip", verify=False)
    problems: list[Problem] = []
    try:
        count = records.walk() if quick else records.verify()
    except FormatError as error:
        return 0, [Problem.of(error, opened.name)]
    for damage in records.damages:
        problems.append(
            Problem(
                f"{damage.problem} ({damage.size} bytes)",
                damage.path,
                damage.record,
                damage.offset,
                hint=f"ferry repair {damage.path} OUT keeps every whole record",
            )
        )
    if not opened.is_stream:
        problems += _misplaced_indexes(opened)
        if not quick and not problems:
            problems += _broken_examples(opened)
    return count, problems


def _broken_examples(opened: OpenedRecords) -> list[Problem]:
    """Whether records are Examples up to some place, and something else from there on."""
    if opened.is_raw:
        return []
    try:
        Records(opened.records.paths, infer="all").schema  # noqa: B018  # looked for when asked
    except FormatError as error:
        return [Problem.of(error, opened.name)]
    return []


def _misplaced_indexes(opened: OpenedRecords) -> Iterator[Problem]:
    for path in opened.files:
        if storage.is_url(path):
            continue
        with storage.open_source(path) as source:
            for suffix in indexes.SUFFIXES:
                beside = path + suffix
                if not os.path.exists(beside) or source.buffer is None:
                    continue
                if indexes.read(path, source.buffer) is None:
                    yield Problem(
                        "the index is older than its file, or does not fit it",
                        beside,
                        hint=f"ferry index {path} writes it again",
                    )


def _not_finite(opened: Opened) -> Iterator[Problem]:
    if isinstance(opened, OpenedRecords) and opened.is_stream:
        return
    counts: dict[str, list[int]] = {}
    try:
        for batch in opened.batches():
            for name, column in batch.items():
                for array in arrays_in(column):
                    found = counts.setdefault(name, [0, 0])
                    for chunk in chunks_of(array):
                        numbers = as_numbers(chunk)
                        if numbers.dtype.kind in "fc" and not np.isfinite(numbers).all():
                            found[0] += int(np.isnan(numbers).sum())
                            found[1] += int(np.isinf(numbers).sum())
    except FerryError:
        return  # it is among the problems already
    for name, (nan, infinite) in counts.items():
        if nan or infinite:
            yield Problem(f"{nan} values are NaN and {infinite} infinite", opened.name, tensor=name)


def arrays_in(column: Any) -> Iterator[Any]:
    """The arrays of numbers or strings that a column of any kind is made of."""
    if isinstance(column, list):
        for part in column:
            if part is not None:
                yield from arrays_in(part)
    elif isinstance(column, SparseTensor | RaggedTensor):
        yield values_of(column)
    else:
        array = np.asarray(column)
        if array.dtype != object:
            yield array


def _duplicates(opened: OpenedRecords) -> Iterator[Problem]:
    known: dict[bytes, int] = {}
    for number, record in enumerate(Records(opened.records.paths, raw=True, on_error="skip")):
        first = known.setdefault(blake2b(record, digest_size=16).digest(), number)
        if first != number:
            yield Problem(f"the same as record {first}", opened.name, record=number)


def _wrong_digest(opened: Opened) -> Iterator[Problem]:
    """Whether the content is not what a digest in the metadata says."""
    stored = opened.metadata.get(digests.KEY)
    if stored is None:
        return
    found = digests.digest_of(opened).digest
    if found != stored:
        yield Problem(
            f"the content's digest is {found}, {str(stored)[:80]!r} by the metadata", opened.name
        )


def _has_checksums(opened: Opened) -> bool:
    if opened.format in CHECKSUMMED or digests.KEY in opened.metadata:
        return True
    if not opened.files:
        return False
    if opened.format == "keras":  # an archive has them, an HDF5 file has none
        return opened.files[0].endswith(".keras")
    return compression_of(opened.files[0]) is not None
