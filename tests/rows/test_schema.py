from __future__ import annotations

import contextlib
import json
import math
import pickle
import re
import sys

import numpy as np
import pytest
from conftest import CORPUS
from hypothesis import given, settings, strategies as st

from tensorferry import dtypes, limits
from tensorferry.codecs import textproto
from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    MissingExtraError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.rows.schema import (
    Feature,
    FeatureStatistics,
    Schema,
    UnknownFeatureError,
    as_schema,
    find_beside,
    from_tfds,
    from_tfmd,
    infer,
)

BRIDGE = CORPUS / "tfds/robotics/dummy_data/bridge/1.0.0"

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


def statistics(name="x", kind="int64", rows=3, lists=3, shortest=1, longest=1, **options):
    """What a survey says of a feature of three single values, unless told otherwise."""
    parts = {"sequence": False, "mixed": False, **options}
    return FeatureStatistics(
        name=name, kind=kind, rows=rows, lists=lists, shortest=shortest, longest=longest, **parts
    )


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


# The model.


@given(schemas())
def test_is_a_mapping(schema):
    """A schema is a mapping in the order of names, equal and hashed by what it holds."""
    again = Schema(reversed(schema.features))

    assert list(schema) == sorted(schema) == [feature.name for feature in schema.features]
    assert all(name in schema and schema[name].name == name for name in schema)
    assert again == schema
    assert hash(again) == hash(schema)
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert schema.select(schema) == schema


def test_select():
    """A selection holds what was asked for; a wrong name is told with near ones."""
    schema = as_schema({"tokens": "int64", "token_count": "int64", "image": "string"})

    assert list(schema.select(["tokens", "image"])) == ["image", "tokens"]
    assert list(schema.select("image")) == ["image"]
    assert schema.get("nothing") is None
    with pytest.raises(KeyError, match=r"'tokns'\nhint: did you mean 'tokens'") as caught:
        schema.select(["tokns"])
    assert isinstance(caught.value, FerryError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), UnknownFeatureError)
    with pytest.raises(UnknownFeatureError, match="there are 'image', 'token_count', 'tokens'"):
        schema["zzz"]


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"kind": "int32"}, "kind is 'int32', expected 'bytes', 'float32', 'int64'"),
        ({"kind": ["int64"]}, "kind is"),
        ({"dtype": "int32"}, "dtype is 'int32', expected 'int64'"),
        ({"encoding": "tensor"}, "kind is 'int64', expected 'bytes'"),
        ({"kind": "bytes", "encoding": "tensor", "dtype": "int3"}, "dtype is 'int3'"),
        ({"encoding": "zip"}, "encoding is 'zip'"),
        ({"optional": 1}, "optional is 1, expected False, True"),
        ({"shape": (-1,)}, "shape is"),
        ({"shape": (2.0,)}, "shape is"),
        ({"shape": (True,)}, "shape is"),
        ({"shape": 3}, "shape is 3"),
        ({"shape": "3"}, "shape is '3'"),
        ({"shape": (2**40, 2**40)}, "shape is"),
        ({"shape": (3, None)}, "None in front only"),
        ({"shape": (None, 0)}, "any number of rows"),
        ({"name": 3}, "name is 3"),
        ({"name": "\ud800"}, "half a character"),
        ({"default": 1.5}, "default is 1.5"),
        ({"default": 2**63}, "more than 64 bits"),
        ({"default": "x"}, "default is 'x'"),
        ({"default": [1, 2]}, "expected \\(\\)"),
        ({"default": [[1], 2], "shape": (2,)}, "default is"),
        ({"default": 1, "shape": (None,)}, "fixed shape"),
        ({"default": 1, "sequence": True}, "fixed shape"),
        ({"default": 1e300, "kind": "float32", "dtype": "float32"}, "more than a float32 holds"),
        ({"default": 1, "kind": "bytes", "dtype": "string"}, "expected bytes"),
    ],
)
def test_impossible_features(parts, match):
    """A feature that no Example can hold is refused, and told why."""
    given = {"name": "x", "kind": "int64", "shape": (), "dtype": "int64", **parts}

    with pytest.raises(FormatError, match=match):
        Feature(**given)


