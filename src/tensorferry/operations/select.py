"""Rows: some rows of records, tables, or tensors that are columns, one by one.

for row in select("train.tfrecord", where="label == 3", limit=5): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Unpack

from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, UnknownFormatError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations import conditions
from tensorferry.operations.convert.tables import is_table
from tensorferry.operations.moments import moments_in, plain_value, text_of
from tensorferry.operations.names import choose
from tensorferry.operations.nulls import rows_of
from tensorferry.operations.subject import Subject, open_one
from tensorferry.rows.columns import homes_of
from tensorferry.rows.rows import Rows


@keywords.shown(keywords.Opening)
def select(
    path: Any,
    *,
    where: str | None = None,
    limit: int | None = None,
    last: bool = False,
    dates: bool = False,
    omit: Callable[[Mapping[str, str]], None] | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> Iterator[dict[str, Any]]:
    """Rows, as dicts of values: NumPy's, bytes, None where one is missing.

    Args:
        path: Anything that `tensorferry.open` takes.
        where: A condition on the rows: see `tensorferry.operations.conditions`.
        limit: The maximum number of rows.
        last: Give the last rows.
        dates: Give times and dates of tables as text, not as the numbers that they are stored as.
        omit: Called with the tensors that cannot be read and the reasons, unless columns are named.
            Columns of a table that have no counterpart among tensors are Python values.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`. `columns` are
            the columns wanted, names or patterns, in this order, of tensors as well; by default all
            that can be read.

    Raises:
        UnsupportedError: The column does not exist, or the condition is invalid.
        FormatError: The file is damaged; the rows that are whole were given before.
    """
    condition = None if where is None else conditions.parse(where)
    wanted = _Wanted(options.pop("columns", None), condition, limit, last, dates, omit)
    few = limit is not None and condition is None
    reading = partial(open_one, path, format=format, storage_options=storage_options, few=few)
    done = 0
    try:
        with reading(options=options) as subject:
            for row in wanted.rows(subject):
                yield row
                done += 1
        return
    except UnknownFormatError:
        raise
    except UnsupportedError:
        with reading(options=options) as subject:
            if not is_table(subject):
                raise
            # Nulls inside of lists have no place in a tensor, and one on a screen.
            yield from islice(wanted.rows(subject, in_arrow=True), done, None)
        return
    except FormatError as error:
        if "on_error" in keywords.given(options):
            raise
        failure = error
    # For a damaged file, the good rows come first, and then the error.
    try:
        with reading(options=options, lenient=True) as subject:
            yield from islice(wanted.rows(subject), done, None)
    except (FormatError, UnsupportedError):
        pass
    raise failure


@dataclass(frozen=True)
class _Wanted:
    """Which rows are wanted of something that was opened, and which of their columns."""

    columns: Sequence[str] | None
    condition: conditions.Condition | None
    limit: int | None
    last: bool
    dates: bool
    omit: Callable[[Mapping[str, str]], None] | None

    def rows(self, subject: Subject, *, in_arrow: bool = False) -> Iterator[dict[str, Any]]:
        """The rows; lists of those that come by Arrow's way may hold None."""
        condition, limit = self.condition, self.limit
        names = self._names(subject)
        needed = list(dict.fromkeys([*names, *(condition.names if condition else ())]))
        subject.check_names(needed)
        if condition is not None:
            subject.check_readable(condition.names)
        in_arrow |= is_table(subject) and not subject.unreadable.keys().isdisjoint(names)
        rows = _last_rows(subject, needed, limit) if self.last and condition is None else None
        if rows is None or in_arrow:
            most = None if self.last or condition is not None else limit
            if in_arrow:
                rows = _arrow_rows(subject, needed)
            else:
                rows = rows_of(subject, needed, limit=most)
            if condition is not None:
                rows = filter(condition.holds, rows)
            if limit is not None:
                rows = iter(deque(rows, limit)) if self.last else islice(rows, limit)
        moments = moments_in(subject.opened) if self.dates else {}
        if not moments and needed == names:
            return rows
        if not moments:
            return ({name: row[name] for name in names} for row in rows)
        return (
            {
                name: text_of(row[name], moments[name]) if name in moments else row[name]
                for name in names
            }
            for row in rows
        )

    def _names(self, subject: Subject) -> list[str]:
        """The columns to give; of a table also those that have no counterpart among tensors."""
        if self.columns is not None:
            return choose(list(subject.infos), list(self.columns))
        if is_table(subject):
            return list(subject.infos)
        hidden = subject.unreadable
        if hidden and self.omit is not None:
            self.omit(hidden)
        return [name for name in subject.infos if name not in hidden]


def _last_rows(
    subject: Subject, names: Sequence[str], limit: int | None
) -> Iterator[dict[str, Any]] | None:
    """The last rows without reading those before, where the file allows that."""
    if limit is None or not isinstance(subject.opened, Rows) or subject.is_stream:
        return None
    try:
        return rows_of(subject, names, start=max(len(subject.opened) - limit, 0))
    except UnsupportedError:  # compressed: the way to the end leads through all of it
        return None


def _arrow_rows(subject: Subject, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of a table as Python's values; text is bytes and a time a number, as among tensors."""
    import pyarrow as pa

    from tensorferry.formats.tables.members import member_of

    rows = subject.opened
    assert isinstance(rows, Rows)
    if subject.unreadable.keys().isdisjoint(names):
        rows = rows.select(names)
    homes = homes_of(names, rows.arrow_schema.names)
    for batch in rows.arrow_batches():
        columns = []
        for name in names:
            column = homes[name] or name
            array = batch.column(column)
            inside = name.removeprefix(column).lstrip("/")
            array = member_of(array, inside) if inside else array
            if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
                array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
            columns.append(array.to_pylist())
        for values in zip(*columns, strict=True):
            yield {name: _as_bytes(value) for name, value in zip(names, values, strict=True)}


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [_as_bytes(one) for one in value]
    return plain_value(value)
