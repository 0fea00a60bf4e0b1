"""Typed: the columns of a frame, for formats that have fewer types than Arrow.

    typed = Typed(batch.schema)             # what the writer was given
    typed.learn(batch)                      # the categories of each batch
    schemas.Schema(features, frame=typed.to_json())
    typed.restored({"when": int64_array})   # what the reader gives

The writer of such a format writes what the format has: times as int64 in TFRecords, as text in CSV.
The types go into the schema beside the file (`tensorferry.rows.schema.arrow`), and whoever reads
the file as Arrow's table gets the columns of the frame: their names, order and types.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.columns import Note
from tensorferry.formats.tables.frames import fitting, holds_strings
from tensorferry.rows.schema import arrow as arrow_json, casting


class Typed:
    """The names, order and types of the columns of a frame.

    Attributes:
        schema: Of the frame.
        categories: The values of columns that are dictionaries, as far as they are known.
    """

    def __init__(self, schema: pa.Schema, categories: Mapping[str, pa.Array] | None = None) -> None:
        self.schema = schema
        self.categories: dict[str, pa.Array] = dict(categories or {})

    @classmethod
    def from_json(cls, tree: Any) -> Typed:
        """What `to_json` gave.

        Raises:
            FormatError: The tree is something else.
        """
        return cls(*arrow_json.from_json(tree))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON: see `tensorferry.rows.schema.arrow`.

        Raises:
            UnsupportedError: A type cannot be written down.
        """
        return arrow_json.to_json(self.schema, self.categories)

    def __reduce__(self) -> tuple[Any, ...]:
        return Typed, (self.schema, self.categories)

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A later batch in the types of the first, as of text and its bytes.

        Raises:
            UnsupportedError: Its columns are others.
        """
        schema = self.schema
        if batch.schema.equals(schema):
            return batch
        if sorted(batch.schema.names) == sorted(schema.names):
            batch = batch.select(schema.names)
            arrays = list(map(fitting, batch.columns, schema.types))
            if None not in arrays:
                return pa.RecordBatch.from_arrays(arrays, schema=schema)
        raise UnsupportedError(
            f"the columns of a frame are {_described(batch.schema)}, and {_described(schema)} in "
            "the frame before",
            hint="give every frame the same columns, of the same types",
        )

    def learn(self, batch: pa.RecordBatch) -> None:
        """Takes the categories that a batch has, behind those of the batches before."""
        for field, array in zip(batch.schema, batch.columns, strict=True):
            if not pa.types.is_dictionary(field.type):
                continue
            known, new = self.categories.get(field.name), array.dictionary
            if known is None:
                self.categories[field.name] = new
            elif not known.equals(new):
                both = pa.chunked_array([known, new.cast(known.type)])
                self.categories[field.name] = both.unique()

    def select(self, names: Iterable[str], others: pa.Schema | None = None) -> Typed:
        """Some of the columns.

        Args:
            names: In the order wanted.
            others: Has the columns that are none of the frame.
        """
        known = self.schema if others is None else self.among(others)
        schema = pa.schema([known.field(name) for name in names], self.schema.metadata)
        return Typed(schema, self.categories)

    def among(self, found: pa.Schema) -> pa.Schema:
        """The columns of the frame, and behind them those that only the file has."""
        own = set(self.schema.names)
        others = [field for field in found if field.name not in own]
        return pa.schema([*self.schema, *others], self.schema.metadata)

    def restored(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """The columns of the frame.

        Args:
            columns: What the file has, by name; the members of structs as "struct/member".
            rows: Number of rows.

        Raises:
            FormatError: A value of the file is none of its type.
        """
        arrays = []
        for field in self.schema:
            try:
                array = self._restored(columns, field.name, field.type, rows)
            except pa.ArrowException as error:
                raise _other(field, str(error)) from None
            if array.null_count and not field.nullable:
                raise _other(field, f"{array.null_count} values are null")
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _restored(
        self, columns: Mapping[str, pa.Array], name: str, kind: pa.DataType, rows: int
    ) -> pa.Array:
        if pa.types.is_struct(kind) and name not in columns:
            fields = [kind.field(index) for index in range(kind.num_fields)]
            parts = [
                self._restored(columns, f"{name}/{field.name}", field.type, rows)
                for field in fields
            ]
            absent = [part.is_null().to_numpy(zero_copy_only=False) for part in parts]
            mask = pa.array(functools.reduce(np.logical_and, absent))
            return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
        if pa.types.is_null(kind):
            return pa.nulls(rows)
        if name not in columns:
            raise pa.ArrowInvalid("the file has no such column")
        if pa.types.is_dictionary(kind):
            return _encoded(cast(columns[name], kind.value_type), kind, self.categories.get(name))
        return cast(columns[name], kind)


def leaves(kind: pa.DataType, name: str) -> list[str]:
    """The names under which a format without structs has the values of a column."""
    if not pa.types.is_struct(kind):
        return [] if pa.types.is_null(kind) else [name]
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return [leaf for field in fields for leaf in leaves(field.type, f"{name}/{field.name}")]


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a file in the type they were written from.

    Raises:
        pyarrow.ArrowException: They are none of that type.
    """
    if array.type == kind:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, cast(array, kind.storage_type))
    if pa.types.is_time(kind) and holds_strings(array.type):
        return _time_of_day(array, kind)
    return casting.cast(array.cast(_between(array.type, kind)), kind)


