"""TensorFlow's form of a schema: the spec that `tf.io.parse_example` takes.

`to_spec` prints one as Python source, `from_spec` understands one. TensorFlow is not imported: a
spec's features are known by the names of their classes and attributes.

    (), (n,), (n, m)      FixedLenFeature
    (None,), optional     RaggedFeature: rows of any number of values
    (None, n)             RaggedFeature with UniformRowLength
    steps of fixed shape  FixedLenSequenceFeature, in a spec for `tf.io.parse_sequence_example`
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import dtypes
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.rows.schema.feature import DTYPES, KINDS, Feature, make_feature

if TYPE_CHECKING:
    from tensorferry.rows.schema import Schema

_SPECS = (
    "FixedLenFeature",
    "VarLenFeature",
    "RaggedFeature",
    "SparseFeature",
    "FixedLenSequenceFeature",
    "TensorSpec",
)


def to_spec(schema: Schema) -> str:
    """The source of a spec; its only free name is `tf`."""
    context = [_to_line(feature) for feature in schema.features if not feature.sequence]
    sequence = [_to_line(feature) for feature in schema.features if feature.sequence]
    if not sequence:
        return "\n".join(["{", *_indent(context), "}"])
    parts = ["'context_features': {", *_indent(context), "},"]
    parts += ["'sequence_features': {", *_indent(sequence), "},"]
    return "\n".join(["{", *_indent(parts), "}"])


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _to_line(feature: Feature) -> str:
    line = f"{feature.name!r}: tf.io.{_to_call(feature)},"
    if feature.encoding == "tensor":
        shape = list(feature.shape)
        line += f"  # {_to_tensor(feature)}, of shape {shape}"
    elif feature.optional and feature.default is None and None not in feature.shape:
        line += f"  # of shape {list(feature.shape)}, or missing"
    return line


def _to_tensor(feature: Feature) -> str:
    """The source that makes the value of a serialized tensor `x`."""
    parsed = f"tf.io.parse_tensor(x, {_to_dtype(feature.stored)})"
    recipe = feature.quantized
    if recipe is None:
        return parsed
    value = f"tf.cast({parsed}, {_to_dtype(feature.dtype)})"
    if recipe.scale is None or recipe.zero_point is None:
        return value
    zero = int(recipe.zero_point)
    return f"({value} - {zero}) * {float(recipe.scale)}" if zero else f"{value} * {recipe.scale}"


def _to_call(feature: Feature) -> str:
    dtype = _to_dtype(DTYPES[feature.kind])
    shape = feature.shape if feature.encoding == "plain" else ()
    # A step without values makes TensorFlow 2.21 abort the process.
    if feature.sequence and None not in shape and 0 not in shape:
        missing = ", allow_missing=True" if feature.optional else ""
        return f"FixedLenSequenceFeature({list(shape)}, {dtype}{missing})"
    # TensorFlow takes a default without values for no default.
    if feature.default is not None and 0 not in shape:
        return f"FixedLenFeature({list(shape)}, {dtype}, default_value={_to_default(feature)})"
    if not feature.sequence and not feature.optional and None not in shape:
        return f"FixedLenFeature({list(shape)}, {dtype})"
    partitions = [f"tf.io.RaggedFeature.UniformRowLength({size})" for size in shape[1:]]
    if not partitions or 0 in shape:
        return f"RaggedFeature({dtype})"
    return f"RaggedFeature({dtype}, partitions=[{', '.join(partitions)}])"


def _to_dtype(name: str) -> str:
    # TensorFlow has no attributes for the dtypes that came with ml_dtypes.
    row = dtypes.BY_NAME[name]
    return f"tf.as_dtype({name!r})" if row.enum > 23 else f"tf.{name}"


def _to_default(feature: Feature) -> str:
    value = _to_source(feature.default)
    if isinstance(feature.default, tuple) or not feature.shape:
        return value
    # TensorFlow takes no single value for all places.
    return f"tf.constant({value}, {_to_dtype(feature.dtype)}, {list(feature.shape)})"


def _to_source(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_to_source, value))}]"
    if not isinstance(value, float):
        return repr(value)
    return f"float({str(value)!r})" if not math.isfinite(value) else str(np.float32(value))


def is_spec(spec: Any) -> bool:
    """Whether it is a feature of a spec, or the spec of a tensor."""
    return type(spec).__name__ in _SPECS


def from_spec(name: str, spec: Any) -> tuple[Feature, ...]:
    """The features that an entry of a spec reads from Examples: several if it has index keys.

    Args:
        name: The key in the spec.
        spec: The entry; how it pads, casts or assembles values is ignored.

    Raises:
        UnsupportedError: Examples have no list of its dtype.
    """
    row = dtypes.as_dtype(spec.dtype)
    if type(spec).__name__ == "TensorSpec":  # of an element of a dataset
        if spec.shape.rank is None:
            raise FormatError(f"the TensorSpec of {name!r} has no rank, expected a shape")
        return (make_feature(name, row, spec.shape.as_list()),)
    if row.name not in KINDS:
        raise UnsupportedError(
            f"a {type(spec).__name__} of {row.name}, expected one of {', '.join(KINDS)}",
            tensor=name,
            hint="for serialized tensors give (dtype, shape) instead",
        )
    kind = type(spec).__name__
    if kind == "FixedLenFeature":
        return (make_feature(name, row, spec.shape, default=spec.default_value),)
    if kind == "FixedLenSequenceFeature":
        shape = make_feature(name, row, spec.shape).shape
        return (make_feature(name, row, (None, *shape), optional=bool(spec.allow_missing)),)
    if kind == "SparseFeature":
        index = spec.index_key
        keys = [index] if isinstance(index, str) else list(index)
        value_key = spec.value_key
    elif kind == "RaggedFeature":
        uniform = "UniformRowLength"  # the one kind of partition that has no feature of its own
        keys = [part.key for part in spec.partitions if type(part).__name__ != uniform]
        value_key = spec.value_key or name
    else:
        keys, value_key = [], name
    if not all(isinstance(key, str) for key in (*keys, value_key)):
        raise FormatError(f"{kind} {name!r} has keys {[*keys, value_key]!r}, expected strings")
    lists = [make_feature(key, "int64", (None,), optional=True) for key in keys]
    return (make_feature(value_key, row, (None,), optional=True), *lists)
