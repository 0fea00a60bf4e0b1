"""Records: files opened as rows, columns and bytes, beside tf.data."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CORPUS
from strategies import same

import tensorferry as ferry
from tensorferry.formats.tfrecord import index as indexes
from tensorferry.rows.schema import Feature


def write(path, rows, **options):
    """A file of rows."""
    with ferry.writer(path, durable=False, **options) as out:
        for row in rows:
            out.write(row)
    return str(path)


def rows_of(count, start=0):
    """Rows with a scalar, a ragged, a fixed, a string, a missing and a tensor column."""
    return [
        {
            "id": number,
            "tokens": list(range(number % 4)),
            "emb": np.full(3, number, np.float32),
            "text": f"row {number}",
            "maybe": number if number % 3 else None,
            "image": np.full((2, 2), number % 256, np.uint8),
        }
        for number in range(start, start + count)
    ]


@pytest.fixture
def path(tmp_path):
    """A file of 100 rows."""
    return write(tmp_path / "a.tfrecord", rows_of(100))


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


# Streams


class Pipe(io.BytesIO):
    """No io.BytesIO itself, which would be taken as a buffer."""


@pytest.mark.parametrize("compression", [None, "gzip", "zlib", "zstd"])
def test_file_objects(tmp_path, compression):
    """An open file, a buffer in memory and a stream that can be read once."""
    path = write(tmp_path / "a", rows_of(3000), compression=compression)
    with open(path, "rb") as file:
        data = file.read()
        file.seek(0)
        for source in (file, io.BytesIO(data), Pipe(data)):
            with ferry.open(source) as records:
                assert [len(batch["id"]) for batch in records.batches(1300)] == [1300, 1300, 400]
                assert len(list(records)) == (3000 if not isinstance(source, Pipe) else 0)
    records = ferry.open(Pipe(data))
    assert records.schema["id"].kind == "int64"
    assert [row["id"] for row in records] == list(range(3000))


def test_gzip_file_object(path):
    """A file object is read through its own read method."""
    with gzip.open(path + ".gz", "wb") as out, open(path, "rb") as file:
        out.write(file.read())
    with gzip.open(path + ".gz") as source:
        assert len(list(ferry.open(source))) == 100


def test_fifo(path, tmp_path):
    """A named pipe is opened once: inferring the schema loses no record."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data = Path(path).read_bytes()
    writer = threading.Thread(target=fifo.write_bytes, args=(data,))
    writer.start()
    with ferry.open([path, fifo]) as records:
        assert [row["id"] for row in records] == [*range(100)] * 2
    writer.join()


def test_standard_input(path):
    """The standard input is "-", a pipe or a file."""
    code = "import tensorferry as f; print(sum(len(b['id']) for b in f.open('-').batches(7)))"
    with open(path, "rb") as file:
        for source in (subprocess.PIPE, file):
            options = {"input": file.read()} if source is subprocess.PIPE else {"stdin": file}
            result = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, **options
            )
            assert int(result.stdout) == 100
            file.seek(0)


def test_streams_know_their_limits(path):
    """A stream has no length, no random access, no splits, no pickling and no second pass."""
    records = ferry.open(Pipe(Path(path).read_bytes()), infer="all")
    assert records.count() is None
    with pytest.raises(TypeError, match="no length"):
        len(records)
    with pytest.raises(ferry.UnsupportedError, match="in order"):
        records[0]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(records)
    with pytest.raises(ferry.UnsupportedError, match="one reader"):
        records.splits(2)
    assert len(list(records)) == 100
    assert list(records) == []


def test_bounded_memory(tmp_path):
    """Large rows in small batches: what is in memory does not grow with the file."""
    path = tmp_path / "large.tfrecord.gz"
    image = np.zeros(1 << 20, np.uint8)
    with ferry.writer(path, durable=False) as out:
        for number in range(150):
            out.write({"id": number, "image": image})
    for read in (lambda records: records.batches(2), iter):
        tracemalloc.start()
        with ferry.open(path, threads=2) as records:
            assert sum(1 for _ in read(records)) >= 75
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The whole file would take 150.
        assert peak < 100 << 20


# The schema


def test_types_are_of_all_first_records(tmp_path):
    """One value in the first row and several in the second: a ragged column for both."""
    rows = [{"x": [1]}, {"x": [1, 2]}, {"x": []}]
    records = ferry.open(write(tmp_path / "a", rows))

    assert records.schema["x"].shape == (None,)
    assert [batch["x"].to_list() for batch in records.batches(1)] == [[[1]], [[1, 2]], [[]]]


