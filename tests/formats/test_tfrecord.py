"""TFRecord framing, beside TensorFlow's own reader and writer."""

from __future__ import annotations

import gzip
import io
import os
import zlib

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import tensorferry as ferry
from tensorferry.codecs import compression
from tensorferry.formats.tfrecord import frames as tfrecord, index as indexes
from tensorferry.storage import Buffers, open_source

RECORDS = st.lists(st.binary(max_size=300), max_size=20)
SAMPLE = [b"", b"a", bytes(300), b"\x08" * 8, bytes(range(256)) * 4]


def frames(records):
    """Records as the bytes of a file."""
    return ferry.dumps(records, format="tfrecord")


def read(source, limit=tfrecord.MANY, **options):
    """All records of a source, taken `limit` at a time."""
    given = tfrecord.Frames(open_source(source), **options)
    records = []
    while (segment := given.take(limit)) is not None:
        assert segment.first >= len(records)  # a lost record keeps its number
        records += segment.records()
    return records


def compress(kind, data):
    """A whole compressed stream."""
    stream = compression.compressor(kind)
    return stream.compress(data) + stream.finish()


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time, and cannot be mapped."""

    def __init__(self, data, size=7):
        self.stream, self.size = io.BytesIO(data), size

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self.stream.read(min(len(buffer), self.size))
        buffer[: len(data)] = data
        return len(data)


@given(RECORDS)
def test_roundtrip(records):
    """What is written is what is read, from memory and from a stream."""
    data = frames(records)

    assert ferry.loads(data, format="tfrecord") == records
    assert read(data, limit=3) == records
    assert read(Trickle(data)) == records


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
@settings(max_examples=20)
@given(records=RECORDS)
def test_reads_what_tensorflow_writes(tf, tmp_path_factory, kind, records):
    """TensorFlow's files, compressed or not, whatever they are called."""
    path = str(tmp_path_factory.mktemp("written") / "records")
    with tf.io.TFRecordWriter(path, kind) as writer:
        for record in records:
            writer.write(record)

    assert read(path) == records
    if not kind:
        with open(path, "rb") as file:
            assert file.read() == frames(records)


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
@settings(max_examples=20)
@given(records=RECORDS)
def test_tensorflow_reads_what_is_written(tf, tmp_path_factory, kind, records):
    """TFRecordDataset gives the records of our files."""
    path = tmp_path_factory.mktemp("written") / "records"
    data = frames(records)
    path.write_bytes(compress(kind.lower(), data) if kind else data)

    assert list(tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()) == records


def test_recognised_by_loads():
    """Uncompressed records need no format to be named."""
    assert ferry.loads(frames(SAMPLE)) == SAMPLE
    assert ferry.loads(frames([b"x" * 120])) == [b"x" * 120]
    assert tfrecord.sniff(frames([b""]))
    assert not tfrecord.sniff(b"")
    assert not tfrecord.sniff(bytes(64))


def test_takes_only_bytes():
    """Anything but a list of bytes or columns is refused, with the way to write it."""
    for value in ([1], np.zeros(3), "text"):
        with pytest.raises(ferry.UnsupportedError, match=r"a dict of (features|columns)"):
            frames(value)


