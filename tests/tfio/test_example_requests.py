"""What the parsers of Examples can be asked for, and the forms of what they are given."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import same
from tfio.oracle import build
from tfio.records import DTYPES, example, sequences, strings

import tensorferry as ferry
from tensorferry import tfio


def one(kind="i", name="VarLenFeature", **fields):
    """A description of the key named as its kind."""
    return {kind: (name, {"dtype": DTYPES[kind], **fields})}


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"i": ("VarLenFeature", {"dtype": "int32"})},
        {"i": ("VarLenFeature", {"dtype": None})},
        {"i": ("FixedLenFeature", {"shape": [], "dtype": "float64"})},
        one(name="FixedLenFeature", shape=None),
        one(name="FixedLenFeature", shape=[None]),
        one(name="FixedLenFeature", shape=[2, None]),
        one(name="FixedLenFeature", shape=[-1]),
        one(name="FixedLenFeature", shape=[2], default_value=1),
        one(name="FixedLenFeature", shape=[2], default_value=[]),
        one(name="FixedLenFeature", shape=[], default_value=[1, 2]),
        one(name="FixedLenFeature", shape=[], default_value=1.5),
        one(name="FixedLenFeature", shape=[], default_value="x"),
        one("s", name="FixedLenFeature", shape=[], default_value=1),
        one(name="FixedLenSequenceFeature", shape=[]),
        one(name="FixedLenSequenceFeature", shape=[None], allow_missing=True),
        one(name="FixedLenSequenceFeature", shape=[], allow_missing=True, default_value=[1, 2]),
        one(name="SparseFeature", index_key="i", value_key="", size=3),
        one(name="SparseFeature", index_key="", value_key="i", size=3),
        one(name="SparseFeature", index_key="i", value_key="i", size=[3]),
        one(name="SparseFeature", index_key=["i", "i"], value_key="i", size=[3]),
        one(name="SparseFeature", index_key="i", value_key="i", size=None),
        {
            "a": ("VarLenFeature", {"dtype": "float32"}),
            "b": (
                "SparseFeature",
                {"index_key": "a", "value_key": "i", "dtype": "int64", "size": 9},
            ),
        },
    ],
)
def test_refused_requests(tf, described):
    """What tf.io does not let one ask for is an UnsupportedError."""
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        tf.io.parse_example([example(i=[1])], build(tf.io, described))
    with pytest.raises(ferry.UnsupportedError):
        tfio.parse_example([example(i=[1])], build(tfio, described))


def test_classes_have_their_places():
    """SparseFeature is for Examples, FixedLenFeature not for steps, and those have no defaults."""
    record = sequences(i=[[1]])
    fixed, sparse = tfio.FixedLenFeature([], "int64"), tfio.SparseFeature("i", "i", "int64", 2)
    padded = tfio.FixedLenSequenceFeature([], "int64", default_value=1)
    contexts = [({"i": sparse}, {}), ({"i": padded}, {}), ({}, {}), (None, None)]
    for context, steps in [*contexts, *(({}, {"i": wrong}) for wrong in (sparse, fixed, padded))]:
        with pytest.raises(ferry.UnsupportedError):
            tfio.parse_sequence_example([record], context, steps)
    with pytest.raises(ferry.UnsupportedError, match="without values"):
        tfio.parse_example([record], {"i": tfio.FixedLenSequenceFeature([0], "int64", True)})
    with pytest.raises(ferry.UnsupportedError, match="described by int"):
        tfio.parse_example([record], {"i": 3})


def test_features_may_share_a_key():
    """One stored feature can be parsed in several ways at once, which tf.io refuses."""
    described = {
        "i": tfio.FixedLenFeature([2], "int64"),
        "r": tfio.RaggedFeature("int64", "i"),
        "x": tfio.SparseFeature("i", "i", "int64", 9),
    }
    result = tfio.parse_example([example(i=[1, 2])], described)

    assert result["i"].tolist() == result["r"].to_list() == [[1, 2]]
    assert result["x"].to_dense()[0, :3].tolist() == [0, 1, 2]


# Forms


def test_forms_of_records(tf):
    """Records come as bytes, lists, tuples, arrays and TensorFlow's tensors, as for tf.io."""
    record, described = example(i=[1, 2]), {"i": tfio.VarLenFeature("int64")}
    many = tfio.parse_example([record, record], described)
    alone = tfio.parse_single_example(record, described)

    for form in ((record, record), strings([record, record]), tf.constant([record, record])):
        assert same(tfio.parse_example(form, described), many)
    for form in (bytearray(record), memoryview(record), tf.constant(record), strings([record])[0]):
        assert same(tfio.parse_single_example(form, described), alone)
        assert same(tfio.parse_example(form, described), alone)
    assert tfio.parse_example([], described)["i"].shape == (0, 0)
    for form in ([[record]], [1], np.zeros(3)):
        with pytest.raises(ferry.UnsupportedError):
            tfio.parse_example(form, described)
    for form in ([record], []):
        with pytest.raises(ferry.UnsupportedError, match="expected one string"):
            tfio.parse_single_example(form, described)
        with pytest.raises(ferry.UnsupportedError, match="expected one string"):
            tfio.parse_single_sequence_example(form, described)


def test_lists_of_string_tensors(tf):
    """A list of tensors of one string each is as many records, as in TensorFlow."""
    records = [example(i=[number]) for number in range(3)]
    spec = {"i": tf.io.FixedLenFeature([], tf.int64)}
    for several in (
        [tf.constant(record) for record in records],
        tuple(tf.constant(record) for record in records),
        [np.array(record, object) for record in records],
        [records[0], tf.constant(records[1]), records[2]],
    ):
        expected = tf.io.parse_example(several, spec)["i"].numpy()
        assert np.array_equal(tfio.parse_example(several, spec)["i"], expected)
    with pytest.raises(ferry.UnsupportedError, match="expected one string each"):
        tfio.parse_example([tf.constant([record]) for record in records], spec)
    with pytest.raises(ferry.UnsupportedError, match="expected one string each"):
        tfio.parse_example([tf.constant(1)], spec)


def test_forms_of_dtypes_shapes_and_defaults(tf):
    """Names, NumPy's and TensorFlow's dtypes mean the same, and so do shapes and tensors."""
    record = example(f=[1.5])
    for dtype in ("float32", np.float32, np.dtype("float32"), tf.float32):
        for shape in ([1], (1,), 1, tf.TensorShape([1])):
            for default in ([2], 2.0, np.float64(2), True, tf.constant([2.0])):
                described = {"f": tfio.FixedLenFeature(shape, dtype, default)}
                result = tfio.parse_example([record, b""], described)["f"]
                assert same(result, np.array([[1.5], [float(np.ravel(default)[0])]], np.float32))
