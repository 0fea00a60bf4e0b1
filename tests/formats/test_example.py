"""Examples as columns: what TensorFlow's messages hold, and the many ways to write the same."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from strategies import same

import tensorferry as ferry
from tensorferry.formats.tfrecord import example
from tensorferry.formats.tfrecord.frames import Frames
from tensorferry.formats.tfrecord.survey import survey
from tensorferry.rows.schema import Feature, Schema
from tensorferry.storage import open_source


def segments(*records: bytes, limit: int = 1 << 60) -> list[Any]:
    """Records as segments."""
    frames = Frames(open_source(ferry.dumps(list(records), format="tfrecord")))
    return list(iter(lambda: frames.take(limit), None))


def decode(records: list[bytes], schema: Any = None, **options: Any) -> dict[str, Any]:
    """The columns of some records."""
    found = segments(*records)
    given = survey(found).schema() if schema is None else schema
    return example.BatchDecoder(given, **options).decode(found)


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of less than 2^14 bytes."""
    length = len(data)
    size = bytes([length] if length < 128 else [length & 127 | 128, length >> 7])
    return bytes([number << 3 | 2]) + size + data


def entry(key: bytes, feature: bytes) -> bytes:
    """A map entry."""
    return field(1, field(1, key) + field(2, feature))


def integers(data: bytes) -> bytes:
    """A Feature of an int64 list."""
    return field(3, data)


INTEGER_LISTS = {
    "packed": field(1, b"\x01\x02\x03"),
    "unpacked": b"\x08\x01\x08\x02\x08\x03",
    "mixed": b"\x08\x01" + field(1, b"\x02\x03"),
    "two runs": field(1, b"\x01") + field(1, b"") + field(1, b"\x02\x03"),
    "unknown fields": b"\x10\x07" + field(1, b"\x01\x02") + field(5, b"x") + b"\x08\x03",
    "long varints": field(1, b"\x81\x80\x00\x82\x00\x03"),
}


@pytest.mark.parametrize("data", INTEGER_LISTS.values(), ids=INTEGER_LISTS)
def test_ways_to_write_integers(tf, data):
    """Packed, unpacked and mixed lists are the same list, here and in TensorFlow."""
    record = field(1, entry(b"a", integers(data)))

    assert decode([record])["a"].tolist() == [[1, 2, 3]]
    theirs = tf.train.Example.FromString(record).features.feature["a"].int64_list.value
    assert list(theirs) == [1, 2, 3]


@pytest.mark.parametrize("packed", [False, True])
def test_ways_to_write_floats(packed):
    """Every bit of a float, in a run or alone: NaN payloads, -0.0, subnormals."""
    values = np.array([0x7FC12345, 0x80000000, 1, 0xFF800000], np.uint32)
    parts = [struct.pack("<I", value) for value in values]
    data = field(1, b"".join(parts)) if packed else b"".join(b"\x0d" + part for part in parts)

    column = decode([field(1, entry(b"a", field(2, data)))])["a"]
    assert column.view(np.uint32).tolist() == [values.tolist()]


def test_negative_integers():
    """Ten bytes for a number below zero."""
    data = field(1, b"\xff" * 9 + b"\x01" + b"\x80" * 9 + b"\x01")

    assert decode([field(1, entry(b"a", integers(data)))])["a"].tolist() == [[-1, -(2**63)]]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 40, 100, 117, 118, 119, 127, 128, 200])
def test_names_of_any_size(size):
    """Names that fit words, and entries of one and of two bytes of length: each is its own."""
    names = [b"x" * size + end for end in (b"a", b"b", b"")]
    values = {name: number for number, name in enumerate(names)}
    orders = [names, names[::-1], names[1:] + names[:1]]
    records = [
        field(1, b"".join(entry(name, integers(field(1, bytes([values[name]])))) for name in order))
        for order in orders * 2
    ]
    columns = decode(records)

    assert {name: columns[name.decode()].tolist() for name in names} == {
        name: [value] * 6 for name, value in values.items()
    }


ENTRIES = {
    "integers": ("int64", entry(b"a", integers(field(1, b"\x07\x85\x02")))),
    "floats": ("float32", entry(b"a", field(2, field(1, struct.pack("<2f", 1, 2))))),
    "bytes": ("bytes", entry(b"a", field(1, field(1, b"xy")))),
}


