"""Nulls: which lists of a table's columns are missing, and not only empty.

    missing_lists(subject, ["tokens"])      # {"tokens": {0: array([4, 17])}}
    rows_of(subject, ["tokens"])            # one by one, {"tokens": None} where it is missing

Among tensors a missing list is an empty one. Tables tell the two apart, and so do all operations
that show, compare or count values: a column that may lack lists is read once more for that, as
Arrow has it. Files that we write have no such column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry.operations.subject import Subject
from tensorferry.rows.columns import homes_of
from tensorferry.rows.rows import Rows
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

Missing = Mapping[int, Array]
"""By the number of lists around it, the numbers of the missing lists; 0 for those of rows."""


def missing_lists(subject: Subject, names: Sequence[str]) -> dict[str, Missing]:
    """The lists that are missing, of each column that lacks some.

    Args:
        subject: The opened file; only tables can lack lists.
        names: Of columns that can be read.
    """
    rows = _lacking(subject, names)
    if rows is None:
        return {}
    found: dict[str, dict[int, list[Array]]] = {}
    counts: dict[tuple[str, int], int] = {}
    homes = homes_of(rows.columns, rows.arrow_schema.names)
    for batch in rows.arrow_batches():
        for name, home in homes.items():
            for level, valid in enumerate(_validity_in(batch, name, home)):
                start = counts.get((name, level), 0)
                counts[name, level] = start + len(valid)
                lacking = np.flatnonzero(np.logical_not(valid)) + start
                if lacking.size:
                    found.setdefault(name, {}).setdefault(level, []).append(lacking)
    return {
        name: {level: np.concatenate(parts) for level, parts in levels.items()}
        for name, levels in found.items()
    }


def rows_of(
    subject: Subject, names: Sequence[str], *, start: int | None = None, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Rows one by one, with None for a list that is missing.

    Args:
        subject: What was opened.
        names: Of columns that can be read.
        start: The first row wanted, of rows that can be read from there; by default the first.
        limit: How many of the first rows are wanted at most; there may be more.
    """
    opened = subject.opened
    lacking = _lacking(subject, names)
    if start is not None and isinstance(opened, Rows):
        rows: Iterator[dict[str, Any]] = iter(opened.select(names)[start:])
        lacking = None if lacking is None else lacking.portion(start, len(opened))
    elif limit is not None and isinstance(opened, Rows) and _is_file_of_columns(subject):
        # Pieces behind the rows that are wanted are not read.
        rows = iter(opened.select(names).portion(0, limit))
        lacking = None if lacking is None else lacking.portion(0, limit)
    else:
        rows = subject.rows(names)
    return rows if lacking is None else _without_lists(rows, lacking)


def _without_lists(rows: Iterator[dict[str, Any]], lacking: Rows) -> Iterator[dict[str, Any]]:
    """Rows, with None in the place of lists that are missing."""
    homes = homes_of(lacking.columns, lacking.arrow_schema.names)
    for batch in lacking.arrow_batches():
        valid = {name: next(_validity_in(batch, name, home), None) for name, home in homes.items()}
        some = [(name, there) for name, there in valid.items() if there is not None]
        some = [(name, there) for name, there in some if not there.all()]
        for place, row in enumerate(islice(rows, batch.num_rows)):
            for name, there in some:
                if not there[place]:
                    row[name] = None
            yield row
    yield from rows


def _lacking(subject: Subject, names: Sequence[str]) -> Rows | None:
    """The columns of a table whose lists may be missing; None if there are none."""
    opened = subject.opened
    if not isinstance(opened, Rows) or not _is_file_of_columns(subject):
        return None
    wanted = [name for name in names if None in subject.infos[name].shape[1:]]
    if not wanted:
        return None
    rows = opened.select(wanted)
    return rows if any(_may_lack(field) for field in rows.arrow_schema) else None


def _is_file_of_columns(subject: Subject) -> bool:
    """Whether rows are those of a table that can be read again."""
    return not subject.facts.records and not subject.is_stream


def _validity_in(batch: pa.RecordBatch, leaf: str, column: str | None) -> Iterator[Array]:
    """The same as `_validity`, of a leaf in a column of a record batch."""
    if column is not None:
        yield from _validity(batch.column(column), leaf.removeprefix(column)[1:])


def _may_lack(field: pa.Field) -> bool:
    """Whether a list in a column may be missing, by its type."""
    import pyarrow as pa

    from tensorferry.formats.tables.values import is_list

    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if is_list(kind):
        return bool(field.nullable) or _may_lack(kind.field(0))
    if pa.types.is_struct(kind):
        inside = [kind.field(place) for place in range(kind.num_fields)]
        return any(_may_lack(one) for one in inside) or (field.nullable and any(_lists(inside)))
    return bool(pa.types.is_fixed_size_list(kind)) and _may_lack(kind.field(0))


def _lists(fields: Sequence[pa.Field]) -> Iterator[bool]:
    import pyarrow as pa

    from tensorferry.formats.tables.values import is_list

    for field in fields:
        yield is_list(field.type)
        if pa.types.is_struct(field.type):
            yield from _lists([field.type.field(n) for n in range(field.type.num_fields)])


def _validity(array: Any, path: str) -> Iterator[Array]:
    """Of each list around the values of a leaf, from the outside in: which of them are there."""
    import pyarrow as pa

    from tensorferry.formats.tables.values import is_list, list_parts

    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, array.flatten(), strict=True):
            if path == field.name or path.startswith(f"{field.name}/"):
                yield from _validity(child, path.removeprefix(field.name)[1:])
                return
    elif is_list(kind):
        yield _is_there(array)
        yield from _validity(list_parts(array)[1], path)
    elif pa.types.is_fixed_size_list(kind):
        yield from _validity(array.flatten(), path)


def _is_there(array: pa.Array) -> Array:
    """Which values of an array are not null: `is_valid` would import `pyarrow.compute`."""
    if not array.null_count:
        return np.ones(len(array), bool)
    first, last = array.offset // 8, (array.offset + len(array) + 7) // 8
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8)[first:last], bitorder="little")
    found: Array = bits[array.offset % 8 :][: len(array)].astype(bool)
    return found
