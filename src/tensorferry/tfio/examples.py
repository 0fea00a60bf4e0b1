"""Examples and SequenceExamples to tensors: the parsers of `tf.io`.

    Example          a dict of features, each a list of bytes, float32 or int64
    SequenceExample  the same as its context, and a dict of sequences of such lists

The native decoder collects each feature of all records in one column: the values, where each list
ends, and which records lack the feature. `tensorferry.tfio.columns` turns columns into tensors.
Where TensorFlow raises InvalidArgumentError for a record, this module raises a FormatError that
names the record. A request that cannot be met is an UnsupportedError.

Beyond `tf.io`, features may share a key, a default may be any tensor of the right size, and parts
that do not fit together (indices, partitions) are always refused, not only with `validate`. Bytes
are read as protobuf reads them. TensorFlow's parsers skip or refuse some bytes that its own writers
never write: values in several runs, several kinds in one feature, unknown fields in lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, frameworks
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.tensors.values import Array, as_tensor
from tensorferry.tfio.columns import Batch, Column, to_tensor
from tensorferry.tfio.features import (
    KINDS,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    as_features,
    columns_of,
)

__all__ = [
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

Tensors = dict[str, Any]

IN_EXAMPLE = (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    SparseFeature,
    RaggedFeature,
)
IN_CONTEXT = (FixedLenFeature, VarLenFeature, RaggedFeature)
IN_SEQUENCE = (FixedLenSequenceFeature, VarLenFeature, RaggedFeature)


def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> Tensors:
    """The features of serialized Examples: arrays, SparseTensors and RaggedTensors.

    Args:
        serialized: Any number of records, which are the first dimension of each result; or a
            single record, whose results have no such dimension.
        features: What to parse, by key: feature objects of `tfio` or of `tf.io`.
        example_names: The names of the records in errors; by default their numbers.
        name: Ignored; present for compatibility with `tf.io`.

    Raises:
        FormatError: A record is damaged, or does not have the values of a feature.
        UnsupportedError: A feature cannot be parsed.
    """
    described = as_features(features, IN_EXAMPLE)
    for key, feature in described.items():
        if isinstance(feature, FixedLenSequenceFeature) and not feature.allow_missing:
            raise UnsupportedError(
                f"feature {key!r} has allow_missing=False, expected True",
                hint="in an Example, a sequence that is missing is an empty one",
            )
    columns, _ = _decode(serialized, example_names, described, {})
    return {key: to_tensor(key, feature, columns) for key, feature in described.items()}


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> Tensors:
    """The features of one serialized Example, without a dimension for records.

    Args:
        serialized: The record.
        features: As in `parse_example`.
        example_names: The name of the record in errors.
        name: Ignored; present for compatibility with `tf.io`.

    Returns:
        Tensors by key, as in `parse_example`; a scalar is an array of shape (), and `.item()`
        returns its value.

    Raises:
        FormatError: The record is damaged, or does not have the values of a feature.
        UnsupportedError: A feature cannot be parsed.
    """
    return parse_example(_as_one(serialized), features, example_names)


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[Tensors, Tensors, dict[str, Array]]:
    """The features of serialized SequenceExamples.

    Args:
        serialized: Any number of records, or a single one, as in `parse_example`.
        context_features: What to parse of the context.
        sequence_features: What to parse of the sequences; their steps are a dimension after that
            of the records.
        example_names: The names of the records in errors; by default their numbers.
        name: Ignored; present for compatibility with `tf.io`.

    Returns:
        The context's tensors, the sequences' tensors, and for each FixedLenSequenceFeature the
        number of steps in each record.

    Raises:
        FormatError: A record is damaged, or does not have the values of a feature.
        UnsupportedError: A feature cannot be parsed.
    """
    context = as_features(context_features, IN_CONTEXT)
    sequences = as_features(sequence_features, IN_SEQUENCE)
    for key, feature in sequences.items():
        if isinstance(feature, FixedLenSequenceFeature) and feature.default_value is not None:
            raise UnsupportedError(
                f"feature {key!r} has a default_value, expected none in a SequenceExample",
                hint="sequences are filled up with 0 or the empty string",
            )
    in_context, in_sequences = _decode(serialized, example_names, context, sequences)
    return (
        {key: to_tensor(key, feature, in_context) for key, feature in context.items()},
        {key: to_tensor(key, feature, in_sequences) for key, feature in sequences.items()},
        {
            key: in_sequences[key].steps()
            for key, feature in sequences.items()
            if isinstance(feature, FixedLenSequenceFeature)
        },
    )


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[Tensors, Tensors]:
    """The features of one serialized SequenceExample, without a dimension for records.

    Args:
        serialized: The record.
        context_features: What to parse of the context.
        sequence_features: What to parse of the sequences.
        example_name: The name of the record in errors.
        name: Ignored; present for compatibility with `tf.io`.

    Returns:
        The context's tensors and the sequences' tensors.

    Raises:
        FormatError: The record is damaged, or does not have the values of a feature.
        UnsupportedError: A feature cannot be parsed.
    """
    record = _as_one(serialized)
    return parse_sequence_example(record, context_features, sequence_features, example_name)[:2]


def _decode(
    serialized: Any, names: Any, context: dict[str, Any], sequences: dict[str, Any]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns for the features of a context (or Example), and for those of sequences."""
    records, single = _as_records(serialized)
    batch = Batch(len(records), single, _as_names(names, len(records)), sum(map(len, records)))
    wanted = [(name, dtype, False) for name, dtype in _parts_of(context).items()]
    wanted += [(name, dtype, True) for name, dtype in _parts_of(sequences).items()]
    if not wanted:
        raise UnsupportedError("no features to parse, expected at least one")
    decoder = _native.ExampleDecoder(
        [(name, KINDS[dtype.name], sequence, True, None) for name, dtype, sequence in wanted]
    )
    try:
        decoder.decode_records(records)
    except FerryError as error:
        raise error.located(path=batch.name_of(decoder.rows)) from None
    results: tuple[dict[str, Column], dict[str, Column]] = ({}, {})
    for position, (name, dtype, sequence) in enumerate(wanted):
        results[sequence][name] = _read_column(decoder, position, dtype, sequence, batch)
    return results


