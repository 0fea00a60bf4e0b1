"""A user's value as rows, poured into a writer: frames, datasets, generators and lists of dicts.

    ferry.save(df, "x.parquet")
    ferry.save(dataset, "x.tfrecord")           # a tf.data.Dataset of dicts
    ferry.save(({"id": n} for n in range(10**9)), "x.arrow")

Rows are written one by one or batch by batch, so that only some of them are in memory.
`tensorferry.files.content` handles all other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.contract import Facts, RowWriter
from tensorferry.frameworks import accept, frames, framework_of, table
from tensorferry.progress import Progress
from tensorferry.rows.rows import Rows
from tensorferry.tensors.bundle import Bundle

# Progress on single rows is reported after this many rows.
TOLD = 256


@dataclass(frozen=True)
class Poured:
    """Rows that wait to be written.

    Attributes:
        parts: Rows, or batches of them: dicts of columns, or frames.
        in_batches: Whether they are batches.
        count: Gives the number of rows, where it is known.
    """

    parts: Iterable[Any]
    in_batches: bool
    count: Callable[[], int | None] = lambda: None

    def into(self, out: RowWriter, progress: Progress | None = None) -> None:
        """Writes the rows."""
        write = out.write_batch if self.in_batches else out.write
        if progress is None:
            for part in self.parts:
                write(part)
            return
        total = self.count()
        for number, part in enumerate(self.parts):
            write(part)
            if self.in_batches or number % TOLD == 0:
                progress(out.count, total)
        progress(out.count, total)


def rows_of(
    value: Any, facts: Facts, *, quantize: Any, options: Mapping[str, Any]
) -> tuple[Poured | None, Any]:
    """The rows that a value is, if it is to be written as rows; and the value.

    Args:
        value: The user's value. For a generator, only the returned value has all items.
        facts: The facts of a format of rows.
        quantize: The user's option, for tensors in formats that hold both.
        options: Of the format.

    Raises:
        UnsupportedError: The format takes nothing but rows, and the value is something else.
    """
    only_rows = facts.takes == "rows"
    rows: Poured | None
    if not only_rows and (quantize is not None or options.get("rows") is not None):
        return None, value
    if isinstance(value, Iterator) and not frames.is_frame(value):
        rows, value = _peeked(value, only_rows=only_rows)
    else:
        rows = _as_rows(value, only_rows=only_rows)
    if only_rows and isinstance(value, Bundle):
        raise UnsupportedError(
            f"{facts.name} holds rows, and a bundle holds tensors by name",
            hint="tensorferry.convert turns tensors of one length into rows",
        )
    if only_rows and rows is None:
        raise UnsupportedError(
            f"{facts.name} holds rows, expected a DataFrame, a dict of columns, or rows one by "
            f"one, found {type(value).__name__}",
            hint="a tensor becomes a column by its name: {'x': tensor}; npz, safetensors, arrow "
            "and parquet carry tensors of every kind",
        )
    return rows, value


def _as_rows(value: Any, *, only_rows: bool) -> Poured | None:
    """The rows that a value is; None if it is something else.

    Where it can be nothing else, a dict is one of columns, and a list of anything one of records.
    """
    if isinstance(value, Rows):
        return Poured(value.arrow_batches(), True, value.count)
    if frames.is_frame(value):
        return Poured([value], True)
    if table.in_use("tensorflow") and (found := table.datasets().batches(value)) is not None:
        batches, are_batches = found
        return Poured(batches, are_batches)
    if isinstance(value, Mapping):
        return Poured([value], True) if only_rows or is_columns(value) else None
    if isinstance(value, list | tuple):
        if only_rows:
            return Poured(value, False, value.__len__)
        if isinstance(value, list) and is_table(value):
            # All at once: the first rows alone might tell other types.
            names = list(dict.fromkeys(name for row in value for name in row))
            columns = {name: [row.get(name) for row in value] for name in names}
            return Poured([columns], True, value.__len__)
        return None
    return None


def is_columns(value: Mapping[Any, Any]) -> bool:
    """Whether a dict is a table: lists of one length, each of one kind, and one of them of text.

    Without lists of text it is a dict of tensors, which formats of tables take as they are. Other
    dicts of lists are structures, which come back as they were.
    """
    columns = list(value.values())
    if not all(isinstance(name, str) for name in value) or not all(map(_is_column, columns)):
        return False
    if len({len(column) for column in columns}) != 1:
        return False
    lists = [column for column in columns if isinstance(column, list)]
    kinds = [{_kind_of(one) for one in column if one is not None} for column in lists]
    return {str} in kinds and all(map(_is_one_kind, kinds))


def _is_column(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)


def is_table(rows: Sequence[Any]) -> bool:
    """Whether dicts are the rows of one table: each column has values of one kind in all rows.

    Other lists of dicts are structures, which come back as they were.
    """
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return False
    names = set(rows[0]).intersection(*rows)
    if not names or not all(isinstance(name, str) for row in rows for name in row):
        return False
    kinds: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_kind_of(value))
    every = {name for row in rows for name in row}
    return every == set(kinds) and all(map(_is_one_kind, kinds.values()))


def _is_one_kind(kinds: set[Any]) -> bool:
    known = kinds - {("list", None)}  # an empty list fits the others
    return len(known) == 1 and None not in known


def _kind_of(value: Any) -> Any:
    """The property that all values of a column must share; None for values that no column holds."""
    if isinstance(value, np.ndarray | np.generic):
        # A column has rows of one string, or lists of them, and no arrays of strings.
        return None if value.dtype == object and value.ndim else (value.dtype.str, value.ndim)
    if isinstance(value, list | tuple):
        kinds = {_kind_of(one) for one in value}
        return ("list", kinds.pop() if kinds else None) if len(kinds) < 2 else None
    if isinstance(value, bool | str | bytes):
        return type(value)
    return float if isinstance(value, int | float) else _tensor_kind(value)


def _tensor_kind(value: Any) -> Any:
    """The kind of a framework's tensor."""
    owner = framework_of(value)
    return None if owner is None else _kind_of(accept(value))


def _peeked(items: Iterator[Any], *, only_rows: bool) -> tuple[Poured | None, Iterator[Any]]:
    """The rows of a generator, if its items are rows; and all of its items, including the first."""
    try:
        first = next(items)
    except StopIteration:
        return (Poured((), False) if only_rows else None), iter(())
    whole = chain([first], items)
    if frames.is_frame(first):
        return Poured(whole, True), whole
    if only_rows or isinstance(first, Mapping):
        return Poured(whole, False), whole
    return None, whole
