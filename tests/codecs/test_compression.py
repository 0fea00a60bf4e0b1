from __future__ import annotations

import gzip
import io
import subprocess
import sys
import threading
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from tensorferry.codecs import compression
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    LimitError,
    MissingExtraError,
    TruncatedError,
    UnsupportedError,
)

KINDS = ["gzip", "zlib", "zstd"]
SAMPLE = b"".join(b"%d tensors make %d ferries; " % (n, n * n) for n in range(12))
SKIPPED_FRAME = b"\x53\x2a\x4d\x18\x05\x00\x00\x00hello"


def has_zstd() -> bool:
    try:
        compression.compressor("zstd")
    except MissingExtraError:
        return False
    return True


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "zstd" and not has_zstd():
        pytest.skip("zstd is not installed")
    return request.param


def compress(data, kind, level=None, piece=1 << 16):
    """A stream of the data, given piece by piece."""
    stream = compression.compressor(kind, level)
    parts = [stream.compress(data[start : start + piece]) for start in range(0, len(data), piece)]
    return b"".join([*parts, stream.finish()])


def decompress(data, kind, **options):
    return b"".join(compression.decompressed(io.BytesIO(data).read, kind, **options))


def in_pieces(data, size):
    """A `read` that gives no more than so much at a time, as sockets do."""
    file = io.BytesIO(data)
    return lambda wanted: file.read(min(size, wanted))


@settings(max_examples=50)
@given(data=st.data(), level=st.none() | st.integers(0, 9), threads=st.integers(0, 1))
def test_roundtrip(kind, data, level, threads):
    """What is compressed is what is decompressed, at every level and in pieces of every size."""
    content = data.draw(st.binary(max_size=2000)) * data.draw(st.integers(0, 300))
    stream = compress(content, kind, level, piece=data.draw(st.integers(1, 3000)))
    read = in_pieces(stream, data.draw(st.integers(1, 3000)))

    assert b"".join(compression.decompressed(read, kind, threads=threads)) == content
    assert compression.detect(stream) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_runs_that_end_with_the_input(kind):
    """Much output of the last input, of which a part is still held back, is given out whole."""
    for size in ((1 << 20) + 1000, 3 << 20):
        stream = compression.compressor(kind)
        data = stream.compress(bytes(size)) + stream.finish()
        if kind == "zlib":
            data = zlib.compress(bytes(size))

        found = compression.decompressed(io.BytesIO(data).read, kind)

        assert sum(map(len, found)) == size


@pytest.mark.parametrize("level", [None, 0, 1, 2, 3, 6, 9])
def test_the_standard_library_reads_ours(level):
    """Python's gzip and zlib read what is written, and the gzip header is bare."""
    stream = compress(SAMPLE, "gzip", level)

    assert gzip.decompress(stream) == SAMPLE
    assert stream[3:8] == bytes(5)  # no name, no time
    assert zlib.decompress(compress(SAMPLE, "zlib", level)) == SAMPLE


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_the_standard_library_is_read(level):
    """What Python's gzip and zlib write is read, a name in the header too."""
    named = io.BytesIO()
    with gzip.GzipFile("name.txt", "wb", level, named) as file:
        file.write(SAMPLE)

    assert decompress(named.getvalue(), "gzip") == SAMPLE
    assert decompress(gzip.compress(SAMPLE, level), "gzip") == SAMPLE
    assert decompress(zlib.compress(SAMPLE, level), "zlib") == SAMPLE


@pytest.mark.parametrize(("kind", "name"), [("gzip", "GZIP"), ("zlib", "ZLIB")])
def test_tensorflow(tf, tmp_path, kind, name):
    """TensorFlow reads what we compress, and we what it does."""
    path = str(tmp_path / "x.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(SAMPLE)
    with tf.io.TFRecordWriter(path + ".theirs", options=name) as writer:
        writer.write(SAMPLE)
    plain = (tmp_path / "x.tfrecord").read_bytes()
    (tmp_path / "x.tfrecord.ours").write_bytes(compress(plain, kind))

    records = list(tf.data.TFRecordDataset(path + ".ours", compression_type=name))
    assert [record.numpy() for record in records] == [SAMPLE]
    theirs = (tmp_path / "x.tfrecord.theirs").read_bytes()
    assert compression.detect(theirs) == kind
    assert decompress(theirs, kind) == plain


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x78\x01", "zlib"),
        (b"\x78\x5e", "zlib"),
        (b"\x78\x9c\x00\x00", "zlib"),
        (b"\x78\xda", "zlib"),
        (b"\x08\x1d", "zlib"),  # the smallest window
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (SKIPPED_FRAME, "zstd"),
        (b"\x78\x9d", None),  # no multiple of 31
        (b"\x78\xbb", None),  # a preset dictionary
        (b"\x88\x1c", None),  # a window of 2^16
        (b"\x1f\x8b\x07\x00", None),
        (b"\x89PNG", None),
        (b"version https://git-lfs", None),
        (b"\x78", None),
        (b"", None),
    ],
)
def test_detect(head, found):
    """Compression is known by its first bytes."""
    assert compression.detect(head) == found


