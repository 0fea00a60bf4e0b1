"""Rows as people write them: TensorFlow's int32 labels and NumPy's float64 in TFRecords."""

from __future__ import annotations

import ast
import warnings
from dataclasses import asdict, make_dataclass

import numpy as np
import pytest

import tensorferry as ferry


def test_integers_of_every_width_are_lists(tf, tmp_path):
    """`tf.io.parse_example` reads int32 labels, bools and bytes as int64, by row and by column."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as out:
        out.write({"label": tf.constant(3), "flags": np.array([True, False]), "pair": np.int8(-4)})
        out.write({"label": tf.constant(5), "flags": np.array([False, True]), "pair": np.int8(7)})
        out.write_batch(
            {
                "label": tf.constant([7, 9]),
                "flags": np.ones((2, 2), bool),
                "pair": np.array([1, 2], np.int8),
            }
        )

    parsed = tf.io.parse_example(
        [record.numpy() for record in tf.data.TFRecordDataset(str(path))],
        {
            "label": tf.io.FixedLenFeature([], tf.int64),
            "flags": tf.io.FixedLenFeature([2], tf.int64),
            "pair": tf.io.FixedLenFeature([], tf.int64),
        },
    )

    assert parsed["label"].numpy().tolist() == [3, 5, 7, 9]
    assert parsed["flags"].numpy().tolist() == [[1, 0], [0, 1], [1, 1], [1, 1]]
    assert parsed["pair"].numpy().tolist() == [-4, 7, 1, 2]
    assert ferry.load(path)["label"].tolist() == [3, 5, 7, 9]


def test_ragged_int32_are_lists(tf, tmp_path):
    """A ragged column of int32 is a list of its own length in each row."""
    path = tmp_path / "x.tfrecord"
    ferry.save({"ids": tf.ragged.constant([[1, 2], [], [3]])}, path)

    parsed = tf.io.parse_example(
        [record.numpy() for record in tf.data.TFRecordDataset(str(path))],
        {"ids": tf.io.RaggedFeature(tf.int64)},
    )

    assert parsed["ids"].to_list() == [[1, 2], [], [3]]


def test_float64_is_kept_whole_and_said_once(tmp_path):
    """Nothing is rounded in silence: one warning, at the caller's line, says what is stored how."""
    path = tmp_path / "x.tfrecord"
    values = np.array([0.1, 0.2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ferry.writer(path) as out:
            for value in values:
                out.write({"x": value, "y": value})
            out.write_batch({"x": values, "y": values})

    (only,) = caught
    assert only.filename == __file__
    assert "'x' is float64, 'y' is float64" in str(only.message)
    assert "schema={'x': 'float32', 'y': 'float32'}" in str(only.message)
    result = ferry.load(path)["x"]
    assert result.dtype == np.float64
    assert result.tolist() == [0.1, 0.2, 0.1, 0.2]


def test_what_the_warning_says_works(tf, tmp_path):
    """With the schema that the warning names, `tf.io.parse_example` reads a float list."""
    path = tmp_path / "x.tfrecord"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ferry.writer(path, schema={"x": "float32"}) as out:
            out.write({"x": np.float64(0.5)})
            out.write({"x": 0.25})
        ferry.save({"m": np.zeros((2, 3, 3)), "f": np.float32([1, 2])}, tmp_path / "m.tfrecord")

    parsed = tf.io.parse_example(
        [record.numpy() for record in tf.data.TFRecordDataset(str(path))],
        {"x": tf.io.FixedLenFeature([], tf.float32)},
    )
    assert parsed["x"].numpy().tolist() == [0.5, 0.25]


def test_the_warning_names_a_schema_that_fits_lists(tmp_path):
    """Of numbers and lists in one row, the schema of the warning stores both as lists."""
    row = {"x": np.float64(0.5), "v": np.array([0.25, 1.0])}
    with pytest.warns(UserWarning, match="float64") as told, ferry.writer(tmp_path / "a") as out:
        out.write(row)
    text = str(told[0].message).partition("schema=")[2].partition("}")[0]
    schema = ast.literal_eval(text + "}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ferry.writer(tmp_path / "b.tfrecord", schema=schema) as out:
            out.write(row)
    found = ferry.open(tmp_path / "b.tfrecord")[0]
    assert (found["x"], found["v"].tolist()) == (0.5, [0.25, 1.0])


def test_large_integers_are_not_cut(tmp_path):
    """A uint64 that no int64 holds stays what it is."""
    path = tmp_path / "x.tfrecord"
    with pytest.warns(UserWarning, match="'n' is uint64"), ferry.writer(path) as out:
        out.write({"n": np.uint64(2**64 - 1)})
    assert ferry.load(path)["n"].tolist() == [2**64 - 1]


def test_records_that_are_bytes_already(tf, tmp_path):
    """A `tf.train.Example` and a tensor of one string are records as they are; numbers are not."""
    path = tmp_path / "x.tfrecord"
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.5]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    data = example.SerializeToString()
    with ferry.writer(path) as out:
        out.write(example)
        out.write(tf.constant(data))
        out.write(np.array(data, object))
        for other in (tf.ones(3), np.ones(3), tf.constant([data, data]), np.array(5, object), 5):
            with pytest.raises(ferry.UnsupportedError, match="expected a dict of features"):
                out.write(other)

    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path))] == [data] * 3
    assert ferry.load(path)["x"].tolist() == [1.5] * 3