def _parts_of(features: dict[str, Any]) -> dict[str, dtypes.DType]:
    parts: dict[str, dtypes.DType] = {}
    for key, feature in features.items():
        for name, dtype in columns_of(key, feature):
            if parts.setdefault(name, dtype) is not dtype:
                raise UnsupportedError(
                    f"feature {name!r} is asked for as {parts[name].name} and as {dtype.name}"
                )
    return parts


def _read_column(
    decoder: _native.ExampleDecoder,
    position: int,
    dtype: dtypes.DType,
    sequence: bool,
    batch: Batch,
) -> Column:
    count, lists, lacking = decoder.sizes()[position]
    values = np.empty(count, dtype.numpy)
    splits = np.empty(lists + 1, np.int64)
    rows = np.arange(batch.size + 1)
    missing = np.empty(lacking, np.int64)
    if dtype is dtypes.STRING:
        decoder.copy_texts(position, values)
    else:
        decoder.copy_values(position, values)
    decoder.copy_list_splits(position, splits)
    if sequence:
        decoder.copy_row_splits(position, rows)
    decoder.copy_missing(position, missing)
    return Column(values, splits, rows, missing, sequence, batch)


def _as_records(serialized: Any) -> tuple[list[bytes], bool]:
    """The records, and whether it is a single one without a dimension for records."""
    if isinstance(serialized, bytes | bytearray | memoryview):
        return [bytes(serialized)], True
    if isinstance(serialized, list) and set(map(type, serialized)) <= {bytes}:
        return serialized, False
    if isinstance(serialized, list | tuple):
        return [_scalar(one) for one in serialized], False
    tensor = as_tensor(frameworks.accept(serialized))
    if tensor.dtype != object or tensor.ndim > 1:
        raise UnsupportedError(
            f"serialized is of {tensor.dtype} and shape {tensor.shape}, "
            "expected one string or one dimension of strings"
        )
    return tensor.reshape(-1).tolist(), tensor.ndim == 0


def _scalar(given: Any) -> bytes:
    """One of a list of records: bytes, or a tensor of one string."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    tensor = as_tensor(frameworks.accept(given))
    if tensor.dtype != object or tensor.ndim:
        raise UnsupportedError(
            f"serialized has a tensor of {tensor.dtype} and shape {tensor.shape}, "
            "expected one string each"
        )
    return bytes(tensor.item())


def _as_one(serialized: Any) -> bytes:
    records, single = _as_records(serialized)
    if not single:
        raise UnsupportedError(
            f"serialized holds {len(records)} records, expected one string",
            hint="parse_example and parse_sequence_example take many",
        )
    return records[0]


def _as_names(names: Any, count: int) -> list[str]:
    given = [] if names is None else as_tensor(frameworks.accept(names)).reshape(-1).tolist()
    if given and len(given) != count:
        raise UnsupportedError(f"{len(given)} example_names, expected {count}")
    return [
        text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in given
    ]
