"""Verification: whether every byte of a file is sound.

    ferry.verify("train-*.tfrecord").problems

Everything the format has is checked: checksums, offsets, lengths, duplicate names. Each damaged
record and each damaged tensor is listed. A sound tensor of a kind that we cannot read is not a
problem; `notes` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tensorferry import display, engines
from tensorferry.cards import Card, Shown, Tone
from tensorferry.classes import dataclass, field, replace
from tensorferry.display import shown
from tensorferry.engines import Job
from tensorferry.errors import (
    FerryError,
    FormatError,
    OptionError,
    Problem as Problem,
    UnknownFormatError,
    UnsupportedError,
)
from tensorferry.files import keywords
from tensorferry.files.find import Found
from tensorferry.files.splitting import splits_of
from tensorferry.operations import glance, hash as digests, oddities
from tensorferry.operations.fileinfo import model_problems
from tensorferry.operations.shares import Opening, all_processors, groups_of, records_in
from tensorferry.operations.subject import Subject
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle

if TYPE_CHECKING:
    from tensorferry.formats.tfrecord.survey import Survey

PARQUET = "parquet"
# How many columns a note names.
NAMED = 5


@dataclass(frozen=True, repr=False)
class VerifyReport(Shown):
    """The result of `verify`.

    Attributes:
        path: The path as it was given.
        format: The name of its format; None if it could not be opened.
        holds: "tensors", "records" or "rows".
        count: Number of tensors, or of whole records or rows.
        problems: The problems found.
        checksums: Whether checksums cover the values, so that a changed bit is detected.
        quick: Whether only the structure was checked.
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
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> VerifyReport:
    """Checks a file: every checksum, offset and length.

        ferry.verify("model.safetensors").sound

    Args:
        path: Anything that `tensorferry.open` takes.
        quick: Check only the structure, not the values.
        nan: Report numbers that are NaN or infinite.
        duplicates: Report records that repeat an earlier one.
        format: By default detected from the bytes.
        engine: The engine that checks the parts: "local", "ray" or an engine; by default the
            calling thread, and threads of this process for large local files.
        progress: True shows a bar; a function receives the number of tensors or rows done and the
            total, if known; with an engine, the number of tasks.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnknownFormatError: No format recognises the file.
        OptionError: The format has no such option; `quick` and `nan` are given; `duplicates` is
            given for a file without records.
        UnsupportedError: `nan` or `duplicates` is given for a stream.
        OSError: The file cannot be read at all.

    Examples:
        >>> saved = ferry.save({"w": np.zeros(3)}, "model.npz")
        >>> ferry.verify("model.npz").sound
        True
    """
    name = path.name if isinstance(path, Found) else shown(str(path))
    if quick and nan:
        raise OptionError("quick looks at no values, and nan does: expected one of them")
    try:
        opening = Opening.of(
            path,
            format=format,
            storage_options=storage_options,
            options=options,
            verify=not quick,
            lenient=True,
        )
        subject = opening.open()
    except (FormatError, FileNotFoundError) as error:
        problem = _damage(error, name)
        if problem is None:
            raise
        return VerifyReport(name, format, problems=(problem,), quick=quick)
    chosen = all_processors(opening, subject) if engine is None else engines.choose(engine)
    unit: Unit = "rows" if isinstance(subject.opened, Rows) else "tensors"
    with subject, following(progress, name, unit if chosen is None else "tasks") as tell:
        _check_wishes(subject, nan, duplicates)
        if chosen is None or (quick and not subject.facts.records):
            report = _verified(subject, quick, nan, duplicates, tell)
        else:
            job = VerifyJob(opening, subject, quick, nan, duplicates)
            found = engines.run(job, chosen, tell)
            report = _merged(subject, found, quick, opening, chosen)
        return report


def _damage(error: FormatError | FileNotFoundError, name: str) -> Problem | None:
    """What is wrong with a file that cannot be opened; None if it is another file than expected."""
    if isinstance(error, FormatError):
        return None if isinstance(error, UnknownFormatError) else Problem.of(error, name)
    missing = error.filename
    if not isinstance(missing, str) or missing == name:
        return None
    # An index is there, and a file that it leads to is not.
    return Problem("the file is missing, and others lead to it", missing)