def test_a_row_that_breaks_the_inferred_schema(tmp_path):
    """What comes after the records that were looked at: named, with three ways out."""
    rows = [{"x": [1]}] * 1500
    one = write(tmp_path / "a.tfrecord", rows)
    two = write(tmp_path / "b.tfrecord", [{"x": [1]}, {"x": [1, 2]}, {"x": [3]}])

    with pytest.raises(ferry.FormatError, match="record 1: feature 'x' has 2 values") as caught:
        list(ferry.open([one, two]))
    assert caught.value.path == two
    assert "infer='all'" in caught.value.hint
    assert sum(len(b["x"]) for b in ferry.open([one, two], infer="all").batches()) == 1503
    schema = {"x": ("int64", (None,))}
    assert sum(len(b["x"]) for b in ferry.open([one, two], schema=schema).batches()) == 1503
    with ferry.open([one, two], on_error="skip", threads=2) as records:
        assert sum(len(batch["x"]) for batch in records.batches(100)) == 1502
        assert [(one.path, one.record) for one in records.damages] == [(two, 1)]


def test_infer_all_looks_at_all_tensors(tmp_path):
    """A shape that changes late is an open one with infer="all", and an error without."""
    rows = [{"x": np.zeros((2, 2))}] * 1200 + [{"x": np.zeros((3, 2))}]
    path = write(tmp_path / "a.tfrecord", rows)

    assert ferry.open(path, infer="all").schema["x"].shape == (None, 2)
    assert len(list(ferry.open(path, infer="all"))) == 1201
    with pytest.raises(ferry.FormatError, match=r"record 1200: .* shape \[3, 2\]"):
        list(ferry.open(path))


def test_schema_beside_the_data(path):
    """A schema in a file beside the data counts, for what it names."""
    feature = Feature("tokens", "int64", (None,), "int64")
    tree = ferry.open(path, schema={"tokens": feature}).schema.to_json()
    Path(path + ".schema.json").write_text(json.dumps(tree))

    assert list(ferry.open(path).schema) == ["tokens"]
    assert next(ferry.open(path).batches(4))["tokens"].to_list() == [[], [0], [0, 1], [0, 1, 2]]


def test_errors_come_behind_the_batches_before(tmp_path):
    """One thread or two: the batches before damage are given, then the error."""
    path = write(tmp_path / "a.tfrecord", rows_of(5000))
    data = bytearray(Path(path).read_bytes())
    with ferry.open(path) as records:
        place = records._access.indexes()[0][4000, 0] - 12
    data[place] ^= 1
    Path(path).write_bytes(data)

    for threads in (1, 2):
        batches = ferry.open(path, threads=threads).batches(100)
        assert sum(len(next(batches)["id"]) for _ in range(40)) == 4000
        with pytest.raises(ferry.ChecksumError, match="record 4000 is corrupt"):
            next(batches)


# Damage


def test_skip_and_repair(path, tmp_path):
    """Damages are told once however often the file is read; repair writes the others."""
    with ferry.open(path) as records:
        places = records._access.indexes()[0][:, 0].tolist()
    data = bytearray(Path(path).read_bytes())
    data[places[10]] ^= 1
    data[places[50] - 12] ^= 1
    Path(path).write_bytes(data)
    expected = [number for number in range(100) if number not in (10, 50)]

    with ferry.open(path, on_error="skip") as records:
        for _ in range(2):
            assert [row["id"] for row in records] == expected
        assert len(records) == 98
        assert records[10]["id"] == 11
        assert records[-1]["id"] == 99
        assert [(one.record, one.offset) for one in records.damages] == [
            (10, places[10] - 12),
            (50, places[50] - 12),
        ]
    with pytest.raises(ferry.ChecksumError, match="record 10 is corrupt"):
        next(ferry.open(path).batches(20))
    with pytest.raises(ferry.ChecksumError, match="record 50 is corrupt"):
        len(ferry.open(path))

    target = tmp_path / "repaired.tfrecord"
    count, damages = ferry.repair(path, target)
    assert (count, len(damages)) == (98, 2)
    assert [row["id"] for row in ferry.open(target)] == expected
    assert ferry.repair(target, target) == (98, [])
    with ferry.open(path, on_error="keep", raw=True) as records:
        assert len(records) == len(list(records)) == 99
        assert records[10] == list(records)[10]


