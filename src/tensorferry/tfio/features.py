"""Features: the classes of `tf.io` that say what to parse of an Example.

They only describe; `tensorferry.tfio.examples` parses. TensorFlow's own feature objects work as
well. They are recognised by the names of their classes and fields, so TensorFlow is not imported.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from tensorferry import dtypes, frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.tensors.values import Array, as_tensor

# The field number of each kind of list in an Example.
KINDS = {"string": 1, "float32": 2, "int64": 3}


class FixedLenFeature(NamedTuple):
    """The same number of values in every record: an array [records, *shape].

    Attributes:
        shape: The shape of the values of one record.
        dtype: string, float32 or int64.
        default_value: The values of records without the feature; by default they are an error.
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """Any number of values, padded to the longest record: an array [records, longest, *shape].

    Attributes:
        shape: The shape of one element of the sequence.
        dtype: string, float32 or int64.
        allow_missing: Treat a missing feature as an empty one; must be True for Examples.
        default_value: The padding; by default 0 or the empty string. Not for SequenceExamples.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """Any number of values: a SparseTensor [records, longest].

    Attributes:
        dtype: string, float32 or int64.
    """

    dtype: Any


class SparseFeature(NamedTuple):
    """Values and their indices: a SparseTensor [records, *size].

    Attributes:
        index_key: The feature with the indices, or a list with one feature for each dimension.
        value_key: The feature with the values.
        dtype: The dtype of the values: string, float32 or int64.
        size: The dense size, or a list with one size for each dimension.
        already_sorted: Keep the order of the values instead of sorting them by index.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class _RaggedFields(NamedTuple):
    dtype: Any
    value_key: str | None = None
    partitions: Any = ()
    row_splits_dtype: Any = "int32"
    validate: bool = False


class RaggedFeature(_RaggedFields):
    """Any number of values, in rows or rows of rows: a RaggedTensor [records, ...].

    Attributes:
        dtype: string, float32 or int64.
        value_key: The feature with the values; by default the one with the key of this feature.
        partitions: How the values of a record are divided into rows, from the outside in.
        row_splits_dtype: int32 or int64.
        validate: Ignored: partitions are always checked.
    """

    __slots__ = ()

    class RowSplits(NamedTuple):
        """The feature `key` says where each row starts, and where the last one ends."""

        key: str

    class RowLengths(NamedTuple):
        """The feature `key` says how long each row is."""

        key: str

    class RowStarts(NamedTuple):
        """The feature `key` says where each row starts."""

        key: str

    class RowLimits(NamedTuple):
        """The feature `key` says where each row ends."""

        key: str

    class ValueRowIds(NamedTuple):
        """The feature `key` says for each value in which row it is."""

        key: str

    class UniformRowLength(NamedTuple):
        """Every row has `length` elements."""

        length: int


Feature = FixedLenFeature | FixedLenSequenceFeature | VarLenFeature | SparseFeature | RaggedFeature

# TensorFlow returns sparse results first, then dense ones, then ragged ones.
_GROUPS: dict[type, int] = {
    VarLenFeature: 0,
    SparseFeature: 0,
    FixedLenFeature: 1,
    FixedLenSequenceFeature: 1,
    RaggedFeature: 2,
}
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in _GROUPS}
_PARTITIONS: dict[str, Any] = {
    name: kind for name, kind in vars(RaggedFeature).items() if isinstance(kind, type)
}


def as_features(features: Mapping[str, Any] | None, allowed: tuple[type, ...]) -> dict[str, Any]:
    """The features in canonical form, in the order of `tf.io`'s results.

    In canonical form, a dtype is a row of `tensorferry.dtypes`, a shape is a tuple, a default is an
    array, a field for one or many is a list, and a ragged feature knows its key.

    Raises:
        UnsupportedError: A feature cannot be parsed.
    """
    known: dict[str, Any] = {}
    for key, feature in (features or {}).items():
        kind = _CLASSES.get(type(feature).__name__)
        if not isinstance(key, str) or kind not in allowed:
            raise UnsupportedError(
                f"feature {key!r} is described by {type(feature).__name__}, "
                f"expected a string and one of {', '.join(kind.__name__ for kind in allowed)}"
            )
        described = kind(*(getattr(feature, field) for field in kind._fields))
        try:
            known[key] = _canonical(key, described)
        except UnsupportedError as error:
            raise UnsupportedError(f"feature {key!r}: {error.message}", hint=error.hint) from None
    order = sorted(sorted(known), key=lambda key: _GROUPS[type(known[key])])
    parts = [name for key in order for name, _ in columns_of(key, known[key])]
    # Features that consist of features with other names come last.
    names = dict.fromkeys(parts + sorted(known))
    return {name: known[name] for name in names if name in known}


