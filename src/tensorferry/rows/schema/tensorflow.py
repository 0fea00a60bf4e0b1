"""Specs of TensorFlow: the schemas that `tf.io.parse_example` takes.

`to_spec` writes a spec as Python source, `from_spec` reads one. TensorFlow is not imported: the
features of a spec are recognised by the names of their classes and attributes.

    (), (n,), (n, m)      FixedLenFeature
    (None,), optional     RaggedFeature: any number of values per row
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
)


def to_spec(schema: Schema) -> str:
    """The Python source of a spec; the only name that it uses is `tf`."""
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
        line += f"  # tf.io.parse_tensor(x, {_to_dtype(feature.dtype)}), of shape {shape}"
    elif feature.optional and feature.default is None and None not in feature.shape:
        line += f"  # of shape {list(feature.shape)}, or missing"
    return line


def _to_call(feature: Feature) -> str:
    dtype = _to_dtype(DTYPES[feature.kind])
    shape = feature.shape if feature.encoding == "plain" else ()
    # A step without values crashes TensorFlow 2.21.
    if feature.sequence and None not in shape and 0 not in shape:
        missing = ", allow_missing=True" if feature.optional else ""
        return f"FixedLenSequenceFeature({list(shape)}, {dtype}{missing})"
    # TensorFlow treats an empty default as no default.
    if feature.default is not None and 0 not in shape:
        return f"FixedLenFeature({list(shape)}, {dtype}, default_value={_to_default(feature)})"
    if not feature.sequence and not feature.optional and None not in shape:
        return f"FixedLenFeature({list(shape)}, {dtype})"
    partitions = [f"tf.io.RaggedFeature.UniformRowLength({size})" for size in shape[1:]]
    if not partitions or 0 in shape:
        return f"RaggedFeature({dtype})"
    return f"RaggedFeature({dtype}, partitions=[{', '.join(partitions)}])"


def _to_dtype(name: str) -> str:
    # The `tf` module has no attribute for the dtypes of ml_dtypes.
    row = dtypes.BY_NAME[name]
    return f"tf.as_dtype({name!r})" if row.enum > 23 else f"tf.{name}"


def _to_default(feature: Feature) -> str:
    value = _to_source(feature.default)
    if isinstance(feature.default, tuple) or not feature.shape:
        return value
    # TensorFlow does not accept one value for all elements.
    return f"tf.constant({value}, {_to_dtype(feature.dtype)}, {list(feature.shape)})"


def _to_source(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_to_source, value))}]"
    if not isinstance(value, float):
        return repr(value)
    return f"float({str(value)!r})" if not math.isfinite(value) else str(np.float32(value))


def is_spec(spec: Any) -> bool:
    """Whether an object is a feature of a spec."""
    return type(spec).__name__ in _SPECS and hasattr(spec, "dtype")


def from_spec(name: str, spec: Any) -> tuple[Feature, ...]:
    """The features that one entry of a spec reads: several if it has index keys.

    Args:
        name: The key in the spec.
        spec: The entry. How it pads, casts or combines values is ignored.

    Raises:
        UnsupportedError: Examples lack the dtype.
    """
    row = dtypes.as_dtype(spec.dtype)
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
    else:
        partitions = getattr(spec, "partitions", None) or ()
        keys = [key for key in (getattr(part, "key", None) for part in partitions) if key]
        value_key = getattr(spec, "value_key", None) or name
    if not all(isinstance(key, str) for key in (*keys, value_key)):
        raise FormatError(f"{kind} {name!r} has keys {[*keys, value_key]!r}, expected strings")
    lists = [make_feature(key, "int64", (None,), optional=True) for key in keys]
    return (make_feature(value_key, row, (None,), optional=True), *lists)
