"""Row pairs: which rows of two files differ, one by one.

    list(differing_rows(first, second, key="id"))       # [RowPair(a=4, b=9, columns=("score",))]

`tensorferry.operations.diff` compares two files as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.operations.diff import hashable, key_places, row_lookup
from tensorferry.operations.subject import Subject
from tensorferry.tensors.values import RaggedTensor, SparseTensor


@dataclass(frozen=True)
class RowPair:
    """Two rows that belong together and differ.

    Attributes:
        a: The number of the row in the first file; None if only the second has it.
        b: The number in the second file; None if only the first has it.
        columns: The columns that differ.
    """

    a: int | None
    b: int | None
    columns: tuple[str, ...] = ()


def differing_rows(first: Subject, second: Subject, *, key: str | None = None) -> Iterator[RowPair]:
    """The rows that differ, by position or by a key, in the order of the first file.

    Raises:
        UnsupportedError: The key is not a column of both files, or not unique.
    """
    names = [
        name
        for name in first.infos
        if name in second.infos and name not in first.unreadable and name not in second.unreadable
    ]
    if key is None:
        both = zip_longest(first.rows(names), second.rows(names))
        for number, (left, right) in enumerate(both):
            if left is None or right is None:
                yield RowPair(None if left is None else number, None if right is None else number)
            elif columns := _differing(left, right, names):
                yield RowPair(number, number, columns)
        return
    first.check_names([key])
    second.check_names([key])
    places = key_places(second, key)
    lookup = row_lookup(second, names)
    for number, left in enumerate(first.rows(names)):
        place = places.pop(hashable(left[key]), None)
        if place is None:
            yield RowPair(number, None)
        elif columns := _differing(left, lookup(place), names):
            yield RowPair(number, place, columns)
    for place in places.values():
        yield RowPair(None, place)


def _differing(
    left: Mapping[str, Any], right: Mapping[str, Any], names: list[str]
) -> tuple[str, ...]:
    return tuple(name for name in names if not same(left[name], right[name]))


def same(left: Any, right: Any) -> bool:
    """Whether two values of rows are the same; NaN is the same as NaN."""
    if isinstance(left, RaggedTensor):
        left = left.to_list()
    if isinstance(right, RaggedTensor):
        right = right.to_list()
    if isinstance(left, SparseTensor) and isinstance(right, SparseTensor):
        return (
            left.shape == right.shape
            and np.array_equal(left.indices, right.indices)
            and same(left.values, right.values)
        )
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        one, other = np.asarray(left), np.asarray(right)
        if one.shape != other.shape:
            return False
        equal = one == other
        if one.dtype.kind == other.dtype.kind == "f":
            equal = equal | (np.isnan(one) & np.isnan(other))
        return bool(np.all(equal))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    return bool(left == right or (left != left and right != right))
