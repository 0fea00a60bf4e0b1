"""tfio's parsers of Examples and SequenceExamples against tf.io's, for any records."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
from hypothesis import assume, given, strategies as st
from tfio.oracle import PARTITIONS, check
from tfio.records import DTYPES, VALUES, entry, example, feature, message, strings

from tensorferry import dtypes, tfio
from tensorferry.tfio import examples

CLASSES = (
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
)


@st.composite
def described_as(draw, kind, classes):
    """A description of a feature of a kind, by any of some classes."""
    name, dtype = draw(st.sampled_from(classes)), DTYPES[kind]
    if name == "VarLenFeature":
        return name, {"dtype": dtype}
    if name == "RaggedFeature":
        return name, {"dtype": dtype, "row_splits_dtype": draw(st.sampled_from(["int32", "int64"]))}
    shape = draw(st.sampled_from([*[[], [1], (1, 1)] * 4, [2], (2, 1)]))
    size = int(np.prod(shape)) if name == "FixedLenFeature" else 1
    values = draw(st.none() | st.lists(VALUES[kind], min_size=size, max_size=size))
    if values is not None and draw(st.booleans()):
        values = np.array(values, object if kind == "s" else dtype).reshape(-1)
    fields = {"shape": shape, "dtype": dtype, "default_value": values}
    if name == "FixedLenSequenceFeature":
        fields["allow_missing"] = True
    return name, fields


@st.composite
def descriptions(draw, classes):
    """Of some of the keys s0 to i1, each as any class; rarely of a kind that they are not."""
    keys = draw(
        st.lists(st.sampled_from(["s0", "s1", "f0", "f1", "i0", "i1"]), min_size=1, unique=True)
    )
    wrong = draw(st.sampled_from([*[None] * 30, *keys]))
    return {
        key: draw(described_as("sfis"["sfi".index(key[0]) + (key == wrong)], classes))
        for key in keys
    }


@st.composite
def entries(draw, kinds_missing=True):
    """The entries of the keys s0 to i1: lists, packed or not, absent, without a kind, repeated."""
    out = []
    size = draw(st.sampled_from([*[1] * 12, 2, None]))
    for key in draw(st.permutations(["s0", "s1", "f0", "f1", "i0", "i1"])):
        for _ in range(draw(st.sampled_from([1] * 20 + [0, 2]))):
            kind = draw(st.sampled_from([key[0]] * 20 + [None] * kinds_missing))
            bounds = {"max_size": 3} if size is None else {"min_size": size, "max_size": size}
            values = draw(st.lists(VALUES[key[0]], **bounds))
            data = feature(kind, values, packed=draw(st.booleans()))
            trailing = message(9, b"?") if data and draw(st.booleans()) else b""
            out.append((key, entry(key, data + trailing), kind))
    keys = [key for key, _, _ in out]
    # Of repeated keys the last one counts, but TensorFlow's parsers disagree on one without a kind.
    assume(all(kind or keys.count(key) == 1 for key, _, kind in out))
    return b"".join(data for _, data, _ in out)


@st.composite
def example_records(draw):
    """An Example, with fields that nobody knows around it."""
    unknown = st.sampled_from([b"", message(7, b"?"), b"\x40\x01", b"\x45abcd", b"\x41abcdefgh"])
    return draw(unknown) + message(1, draw(entries())) + draw(unknown)


BATCHES = st.one_of(example_records(), st.lists(example_records(), max_size=4).map(strings))


def test_names_and_fields(tf):
    """Classes, parsers, arguments and defaults are those of tf.io."""
    for name in (*CLASSES, *examples.__all__):
        ours, theirs = getattr(tfio, name), getattr(tf.io, name)
        arguments = inspect.signature(theirs).parameters
        found = inspect.signature(ours).parameters
        assert list(found) == list(arguments), name
        for argument in arguments:
            expected = arguments[argument].default
            if isinstance(expected, tf.DType):
                assert dtypes.as_dtype(found[argument].default).name == expected.name
            else:
                assert found[argument].default == expected, (name, argument)
    for name in (*PARTITIONS, "UniformRowLength"):
        partition = getattr(tfio.RaggedFeature, name)
        assert partition._fields == getattr(tf.io.RaggedFeature, name)._fields
        assert pickle.loads(pickle.dumps(partition(3))) == partition(3)
    ragged = tfio.RaggedFeature("int64", "v", [tfio.RaggedFeature.RowSplits("k")])
    assert pickle.loads(pickle.dumps(ragged)) == ragged


@given(
    records=BATCHES,
    described=descriptions(
        ["FixedLenFeature", "FixedLenSequenceFeature", "VarLenFeature", "RaggedFeature"]
    ),
)
def test_examples(tf, records, described):
    """Any Examples, one or many, parse as tf.io parses them, or are refused as it refuses them."""
    check(tf, "parse_example", records, described, theirs_too=True)
    if not isinstance(records, np.ndarray):
        check(tf, "parse_single_example", records, described)


@given(
    values=st.dictionaries(
        st.sampled_from(["s", "f", "i"]), st.lists(st.integers(0, 255), max_size=4)
    )
)
def test_examples_of_tensorflow(tf, values):
    """What tf.train.Example writes is read."""
    proto = tf.train.Example()
    for kind, numbers in values.items():
        held = proto.features.feature[kind]
        if kind == "s":
            held.bytes_list.value.extend([bytes([number]) for number in numbers])
        elif kind == "f":
            held.float_list.value.extend(numbers)
        else:
            held.int64_list.value.extend(numbers)
    described = {kind: ("VarLenFeature", {"dtype": dtype}) for kind, dtype in DTYPES.items()}

    assert check(tf, "parse_example", strings([proto.SerializeToString()]), described) is not None


@st.composite
def sparse_examples(draw):
    """Values with places in two dimensions, not in order; rarely too few, or outside."""
    count = draw(st.integers(0, 5))
    places = st.tuples(st.integers(0, 3), st.integers(0, 4))
    pairs = draw(st.lists(places, min_size=count, max_size=count, unique=True))
    values = draw(st.lists(VALUES["f"], min_size=count, max_size=count))
    return example(i0=[pair[0] for pair in pairs], i1=[pair[1] for pair in pairs], f0=values)


@given(records=st.lists(sparse_examples(), max_size=3), is_sorted=st.booleans())
def test_sparse_features(tf, records, is_sorted):
    """SparseFeature sorts the values by their places, in one dimension or more."""
    both = {"value_key": "f0", "dtype": "float32", "already_sorted": is_sorted}
    described = {
        "grid": ("SparseFeature", {"index_key": ["i0", "i1"], "size": [4, 5], **both}),
        "alone": ("SparseFeature", {"index_key": ["i1"], "size": (5,), **both}),
        "f0": ("VarLenFeature", {"dtype": "float32"}),
        "i1": ("VarLenFeature", {"dtype": "int64"}),
    }
    # TensorFlow sorts entries of one place in any order.
    line = {
        "line": ("SparseFeature", {"index_key": "i0", "size": 4, **both, "already_sorted": True})
    }
    for one in (described if is_sorted else {**described, "alone": described["grid"]}, line):
        assert check(tf, "parse_example", strings(records), one, theirs_too=True) is not None
        for record in records:
            assert check(tf, "parse_single_example", record, one) is not None


@st.composite
def sequence_records(draw):
    """A SequenceExample with the same keys in its context and its sequences."""
    size = draw(st.sampled_from([*[1] * 12, 2, None]))
    bounds = {"max_size": 2} if size is None else {"min_size": size, "max_size": size}
    out = []
    for key in draw(st.permutations(["s0", "s1", "f0", "f1", "i0", "i1"])):
        for _ in range(draw(st.sampled_from([1] * 20 + [0, 2]))):
            lists = draw(st.lists(st.lists(VALUES[key[0]], **bounds), max_size=3))
            packed = draw(st.booleans())
            steps = [message(1, feature(key[0], one, packed=packed)) for one in lists]
            out.append(entry(key, b"".join(steps)))
    parts = [message(1, draw(entries(kinds_missing=False))), message(2, b"".join(out))]
    return b"".join(draw(st.permutations(parts)))


@given(
    records=st.one_of(
        sequence_records(), st.lists(sequence_records(), min_size=1, max_size=3).map(strings)
    ),
    context=st.none() | descriptions(["FixedLenFeature", "VarLenFeature", "RaggedFeature"]),
    steps=st.none() | descriptions(["FixedLenSequenceFeature", "VarLenFeature", "RaggedFeature"]),
    required=st.booleans(),
)
def test_sequence_examples(tf, records, context, steps, required):
    """Any SequenceExamples parse as tf.io parses them, or are refused as it refuses them."""
    for _, fields in (steps or {}).values():
        if "allow_missing" in fields:
            fields.update(allow_missing=not required, default_value=None)
    check(tf, "parse_sequence_example", records, context or {}, steps or {}, theirs_too=True)
    if not isinstance(records, np.ndarray):
        check(tf, "parse_single_sequence_example", records, context or {}, steps or {})


def test_bytes_are_read_as_protobuf_reads_them(tf):
    """In what TensorFlow's own parsers leave out or refuse, protobuf decides."""
    number, text = feature("i", [1]), feature("s", [b"x"])
    run, single, unknown = message(1, b"\x01\x02"), b"\x08\x03", message(5, b"?")
    for name, data in {
        "two runs": message(1, entry("i", message(3, run + run))),
        "a run and a value": message(1, entry("i", message(3, run + single))),
        "a value and a run": message(1, entry("i", message(3, single + run))),
        "an unknown field in the list": message(1, entry("i", message(3, unknown + run))),
        "an unknown field in the feature": message(1, entry("i", unknown + number)),
        "an unknown field beside entries": message(1, unknown + entry("i", number)),
        "the value before the key": message(1, message(1, message(2, number) + message(1, b"i"))),
        "an entry without a value": message(1, message(1, message(1, b"i"))),
        "two kinds": message(1, entry("i", text + number)),
        "the last of two without a kind": message(1, entry("i", number) + entry("i", b"")),
        "two dicts": message(1, entry("i", number)) + message(1, entry("k", text)),
        "a group": b"\x4b\x4c" + message(1, entry("i", number)),
    }.items():
        proto = tf.train.Example.FromString(data)
        result = tfio.parse_single_example(data, {"i": tfio.VarLenFeature("int64")})["i"]
        assert result.values.tolist() == list(proto.features.feature["i"].int64_list.value), name