def test_defaults():
    """A default is kept in plain Python values, and makes its feature optional."""
    array = np.array([[1, 2]], np.int32)
    feature = Feature("x", "int64", (1, 2), "int64", default=array)

    assert feature.default == ((1, 2),)
    assert feature.optional
    assert Feature("x", "bytes", (), "string", default="é").default == "é".encode()
    assert Feature("x", "float32", (3,), "float32", default=1).default == 1.0
    assert Feature("x", "float32", (), "float32", default=math.nan) == Feature(
        "x", "float32", (), "float32", default=np.float32("nan")
    )


def test_names_are_unique():
    """A name cannot mean two features, even in a SequenceExample's two parts."""
    feature = Feature("x", "int64", (), "int64")

    with pytest.raises(FormatError, match="'x' is there twice"):
        Schema((feature, Feature("x", "int64", (), "int64", sequence=True)))


# Inference.


@pytest.mark.parametrize(
    ("found", "shape", "optional"),
    [
        (statistics(), (), False),
        (statistics(shortest=16, longest=16), (16,), False),
        (statistics(shortest=0, longest=3), (None,), False),
        (statistics(shortest=1, longest=2), (None,), False),
        (statistics(shortest=0, longest=0), (None,), False),
        (statistics(rows=2, lists=2), (), True),
        (statistics(rows=2, lists=2, shortest=4, longest=4), (4,), True),
    ],
)
def test_infer(found, shape, optional):
    """Lists of one length have a fixed shape; a feature that some rows lack is optional."""
    assert infer([found], 3) == Schema((Feature("x", "int64", shape, "int64", optional=optional),))


def test_infer_kinds():
    """Sequences have the shape of a step, tensors their own; what was never there is left out."""
    found = [
        statistics("a", "bytes"),
        statistics("b", "bytes", shortest=1, longest=2),
        statistics("c", None, shortest=0, longest=0),
        statistics("d", "float32", sequence=True, lists=7, shortest=2, longest=2),
    ]

    schema = infer(found, 3, {"a": ("float64", (3, 4)), "b": ("int32", ())})

    assert schema == Schema(
        (
            Feature("a", "bytes", (3, 4), "float64", "tensor"),
            Feature("b", "bytes", (None,), "string"),
            Feature("d", "float32", (2,), "float32", sequence=True),
        )
    )


def test_infer_mixed():
    """A feature of several kinds is refused with its name and the ways out."""
    with pytest.raises(FormatError, match=r"'x' .* several kinds(?s:.*)schema=.*raw=True"):
        infer([statistics(mixed=True)], 3)


# What users give.


def test_as_schema():
    """Dtypes, pairs and features mean what they say; dtypes Examples lack mean tensors."""
    feature = Feature("own", "int64", (2,), "int64", optional=True)
    schema = as_schema(
        {
            "a": "int64",
            "b": np.float32,
            "c": (np.dtype("int64"), (2, 3)),
            "d": ("string", [None]),
            "e": ("float64", (-1, 4)),
            "f": bytes,
            "g": ("uint8", 3),
            "own": feature,
        }
    )

    assert as_schema(schema) is schema
    assert schema.features == (
        Feature("a", "int64", (), "int64"),
        Feature("b", "float32", (), "float32"),
        Feature("c", "int64", (2, 3), "int64"),
        Feature("d", "bytes", (None,), "string"),
        Feature("e", "bytes", (None, 4), "float64", "tensor"),
        Feature("f", "bytes", (), "string"),
        Feature("g", "bytes", (3,), "uint8", "tensor"),
        feature,
    )


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


def test_as_schema_refuses():
    """What describes no features is refused."""
    feature = Feature("x", "int64", (), "int64")

    with pytest.raises(FormatError, match="under the name 'y'"):
        as_schema({"y": feature})
    with pytest.raises(UnsupportedError, match="tensor 'y'"):
        as_schema({"y": "datetime64[s]"})
    with pytest.raises(TypeError, match="not int"):
        as_schema(3)


