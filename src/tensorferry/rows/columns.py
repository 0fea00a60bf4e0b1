"""Columns: the values of some rows under one name; slicing, choosing and joining their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.tensors.values import (
    Array,
    RaggedTensor,
    SparseTensor,
    Tensor,
    concatenate,
)

Column = Tensor | list[Any]
"""The values of all rows. A list has tensors of different shapes, and None for a missing one."""

Batch = dict[str, Column]
"""Columns of one length, by name."""


def homes_of(leaves: Iterable[str], columns: Iterable[str]) -> dict[str, str | None]:
    """The column that each leaf is in: itself, or the struct around it; None if there is none.

    Args:
        leaves: Names such as "a" or "a/b".
        columns: The names of all columns.
    """
    known = frozenset(columns)
    lengths = sorted({len(name) for name in known}, reverse=True)
    homes: dict[str, str | None] = {}
    for leaf in leaves:
        around = (leaf[:size] for size in lengths if size < len(leaf) and leaf[size] == "/")
        inside = (name for name in around if name in known)
        homes[leaf] = leaf if leaf in known else next(inside, None)
    return homes


def length_of(column: Column) -> int:
    """Number of rows of a column."""
    return int(column.shape[0]) if isinstance(column, SparseTensor) else len(column)


def rows_between(column: Column, start: int, stop: int) -> Column:
    """The rows of a column from `start` to `stop`."""
    if isinstance(column, RaggedTensor):
        return _of_ragged(column, start, stop)
    if isinstance(column, SparseTensor):
        chosen = (column.indices[:, 0] >= start) & (column.indices[:, 0] < stop)
        indices = column.indices[chosen].copy()
        indices[:, 0] -= start
        shape = column.dense_shape.copy()
        shape[0] = stop - start
        return SparseTensor(indices, column.values[chosen], shape)
    return column[start:stop]


def slice_rows(columns: Mapping[str, Column], start: int, stop: int) -> Batch:
    """The rows of columns from `start` to `stop`."""
    return {name: rows_between(column, start, stop) for name, column in columns.items()}


def _of_ragged(column: RaggedTensor, start: int, stop: int) -> RaggedTensor:
    nested = []
    for splits in column.nested_row_splits:
        part = splits[start : stop + 1]
        nested.append(part - part[0])
        start, stop = int(part[0]), int(part[-1])
    return RaggedTensor.trusted(column.flat_values[start:stop], tuple(nested))


def taken(column: Column, rows: Array) -> Column:
    """The rows of a column at some places, in the order asked for; a place may come twice.

    Args:
        column: An array, a ragged or sparse tensor, or a list of arrays.
        rows: int64, from 0 to the number of rows.
    """
    if isinstance(column, RaggedTensor):
        chosen: RaggedTensor = column[rows]
        return chosen
    if isinstance(column, SparseTensor):
        order = np.argsort(column.indices[:, 0], kind="stable")
        entries = column.indices[order, 0]
        splits = np.searchsorted(entries, np.arange(length_of(column) + 1))
        lengths, inner = _inside(splits, rows)
        indices = column.indices[order[inner]].copy()
        indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)
        shape = column.dense_shape.copy()
        shape[0] = len(rows)
        return SparseTensor(indices, column.values[order[inner]], shape)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def _inside(splits: Array, rows: Array) -> tuple[Array, Array]:
    """The lengths of some rows, and the places of their values, one row behind the other."""
    starts = splits[rows].astype(np.int64)
    lengths = splits[rows + 1].astype(np.int64) - starts
    before = np.cumsum(lengths) - lengths
    return lengths, np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def joined(batches: Sequence[Mapping[str, Column]]) -> Batch:
    """The columns of batches of the same columns, one behind the other."""
    if len(batches) == 1:
        return dict(batches[0])
    return {name: _joined([batch[name] for batch in batches]) for name in batches[0]}


def _joined(parts: list[Any]) -> Column:
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    return concatenate(parts)


def batches_of(columns: Mapping[str, Column], rows: int) -> Iterator[Batch]:
    """Columns of one length in pieces of so many rows."""
    length = length_of(next(iter(columns.values()))) if columns else 0
    for start in range(0, length, rows):
        yield slice_rows(columns, start, min(start + rows, length))


def part_of(column: Column, index: tuple[int | slice, ...]) -> Any:
    """A slice of a column of any kind: rows first, then what is wanted of each."""
    if isinstance(column, np.ndarray):
        return column[index]
    if isinstance(column, SparseTensor):
        if index:
            raise UnsupportedError("a sparse tensor has no slices", hint="show all of it")
        return column
    if not index:
        return column
    first, rest = index[0], index[1:]
    if isinstance(first, int):
        row = column[first]
        return part_of(row, rest) if isinstance(row, np.ndarray | RaggedTensor) else row
    rows = [column[number] for number in range(*first.indices(len(column)))]
    rows = [part_of(row, rest) if rest else row for row in rows]
    if isinstance(column, RaggedTensor) and rows and not any(isinstance(i, int) for i in rest):
        return RaggedTensor.from_rows(
            [row.to_list() if isinstance(row, RaggedTensor) else row for row in rows],
            dtype=column.dtype,
        )
    return rows


def nbytes_of(held: Any) -> int:
    """Number of bytes of Arrow's values; of their buffers, where PyArrow cannot tell (views)."""
    try:
        return int(held.nbytes)
    except TypeError:
        return int(held.get_total_buffer_size())
