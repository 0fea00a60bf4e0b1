"""Differences: two tensors or columns of one name beside each other, piece by piece.

Numbers of one dtype are compared by `tensorferry.kernels`, a whole tensor at once; others are
compared in chunks. Sums (mean, cosine) are kept in float64. A ragged tensor and a dense one are the
same if their rows are: TFRecords do not tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorferry import kernels
from tensorferry.classes import dataclass
from tensorferry.operations.measures import CHUNK, as_numbers
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, TensorInfo, as_tensor


@dataclass(frozen=True)
class TensorDiff:
    """How two tensors of one name differ.

    Attributes:
        name: In the first file.
        other: In the second file.
        equal: Whether they are the same, within the tolerance.
        reason: What differs: "dtype", "shape", "rows" (their lengths), "entries" or "values"; or
            "nulls" (a missing list is not an empty one), or "unreadable", if one cannot be read.
        dtypes: The dtypes of both.
        shapes: The shapes of both.
        elements: How many values were compared.
        differing: How many of these differ beyond the tolerance.
        largest: The largest difference between two finite numbers.
        mean: The mean difference, of finite numbers.
        cosine: The cosine between both, as vectors: 1 for the same direction.
        relative: The length of the difference as a part of the length of the first, as vectors;
            None if it has no bound: the first is zero, or some values are not finite.
        first: Where the first difference is, in the first file.
        values: Both values there; the lengths of rows, if these differ and are long.
        other_first: The same place in the second file; rows that belong together by a key may be
            rows of other numbers there.
        key: The key of that row, if rows belong together by a key.
        nonfinite: How many of the values that differ are NaN or infinite in one file and not in the
            other; `largest`, `mean` and `cosine` say nothing about these.
    """

    name: str
    other: str
    equal: bool
    reason: str | None
    dtypes: tuple[str, str]
    shapes: tuple[tuple[int | None, ...], tuple[int | None, ...]]
    elements: int = 0
    differing: int = 0
    largest: float | None = None
    mean: float | None = None
    cosine: float | None = None
    first: tuple[int, ...] | None = None
    relative: float | None = None
    values: tuple[Any, Any] | None = None
    other_first: tuple[int, ...] | None = None
    key: Any = None
    nonfinite: int = 0


SHOWN = 8
"""Of rows whose lengths differ, how many values are given."""

BYTES = 64
"""Of strings that differ, how many bytes are given."""

Locate = Callable[[tuple[int, ...]], tuple[int, ...]]

_NOWHERE: Array = np.zeros(1, bool)


def _same_bits(left: Array, right: Array) -> bool:
    return left.tobytes() == right.tobytes()


def _dot(left: Array, right: Array) -> float:
    # BLAS would start threads for each chunk.
    return float(np.einsum("i,i->", left, right.conj()).real)


class Difference:
    """Compares a tensor or column with another, in as many pieces as there are.

    Attributes:
        name: In the first file.
        other: In the second file.
        is_readable: Whether both can be read.
        tolerances: The relative and the absolute tolerance.
    """

    def __init__(
        self,
        name: str,
        other: str,
        info: TensorInfo,
        other_info: TensorInfo,
        *,
        rtol: float,
        atol: float,
        ignore_dtype: bool,
        optional: bool = False,
    ) -> None:
        self.name, self.other = name, other
        self._optional = optional
        self.tolerances = rtol, atol
        self._dtypes = (info.dtype, other_info.dtype)
        self._shapes = (info.shape, other_info.shape)
        same = info.dtype == other_info.dtype or ignore_dtype
        self._reason: str | None = None if same else "dtype"
        self.is_readable = info.unreadable is None and other_info.unreadable is None
        if not self.is_readable:
            self._reason = "unreadable"
        self._elements = self._differing = self._nonfinite = self._rows = 0
        self._largest = self._sum = self._squares = 0.0
        self._finite = 0
        self._products = 0.0, 0.0, 0.0
        self._numeric = False
        self._first: tuple[int, ...] | None = None
        self._values: tuple[Any, Any] | None = None
        self._pair: tuple[int, Any] | None = None
        self._found: tuple[int, Any] | None = None

    def add(self, left: Any, right: Any) -> None:
        """Compares the next rows, or all there is."""
        rows = self._compare(left, right)
        self._rows += rows

    def add_found(self, left: Array, right: Array, found: kernels.Comparison) -> None:
        """Takes note of how two whole arrays differ."""
        self._elements += left.size
        self._note_numbers(found)
        self._note_values(left, right, (found.differing, found.first), self._below)

    def add_row(self, left: Any, right: Any, *, row: int, other: int, key: Any) -> None:
        """Compares the values of two rows of one key, which may be missing.

        Args:
            left: The value of the first file.
            right: The value of the second file.
            row: The number of the row in the first file.
            other: Its number in the second file.
            key: Of both.
        """
        self._rows, self._pair = row, (other, key)
        if left is None or right is None:
            if left is not right:
                self._note("values", 1, (self._rows,), (left, right))
            self._elements += 1
        elif np.ndim(left) == np.ndim(right) == 1 and len(left) != len(right):
            self._elements += max(len(left), len(right))
            values = [
                side.tolist() if len(side) <= SHOWN else f"{len(side):,} values"
                for side in (np.asarray(left), np.asarray(right))
            ]
            self._note("rows", 1, (row,), (values[0], values[1]))
        else:
            self._compare(_alone(left), _alone(right))

    def add_nulls(self, left: Array, right: Array) -> None:
        """Compares which lists are missing, which are empty among the values.

        Args:
            left: Their numbers in the first file.
            right: Their numbers in the second.
        """
        apart = np.setxor1d(left, right)
        if apart.size:
            row = int(apart[0])
            self._pair = None
            self._note("nulls", int(apart.size), (row,), (None, []) if row in left else ([], None))

    def _compare(self, left: Any, right: Any) -> int:
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            self._compare_arrays(left, right)
            return len(left) if left.ndim else 0
        if isinstance(left, list) or isinstance(right, list):
            return self._compare_lists(left, right)
        if isinstance(left, SparseTensor) or isinstance(right, SparseTensor):
            self._compare_sparse(left, right)
            return left.shape[0] if isinstance(left, SparseTensor) and left.shape else 0
        if isinstance(left, RaggedTensor) or isinstance(right, RaggedTensor):
            return self._compare_ragged(left, right)
        self._compare_arrays(np.asarray(left), np.asarray(right))
        return len(left) if np.ndim(left) else 0

    def _compare_lists(self, left: Any, right: Any) -> int:
        start = self._rows
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            self._rows = start + place
            if one is None or other is None:
                self._elements += 1
                if one is not other:
                    self._note("values", 1, (self._rows,), (one, other))
            else:
                self._compare_arrays(
                    np.asarray(one), np.asarray(other), lambda at: (self._rows, *at)
                )
        self._rows = start
        if len(left) != len(right):
            self._note("shape", 0, None)
        return len(left)

    def _compare_sparse(self, left: Any, right: Any) -> None:
        if not isinstance(left, SparseTensor) or not isinstance(right, SparseTensor):
            self._note("entries", 0, None)
            return
        if left.shape != right.shape:
            self._note("shape", 0, None)
            return
        left, right = ordered(left), ordered(right)
        if np.array_equal(left.indices, right.indices):
            places = left.indices
            self._compare_arrays(
                left.values, right.values, lambda at: self._below(tuple(places[at[0]].tolist()))
            )
        else:
            self._elements += max(len(left.values), len(right.values))
            self._note("entries", abs(len(left.values) - len(right.values)) or 1, None)

    def _compare_ragged(self, left: Any, right: Any) -> int:
        rank = max(
            side.ragged_rank if isinstance(side, RaggedTensor) else 0 for side in (left, right)
        )
        one, other = as_ragged(left, rank), as_ragged(right, rank)
        if one is None or other is None:
            self._note("shape", 0, None)
            return 0
        splits = zip(one.nested_row_splits, other.nested_row_splits, strict=True)
        if all(np.array_equal(a, b) for a, b in splits):
            self._compare_arrays(
                one.flat_values, other.flat_values, lambda at: self._in_ragged(one, at)
            )
            return len(one)
        count = min(len(one), len(other))
        apart = np.flatnonzero(one.row_lengths[:count] != other.row_lengths[:count])
        self._elements += max(len(one.flat_values), len(other.flat_values))
        if apart.size:
            row = int(apart[0])
            values = self._row_of(one, row), self._row_of(other, row)
            self._note("rows", int(apart.size), (self._rows + row,), values)
        else:
            self._note("rows", 1, None)
        return len(one)

    def _in_ragged(self, tensor: RaggedTensor, at: tuple[int, ...]) -> tuple[int, ...]:
        """The place of a value of a ragged tensor, by its place among all values."""
        flat, inner = at[0], at[1:]
        for splits in reversed(tensor.nested_row_splits):
            row = int(np.searchsorted(splits, flat, side="right")) - 1
            inner = (flat - int(splits[row]), *inner)
            flat = row
        return self._below((flat, *(inner[1:] if self._optional else inner)))

    def _row_of(self, tensor: RaggedTensor, row: int) -> Any:
        """A row, to be shown: its values, their number if they are many, None if it is missing."""
        start, end = (int(split) for split in tensor.nested_row_splits[0][row : row + 2])
        if tensor.ragged_rank > 1 or tensor.flat_values.ndim > 1 or end - start > SHOWN:
            return f"{end - start:,} values"
        values = tensor.flat_values[start:end].tolist()
        return (values[0] if values else None) if self._optional else values

    def _below(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """A place behind the rows that were compared before."""
        return (self._rows + at[0], *at[1:]) if at else at

    def _compare_arrays(self, left: Array, right: Array, locate: Locate | None = None) -> None:
        """Compares arrays of one shape.

        Args:
            left: The value of the first file.
            right: The value of the second file.
            locate: Makes the place of a value in the tensor of its place in the array.
        """
        locate = locate or self._below
        if left.shape != right.shape:
            if left.ndim and right.ndim and left.shape[1:] == right.shape[1:]:
                count = min(len(left), len(right))
                self._compare_arrays(left[:count], right[:count], locate)
            self._note("shape", 0, None)
            return
        self._elements += left.size
        if are_alike(left, right):
            self._note_values(left, right, self._compare_alike(left, right), locate)
            return
        flat, other = left.reshape(-1), right.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            piece = slice(start, start + CHUNK)
            found = self._compare_values(flat[piece], other[piece])
            self._note_values(flat, other, found, locate, start=start, shape=left.shape)

    def _note_values(
        self,
        left: Array,
        right: Array,
        found: tuple[int, int | None],
        locate: Locate,
        *,
        start: int = 0,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Takes note of how many values differ, and of the first that does.

        Args:
            left: The values of the first file.
            right: The values of the second file.
            found: How many differ, and the place of the first, from `start` on.
            locate: See `_compare_arrays`.
            start: Where the values begin that were compared.
            shape: That of the values, if they are given flat.
        """
        count, first = found
        if first is None:  # nearly always
            return
        place = start + first
        at = np.unravel_index(place, left.shape if shape is None else shape)
        values = _shorten(_item(left.reshape(-1), place), _item(right.reshape(-1), place))
        self._note("values", count, locate(tuple(int(number) for number in at)), values)

    def _compare_values(self, left: Array, right: Array) -> tuple[int, int | None]:
        """How many values differ, and the place of the first that does."""
        if (left.dtype == object) != (right.dtype == object):
            differs: Array = np.ones(left.shape, bool)
        elif left.dtype == object:
            differs = np.array(left != right, bool)
        elif left.dtype == right.dtype and kernels.has(left.dtype):
            return self._compare_alike(left, right)
        else:
            differs = self._compare_numbers(as_numbers(left), as_numbers(right))
        return int(np.count_nonzero(differs)), int(np.argmax(differs)) if differs.any() else None

    def _compare_alike(self, left: Array, right: Array) -> tuple[int, int | None]:
        """The same of numbers of one dtype; takes note of how far they differ."""
        rtol, atol = self.tolerances
        found = kernels.compare(left, right, rtol=rtol, atol=atol)
        self._note_numbers(found)
        return found.differing, found.first

    def _note_numbers(self, found: kernels.Comparison) -> None:
        self._numeric = True
        self._largest = max(self._largest, found.largest)
        self._sum += found.sum
        self._squares += found.squares
        self._nonfinite += found.nonfinite
        self._finite += found.finite
        self._add_products(*found.products)

    def _add_products(self, dot: float, left: float, right: float) -> None:
        before = self._products
        self._products = before[0] + dot, before[1] + left, before[2] + right

    def _compare_numbers(self, left: Array, right: Array) -> Array:
        """Where numbers differ; takes note of how far."""
        self._numeric = True
        if left.dtype == right.dtype and _same_bits(left, right):
            return self._note_equal(left)
        kind = np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64
        with np.errstate(all="ignore"):
            equal = left == right
            one, two = left.astype(kind), right.astype(kind)
            distance = np.abs(one - two)
            rtol, atol = self.tolerances
            near = equal | (distance <= atol + rtol * np.abs(two))
            near |= np.isnan(one) & np.isnan(two)
            finite = np.isfinite(distance)
            self._nonfinite += int(np.count_nonzero(~near & ~finite))
            if not finite.all():
                one, two, distance = one[finite], two[finite], distance[finite]
            if distance.size:
                self._largest = max(self._largest, float(distance.max()))
                self._sum += float(distance.sum())
                self._squares += _dot(distance, distance)
                self._finite += distance.size
                self._add_products(_dot(one, two), _dot(one, one), _dot(two, two))
        differs: Array = np.logical_not(near)
        return differs

    def _note_equal(self, numbers: Array) -> Array:
        """Takes note of numbers that are the same in both, bit by bit."""
        if numbers.dtype.kind in "fc":
            finite = np.isfinite(numbers)
            numbers = numbers if finite.all() else numbers[finite]
        wide = numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.float64)
        with np.errstate(all="ignore"):
            self._add_products(*[_dot(wide, wide)] * 3)
        self._finite += wide.size
        return _NOWHERE

    def _note(
        self,
        reason: str,
        count: int,
        place: tuple[int, ...] | None,
        values: tuple[Any, Any] | None = None,
    ) -> None:
        self._differing += count
        if self._reason is None:
            self._reason = reason
        if self._first is None and place is not None:
            self._first, self._values, self._found = place, values, self._pair

    def result(self) -> TensorDiff:
        """What was found."""
        numbers = self._numeric and self._finite > 0
        dot, left, right = self._products
        length = math.sqrt(left) * math.sqrt(right)
        is_cosine = numbers and 0 < length < math.inf
        other_first = self._first
        if self._found is not None:
            other_first = (self._found[0], *(self._first or (0,))[1:])
        # Each attribute of a frozen object takes a call, and there may be thousands of tensors.
        found = object.__new__(TensorDiff)
        vars(found).update(
            name=self.name,
            other=self.other,
            equal=self._reason is None,
            reason=self._reason,
            dtypes=self._dtypes,
            shapes=self._shapes,
            elements=self._elements,
            differing=self._differing,
            largest=self._largest if numbers else None,
            mean=self._sum / self._finite if numbers else None,
            cosine=min(1.0, dot / length) if is_cosine else None,
            first=self._first,
            relative=self._relative(left) if numbers else None,
            values=self._values,
            other_first=other_first,
            key=None if self._found is None else self._found[1],
            nonfinite=self._nonfinite,
        )
        return found

    def _relative(self, left: float) -> float | None:
        if self._nonfinite:
            return None
        if self._squares == 0:
            return 0.0
        found = math.sqrt(self._squares) / math.sqrt(left) if left > 0 else math.inf
        return found if math.isfinite(found) else None


