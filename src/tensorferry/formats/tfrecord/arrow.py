"""Examples as Arrow record batches, with the types that their schema has in Arrow.

Numbers are NumPy's memory, strings one buffer and its offsets: no Python object is made for a
value. A row without an optional feature is null. Everything else is
`tensorferry.formats.tfrecord.example`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tensorferry import dtypes
from tensorferry.errors import LimitError
from tensorferry.formats.tables.typed import Typed, leaves
from tensorferry.formats.tfrecord.example import BatchDecoder
from tensorferry.formats.tfrecord.frames import Segment
from tensorferry.rows.rows import Damage
from tensorferry.rows.schema import Feature, Schema
from tensorferry.tensors.values import Array


class ArrowDecoder(BatchDecoder):
    """Turns segments into `pyarrow.RecordBatch`es; see `BatchDecoder`."""

    def __init__(self, schema: Schema, columns: Sequence[str] | None = None) -> None:
        super().__init__(schema, columns)
        arrow = self.schema.to_arrow()
        self._arrow = pa.schema([arrow.field(name) for name in self.names])
        self._types = {field.name: field.type for field in self._arrow}
        self._typed = typed_columns(schema, columns)

    def decode(
        self, segments: Sequence[Segment], *, damages: list[Damage] | None = None
    ) -> pa.RecordBatch:
        """The record batch of the records in some segments."""
        return self.finish(super().decode(segments, damages=damages))

    def finish(self, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        """The record batch of its columns."""
        if self._typed is not None:
            rows = len(next(iter(columns.values()))) if columns else self.native.rows
            return self._typed.restored(columns, rows)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=self._arrow)

    def _column(
        self, feature: Feature, index: int, rows: int, sizes: list[tuple[int, int, int]]
    ) -> pa.Array:
        count, lists, missing = sizes[index]
        if self._typed is not None and feature.encoding == "tensor" and feature.shape == (None,):
            value_type = getattr(pa, dtypes.BY_NAME[feature.dtype].arrow or "")()
            tensors = super()._column(feature, index, rows, sizes)
            return pa.array(tensors, pa.list_(value_type))
        if feature.encoding == "tensor" and not pa.types.is_binary(self._types[feature.name]):
            return self._tensors(feature, index, rows, sizes)
        array = self._flat(feature, index, count)
        shape = () if feature.encoding == "tensor" else feature.shape
        for size in reversed(shape):
            if size is not None:
                array = pa.FixedSizeListArray.from_arrays(array, size)
        if shape[:1] == (None,):
            splits = _splits(lists, count)
            self.native.copy_list_splits(index, splits)
            if len(shape) > 1:
                splits //= math.prod(shape[1:])  # type: ignore[arg-type]
            mask = None
            if missing and not feature.sequence:
                mask = pa.array(~self._present(index, rows, missing))
            array = pa.ListArray.from_arrays(pa.array(splits), array, mask=mask)
        elif missing and not feature.sequence:
            array = array.take(_places(self._present(index, rows, missing)))
        if feature.sequence:
            row_splits = _splits(rows, lists)
            self.native.copy_row_splits(index, row_splits)
            array = pa.ListArray.from_arrays(pa.array(row_splits), array)
        return array

    def _flat(self, feature: Feature, index: int, count: int) -> pa.Array:
        if feature.kind != "bytes":
            return pa.array(self._values(feature, index, count))
        size = self.native.text_bytes(index)
        data, offsets = np.empty(size, np.uint8), _splits(count, size)
        self.native.join_texts(index, data, offsets)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), count, buffers)

    def _tensors(
        self,
        feature: Feature,
        index: int,
        rows: int,
        sizes: list[tuple[int, int, int]],
    ) -> pa.Array:
        """Serialized tensors of one shape, as numbers or as Arrow's own tensors."""
        column = super()._column(feature, index, rows, sizes)
        missing = sizes[index][2]
        if feature.is_ragged:
            splits = _splits(rows, len(column.flat_values))
            splits[:] = column.nested_row_splits[0]
            mask = pa.array(~self._present(index, rows, missing)) if missing else None
            values = pa.array(column.flat_values)
            return pa.ListArray.from_arrays(pa.array(splits), values, mask=mask)
        stacked = column.flat_values if missing or feature.optional else column
        flat = pa.array(np.ascontiguousarray(stacked).reshape(-1))
        if not feature.shape:
            array = flat
        else:
            size = math.prod(stacked.shape[1:])
            array = pa.FixedSizeListArray.from_arrays(flat, size)
        if missing:
            array = array.take(_places(self._present(index, rows, missing)))
        if not feature.shape:
            return array
        return pa.ExtensionArray.from_storage(self._types[feature.name], array)

    def _present(self, index: int, rows: int, missing: int) -> Array:
        absent = np.empty(missing, np.int64)
        self.native.copy_missing(index, absent)
        present = np.ones(rows, bool)
        present[absent] = False
        return present


def typed_columns(schema: Schema, columns: Sequence[str] | None) -> Typed | None:
    """The columns of the frame that was written, if one was; None for those of the schema.

    Args:
        schema: The schema of the file.
        columns: The features wanted, by default all. A feature that is no column of the frame has
            the type that it has in the schema.
    """
    if schema.frame is None:
        return None
    typed = Typed.from_json(schema.frame)
    known = {leaf for field in typed.schema for leaf in leaves(field.type, field.name)}
    if columns is None:
        columns = [*typed.schema.names, *(name for name in schema if name not in known)]
    return typed.select(columns, schema.to_arrow())


def _splits(parts: int, last: int) -> Array:
    """Room for the start of each of so many parts, and the end of the last."""
    if last >= 1 << 31:
        raise LimitError(
            f"a column of a batch holds {last} values, Arrow's lists end at 2^31 - 1",
            hint="use smaller batches",
        )
    return np.empty(parts + 1, np.int32)


def _places(present: Array) -> pa.Array:
    """For each row, the place of its value among all values, or null."""
    return pa.array(np.cumsum(present) - 1, mask=~present)
