"""Checkpoints for tests: TensorFlow's writer, and all tensors of one."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from strategies import NUMERIC

from tensorferry import dtypes
from tensorferry.formats.checkpoint import reader as checkpoint
from tensorferry.formats.checkpoint.format import FORMAT
from tensorferry.storage.place import Place

# What TensorFlow 2.21 makes eager tensors of.
WRITTEN = tuple(row for row in NUMERIC if row.name not in ("int2", "uint2", "float4_e2m1fn"))

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def save_v2(tf, prefix, tensors, slices=None):
    """What TensorFlow's own writer makes of named tensors."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors) if slices is None else [name for name, _ in tensors],
        shape_and_slices=slices or [""] * len(tensors),
        tensors=list(tensors.values()) if slices is None else [tensor for _, tensor in tensors],
    )


def as_tf(tf, array):
    """An eager tensor of any dtype, bit for bit."""
    array = np.asarray(array, array.dtype.newbyteorder("="))
    row = dtypes.from_numpy(array.dtype)
    if row is dtypes.STRING:
        return tf.constant(array.tolist(), tf.string, shape=array.shape)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if row.name.startswith("q"):
        return tf.bitcast(array.view(array.dtype[0]), row.name)
    return tf.constant(array, dtype=row.name)


def read_all(path, **options):
    """All tensors of a checkpoint."""
    with checkpoint.open_checkpoint(Place(path), **options) as opened:
        return {name: stored.read() for name, stored in opened.stored.items()}


def resolve(path):
    """The prefix that a path leads to."""
    found = FORMAT.reads.find(Place(path))
    return None if found is None else found.path