def columns_of(key: str, feature: Feature) -> list[tuple[str, dtypes.DType]]:
    """The features of a record that a feature in canonical form consists of, with dtypes."""
    integers = dtypes.BY_NAME["int64"]
    if isinstance(feature, SparseFeature):
        keys = [(name, integers) for name in sorted(feature.index_key)]
        return [*keys, (feature.value_key, feature.dtype)]
    if isinstance(feature, RaggedFeature):
        keys = [
            (part.key, integers)
            for part in feature.partitions
            if not isinstance(part, RaggedFeature.UniformRowLength)
        ]
        return [(str(feature.value_key), feature.dtype), *keys]
    return [(key, feature.dtype)]


def _canonical(key: str, feature: Any) -> Any:
    feature = feature._replace(dtype=_as_dtype(feature.dtype, KINDS))
    if isinstance(feature, FixedLenFeature | FixedLenSequenceFeature):
        shape = _as_shape(feature.shape)
        wanted = shape if isinstance(feature, FixedLenFeature) else ()
        default = _as_default(feature.default_value, feature.dtype, wanted)
        return feature._replace(shape=shape, default_value=default)
    if isinstance(feature, SparseFeature):
        keys, sizes = feature.index_key, feature.size
        if isinstance(keys, str):
            keys, sizes = [keys], [sizes]
        if not all([keys, *keys, feature.value_key]) or len(keys) != len(_as_shape(sizes)):
            raise UnsupportedError(
                f"index_key {feature.index_key!r}, value_key {feature.value_key!r} and size "
                f"{feature.size!r}, expected names and one size for each index"
            )
        return feature._replace(index_key=list(keys), size=_as_shape(sizes))
    if isinstance(feature, RaggedFeature):
        return feature._replace(
            value_key=key if feature.value_key is None else feature.value_key,
            partitions=tuple(_as_partition(partition) for partition in feature.partitions),
            row_splits_dtype=_as_dtype(feature.row_splits_dtype, ("int32", "int64")),
        )
    return feature


def _as_dtype(dtype: Any, names: Collection[str]) -> dtypes.DType:
    row = dtypes.as_dtype(dtype)
    if row.name not in names:
        raise UnsupportedError(
            f"dtype is {dtype!r}, expected one of {', '.join(names)}",
            hint="parse what is stored, and convert the result",
        )
    return row


def _as_shape(shape: Any) -> tuple[int, ...]:
    try:
        dimensions = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        result = tuple(operator.index(dimension) for dimension in dimensions)
    except (TypeError, ValueError):  # a tf.TensorShape of unknown rank has a ValueError
        result = (-1,)
    if min(result, default=0) < 0:
        raise UnsupportedError(
            f"shape or size is {shape!r}, expected whole numbers",
            hint="FixedLenSequenceFeature has a first dimension of any length",
        )
    return result


def _as_default(value: Any, dtype: dtypes.DType, shape: tuple[int, ...]) -> Array | None:
    if value is None:
        return None
    default = as_tensor(frameworks.accept(value))
    kinds = {"string": "O", "float32": "biuf", "int64": "biu"}[dtype.name]
    if default.dtype.kind not in kinds or default.size != math.prod(shape):
        raise UnsupportedError(
            f"default_value is of {default.dtype} and shape {default.shape}, "
            f"expected {dtype.name} and {shape}"
        )
    return default.astype(dtype.numpy).reshape(shape)


def _as_partition(partition: Any) -> Any:
    kind = _PARTITIONS.get(type(partition).__name__)
    if kind is None:
        raise UnsupportedError(
            f"a partition is {partition!r}, expected one of {', '.join(_PARTITIONS)}"
        )
    if kind is RaggedFeature.UniformRowLength and partition.length < 1:
        raise UnsupportedError(f"a uniform row length of {partition.length}, expected 1 or more")
    return kind(*(getattr(partition, field) for field in kind._fields))
