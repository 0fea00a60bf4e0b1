"""Examples as Arrow record batches: the values of the NumPy columns, in stable types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tensorferry as ferry

COLUMNS = {
    "id": np.arange(5),
    "score": np.linspace(0, 1, 5, dtype=np.float32),
    "text": np.array([b"a", b"", b"ccc", b"d\0", b"e"], dtype=object),
    "embedding": np.arange(15, dtype=np.float32).reshape(5, 3),
    "tokens": ferry.RaggedTensor(np.arange(7), ([0, 2, 2, 3, 7, 7],)),
    "words": ferry.RaggedTensor.from_rows([["x"], [], ["y", "z"], [], ["w"]]),
    "image": np.arange(30, dtype=np.uint8).reshape(5, 2, 3),
    "precise": np.linspace(0, 1, 5),
    "small": np.arange(5).astype("int8"),
}


@pytest.fixture
def path(tmp_path):
    """A file with a column of each kind."""
    with ferry.writer(tmp_path / "data.tfrecord") as out:
        out.write_batch(COLUMNS)
    return str(tmp_path / "data.tfrecord")


def test_values(path):
    """Every column has the values that were written."""
    (batch,) = ferry.open(path).batches(10, to="arrow")

    assert batch.num_rows == 5
    batch.validate(full=True)
    for name, column in COLUMNS.items():
        found = batch.column(name)
        if isinstance(column, ferry.RaggedTensor):
            assert found.to_pylist() == column.to_list()
        elif name == "image":
            assert (found.to_numpy_ndarray() == column).all()
        else:
            assert found.to_pylist() == column.tolist()


def test_types_are_stable(path):
    """The type of every batch is the schema's, however few values a batch has."""
    with ferry.open(path) as records:
        batches = list(records.batches(2, to="arrow"))
        assert {batch.schema for batch in batches} == {records.schema.to_arrow()}
    assert pa.Table.from_batches(batches).num_rows == 5


def test_columns(path):
    """Only the columns asked for, in that order."""
    (batch,) = ferry.open(path, columns=["text", "id"]).batches(10, to="arrow")

    assert batch.schema.names == ["text", "id"]


def test_missing_rows_are_null(tmp_path):
    """A row without an optional feature is null, whatever its kind."""
    with ferry.writer(tmp_path / "data") as out:
        out.write({"a": 1, "b": [1.5, 2.5], "c": "x", "d": [1], "e": np.float64(1)})
        out.write({})
        out.write({"a": 3, "b": [3.5, 4.5], "c": "", "d": [1, 2], "e": np.float64(3)})
    (batch,) = ferry.open(tmp_path / "data").batches(10, to="arrow")

    batch.validate(full=True)
    assert batch.to_pydict() == {
        "a": [1, None, 3],
        "b": [[1.5, 2.5], None, [3.5, 4.5]],
        "c": [b"x", None, b""],
        "d": [[1], None, [1, 2]],
        "e": [1.0, None, 3.0],
    }


def test_sequences(tf, tmp_path):
    """The steps of a SequenceExample are lists, of numbers, of fixed lists or of lists."""
    steps = {"one": [[1], [2]], "two": [[1, 2], [3, 4]], "any": [[1], [2, 3]]}
    message = tf.train.SequenceExample()
    for name, lists in steps.items():
        for values in lists:
            feature = message.feature_lists.feature_list[name].feature.add()
            feature.int64_list.value.extend(values)
    message.context.feature["label"].int64_list.value.append(7)
    with tf.io.TFRecordWriter(str(tmp_path / "data")) as writer:
        writer.write(message.SerializeToString())
    (batch,) = ferry.open(tmp_path / "data").batches(10, to="arrow")

    assert batch.to_pydict() == {
        "any": [[[1], [2, 3]]],
        "label": [7],
        "one": [[1, 2]],
        "two": [[[1, 2], [3, 4]]],
    }
