"""Rows: some rows of records, tables, or tensors that are columns, one by one.

for row in select("train.tfrecord", where="label == 3", limit=5): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Unpack

from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations import conditions
from tensorferry.operations.names import choose
from tensorferry.operations.subject import Subject, open_one
from tensorferry.rows.rows import Rows


@keywords.shown(keywords.Opening)
def select(
    path: Any,
    *,
    where: str | None = None,
    limit: int | None = None,
    last: bool = False,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> Iterator[dict[str, Any]]:
    """Rows, as dicts of values: NumPy's, bytes, None where one is missing.

    Args:
        path: What `tensorferry.open` takes.
        where: A condition on the rows: see `tensorferry.operations.conditions`.
        limit: The most rows to give.
        last: Give the last rows.
        format: By default recognised.
        storage_options: For the store of a URL.
        **options: Of the format: see `tensorferry.files.keywords.Opening`. `columns` are the
            columns wanted, names or patterns, in this order, of tensors as well; by default all
            that can be read.

    Raises:
        UnsupportedError: There is no such column, or the condition is none.
    """
    condition = None if where is None else conditions.parse(where)
    columns = options.pop("columns", None)
    with open_one(path, format=format, storage_options=storage_options, options=options) as subject:
        readable = [name for name in subject.infos if name not in subject.unreadable]
        wanted = readable if columns is None else choose(list(subject.infos), list(columns))
        needed = list(dict.fromkeys([*wanted, *(condition.names if condition else ())]))
        subject.check_names(needed)
        rows = _last_rows(subject, needed, limit) if last and condition is None else None
        if rows is None:
            rows = subject.rows(needed)
            if condition is not None:
                rows = filter(condition.holds, rows)
            if limit is not None:
                rows = iter(deque(rows, limit)) if last else islice(rows, limit)
        for row in rows:
            yield {name: row[name] for name in wanted}


def _last_rows(
    subject: Subject, names: Sequence[str], limit: int | None
) -> Iterator[dict[str, Any]] | None:
    """The last rows without reading those before, where the file allows that."""
    if limit is None or not isinstance(subject.opened, Rows) or subject.is_stream:
        return None
    rows = subject.opened.select(names)
    try:
        return iter(rows[max(len(rows) - limit, 0) :])
    except UnsupportedError:  # compressed: the way to the end leads through all of it
        return None