def _check_wishes(subject: Subject, nan: bool, duplicates: bool) -> None:
    """Refuses to look for what cannot be found.

    Raises:
        OptionError: Only records are told apart.
        UnsupportedError: A stream would have to be read twice.
    """
    if duplicates and not subject.facts.records:
        raise OptionError(
            f"duplicates are looked for among records, found {subject.holds} ({subject.format})",
            path=subject.name,
        )
    if subject.is_stream and (nan or duplicates):
        raise UnsupportedError(
            "a stream is read once, and looking for NaN or duplicates reads it again",
            path=subject.name,
            hint="copy the stream into a file",
        )


@dataclass(frozen=True)
class Checked:
    """What was found in some parts of files, or of some tensors.

    Attributes:
        problems: What is wrong with frames, pieces or tensors.
        indexes: Indexes that do not fit their files.
        counts: The file, the number of its first record, and the number of whole records of each
            part of records, with the number of problems before it.
        survey: What the records hold; the first record that is no Example.
        numbers: Of each column, how many values are NaN, and how many infinite; None if not all
            could be read.
        records: The digests of the records, one behind the other.
        pages: Notes on pages without a checksum.
    """

    problems: tuple[Problem, ...] = ()
    indexes: tuple[Problem, ...] = ()
    counts: tuple[tuple[str, int, int, int], ...] = ()
    survey: Survey | Problem | None = None
    numbers: Mapping[str, tuple[int, int]] | None = field(default_factory=dict)
    records: bytes = b""
    pages: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyJob(Job["Split | tuple[str, ...]", Checked, "list[Checked]"]):
    """Checks rows split by split, and a bundle some tensors at a time.

    Attributes:
        opening: How all of it is opened.
        subject: The opened file.
        quick: See `verify`.
        nan: See `verify`.
        duplicates: See `verify`.
    """

    on_driver = ("subject",)
    opening: Opening
    subject: Subject
    quick: bool
    nan: bool
    duplicates: bool

    def plan(self, size: int) -> Sequence[Split | tuple[str, ...]]:
        """Splits of rows, or names of tensors."""
        opened = self.subject.opened
        if isinstance(opened, Rows):
            return splits_of(opened, size)
        try:
            return groups_of(self.subject, list(opened), size)
        except FormatError:  # its one task tells of it
            return [()]

    def run(self, task: Split | tuple[str, ...], held: Any) -> Checked:
        """Checks a split, or some tensors."""
        if isinstance(task, tuple):
            with self.opening.again() as subject:
                assert isinstance(subject.opened, Bundle)
                problems = _problems(subject.opened.problems(names=task or None), subject.name)
                numbers = oddities.count_not_finite(subject, task) if self.nan else {}
                return Checked(problems, numbers=numbers)
        name = self.opening.found.name
        if task.facts.records:
            return self._check_records(task, name)
        with task.open() as rows:
            subject = Subject(name, rows)
            problems = _problems(rows.problems(), name)
            numbers = oddities.count_not_finite(subject) if self.nan else {}
        first = [part.place for part in task.parts if not part.start]
        return Checked(problems, numbers=numbers, pages=tuple(_pages_of(task.facts.name, first)))

    def _check_records(self, split: Split, name: str) -> Checked:
        from tensorferry.formats.tfrecord.survey import Survey

        problems: list[Problem] = []
        indexes: list[Problem] = []
        counts = []
        surveys = Survey()
        survey: Survey | Problem | None = None
        records = b""
        for part in split.parts:
            with split.kind.of_parts([part], split.how, facts=split.facts) as rows:
                found = records_in(rows)
                assert found is not None
                before = len(problems)
                problems += _problems(found.damaged(), name)
                counts.append((part.place.path, part.first, found.count() or 0, before))
                if not part.start:
                    indexes += found.misfitting_indexes()
                if not problems and not self.quick and not found.is_raw and survey is None:
                    try:
                        surveys += found.survey("raise")
                    except FormatError as error:
                        survey = Problem.of(error, rows.place.path)
                if self.duplicates:
                    records += b"".join(map(oddities.digest_of, rows.bytes_of_records()))
        numbers: Mapping[str, tuple[int, int]] | None = {}
        if self.nan:
            with split.open() as rows:
                numbers = oddities.count_not_finite(Subject(name, rows))
        return Checked(
            tuple(problems), tuple(indexes), tuple(counts), survey or surveys, numbers, records
        )

    def merge(self, partials: Iterable[Checked]) -> list[Checked]:
        """All that was found, with the numbers that records have in their whole files."""
        found = []
        whole: dict[str, int] = {}
        for one in partials:
            problems = list(one.problems)
            for place, (path, first, count, start) in enumerate(one.counts):
                # A part was cut by counting frames, and problems count whole records.
                shift = whole.get(path, 0) - first if first else 0
                following = [counted[3] for counted in one.counts[place + 1 : place + 2]]
                stop = following[0] if following else len(problems)
                for number in range(start, stop if shift else start):
                    known = problems[number].record
                    if known is not None:
                        problems[number] = replace(problems[number], record=known + shift)
                whole[path] = whole.get(path, 0) + count
            found.append(replace(one, problems=tuple(problems)))
        return found