def test_a_dataset_of_records(tf, tmp_path):
    """Serialized Examples from tf.data become records, and no columns of a table."""
    records = [b"a", b"", b"c" * 100] * 700
    dataset = tf.data.Dataset.from_tensor_slices(records)

    ferry.save(dataset, tmp_path / "x.tfrecord")

    found = [record.numpy() for record in tf.data.TFRecordDataset(str(tmp_path / "x.tfrecord"))]
    assert found == records
    with pytest.raises(ferry.UnsupportedError, match="a row is bytes, expected a dict of columns"):
        ferry.save(dataset, tmp_path / "x.parquet")


def test_messages_are_read(tf):
    """`loads` takes a TensorProto as it is, and says that an array is no bytes."""
    assert ferry.loads(tf.make_tensor_proto([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(
        ferry.OptionError, match=r"(?s)an array of float32 and shape \[2\].*already"
    ):
        ferry.loads(np.ones(2, np.float32))


def test_rows_that_are_no_dicts(tmp_path):
    """Rows of pandas, named tuples and dataclasses lead to the call that makes a dict of them."""
    import pandas

    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    made = make_dataclass("Made", ["a", "b"])
    rows = {
        r"row\.to_dict\(\); write_batch": frame.iloc[0],
        r"row\._asdict\(\)": next(frame.itertuples()),
        r"dataclasses\.asdict\(row\)": made(1, "x"),
        r"write_batch\(frame\) writes all": frame,
    }
    for name in ("x.tfrecord", "x.parquet"):
        with ferry.writer(tmp_path / name, durable=False) as out:
            for hint, row in rows.items():
                with pytest.raises(ferry.UnsupportedError, match=rf"expected a dict.*\n.*{hint}"):
                    out.write(row)
            out.write(frame.iloc[0].to_dict())
            out.write(next(frame.itertuples(index=False))._asdict())
            out.write(asdict(made(1, "x")))
        assert [row["a"] for row in ferry.open(tmp_path / name)] == [1, 1, 1]


def test_a_dict_in_a_row(tmp_path):
    """The error says how nested features are named."""
    with ferry.writer(tmp_path / "x.tfrecord", durable=False) as out:
        with pytest.raises(ferry.UnsupportedError, match=r"'d'.*\n.*as in 'image/height'"):
            out.write({"d": {"x": 1}})
        out.write({"d/x": 1})


def test_specs_of_a_dataset_are_a_schema(tf, tmp_path):
    """`dataset.element_spec` says what rows are, as a spec for `tf.io.parse_example` does."""
    columns = {"x": np.ones((3, 2), np.float32), "n": np.arange(3), "t": np.ones((3, 2, 2))}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    ferry.save(dataset, tmp_path / "x.tfrecord")

    found = ferry.load(tmp_path / "x.tfrecord", schema=dataset.element_spec)

    assert {name: column.shape for name, column in found.items()} == {
        "x": (3, 2),
        "n": (3,),
        "t": (3, 2, 2),
    }
    with pytest.raises(ferry.FormatError, match="no rank"):
        ferry.load(tmp_path / "x.tfrecord", schema={"x": tf.TensorSpec(None)})


def test_compression_of_what_is_read(tmp_path):
    """TensorFlow's readers have to be told the compression; here the bytes say it."""
    ferry.save({"x": np.arange(3)}, tmp_path / "x.tfrecord.gz")

    for name in ("compression", "compression_type"):
        with pytest.raises(ferry.OptionError, match="leave it out: the bytes say"):
            ferry.open(tmp_path / "x.tfrecord.gz", **{name: "GZIP"})
