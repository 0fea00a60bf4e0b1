"""Schemas for tests: any that there may be, and trees as TensorFlow Datasets writes them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tensorferry import dtypes
from tensorferry.rows.schema import Feature, Schema

DTYPES = {"bytes": "string", "float32": "float32", "int64": "int64"}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SIZES = st.integers(0, 4)
SCALARS = {
    "bytes": st.binary(max_size=4),
    "float32": st.floats(width=32),
    "int64": st.integers(-(2**63), 2**63 - 1),
}


@st.composite
def features(draw, names=NAMES):
    """Any feature: of fixed and open shape, serialized tensors, sequences, with defaults."""
    name, sequence, optional = draw(names), draw(st.booleans()), draw(st.booleans())
    if draw(st.booleans()):
        shape = draw(st.lists(st.none() | SIZES, max_size=3))
        dtype = draw(st.sampled_from(dtypes.TABLE)).name
        return Feature(name, "bytes", tuple(shape), dtype, "tensor", sequence, optional)
    kind = draw(st.sampled_from(["bytes", "float32", "int64"]))
    shape = tuple(draw(st.lists(SIZES, max_size=3)))
    if draw(st.booleans()) and 0 not in shape:
        return Feature(name, kind, (None, *shape), DTYPES[kind], "plain", sequence, optional)
    default = None
    if not sequence and draw(st.booleans()):
        values = np.empty(shape if draw(st.booleans()) else (), dtype=object)
        for place in np.ndindex(values.shape):
            values[place] = draw(SCALARS[kind])
        default = values.tolist()
    return Feature(name, kind, shape, DTYPES[kind], "plain", sequence, optional, default)


@st.composite
def schemas(draw):
    """Any schema."""
    return Schema(tuple(draw(st.lists(features(), max_size=5, unique_by=lambda f: f.name))))


def tfds_node(kind, content):
    """A feature as TFDS writes it."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{kind}", kind: content}


def tfds_tensor(shape, dtype, **options):
    """A tensor, encoded or not."""
    dimensions = [str(size) for size in shape]
    shape = {"dimensions": dimensions} if dimensions else {}
    return tfds_node("tensor", {"shape": shape, "dtype": dtype, "encoding": "none", **options})


def tfds_dict(**features):
    """Features by their names."""
    return tfds_node("featuresDict", {"features": features})


def tfds_sequence(feature, length=-1):
    """A feature so many times, or any number of times."""
    return tfds_node("sequence", {"feature": feature, "length": str(length)})