# JSON.


@given(schemas())
def test_json_roundtrip(schema):
    """JSON gives back every feature, through a dict and through text."""
    tree = schema.to_json()
    text = json.dumps(tree, allow_nan=False)

    assert Schema.from_json(tree) == schema
    assert Schema.from_json(text) == schema
    assert as_schema(json.loads(text)) == schema


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ('{"version": 1, "features": [], "version": 1}', FormatError, "'version' more than once"),
        ('{"version": 2, "features": []}', FormatError, "version is 2, expected 1"),
        ('{"version": 1, "features": {}}', FormatError, "no list"),
        ('{"version": 1, "features": [3]}', FormatError, "a feature is 3"),
        ('{"features": []}', FormatError, "no schema"),
        ("[]", FormatError, "no schema"),
        ('{"version": 1, "features"', TruncatedError, "byte 25: no JSON"),
        ('{"version": NaN}', FormatError, "NaN is no number of standard JSON"),
        (b"\xff{}", FormatError, "byte 0: no UTF-8"),
        ("[" * 100_000, LimitError, "deep"),
        ("[" + "9" * 5000 + "]", FormatError, "a number is too long"),
    ],
)
def test_json_refuses(text, error, match):
    """JSON that is no schema is refused, keys that are twice too."""
    with pytest.raises(error, match=match):
        Schema.from_json(text)


@pytest.mark.parametrize(
    "part",
    [
        {"what": 1},
        {"shape": 3},
        {"default": {"hex": "zz"}},
        {"default": {"hex": 3}},
        {"default": {"float": []}},
        {"default": {"a": 1, "b": 2}},
        {"default": None, "optional": None},
        {"kind": None},
    ],
)
def test_json_refuses_features(part):
    """A feature's JSON with a wrong part is refused."""
    node = {"name": "x", "kind": "bytes", "shape": [], "dtype": "string", **part}

    with pytest.raises(FormatError):
        Schema.from_json({"version": 1, "features": [node]})


# TensorFlow's spec.


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


# TensorFlow Metadata.


@given(schemas())
def test_tfmd_roundtrip(schema):
    """A TFMD schema gives back every feature, in ASCII."""
    text = schema.to_tfmd()

    assert text.isascii()
    assert from_tfmd(text) == from_tfmd(text.encode()) == schema


TFMD = r"""
# As TensorFlow Data Validation and its users write them.
feature {
  name: "trip" "_id"  type: INT
  int_domain { min: -1 max: 0x10 is_categorical: true }
  presence { min_fraction: 1.0 min_count: 1 }
  shape { }
}
feature: <
  name: 'caf\303\251' type: FLOAT value_count < min: 1 max: 1 >; presence { min_fraction: 1 }
>
feature {
  name: "emb", type: FLOAT, presence { min_fraction: 1.0 }, shape { dim: [{size: 2}, {size: 3}] }
}
feature { name: "one" type: BYTES presence { min_fraction: 0.5 } shape { dim { size: 1 } } }
feature { name: "pair" type: 2 value_count { min: 2 max: 2 } annotation { tag: ["own", "mine"] } }
feature { name: "tags" type: BYTES value_count { min: 1 } string_domain { value: ["a", "b"] } }
feature { name: "old" type: INT presence { min_fraction: 1 } shape {} lifecycle_stage: DEPRECATED }
feature { name: "what" type: TYPE_UNKNOWN }
feature { name: "person" type: STRUCT struct_domain { feature { name: "age" type: INT } } }
feature {
  name: "##SEQUENCE##"
  type: STRUCT
  struct_domain {
    feature { name: "word" type: BYTES value_count { min: 0 max: 2 } }
    feature {
      name: "point"
      type: FLOAT
      value_counts { value_count { min: 0 max: 9 } value_count { min: 2 max: 2 } }
      presence { min_fraction: 1.0 }
    }
  }
}
sparse_feature { name: "s" index_feature { name: "i" } value_feature { name: "v" } }
tensor_representation_group {
  key: ""
  value { tensor_representation { key: "x" value { dense_tensor { column_name: "emb" } } } }
}
annotation { extra_metadata { [type.googleapis.com/a.B] { x: -inf y: 1.5e3f z: .5 } } }
"""


