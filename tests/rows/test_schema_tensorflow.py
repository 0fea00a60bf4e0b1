"""A schema as the spec that tf.io.parse_example takes, and the schema of such a spec."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings, strategies as st
from rows.schemas import features, schemas

from tensorferry.rows.schema import Feature, Schema, as_schema


def example(tf, **lists):
    """The bytes of a tf.train.Example."""
    features = {name: make_list(tf, values) for name, values in lists.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def make_list(tf, values):
    """A tf.train.Feature of the kind its first value is."""
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def test_as_schema_of_tf_spec(tf):
    """A spec for tf.io.parse_example means the features it reads."""
    ragged = tf.io.RaggedFeature
    spec = {
        "a": tf.io.FixedLenFeature([], tf.int64),
        "b": tf.io.FixedLenFeature([2], tf.float32, default_value=[1.0, 2.0]),
        "c": tf.io.VarLenFeature(tf.string),
        "d": tf.io.FixedLenSequenceFeature([3], tf.int64, allow_missing=True),
        "e": ragged(tf.int64, value_key="v", partitions=[ragged.RowLengths("lengths")]),
        "f": tf.io.SparseFeature("index", "value", tf.float32, size=10),
        "g": tf.io.FixedLenFeature(tf.TensorShape([2, 2]), tf.int64),
    }

    assert as_schema(spec).features == (
        Feature("a", "int64", (), "int64"),
        Feature("b", "float32", (2,), "float32", default=(1.0, 2.0)),
        Feature("c", "bytes", (None,), "string", optional=True),
        Feature("d", "int64", (None, 3), "int64", optional=True),
        Feature("g", "int64", (2, 2), "int64"),
        Feature("index", "int64", (None,), "int64", optional=True),
        Feature("lengths", "int64", (None,), "int64", optional=True),
        Feature("v", "int64", (None,), "int64", optional=True),
        Feature("value", "float32", (None,), "float32", optional=True),
    )


@given(schemas())
@settings(max_examples=60)
def test_tf_spec_is_python(tf, schema):
    """The printed spec is Python that TensorFlow takes, with a feature for each of ours."""
    spec = eval(schema.to_tf_spec(), {"tf": tf})

    if any(feature.sequence for feature in schema.features):
        assert list(spec) == ["context_features", "sequence_features"]
        spec = {**spec["context_features"], **spec["sequence_features"]}
    assert sorted(spec) == list(schema)


def test_tf_spec_reads_examples(tf):
    """TensorFlow reads its own Examples by the printed spec, in the shapes of the schema."""
    tensor = tf.io.serialize_tensor(tf.constant([[1.5]], tf.float64)).numpy()
    schema = Schema(
        (
            Feature("scalar", "int64", (), "int64"),
            Feature("fixed", "float32", (2, 2), "float32"),
            Feature("any", "int64", (None,), "int64"),
            Feature("rows", "int64", (None, 2), "int64"),
            Feature("maybe", "int64", (2, 2), "int64", optional=True),
            Feature("filled", "bytes", (2,), "string", default=b"\0?"),
            Feature("listed", "int64", (2,), "int64", default=[7, 8]),
            Feature("nan", "float32", (), "float32", default=math.nan),
            Feature("none", "int64", (3, 0), "int64", default=1),
            Feature("tensor", "bytes", (1, 1), "float64", "tensor"),
        )
    )
    common = {"scalar": [1], "fixed": [1.0, 2.0, 3.0, 4.0], "tensor": [tensor]}
    rows = [
        example(
            tf, **common, any=[1, 2], rows=[1, 2, 3, 4], maybe=[1, 2, 3, 4], filled=[b"a", b"b"]
        ),
        example(tf, **common, any=[], rows=[]),
    ]

    parsed = tf.io.parse_example(rows, eval(schema.to_tf_spec(), {"tf": tf}))

    assert parsed["scalar"].numpy().tolist() == [1, 1]
    assert parsed["fixed"].shape == (2, 2, 2)
    assert parsed["any"].to_list() == [[1, 2], []]
    assert parsed["rows"].to_list() == [[[1, 2], [3, 4]], []]
    assert parsed["maybe"].to_list() == [[[1, 2], [3, 4]], []]
    assert parsed["filled"].numpy().tolist() == [[b"a", b"b"], [b"\0?", b"\0?"]]
    assert parsed["listed"].numpy().tolist() == [[7, 8], [7, 8]]
    assert np.isnan(parsed["nan"].numpy()).all()
    assert parsed["none"].to_list() == [[], []]
    assert "tf.io.parse_tensor(x, tf.float64)" in schema.to_tf_spec()
    assert tf.io.parse_tensor(parsed["tensor"][0], tf.float64).numpy().tolist() == [[1.5]]


def test_tf_spec_reads_sequence_examples(tf):
    """TensorFlow reads its own SequenceExamples by the two printed specs."""
    schema = Schema(
        (
            Feature("id", "int64", (), "int64"),
            Feature("steps", "float32", (2,), "float32", sequence=True),
            Feature("words", "int64", (None,), "int64", sequence=True),
            Feature("maybe", "int64", (), "int64", sequence=True, optional=True),
            Feature("nothing", "int64", (0,), "int64", sequence=True),
        )
    )
    lists = {"steps": [[1.0, 2.0], [3.0, 4.0]], "words": [[1], [2, 3]], "nothing": [[], []]}
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={"id": make_list(tf, [7])}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                name: tf.train.FeatureList(feature=[make_list(tf, step) for step in steps])
                for name, steps in lists.items()
            }
        ),
    )
    spec = eval(schema.to_tf_spec(), {"tf": tf})

    context, steps, _ = tf.io.parse_sequence_example([message.SerializeToString()], **spec)

    assert context["id"].numpy().tolist() == [7]
    assert steps["steps"].numpy().tolist() == [lists["steps"]]
    assert steps["words"].to_list() == [lists["words"]]
    assert steps["nothing"].to_list() == [[[], []]]


@given(features(st.just("x")).filter(lambda feature: not feature.sequence))
def test_tf_spec_is_understood(tf, feature):
    """A printed spec, given back, reads what the feature holds at least."""
    spec = eval(Schema((feature,)).to_tf_spec(), {"tf": tf})
    (again,) = as_schema(spec).features

    assert again.kind == feature.kind
    assert again.optional or not feature.optional
    if feature.encoding == "plain":
        assert again.shape in (feature.shape, (None,))
