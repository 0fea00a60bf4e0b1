"""Tables into other formats of columns, without leaving Arrow: every type stays what it was.

A column of times, decimals, structs or null lists has no counterpart among tensors, or none that
tells it from others; Arrow's record batches carry them all. What the target's format itself has no
type for is found by reading its schema back, and said in a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.operations.subject import Subject
from tensorferry.rows.columns import homes_of
from tensorferry.rows.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa


def is_table(subject: Subject) -> bool:
    """Whether something that was opened is rows of columns with Arrow's types."""
    return isinstance(subject.opened, Rows) and not subject.facts.records


@dataclass(frozen=True, slots=True)
class _Taken:
    """A column of the target.

    Attributes:
        column: The column of the source that it is in.
        member: The path of a struct's member that becomes a column of its own; "" for the column.
        name: The new name.
    """

    column: str
    member: str
    name: str


def batches(subject: Subject, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """The rows of a table with some of its columns, under new names.

    Args:
        subject: A table.
        names: New names of the leaves wanted, by their old ones. A struct of which all leaves are
            wanted, under their own names, stays one column.

    Raises:
        UnsupportedError: PyArrow cannot read a column.
    """
    import pyarrow as pa

    from tensorferry.formats.tables.members import member_of

    opened = subject.opened
    assert isinstance(opened, Rows)
    schema = opened.arrow_schema
    taken = _taken(subject, schema.names, names)
    kept = {key: text for key, text in (schema.metadata or {}).items() if key in _KEPT}
    columns = [column.chunk(0) for column in schema.empty_table().columns]
    empty = pa.RecordBatch.from_arrays(columns, schema=schema)
    for batch in chain([empty], opened.arrow_batches()):  # a table without rows has columns, too
        fields, arrays = [], []
        for one in taken:
            array, field = batch.column(one.column), schema.field(one.column)
            if one.member:
                array = member_of(array, one.member)
                field = pa.field(one.name, array.type)
            arrays.append(array)
            fields.append(field.with_name(one.name))
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, kept))


# What a schema's metadata says of its columns; all else is the user's, and goes another way.
_KEPT = (b"tensorferry.rows", b"pandas")


def _taken(subject: Subject, columns: Sequence[str], names: Mapping[str, str]) -> list[_Taken]:
    homes = homes_of(subject.infos, columns)
    inside: dict[str | None, list[str]] = {}
    for leaf, home in homes.items():
        inside.setdefault(home, []).append(leaf)
    whole = {
        home: all(names.get(leaf) == leaf for leaf in leaves) for home, leaves in inside.items()
    }
    taken: list[_Taken] = []
    for old, new in names.items():
        column = homes[old]
        if column is None:
            subject.check_readable([old])
            raise UnsupportedError("PyArrow cannot read the column", tensor=old)
        if old == column:
            taken.append(_Taken(column, "", new))
        elif whole[column]:
            taken.append(_Taken(column, "", column))
        else:
            taken.append(_Taken(column, old.removeprefix(f"{column}/"), new))
    return list(dict.fromkeys(taken))


# What is lost


def lost_types(subject: Subject, names: Mapping[str, str], format: str) -> list[str]:
    """Notes on columns of a table whose types have no place in formats without Arrow's types."""
    if not is_table(subject):
        return []
    import pyarrow as pa

    opened = subject.opened
    assert isinstance(opened, Rows)
    notes, apart = [], []
    schema = opened.arrow_schema
    homes = set(homes_of(names, schema.names).values())
    for field in schema:
        wanted = field.name in homes
        is_time = pa.types.is_temporal(field.type)
        if wanted and (is_time or pa.types.is_decimal(field.type)):
            notes.append(f"column {field.name!r} is {field.type}, for which {format} has no type")
        elif wanted and pa.types.is_struct(field.type) and field.type.num_fields:
            apart.append((field.name, f"{field.name}/{field.type.field(0).name}"))
    if apart:
        column, member = apart[0]
        others = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
        notes.append(f"column {column!r}{others} is a struct: its fields are columns as {member!r}")
    return notes


def has_rare_types(subject: Subject) -> bool:
    """Whether a table has columns of other types than numbers and texts, which may change."""
    import pyarrow as pa

    types = pa.types
    tests = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_string,
        types.is_binary,
    )
    opened = subject.opened
    return isinstance(opened, Rows) and not all(
        any(test(kind) for test in tests) for kind in opened.arrow_schema.types
    )


def changed_types(subject: Subject, names: Mapping[str, str], target: Subject) -> list[str]:
    """Notes on columns that have another type in the target than in the source."""
    before, after = subject.opened, target.opened
    if not isinstance(before, Rows) or not isinstance(after, Rows):
        return []
    old, new = before.arrow_schema, after.arrow_schema
    notes = []
    for one in _taken(subject, old.names, names):
        if one.member or one.name not in new.names:
            continue
        was, is_now = old.field(one.column).type, new.field(one.name).type
        if was != is_now:
            notes.append(f"column {one.name!r} was {was}, and is {is_now}")
    return notes


def same(subject: Subject, names: Mapping[str, str], target: Subject) -> bool:
    """Whether a target has exactly the rows of a table; NaN is the same as NaN."""
    assert isinstance(target.opened, Rows)
    ours = (batch for batch in batches(subject, names) if batch.num_rows)
    theirs = (batch for batch in target.opened.arrow_batches() if batch.num_rows)
    left: pa.RecordBatch | None = next(ours, None)
    right: pa.RecordBatch | None = next(theirs, None)
    while left is not None and right is not None:
        rows = min(left.num_rows, right.num_rows)
        one, other = left.slice(0, rows), right.slice(0, rows)
        if one.schema.names != other.schema.names:
            return False
        if not all(map(_are_equal, one.columns, other.columns)):
            return False
        left, right = _rest(left, rows, ours), _rest(right, rows, theirs)
    return left is None and right is None


def _rest(
    batch: pa.RecordBatch, rows: int, following: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    return batch.slice(rows) if batch.num_rows > rows else next(following, None)


def _are_equal(one: pa.Array, other: pa.Array) -> bool:
    import pyarrow as pa

    if isinstance(one.type, pa.BaseExtensionType) and isinstance(other.type, pa.BaseExtensionType):
        return one.type == other.type and _are_equal(one.storage, other.storage)
    if pa.types.is_dictionary(one.type) and pa.types.is_dictionary(other.type):
        one, other = one.dictionary_decode(), other.dictionary_decode()
    if one.equals(other):
        return True
    # Arrow tells NaN from NaN; printed, nested ones are the same.
    return bool(
        one.type == other.type and one.to_pylist().__repr__() == other.to_pylist().__repr__()
    )
