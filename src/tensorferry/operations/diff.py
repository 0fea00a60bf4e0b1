"""Comparison: what differs between two files, whatever their formats.

    ferry.diff("model.safetensors", "model.npz", atol=1e-6).equal

Tensors are compared one at a time by name, rows of records and tables in batches by position, or
by a key. How columns of one name are compared is `tensorferry.operations.differences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.operations.differences import Difference, TensorDiff
from tensorferry.operations.names import Renaming
from tensorferry.operations.opened import Opened, OpenedRecords, OpenedTable, open_input
from tensorferry.storage.pages import release


@dataclass(frozen=True)
class DiffReport:
    """What two files have in common, and what not.

    Attributes:
        a: The first, as it was named.
        b: The second.
        tensors: The tensors, features or columns that both have.
        only_a: The names that only the first has.
        only_b: The names that only the second has.
        rows_a: Rows of the first that have no counterpart; None where tensors are compared.
        rows_b: Rows of the second.
    """

    a: str
    b: str
    tensors: tuple[TensorDiff, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    rows_a: int | None = None
    rows_b: int | None = None

    @property
    def equal(self) -> bool:
        """Whether there is no difference beyond the tolerance."""
        alone = self.only_a or self.only_b or self.rows_a or self.rows_b
        return not alone and all(found.equal for found in self.tensors)


def diff(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    map: Mapping[str, str] | Sequence[str] | None = None,  # as the command has it
    key: str | None = None,
    ignore_dtype: bool = False,
    match: Sequence[str] = (),
) -> DiffReport:
    """Compares two files of any formats: tensors by name, rows by position or key.

    Numbers are the same if `|a - b| <= atol + rtol * |b|`; NaN is the same as NaN.

    Args:
        a: Whatever `tensorferry.open` takes.
        b: The same.
        rtol: How far numbers may differ, as a part of those in `b`.
        atol: How far numbers may differ.
        map: Names in `a`, and those of the same tensors in `b`; patterns as in "a/*=b.*".
        key: A column by whose values rows belong together, instead of by their position.
        ignore_dtype: Whether the same numbers in another dtype are the same.
        match: Patterns of names in `a`; others are left out.
    """
    from tensorferry.operations.list import is_match

    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol, "ignore_dtype": ignore_dtype}
    with open_input(a, thorough=True) as first, open_input(b, thorough=True) as second:
        names = Renaming.parse(map).apply(name for name in first.infos() if is_match(name, match))
        others = {name: None for name in second.infos() if not match or name in names.values()}
        both = {old: new for old, new in names.items() if new in others}
        pairs = {
            old: Difference(old, new, first.infos()[old], second.infos()[new], **tolerance)
            for old, new in both.items()
        }
        rows: tuple[int | None, int | None] = (None, None)
        if key is not None:
            rows = _by_key(first, second, pairs, key)
        elif first.holds != "tensors" and second.holds != "tensors":
            rows = _by_position(first, second, pairs)
        else:
            for old, new in both.items():
                both_tensors = first.tensor(old), second.tensor(new)
                pairs[old].add(*both_tensors)
                for tensor in both_tensors:
                    release(tensor)
        return DiffReport(
            first.name,
            second.name,
            tuple(pair.result() for pair in pairs.values()),
            tuple(old for old, new in names.items() if new not in others),
            tuple(new for new in others if new not in names.values()),
            *rows,
        )


def _by_position(first: Opened, second: Opened, pairs: Mapping[str, Difference]) -> tuple[int, int]:
    """Compares batches; gives how many rows only one of the two has."""
    counts = [0, 0]
    batches = zip_longest(
        first.batches(columns=list(pairs)),
        second.batches(columns=[pair.other for pair in pairs.values()]),
    )
    for left, right in batches:
        if left is not None and right is not None:
            for name, pair in pairs.items():
                pair.add(left[name], right[pair.other])
        for side, batch in enumerate((left, right)):
            counts[side] += 0 if not batch else _length(next(iter(batch.values())))
    both = min(counts)
    return counts[0] - both, counts[1] - both


def _length(column: Any) -> int:
    return len(column) if hasattr(column, "__len__") else int(column.shape[0])


def _by_key(
    first: Opened, second: Opened, pairs: Mapping[str, Difference], key: str
) -> tuple[int, int]:
    """Compares rows that have the same key; gives how many rows only one of the two has."""
    if key not in pairs:
        raise UnsupportedError(f"the key {key!r} is no column of both", path=first.name)
    other = pairs[key].other
    places = _keys(second, other)
    lookup = _lookup(second, [pair.other for pair in pairs.values()])
    missing = seen = 0
    for left in first.rows(columns=list(pairs)):
        place = places.get(_hashable(left[key]))
        if place is None:
            missing += 1
            continue
        seen += 1
        right = lookup(place)
        for name, pair in pairs.items():
            pair.add_row(left[name], right[pair.other])
    return missing, max(len(places) - seen, 0)


def _keys(opened: Opened, key: str) -> dict[Any, int]:
    """The rows of a file by their keys."""
    if isinstance(opened, OpenedRecords) and opened.is_stream:
        raise UnsupportedError(
            "rows of a stream have no order but their own", path=opened.name,
            hint="give the stream as the first of the two",
        )  # fmt: skip
    places: dict[Any, int] = {}
    for number, row in enumerate(opened.rows(columns=[key])):
        found = _hashable(row[key])
        if found in places:
            raise UnsupportedError(
                f"rows {places[found]} and {number} have the same key {found!r:.60}",
                path=opened.name,
                hint="choose a column whose values all differ",
            )
        places[found] = number
    return places


def _lookup(opened: Opened, columns: Sequence[str]) -> Any:
    """Gives a row by its number; of files without random access all are held in memory."""
    if isinstance(opened, OpenedTable):
        return opened.table.__getitem__
    if isinstance(opened, OpenedRecords) and not opened.is_raw:
        try:
            len(opened.records[:1])
            return opened.records.__getitem__
        except UnsupportedError:
            pass
    return list(opened.rows(columns=columns)).__getitem__


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes()) if value.dtype != object else tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
