"""Examples, written: byte for byte what TensorFlow writes, and nothing narrowed or flattened."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from strategies import arrays, ragged_tensors, same, sparse_tensors

import tensorferry as ferry
from tensorferry.formats.tfrecord import example
from tensorferry.formats.tfrecord.encoder import ExampleWriter
from tensorferry.formats.tfrecord.frames import Frames
from tensorferry.formats.tfrecord.survey import survey
from tensorferry.rows.schema import Feature, Schema, as_schema
from tensorferry.storage import open_source


def read(data: bytes, schema: Any = None) -> list[dict[str, Any]]:
    """The rows of framed Examples."""
    segment = Frames(open_source(data)).take(1 << 60)
    schema = survey([segment]).schema() if schema is None else schema
    return list(example.rows_of(example.BatchDecoder(schema).decode([segment]), schema))


def encode_columns(columns: dict[str, Any], schema: Any = None) -> bytes:
    """Framed Examples of columns."""
    writer = ExampleWriter(schema)
    rows = writer.prepare_columns(columns)
    pieces: list[bytes] = []
    writer.encode(0, rows, lambda piece: pieces.append(bytes(piece)))
    return b"".join(pieces)


def encode_rows(rows: list[dict[str, Any]], schema: Any = None) -> bytes:
    """Framed Examples of rows."""
    return ExampleWriter(schema).encode_rows(rows)


def to_example(tf, row):
    """What TensorFlow writes for a row of lists."""
    protos = {}
    for name, values in row.items():
        if values and isinstance(values[0], bytes):
            protos[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif values and isinstance(values[0], float):
            protos[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            protos[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    message = tf.train.Example(features=tf.train.Features(feature=protos))
    return message.SerializeToString(deterministic=True)


LISTS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    st.lists(st.floats(width=32), min_size=1, max_size=4),
    st.lists(st.binary(max_size=20), min_size=1, max_size=4),
)


# All of one length: of two keys where one starts with the other, protobuf's upb writes the longer
# one first, its other implementations the shorter one, as we do.
NAMES = st.text(st.characters(codec="ascii"), min_size=3, max_size=3) | st.sampled_from("äöü€😀")


@given(st.dictionaries(NAMES, LISTS, min_size=1, max_size=5), st.integers(1, 3))
def test_bytes_are_tensorflows(tf, row, rows):
    """The same values give the bytes of tf.train.Example with its keys sorted."""
    expected = ferry.dumps([to_example(tf, row)] * rows, format="tfrecord")

    assert encode_rows([row] * rows) == expected
    dtypes = {int: np.int64, float: np.float32, bytes: object}
    columns = {}
    for name, values in row.items():
        column = np.empty((rows, len(values)), dtypes[type(values[0])])
        column[:] = values
        columns[name] = column
    assert encode_columns(columns) == expected


def test_keys_are_sorted():
    """By their bytes, the shorter one first."""
    data = encode_rows([{"b": 1, "ab": 1, "a": 1, "B": 1, "": 1, "é": 1}])
    places = [
        data.index(b"\x0a%c" % len(key) + key) for key in (b"B", b"a", b"ab", b"b", "é".encode())
    ]

    assert places == sorted(places)
    assert data == encode_rows([{"é": 1, "a": 1, "": 1, "b": 1, "B": 1, "ab": 1}])


def test_scalars_and_text(tf):
    """Python's int, bool, float and str, alone or in a list, are int64, float32 and bytes."""
    row = {"i": 7, "b": True, "f": 1.5, "s": "ü", "n": [1, 2.5], "t": ("a", b"b")}
    lists = {
        "i": [7],
        "b": [1],
        "f": [1.5],
        "s": ["ü".encode()],
        "n": [1.0, 2.5],
        "t": [b"a", b"b"],
    }

    assert encode_rows([row]) == ferry.dumps([to_example(tf, lists)], format="tfrecord")


@given(st.one_of(arrays(), ragged_tensors(), sparse_tensors()))
def test_any_tensor(value):
    """Every tensor comes back with its dtype, shape and bits, from a row and from a column.

    Integers of fewer bits come back as int64 where a list holds them.
    """
    if isinstance(value, np.ndarray) and value.ndim <= 2 and value.dtype.kind in "biu":
        value = value.astype(np.int64) if value.dtype.itemsize < 8 else value
    plain = isinstance(value, np.ndarray) and value.dtype.newbyteorder("=") in PLAIN
    (row,) = read(encode_rows([{"x": value}]))
    if plain and value.ndim <= 1:
        # A list does not tell one value from a list of one, nor any shape of no values.
        assert same(np.asarray(row["x"], value.dtype).reshape(-1), value.reshape(-1))
    else:
        assert same(np.asarray(row["x"]) if isinstance(value, np.ndarray) else row["x"], value)

    if isinstance(value, np.ndarray) and value.ndim and len(value):
        rows = read(encode_columns({"x": value}))
        assert len(rows) == len(value)
        for ours, theirs in zip(rows, value, strict=True):
            theirs = np.asarray(theirs, value.dtype)
            shape = -1 if plain and theirs.ndim <= 1 else theirs.shape
            assert same(np.asarray(ours["x"], value.dtype).reshape(shape), theirs.reshape(shape))