@pytest.mark.parametrize(("kind", "good"), ENTRIES.values(), ids=ENTRIES)
def test_short_entries_are_read_as_any(kind, good):
    """An entry that is expected is compared instead of parsed: every change of it is seen."""

    def outcome(record, names):
        dtype = "string" if kind == "bytes" else kind
        features = [Feature(name, kind, (None,), dtype) for name in names]
        found = segments(record, record)
        try:
            column = example.BatchDecoder(Schema(features), ["a"]).decode(found)["a"]
        except ferry.FormatError as error:
            return str(error)
        return column.to_list()

    for place in range(len(good)):
        for byte in range(256):
            changed = good[:place] + bytes([byte]) + good[place + 1 :]
            for record in (field(1, changed), field(1, changed + good)):
                # The first column is the one expected: a name that does not come is read in full.
                assert outcome(record, "ab") == outcome(record, "ba")


def test_steps_that_look_like_a_feature():
    """A list of one step is built like a short list of strings: only its place tells."""
    alike = entry(b"a", field(1, field(1, field(1, b"xy"))))
    sequence = Schema([Feature("a", "bytes", (None,), "string", sequence=True)])
    feature = Schema([Feature("a", "bytes", (None,), "string", optional=True)])
    records = [field(1, alike), field(2, alike), field(2, alike), field(1, alike)]

    assert decode(records, feature)["a"].to_list() == [[b"\n\x02xy"], [], [], [b"\n\x02xy"]]
    assert decode(records, sequence)["a"].to_list() == [[], [[b"xy"]], [[b"xy"]], []]


def test_what_comes_last_counts(tf):
    """Of repeated keys and of several kinds in one Feature, the last; unknown fields pass."""
    one, two = integers(field(1, b"\x01")), integers(field(1, b"\x02"))
    text = field(1, field(1, b"x"))
    records = [
        field(1, entry(b"a", one) + entry(b"b", one) + entry(b"a", two)),
        field(1, entry(b"a", text + two) + entry(b"b", one)),
        field(9, b"unknown") + field(1, field(7, b"x") + entry(b"a", two) + entry(b"b", one)),
        field(1, entry(b"a", two)) + field(1, entry(b"b", one)),
    ]
    schema = Schema((Feature("a", "int64", (), "int64"), Feature("b", "int64", (), "int64")))

    columns = decode(records, schema)
    assert columns["a"].tolist() == [2] * 4
    assert columns["b"].tolist() == [1] * 4
    for record in records:
        features = tf.train.Example.FromString(record).features.feature
        assert list(features["a"].int64_list.value) == [2]


def test_missing_is_not_empty():
    """A Feature without a kind is a missing one, an empty list is a list."""
    one = integers(field(1, b"\x01"))
    records = [field(1, entry(b"a", one)), field(1, entry(b"a", b"")), b"", b"\x0a\x00"]
    assert decode(records)["a"].to_list() == [[1], [], [], []]
    assert survey(segments(*records)).schema()["a"] == Feature(
        "a", "int64", (), "int64", optional=True
    )

    empty = [field(1, entry(b"a", one)), field(1, entry(b"a", integers(b"")))]
    assert survey(segments(*empty)).schema()["a"] == Feature("a", "int64", (None,), "int64")


def test_defaults():
    """A default stands for rows without the feature, bytes with zeros at their end included."""
    record = field(1, entry(b"a", integers(field(1, b"\x01\x02"))))
    schema = Schema(
        (
            Feature("a", "int64", (2,), "int64", default=(7, 8)),
            Feature("s", "bytes", (), "string", default=b"x\0"),
            Feature("f", "float32", (2, 1), "float32", default=0.5),
        )
    )

    columns = decode([record, b""], schema)
    assert columns["a"].tolist() == [[1, 2], [7, 8]]
    assert columns["s"].tolist() == [b"x\0", b"x\0"]
    assert columns["f"].tolist() == [[[0.5], [0.5]]] * 2
    assert columns["f"].dtype == np.float32


def test_shapes():
    """A list of values takes the shape that the schema gives it."""
    record = field(1, entry(b"a", integers(field(1, bytes(range(6))))))
    shapes = {(6,): np.ndarray, (2, 3): np.ndarray, (None,): ferry.RaggedTensor}

    for shape, kind in {**shapes, (None, 3): ferry.RaggedTensor}.items():
        column = decode([record, record], Schema((Feature("a", "int64", shape, "int64"),)))["a"]
        assert type(column) is kind
        row = column[1]
        assert (
            row.tolist() == np.arange(6).reshape([-1 if s is None else s for s in shape]).tolist()
        )


MISFITS = {
    "kind": (("float32", (), "float32"), "holds int64, expected float32"),
    "number": (("int64", (2,), "int64"), "has 3 values, expected 2"),
    "multiple": (("int64", (None, 2), "int64"), "has 3 values, expected a multiple of 2"),
}


