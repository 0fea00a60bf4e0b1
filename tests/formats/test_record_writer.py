"""Writing records: rows, columns and bytes, into one file or many, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry.formats.tfrecord import encoder as example_writer, writer as record_writer


def ids(path):
    """The column "id" of a file or several."""
    with ferry.open(path) as records:
        return [int(row["id"]) for row in records]


@pytest.mark.parametrize(
    ("compression", "theirs"), [(None, ""), ("gzip", "GZIP"), ("zlib", "ZLIB")]
)
def test_tensorflow_reads_it(tf, tmp_path, compression, theirs):
    """TFRecordDataset and parse_example read rows and columns as their own."""
    path = str(tmp_path / "a.tfrecord")
    with ferry.writer(path, compression=compression) as out:
        for number in range(600):
            out.write({"id": number, "x": [0.5] * (number % 3), "s": f"{number}"})
        out.write_batch(
            {
                "id": np.arange(600, 900),
                "x": ferry.RaggedTensor.from_rows([[0.5] * (n % 3) for n in range(600, 900)]),
                "s": [str(number) for number in range(600, 900)],
            }
        )
        assert out.count == 900
    spec = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.RaggedFeature(tf.float32),
        "s": tf.io.FixedLenFeature([], tf.string),
    }

    dataset = tf.data.TFRecordDataset(path, theirs).batch(900)
    (batch,) = [tf.io.parse_example(records, spec) for records in dataset]
    assert batch["id"].numpy().tolist() == list(range(900))
    assert batch["x"].to_list() == [[0.5] * (number % 3) for number in range(900)]
    assert batch["s"].numpy().tolist() == [str(number).encode() for number in range(900)]


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=50), max_size=10))
def test_bytes(tmp_path_factory, records):
    """Records of any other message are written as they are, in order with rows."""
    path = tmp_path_factory.mktemp("bytes") / "a.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for record in records:
            out.write(record)
            out.write(memoryview(bytearray(record)))
    with ferry.open(path, raw=True) as back:
        assert list(back) == [record for record in records for _ in range(2)]


def test_rows_and_bytes_in_turn(tmp_path):
    """What is written first stands first."""
    path = tmp_path / "a.tfrecord"
    with ferry.writer(path) as out:
        out.write(b"first")
        out.write({"id": 1})
        out.write_batch({"id": [2, 3]})
        out.write(b"last")
    with ferry.open(path, raw=True) as records:
        lines = list(records)
    assert (lines[0], lines[-1], len(lines)) == (b"first", b"last", 5)


def test_deterministic(tmp_path):
    """The same input gives the same bytes, compressed or not, in every run."""
    for compression in (None, "gzip", "zlib", "zstd"):
        written = []
        for name in ("a", "b"):
            with ferry.writer(tmp_path / name, compression=compression) as out:
                for number in range(1000):
                    out.write({"b": number, "a": [1.5], "c": "x"})
            written.append((tmp_path / name).read_bytes())
        assert written[0] == written[1]


@pytest.mark.parametrize("how", ["shards", "shorthand", "suffix behind"])
def test_shards(tf, tmp_path, how):
    """Rows go to shards in turn, columns in blocks; all of them are there, in known files."""
    name = {"shorthand": "a.tfrecord@3", "suffix behind": "a@3.tfrecord"}.get(how, "a.tfrecord")
    with ferry.writer(tmp_path / name, shards=3 if how == "shards" else None) as out:
        for number in range(7):
            out.write({"id": number})
        out.write_batch({"id": np.arange(7, 17)})
        paths = out.paths
    pattern = (
        "a-0000{}-of-00003.tfrecord" if how == "suffix behind" else "a.tfrecord-0000{}-of-00003"
    )

    assert [os.path.basename(path) for path in paths] == [pattern.format(n) for n in range(3)]
    assert sorted(os.listdir(tmp_path)) == [pattern.format(n) for n in range(3)]
    assert ids(paths[0]) == [0, 3, 6, 15, 16]
    assert sorted(ids(tmp_path)) == list(range(17))
    shorthand = tmp_path / ("a.tfrecord@3" if how == "shards" else name)
    assert sorted(ids(shorthand)) == list(range(17))
    assert len(list(tf.data.TFRecordDataset(paths))) == 17


def test_shards_twice(tmp_path):
    """Two numbers of shards that differ are refused, and nothing is left."""
    with pytest.raises(ferry.UnsupportedError, match="3 shards, asked for 4"):
        ferry.writer(tmp_path / "a@3", shards=4)
    for count in (0, -1):
        with pytest.raises(ferry.UnsupportedError, match="1 or more"):
            ferry.writer(tmp_path / "a", shards=count)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.tfrecord.gz", b"\x1f\x8b"),
        ("a.tfrecord.zst", b"\x28\xb5"),
        ("a.tfrecord.zlib", b"\x78"),
        ("a.tfrecord.gz@2", b"\x1f\x8b"),
        ("a@2.tfrecord.gz", b"\x1f\x8b"),
        ("a.tfrecord", b"\x0e\x00"),
    ],
)
def test_compression_by_suffix(tmp_path, name, start):
    """The suffix says how a file is compressed, also in front of a shard's number."""
    with ferry.writer(tmp_path / name) as out:
        out.write(b"fourteen bytes")
        out.write(b"fourteen bytes")
    for path in out.paths:
        assert Path(path).read_bytes().startswith(start)
    with ferry.open(out.paths, raw=True) as records:
        assert list(records) == [b"fourteen bytes"] * 2