PLAIN = (np.dtype(np.int64), np.dtype(np.float32), np.dtype(object))


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.uint64(7),
        np.arange(3, dtype=np.uint64),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([[b"a", b""]], object),
        [[1, 2], [3, 2**40]],
    ],
    ids=lambda value: f"{getattr(value, 'dtype', 'list')} {np.shape(value)}",
)
def test_nothing_is_narrowed(value):
    """Rows of a dtype or shape that Examples lack come back as they were, also as one array."""
    expected = np.asarray(value)
    data = encode_rows([{"x": value}] * 3)
    segment = Frames(open_source(data)).take(10)
    schema = survey([segment]).schema()

    assert (schema["x"].encoding, schema["x"].shape) == ("tensor", expected.shape)
    column = example.BatchDecoder(schema).decode([segment])["x"]
    assert same(column, np.stack([expected] * 3))


def test_nested_integers_are_int64():
    """A nested list is int64 whatever its numbers are: types do not depend on values."""
    for value in ([[1, 2]], [[1, 2**40]], [np.int64(1), np.int64(2)]):
        (row,) = read(encode_rows([{"x": value}]))
        assert row["x"].dtype == np.int64


def test_parse_example_reads_it(tf):
    """What tf.io.parse_example has a type for, it reads without further ado."""
    columns = {
        "id": np.arange(3),
        "emb": np.arange(6, dtype=np.float32).reshape(3, 2),
        "name": np.array([b"a", b"", b"c"], object),
        "tokens": ferry.RaggedTensor.from_rows([[1, 2], [], [3]], dtype="int64"),
        "wide": np.linspace(0, 1, 3),
    }
    records = ferry.loads(encode_columns(columns), format="tfrecord")
    spec = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "emb": tf.io.FixedLenFeature([2], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
        "tokens": tf.io.RaggedFeature(tf.int64),
        "wide": tf.io.FixedLenFeature([], tf.string),
    }

    parsed = tf.io.parse_example(records, spec)
    for name in ("id", "emb", "name"):
        assert parsed[name].numpy().tolist() == columns[name].tolist()
    assert parsed["tokens"].to_list() == [[1, 2], [], [3]]
    wide = [tf.io.parse_tensor(text, tf.float64).numpy() for text in parsed["wide"]]
    assert wide == columns["wide"].tolist()


def test_missing_values():
    """None and a name that is not there are a missing feature."""
    rows = read(encode_rows([{"a": 1, "b": None}, {"b": 2.5}, {"a": None, "b": 3.5}]))

    assert [row["a"] for row in rows] == [1, None, None]
    assert [row["b"] for row in rows] == [None, 2.5, 3.5]


OTHER_KINDS = {
    "float after int": (1, 2.5, "float32 values, expected int64 values"),
    "text after int": ([1], ["a"], "strings, expected int64 values"),
    "tensor after text": (b"a", np.zeros(2), "float64 tensor of 1 dimensions, expected strings"),
    "other dtype": (
        np.zeros(2),
        np.zeros(2, np.uint64),
        "uint64 tensor.*expected a float64 tensor",
    ),
    "other rank": (np.zeros(2), np.zeros((2, 2)), "of 2 dimensions, expected .* of 1 dimensions"),
}