@pytest.mark.parametrize(("parts", "match"), MISFITS.values(), ids=MISFITS)
def test_rows_that_break_the_schema(parts, match):
    """The error names file, record and both sides; skipping leaves the row out and notes it."""
    bad = field(1, entry(b"a", integers(field(1, b"\x01\x02\x03"))))
    schema = Schema((Feature("a", *parts, optional=True),))
    found = segments(b"", b"", bad, b"", limit=2)
    decoder = example.BatchDecoder(schema)

    with pytest.raises(ferry.FormatError, match=f"record 2: .*{match}") as caught:
        decoder.decode(found)
    assert caught.value.path == "<bytes>"
    assert "schema=" in caught.value.hint
    damages = []
    assert len(decoder.decode(found, damages=damages)["a"]) == 3
    assert [(one.record, one.offset, one.size) for one in damages] == [(2, 32, 16 + len(bad))]


def test_required_feature_missing():
    """A row without a feature that the schema requires."""
    good = field(1, entry(b"a", integers(field(1, b"\x01"))))
    decoder = example.BatchDecoder(Schema((Feature("a", "int64", (), "int64"),)))

    with pytest.raises(ferry.FormatError, match="record 1: no feature 'a'"):
        decoder.decode(segments(good, b"", good, limit=1))
    damages = []
    found = segments(good, b"", good, b"", b"", good, limit=4)
    assert decoder.decode(found, damages=damages)["a"].tolist() == [1, 1, 1]
    assert [one.record for one in damages] == [1, 3, 4]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.zeros((2, 2)), r"float64 and shape \[2, 2\], expected a tensor of float64.*\[3\]"),
        (np.zeros(3, np.int32), "a tensor of int32"),
        (ferry.SparseTensor([[0]], np.ones(1), [3]), "a sparse tensor of float64"),
        (None, "some other string"),
    ],
)
def test_tensors_that_break_the_schema(value, match):
    """A serialized tensor of another dtype or shape, or none, is named with its record."""
    texts = [ferry.dumps(np.zeros(3)), b"no tensor" if value is None else ferry.dumps(value)]
    records = [field(1, entry(b"a", field(1, field(1, text)))) for text in texts]
    schema = Schema((Feature("a", "bytes", (3,), "float64", encoding="tensor"),))

    with pytest.raises(ferry.FormatError, match=f"record 1: .*{match}"):
        decode(records, schema)
    damages = []
    columns = example.BatchDecoder(schema).decode(segments(*records), damages=damages)
    assert columns["a"].tolist() == [[0, 0, 0]]
    assert len(damages) == 1


def test_skipping_in_large_batches():
    """A tensor that does not fit, found behind a column that was taken already."""
    good = field(1, entry(b"a", integers(field(1, bytes(100)))) + entry(b"t", TENSOR))
    bad = field(1, entry(b"a", integers(field(1, bytes(100)))) + entry(b"t", TEXT))
    schema = Schema(
        (
            Feature("a", "int64", (100,), "int64"),
            Feature("t", "bytes", (), "float64", encoding="tensor"),
        )
    )
    decoder = example.BatchDecoder(schema)
    for _ in range(2):
        damages = []
        found = segments(*[good] * 9000, bad, *[good] * 9000)
        columns = decoder.decode(found, damages=damages)
        assert columns["a"].shape == (18000, 100)
        assert columns["t"].tolist() == [1.5] * 18000
        assert [one.record for one in damages] == [9000]


TENSOR = field(1, field(1, ferry.dumps(np.float64(1.5))))
TEXT = field(1, field(1, b"text"))


def test_columns():
    """Only what is asked for, in that order; what is skipped need not even fit."""
    record = field(1, entry(b"a", integers(b"")) + entry(b"b", integers(field(1, b"\x05"))))
    schema = Schema((Feature("a", "float32", (), "float32"), Feature("b", "int64", (), "int64")))

    assert decode([record], schema, columns=["b"])["b"].tolist() == [5]
    with pytest.raises(KeyError, match=r"did you mean|there are"):
        decode([record], schema, columns=["c"])


KINDS = {"int64": st.integers(-(2**63), 2**63 - 1), "float32": st.floats(width=32)}
KINDS["bytes"] = st.binary(max_size=20)
NUMPY = {"int64": np.int64, "float32": np.float32, "bytes": object}


@st.composite
def features(draw):
    """A feature and its lists in some rows, None where it is missing."""
    kind = draw(st.sampled_from(list(KINDS)))
    length = draw(st.sampled_from([None, 1, 3]))
    lists = st.lists(KINDS[kind], min_size=length or 0, max_size=length or 4)
    return kind, draw(st.lists(lists, min_size=5, max_size=5)), draw(st.booleans())


def to_proto(tf, kind, values):
    """A tf.train.Feature."""
    if kind == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if kind == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


