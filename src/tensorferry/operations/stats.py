"""Statistics of tensors and columns, in one pass and one batch at a time.

    ferry.stats("train.tfrecord").columns[0].values.mean

How values are summed up is `tensorferry.operations.measures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Unpack

import numpy as np

from tensorferry import display, engines
from tensorferry.cards import Card, Grid, Shown, Tone
from tensorferry.classes import dataclass, replace
from tensorferry.engines import Job
from tensorferry.files import keywords
from tensorferry.files.splitting import splits_of
from tensorferry.operations.measures import Measure, Summary
from tensorferry.operations.moments import moments_in
from tensorferry.operations.nulls import missing_lists
from tensorferry.operations.shares import Opening, all_processors, groups_of
from tensorferry.operations.subject import Subject
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.columns import length_of
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, TensorInfo


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one tensor or column.

    Attributes:
        name: Its name.
        dtype: Of the values.
        shape: None for each dimension that varies; of a row, where there are rows.
        kind: "dense", "string", "ragged", "sparse" or "list".
        rows: Number of rows; None for a tensor.
        missing: Number of rows that lack it.
        values: All values together; of strings, their lengths.
        lengths: Of ragged rows: the number of their values.
        moment: Of times and dates: Arrow's type, such as "timestamp[us]"; the values are counts.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    kind: str
    rows: int | None
    missing: int
    values: Summary
    lengths: Summary | None = None
    moment: str | None = None


@dataclass(frozen=True, repr=False)
class StatsReport(Shown):
    """The statistics of a file.

    Attributes:
        path: The path as it was given.
        holds: "tensors", "records" or "rows".
        rows: Number of records or rows.
        columns: One for each tensor or column that can be read.
        notes: The tensors or columns that cannot be read, and why.
    """

    path: str
    holds: str
    rows: int | None
    columns: tuple[ColumnStatistics, ...]
    notes: tuple[str, ...] = ()

    def _card(self) -> Card:
        noun = "tensor" if self.holds == "tensors" else "column"
        parts = [display.plural(len(self.columns), noun)]
        if self.rows is not None:
            parts.append(display.plural(self.rows, "row"))
        cells = [
            (
                one.name,
                one.dtype,
                display.shape(one.shape),
                display.number(one.missing or None),
                display.number(one.values.minimum),
                display.number(one.values.mean),
                display.number(one.values.maximum),
                display.number(one.values.deviation),
                display.number(one.values.nan or None),
            )
            for one in self.columns
        ]
        headers = ("name", "dtype", "shape", "null", "min", "mean", "max", "deviation", "NaN")
        lines: list[tuple[Tone, str]] = [("note", note) for note in self.notes]
        table = Grid(headers, cells, right=(3, 4, 5, 6, 7, 8), noun=noun)
        return Card("StatsReport", self.path, ", ".join(parts), grids=[table], lines=lines)


@keywords.shown(keywords.Opening)
def stats(
    path: Any,
    *,
    select: Sequence[str] = (),
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> StatsReport:
    """Computes statistics for each tensor or column of a file.

        ferry.stats("train-*.tfrecord").columns[0].values.mean

    Args:
        path: Anything that `tensorferry.open` takes.
        select: Patterns of names; other tensors or columns are left out.
        engine: The engine that measures the parts: "local", "ray" or an engine; by default the
            calling thread. Means and deviations are then combined from those of the parts, so their
            last digit may differ, and approximate quantiles come from a different sample.
        progress: True shows a bar; a function receives the number of tensors or rows done and the
            total; with an engine, the number of tasks.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Examples:
        >>> saved = ferry.save({"w": np.array([1.0, 3.0])}, "model.npz")
        >>> ferry.stats("model.npz").columns[0].values.mean
        2.0
    """
    opening = Opening.of(
        path, format=format, storage_options=storage_options, options=options, thorough=True
    )
    with ExitStack() as stack:
        subject = stack.enter_context(opening.open())
        in_rows = subject.holds != "tensors"
        unit: Unit = "tasks" if engine is not None else "rows" if in_rows else "tensors"
        tell = stack.enter_context(following(progress, subject.name, unit))
        if engine is None:
            opening.surveyed(subject, all_processors(opening, subject))
            columns = _columns(subject, subject.matching(select))
            return _report(subject, select, columns, _measure(subject, columns, tell))
        chosen = engines.choose(engine)
        opening = opening.surveyed(subject, chosen)
        return engines.run(StatsJob(opening, subject, tuple(select)), chosen, tell)


def _columns(subject: Subject, infos: Mapping[str, TensorInfo], seed: int = 0) -> Columns:
    optional = subject.optional  # which looks at all columns
    return {
        name: _Column(info, name in optional, seed)
        for name, info in infos.items()
        if info.unreadable is None
    }


def _measure(subject: Subject, columns: Columns, tell: Progress | None = None) -> int:
    """Measures tensors or columns; returns the number of rows or tensors."""
    in_rows = subject.holds != "tensors"
    total = None if tell is None else subject.count()
    missing = {
        name: lists[0]
        for name, lists in missing_lists(subject, list(columns)).items()
        if 0 in lists
    }
    done = 0
    for batch in subject.batches(list(columns)):
        first = next(iter(batch.values()), None)
        rows = length_of(first) if in_rows and first is not None else 1
        for name, column in batch.items():
            if name in missing:
                start, stop = np.searchsorted(missing[name], [done, done + rows])
                columns[name].add(column, missing[name][start:stop] - done)
            else:
                columns[name].add(column)
        done += rows
        if tell is not None:
            tell(done, total)
    return done


def _report(subject: Subject, match: Sequence[str], columns: Columns, done: int) -> StatsReport:
    rows = done if subject.holds != "tensors" else None
    moments = moments_in(subject.opened)
    found = tuple(
        replace(column.result(rows), moment=moments.get(name)) for name, column in columns.items()
    )
    notes = tuple(
        f"the {subject.noun} {name!r} cannot be read: {info.unreadable}"
        for name, info in subject.matching(match).items()
        if info.unreadable is not None
    )
    return StatsReport(subject.name, subject.holds, rows, found, notes)


@dataclass(frozen=True)
class StatsJob(Job["tuple[int, Split | tuple[str, ...]]", "tuple[Columns, int]", StatsReport]):
    """Measures rows split by split, and a bundle some tensors at a time.

    Attributes:
        opening: How all of it is opened.
        subject: The opened file.
        match: Patterns of names; others are left out.
    """

    on_driver = ("subject",)
    opening: Opening
    subject: Subject
    match: tuple[str, ...]

    def plan(self, size: int) -> list[tuple[int, Split | tuple[str, ...]]]:
        """Splits of rows, or names of tensors, each with its number."""
        opened = self.subject.opened
        if isinstance(opened, Rows):
            return list(enumerate(splits_of(opened, size)))
        infos = self.subject.matching(self.match)
        names = [name for name, info in infos.items() if info.unreadable is None]
        return [(0, group) for group in groups_of(self.subject, names, size)]

    def run(self, task: tuple[int, Split | tuple[str, ...]], held: Any) -> tuple[Columns, int]:
        """Measures a split, or some tensors."""
        seed, share = task
        if isinstance(share, tuple):
            with self.opening.again() as subject:
                columns = _columns(subject, {name: subject.infos[name] for name in share})
                return columns, _measure(subject, columns)
        with Subject(self.opening.found.name, share.open()) as subject:
            columns = _columns(subject, subject.matching(self.match), seed)
            return columns, _measure(subject, columns)

    def merge(self, partials: Iterable[tuple[Columns, int]]) -> StatsReport:
        """The statistics of all."""
        total = _columns(self.subject, self.subject.matching(self.match))
        rows = 0
        for columns, done in partials:
            rows += done
            for name, column in columns.items():
                total[name].merge(column)
        return _report(self.subject, self.match, total, rows)


Columns = dict[str, "_Column"]


class _Column:
    def __init__(self, info: TensorInfo, optional: bool, seed: int) -> None:
        self._info = info
        self._optional = optional
        self._seed = seed
        self._values = Measure(seed)
        self._lengths: Measure | None = None
        self._missing = 0

    def add(self, column: Any, missing: Array | None = None) -> None:
        """Takes in a column; a table says which of its lists are missing, and not only empty."""
        if isinstance(column, list):
            for value in column:
                if value is None:
                    self._missing += 1
                else:
                    self.add(value)
        elif isinstance(column, RaggedTensor):
            lengths = column.row_lengths
            if missing is not None:
                self._missing += missing.size
                lengths = np.delete(lengths, missing)
            if self._optional:
                self._missing += int((lengths == 0).sum())
            else:
                self._lengths = self._lengths or Measure(self._seed)
                self._lengths.add(lengths)
            self._values.add(column.flat_values)
        elif isinstance(column, SparseTensor):
            self._values.add(values_of(column))
        else:
            self._values.add(np.asarray(column))

    def merge(self, later: _Column) -> None:
        self._missing += later._missing
        self._values.merge(later._values)
        if later._lengths is not None:
            self._lengths = self._lengths or Measure(self._seed)
            self._lengths.merge(later._lengths)

    def result(self, rows: int | None) -> ColumnStatistics:
        info = self._info
        return ColumnStatistics(
            info.name,
            info.dtype,
            info.shape if rows is None else info.shape[1:],
            info.kind,
            rows,
            self._missing,
            self._values.summary(),
            None if self._lengths is None else self._lengths.summary(),
        )
