"""Statistics of tensors, features and columns, in one pass and one batch at a time.

    collect("train.tfrecord").columns[0].values.mean

How values are summed up is `tensorferry.operations.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorferry.operations.list import is_match
from tensorferry.operations.measures import Measure, Summary
from tensorferry.operations.opened import Opened, open_input
from tensorferry.rows.columns import length_of
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import RaggedTensor, SparseTensor, TensorInfo


@dataclass(frozen=True)
class ColumnStatistics:
    """What was found of one tensor, feature or column.

    Attributes:
        name: Its name.
        dtype: Of the values.
        shape: None for each dimension that varies; of a row, where there are rows.
        kind: "dense", "string", "ragged", "sparse" or "list".
        rows: How many rows it has; None for a tensor.
        missing: In how many of these it is not there.
        values: All values together; of strings, their lengths.
        lengths: Of ragged rows: how many values they have.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    kind: str
    rows: int | None
    missing: int
    values: Summary
    lengths: Summary | None = None


@dataclass(frozen=True)
class StatsReport:
    """Statistics of what is in a file.

    Attributes:
        path: As it was named.
        holds: "tensors", "records" or "rows".
        rows: How many records or rows there are.
        columns: One for each tensor, feature or column.
    """

    path: str
    holds: str
    rows: int | None
    columns: tuple[ColumnStatistics, ...]


def collect(
    path: Any,
    *,
    match: Sequence[str] = (),
    progress: Callable[[int, int | None], None] | None = None,
    **options: Any,
) -> StatsReport:
    """Statistics of each tensor, feature or column of a file.

    Args:
        path: Whatever `tensorferry.open` takes.
        match: Patterns of names; others are left out.
        progress: Is told how many tensors or rows are done, and of how many.
        **options: Of `tensorferry.open`.
    """
    with open_input(path, thorough=True, **options) as opened:
        infos = {name: info for name, info in opened.infos().items() if is_match(name, match)}
        optional = opened.optional()
        columns = {name: _Column(info, name in optional) for name, info in infos.items()}
        total = opened.count()
        done = 0
        for batch in opened.batches(columns=list(infos)):
            for name, column in batch.items():
                columns[name].add(column)
            first = next(iter(batch.values()), None)
            done += 1 if opened.holds == "tensors" or first is None else length_of(first)
            if progress is not None:
                progress(done, total)
        return _report(opened, columns, done)


def _report(opened: Opened, columns: dict[str, _Column], done: int) -> StatsReport:
    rows = None if opened.holds == "tensors" else done
    found = tuple(column.result(rows) for column in columns.values())
    return StatsReport(opened.name, opened.holds, rows, found)


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
