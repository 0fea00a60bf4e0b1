"""Columns of records: what their schema says of them, and records of bytes as a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry.rows.rows import To, hand
from tensorferry.rows.schema import Feature, Schema
from tensorferry.tensors.infos import Kind, TensorInfo

if TYPE_CHECKING:
    import pyarrow as pa

RECORD = "record"
"""The one column of records that are no Examples."""

RAW = Schema((Feature(RECORD, "bytes", (), "string"),))
"""What records of bytes are as rows."""


def infos(schema: Schema) -> Mapping[str, TensorInfo]:
    """What is known of each column; the first dimension, that of the rows, is open."""
    return {name: _info(feature) for name, feature in schema.items()}


def _info(feature: Feature) -> TensorInfo:
    varies = (None,) if feature.sequence or (feature.optional and feature.default is None) else ()
    shape = (None, *varies, *feature.shape)
    kind: Kind = "string" if feature.dtype == "string" else "dense"
    return TensorInfo(
        feature.name,
        feature.dtype,
        shape,
        kind="ragged" if None in shape[1:] else kind,
        quantized=None if feature.quantized is None else feature.stored,
    )


def optional(schema: Schema) -> frozenset[str]:
    """The features that records may lack, and that hold one value or tensor otherwise."""
    return frozenset(
        feature.name
        for feature in schema.features
        if feature.optional
        and feature.default is None
        and not feature.sequence
        and not feature.is_ragged
    )


def of_bytes(records: Sequence[bytes], to: To) -> Any:
    """A batch of records of bytes: the column "record"."""
    if to == "arrow":
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], [RECORD])
    column = np.empty(len(records), object)
    column[:] = records
    return hand({RECORD: column}, to)


def arranged(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """A schema with its columns in an order."""
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])


def length_of(batch: Any) -> int:
    """Number of rows of a batch of any kind."""
    if isinstance(batch, list):
        return len(batch)
    if isinstance(batch, dict):
        return next((len(column) for column in batch.values()), 0)
    return int(batch.num_rows)