@given(st.binary(max_size=12))
def test_detect_takes_anything(head):
    """Any bytes are of one kind or of none."""
    assert compression.detect(head) in (*KINDS, None)


def test_streams_that_follow_each_other(kind):
    """Members and frames after each other are one stream, with zeros behind and between them."""
    one, two, empty = (compress(data, kind) for data in (SAMPLE, b"two", b""))

    for size in (1, 7, 1 << 20):
        read = in_pieces(one + two + bytes(5) + empty + two + bytes(1 << 18), size)
        assert b"".join(compression.decompressed(read, kind)) == SAMPLE + b"twotwo"


def test_zstd_frames_without_data():
    """Frames of zstd to be skipped hold nothing for us, wherever they are."""
    if not has_zstd():
        pytest.skip("zstd is not installed")
    frame = compress(SAMPLE, "zstd")

    stream = SKIPPED_FRAME + frame + SKIPPED_FRAME + frame
    assert decompress(stream + SKIPPED_FRAME, "zstd") == SAMPLE * 2
    for end in range(1, len(SKIPPED_FRAME)):
        with pytest.raises(TruncatedError, match=f"after {2 * len(SAMPLE)} good"):
            decompress(stream + SKIPPED_FRAME[:end], "zstd")


def test_cut_at_every_offset(kind):
    """A stream that ends early is a TruncatedError at its end that says how much was good."""
    stream = compress(SAMPLE, kind)

    for end in range(len(stream)):
        got = bytearray()
        with pytest.raises(TruncatedError, match="good decompressed bytes") as caught:
            for block in compression.decompressed(in_pieces(stream[:end], 16), kind, path="x"):
                got += block
        assert caught.value.offset == end
        assert caught.value.path == "x"
        assert f"after {len(got)} good" in str(caught.value)
        assert SAMPLE.startswith(got)


def test_second_member_cut_at_every_offset(kind):
    """A second member that ends early is no garbage."""
    stream = compress(SAMPLE, kind)

    for end in range(len(stream) + 1, 2 * len(stream)):
        with pytest.raises(TruncatedError, match="good decompressed bytes") as caught:
            decompress((stream * 2)[:end], kind)
        assert caught.value.offset == end


@pytest.mark.parametrize("garbage", [b"garbage", b"\0\0\0garbage", b"\xff", b"\x1f\x8c\x08\x00"])
def test_garbage_behind(kind, garbage):
    """Other bytes behind a stream are refused at their offset, after all of it was given out."""
    stream = compress(SAMPLE, kind)
    blocks = compression.decompressed(io.BytesIO(stream + garbage).read, kind)

    assert next(blocks) == SAMPLE
    with pytest.raises(FormatError, match="other bytes follow") as caught:
        list(blocks)
    assert caught.value.offset == len(stream) + len(garbage) - len(garbage.lstrip(b"\0"))
    assert not isinstance(caught.value, TruncatedError)


def test_no_stream_at_all(kind):
    """Bytes that are no such stream are refused at the start, with what was found."""
    with pytest.raises(FormatError, match="found bytes 89 50 4e 47") as caught:
        decompress(b"\x89PNG....", kind)
    assert caught.value.offset == 0


def test_every_bit_flipped(kind):
    """A flipped bit is found, or is one that the data does not depend on (names, padding)."""
    stream = compress(SAMPLE, kind)

    for bit in range(8 * len(stream)):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(FerryError):
            assert decompress(bytes(flipped), kind) == SAMPLE


