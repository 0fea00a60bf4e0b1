"""Frames as columns of tensors, and columns that differ only in how Arrow writes down a text.

    to_columns(batch)       a record batch of anybody's as columns for formats that have no Arrow
    to_tensors(frame)       a whole frame as named tensors
    fitting(array, kind)    a column in the type of the column before it

Which frames there are is `tensorferry.frameworks.frames`; what becomes of each of Arrow's types is
`tensorferry.formats.tables.values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tables import choice, pieces
from tensorferry.formats.tables.members import member_of
from tensorferry.formats.tables.outline import outline
from tensorferry.formats.tables.values import from_batches, is_list
from tensorferry.frameworks import frames
from tensorferry.frameworks.contract import Foreign
from tensorferry.tensors.values import RaggedTensor

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf


def to_columns(batch: pa.RecordBatch) -> dict[str, Any]:
    """The columns of a record batch; one with nulls is a list, with None where a row is null.

    Decimals become text, and a column of nothing but nulls is left out.

    Raises:
        UnsupportedError: A column is of a type that tensors lack.
    """
    batch = _without_decimals(batch)
    names = [field.name for field in batch.schema if not pa.types.is_null(field.type)]
    batch = batch.select(names)
    leaves = {leaf.name: leaf for leaf in outline(batch.schema)}
    with pieces.translated():
        whole = from_batches(batch.schema, [batch])
    columns: dict[str, Any] = {}
    for name, value in whole.items():
        columns[name], leaf = value, leaves[name]
        if not leaf.listed and leaf.nullable and isinstance(value, RaggedTensor):
            columns[name] = choice.row_values(value, True)
        elif leaf.listed:
            array = batch.column(leaf.column)
            if leaf.name != leaf.column:
                array = member_of(array, name.removeprefix(f"{leaf.column}/"))
            if array.null_count:
                present = array.is_valid().to_pylist()
                rows = zip(choice.row_values(value, False), present, strict=True)
                columns[name] = [row if there else None for row, there in rows]
    return columns


def to_tensors(frame: Foreign) -> dict[str, Leaf]:
    """The columns of a frame, whole, as named tensors; a float that is null is NaN.

    Raises:
        UnsupportedError: A column is of a type that tensors lack, or has nulls that are no floats.
    """
    table = frames.reader(frame, index=False).read_all().combine_chunks()
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if not column.null_count:
            continue
        if not pa.types.is_floating(field.type):
            raise UnsupportedError(
                f"{column.null_count} of {len(column)} values are null, and a tensor has none",
                tensor=field.name,
                hint="fill them, as in df.fillna(...), or save to Parquet, Arrow or TFRecord",
            )
        filled = column.fill_null(np.nan)
        table = table.set_column(place, field.with_nullable(False), filled)
    batches = [_without_decimals(batch) for batch in table.to_batches()]
    schema = batches[0].schema if batches else table.schema
    with pieces.translated():
        return from_batches(schema, batches)


def _without_decimals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with decimals as text, which has all of their digits."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_decimal(field.type):
            text = batch.column(place).cast(pa.string())
            batch = batch.set_column(place, field.with_type(pa.string()), text)
    return batch


def fitting(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """A column in another type for the same values, as of text and its bytes; None if it has none.

    Raises:
        UnsupportedError: The column is to be text, and holds bytes that are none.
    """
    if array.type == kind:
        return array
    if not _are_alike(array.type, kind):
        return None
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"values are {array.type}, and {kind} in the rows before: {error}",
            hint="give bytes, or text, from the first row on",
        ) from None


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    if is_list(one) and is_list(other):
        return _are_alike(one.value_type, other.value_type)
    if pa.types.is_dictionary(one):
        return _are_alike(one.value_type, other)
    return one == other or (holds_strings(one) and holds_strings(other))


def holds_strings(kind: pa.DataType) -> bool:
    """Whether each value of a type is one text, or bytes of any length."""
    types = pa.types
    tests = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
    )
    return any(test(kind) for test in tests)
