"""Verification: whether every byte of a file is sound.

    ferry.verify("train-*.tfrecord").problems

Whatever a format has is checked: checksums, offsets, lengths, names that occur twice. All problems
that can be told apart are listed: each damaged record, each damaged tensor. A tensor that we cannot
read, though nothing is wrong with it, is no problem; `notes` names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Unpack

import numpy as np

from tensorferry import display
from tensorferry.cards import Card, Shown, Tone
from tensorferry.display import shown
from tensorferry.errors import (
    FerryError,
    FormatError,
    MissingExtraError,
    Problem as Problem,
    UnknownFormatError,
)
from tensorferry.files import keywords
from tensorferry.files.find import Found
from tensorferry.operations import glance, hash as digests
from tensorferry.operations.inspect import model_problems
from tensorferry.operations.measures import as_numbers, chunks_of
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.rows import Rows
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import RaggedTensor, SparseTensor

PARQUET = "parquet"
# How many columns a note names.
NAMED = 5


@dataclass(frozen=True, repr=False)
class VerifyReport(Shown):
    """What was checked, and what is wrong.

    Attributes:
        path: As it was named.
        format: The name of its format; None if it could not be opened.
        holds: "tensors", "records" or "rows".
        count: Number of tensors, or of whole records or rows.
        problems: What is wrong.
        checksums: Whether checksums cover the values, so that a changed bit shows.
        quick: Whether only the structure was looked at.
        notes: What could not be checked, and why.
    """

    path: str
    format: str | None = None
    holds: str | None = None
    count: int | None = None
    problems: tuple[Problem, ...] = ()
    checksums: bool = False
    quick: bool = False
    notes: tuple[str, ...] = ()

    def _card(self) -> Card:
        noun = {"tensors": "tensor", "records": "record", "rows": "row"}.get(
            self.holds or "", "part"
        )
        if self.problems:
            state = display.plural(len(self.problems), "problem")
        else:
            state = "sound" if self.checksums else "sound, as far as a file without checksums tells"
            state = "sound at a glance" if self.quick else state
        parts = [state, self.format or ""]
        if self.count is not None:
            parts.append(display.plural(self.count, noun))
        summary = ", ".join(part for part in parts if part)
        lines: list[tuple[Tone, str]] = [("bad", str(problem)) for problem in self.problems]
        lines += [("note", note) for note in self.notes]
        tone: Tone = "bad" if self.problems else "good"
        return Card("VerifyReport", self.path, summary, tone, lines=lines)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@keywords.shown(keywords.Opening)
def verify(
    path: Any,
    *,
    quick: bool = False,
    nan: bool = False,
    duplicates: bool = False,
    format: str | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> VerifyReport:
    """Checks a file: every checksum, offset and length.

        ferry.verify("model.safetensors").sound

    Args:
        path: What `tensorferry.open` takes.
        quick: Look at the structure only, not at the values.
        nan: Tell of numbers that are NaN or infinite.
        duplicates: Tell of records that are the same as one before.
        format: By default recognised.
        progress: True shows a bar; a function is told how many tensors or rows are done, and how
            many there are, if that is known.
        storage_options: For the store of a URL.
        **options: Of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnknownFormatError: No format recognises the file.
        OptionError: The format has no such option.
        OSError: The file cannot be read at all.
    """
    name = path.name if isinstance(path, Found) else shown(str(path))
    try:
        subject = open_one(
            path,
            format=format,
            storage_options=storage_options,
            options=options,
            verify=not quick,
            lenient=True,
        )
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
    unit: Unit = "rows" if isinstance(subject.opened, Rows) else "tensors"
    with subject, following(progress, name, unit) as tell:
        return _verified(subject, quick, nan, duplicates, tell)


def _verified(
    subject: Subject, quick: bool, nan: bool, duplicates: bool, progress: Progress | None
) -> VerifyReport:
    problems = _check(subject, quick, progress)
    if subject.format == glance.MODEL:
        problems += model_problems(subject.opened.place)
    if not quick and not problems:
        problems += _wrong_digest(subject)
    if nan and not quick:
        problems += _not_finite(subject)
    if duplicates and subject.facts.records:
        problems += _duplicates(subject)
    pages = _pages_without_checksum(subject)
    return VerifyReport(
        subject.name,
        subject.format,
        subject.holds,
        _count(subject),
        tuple(problems),
        not quick and not pages and _has_checksums(subject),
        quick,
        (*_notes(subject, problems), *pages),
    )


def _pages_without_checksum(subject: Subject) -> list[str]:
    """Says of Parquet files which pages have no checksum, so that damage there may not show."""
    if subject.format != PARQUET or not isinstance(subject.opened, Rows):
        return []
    from tensorferry.formats.parquet.checksums import count_pages

    notes = []
    for place in subject.opened.places:
        try:
            pages = count_pages(place.open())
        except (FerryError, OSError):  # it is among the problems already
            continue
        if pages.unchecked:
            columns = ", ".join(map(repr, list(pages.unchecked)[:NAMED]))
            more = len(pages.unchecked) - NAMED
            columns += f" and {more} columns more" if more > 0 else ""
            lacking = pages.total - pages.checked
            notes.append(
                f"{lacking} of {pages.total} pages have no checksum, of {columns}: {place.shown}"
            )
    return notes


def _check(subject: Subject, quick: bool, progress: Progress | None) -> list[Problem]:
    """What is wrong with the structure, and with the values unless only the structure counts."""
    try:
        # The frames of records are their structure.
        if not quick or subject.facts.records:
            return list(subject.opened.problems(progress))
        subject.infos  # noqa: B018  # looked up when asked
    except FormatError as error:
        return [Problem.of(error, subject.name)]
    return []


def _count(subject: Subject) -> int | None:
    try:
        return subject.count()
    except FormatError:  # it is among the problems already
        return None


def _notes(subject: Subject, problems: list[Problem]) -> tuple[str, ...]:
    """What cannot be read though nothing is wrong with it."""
    wrong = {problem.tensor for problem in problems}
    if isinstance(subject.opened, Rows) and subject.facts.records:
        return ()
    try:
        reasons = subject.unreadable
    except FormatError:
        return ()
    return tuple(
        f"the {subject.noun} {name!r} was not checked: {reason}"
        for name, reason in reasons.items()
        if name not in wrong
    )


def _not_finite(subject: Subject) -> Iterator[Problem]:
    """Tells of numbers that are NaN or infinite."""
    if subject.is_stream:
        return
    counts: dict[str, list[int]] = {}
    try:
        names = [name for name in subject.infos if name not in subject.unreadable]
        for batch in subject.batches(names):
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
            what = f"{nan} values are NaN and {infinite} infinite"
            yield Problem(what, subject.name, tensor=name)


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


def _duplicates(subject: Subject) -> Iterator[Problem]:
    """Tells of records that are the same as one before."""
    if not isinstance(subject.opened, Rows) or subject.is_stream:
        return
    known: dict[bytes, int] = {}
    for number, record in enumerate(subject.opened.bytes_of_records()):
        first = known.setdefault(blake2b(record, digest_size=16).digest(), number)
        if first != number:
            yield Problem(f"the same as record {first}", subject.name, record=number)


def _wrong_digest(subject: Subject) -> Iterator[Problem]:
    """Tells whether the content is not what a digest in the metadata says."""
    stored = subject.metadata.get(digests.KEY)
    if stored is None:
        return
    found = digests.digest_of(subject).digest
    if found != stored:
        yield Problem(
            f"the content's digest is {found}, {str(stored)[:80]!r} by the metadata", subject.name
        )


def _has_checksums(subject: Subject) -> bool:
    """Whether a changed bit shows: by the format, a compression of the file, or a digest."""
    opened = subject.opened
    return opened.checksums or opened.packed is not None or digests.KEY in subject.metadata
