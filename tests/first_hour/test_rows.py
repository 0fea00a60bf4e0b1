"""Datasets, generators and lists of dicts into every format of rows, typed as people type it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tensorferry as ferry
from tensorferry.errors import UnsupportedError

NAMES = ["x.tfrecord", "x.parquet", "x.arrow", "x.csv", "x.jsonl"]


@pytest.mark.parametrize("name", NAMES)
def test_list_of_dicts(name, tmp_path, monkeypatch):
    """`save([{"id": 1}, ...], name)`: each dict is a row."""
    monkeypatch.chdir(tmp_path)
    ferry.save([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], name)

    rows = ferry.open(name)
    assert [(row["id"], row["text"]) for row in rows] == [(1, b"a"), (2, b"b")]
    if name == "x.parquet":
        assert pd.read_parquet(name).to_dict("records") == [
            {"id": 1, "text": "a"},
            {"id": 2, "text": "b"},
        ]


@pytest.mark.parametrize("name", NAMES)
def test_dict_of_lists(name, tmp_path, monkeypatch):
    """`save({"id": [1, 2], "text": ["a", "b"]}, name)`: each list is a column."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"id": [1, 2], "text": ["a", "b"], "x": np.float32([0.5, 1.5])}, name)

    rows = ferry.open(name)
    assert [(row["id"], row["text"], row["x"]) for row in rows] == [(1, b"a", 0.5), (2, b"b", 1.5)]
    assert ferry.count(name) == 2


def test_lists_that_are_no_table(tmp_path, monkeypatch):
    """Lists of other lengths or of mixed values are a structure, which comes back as it was."""
    monkeypatch.chdir(tmp_path)
    for value in (
        {"id": [1, 2], "text": ["a", "b", "c"]},
        {"id": [1, 2], "text": ["a", 2]},
        {"text": ["a", "b"], "options": {"beam": 4}},
        {"text": []},
    ):
        ferry.save(value, "x.parquet")
        assert ferry.load("x.parquet") == value


@pytest.mark.parametrize("name", NAMES)
def test_generator_of_dicts(name, tmp_path, monkeypatch):
    """`save(generator, name)`: rows are written as they come, and an error leaves no file."""
    monkeypatch.chdir(tmp_path)
    ferry.save(({"id": number, "x": number / 2} for number in range(3000)), name)

    rows = ferry.open(name)
    assert len(rows) == 3000
    assert rows["id"].tolist() == list(range(3000))
    assert rows["x"].tolist()[-1] == 2999 / 2

    def failing():
        yield {"id": 1}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        ferry.save(failing(), f"y{name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_generator_of_frames(tmp_path, monkeypatch):
    """A generator of DataFrames, as `pd.read_csv(..., chunksize=)` gives them, is rows, too."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"id": range(10), "text": ["a"] * 10}).to_csv("x.csv", index=False)

    for name in ("x.parquet", "x.tfrecord"):
        ferry.save(pd.read_csv("x.csv", chunksize=3), name)
        assert ferry.open(name)["id"].tolist() == list(range(10))


def test_a_generator_of_tensors_stays_one(tmp_path, monkeypatch):
    """Pairs of a name and a tensor are tensors, in formats of rows that hold tensors as well."""
    monkeypatch.chdir(tmp_path)
    ferry.save(iter([("a", np.zeros(2)), ("b", np.ones(3))]), "x.parquet")
    assert sorted(ferry.load("x.parquet")) == ["a", "b"]
    ferry.save(iter([]), "x.tfrecord")
    assert len(ferry.open("x.tfrecord")) == 0
    ferry.save([{"a": {"b": np.zeros(2)}}], "x.arrow")
    assert ferry.load("x.arrow")[0]["a"]["b"].tolist() == [0, 0]
    ferry.save((bytes([n]) for n in range(3)), "x.tfrecord")
    assert list(ferry.open("x.tfrecord", raw=True)) == [b"\0", b"\1", b"\2"]


@pytest.mark.parametrize("name", NAMES)
def test_dataset(tf, name, tmp_path, monkeypatch):
    """`save(dataset, name)`: TensorFlow's dataset of dicts, element by element."""
    monkeypatch.chdir(tmp_path)
    dataset = tf.data.Dataset.from_tensor_slices(
        {"id": tf.range(2500, dtype=tf.int64), "text": tf.strings.as_string(tf.range(2500))}
    )

    ferry.save(dataset, name)

    rows = ferry.open(name)
    assert rows["id"].tolist() == list(range(2500))
    assert [int(row["text"]) for row in rows.take([0, 7, 2499])] == [0, 7, 2499]
    if name == "x.tfrecord":
        spec = {
            "id": tf.io.FixedLenFeature((), tf.int64),
            "text": tf.io.FixedLenFeature((), tf.string),
        }
        read = tf.data.TFRecordDataset(name).map(lambda one: tf.io.parse_single_example(one, spec))
        for ours, theirs in zip(read.as_numpy_iterator(), dataset.as_numpy_iterator(), strict=True):
            assert ours == theirs


def test_dataset_of_other_shapes(tf, tmp_path, monkeypatch):
    """Elements of different lengths, ragged ones, and those that have no names."""
    monkeypatch.chdir(tmp_path)
    words = tf.ragged.constant([["a", "b"], [], ["c"]])
    dataset = tf.data.Dataset.from_tensor_slices({"words": words, "x": tf.zeros((3, 2, 2))})
    for name in ("x.tfrecord", "x.parquet"):
        ferry.save(dataset, name)
        rows = list(ferry.open(name))
        assert [row["words"].tolist() for row in rows] == [[b"a", b"b"], [], [b"c"]]
        assert rows[0]["x"].shape == (2, 2)
    pairs = tf.data.Dataset.from_tensor_slices((tf.zeros(3), tf.zeros(3)))
    with pytest.raises(UnsupportedError, match=r"(?s)a tuple of 2.*dataset.map\(lambda x, y"):
        ferry.save(pairs, "y.tfrecord")


def test_streamed(tmp_path, monkeypatch):
    """A generator of more rows than fit is written with a few of them in memory."""
    monkeypatch.chdir(tmp_path)
    program = """
import resource
import numpy as np
import tensorferry as ferry
import tensorferry.files.save, pyarrow, pyarrow.parquet

def rows(number):
    for _ in range(number):
        yield {"x": np.random.default_rng(0).random(128 * 1024)}

for name in ("x.tfrecord", "x.parquet", "x.arrow"):
    ferry.save(rows(8), name)
    started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ferry.save(rows(150), name)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - started)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert all(int(line) < 90_000 for line in told.stdout.split()), told.stdout  # of 150 MB