def test_tfmd():
    """Types, presence, shapes and counts of a TFMD schema become a schema; the rest is noted."""
    schema = from_tfmd(TFMD)

    assert schema.features == (
        Feature("café", "float32", (), "float32"),
        Feature("emb", "float32", (2, 3), "float32"),
        Feature("old", "int64", (), "int64", optional=True),
        Feature("one", "bytes", (1,), "string", optional=True),
        Feature("pair", "int64", (2,), "int64", optional=True),
        Feature("point", "float32", (2,), "float32", sequence=True),
        Feature("tags", "bytes", (None,), "string", optional=True),
        Feature("trip_id", "int64", (), "int64"),
        Feature("word", "bytes", (None,), "string", sequence=True, optional=True),
    )
    assert [note.split()[0] for note in schema.notes] == ["'what'", "'person'"]


@pytest.mark.parametrize(
    ("text", "error", "offset"),
    [
        ("feature {", TruncatedError, 9),
        ("feature { name: ", TruncatedError, 16),
        ('feature { name: "x }', FormatError, 16),
        ("feature }", FormatError, 8),
        ("feature { name x }", FormatError, 15),
        ('feature { name: "\\q" }', FormatError, 17),
        ('feature { name: "\\777" }', FormatError, 17),
        ('feature { name: "\\ud800" }', FormatError, 17),
        ("feature { size: 09 }", FormatError, 16),
        ("feature { size: 1x }", FormatError, 16),
        ("feature { size: - x }", FormatError, 18),
        ("feature { size: [1 2] }", FormatError, 19),
        ("feature { size: [1,] }", FormatError, 19),
        (f"feature {{ size: {'9' * 1000} }}", FormatError, 16),
        ("feature { type: INT }", FormatError, 8),
        ("feature: 3", FormatError, 0),
        ('feature { name: "x" type { min: 1 } }', FormatError, 8),
        ('feature { name: "x" type: INT shape { dim { size: "3" } } }', FormatError, 42),
        ('feature { name: "\\377" type: INT }', FormatError, 8),
        (
            'feature { name: "x" type: INT annotation { tag: "tensorferry.dtype=3" } }',
            FormatError,
            8,
        ),
        (
            'feature { name: "x" type: INT shape { dim { size: 99999999999999999999 } } }',
            FormatError,
            8,
        ),
        ("a {" * 200, LimitError, 302),
        ("a: [{" * 200, LimitError, 504),
    ],
)
def test_tfmd_refuses(text, error, offset):
    """Text that is no TFMD schema is refused, with the byte where that shows."""
    with pytest.raises(error) as caught:
        from_tfmd(text)

    assert type(caught.value) is error
    assert caught.value.offset == offset


def test_textproto_depth(monkeypatch):
    """Nesting is bounded by the limit, not by Python's stack."""
    monkeypatch.setattr(limits, "depth", 100_000)
    message = textproto.parse("a {" * 50_000 + "b: 1" + "}" * 50_000)

    for _ in range(50_000):
        message = message.last("a")
    assert message.fields == [("b", 1)]


@given(st.binary())
def test_textproto_strings(data):
    """Any bytes, quoted, are read as they were."""
    assert textproto.parse(f"a: {textproto.quote(data)}").last("a") == data


