"""Shares: what one task of an operation works on, and how a subject is divided into them.

    opening = Opening(found, options=options, thorough=True)
    with opening.open_for(engine) as subject:
        splits_of(subject, size)            # rows, by about so many bytes
        groups_of(subject, names, size)     # tensors or columns, by name

Rows are divided by file, and large files inside (`Rows.splits`). Work that needs all rows of a
column in order, such as a digest, is divided by columns. Only the size of the shares depends on the
engine: the same size always gives the same shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorferry import engines
from tensorferry.classes import dataclass, field, replace
from tensorferry.engines import Engine, Job
from tensorferry.errors import FormatError
from tensorferry.files import keywords
from tensorferry.files.find import Found, resolve
from tensorferry.files.splitting import refuse_stream, splits_of
from tensorferry.formats.contract import Opened
from tensorferry.operations.subject import Subject, open_one
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split

if TYPE_CHECKING:
    from tensorferry.formats.tfrecord.records import Records
    from tensorferry.formats.tfrecord.survey import Survey

LARGE = 64 << 20
"""Number of bytes from which on files are worth dividing among processors without being asked."""


@dataclass(frozen=True)
class Opening:
    """How a subject is opened, on the driver and again by every worker that needs all of it.

    Attributes:
        found: The file to open.
        options: As the user gave them.
        verify: See `open_one`.
        thorough: See `open_one`.
        lenient: See `open_one`.
        survey: What all records hold, or the first error, once that was found in parts.
    """

    found: Found
    options: Mapping[str, Any] = field(default_factory=dict)
    verify: bool = True
    thorough: bool = False
    lenient: bool = False
    survey: Survey | FormatError | None = None

    @classmethod
    def of(
        cls,
        given: Any,
        *,
        format: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        options: keywords.Opening | None = None,
        verify: bool = True,
        thorough: bool = False,
        lenient: bool = False,
    ) -> Opening:
        """How something is opened; the arguments are those of `open_one`."""
        found = resolve(given, format=format, options=storage_options)
        return cls(found, dict(options or {}), verify, thorough, lenient)

    def open(self) -> Subject:
        """Opens all of it."""
        subject = open_one(
            self.found,
            options=keywords.Opening(**self.options),  # type: ignore[typeddict-item]  # as given
            verify=self.verify,
            thorough=self.thorough,
            lenient=self.lenient,
        )
        records = records_in(subject.opened)
        if self.survey is not None and records is not None:
            records.settle(self.survey)
        return subject

    def again(self) -> Subject:
        """Opens everything again for a task, because others may close their files."""
        places = [place.at(place.path) if place.is_named else place for place in self.found.places]
        return replace(self, found=replace(self.found, places=tuple(places))).open()

    def surveyed(self, subject: Subject, engine: Engine | None) -> Opening:
        """The same with what all records hold, if somebody has to look at them: in parts.

        Without an engine, records are looked at when they are asked for.
        """
        records = records_in(subject.opened)
        if engine is None or records is None or records.is_surveyed:
            return self
        found = engines.run(SurveyJob(records.as_bytes()), engine)
        records.settle(found)
        return replace(self, survey=found)


def all_processors(opening: Opening, subject: Subject) -> Engine | None:
    """The engine for local files that are large enough for all processors; None for others.

    Args:
        opening: How the subject was opened.
        subject: The opened file.
    """
    named = all(place.is_named and not place.is_url for place in opening.found.places)
    if not named or subject.is_stream or (subject.nbytes() or 0) < LARGE:
        return None
    return engines.Local()


@dataclass(frozen=True)
class SurveyJob(Job[Split, "Survey | FormatError", "Survey | FormatError"]):
    """Finds out what all records hold.

    Attributes:
        records: Given as bytes.
    """

    on_driver = ("records",)
    records: Records

    def plan(self, size: int) -> list[Split]:
        """One task for each split."""
        return splits_of(self.records, size)

    def run(self, task: Split, held: Any) -> Survey | FormatError:
        """Looks at the records of a split."""
        with task.open() as rows:
            records = records_in(rows)
            assert records is not None
            try:
                return records.survey()
            except FormatError as error:
                return error

    def merge(self, partials: Iterable[Survey | FormatError]) -> Survey | FormatError:
        """The survey of all records, or the first error."""
        from tensorferry.formats.tfrecord.survey import Survey

        total: Survey | FormatError = Survey()
        for found in partials:
            if isinstance(total, FormatError):
                continue
            total = found if isinstance(found, FormatError) else total + found
        return total


def records_in(opened: Opened) -> Records | None:
    """What was opened, if it is records; nothing is imported for it if it is not."""
    if not opened.facts.records:
        return None
    from tensorferry.formats.tfrecord.records import Records

    return opened if isinstance(opened, Records) else None


def groups_of(subject: Subject, names: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Names of tensors or columns in groups of about so many bytes, in their order."""
    if isinstance(subject.opened, Rows):
        refuse_stream(subject.opened)
    elif subject.opened.packed is not None:  # each worker would have to unpack all of it
        return [tuple(names)]
    if not names:
        return [()]
    total = subject.nbytes() or 0
    known = [subject.infos[name].nbytes for name in names]
    sizes = [one if one is not None else total // len(names) for one in known]
    groups: list[list[str]] = [[]]
    filled = 0
    for name, nbytes in zip(names, sizes, strict=True):
        if groups[-1] and filled + nbytes > size:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += nbytes
    return [tuple(group) for group in groups]