def add_together(pairs: Sequence[tuple[Difference, Array, Array]]) -> None:
    """Adds whole tensors that `are_alike` to what compares them, all by the same tolerances."""
    if not pairs:
        return
    arrays = [(left, right) for _, left, right in pairs]
    rtol, atol = pairs[0][0].tolerances
    comparisons = kernels.compare_pairs(arrays, rtol=rtol, atol=atol)
    for (pair, left, right), found in zip(pairs, comparisons, strict=True):
        pair.add_found(left, right, found)


def are_alike(left: Any, right: Any) -> bool:
    """Whether two values are arrays of numbers that one kernel compares."""
    return (
        isinstance(left, np.ndarray)
        and isinstance(right, np.ndarray)
        and left.shape == right.shape
        and left.dtype == right.dtype
        and left.dtype.isnative
        and kernels.has(left.dtype)
    )


def _item(flat: Array, place: int) -> Any:
    """A value of an array, as Python has it."""
    return flat[place] if flat.dtype == object else as_numbers(flat[place : place + 1])[0].item()


def _shorten(left: Any, right: Any) -> tuple[Any, Any]:
    """Two values; of long strings, a few bytes around the first that differs."""
    if not isinstance(left, bytes) or not isinstance(right, bytes):
        return left, right
    if max(len(left), len(right)) <= BYTES:
        return left, right
    short = min(len(left), len(right))
    one, two = (np.frombuffer(side, np.uint8, short) for side in (left, right))
    apart = np.flatnonzero(one != two)
    start = max((int(apart[0]) if apart.size else short) - BYTES // 4, 0)
    before = b"..." if start else b""
    return before + left[start : start + BYTES], before + right[start : start + BYTES]


def _alone(value: Any) -> Any:
    """The value of one row."""
    if isinstance(value, RaggedTensor | SparseTensor):
        return value
    array = np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
    return array.reshape(1, *array.shape)


def ordered(sparse: SparseTensor) -> SparseTensor:
    """A sparse tensor with its entries in the order of their places."""
    order = np.lexsort(sparse.indices.T[::-1]) if sparse.indices.size else slice(None)
    return SparseTensor(sparse.indices[order], sparse.values[order], sparse.dense_shape)


def as_ragged(tensor: Any, rank: int) -> RaggedTensor | None:
    """A tensor as a ragged one of some ragged dimensions; None where it cannot be one."""
    if isinstance(tensor, RaggedTensor):
        flat, splits = tensor.flat_values, list(tensor.nested_row_splits)
    else:
        flat, splits = as_tensor(tensor), []
        if flat.ndim <= rank:
            return None
    while len(splits) < rank:
        if flat.ndim < 2:
            return None
        rows, size = flat.shape[:2]
        splits.append(np.arange(rows + 1, dtype=np.int64) * size)
        flat = flat.reshape(-1, *flat.shape[2:])
    return RaggedTensor(flat, tuple(splits))
