"""Columns to tensors: the values of many records, shaped as the features of `tf.io` say.

A column has all values of one feature, divided into lists. In an Example or a context, each record
has one list; in a sequence, each record has any number of lists, its steps:

    values  a b c d e f      splits  0 2 2 5 6      lists  [a b] [] [c d e] [f]
                             rows    0 1 4          records  [[a b]]  [[] [c d e] [f]]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, check_budget
from tensorferry.tfio.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are parsed together.

    Attributes:
        size: The number of records.
        single: Whether it is a single record, whose results have no dimension for records.
        names: The names of the records in errors; empty to use their numbers.
        held: The number of bytes of all records.
    """

    size: int
    single: bool
    names: list[str]
    held: int

    def name_of(self, record: int) -> str:
        """The name of a record in errors."""
        return self.names[record] if self.names else f"record {record}"


@dataclass(frozen=True, slots=True)
class Column:
    """One feature of all records of a batch.

    Attributes:
        values: The values of all lists.
        splits: Where each list starts in the values, and where the last one ends.
        rows: Where each record starts in the lists, and where the last one ends.
        missing: The records without the feature; in an Example they have an empty list.
        sequence: Whether the feature is a sequence of SequenceExamples.
        batch: The records.
    """

    values: Array
    splits: Array
    rows: Array
    missing: Array
    sequence: bool
    batch: Batch

    def steps(self) -> Array:
        """The number of lists in each record."""
        steps = np.diff(self.rows)
        return steps.reshape(()) if self.batch.single else steps

    def check(self, good: Array, describe: Callable[[int], str]) -> None:
        """Raises an error for the first list that is not good.

        Args:
            good: Whether each list is good.
            describe: Returns what is wrong with a list, given its number.

        Raises:
            FormatError: A list is not good.
        """
        if not good.all():
            first = int(np.argmin(good))
            record = int(np.searchsorted(self.rows, first, "right")) - 1
            raise FormatError(describe(first), path=self.batch.name_of(record))


def to_tensor(key: str, feature: Any, columns: dict[str, Column]) -> Any:
    """The tensor of a feature in canonical form, from the columns of its parts.

    Raises:
        FormatError: A record does not have the values that the feature asks for.
    """
    match feature:
        case VarLenFeature():
            return _lists(columns[key])
        case SparseFeature():
            return _sparse(key, feature, columns)
        case RaggedFeature():
            return _ragged(key, feature, columns)
        case FixedLenFeature():
            array = _fixed(key, feature, columns[key])
        case _:
            array = _filled_up(key, feature, columns[key])
    return array[0, ...] if columns[key].batch.single else array


def _fixed(key: str, feature: FixedLenFeature, column: Column) -> Array:
    size = math.prod(feature.shape)
    present = np.ones(column.batch.size, np.bool_)
    present[column.missing] = False
    if feature.default_value is None or size == 0:
        column.check(present, lambda _: f"feature {key!r} is missing, and has no default_value")
    lengths = np.diff(column.splits)
    column.check(
        (lengths == size) | ~present,
        lambda number: (
            f"feature {key!r} has {lengths[number]} values, expected {size} for {feature.shape}"
        ),
    )
    if not column.missing.size:
        return column.values.reshape(column.batch.size, *feature.shape)
    array = np.empty((column.batch.size, *feature.shape), column.values.dtype)
    array[present] = column.values.reshape(-1, *feature.shape)
    array[~present] = feature.default_value
    return array


