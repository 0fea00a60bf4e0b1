"""tfio's parsers of Examples and SequenceExamples against tf.io's."""

from __future__ import annotations

import inspect
import itertools
import pickle

import numpy as np
import pytest
from conftest import CORPUS
from hypothesis import assume, given, settings, strategies as st
from strategies import same

import tensorferry as ferry
from tensorferry import RaggedTensor, SparseTensor, dtypes, limits, tfio
from tensorferry.tfio import examples

CLASSES = (
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
)
PARTITIONS = ("RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds")

# The kinds of lists, by the names of the keys that hold them here; the numbers are the fields'.
DTYPES = {"s": "string", "f": "float32", "i": "int64"}
FIELDS = {"s": 1, "f": 2, "i": 3}
VALUES = {
    "s": st.binary(max_size=3),
    "f": st.floats(width=32),
    "i": st.integers(-(2**63), 2**63 - 1),
}


# Bytes of records, by hand: TensorFlow's own writer has one form only.


def varint(number):
    """As in protobuf: seven bits a byte, the lowest first."""
    number, out = number % 2**64, bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(field, data):
    """A field of bytes."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def feature(kind, values, *, packed=True):
    """A Feature with a list, or without one."""
    if kind is None:
        return b""
    if kind == "s":
        data = b"".join(message(1, value) for value in values)
    else:
        parts = [varint(v) if kind == "i" else np.float32(v).tobytes() for v in values]
        tag = b"\x08" if kind == "i" else b"\x0d"
        data = message(1, b"".join(parts)) if packed else b"".join(tag + part for part in parts)
    return message(FIELDS[kind], data)


def entry(key, value):
    """An entry of a map."""
    return message(1, message(1, key.encode()) + message(2, value))


def example(**lists):
    """An Example of keys whose first letter is the kind of their list."""
    return message(1, b"".join(entry(k, feature(k[0], values)) for k, values in lists.items()))


def sequences(**steps):
    """A SequenceExample without a context."""
    lists = {
        key: b"".join(message(1, feature(key[0], step)) for step in value)
        for key, value in steps.items()
    }
    return message(2, b"".join(entry(key, value) for key, value in lists.items()))


# What both make of the same records and descriptions.


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


def strings(values):
    """As TensorFlow takes any number of records, none included."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


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


def partition_numbers(kind, lengths):
    """What a partition of a kind holds for rows of these lengths."""
    ends = list(itertools.accumulate(lengths))
    return {
        "RowSplits": [0, *ends],
        "RowLengths": lengths,
        "RowStarts": [0, *ends][:-1],
        "RowLimits": ends,
        "ValueRowIds": [row for row, length in enumerate(lengths) for _ in range(length)],
    }[kind]


@st.composite
def partitioned(draw, kinds):
    """One list with partitions of these kinds or uniform lengths, from the outside in."""
    lists, count = {}, draw(st.integers(0, 3))
    for level, kind in enumerate(kinds):
        if isinstance(kind, int):
            count *= kind
            continue
        lengths = [draw(st.integers(0, 2)) for _ in range(count)]
        if kind == "ValueRowIds" and lengths:
            lengths[-1] += 1  # a last row without values has no id
        lists[f"i{level}"] = partition_numbers(kind, lengths)
        count = sum(lengths)
    return {**lists, "f": draw(st.lists(VALUES["f"], min_size=count, max_size=count))}


def ragged(io, kinds, dtype):
    """A RaggedFeature for such lists."""
    partitions = [
        io.RaggedFeature.UniformRowLength(kind)
        if isinstance(kind, int)
        else getattr(io.RaggedFeature, kind)(f"i{level}")
        for level, kind in enumerate(kinds)
    ]
    return io.RaggedFeature("float32", "f", partitions, dtype, validate=True)