@pytest.mark.parametrize(("first", "second", "match"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_one_kind_in_all_rows(first, second, match):
    """A feature that changes its kind is refused at that row, however far apart the two are."""
    writer = ExampleWriter()
    writer.encode_rows([{"x": first}])
    with pytest.raises(ferry.FormatError, match=match) as caught:
        writer.add({"x": second})
    assert "schema=" in caught.value.hint
    with pytest.raises(ferry.FormatError):
        writer.prepare_columns({"x": [second]})

    assert writer.encode_rows([{"x": first}]) == encode_rows([{"x": first}])


def test_empty_lists():
    """An empty list is of the kind of the others; alone it says nothing, which is an error."""
    rows = read(encode_rows([{"x": []}, {"x": [1, 2]}, {"x": []}]))
    assert [row["x"].tolist() for row in rows] == [[], [1, 2], []]

    with pytest.raises(ferry.UnsupportedError, match="nothing but empty lists"):
        encode_rows([{"x": []}])
    schema = as_schema({"x": ("float32", (None,))})
    assert read(encode_rows([{"x": []}], schema), schema)[0]["x"].dtype == np.float32


REFUSED = {
    "integer beyond int64": (2**63, "beyond 64 bits"),
    "float beyond float32": (1e39, "too large for float32"),
    "surrogate": ("\ud800", "UTF-8"),
    "complex list": ([1, "a"], "object array"),
    "ragged list": ([[1], [1, 2]], "different lengths"),
    "dict": ({"a": 1}, "a dict in a row"),
    "sparse scalar": (ferry.SparseTensor(np.zeros((0, 0)), [], []), "without dimensions"),
}


@pytest.mark.parametrize(("value", "match"), REFUSED.values(), ids=REFUSED)
def test_refused(value, match):
    """What an Example cannot carry is refused, with the name of the feature."""
    with pytest.raises(ferry.FerryError, match=match) as caught:
        encode_rows([{"x": value}])
    assert caught.value.tensor == "x"


@pytest.mark.parametrize("name", [1, None, "\ud800"])
def test_names(name):
    """A feature's name is text."""
    with pytest.raises(ferry.UnsupportedError, match=r"expected a string|UTF-8"):
        encode_rows([{name: 1}])
    with pytest.raises(ferry.UnsupportedError, match=r"expected a string|UTF-8"):
        encode_columns({name: [1]})


def test_rows_are_copied():
    """An array that changes after it was added is written as it was."""
    writer, array = ExampleWriter(), np.zeros(2, np.float32)
    image = np.zeros((2, 2), np.uint8)
    for value in range(3):
        array[:] = image[:] = value
        writer.add({"x": array, "image": image})

    rows = read(writer.flush())
    assert [row["x"].tolist() for row in rows] == [[0, 0], [1, 1], [2, 2]]
    assert [row["image"][0, 0] for row in rows] == [0, 1, 2]


SCHEMA = as_schema(
    {
        "matrix": ("float32", (2, 2)),
        "id": "int64",
        "names": ("string", (None,)),
        "small": ("float64", (None,)),
    }
)


def test_by_schema(tf):
    """A schema says how: a matrix as a plain list, integers widened, Python's floats in full."""
    rows = [
        {"matrix": np.eye(2), "id": np.int8(3), "names": ["a", "b"], "small": [0.1]},
        {"matrix": [[1, 2], [3, 4]], "id": 2**40, "names": [], "small": np.zeros(2)},
    ]
    data = encode_rows(rows, SCHEMA)
    back = read(data, SCHEMA)

    assert back[0]["matrix"].tolist() == [[1, 0], [0, 1]]
    assert [row["id"] for row in back] == [3, 2**40]
    assert [row["names"].tolist() for row in back] == [[b"a", b"b"], []]
    assert [row["small"].tolist() for row in back] == [[0.1], [0, 0]]
    records = ferry.loads(data, format="tfrecord")
    parsed = tf.io.parse_example(records, {"matrix": tf.io.FixedLenFeature([2, 2], tf.float32)})
    assert parsed["matrix"].shape == (2, 2, 2)
    columns = {"matrix": np.stack([np.eye(2)] * 2), "id": np.arange(2, dtype=np.uint8)}
    columns |= {"names": [["a"], []], "small": [[0.5], []]}
    assert [row["id"] for row in read(encode_columns(columns, SCHEMA), SCHEMA)] == [0, 1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"matrix": np.zeros((4, 2))}, r"shape \[4, 2\], expected \[2, 2\]"),
        ({"matrix": np.zeros((1, 4))}, r"shape \[1, 4\]"),
        ({"matrix": np.full((2, 2), 1e300)}, "too large for float32"),
        ({"id": 1.5}, "float32, expected int64"),
        ({"id": np.uint64(2**63)}, "does not fit int64"),
        ({"id": [1, 2]}, r"shape \[2\], expected \[\]"),
        ({"names": [1]}, "expected bytes"),
        ({"small": np.zeros(2, np.float32)}, "float32, expected float64"),
        ({"small": [[1.0]]}, r"shape \[1, 1\], expected \[None\]"),
        ({"small": ["a"]}, "expected float64"),
        ({"id": None}, "no feature 'id', which the schema requires"),
    ],
    ids=str,
)
def test_against_the_schema(change, match):
    """A value that does not fit the schema is refused, with both sides, in rows and in columns."""
    row = {"matrix": np.eye(2), "id": 1, "names": ["a"], "small": [0.5], **change}
    with pytest.raises(ferry.FerryError, match=match):
        encode_rows([row], SCHEMA)
    with pytest.raises(ferry.FerryError, match=match):
        encode_columns({name: [value] for name, value in row.items()}, SCHEMA)