def test_unknown_compression(tmp_path):
    """A compression there is none of is refused, and the old file stays."""
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ferry.UnsupportedError, match="snappy"):
        ferry.writer(tmp_path / "a", compression="snappy")
    with pytest.raises(ferry.UnsupportedError, match="level"):
        ferry.writer(tmp_path / "a", compression="gzip", level=99)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_opening_fails_half_way(tmp_path):
    """When one shard cannot be opened, those before it stay as they were."""
    old = tmp_path / "a-00000-of-00002"
    old.write_bytes(b"old")
    (tmp_path / "a-00001-of-00002").mkdir()
    with pytest.raises(OSError, match="directory"):
        ferry.writer(tmp_path / "a@2")
    assert old.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a-00000-of-00002", "a-00001-of-00002"]


@pytest.mark.parametrize("shards", [None, 2])
def test_an_exception_leaves_nothing(tmp_path, shards):
    """An exception in the block leaves the old files, or none."""
    with ferry.writer(tmp_path / "a", shards=shards) as out:
        out.write({"id": 1})
    old = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    for name in ("a", "b"):
        with pytest.raises(KeyError), ferry.writer(tmp_path / name, shards=shards) as out:
            for number in range(2000):
                out.write({"id": number})
            raise KeyError
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == old


def test_failing_at_the_end(tmp_path):
    """What is found out on closing only leaves nothing, too."""
    with (
        pytest.raises(ferry.UnsupportedError, match="nothing but empty lists"),
        ferry.writer(tmp_path / "a") as out,
    ):
        out.write({"x": []})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("shards", [None, 3])
def test_pieces_stay_in_order(tmp_path, monkeypatch, shards):
    """Columns are encoded in threads, many more pieces than there is memory for, in order."""
    monkeypatch.setattr(example_writer, "PIECE_BYTES", 5000)
    monkeypatch.setattr(example_writer, "THREADS", 3)
    with ferry.writer(tmp_path / "a", shards=shards, durable=False) as out:
        out.write_batch({"id": np.arange(20_000), "text": [f"row {n}" for n in range(20_000)]})
        assert out.count == 20_000
    (columns,) = ferry.open(out.paths).batches(20_000)
    assert (columns["id"] == np.arange(20_000)).all()
    assert columns["text"].tolist() == [f"row {n}".encode() for n in range(20_000)]


@pytest.mark.parametrize("piece", [0, 1, 40])
def test_a_piece_cannot_be_written(tmp_path, monkeypatch, piece):
    """An error in the middle of columns ends the threads and leaves nothing."""
    written = []

    def write(self, data):
        if len(written) == piece:
            raise OSError("no space left")
        written.append(len(data))

    monkeypatch.setattr(example_writer, "PIECE_BYTES", 1000)
    monkeypatch.setattr(record_writer.Shard, "write", write)
    with (
        pytest.raises(OSError, match="no space left"),
        ferry.writer(tmp_path / "a", durable=False) as out,
    ):
        out.write_batch({"id": np.arange(20_000)})
    assert len(written) == piece
    assert list(tmp_path.iterdir()) == []


def test_a_refused_row_is_left_out(tmp_path):
    """The error comes from the write that it is about, and the others go on."""
    with ferry.writer(tmp_path / "a") as out:
        out.write({"id": 1})
        for row in ({"id": "text"}, {"id": {}}, [1], 5):
            with pytest.raises(ferry.FerryError):
                out.write(row)
        with pytest.raises(ferry.FormatError):
            out.write_batch({"id": [1.5]})
        out.write({"id": 2})
        assert out.count == 2
    assert ids(tmp_path / "a") == [1, 2]


def test_writing_after_the_end(tmp_path):
    """A closed writer takes nothing more; closing twice is fine."""
    out = ferry.writer(tmp_path / "a")
    out.write({"id": 1})
    out.close()
    out.close()
    for write in (lambda: out.write({"id": 2}), lambda: out.write(b"x"), out.flush):
        with pytest.raises(ValueError, match="closed"):
            write()
    with pytest.raises(ValueError, match="closed"):
        out.write_batch({"id": [2]})
    assert ids(tmp_path / "a") == [1]