def _merged(
    subject: Subject, found: list[Checked], quick: bool, opening: Opening, engine: engines.Engine
) -> VerifyReport:
    """The report, of what was found in parts."""
    problems = [problem for one in found for problem in one.problems]
    problems += [problem for one in found for problem in one.indexes]
    if not problems:
        problems += _misfits(found, subject.opened.place.path)
    if subject.format == glance.MODEL:
        problems += _model_problems(subject)
    if not quick and not problems:
        problems += _wrong_digest(subject, opening, engine)
    problems += oddities.not_finite([one.numbers for one in found], subject.name)
    digests_of_records = b"".join(one.records for one in found)
    each = range(0, len(digests_of_records), oddities.DIGEST)
    known = (digests_of_records[at : at + oddities.DIGEST] for at in each)
    problems += oddities.duplicates(known, subject)
    pages = [note for one in found for note in one.pages]
    count = sum(part[2] for one in found for part in one.counts)
    return VerifyReport(
        subject.name,
        subject.format,
        subject.holds,
        count if subject.facts.records else _count(subject),
        tuple(problems),
        not quick and not pages and _has_checksums(subject),
        quick,
        (*_notes(subject, problems), *pages),
    )


def _misfits(found: list[Checked], path: str) -> list[Problem]:
    """Tells of records that are no Examples, or are of other kinds than those before."""
    from tensorferry.formats.tfrecord.survey import Survey

    total = Survey()
    for one in found:
        if isinstance(one.survey, Problem):
            return [one.survey]
        if one.survey is not None:
            total += one.survey
    try:
        total.schema()
    except FormatError as error:
        return [Problem.of(error, path)]
    return []


def _problems(found: Iterator[Problem], name: str) -> tuple[Problem, ...]:
    """Problems, those that stop the search among them."""
    problems: list[Problem] = []
    try:
        problems.extend(found)
    except FormatError as error:
        problems.append(Problem.of(error, name))
    return tuple(problems)


def _verified(
    subject: Subject, quick: bool, nan: bool, duplicates: bool, progress: Progress | None
) -> VerifyReport:
    problems = _check(subject, quick, progress)
    if subject.format == glance.MODEL:
        problems += _model_problems(subject)
    if not quick and not problems:
        problems += _wrong_digest(subject)
    if nan:
        problems += oddities.not_finite([oddities.count_not_finite(subject)], subject.name)
    if duplicates and isinstance(subject.opened, Rows):
        records = subject.opened.bytes_of_records()
        problems += oddities.duplicates(map(oddities.digest_of, records), subject)
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


def _model_problems(subject: Subject) -> list[Problem]:
    opened = subject.opened
    assert isinstance(opened, Bundle)
    return model_problems(opened.place, opened.details.model)


def _pages_without_checksum(subject: Subject) -> list[str]:
    """Says of Parquet files which pages have no checksum, so that damage there may not show."""
    opened = subject.opened
    return _pages_of(subject.format, opened.places) if isinstance(opened, Rows) else []


def _pages_of(format: str, places: Sequence[Place]) -> list[str]:
    if format != PARQUET:
        return []
    from tensorferry.formats.parquet.checksums import count_pages

    notes = []
    for place in places:
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


def _wrong_digest(
    subject: Subject, opening: Opening | None = None, engine: engines.Engine | None = None
) -> Iterator[Problem]:
    """Tells whether the content is not what a digest in the metadata says."""
    stored = subject.metadata.get(digests.KEY)
    if stored is None:
        return
    tree = not str(stored).startswith(f"{digests.PLAIN}:")
    if opening is None or engine is None:
        found = digests.digest_of(subject, tree=tree).digest
    else:
        found = engines.run(digests.HashJob(opening, subject, tree=tree), engine).digest
    if found != stored:
        yield Problem(
            f"the content's digest is {found}, {str(stored)[:80]!r} by the metadata", subject.name
        )


def _has_checksums(subject: Subject) -> bool:
    """Whether a changed bit shows: by the format, a compression of the file, or a digest."""
    opened = subject.opened
    return opened.checksums or opened.packed is not None or digests.KEY in subject.metadata
