"""What NumPy users expect of a ragged tensor: slices, dense forms, comparison, printing.

    ragged.to_dense(-1)        # every row as long as the longest, filled with -1
    ragged.pad_to(128)         # every row of 128 values: filled or cut
    ragged[1:3], ragged[[2, 0]], ragged[mask]
    ragged == other            # ragged, of bools; (ragged == other).all()

`RaggedTensor` itself, with its checks, is in `tensorferry.tensors.values`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from tensorferry import _native
from tensorferry.budget import Budget
from tensorferry.errors import OptionError

Array = np.ndarray[Any, np.dtype[Any]]

# Number of values that a text shows, as in NumPy.
SHOWN = 1000


class RaggedVerbs:
    """The verbs of a ragged tensor that need nothing but its two parts."""

    __slots__ = ()

    flat_values: Array
    nested_row_splits: tuple[Array, ...]

    @classmethod
    def trusted(cls, flat_values: Array, nested_row_splits: tuple[Array, ...]) -> Self:
        """A ragged tensor of parts that are known to fit, without checks or conversions."""
        ragged = object.__new__(cls)
        object.__setattr__(ragged, "flat_values", flat_values)
        object.__setattr__(ragged, "nested_row_splits", nested_row_splits)
        return ragged

    @property
    def ndim(self) -> int:
        """Number of dimensions, ragged and uniform."""
        return len(self.nested_row_splits) + self.flat_values.ndim

    @property
    def size(self) -> int:
        """Number of values."""
        return self.flat_values.size

    def __len__(self) -> int:
        return len(self.nested_row_splits[0]) - 1

    def __iter__(self) -> Iterator[Array | Self]:
        return (self._row(row) for row in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """A row, or several as a ragged tensor.

        Args:
            index: A number gives one row: an array, or a ragged tensor with one ragged dimension
                less. A slice, a list of numbers or an array of bools gives several. In a tuple, the
                rest is the index inside of one row.
        """
        if isinstance(index, tuple):
            if not index:
                return self
            found = self[index[0]]
            if len(index) > 1 and isinstance(index[0], slice | list | np.ndarray):
                raise IndexError(
                    "the rows of a ragged tensor differ in length: take one row, or its to_dense()"
                )
            return found[index[1:]] if len(index) > 1 else found
        if isinstance(index, slice):
            return self._taken(np.arange(len(self))[index])
        if isinstance(index, list | np.ndarray):
            return self._taken(np.arange(len(self))[index])
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a ragged tensor with {len(self)} rows")
        return self._row(row % len(self))

    def _row(self, row: int) -> Any:
        start, end = self.nested_row_splits[0][row : row + 2].tolist()
        inner = []
        for splits in self.nested_row_splits[1:]:
            part = splits[start : end + 1]
            inner.append(part - part[0])
            start, end = int(part[0]), int(part[-1])
        values = self.flat_values[start:end]
        return self.trusted(values, tuple(inner)) if inner else values

    def _taken(self, rows: Array) -> Self:
        nested = []
        for splits in self.nested_row_splits:
            starts = splits[rows].astype(np.int64)
            lengths = splits[rows + 1].astype(np.int64) - starts
            ends = np.cumsum(lengths)
            nested.append(np.concatenate([[0], ends]).astype(splits.dtype))
            rows = np.repeat(starts - ends + lengths, lengths) + np.arange(int(lengths.sum()))
        return self.trusted(self.flat_values[rows], tuple(nested))

    def to_list(self) -> list[Any]:
        """The values as nested Python lists."""
        nested: list[Any] = self.flat_values.tolist()
        for splits in reversed(self.nested_row_splits):
            ends = splits.tolist()
            nested = [nested[start:end] for start, end in itertools.pairwise(ends)]
        return nested

    def tolist(self) -> list[Any]:
        """As `to_list`: NumPy's name for it."""
        return self.to_list()

    def to_dense(self, pad: Any = None) -> Array:
        """A dense array with all rows as long as the longest, as `tf.RaggedTensor.to_tensor`.

        Args:
            pad: The value that fills the rest of a row; by default 0, or the empty string.

        Raises:
            LimitError: The dense array takes more memory than `limits.memory`.

        Examples:
            >>> ferry.RaggedTensor.from_rows([[1, 2], [3]]).to_dense(-1)
            array([[ 1,  2],
                   [ 3, -1]], dtype=int32)
        """
        return self._filled([None] * len(self.nested_row_splits), pad)

    def pad_to(self, length: int | Sequence[int | None], pad: Any = None) -> Array:
        """A dense array with rows of one length: shorter rows are filled, longer ones are cut.

        Args:
            length: The length of each row; with several ragged dimensions, one for each; None for
                the longest.
            pad: The value that fills the rest of a row; by default 0, or the empty string.

        Raises:
            OptionError: There are more or fewer lengths than ragged dimensions.
            LimitError: The dense array takes more memory than `limits.memory`.

        Examples:
            >>> ferry.RaggedTensor.from_rows([[1, 2, 3], [4]]).pad_to(2).tolist()
            [[1, 2], [4, 0]]
        """
        given = [length] if isinstance(length, int | np.integer) else list(length)
        levels = len(self.nested_row_splits)
        if len(given) != levels or any(size is not None and size < 0 for size in given):
            raise OptionError(f"length is {length}, expected {levels} sizes of 0 or more")
        return self._filled([None if size is None else int(size) for size in given], pad)

    def _filled(self, sizes: list[int | None], pad: Any) -> Array:
        values, splits = self.flat_values, list(self.nested_row_splits)
        pad = _fill(pad, values)
        while splits:  # from the innermost dimension outward
            values = _table(values, splits.pop(), sizes[len(splits)], pad)
        return values

    def equals(self, other: Any) -> bool:
        """Whether another ragged tensor has the same dtype, rows and values."""
        if not isinstance(other, RaggedVerbs):
            return False
        same = self.flat_values.dtype == other.flat_values.dtype and _same_rows(self, other)
        return same and bool(np.array_equal(self.flat_values, other.flat_values))

    def all(self) -> bool:
        """Whether all values are true."""
        return bool(self.flat_values.all())

    def any(self) -> bool:
        """Whether any value is true."""
        return bool(self.flat_values.any())

    def __bool__(self) -> bool:
        if self.flat_values.dtype == bool and self.size > 1:
            raise ValueError(
                "the truth of several values is ambiguous: use .all(), .any(), or a.equals(b)"
            )
        return len(self) > 0

    def _compared(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, RaggedVerbs):
            if not _same_rows(self, other):
                raise ValueError("ragged tensors whose rows differ in length cannot be compared")
            other = other.flat_values
        elif not isinstance(other, bool | int | float | complex | str | bytes | np.generic):
            return NotImplemented
        if isinstance(other, str):
            other = other.encode()
        return self.trusted(np.asarray(compare(self.flat_values, other)), self.nested_row_splits)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"RaggedTensor({self._text(', ')}, dtype={self.flat_values.dtype})"

    def __str__(self) -> str:
        return self._text(" ")

    def _text(self, comma: str) -> str:
        """The rows as NumPy prints them, those in the middle left out if there are many."""
        lines = [
            np.array2string(row, separator=comma)
            if isinstance(row, np.ndarray)
            else row._text(comma)
            for row in (self._row(place) for place in _ends(len(self), self.size))
        ]
        if len(lines) < len(self):
            lines.insert(len(lines) // 2, "...")
        return "[" + f"{comma.rstrip()} ".join(lines) + "]"


def _ends(rows: int, size: int) -> list[int]:
    """The rows that a text shows."""
    if rows > SHOWN or (size > SHOWN and rows > 6):
        return [*range(3), *range(rows - 3, rows)]
    return list(range(rows))


def _same_rows(one: RaggedVerbs, other: RaggedVerbs) -> bool:
    nested, others = one.nested_row_splits, other.nested_row_splits
    same_shape = one.flat_values.shape[1:] == other.flat_values.shape[1:]
    return same_shape and len(nested) == len(others) and all(map(np.array_equal, nested, others))


def pad_parts(
    ragged: RaggedVerbs, bounds: Sequence[tuple[int, int]], length: int | None, pad: Any
) -> Iterator[Array]:
    """Some rows at a time as dense arrays, as `RaggedTensor.pad_to` makes them.

    Args:
        ragged: All rows.
        bounds: The first row of each part, and the one after its last.
        length: The length of each row; None for the longest of its part. Further ragged dimensions
            are as long as their longest.
        pad: The value that fills the rest of a row.
    """
    splits = ragged.nested_row_splits
    if len(splits) == 1:
        pad = _fill(pad, ragged.flat_values)
        return _tables(ragged.flat_values, splits[0], bounds, length, pad)
    sizes = [length, *[None] * (len(splits) - 1)]
    return (ragged[start:stop].pad_to(sizes, pad) for start, stop in bounds)


def _fill(pad: Any, values: Array) -> Any:
    """The padding for values of a dtype; by default 0, or the empty string."""
    if pad is None:
        return b"" if values.dtype == object else 0
    return pad.encode() if values.dtype == object and isinstance(pad, str) else pad


def _table(values: Array, splits: Array, size: int | None, pad: Any) -> Array:
    """The rows between splits as lines of one size; by default as long as the longest."""
    return next(_tables(values, splits, [(0, len(splits) - 1)], size, pad))


def _tables(
    values: Array, splits: Array, bounds: Sequence[tuple[int, int]], size: int | None, pad: Any
) -> Iterator[Array]:
    """The same for several parts of the rows, one table each."""
    lengths = splits[1:] - splits[:-1]
    widths = _longest(lengths, bounds) if size is None else [size] * len(bounds)
    inner, dtype = values.shape[1:], values.dtype
    each = math.prod(inner) * dtype.itemsize
    sizes = [
        (stop - start) * width * each for (start, stop), width in zip(bounds, widths, strict=True)
    ]
    Budget(0).take(max(sizes, default=0), what="the dense form")
    if dtype.hasobject:
        return _object_tables(values, splits, bounds, widths, pad)
    return _number_tables(values, splits, bounds, widths, pad)


def _longest(lengths: Array, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """The longest row of each part."""
    if bounds and all(start < stop for start, stop in bounds):
        # Between two starts are the rows of a part, and perhaps rows that belong to no part.
        edges = np.array(bounds).reshape(-1)
        inside = edges[:-1] if edges[-1] == len(lengths) else edges
        longest: list[int] = np.maximum.reduceat(lengths, inside)[::2].tolist()
        return longest
    return [int(lengths[start:stop].max(initial=0)) for start, stop in bounds]


def _number_tables(
    values: Array, splits: Array, bounds: Sequence[tuple[int, int]], widths: list[int], pad: Any
) -> Iterator[Array]:
    inner, dtype = values.shape[1:], values.dtype
    splits = splits.astype(np.int64, copy=False)
    item, flat = _bytes_of(np.full(inner, pad, dtype)), _bytes_of(values)
    for (start, stop), width in zip(bounds, widths, strict=True):
        lines = np.empty((stop - start) * width * item.nbytes, np.uint8)
        if lines.size:
            _native.lay_out_rows(flat, splits[start : stop + 1], item, lines)
        yield lines.view(dtype).reshape(stop - start, width, *inner)


def _object_tables(
    values: Array, splits: Array, bounds: Sequence[tuple[int, int]], widths: list[int], pad: Any
) -> Iterator[Array]:
    for (start, stop), width in zip(bounds, widths, strict=True):
        table = np.full((stop - start, width, *values.shape[1:]), pad, values.dtype)
        places = splits[start:stop, None] + np.arange(width)
        inside = places < splits[start + 1 : stop + 1, None]
        table[inside] = values[places[inside]]
        yield table


def _bytes_of(array: Array) -> Array:
    """The memory of an array; of one with gaps a copy of it."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