def test_rows_are_written_as_they_were(tmp_path):
    """A buffer that the caller uses again changes nothing that was written."""
    array = np.zeros(3, np.float32)
    with ferry.writer(tmp_path / "a") as out:
        for number in range(1000):
            array[:] = number
            out.write({"id": number, "x": array})
    with ferry.open(tmp_path / "a") as records:
        assert all((row["x"] == row["id"]).all() for row in records)


def test_large_rows_do_not_pile_up(tmp_path, monkeypatch):
    """Rows are encoded by their size, not only by their number."""
    flushed = []
    monkeypatch.setattr(record_writer.Shard, "write", lambda self, data: flushed.append(len(data)))
    with ferry.writer(tmp_path / "a") as out:
        for _ in range(10):
            out.write({"x": np.zeros(2 << 20, np.uint8)})
    assert max(flushed) < 10 << 20


# Appending


def test_append(tmp_path):
    """Records go behind those of an existing file, or into a new one."""
    path = tmp_path / "a.tfrecord"
    for first in (0, 3, 6):
        with ferry.writer(path, append=True) as out:
            for number in range(first, first + 3):
                out.write({"id": number})
    assert ids(path) == list(range(9))


def test_append_to_shards(tmp_path):
    """Each shard goes on where it ended."""
    for first in (0, 4):
        with ferry.writer(tmp_path / "a@2", append=True) as out:
            for number in range(first, first + 4):
                out.write({"id": number})
    assert ids(out.paths) == [0, 2, 4, 6, 1, 3, 5, 7]


def test_append_to_a_damaged_file(tmp_path):
    """Any damage at the end is refused, and the file stays as it was."""
    path = tmp_path / "a.tfrecord"
    whole = ferry.dumps([b"one", b"two"], format="tfrecord")
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(19, len(whole))
    ]
    cut = [whole[:end] for end in range(1, len(whole)) if end != 19]
    for data in (*flipped, *cut, whole + bytes(50), b"something else altogether"):
        path.write_bytes(data)
        with pytest.raises(ferry.FormatError) as caught:
            ferry.writer(path, append=True)
        assert caught.value.path == str(path)
        assert path.read_bytes() == data


def test_append_fails(tmp_path):
    """An exception cuts off what was appended."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(ferry.dumps([b"one"], format="tfrecord"))
    old = path.read_bytes()
    with pytest.raises(KeyError), ferry.writer(path, append=True) as out:
        for _ in range(10_000):
            out.write(b"another")
        raise KeyError
    assert path.read_bytes() == old


def test_no_append_to_compressed_files(tmp_path):
    """A compressed file is refused, whatever it is called."""
    for name, compression in (("a.tfrecord.gz", None), ("b.tfrecord", "gzip")):
        with ferry.writer(tmp_path / name, compression=compression) as out:
            out.write(b"one")
        with pytest.raises(ferry.UnsupportedError):
            ferry.writer(tmp_path / name, append=True)


def test_standard_output():
    """The standard output is "-"."""
    code = "import tensorferry as f\nwith f.writer('-') as out: out.write({'id': 7})"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert result.stdout == ferry.dumps(
        [b"\x0a\x0d\x0a\x0b\x0a\x02id\x12\x05\x1a\x03\x0a\x01\x07"], format="tfrecord"
    )


def test_frameworks(tf, tmp_path):
    """Tensors of TensorFlow are written as the values they hold."""
    with ferry.writer(tmp_path / "a") as out:
        out.write({"id": tf.constant(5, tf.int64), "x": tf.constant([[1.5]], tf.float64)})
        out.write_batch(
            {"id": tf.range(6, 8, dtype=tf.int64), "x": tf.zeros([2, 1, 1], tf.float64)}
        )
    with ferry.open(tmp_path / "a") as records:
        batch = next(records.batches(3))
    assert batch["id"].tolist() == [5, 6, 7]
    assert batch["x"].dtype == np.float64
    assert batch["x"].shape == (3, 1, 1)


def test_columns_rows_and_bytes_in_one_file(tmp_path):
    """Whatever kinds of records are mixed, they stand in the order in which they were written."""
    row = {"id": 1}
    with ferry.writer(tmp_path / "data") as out:
        for _ in range(50):
            out.write_batch({"id": np.zeros(3, np.int64)})
            out.write(b"bytes")
            out.write(row)
            out.write(row)
            out.write(b"more")
    example = ferry.open(tmp_path / "data", raw=True)[3 + 1]

    kinds = [record in (b"bytes", b"more") for record in ferry.open(tmp_path / "data", raw=True)]
    assert kinds == [False, False, False, True, False, False, True] * 50
    assert example not in (b"bytes", b"more")
