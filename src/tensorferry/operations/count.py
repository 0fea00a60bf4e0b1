"""Counting: the number of rows or tensors, even if everything has to be read for it.

ferry.count("s3://bucket/train-*.tfrecord", engine="ray")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from tensorferry import engines
from tensorferry.classes import dataclass
from tensorferry.engines import Choice, Job
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.splitting import splits_of
from tensorferry.operations import conditions
from tensorferry.operations.nulls import rows_of
from tensorferry.operations.shares import records_in
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import Progress, following
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split

# Progress is reported after this many rows.
TOLD = 1000


@keywords.shown(keywords.Opening)
def count(
    path: Any,
    *,
    where: str | None = None,
    format: str | None = None,
    engine: Choice | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> int:
    """Counts the rows or tensors of a file.

        ferry.count("train-*.tfrecord")

    Tables have the number in their footers. TFRecord files are scanned frame by frame; compressed
    and remote ones are read completely.

    Args:
        path: Anything that `tensorferry.open` takes.
        where: Count only rows that fulfil a condition, such as "label in (3, 5)": see
            `tensorferry.operations.conditions`.
        format: By default detected from the bytes.
        engine: The engine that counts the parts: "local", "ray" or an engine; by default the
            calling thread.
        progress: True shows a bar; a function receives the number of rows counted; with an engine,
            the number of tasks done and the total.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        FormatError: A file is damaged.
        UnsupportedError: The condition is invalid, or names an unknown column.

    Examples:
        >>> with ferry.writer("train@2.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(5)})
        >>> ferry.count("train@2.tfrecord")
        5
    """
    with open_one(path, format=format, storage_options=storage_options, options=options) as subject:
        opened = subject.opened
        if where is not None:
            with following(progress, subject.name, "rows") as tell:
                return _count_fitting(subject, conditions.parse(where), engine, tell)
        if not isinstance(opened, Rows):
            return len(opened)
        records = records_in(opened)
        if records is not None:
            opened = records.as_bytes()
        if engine is None:
            with following(progress, subject.name, "rows") as tell:
                return _length(opened, tell)
        with following(progress, subject.name, "tasks") as tell:
            counts: list[int] = engines.run(CountJob(opened), engines.choose(engine), tell)
            return sum(counts)


def _count_fitting(
    subject: Subject,
    condition: conditions.Condition,
    engine: Choice | None,
    progress: Progress | None,
) -> int:
    """How many rows fit a condition."""
    if engine is not None:
        raise UnsupportedError("a condition is counted without an engine", hint="leave one out")
    names = list(condition.names) or list(subject.infos)[:1]
    subject.check_names(names)
    subject.check_readable(names)
    found = 0
    for number, row in enumerate(rows_of(subject, names), 1):
        found += condition.holds(row)
        if progress is not None and not number % TOLD:
            progress(number, None)
    return found


@dataclass(frozen=True)
class CountJob(Job[Split, "list[int]", "list[int]"]):
    """Counts the rows of each part of files.

    Attributes:
        rows: The opened rows.
        splits: The parts to count, if they are known already.
    """

    on_driver = ("rows", "splits")
    rows: Rows
    splits: tuple[Split, ...] | None = None

    def plan(self, size: int) -> list[Split]:
        """One task for each split."""
        return splits_of(self.rows, size) if self.splits is None else list(self.splits)

    def run(self, task: Split, held: Any) -> list[int]:
        """The numbers of rows of the parts of a split."""
        return [
            part.rows if part.rows is not None else _count_part(task, number)
            for number, part in enumerate(task.parts)
        ]

    def merge(self, partials: Iterable[list[int]]) -> list[int]:
        """The numbers of rows of all parts, in their order."""
        return [count for found in partials for count in found]


def _count_part(split: Split, number: int) -> int:
    with split.kind.of_parts([split.parts[number]], split.how, facts=split.facts) as rows:
        return _length(rows)


def _length(rows: Rows, progress: Progress | None = None) -> int:
    records = records_in(rows)
    return len(rows) if records is None else records.walk(progress)