def _between(found: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """A type from which PyArrow casts, where it does not cast in one step."""
    types = pa.types
    if types.is_list(found) and (types.is_list(kind) or types.is_large_list(kind)):
        return pa.list_(_between(found.value_type, kind.value_type))
    if types.is_fixed_size_list(found) and types.is_fixed_size_list(kind):
        return pa.list_(_between(found.value_type, kind.value_type), found.list_size)
    if types.is_integer(found) and (types.is_date32(kind) or types.is_time32(kind)):
        return pa.int32()
    return pa.string() if types.is_binary(found) and types.is_decimal(kind) else found


def _time_of_day(array: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc  # takes half as long to import as PyArrow itself

    text = pc.binary_join_element_wise("1970-01-01", array.cast(pa.string()), " ")
    return text.cast(pa.timestamp(kind.unit)).cast(kind)


def _encoded(values: pa.Array, kind: pa.DataType, categories: pa.Array | None) -> pa.Array:
    """Values as the numbers of their categories."""
    import pyarrow.compute as pc  # takes half as long to import as PyArrow itself

    if categories is None:
        categories = values.drop_null().unique()
    numbers = pc.index_in(values, value_set=categories)
    if numbers.null_count != values.null_count:
        raise pa.ArrowInvalid("a value is none of the categories in the schema beside the file")
    indices = numbers.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, categories, ordered=kind.ordered)


def _other(field: pa.Field, reason: str) -> FormatError:
    return FormatError(
        f"the schema beside the file says {field.type}: {reason}",
        tensor=field.name,
        hint="remove the schema beside the file if it is about another one",
    )


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:200]


def check_structs(batch: pa.RecordBatch) -> None:
    """Refuses structs that are there and hold nothing, which their members alone do not tell.

    Raises:
        UnsupportedError: There is one.
    """
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_struct(field.type) and _has_hollow(array):
            raise UnsupportedError(
                "a struct of nulls alone cannot be told from a struct that is null",
                tensor=field.name,
                hint="write Parquet or Arrow",
            )


def _has_hollow(array: pa.Array) -> bool:
    hollow = array.is_valid().to_numpy(zero_copy_only=False)
    for member in array.flatten():
        if pa.types.is_struct(member.type) and _has_hollow(member.filter(array.is_valid())):
            return True
        hollow &= member.is_null().to_numpy(zero_copy_only=False)
    return bool(hollow.any())


def restorable(schema: pa.Schema) -> pa.Schema:
    """The columns of a schema whose types a format of lists of values gives back."""
    with pieces.translated():
        plain = [field for field in schema if not field.metadata or Note.of(field) == Note()]
        fields = [field for field in plain if _is_restorable(field.type)]
    return pa.schema(fields, schema.metadata)


def _is_restorable(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_struct(kind):
        members = [kind.field(index).type for index in range(kind.num_fields)]
        return bool(members) and all(map(_is_restorable, members))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        nested = inner.num_fields or isinstance(inner, pa.BaseExtensionType)
        return not (nested or types.is_dictionary(inner) or types.is_null(inner))
    if isinstance(kind, pa.FixedShapeTensorType) and kind.permutation is not None:
        return list(kind.permutation) == sorted(kind.permutation)
    try:
        arrow_json.to_json(pa.schema([("x", kind)]), {})
    except UnsupportedError:
        return False
    return True
