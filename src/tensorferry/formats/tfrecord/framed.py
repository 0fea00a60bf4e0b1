"""Frames as records: which features their columns become, and the schema that keeps their types.

Numbers that an int64 list holds, times and dates are int64 lists: a time is a count of the unit of
its column since 1970-01-01 UTC, a date of days, as in Arrow. Texts, bytes, decimals (as text) and
categories (what they mean) are bytes lists. A row lacks the features that are null in it, and a
struct is a feature for each member, "struct/member". What the columns were stands in the schema
beside the file (`tensorferry.formats.tables.typed`).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tensorferry.classes import replace
from tensorferry.formats.tables import pieces
from tensorferry.formats.tables.frames import to_columns
from tensorferry.formats.tables.outline import Outline, outline
from tensorferry.formats.tables.typed import Typed, check_structs, leaves, restorable
from tensorferry.rows.schema import Feature, Schema
from tensorferry.rows.schema.feature import KINDS

# The dtypes whose values are written as int64.
_NARROW = frozenset(("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"))


class Framed:
    """The frames that a writer was given.

    Args:
        before: The schema beside a file that is appended to.

    Attributes:
        rows: Number of rows of all frames.
    """

    def __init__(self, before: Schema | None = None) -> None:
        self.rows = 0
        self._whole: Typed | None = None
        self._features: dict[str, Feature] = {}
        if before is not None and before.frame is not None:
            self._whole = Typed.from_json(before.frame)
            self._features = dict(before)

    def begin(self, schema: pa.Schema) -> None:
        """Takes the schema of a frame, of which there may be no rows.

        Raises:
            FormatError: Several columns have one name.
        """
        pieces.check_names(schema)
        if self._whole is None:
            self._whole = Typed(schema)
            for leaf in outline(_as_written(schema)):
                if leaf.error is None:
                    self._features[leaf.name] = _feature(leaf)

    def columns(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """The columns of a batch for the encoder, with None where a row lacks a feature.

        Raises:
            UnsupportedError: A column is of a type that tensors lack, or another than before.
        """
        assert self._whole is not None
        batch = self._whole.fitted(batch)
        self._whole.learn(batch)
        check_structs(batch)
        columns = to_columns(batch)
        for name, column in columns.items():
            if isinstance(column, list) and any(value is None for value in column):
                self._features[name] = replace(self._features[name], optional=True)
        self.rows += batch.num_rows
        return columns

    def schema(self, given: Schema) -> Schema:
        """What the records hold, with the columns that the frames had.

        Args:
            given: How the user wants features to be written.
        """
        assert self._whole is not None
        names = restorable(self._whole.schema).names
        typed = self._whole.select(
            name
            for name in names
            if not any(leaf in given for leaf in leaves(self._whole.schema.field(name).type, name))
        )
        features = {**self._features, **given}
        return Schema(tuple(features.values()), frame=typed.to_json())


def _as_written(schema: pa.Schema) -> pa.Schema:
    """The schema of the columns that the encoder gets."""
    fields = [field for field in schema if not pa.types.is_null(field.type)]
    is_decimal = pa.types.is_decimal
    return pa.schema(
        [one.with_type(pa.string()) if is_decimal(one.type) else one for one in fields]
    )


def _feature(leaf: Outline) -> Feature:
    dtype, shape = leaf.dtype, leaf.shape
    if len(shape) <= 1 and dtype in _NARROW:
        dtype = "int64"
    if len(shape) <= 1 and dtype in KINDS and not leaf.several:
        return Feature(leaf.name, KINDS[dtype], shape, dtype)
    return Feature(leaf.name, "bytes", shape, dtype, encoding="tensor")