@pytest.mark.parametrize("kind", ["gzip", "zlib", "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_compressed_as_a_whole(tmp_path, kind, stream):
    """The compression is known by the bytes, in a file of any name and in a stream."""
    path = tmp_path / "misleading.tfrecord"
    path.write_bytes(compress(kind, frames(SAMPLE)))
    source = Trickle(path.read_bytes()) if stream else path

    assert read(source) == SAMPLE


def test_concatenated_gzip_members():
    """Files that were joined with cat: members one behind the other, cut anywhere in a record."""
    data = frames(SAMPLE)
    joined = b"".join(gzip.compress(data[at : at + 100]) for at in range(0, len(data), 100))

    assert read(joined) == SAMPLE


def test_lengths_that_look_compressed():
    """A length may start like zlib (0x178), with its checksum whole or not."""
    data = frames([bytes(0x178), b"second"])
    assert compression.detect(data[:12]) == "zlib"
    assert read(data) == [bytes(0x178), b"second"]

    broken = data[:8] + b"\0\0\0\0" + data[12:]
    assert read(broken, on_error="skip") == [b"second"]
    for level in range(10):
        for content in (b"", bytes(1000), data):
            stream = zlib.compress(content, level)
            assert tfrecord.detect_compression(stream.ljust(12, b"\0")) == "zlib"


@pytest.mark.parametrize("window", [1, 16, 40, 1000])
@pytest.mark.parametrize("kind", [None, "gzip"])
def test_windows(monkeypatch, window, kind):
    """Where a stream is cut into windows makes no difference, in records and in damages."""
    data = frames(SAMPLE * 3)
    data = data[:20] + b"\xff" + data[21:700] + b"garbage" + data[700:-5]
    whole, cut = [], []
    expected = read(data, on_error="skip", damages=whole)
    monkeypatch.setattr(tfrecord, "WINDOW", window)
    source = Trickle(data if kind is None else compress(kind, data))

    assert read(source, on_error="skip", damages=cut) == expected
    assert [(d.record, d.offset, d.size, d.problem) for d in cut] == [
        (d.record, d.offset, d.size, d.problem) for d in whole
    ]


def test_verify_off():
    """Without verifying, wrong data checksums pass; those of lengths never do."""
    data = bytearray(frames([b"abc"]))
    data[-1] ^= 1
    with pytest.raises(ferry.ChecksumError, match="record 0 is corrupt: data checksum is 0x"):
        ferry.loads(bytes(data))
    assert ferry.loads(bytes(data), verify=False) == [b"abc"]

    data[8] ^= 1
    with pytest.raises(ferry.FormatError):
        ferry.loads(bytes(data), format="tfrecord", verify=False)


def test_index(tmp_path):
    """An index has a line for each frame, where it starts and how long it is."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([b"abc", b"", b"defgh"]))
    with open_source(path) as source:
        index = indexes.build(tfrecord.Frames(source))
        assert index.tolist() == [[12, 3], [31, 0], [47, 5]]
        text = Buffers()
        indexes.write(index, text)
        assert b"".join(text) == b"0 19\n19 16\n35 21\n"

        assert indexes.read(str(path), source.buffer) is None
        for suffix in (".idx", ".index"):
            beside = tmp_path / f"a.tfrecord{suffix}"
            beside.write_bytes(b"".join(text))
            assert indexes.read(str(path), source.buffer).tolist() == index.tolist()
            beside.unlink()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0 19\n19 16\n",
        b"0 19\n19 16\n35 22\n",
        b"0 18\n18 17\n35 21\n",
        b"0 19\n20 15\n35 21\n",
        b"0 56\n",
        b"0 -1\n-1 57\n",
        b"0 9223372036854775807\n9223372036854775807 9223372036854775807\n",
        b"0 99999999999999999999\n",
        b"0 19\n19\n",
        b"\xff\xfe",
        b"not an index\n",
    ],
    ids=range(12),
)
def test_index_that_does_not_fit(tmp_path, text):
    """An index of another file, or of no file, is not used."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([b"abc", b"", b"defgh"]))
    (tmp_path / "a.tfrecord.idx").write_bytes(text)

    with open_source(path) as source:
        assert indexes.read(str(path), source.buffer) is None


def test_index_older_than_its_file(tmp_path):
    """An index that was written before its file is stale, even if it fits."""
    path, beside = tmp_path / "a.tfrecord", tmp_path / "a.tfrecord.idx"
    path.write_bytes(frames([b"abc"]))
    beside.write_bytes(b"0 19\n")
    os.utime(beside, (1, 1))

    with open_source(path) as source:
        assert indexes.read(str(path), source.buffer) is None


@given(RECORDS, st.data())
def test_repair(records, data):
    """Every record that garbage did not touch is in the repaired file."""
    framed = [frames([record]) for record in records]
    place = data.draw(st.integers(0, len(framed)))
    garbage = data.draw(st.binary(min_size=1, max_size=40))
    assume(place or tfrecord.detect_compression((garbage + b"".join(framed))[:12]) is None)
    broken = b"".join(framed[:place]) + garbage + b"".join(framed[place:])
    sink = Buffers()

    with open_source(broken) as source:
        count, damages = tfrecord.repair(source, sink)

    assert b"".join(sink) == b"".join(framed)
    assert count == len(records)
    assert [(one.record, one.size) for one in damages] == [(place, len(garbage))]


@pytest.mark.parametrize("length", [0, 8, 10, 0x108, 0x1208, 0x7808])
def test_loads_recognises_any_first_length(length):
    """A record whose length looks like the start of another format is recognised all the same."""
    records = [bytes(length), b"second"]

    assert ferry.loads(ferry.dumps(records, format="tfrecord")) == records