def _filled_up(key: str, feature: FixedLenSequenceFeature, column: Column) -> Array:
    size = math.prod(feature.shape)
    if size == 0:
        raise UnsupportedError(
            f"feature {key!r} has elements of shape {feature.shape}, without values"
        )
    values = np.diff(column.splits)
    if column.sequence:
        column.check(
            values == size,
            lambda step: f"a step of {key!r} has {values[step]} values, expected {size}",
        )
        lengths = np.diff(column.rows)
        if column.missing.size and not feature.allow_missing:
            raise FormatError(
                f"sequence {key!r} is missing, and allow_missing is False",
                path=column.batch.name_of(column.missing[0]),
            )
    else:
        column.check(
            values % size == 0,
            lambda number: (
                f"feature {key!r} has {values[number]} values, expected a multiple of {size}"
            ),
        )
        lengths = values // size
    shape = (column.batch.size, int(lengths.max(initial=0)), *feature.shape)
    elements = column.values.reshape(-1, *feature.shape)
    if len(elements) == shape[0] * shape[1]:
        return elements.reshape(shape)
    what = f"feature {key!r} filled up"
    check_budget(shape, elements.dtype, what=what, held=column.batch.held)
    fill = feature.default_value
    if fill is None:
        fill = b"" if elements.dtype == object else 0
    array = np.full(shape, fill, elements.dtype)
    array[np.arange(shape[1]) < lengths[:, np.newaxis]] = elements
    return array


def _lists(column: Column) -> SparseTensor:
    lengths = np.diff(column.splits)
    places, sizes = [_positions(column.splits)], [lengths.max(initial=0)]
    if column.sequence:
        places.insert(0, np.repeat(_positions(column.rows), lengths))
        sizes.insert(0, np.diff(column.rows).max(initial=0))
    return _sparse_tensor(column, places, sizes)


def _sparse(key: str, feature: SparseFeature, columns: dict[str, Column]) -> SparseTensor:
    column = columns[feature.value_key]
    keys_and_sizes = zip(feature.index_key, feature.size, strict=True)
    places = [_places(key, name, size, columns[name], column) for name, size in keys_and_sizes]
    sparse = _sparse_tensor(column, places, list(feature.size))
    if feature.already_sorted:
        return sparse
    order = np.lexsort(sparse.indices.T[::-1])
    return SparseTensor(sparse.indices[order], sparse.values[order], sparse.dense_shape)


def _places(key: str, name: str, size: int, given: Column, column: Column) -> Array:
    """The indices of one dimension, checked against its size and the values of the column."""
    counts, lengths = np.diff(given.splits), np.diff(column.splits)
    column.check(
        counts == lengths,
        lambda number: (
            f"feature {key!r} has {lengths[number]} values and {counts[number]} indices in {name!r}"
        ),
    )
    inside = (given.values >= 0) & (given.values < size)
    column.check(
        _all_of(inside, given.splits),
        lambda _: (
            f"feature {key!r} has the index {given.values[np.argmin(inside)]} in {name!r}, "
            f"expected 0 to {size - 1}"
        ),
    )
    return given.values


def _sparse_tensor(column: Column, places: list[Array], sizes: list[int]) -> SparseTensor:
    """A sparse tensor with the values of a column at these places in their records."""
    if not column.batch.single:
        ends = column.splits[column.rows]
        places = [np.repeat(np.arange(column.batch.size), np.diff(ends)), *places]
        sizes = [column.batch.size, *sizes]
    # The indices of a dimension are contiguous, because SparseTensor checks them by dimension.
    return SparseTensor(np.stack(places).T, column.values, np.array(sizes, np.int64))


def _ragged(key: str, feature: RaggedFeature, columns: dict[str, Column]) -> Any:
    column = columns[str(feature.value_key)]
    values, splits = column.values, column.splits
    nested: list[Array] = []
    for partition in reversed(feature.partitions):
        if not isinstance(partition, RaggedFeature.UniformRowLength):
            lengths, splits = _partition(key, partition, columns[partition.key], column, splits)
            nested.insert(0, _splits_of(lengths))
            continue
        splits = _uniform(key, partition.length, column, splits)
        if nested:
            nested.insert(0, np.arange(splits[-1] + 1) * partition.length)
        else:
            values = values.reshape(splits[-1], partition.length, *values.shape[1:])
    if column.sequence or not column.batch.single:
        nested.insert(0, splits)
    if column.sequence and not column.batch.single:
        nested.insert(0, column.rows)
    if not nested:
        return values
    dtype = feature.row_splits_dtype.numpy
    return RaggedTensor(values, tuple(level.astype(dtype, copy=False) for level in nested))


