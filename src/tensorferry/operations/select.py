"""Rows: some rows of records, tables, or tensors that are columns, one by one.

for row in select("train.tfrecord", where="label == 3", limit=5): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.operations import conditions
from tensorferry.operations.opened import Opened, OpenedRecords, OpenedTable, open_input


def select(
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    last: bool = False,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Rows, as dicts of values: NumPy's, bytes, None where one is missing.

    Args:
        path: Whatever `tensorferry.open` takes, or an input.
        columns: Those wanted, in this order; by default all.
        where: A condition on the rows: see `tensorferry.operations.conditions`.
        limit: How many, at most.
        last: Whether to give the last of them.
        **options: Of `tensorferry.open`.

    Raises:
        UnsupportedError: There is no such column, or the condition is none.
    """
    condition = None if where is None else conditions.parse(where)
    with open_input(path, **options) as opened:
        wanted = None if columns is None else list(columns)
        needed = wanted
        if condition is not None:
            opened.check_names(condition.names)
            if wanted is not None:
                needed = list(dict.fromkeys([*wanted, *condition.names]))
        if wanted is not None:
            opened.check_names(wanted)
        rows = _last_rows(opened, needed, limit) if last and condition is None else None
        if rows is None:
            rows = opened.rows(columns=needed)
            if condition is not None:
                rows = filter(condition.holds, rows)
            if limit is not None:
                rows = iter(deque(rows, limit)) if last else islice(rows, limit)
        for row in rows:
            yield row if wanted is None else {name: row[name] for name in wanted}


def _last_rows(
    opened: Opened, columns: Sequence[str] | None, limit: int | None
) -> Iterator[dict[str, Any]] | None:
    """The last rows without reading those before, where the file allows that."""
    if limit is None:
        return None
    try:
        if isinstance(opened, OpenedTable):
            found = opened.table[max(len(opened.table) - limit, 0) :]
        elif isinstance(opened, OpenedRecords) and not opened.is_raw and not opened.is_stream:
            found = opened.records[max(len(opened.records) - limit, 0) :]
        else:
            return None
    except UnsupportedError:  # compressed: the way to the end leads through all of it
        return None
    names = columns or list(opened.infos())
    return iter([{name: row[name] for name in names} for row in found])
