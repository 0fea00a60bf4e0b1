"""What tf.io and tfio make of the same records and descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import same

import tensorferry as ferry
from tensorferry import RaggedTensor, SparseTensor, tfio

PARTITIONS = ("RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds")


def from_tf(tf, value):
    """A TensorFlow value as ours."""
    if isinstance(value, dict):
        return {key: from_tf(tf, element) for key, element in value.items()}
    if isinstance(value, tuple):
        return tuple(from_tf(tf, element) for element in value)
    if isinstance(value, tf.SparseTensor):
        parts = (value.indices, value.values, value.dense_shape)
        return SparseTensor(*(from_tf(tf, part) for part in parts))
    if isinstance(value, tf.RaggedTensor):
        splits = [from_tf(tf, part) for part in value.nested_row_splits]
        return RaggedTensor(from_tf(tf, value.flat_values), splits)
    array = value.numpy()
    if value.dtype == tf.string:
        strings = np.empty(np.shape(array), object)
        strings[...] = array
        return strings
    return np.asarray(array)


def build(io, described):
    """The features of tf.io or tfio for descriptions by class name and fields."""
    return {
        key: getattr(io, name)(
            **{
                field: [getattr(io.RaggedFeature, kind)(key) for kind, key in value]
                if field == "partitions"
                else value
                for field, value in fields.items()
            }
        )
        for key, (name, fields) in described.items()
    }


def check(tf, parser, records, *described, theirs_too=False):
    """Both parse to the same, or both refuse. Gives our result, or None."""
    given = [build(tf.io, one) for one in described]
    try:
        theirs = from_tf(tf, getattr(tf.io, parser)(records, *given))
    except (tf.errors.InvalidArgumentError, ValueError, TypeError):
        with pytest.raises(ferry.FerryError):
            getattr(tfio, parser)(records, *(build(tfio, one) for one in described))
        return None
    ours = getattr(tfio, parser)(records, *(build(tfio, one) for one in described))
    assert same(ours, theirs), (ours, theirs)
    if theirs_too:
        assert same(getattr(tfio, parser)(records, *given), theirs)
    return ours