def test_nothing_to_repair(tmp_path):
    """A file without a whole record leaves no target."""
    (tmp_path / "a").write_bytes(b"nothing of ours")
    with pytest.raises(ferry.FormatError, match="no whole record"):
        ferry.repair(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


# Random access


def test_random_access(path, tmp_path):
    """One record, from either end, slices, lists and arrays, over several files."""
    other = write(tmp_path / "b.tfrecord", rows_of(20, 100))
    with ferry.open([path, other]) as records:
        assert len(records) == 120
        for number in (0, 99, 100, 119):
            assert records[number]["id"] == records[number - 120]["id"] == number
        assert records[np.int32(7)]["id"] == 7
        assert [row["id"] for row in records[98:103]] == [98, 99, 100, 101, 102]
        assert [row["id"] for row in records[::-40]] == [119, 79, 39]
        assert [row["id"] for row in records[[3, 110, 3]]] == [3, 110, 3]
        assert [row["id"] for row in records.__getitems__(np.array([5, -1]))] == [5, 119]
        assert records[[]] == records[5:5] == []
        for number in (120, -121):
            with pytest.raises(IndexError, match="of 120"):
                records[number]
        assert records["id"].tolist() == list(range(120))
        with pytest.raises(ferry.FerryError, match="no column is called 'ids'"):
            records["ids"]
        value = records[5]["image"]
    assert value[0, 0] == 5


def test_random_access_verifies(path):
    """A record is checked when it is asked for, others are not."""
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    Path(path).write_bytes(data)
    with ferry.open(path, schema={"id": "int64"}) as records:
        assert records[0]["id"] == 0
        with pytest.raises(ferry.ChecksumError, match="record 99 is corrupt"):
            records[99]
    assert ferry.open(path, verify=False)[99]["id"] == 99


def test_no_random_access_to_compressed_files(tmp_path):
    """A compressed file has a length, and records in order only."""
    path = write(tmp_path / "a.tfrecord.gz", rows_of(10))
    with ferry.open(path) as records:
        assert len(records) == 10
        with pytest.raises(ferry.UnsupportedError, match="gzip can only be read in order"):
            records[3]


def first_id(given):
    """Works in another process."""
    records, number = given
    return int(records[number]["id"])


def test_pickling(path):
    """Records go to workers, which open the files anew."""
    records = ferry.open(path)
    assert records[3]["id"] == 3
    copy = pickle.loads(pickle.dumps(records))
    assert copy[5]["id"] == 5
    assert len(copy) == 100
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(first_id, [(records, 7), (records, -1)]) == [7, 99]


def test_index_files(path, monkeypatch):
    """An index is written beside each file and used instead of a scan; a stale one is not."""
    with ferry.open(path) as records:
        assert records.write_index() == [path + ".idx"]
    first = Path(path + ".idx").read_text().splitlines()[0].split()
    assert first[0] == "0"

    with monkeypatch.context() as patch:
        patch.setattr(indexes, "build", None)
        with ferry.open(path) as records:
            assert len(records) == 100
            assert records[42]["id"] == 42
    write(path, rows_of(50))
    os.utime(path + ".idx")
    assert len(ferry.open(path)) == 50
    assert ferry.open(os.path.dirname(path)).paths == [path]


def test_index_by_the_definition(path):
    """Each line of an index is the offset and length of a frame, as DALI's script writes."""
    with ferry.open(path, raw=True) as records:
        records.write_index()
        expected = list(records)
    with open(path, "rb") as file:
        for line, record in zip(
            Path(path + ".idx").read_text().splitlines(), expected, strict=True
        ):
            offset, length = map(int, line.split())
            file.seek(offset)
            assert ferry.loads(file.read(length), format="tfrecord") == [record]


# Files of others


def corpus_files():
    """TFRecord files that others wrote."""
    names = []
    for folder in ("tfx", "tfds", "tensorflow"):
        for file in sorted((CORPUS / folder).rglob("*")):
            named = "record" in file.name or "transformed_examples" in file.name
            if named and file.is_file() and file.suffix not in (".json", ".pbtxt", ".txt", ".py"):
                names.append(file)
    return names


def values_of(feature):
    """The values of a tf.train.Feature."""
    kind = feature.WhichOneof("kind")
    return [] if kind is None else list(getattr(feature, kind).value)


def flatten(value):
    """The values of a row of ours, as a list."""
    if value is None:
        return []
    if isinstance(value, ferry.RaggedTensor):
        value = value.flat_values
    return np.asarray(value, object if isinstance(value, bytes) else None).reshape(-1).tolist()


@pytest.mark.parametrize("file", corpus_files(), ids=lambda file: file.name)
def test_corpus(tf, file):
    """Others' files: the records are tf.data's, the values are tf.train.Example's."""
    head = file.read_bytes()[:2]
    kind = "GZIP" if head == b"\x1f\x8b" else ""
    expected = list(tf.data.TFRecordDataset(str(file), kind).as_numpy_iterator())
    with ferry.open(file, raw=True) as records:
        assert list(records) == expected
    if "vocabulary" in file.name:
        return
    sequences = "sequence" in str(file)
    message = tf.train.SequenceExample if sequences else tf.train.Example
    # Serialized tensors stay strings here: the schema is that of the lists.
    with ferry.open(file, infer="all") as found:
        plain = [
            Feature(f.name, "bytes", (), "string", optional=f.optional)
            if f.encoding == "tensor"
            else f
            for f in found.schema.values()
        ]
    schema = {feature.name: feature for feature in plain}
    with ferry.open(file, schema=schema) as records:
        count = 0
        for row, record in zip(records, expected, strict=True):
            parsed = message.FromString(record)
            features = parsed.context.feature if sequences else parsed.features.feature
            for name, feature in features.items():
                if values_of(feature):
                    np.testing.assert_array_equal(flatten(row[name]), values_of(feature))
            if sequences:
                for name, steps in parsed.feature_lists.feature_list.items():
                    flat = [value for step in steps.feature for value in values_of(step)]
                    np.testing.assert_array_equal(flatten(row[name]), flat)
            count += 1
        assert count == len(expected)


def test_verify(tmp_path):
    """Every checksum is checked, in all files; a damaged one is an error that names it."""
    with ferry.writer(tmp_path / "data@3") as out:
        for number in range(100):
            out.write(b"record %d" % number)

    assert ferry.open(tmp_path / "data@3").verify() == 100
    damaged = tmp_path / "data-00001-of-00003"
    content = bytearray(damaged.read_bytes())
    content[-6] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ferry.ChecksumError) as caught:
        ferry.open(tmp_path / "data@3").verify()
    assert caught.value.path == str(damaged)


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the indexes of files are kept, which are all large ones here."""
    monkeypatch.setattr(indexes, "REMEMBERED", 1)
    monkeypatch.delenv("TENSORFERRY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tensorferry/indexes"


def write_numbers(path: Path, first: int) -> None:
    with ferry.writer(path, durable=False) as out:
        out.write_batch({"id": np.arange(first, first + 500)})


def test_a_large_file_is_scanned_once(
    tmp_path: Path, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a scan found is used by the next process, as long as the file is the same."""
    path = tmp_path / "a.tfrecord"
    write_numbers(path, 100)
    with ferry.open(path) as records:
        assert records[7]["id"] == 107
        known = records._access.indexes()[0].tolist()
    (kept,) = remembered.iterdir()
    assert kept.stat().st_size == 500 * 8

    scan = indexes.build
    scans: list[Any] = []
    monkeypatch.setattr(indexes, "build", lambda frames: scans.append(frames) or scan(frames))
    with ferry.open(path) as records:
        assert records[[499, 3]] == [{"id": 599}, {"id": 103}]
        assert records._access.indexes()[0].tolist() == known
    assert not scans
    write_numbers(path, 90_000)
    with ferry.open(path) as records:
        assert records[499]["id"] == 90_499
    assert len(scans) == 1