def _uniform(key: str, length: int, column: Column, items: Array) -> Array:
    """Where the rows of each list start and the last ones end, as in `_partition`."""
    sizes = np.diff(items)
    column.check(
        sizes % length == 0,
        lambda number: f"feature {key!r} has {sizes[number]} elements for rows of {length}",
    )
    splits: Array = items // length
    return splits


def _partition(
    key: str, partition: Any, given: Column, column: Column, items: Array
) -> tuple[Array, Array]:
    """The rows into which a partition divides the items of each list.

    Args:
        key: The key of the feature, for errors.
        partition: How `given` describes the rows.
        given: The column that describes them.
        column: The column whose lists are divided.
        items: Where the items of each list start, and where the last ones end.

    Returns:
        The lengths of the rows, and where the rows of each list start and the last ones end.
    """
    if column.sequence:
        _check_steps(key, partition, given, column)
    sizes = np.diff(items)

    def describe(number: int) -> str:
        name = f"{type(partition).__name__}({partition.key!r})"
        return f"feature {key!r} has {sizes[number]} elements, which {name} does not divide"

    # Checked before any arithmetic, which would overflow on impossible numbers.
    by_value = isinstance(partition, RaggedFeature.ValueRowIds)
    largest = 2**62 if by_value else np.repeat(sizes, np.diff(given.splits))
    possible = (given.values >= 0) & (given.values <= largest)
    column.check(_all_of(possible, given.splits), describe)
    lengths, splits = _row_lengths(key, partition, given, sizes)
    fits = np.diff(_splits_of(lengths)[splits]) == sizes
    column.check(fits & _all_of(lengths >= 0, splits), describe)
    return lengths, splits


def _check_steps(key: str, partition: Any, given: Column, column: Column) -> None:
    found, expected = np.diff(given.rows), np.diff(column.rows)
    different = np.flatnonzero(found != expected)
    if different.size:
        record = int(different[0])
        raise FormatError(
            f"sequence {partition.key!r} has {found[record]} steps, expected {expected[record]} "
            f"as in {key!r}",
            path=column.batch.name_of(record),
        )


def _row_lengths(key: str, partition: Any, given: Column, sizes: Array) -> tuple[Array, Array]:
    """The rows as in `_partition`, not yet checked."""
    numbers, splits = given.values, given.splits
    counts = np.diff(splits)
    filled = counts > 0
    firsts, lasts = splits[:-1][filled], splits[1:][filled] - 1
    steps = np.diff(numbers, prepend=0)
    steps[firsts] = numbers[firsts]
    match partition:
        case RaggedFeature.RowLengths():
            return numbers, splits
        case RaggedFeature.RowLimits():
            return steps, splits
        case RaggedFeature.RowSplits():
            return np.delete(steps, firsts), _splits_of(np.maximum(counts - 1, 0))
        case RaggedFeature.RowStarts():
            limits = np.append(numbers, 0)[1:]
            limits[lasts] = sizes[filled]
            return limits - numbers, splits
    if (steps < 0).any():
        return steps, splits
    rows = np.zeros(len(counts), np.int64)
    rows[filled] = numbers[lasts] + 1
    check_budget((int(rows.sum(dtype=np.float64)),), rows.dtype, what=f"the rows of {key!r}")
    splits = _splits_of(rows)
    ids = numbers + np.repeat(splits[:-1], counts)
    return np.bincount(ids, minlength=int(splits[-1])), splits


def _all_of(good: Array, splits: Array) -> Array:
    """Whether all elements of each list are good."""
    result: Array = np.diff(_splits_of(~good)[splits]) == 0
    return result


def _splits_of(lengths: Array) -> Array:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def _positions(splits: Array) -> Array:
    """The position of each element in its own list."""
    result: Array = np.arange(splits[-1]) - np.repeat(splits[:-1], np.diff(splits))
    return result