KINDS = st.lists(st.sampled_from([*PARTITIONS, 1, 2]), max_size=3)
FEWER = settings(max_examples=settings().max_examples // 2)  # TensorFlow takes long for these


@FEWER
@given(data=st.data(), kinds=KINDS, dtype=st.sampled_from(["int32", "int64"]))
def test_ragged_features(tf, data, kinds, dtype):
    """Partitions of every kind, up to three levels of them, make TensorFlow's rows."""
    records = [example(**one) for one in data.draw(st.lists(partitioned(kinds), max_size=3))]
    ours, theirs = ({"r": ragged(io, kinds, dtype)} for io in (tfio, tf.io))

    expected = from_tf(tf, tf.io.parse_example(strings(records), theirs))
    assert same(tfio.parse_example(strings(records), ours), expected)
    assert same(tfio.parse_example(strings(records), theirs), expected)
    for record in records:
        expected = from_tf(tf, tf.io.parse_single_example(record, theirs))
        assert same(tfio.parse_single_example(record, ours), expected)


@FEWER
@given(data=st.data(), kinds=KINDS, dtype=st.sampled_from(["int32", "int64"]))
def test_ragged_sequences(tf, data, kinds, dtype):
    """The same in each step of a sequence."""
    many = data.draw(st.lists(st.lists(partitioned(kinds), max_size=3), max_size=3))
    keys = ["f", *(f"i{level}" for level, kind in enumerate(kinds) if isinstance(kind, str))]
    records = [sequences(**{key: [step[key] for step in steps] for key in keys}) for steps in many]
    ours, theirs = ({"r": ragged(io, kinds, dtype)} for io in (tfio, tf.io))

    expected = from_tf(tf, tf.io.parse_sequence_example(strings(records), None, theirs))
    assert same(tfio.parse_sequence_example(strings(records), None, ours), expected)
    for record in records:
        expected = from_tf(tf, tf.io.parse_single_sequence_example(record, None, theirs))
        assert same(tfio.parse_single_sequence_example(record, None, ours), expected)


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


def test_refused_ragged_features():
    """Nor can splits be of another dtype than int32 and int64, or partitions of another class."""
    for fields in (
        {"row_splits_dtype": "int8"},
        {"partitions": ["i"]},
        {"partitions": [tfio.RaggedFeature.UniformRowLength(0)]},
    ):
        with pytest.raises(ferry.UnsupportedError, match="feature 'i'"):
            tfio.parse_example([example(i=[1])], {"i": tfio.RaggedFeature("int64", **fields)})


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


def test_forms_of_dtypes_shapes_and_defaults(tf):
    """Names, NumPy's and TensorFlow's dtypes mean the same, and so do shapes and tensors."""
    record = example(f=[1.5])
    for dtype in ("float32", np.float32, np.dtype("float32"), tf.float32):
        for shape in ([1], (1,), 1, tf.TensorShape([1])):
            for default in ([2], 2.0, np.float64(2), True, tf.constant([2.0])):
                described = {"f": tfio.FixedLenFeature(shape, dtype, default)}
                result = tfio.parse_example([record, b""], described)["f"]
                assert same(result, np.array([[1.5], [float(np.ravel(default)[0])]], np.float32))


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (tfio.FixedLenFeature([], "int64"), "record 1: feature 'i' has 2 values, expected 1"),
        (tfio.FixedLenFeature([], "float32"), "record 0, byte 11: feature 'i' holds int64"),
        (tfio.FixedLenSequenceFeature([2], "int64", True), "record 0: feature 'i' has 1 values"),
        (tfio.SparseFeature("i", "i", "int64", 5), "record 1: feature 'i' has the index 5 in 'i'"),
        (tfio.SparseFeature("i", "j", "int64", 5), "record 0: feature 'i' has 0 values and 1 ind"),
    ],
)
def test_errors_name_the_record(described, text):
    """An error names the record, by its number or its name, and the feature."""
    records = [example(i=[1]), example(i=[4, 5])]
    with pytest.raises(ferry.FormatError) as raised:
        tfio.parse_example(records, {"i": described})
    assert str(raised.value).startswith(text)

    names = ["first", "second"]
    with pytest.raises(ferry.FormatError) as raised:
        tfio.parse_example(records, {"i": described}, names)
    assert raised.value.path == names[int(text[7])]
    with pytest.raises(ferry.UnsupportedError, match="1 example_names, expected 2"):
        tfio.parse_example(records, {"i": described}, ["first"])