def test_integers_are_not_cut():
    """Python's numbers become an integer dtype only if it holds them."""
    schema = as_schema({"x": ("int8", (None,))})
    assert read(encode_rows([{"x": [1, -2]}], schema), schema)[0]["x"].dtype == np.int8
    for value in ([300], [1.5]):
        with pytest.raises(ferry.FormatError, match="expected int8"):
            encode_rows([{"x": value}], schema)


def test_columns_of_different_lengths():
    """Columns must have as many rows as the first, and be columns."""
    with pytest.raises(ferry.FormatError, match="'b' has 1 rows, expected 2"):
        encode_columns({"a": [1, 2], "b": [1]})
    for value in (5, "text", b"bytes", np.float32(1), np.zeros(()), {"a": 1}):
        with pytest.raises(ferry.FormatError, match="expected one value a row"):
            encode_columns({"a": value})
    assert encode_columns({"a": []}) == encode_columns({}) == b""


def test_sparse_columns():
    """Each row of a sparse column is a sparse tensor of one dimension less."""
    column = ferry.SparseTensor([[0, 1], [2, 0]], np.array([1.5, 2.5]), [3, 4])
    rows = read(encode_columns({"x": column}))

    assert [row["x"].to_dense().tolist() for row in rows] == column.to_dense().tolist()


SEQUENCES = Schema(
    (
        Feature("label", "int64", (), "int64"),
        Feature("steps", "int64", (None,), "int64", sequence=True),
        Feature("frames", "float32", (2,), "float32", sequence=True),
        Feature("words", "bytes", (), "string", sequence=True),
    )
)


@settings(max_examples=50)
@given(st.lists(st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3), max_size=4))
def test_sequence_examples(tf, drawn):
    """A schema with sequences writes SequenceExamples that TensorFlow reads."""
    rows = [
        {
            "label": len(steps),
            "steps": steps,
            "frames": np.arange(2 * len(steps), dtype=np.float32).reshape(-1, 2),
            "words": [str(step) for step in steps],
        }
        for steps in drawn
    ]
    data = encode_rows(rows, SEQUENCES)
    for row, record in zip(rows, ferry.loads(data, format="tfrecord"), strict=True):
        context, lists = tf.io.parse_single_sequence_example(
            record,
            {"label": tf.io.FixedLenFeature([], tf.int64)},
            {
                "steps": tf.io.RaggedFeature(tf.int64),
                "frames": tf.io.FixedLenSequenceFeature([2], tf.float32),
                "words": tf.io.FixedLenSequenceFeature([], tf.string),
            },
        )
        assert context["label"] == row["label"]
        assert lists["steps"].to_list() == row["steps"]
        assert lists["frames"].numpy().tolist() == row["frames"].tolist()
        assert [text.decode() for text in lists["words"].numpy()] == row["words"]
    for ours, row in zip(read(data, SEQUENCES) if rows else [], rows, strict=True):
        assert ours["steps"].to_list() == row["steps"]
        assert ours["frames"].tolist() == row["frames"].tolist()


def test_sequences_are_copied():
    """Steps that change after they were added are written as they were."""
    writer, frames = ExampleWriter(SEQUENCES), np.zeros((2, 2), np.float32)
    for value in range(2):
        frames[:] = value
        writer.add({"label": value, "frames": frames, "words": [], "steps": None})

    rows = read(writer.flush(), SEQUENCES)
    assert [row["frames"].tolist() for row in rows] == [[[0, 0]] * 2, [[1, 1]] * 2]


def test_steps_of_another_shape():
    """Each step is checked against the schema."""
    for name, value in (("frames", [[1.0]]), ("words", [["a", "b"]]), ("frames", [[[1.0, 2.0]]])):
        with pytest.raises(ferry.FerryError, match=r"expected|dimensions"):
            ExampleWriter(SEQUENCES).add({"label": 1, name: value})


def test_what_protobuf_could_not_parse(tmp_path):
    """An Example of 2 GiB would be written for nobody: it is refused before its bytes are made."""
    large = bytes(2**31 - 200)  # zeros that nobody has touched take no memory
    wide = np.broadcast_to(np.uint8(0), (1, 2**31))
    with ferry.writer(tmp_path / "x.tfrecord", durable=False) as out:
        for row in ({"a": large, "b": bytes(300)}, {"a": wide[0]}):
            with pytest.raises(ferry.LimitError, match="2 GiB"):
                out.write(row)
        with pytest.raises(ferry.LimitError, match="'a': a list of 2147483648 values"):
            out.write_batch({"a": wide})
        with pytest.raises(ferry.LimitError, match="an Example of 2147483796 bytes"):
            out.write_batch({"a": np.array([large], object), "b": np.array([bytes(300)], object)})
        out.write({"a": b"small"})

    assert ferry.load(tmp_path / "x.tfrecord")["a"].tolist() == [b"small"]
