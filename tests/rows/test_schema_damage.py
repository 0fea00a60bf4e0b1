"""Schemas in texts that are cut, damaged or made up: read, or refused by an error of ours."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, strategies as st
from rows.schemas import tfds_dict, tfds_node, tfds_sequence, tfds_tensor

from tensorferry.errors import FerryError
from tensorferry.rows.schema import Feature, Schema, from_tfds, from_tfmd

SMALL = Schema(
    (
        Feature("a", "int64", (2,), "int64", default=(1, 2)),
        Feature("b", "bytes", (None, 3), "float64", "tensor"),
        Feature("c", "float32", (), "float32", sequence=True),
    )
)
SMALL_TFDS = tfds_dict(a=tfds_sequence(tfds_tensor([-1, 3], "int8")), b=tfds_node("text", {}))
TEXTS = [
    (from_tfmd, SMALL.to_tfmd().encode()),
    (Schema.from_json, json.dumps(SMALL.to_json()).encode()),
    (from_tfds, json.dumps(SMALL_TFDS).encode()),
]
IDS = ["tfmd", "json", "tfds"]


def read_or_refuse(read, data):
    """A schema that can be printed in every form, or an error of ours."""
    try:
        schema = read(data)
    except FerryError:
        return
    assert Schema.from_json(schema.to_json()) == schema
    assert from_tfmd(schema.to_tfmd()) == schema
    schema.to_tf_spec()


@pytest.mark.parametrize(("read", "data"), TEXTS, ids=IDS)
def test_cut(read, data):
    """Text cut anywhere is a schema or an error of ours."""
    for end in range(len(data)):
        read_or_refuse(read, data[:end])


@pytest.mark.parametrize(("read", "data"), TEXTS, ids=IDS)
def test_flipped(read, data):
    """Text with any one bit flipped is a schema or an error of ours."""
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        read_or_refuse(read, bytes(broken))


OURS = ["version", "features", "name", "kind", "shape", "dtype", "default"]
THEIRS = ["pythonClassName", "featuresDict", "sequence", "tensor", "feature", "type"]
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(OURS + THEIRS), inner, max_size=4)
    ),
)


@given(TREES, TREES)
def test_any_tree(tree, other):
    """Whatever JSON holds is a schema or refused."""
    for node in (
        tree,
        {"version": 1, "features": [tree, other]},
        {"pythonClassName": "a.B", "featuresDict": {"features": {"x": tree, "y": other}}},
        tfds_dict(x=tfds_sequence(tree), y=tfds_node("tensor", other)),
    ):
        text = json.dumps(node)
        for read in (Schema.from_json, from_tfds):
            with contextlib.suppress(FerryError):
                read(text)
