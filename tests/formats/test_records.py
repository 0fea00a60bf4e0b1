"""Records: files opened as rows, columns and bytes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from formats.records import rows_of, write
from strategies import same

import tensorferry as ferry


def check(columns, start, count):
    """Columns are those of `rows_of`."""
    numbers = list(range(start, start + count))
    assert columns["id"].tolist() == numbers
    assert columns["tokens"].to_list() == [list(range(number % 4)) for number in numbers]
    assert columns["emb"].tolist() == [[number] * 3 for number in numbers]
    assert columns["text"].tolist() == [f"row {number}".encode() for number in numbers]
    assert columns["maybe"].to_list() == [[number] if number % 3 else [] for number in numbers]
    assert columns["image"].shape == (count, 2, 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_batches(path, threads, size):
    """Batches of columns, exact and in order, with one thread or several."""
    with ferry.open(path, threads=threads) as records:
        batches = list(records.batches(size))

    for place, batch in enumerate(batches):
        check(batch, place * size, min(size, 100 - place * size))
    assert sum(len(batch["id"]) for batch in batches) == 100


@pytest.mark.parametrize("to", ["numpy", "arrow"])
def test_several_at_once_and_abandoned(tmp_path, to):
    """Streams of batches do not disturb each other, and any may be left midway."""
    path = write(tmp_path / "a.tfrecord", ({"id": number} for number in range(20_000)))
    left = [ferry.open(path, threads=3).batches(500, to=to) for _ in range(4)]
    for _ in range(3):
        for batches in left:
            next(batches)
    whole = zip(*(ferry.open(path, threads=3).batches(500, to=to) for _ in range(3)), strict=True)

    for start, same_batch in zip(range(0, 20_000, 500), whole, strict=True):
        for batch in same_batch:
            assert np.array_equal(batch["id"], range(start, start + 500))
        if left:
            left.pop().close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [64, 1024])
def test_batches_are_the_users_own(tmp_path, threads, rows):
    """What was given out stays as it is or as it was changed, while memory comes back and goes."""
    numbers = np.arange(16 * 1024).reshape(-1, 1) * np.ones(8, np.int64)
    lengths = 4 + np.arange(len(numbers)) % 8
    splits = np.concatenate([[0], np.cumsum(lengths)])
    path = str(tmp_path / "a.tfrecord")
    with ferry.writer(path, durable=False) as out:
        ragged = ferry.RaggedTensor(np.arange(splits[-1]), (splits,))
        floats = numbers.astype(np.float32)
        out.write_batch({"fixed": numbers, "floats": floats, "ragged": ragged})

    kept = []
    for turn in range(2):
        for number, batch in enumerate(ferry.open(path, threads=threads).batches(rows)):
            if number % 3 == turn:
                batch["fixed"] += 1
                kept.append((number * rows, batch))
    del batch

    assert len(kept) == len(numbers) // rows // 3 * 2 + (len(numbers) // rows % 3 > 0)
    for start, batch in kept:
        end = start + rows
        assert np.array_equal(batch["fixed"], numbers[start:end] + 1)
        assert np.array_equal(batch["floats"], floats[start:end])
        values = batch["ragged"].flat_values
        assert np.array_equal(values, np.arange(splits[start], splits[end]))


def test_a_process_forked_while_reading(tmp_path):
    """It can let go of what it inherited, and is told that it cannot go on with it."""
    path = write(tmp_path / "a.tfrecord", ({"id": number} for number in range(20_000)))
    code = f"""
import os, sys
import tensorferry as ferry
batches, others = (ferry.open({path!r}, threads=2).batches(500) for _ in range(2))
next(batches), next(others)
child = os.fork()
if child == 0:
    del others
    try:
        list(batches)
    except RuntimeError as error:
        sys.exit("open them in the new process" not in str(error))
    sys.exit(2)
assert sum(len(batch["id"]) for batch in batches) == 19_500
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )

    assert result.stdout == "0\n"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_batches_cross_files(tmp_path, threads, compression):
    """A batch goes over the ends of files, empty ones among them."""
    sizes = [5, 0, 1, 13, 2, 9]
    paths = [
        write(tmp_path / f"{n}.tfrecord", rows_of(size, sum(sizes[:n])), compression=compression)
        for n, size in enumerate(sizes)
    ]
    with ferry.open(paths, threads=threads) as records:
        batches = list(records.batches(8))
        assert [len(batch["id"]) for batch in batches] == [8, 8, 8, 6]
        for place, batch in enumerate(batches):
            check(batch, place * 8, min(8, 30 - place * 8))
        assert [len(batch["id"]) for batch in records.batches(8, drop_remainder=True)] == [8, 8, 8]
        assert len(records) == 30
        assert [row["id"] for row in records] == list(range(30))