WORDS = st.sampled_from(
    ["a", "b_1", "true", "INT", "inf", "NaN", "0", "7", "017", "0x1F", "1.5", "9" * 19]
)
STRINGS = st.sampled_from(['"x"', "'y'", '"\\n"', '"x" "y"', '""'])
FIELDS = st.recursive(
    st.tuples(st.sampled_from(["a: ", "b:", "a :"]), WORDS | STRINGS).map("".join),
    lambda inner: st.tuples(
        st.sampled_from(["a {{{}}}", "b: {{ {} }}", "c <{}>", "d: [{{{}}}]"]),
        st.lists(inner, max_size=3).map(" ".join),
    ).map(lambda pair: pair[0].format(pair[1])),
)


def without_offsets(message):
    return [
        (name, without_offsets(value) if isinstance(value, textproto.Message) else repr(value))
        for name, value in message.fields
    ]


@given(st.lists(FIELDS, max_size=4).map(" ".join), st.integers(0, 1 << 30))
def test_textproto_usual_fields(text, seed):
    """Fields in the usual form are those that they are between comments, and so are errors."""
    # A comment is not of the usual form.
    tokens = re.findall(r"""[\w.]+|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s]""", text)
    commented = " ".join(f"{token} #\n" for token in tokens)
    cut = seed % (len(tokens) + 1)
    for usual, other in [
        (text, commented),
        (" ".join(tokens[:cut]), " ".join(f"{token} #\n" for token in tokens[:cut])),
    ]:
        try:
            expected = without_offsets(textproto.parse(other))
        except FormatError as error:
            with pytest.raises(type(error)):
                textproto.parse(usual)
        else:
            assert without_offsets(textproto.parse(usual)) == expected


# TensorFlow Datasets.


