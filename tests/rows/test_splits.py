"""Splits: parts of rows that can be read alone, together exactly the rows."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import pickle
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry import _native
from tensorferry.errors import ChecksumError, FormatError, UnsupportedError
from tensorferry.formats.tfrecord import splits as dividing
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.rows.splits import Part, deal
from tensorferry.storage.place import Place


def frames(records):
    """The bytes of a TFRecord file."""
    return _native.tfrecord_frame(records)


def raw(split):
    """The records of a split, as bytes."""
    with split.open() as rows:
        return list(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for many files, which each example writes anew."""
    return tmp_path_factory.mktemp("splits")


# Dealing parts


@given(st.lists(st.integers(0, 1000) | st.none(), max_size=30), st.integers(1, 40))
def test_deal(sizes, count):
    """Every part is dealt once, in order, into as many groups as there can be."""
    parts = [Part(Place(b""), first=number, nbytes=size) for number, size in enumerate(sizes)]

    groups = deal(parts, count)

    assert list(chain.from_iterable(groups)) == parts
    assert len(groups) == min(count, len(parts))
    assert all(groups)


def test_deal_evenly():
    """Groups are of about one size."""
    parts = [Part(Place(b""), nbytes=size) for size in (10, 1, 1, 8, 10, 5, 5)]

    assert [sum(part.nbytes for part in group) for group in deal(parts, 4)] == [10, 10, 10, 10]
    with pytest.raises(ValueError, match="0 splits, expected 1 or more"):
        deal(parts, 0)


# TFRecords


lengths = st.lists(st.integers(0, 50) | st.integers(0, 3000), max_size=25)


@settings(max_examples=80, deadline=None)
@given(st.lists(lengths, min_size=1, max_size=4), st.integers(1, 30))
def test_together_the_whole(folder, files, count):
    """The splits of files are exactly their records, in order, with known numbers and sizes."""
    paths, expected = [], []
    for number, sizes in enumerate(files):
        records = [b"%d-%d" % (number, n) + bytes(size) for n, size in enumerate(sizes)]
        path = folder / f"{number}.tfrecord"
        path.write_bytes(frames(records))
        paths.append(path)
        expected += records

    with Records(paths, raw=True) as rows:
        splits = rows.splits(count)

    found = [raw(split) for split in splits]
    assert list(chain.from_iterable(found)) == expected
    assert [split.number for split in splits] == list(range(len(splits)))
    assert len(splits) <= count
    assert sum(split.nbytes for split in splits) == sum(path.stat().st_size for path in paths)
    for split, records in zip(splits, found, strict=True):
        assert split.rows in (None, len(records))
        with split.open() as part:
            assert len(part) == len(records)
            assert part[:] == records


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30), st.integers(1, 40))
def test_as_many_splits_as_records(folder, sizes, count):
    """One file has as many splits as were asked for, or as it has records; all know their rows."""
    path = folder / "one.tfrecord"
    path.write_bytes(frames([bytes(size) for size in sizes]))

    splits = Records(path, raw=True).splits(count)

    assert len(splits) == min(count, len(sizes))
    if len(splits) > 1:
        assert sum(split.rows for split in splits) == len(sizes)


def test_splits_are_of_about_one_size(tmp_path):
    """Files are cut only where that makes the splits more even."""
    for number, count in enumerate((100, 100, 400)):
        (tmp_path / f"{number}.tfrecord").write_bytes(frames([bytes(84)] * count))
    paths = sorted(tmp_path.iterdir())

    splits = Records(paths, raw=True).splits(6)

    assert [split.nbytes for split in splits] == [10_000] * 6
    assert [split.files for split in splits] == [
        [str(paths[max(0, n)])] for n in (0, 1, 2, 2, 2, 2)
    ]
    (one,) = Records(paths, raw=True).splits(1)
    assert [(part.start, part.stop) for part in one.parts] == [(None, None)] * 3


def test_large_files_are_walked_once(tmp_path, monkeypatch):
    """Records of a large file are not counted before it is cut."""
    records = [b"%d" % n + bytes(n % 7 * 100) for n in range(1000)]
    (tmp_path / "a").write_bytes(frames(records))
    monkeypatch.setattr(dividing, "COUNTED", 1000)

    splits = Records(tmp_path / "a", raw=True).splits(7)

    assert len(splits) == 7
    assert [split.rows for split in splits] == [len(raw(split)) for split in splits]
    assert list(chain.from_iterable(map(raw, splits))) == records


def ids(split):
    """Works in another process: the ids in a split."""
    with split.open() as rows:
        return [int(number) for batch in rows.batches(7) for number in batch["id"]]