def test_rows(path):
    """Iterating gives rows, None where a value is missing; again and again."""
    with ferry.open(path) as records:
        for _ in range(2):
            rows = list(records)
            assert [row["id"] for row in rows] == list(range(100))
    assert rows[0]["maybe"] is None
    assert rows[5]["maybe"] == 5
    assert rows[5]["text"] == b"row 5"
    assert same(rows[5]["tokens"], np.array([0]))
    assert same(rows[5]["image"], np.full((2, 2), 5, np.uint8))


def test_columns(path):
    """Only the columns asked for, in that order."""
    with ferry.open(path, columns=["text", "id"]) as records:
        assert list(next(records.batches(3))) == ["text", "id"]
        assert list(records[0]) == ["text", "id"]
    with pytest.raises(ferry.FerryError, match="no feature is called 'tex'") as caught:
        next(ferry.open(path, columns=["tex"]).batches(3))
    assert "'text'" in caught.value.hint


def test_rows_without_columns(tmp_path, path):
    """Records without features are rows all the same."""
    with ferry.open(write(tmp_path / "empty", [{}, {"a": None}])) as records:
        assert list(records) == [{}, {}]
        assert records[1] == {}
    assert list(ferry.open(path, columns=[])) == [{}] * 100


def test_raw(path):
    """The records' bytes, whatever they are."""
    with open(path, "rb") as file:
        expected = ferry.loads(file.read())
    with ferry.open(path, raw=True) as records:
        assert list(records) == expected
        assert [len(batch) for batch in records.batches(40)] == [40, 40, 20]
        assert records[3] == expected[3]
        assert records[-2:] == expected[-2:]


def test_to_tensorflow(tf, path):
    """Columns as TensorFlow's tensors."""
    batch = next(ferry.open(path, columns=["id", "tokens", "text"]).batches(3, to="tensorflow"))

    assert isinstance(batch["tokens"], tf.RaggedTensor)
    assert batch["id"].dtype == tf.int64
    assert batch["text"].numpy().tolist() == [b"row 0", b"row 1", b"row 2"]


def test_features_that_most_records_lack(tmp_path, monkeypatch):
    """A column has a place for each row: too many columns for a small file are refused."""
    rows = ({f"{row}-{one}": 1 for one in range(50)} for row in range(100))
    path = write(tmp_path / "wide.tfrecord", rows)

    with ferry.open(path) as records:
        assert len(records.schema) == 5000
        monkeypatch.setattr(ferry.limits, "memory", 1 << 20)
        for read in (
            lambda: next(records.batches(100)),
            lambda: records[list(range(100))],
            lambda: next(records.gathered([np.arange(100)])),
        ):
            with pytest.raises(ferry.LimitError, match="5000 columns of 100 rows"):
                read()
        assert len(next(records.batches(5))) == 5000
        present = [{name for name, value in row.items() if value is not None} for row in records]

    assert present == [{f"{row}-{one}" for one in range(50)} for row in range(100)]


@pytest.mark.parametrize("to", ["numpy", "tensorflow", "arrow"])
@pytest.mark.parametrize("columns", [["tokens", "id"], []])
def test_a_remainder_is_dropped_whatever_the_columns(tf, path, to, columns):
    """The number of rows counts, also without columns and for TensorFlow's ragged tensors."""
    with ferry.open(path, columns=columns) as records:
        assert len(list(records.batches(32, to=to, drop_remainder=True))) == 3
        assert len(list(records.batches(32, to=to))) == 4


def test_options_are_checked(path):
    """A wrong option is refused with those there are."""
    with pytest.raises(ValueError, match="expected raise, skip or keep"):
        ferry.open(path, on_error="ignore")
    with pytest.raises(ValueError, match="expected first or all"):
        ferry.open(path, infer="some")
    with pytest.raises(ValueError, match="expected 1 or more"):
        next(ferry.open(path).batches(0))
    with pytest.raises(FileNotFoundError):
        ferry.open(path + ".not")
