"""Deflate in pieces: streams that were compressed on several cores are streams like any other."""

from __future__ import annotations

import gzip
import threading
import zlib

import numpy as np
import pytest
from isal import isal_zlib

import tensorferry as ferry
from tensorferry.codecs import compression
from tensorferry.codecs.deflate import PIECE, DeflateCompressor

SIZES = (0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 17)
TEXT = b" ".join(b"%d" % (n * n) for n in range(6 * PIECE // 9))
WINDOWS = {"gzip": 31, "zlib": 15}


def compressed(data: bytes, kind: str, level: int, step: int = 100_003) -> bytes:
    """A stream that was written in parts."""
    stream = DeflateCompressor(kind, level)
    parts = [stream.compress(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join([*parts, stream.finish()])


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
@pytest.mark.parametrize("level", [0, 2, 6])
@pytest.mark.parametrize("size", SIZES)
def test_one_stream(kind, level, size):
    """Pieces are one stream of one member, whose checksum and size are those of all of it."""
    data = TEXT[:size]
    stream = compressed(data, kind, level)
    reader = zlib.decompressobj(WINDOWS[kind])

    assert reader.decompress(stream) == data
    assert reader.eof
    assert not reader.unused_data
    assert (gzip if kind == "gzip" else zlib).decompress(stream) == data


def test_same_bytes_give_the_same_stream():
    """However a stream is written, and however many cores there are."""
    streams = {compressed(TEXT, "gzip", 2, step) for step in (999, PIECE, 3 * PIECE, len(TEXT))}

    assert len(streams) == 1


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_buffers_that_change(kind):
    """The checksum is that of the bytes in the stream, also if the buffer changes meanwhile."""
    buffer = bytearray(8 * PIECE)
    ended = threading.Event()

    def change():
        while not ended.is_set():
            for place in range(0, len(buffer), PIECE):
                buffer[place] ^= 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        streams = [compressed(memoryview(buffer), kind, 2, len(buffer)) for _ in range(5)]
    finally:
        ended.set()
        thread.join()
    for stream in streams:
        assert len(zlib.decompress(stream, WINDOWS[kind])) == len(buffer)


def test_pieces_are_not_larger():
    """A piece refers to the one before it: the stream is as small as one made in one go."""
    whole = isal_zlib.compressobj(2, zlib.DEFLATED, 31, 9)
    alone = len(whole.compress(TEXT) + whole.flush())

    assert len(compressed(TEXT, "gzip", 2)) < 1.01 * alone


@pytest.mark.parametrize(("kind", "name"), [("gzip", "GZIP"), ("zlib", "ZLIB")])
def test_tensorflow_reads_all_pieces(tf, tmp_path, kind, name):
    """A TFRecord file of several pieces is what tf.data reads, and its own `ferry.open`."""
    values = np.random.default_rng(0).integers(0, 1000, (400, 1000))
    path = str(tmp_path / "x.tfrecord")
    with ferry.writer(path, compression=kind) as out:
        out.write_batch({"x": values})
    spec = {"x": tf.io.FixedLenFeature((1000,), tf.int64)}
    records = tf.data.TFRecordDataset(path, compression_type=name).batch(400)

    (found,) = (tf.io.parse_example(batch, spec)["x"].numpy() for batch in records)

    assert (found == values).all()
    assert (ferry.load(path)["x"] == values).all()


def test_zstd_of_threads_is_one_frame():
    """A long zstd stream is one frame, whatever its threads and however it was written."""
    zstd = compression._zstd()
    streams = set()
    for step in (70_001, len(TEXT)):
        stream = compression.compressor("zstd")
        parts = [stream.compress(TEXT[at : at + step]) for at in range(0, len(TEXT), step)]
        streams.add(b"".join([*parts, stream.finish()]))
    (data,) = streams
    reader = zstd.ZstdDecompressor()

    assert reader.decompress(data) == TEXT
    assert reader.eof
    assert not reader.unused_data
