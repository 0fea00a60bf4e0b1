"""Nulls of Parquet columns, looked for where the footer does not count them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorferry.errors import FerryError
from tensorferry.formats.tables import pieces
from tensorferry.rows.columns import nbytes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.parquet.file import Reader

TOGETHER = 1 << 20
"""Number of bytes of the columns that are read at a time."""


def look_for_nulls(reader: Reader, unsure: Mapping[str, Collection[str]]) -> set[str]:
    """Those leaves of some columns that are null in some row.

    A few at a time, row groups and columns without end would fit into memory, but not into a
    lifetime: what is read of them is counted together.
    """
    if not unsure:
        return set()
    groups = range(len(reader.rows))
    declared = sum(reader.memory(group, list(unsure)) for group in groups)
    pieces.check_memory(declared, held=reader.size)
    found: set[str] = set()
    read = 0
    for group in groups:
        left = [column for column, names in unsure.items() if not found.issuperset(names)]
        for columns in _together(reader, group, left):
            batches = _read(reader, group, columns)
            read += sum(map(nbytes_of, batches))
            pieces.check_memory(read, held=reader.size)
            for batch in batches:
                for column, array in zip(batch.schema.names, batch.columns, strict=True):
                    found.update(_null_leaves(array, column))
    return found.intersection(name for names in unsure.values() for name in names)


def _together(reader: Reader, group: int, columns: Sequence[str]) -> Iterator[list[str]]:
    """Columns that are read at a time: for each reading PyArrow goes through all of the file's."""
    together: list[str] = []
    size = 0
    for column in columns:
        stored = sum(stop - start for start, stop in reader.spans(group, [column]))
        more = max(stored, reader.memory(group, [column]))
        if together and size + more > TOGETHER:
            yield together
            together, size = [], 0
        together.append(column)
        size += more
    if together:
        yield together


def _read(reader: Reader, group: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    """Some columns of a row group: one by one if they cannot be read together."""
    try:
        return reader.batches(group, columns)
    except FerryError:
        if len(columns) == 1:
            raise
    return [batch for column in columns for batch in reader.batches(group, [column])]


def _null_leaves(array: Any, name: str) -> Iterator[str]:
    """The names of what is null in some row: the array, or members of its structs."""
    import pyarrow as pa

    if array.null_count:
        yield name
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_struct(array.type):
        for field, member in zip(array.type, array.flatten(), strict=True):
            yield from _null_leaves(member, f"{name}/{field.name}")
    elif pa.types.is_fixed_size_list(array.type):
        yield from _null_leaves(array.flatten(), name)