def test_missing_features_are_named():
    """A required feature or sequence that a record lacks is named with the record."""
    records = [example(i=[1]), example(i0=[1])]
    with pytest.raises(ferry.FormatError, match="record 1: feature 'i' is missing"):
        tfio.parse_example(records, {"i": tfio.FixedLenFeature([], "int64")})
    records = [sequences(i=[]), sequences(i=[[1]]), b""]
    with pytest.raises(ferry.FormatError, match="record 2: sequence 'i' is missing"):
        tfio.parse_sequence_example(records, None, {"i": tfio.FixedLenSequenceFeature([], "int64")})
    with pytest.raises(ferry.FormatError, match="record 1: a step of 'i' has 1 values"):
        tfio.parse_sequence_example(
            records, None, {"i": tfio.FixedLenSequenceFeature([2], "int64", True)}
        )


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        *(("RowSplits", numbers) for numbers in ([], [0], [0, 2], [1, 3], [0, 4, 3], [0, -1, 3])),
        *(("RowLengths", numbers) for numbers in ([], [2], [4], [-1, 4], [2**62] * 4 + [3])),
        *(("RowStarts", numbers) for numbers in ([], [1], [0, 4], [0, 2, 1], [0, -(2**63)])),
        *(("RowLimits", numbers) for numbers in ([], [2], [4], [2, 1, 3], [2**63 - 1, 3])),
        *(("ValueRowIds", numbers) for numbers in ([], [0, 0], [0, 1, 0], [-1, 0, 0], [0] * 4)),
    ],
)
def test_partitions_must_fit(kind, numbers):
    """Rows that are not exactly the record's values are refused, which tf.io leaves to luck."""
    partition = getattr(tfio.RaggedFeature, kind)("i")
    described = {"r": tfio.RaggedFeature("float32", "f", [partition])}
    good = example(f=[], i=[0] if kind == "RowSplits" else [])
    bad = example(f=[1, 2, 3], i=numbers)

    with pytest.raises(ferry.FormatError, match=f"record 1: feature 'r' has 3.*{kind}\\('i'\\)"):
        tfio.parse_example([good, bad], described)
    with pytest.raises(ferry.FormatError):
        tfio.parse_single_example(bad, described)
    steps = sequences(f=[[1, 2, 3]], i=[numbers])
    with pytest.raises(ferry.FormatError, match="record 0: feature 'r' has 3"):
        tfio.parse_single_sequence_example(steps, None, described)


def test_uniform_rows_and_steps_must_fit():
    """So are values that uniform rows do not hold, and steps without their partition."""
    uniform = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.UniformRowLength(2)])
    with pytest.raises(ferry.FormatError, match="record 1: feature 'r' has 3 elements for rows"):
        tfio.parse_example(
            [example(i=[1, 2]), example(i=[1, 2, 3]), example(i=[4])], {"r": uniform}
        )
    split = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.RowLengths("i0")])
    with pytest.raises(ferry.FormatError, match="sequence 'i0' has 1 steps, expected 2"):
        tfio.parse_single_sequence_example(sequences(i=[[1], [2]], i0=[[1]]), None, {"r": split})


def test_a_few_bytes_ask_for_much(monkeypatch):
    """Row ids and filling up stay within the limit for what the bytes do not hold."""
    ids = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.ValueRowIds("i")])
    for number in (2**40, 2**62, 2**63 - 1):
        with pytest.raises(ferry.FormatError):
            tfio.parse_example([example(i=[number])] * 3, {"r": ids})
    monkeypatch.setattr(limits, "memory", 1000)
    records = [example(i=[1] * 1000), *[b""] * 1000]
    with pytest.raises(ferry.LimitError, match="filled up takes 8008000 bytes"):
        tfio.parse_example(records, {"i": tfio.FixedLenSequenceFeature([], "int64", True)})


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


def test_names_with_braces():
    """The names of features are not taken for anything but names."""
    with pytest.raises(ferry.FormatError, match=r"feature 'i\{0\}%s' has 1 values"):
        tfio.parse_example(
            [example(**{"i{0}%s": [1]})], {"i{0}%s": tfio.FixedLenFeature([2], "int64")}
        )