def tfds_node(kind, content):
    """A feature as TFDS writes it."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{kind}", kind: content}


def tfds_tensor(shape, dtype, **options):
    dimensions = [str(size) for size in shape]
    shape = {"dimensions": dimensions} if dimensions else {}
    return tfds_node("tensor", {"shape": shape, "dtype": dtype, "encoding": "none", **options})


def tfds_dict(**features):
    return tfds_node("featuresDict", {"features": features})


def tfds_sequence(feature, length=-1):
    return tfds_node("sequence", {"feature": feature, "length": str(length)})


TFDS = tfds_dict(
    flag=tfds_tensor([], "bool"),
    wide=tfds_tensor([2, 3], "float64"),
    rows=tfds_tensor([-1, 3], "int32"),
    middle=tfds_tensor([2, -1], "float32"),
    packed=tfds_tensor([2, 3], "float32", encoding="zlib"),
    open=tfds_tensor([-1, -1], "float32", encoding="bytes"),
    maybe=tfds_tensor([], "int64", optional=True),
    image=tfds_node("image", {"shape": {"dimensions": ["28", "28", "1"]}, "dtype": "uint8"}),
    label=tfds_node("classLabel", {"numClasses": "10"}),
    text=tfds_node("text", {}),
    box=tfds_node("boundingBox", {"shape": {"dimensions": ["4"]}, "dtype": "float32"}),
    film=tfds_node("video", {"shape": {"dimensions": ["-1", "2", "2", "3"]}, "dtype": "uint8"}),
    clip=tfds_node("video", {"shape": {"dimensions": ["2", "2", "2", "3"]}, "dtype": "uint8"}),
    sound=tfds_node("audio", {"shape": {"dimensions": ["-1"]}, "dtype": "int64"}),
    file=tfds_node("audio", {"shape": {"dimensions": ["-1"]}, "lazyDecode": True}),
    said=tfds_node("translation", {"languages": ["en", "fr"]}),
    told=tfds_node("translation", {"variableLanguagesPerExample": True}),
    three=tfds_sequence(tfds_tensor([], "float32"), 3),
    steps=tfds_sequence(
        tfds_dict(
            reward=tfds_tensor([], "float32"),
            words=tfds_sequence(tfds_node("text", {})),
            deep=tfds_sequence(tfds_sequence(tfds_tensor([2], "uint8"))),
        )
    ),
    own=tfds_node("jsonFeature", {"json": "{}"}),
    complex=tfds_tensor([], "complex64"),
)


def test_tfds():
    """Each leaf has the key, the kind and the shape that TFDS 4.9 writes for it."""
    schema = from_tfds(json.dumps(TFDS))
    ours = {name: (feature.kind, feature.shape) for name, feature in schema.items()}

    assert ours == {
        "flag": ("int64", ()),
        "wide": ("float32", (2, 3)),
        "rows": ("int64", (None, 3)),
        "middle": ("float32", (None,)),
        "packed": ("bytes", ()),
        "open/shape": ("int64", (2,)),
        "open/value": ("bytes", ()),
        "maybe": ("int64", ()),
        "image": ("bytes", ()),
        "label": ("int64", ()),
        "text": ("bytes", ()),
        "box": ("float32", (4,)),
        "film": ("bytes", (None,)),
        "clip": ("bytes", (2,)),
        "sound": ("int64", (None,)),
        "file": ("bytes", ()),
        "said/en": ("bytes", ()),
        "said/fr": ("bytes", ()),
        "told/language": ("bytes", (None,)),
        "told/translation": ("bytes", (None,)),
        "three": ("float32", (3,)),
        "steps/reward": ("float32", (None,)),
        "steps/words/ragged_flat_values": ("bytes", (None,)),
        "steps/words/ragged_row_lengths_0": ("int64", (None,)),
        "steps/deep/ragged_flat_values": ("int64", (None, 2)),
        "steps/deep/ragged_row_lengths_0": ("int64", (None,)),
        "steps/deep/ragged_row_lengths_1": ("int64", (None,)),
    }
    assert [name for name in schema if schema[name].optional] == ["maybe"]
    assert sorted(note.split()[0] for note in schema.notes) == ["'complex'", "'middle'", "'own'"]


def test_tfds_of_old():
    """The older form, with "type" and "content", is understood too."""
    place = "tensorflow_datasets.core.features"
    tree = {
        "type": f"{place}.features_dict.FeaturesDict",
        "content": {
            "image": {
                "type": f"{place}.image_feature.Image",
                "content": {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "png"},
            },
            "label": {
                "type": f"{place}.class_label_feature.ClassLabel",
                "content": {"num_classes": 10},
            },
            "tokens": {
                "type": f"{place}.sequence_feature.Sequence",
                "content": {
                    "feature": {
                        "type": f"{place}.tensor_feature.Tensor",
                        "content": {"shape": [], "dtype": "int32"},
                    },
                    "length": None,
                },
            },
            "features": {"type": f"{place}.text_feature.Text", "content": {}},
        },
    }

    assert as_schema(tree).features == (
        Feature("features", "bytes", (), "string"),
        Feature("image", "bytes", (), "string"),
        Feature("label", "int64", (), "int64"),
        Feature("tokens", "int64", (None,), "int64"),
    )


def test_tfds_depth():
    """Features that nest without end are refused."""
    tree = tfds_tensor([], "int64")
    for _ in range(150):
        tree = tfds_sequence(tree)

    with pytest.raises(LimitError, match="deeper than 100"):
        as_schema(tree)


@pytest.mark.skipif(not BRIDGE.exists(), reason="no corpus")
def test_tfds_of_corpus(tf):
    """A dataset's features.json names the keys, kinds and lengths of its own records."""
    (records,) = BRIDGE.glob("*.tfrecord*")
    schema = find_beside(records)

    assert schema.notes == ()
    for record in tf.data.TFRecordDataset(str(records)):
        message = tf.train.Example.FromString(record.numpy())
        assert sorted(message.features.feature) == list(schema)
        parsed = tf.io.parse_single_example(record, eval(schema.to_tf_spec(), {"tf": tf}))
        assert parsed["steps/action/world_vector"].shape[1:] == (3,)


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_text_of_corpus():
    """Every text proto there is parsed; those that are TFMD schemas are read."""
    for path in CORPUS.rglob("*.pbtxt"):
        message = textproto.parse(path.read_bytes())
        assert message.fields
        if path.name == "schema.pbtxt":
            assert len(as_schema(path))


# Files.