def test_kept_indexes_are_bounded(
    tmp_path: Path, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes take no more than `limits.cache`, and none are kept where the cache is off."""
    monkeypatch.setattr(ferry.limits, "cache", 9_000)  # room for two of them
    for number in range(4):
        write_numbers(tmp_path / f"{number}.tfrecord", number)
        with ferry.open(tmp_path / f"{number}.tfrecord") as records:
            assert records[7]["id"] == number + 7
    assert len(list(remembered.iterdir())) == 2
    assert remembered.stat().st_mode & 0o777 == 0o700

    monkeypatch.setenv("TENSORFERRY_CACHE", "")
    write_numbers(tmp_path / "x.tfrecord", 0)
    with ferry.open(tmp_path / "x.tfrecord") as records:
        assert records[7]["id"] == 7
    assert len(list(remembered.iterdir())) == 2


@pytest.mark.parametrize("harm", ["cut", "noise", "other", "link", "folder"])
def test_what_stands_in_the_place_of_a_kept_index_is_passed_over(
    tmp_path: Path, remembered: Path, harm: str
) -> None:
    path = tmp_path / "a.tfrecord"
    write_numbers(path, 100)
    with ferry.open(path) as records:
        records[0]
    (kept,) = remembered.iterdir()
    lengths = np.frombuffer(kept.read_bytes(), "<i8")
    kept.unlink()
    if harm == "link":
        (tmp_path / "elsewhere").write_bytes(lengths[::-1].tobytes())
        kept.symlink_to(tmp_path / "elsewhere")
    elif harm == "folder":
        kept.mkdir()
    elif harm == "cut":
        kept.write_bytes(lengths.tobytes()[:-3])
    elif harm == "noise":
        kept.write_bytes(np.random.default_rng(0).bytes(4000))
    else:
        kept.write_bytes(np.concatenate([lengths[250:] + 1, lengths[:250] - 1]).tobytes())
    with ferry.open(path) as records:
        assert [row["id"] for row in records[::50]] == list(range(100, 600, 50))