@pytest.fixture
def examples(tmp_path):
    """A file of 1,000 rows, of which only the last have more than one token."""
    with RecordWriter(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(1000):
            out.write({"id": number, "tokens": [0] if number < 900 else [0, 1]})
    return str(tmp_path / "a.tfrecord")


def test_in_another_process(examples):
    """Splits are pickled, and opened by a process that knows nothing else."""
    splits = pickle.loads(pickle.dumps(Records(examples).splits(3)))

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert [*chain.from_iterable(pool.map(ids, splits))] == list(range(1000))


def test_splits_have_the_schema_of_all(examples):
    """What the whole file holds is looked at once: columns are alike in all splits."""
    splits = Records(examples, columns=["tokens"]).splits(10)

    for split in splits:
        with split.open() as rows:
            assert rows.columns == ["tokens"]
            assert rows.schema["tokens"].shape == (None,)
            assert rows.value()["tokens"].shape == (split.rows, None)


def test_splits_of_splits(examples):
    """A split can be divided again."""
    first, second = Records(examples).splits(2)
    with second.open() as rows:
        again = rows.splits(3)
        assert rows.count() == second.rows

    assert ids(first) + [number for part in again for number in ids(part)] == list(range(1000))
    assert again[0].parts[0].first == first.rows


def test_records_are_numbered_as_in_the_file(examples):
    """An error of a split names the record by its number in the file, and its byte there."""
    data = bytearray(Path(examples).read_bytes())
    with Records(examples) as rows:
        place = int(rows._access.indexes()[0][777, 0])
    data[place] ^= 1
    Path(examples).write_bytes(data)

    split = Records(examples, schema={"id": "int64"}).splits(4)[3]
    with split.open() as rows:
        with pytest.raises(ChecksumError, match="record 777 is corrupt") as caught:
            list(rows)
        assert caught.value.offset == place - 12
        with pytest.raises(ChecksumError, match="record 777 is corrupt"):
            rows[777 - split.parts[0].first]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_damaged_files(tmp_path, on_error):
    """What lies behind damage is one part: whoever reads it is told, or gets what is whole."""
    records = [b"%d" % n for n in range(100)]
    data = bytearray(frames(records))
    place = len(frames(records[:60]))
    data[place] ^= 1
    (tmp_path / "a").write_bytes(data)

    splits = Records(tmp_path / "a", raw=True, on_error=on_error).splits(5)

    if on_error == "skip":
        assert list(chain.from_iterable(map(raw, splits))) == records[:60] + records[61:]
        assert all(split.rows is None for split in splits)
    else:
        found = [record for split in splits[:-1] for record in raw(split)]
        assert found == records[: len(found)]
        assert splits[-1].rows is None
        with pytest.raises(ChecksumError, match="record 60 is corrupt"):
            raw(splits[-1])


def test_a_file_that_became_shorter(tmp_path):
    """A part that is no longer there is an error, and not fewer rows."""
    path = tmp_path / "a"
    path.write_bytes(frames([b"x"] * 100))
    first, last = Records(path, raw=True).splits(2)
    path.write_bytes(frames([b"x"] * 40))

    with pytest.raises(FormatError, match="divide"):
        raw(first)
    with pytest.raises(FormatError):
        raw(last)


def test_compressed_files_are_whole_parts(tmp_path):
    """A compressed file cannot be cut; its size is the stored one."""
    for number in range(3):
        records = [b"%d-%d" % (number, n) for n in range(100)]
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(frames(records)))
    paths = sorted(tmp_path.iterdir())

    splits = Records(paths, raw=True).splits(8)

    assert [split.files for split in splits] == [[str(path)] for path in paths]
    assert [split.nbytes for split in splits] == [path.stat().st_size for path in paths]
    assert [split.rows for split in splits] == [None] * 3
    assert [len(raw(split)) for split in splits] == [100] * 3


def test_no_splits_of_streams():
    """A stream has one reader."""

    class Pipe(io.BytesIO):
        """No io.BytesIO itself, which would be taken as a buffer."""

    with pytest.raises(UnsupportedError, match="one reader"):
        Records(Pipe(frames([b"x"]))).splits(2)


def test_bytes_in_memory_are_divided():
    """Bytes are files, too."""
    splits = Records(frames([b"%d" % n for n in range(10)]), raw=True).splits(3)

    assert [record for split in pickle.loads(pickle.dumps(splits)) for record in raw(split)] == [
        b"%d" % n for n in range(10)
    ]
    assert np.sum([split.rows for split in splits]) == 10


def test_cutting_in_pieces(tmp_path, monkeypatch):
    """Frames are walked over in pieces, whose pages are given back: the cuts are the same."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for size in [1, 3000, 20, 1, 500, 9000, 2] * 9:
            out.write(b"x" * size)

    def cuts():
        with ferry.open(path, raw=True) as rows:
            parts = [part for split in rows.splits(7) for part in split.parts]
        return [(part.start, part.stop, part.first, part.rows) for part in parts]

    whole = cuts()
    monkeypatch.setattr("tensorferry.formats.tfrecord.splits.PIECE", 1000)
    assert cuts() == whole
    assert len(whole) == 7
    path.write_bytes(path.read_bytes()[:-5])  # the end of the last record
    cut = cuts()
    monkeypatch.undo()
    assert cut == cuts()