def test_files(tmp_path):
    """A schema is found beside its data: our own first, then TFDS's, then TFMD's, then above."""
    folder = tmp_path / "split"
    folder.mkdir()
    data = folder / "train.tfrecord"
    assert find_beside(data) is None

    above, tfmd, tfds, ours, own = (as_schema({name: "int64"}) for name in "ABCDE")
    (tmp_path / "schema.pbtxt").write_text(above.to_tfmd())
    assert find_beside(data) == above
    (folder / "schema.pbtxt").write_text(tfmd.to_tfmd())
    assert find_beside(str(data)) == tfmd == as_schema(folder / "schema.pbtxt")
    (folder / "features.json").write_text(json.dumps(tfds_dict(C=tfds_tensor([], "int8"))))
    assert find_beside(data) == tfds == as_schema(str(folder / "features.json"))
    (folder / "schema.json").write_text(json.dumps(ours.to_json()))
    assert find_beside(data) == ours
    (folder / "train.tfrecord.schema.json").write_text(json.dumps(own.to_json()))
    assert find_beside(data) == own


def test_foreign_and_broken_files(tmp_path):
    """JSON of another kind is passed over; a broken schema is an error with its path."""
    (tmp_path / "schema.json").write_text('{"$schema": "https://json-schema.org"}')
    assert find_beside(tmp_path / "x") is None
    (tmp_path / "schema.json").write_text('{"version": 1, "features": [')
    with pytest.raises(TruncatedError, match=r"schema\.json, byte 28"):
        find_beside(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        as_schema(tmp_path / "nothing.json")


# Arrow.


def test_arrow():
    """Each column has one Arrow type, whatever the rows."""
    pa = pytest.importorskip("pyarrow")
    schema = as_schema(
        {
            "a": "int64",
            "b": ("float32", (2,)),
            "c": ("string", (2, 3)),
            "d": ("int64", (None,)),
            "e": ("int64", (None, 3)),
            "f": ("float64", (2, 3)),
            "g": ("bfloat16", (2,)),
            "h": ("float64", (None,)),
            "i": "int32",
            "j": Feature("j", "int64", (None,), "int64", sequence=True, optional=True),
        }
    )

    assert schema.to_arrow() == pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.list_(pa.float32(), 2), nullable=False),
            pa.field("c", pa.list_(pa.list_(pa.binary(), 3), 2), nullable=False),
            pa.field("d", pa.list_(pa.int64()), nullable=False),
            pa.field("e", pa.list_(pa.list_(pa.int64(), 3)), nullable=False),
            pa.field("f", pa.fixed_shape_tensor(pa.float64(), (2, 3)), nullable=False),
            pa.field("g", pa.binary(), nullable=False),
            pa.field("h", pa.binary(), nullable=False),
            pa.field("i", pa.int32(), nullable=False),
            pa.field("j", pa.list_(pa.list_(pa.int64()))),
        ]
    )


@given(schemas())
def test_arrow_of_any(schema):
    """Every schema has an Arrow schema with its names."""
    pytest.importorskip("pyarrow")

    assert schema.to_arrow().names == list(schema)


def test_arrow_refuses(monkeypatch):
    """More values than Arrow's fixed lists hold are refused, and so is Arrow's absence."""
    pytest.importorskip("pyarrow")
    with pytest.raises(UnsupportedError, match="less than 2\\^31"):
        as_schema({"x": ("int64", (2**16, 2**16))}).to_arrow()

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tensorferry\[arrow\]'"):
        Schema().to_arrow()


# Hostile bytes.

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


def test_names_that_are_there_twice():
    """The first feature of a name is taken, as by tfx-bsl, and a note says so."""
    schema = from_tfmd(
        'feature { name: "a" type: INT } feature { name: "b" type: BYTES } '
        'feature { name: "a" type: FLOAT }'
    )
    assert [(feature.name, feature.kind) for feature in schema.features] == [
        ("a", "int64"),
        ("b", "bytes"),
    ]
    assert schema.notes == ("'a' is there more than once; the first is taken",)