EVERYTHING = {
    "s0": tfio.VarLenFeature("string"),
    "f0": tfio.FixedLenFeature([2], "float32", [0, 1]),
    "i0": tfio.FixedLenSequenceFeature([], "int64", True),
    "i1": tfio.RaggedFeature("int64", None, [tfio.RaggedFeature.RowLengths("i2")]),
    "x": tfio.SparseFeature("i3", "f3", "float32", 9),
}
WHOLE = example(s0=[b"ab", b""], f0=[1, 2], i0=[3, -1], i1=[5, 6, 7], i2=[1, 2], i3=[8], f3=[4])
STEPS = {key: EVERYTHING[key] for key in ("s0", "i1")}
WHOLE_STEPS = sequences(s0=[[b"ab"], []], i1=[[5, 6], [7]], i2=[[1, 1], [1]]) + WHOLE


def damaged(data):
    """Every beginning of some bytes, and every one of their bits flipped."""
    yield from (data[:end] for end in range(len(data)))
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        yield bytes(flipped)


def test_damaged_records():
    """A record that is cut or has a bit flipped gives values or a FerryError, nothing else."""
    context = {key: EVERYTHING[key] for key in ("s0", "f0", "i1")}
    assert tfio.parse_example([WHOLE], EVERYTHING)
    assert tfio.parse_sequence_example([WHOLE_STEPS], context, STEPS)
    errors = 0
    for parse, data in (
        (lambda record: tfio.parse_example([record], EVERYTHING), WHOLE),
        (lambda record: tfio.parse_example(record, EVERYTHING), WHOLE),
        (lambda record: tfio.parse_sequence_example([record], context, STEPS), WHOLE_STEPS),
        (lambda record: tfio.parse_single_sequence_example(record, context, STEPS), WHOLE_STEPS),
    ):
        for record in damaged(data):
            try:
                parse(record)
            except ferry.FerryError as error:
                errors += 1
                assert error.path == "record 0"
    assert errors > 1000


FILES = {
    "tfx/csv_example_gen/Split-eval/data_tfrecord-00000-of-00012.gz": "GZIP",
    "tfx/penguin/data/Split-eval/data_tfrecord-00000-of-00001.gz": "GZIP",
    "tfx/mnist/data/mnist.tfrecord": "",
    "tfds/datasets/nsynth/dummy_data/test/nsynth-test.tfrecord": "",
    "tfds/robotics/dummy_data/bridge/1.0.0/bridge-train.tfrecord-00000-of-00001": "",
    "tfx/tfrecord_sequence/Split-eval/data_tfrecord_eval.gz": "GZIP",
}


def descriptions_of(features):
    """Every way to parse what some stored features hold."""
    held = {}
    for key, value in features:
        kind = value.WhichOneof("kind")
        if kind is not None:
            held.setdefault(key, []).append((kind, len(getattr(value, kind).value)))
    names = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}
    dtypes_of = {key: names[lists[0][0]] for key, lists in held.items()}
    lengths = {key: {length for _, length in lists} for key, lists in held.items()}
    yield {key: ("VarLenFeature", {"dtype": dtype}) for key, dtype in dtypes_of.items()}
    yield {key: ("RaggedFeature", {"dtype": dtype}) for key, dtype in dtypes_of.items()}
    yield {
        key: ("FixedLenSequenceFeature", {"shape": [], "dtype": dtype, "allow_missing": True})
        for key, dtype in dtypes_of.items()
    }
    yield {
        key: ("FixedLenFeature", {"shape": [max(lengths[key])], "dtype": dtype})
        for key, dtype in dtypes_of.items()
    }


@pytest.mark.parametrize("name", FILES)
def test_files_of_others(tf, name):
    """Records that others wrote parse as tf.io parses them."""
    if not (CORPUS / name).exists():
        pytest.skip("the corpus is not there")
    data = tf.data.TFRecordDataset(str(CORPUS / name), FILES[name]).take(50)
    records = strings([record.numpy() for record in data])
    assert len(records)

    protos = [tf.train.SequenceExample.FromString(record) for record in records]
    context = [pair for proto in protos for pair in proto.context.feature.items()]
    steps = [
        (key, step)
        for proto in protos
        for key, value in proto.feature_lists.feature_list.items()
        for step in value.feature
    ]
    parsed = 0
    for described in descriptions_of(context) if context else ():
        parsed += check(tf, "parse_example", records, described) is not None
        check(tf, "parse_single_example", records[0], described)
    for described in descriptions_of(steps) if steps else ():
        parsed += check(tf, "parse_sequence_example", records, {}, described) is not None
        check(tf, "parse_single_sequence_example", records[0], {}, described)
    assert parsed >= 3


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