def test_wrong_checksum(kind):
    """Data that does not fit the checksum behind it is a ChecksumError."""
    stream = bytearray(compress(SAMPLE, kind))
    stream[-5 if kind == "gzip" else -1] ^= 1

    with pytest.raises(ChecksumError, match="checksum"):
        decompress(bytes(stream), kind)


@settings(max_examples=300)
@given(
    st.binary(max_size=200), st.sampled_from([b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd"])
)
def test_any_bytes(data, start):
    """Bytes that only start well end in a result or a typed error."""
    kind = compression.detect(start + b"\0")
    if kind == "zstd" and not has_zstd():
        return
    try:
        decompress(start + data, kind)
    except FerryError as error:
        assert error.offset is not None


@pytest.mark.parametrize("threads", [0, 1])
def test_bomb(kind, threads):
    """A bomb of 1000:1 and more takes a few blocks of memory, however much it holds."""
    zeros = bytes(1 << 20)
    stream = compression.compressor(kind)
    bomb = b"".join([*(stream.compress(zeros) for _ in range(64)), stream.finish()])
    assert len(bomb) < (64 << 20) / 200

    tracemalloc.start()
    size = largest = 0
    for block in compression.decompressed(io.BytesIO(bomb).read, kind, threads=threads):
        size += len(block)
        largest = max(largest, len(block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert size == 64 << 20
    assert largest <= compression.BLOCK
    assert peak < 8 << 20


BOMB = """
import io, resource, sys, zlib
from tensorferry.codecs import compression
kind, start = sys.argv[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
stream, zeros = compression.compressor(kind, 9), bytes(1 << 20)
bomb = b"".join([*(stream.compress(zeros) for _ in range(256)), stream.finish()])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(map(len, compression.decompressed(io.BytesIO(bomb).read, kind)))
assert size == 256 << 20
print(len(bomb), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_bomb_in_a_process_of_its_own(kind):
    """The libraries' own memory is bounded too, which Python's accounting does not see."""
    command = [sys.executable, "-c", BOMB, kind]
    result = subprocess.run(command, check=True, capture_output=True, text=True)

    compressed, mebibytes = map(int, result.stdout.split())
    assert compressed < (256 << 20) / 900
    assert mebibytes < 32


def test_zstd_window():
    """A few bytes that claim a window of gigabytes get none."""
    if not has_zstd():
        pytest.skip("zstd is not installed")
    with pytest.raises(LimitError, match="looks back"):
        decompress(b"\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00", "zstd")


@pytest.mark.parametrize("close", [True, False])
def test_threads_end(kind, close):
    """A stream that is left early, or fails, leaves no thread behind."""
    stream = compress(bytes(8 << 20), kind)
    blocks = compression.decompressed(io.BytesIO(stream + b"garbage").read, kind, threads=1)

    next(blocks)
    if close:
        blocks.close()
    else:
        with pytest.raises(FormatError, match="other bytes follow"):
            list(blocks)
    assert not [thread for thread in threading.enumerate() if "decompress" in thread.name]


def test_errors_of_reading_pass():
    """An error of the source itself comes through as it is, from a background thread too."""

    def read(size):
        raise ConnectionResetError("gone")

    for threads in (0, 1):
        with pytest.raises(ConnectionResetError):
            list(compression.decompressed(read, "gzip", threads=threads))


@settings(max_examples=20)
@given(content=st.binary(max_size=5000))
def test_the_same_bytes_give_the_same_stream(kind, content):
    """Compression is deterministic, and takes any contiguous buffer."""
    assert compress(content, kind) == compress(memoryview(bytearray(content)), kind)


@pytest.mark.parametrize("level", [-8, 10, 23])
def test_wrong_levels(level):
    """A level out of range is refused with the range."""
    with pytest.raises(UnsupportedError, match=f"gzip level is {level}, expected 0 to 9"):
        compression.compressor("gzip", level)


def test_wrong_kinds():
    """A compression that does not exist is refused with those that do."""
    with pytest.raises(UnsupportedError, match='"gzip", "zlib" or "zstd"'):
        compression.compressor("lzma")
    with pytest.raises(UnsupportedError, match='"gzip", "zlib" or "zstd"'):
        decompress(b"", "lzma")


def test_missing_zstd(monkeypatch):
    """Without zstd's package the error says what to install."""
    for name in ("backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install backports\.zstd"):
        compression.compressor("zstd")
