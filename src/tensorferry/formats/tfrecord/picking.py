"""Picking: rows by the places of their records, one or several.

The native way reads records that are as the schema says. Whatever it leaves is decoded record by
record (`tensorferry.formats.tfrecord.example`), which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.formats.tfrecord.example import (
    NUMPY_DTYPES,
    BatchDecoder,
    native_columns,
    rows_of,
)
from tensorferry.rows.schema import Feature, Schema
from tensorferry.tensors.values import Array

# A decoder of more rows than this is not kept: its memory would be.
KEPT_ROWS = 4096

_SCALARS: dict[str, Any] = {"bytes": bytes, "float32": np.float32, "int64": np.int64}


class RowPicker:
    """Reads rows of records; several threads may use it. A pickled one starts anew.

    Args:
        schema: The schema of the records.
        columns: The features wanted; None for all.
    """

    def __init__(self, schema: Schema, columns: Sequence[str] | None) -> None:
        self._schema = schema
        self._columns = columns
        wanted = [schema[name] for name in (schema if columns is None else columns)]
        self._is_simple = all(map(_is_simple, wanted))
        # Those that no call uses at the moment.
        self._readers: list[_native.RowReader] = []
        self._decoders: list[BatchDecoder] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPicker, (self._schema, self._columns)

    def row(self, buffer: bytes | memoryview, start: int, *, verify: bool) -> dict[str, Any] | None:
        """The row whose frame starts at `start`; None if it has to be decoded in another way."""
        if not self._is_simple:
            return None
        reader = self._readers.pop() if self._readers else self._make_reader()
        row = reader.read(buffer, start, verify)
        self._readers.append(reader)
        return row

    def rows(
        self,
        buffers: list[bytes | memoryview],
        which: Array,
        starts: Array,
        *,
        verify: bool,
    ) -> list[dict[str, Any]] | None:
        """Rows in the order asked for; None if they have to be decoded in another way.

        Args:
            buffers: Some files.
            which: The buffer of each row, by its number: int64.
            starts: Where the frame of each row starts: int64.
            verify: Whether to check the checksums of the data.
        """
        try:
            decoder = self._decoders.pop()
        except IndexError:
            decoder = BatchDecoder(self._schema, self._columns)
        try:
            decoder.check_room(len(starts), sum(map(len, buffers)))
            if not decoder.native.decode_at(buffers, which, starts, verify):
                return None
            columns, problems = decoder.columns()
            return None if problems else rows_of(columns, self._schema)
        finally:
            decoder.native.clear()  # it holds the files
            if len(starts) <= KEPT_ROWS:
                self._decoders.append(decoder)

    def _make_reader(self) -> _native.RowReader:
        schema = self._schema
        wanted = list(schema if self._columns is None else self._columns)
        numbers = {name: number for number, name in enumerate(schema)}
        outputs = [(numbers[name], *_output(schema[name])) for name in wanted]
        return _native.RowReader(native_columns(schema, wanted), outputs, np.empty)


def _is_simple(feature: Feature) -> bool:
    """Whether a value is a list of one dimension or a block of a fixed shape."""
    return feature.encoding == "plain" and not feature.sequence and None not in feature.shape[1:]


def _output(feature: Feature) -> tuple[str, bool, tuple[int | None, ...], Any, Any]:
    missing = feature.optional and feature.default is None
    scalar, dtype = _SCALARS[feature.kind], NUMPY_DTYPES[feature.kind]
    return feature.name, missing, feature.shape, scalar, dtype
