"""Statistics of tensors and columns, in one pass and one batch at a time.

    collect("train.tfrecord").columns[0].values.mean

How values are summed up is `tensorferry.operations.measures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from tensorferry import display
from tensorferry.cards import Card, Grid, Shown, Tone
from tensorferry.files import keywords
from tensorferry.operations.measures import Measure, Summary
from tensorferry.operations.moments import moments_in
from tensorferry.operations.subject import open_one
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.columns import length_of
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import RaggedTensor, SparseTensor, TensorInfo


@dataclass(frozen=True)
class ColumnStatistics:
    """What was found of one tensor or column.

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
    """Statistics of what is in a file.

    Attributes:
        path: As it was named.
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
def collect(
    path: Any,
    *,
    match: Sequence[str] = (),
    progress: Progress | bool | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> StatsReport:
    """Statistics of each tensor or column of a file.

    Args:
        path: What `tensorferry.open` takes.
        match: Patterns of names; others are left out.
        progress: True shows a bar; a function is told how many tensors or rows are done, and how
            many there are.
        format: By default recognised.
        storage_options: For the store of a URL.
        **options: Of the format: see `tensorferry.files.keywords.Opening`.
    """
    with ExitStack() as stack:
        subject = stack.enter_context(
            open_one(
                path, format=format, storage_options=storage_options, options=options, thorough=True
            )
        )
        unit: Unit = "tensors" if subject.holds == "tensors" else "rows"
        tell = stack.enter_context(following(progress, subject.name, unit))
        infos = subject.matching(match)
        columns = {
            name: _Column(info, name in subject.optional)
            for name, info in infos.items()
            if info.unreadable is None
        }
        in_rows = subject.holds != "tensors"
        total = subject.count()
        done = 0
        for batch in subject.batches(list(columns)):
            for name, column in batch.items():
                columns[name].add(column)
            first = next(iter(batch.values()), None)
            done += length_of(first) if in_rows and first is not None else 1
            if tell is not None:
                tell(done, total)
        rows = done if in_rows else None
        moments = moments_in(subject.opened)
        found = tuple(
            replace(column.result(rows), moment=moments.get(name))
            for name, column in columns.items()
        )
        notes = tuple(
            f"the {subject.noun} {name!r} cannot be read: {info.unreadable}"
            for name, info in infos.items()
            if info.unreadable is not None
        )
        return StatsReport(subject.name, subject.holds, rows, found, notes)


class _Column:
    def __init__(self, info: TensorInfo, optional: bool) -> None:
        self._info = info
        self._optional = optional
        self._values = Measure()
        self._lengths: Measure | None = None
        self._missing = 0

    def add(self, column: Any) -> None:
        if isinstance(column, list):
            for value in column:
                if value is None:
                    self._missing += 1
                else:
                    self.add(value)
        elif isinstance(column, RaggedTensor):
            lengths = column.row_lengths
            if self._optional:
                self._missing += int((lengths == 0).sum())
            else:
                self._lengths = self._lengths or Measure()
                self._lengths.add(lengths)
            self._values.add(column.flat_values)
        elif isinstance(column, SparseTensor):
            self._values.add(values_of(column))
        else:
            self._values.add(np.asarray(column))

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