@given(st.dictionaries(st.text(max_size=5), features(), min_size=1, max_size=4))
def test_values_are_tensorflows(tf, drawn):
    """Whatever tf.train.Example holds comes out, of types that the lists together tell."""
    records = []
    for row in range(5):
        protos = {
            name: to_proto(tf, kind, lists[row])
            for name, (kind, lists, gaps) in drawn.items()
            if not (gaps and row == 2)
        }
        message = tf.train.Example(features=tf.train.Features(feature=protos))
        records.append(message.SerializeToString())

    columns = decode(records)
    for name, (kind, lists, gaps) in drawn.items():
        rows = [[] if gaps and row == 2 else lists[row] for row in range(5)]
        column = columns[name]
        flat = column.flat_values if isinstance(column, ferry.RaggedTensor) else column
        expected = np.empty(sum(map(len, rows)), NUMPY[kind])
        expected[:] = [value for row in rows for value in row]
        assert same(flat.reshape(-1), expected)
        if isinstance(column, np.ndarray):
            assert not gaps
            assert {len(row) for row in rows} == {column.size // 5}


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.lists(st.integers(-5, 5), max_size=3), max_size=3), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_sequence_examples(tf, drawn, context):
    """Context features are columns, feature lists ragged columns of their steps."""
    records = []
    for row in drawn:
        lists = [to_proto(tf, "int64", step) for step in row]
        message = tf.train.SequenceExample(
            feature_lists=tf.train.FeatureLists(
                feature_list={"steps": tf.train.FeatureList(feature=lists)}
            )
        )
        if context:
            message.context.feature["c"].float_list.value.append(len(row))
        records.append(message.SerializeToString())
    schema = [Feature("steps", "int64", (None,), "int64", sequence=True)]
    if context:
        schema.append(Feature("c", "float32", (), "float32"))

    columns = decode(records, Schema(tuple(schema)))
    assert columns["steps"].to_list() == drawn
    if context:
        assert columns["c"].tolist() == [len(row) for row in drawn]
    rows = list(example.rows_of(columns, Schema(tuple(schema))))
    assert [row["steps"].to_list() for row in rows] == drawn

    inferred = decode(records)
    if any(map(len, drawn)):
        steps = [step for row in drawn for step in row]
        nested = inferred["steps"].to_list()
        lengths = {len(step) for step in steps}
        scalar = lengths == {1}
        assert nested == [[step[0] if scalar else step for step in row] for row in drawn]


def test_survey_counts_records_within_their_file():
    """The number in an error is that of the record in its own file, wherever the survey stands."""
    good = field(1, entry(b"a", integers(field(1, b"\x01"))))
    found = segments(good, good, good) + segments(good, b"\xff", good)

    with pytest.raises(ferry.FormatError, match="record 1 is no Example"):
        survey(found)
    assert survey(found, skip=True).schema()["a"].optional is False


def test_strings_that_are_no_tensors():
    """Only a feature whose strings all are serialized tensors is one of tensors."""
    tensor = ferry.dumps(np.float64(1.5))
    for text in (b"", b"\x08\x01", b"text", tensor[:-1], ferry.dumps({"a": 1})):
        records = [field(1, entry(b"a", field(1, field(1, one)))) for one in (tensor, text)]
        assert survey(segments(*records)).schema()["a"].encoding == "plain"
        assert decode(records)["a"].tolist() == [tensor, text]


def test_entries_without_a_key():
    """An entry of a record without a key has the empty one, as in protobuf."""
    entry = b"\x12\x05\x1a\x03\x0a\x01\x07"
    record = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
    data = ferry.dumps([record, b"\x0a\x02\x0a\x00"], format="tfrecord")
    (batch,) = ferry.open(io.BytesIO(data)).batches(2)

    assert batch[""].to_list() == [[7], []]


def test_damage_beside_an_unwanted_sequence(tf):
    """A record that does not fit is taken back, whatever features were not asked for."""
    good = tf.train.SequenceExample()
    good.context.feature["label"].int64_list.value.append(7)
    good.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(1)
    bad = tf.train.SequenceExample()
    bad.context.feature["label"].float_list.value.append(7)
    records = [part.SerializeToString() for part in (good, good, bad, good)]
    data = ferry.dumps(records, format="tfrecord")
    schema = {
        "label": "int64",
        "steps": Feature("steps", "int64", (), "int64", sequence=True),
    }
    with ferry.open(io.BytesIO(data), columns=["label"], schema=schema, on_error="skip") as opened:
        (batch,) = opened.batches(4)

    assert batch["label"].tolist() == [7, 7, 7]
    assert [damage.record for damage in opened.damages] == [2]
