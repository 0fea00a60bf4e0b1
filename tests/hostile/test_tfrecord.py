"""TFRecords that are damaged or lie: each gives a typed error that says where, never a crash."""

from __future__ import annotations

import gzip
import io
import struct
import time
import tracemalloc
import zlib

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import LimitError
from tensorferry.formats.tfrecord import frames as tfrecord, survey

RECORDS = [b"", b"first", bytes(40), b"the last one"]


def frame(data: bytes) -> bytes:
    """One record."""
    return header(len(data)) + data + struct.pack("<I", tfrecord.masked_checksum(data))


def header(length: int) -> bytes:
    """A length with the checksum that fits it."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", tfrecord.masked_checksum(packed))


FRAMES = [frame(record) for record in RECORDS]
SAMPLE = b"".join(FRAMES)
STARTS = np.cumsum([0, *map(len, FRAMES)]).tolist()


class Pipe(io.BytesIO):
    """A stream: no io.BytesIO itself, which would be taken as a buffer."""


def read(data, *, stream=False, **options):
    """All records, and what was skipped."""
    source = Pipe(data) if stream else io.BytesIO(data)
    with ferry.open(source, format="tfrecord", raw=True, **options) as records:
        return list(records), records.damages


def refused(data, kind, match, *, stream=False, peak=2 << 20):
    """The error that some bytes give, which must come at once and without a large allocation."""
    source = Pipe(data) if stream else io.BytesIO(data)
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(kind, match=match) as caught:
            list(ferry.open(source, format="tfrecord", raw=True))
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < max(peak, 20 * len(data))
    assert time.process_time() - start < 5
    assert caught.value.path
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("length", [2**64 - 1, 2**64 - 16, 2**63, 2**63 - 1, 2**32, 2**31])
def test_enormous_length(length, stream):
    """A length beyond the file, with a checksum that fits: refused before anything is allocated."""
    data = SAMPLE + header(length) + bytes(100)
    kind = ferry.LimitError if stream and length > ferry.limits.stream else ferry.TruncatedError
    error = refused(data, kind, "record 4", stream=stream, peak=8 << 20)

    assert error.offset == len(SAMPLE)
    assert read(data, stream=stream, on_error="skip")[0] == RECORDS


@pytest.mark.parametrize("stream", [False, True])
def test_every_bit_flipped(stream):
    """Each flipped bit is found, and skipping returns all other records."""
    for position in range(len(SAMPLE) * 8):
        data = bytearray(SAMPLE)
        data[position // 8] ^= 1 << position % 8
        hit = int(np.searchsorted(STARTS, position // 8, side="right")) - 1

        with pytest.raises(ferry.FormatError) as caught:
            read(bytes(data), stream=stream)
        assert caught.value.offset == STARTS[hit]
        records, damages = read(bytes(data), stream=stream, on_error="skip")
        assert records == RECORDS[:hit] + RECORDS[hit + 1 :]
        assert [(one.record, one.offset, one.size) for one in damages] == [
            (hit, STARTS[hit], len(FRAMES[hit]))
        ]


@pytest.mark.parametrize("stream", [False, True])
def test_cut_at_every_offset(stream, tmp_path):
    """Cut anywhere, the error tells the end of the last whole record, and those before it stay."""
    for end in range(len(SAMPLE)):
        whole = int(np.searchsorted(STARTS, end, side="right")) - 1
        if end in STARTS:
            assert read(SAMPLE[:end], stream=stream)[0] == RECORDS[:whole]
            continue
        error = refused(SAMPLE[:end], ferry.TruncatedError, "ends inside record", stream=stream)
        assert error.offset == STARTS[whole]
        assert f"{whole} records come before byte {STARTS[whole]}" in str(error)
        assert "repair(path, target)" in error.hint
        records, (damage,) = read(SAMPLE[:end], stream=stream, on_error="skip")
        assert records == RECORDS[:whole]
        assert (damage.offset, damage.size) == (STARTS[whole], end - STARTS[whole])


@pytest.mark.parametrize("zeros", [1, 11, 12, 16, 5000])
@pytest.mark.parametrize("stream", [False, True])
def test_zero_filled_tail(zeros, stream):
    """A file that was allocated longer than it was written: the records before are whole."""
    data = SAMPLE + bytes(zeros)
    error = refused(data, ferry.FormatError, "record 4", stream=stream)

    assert error.offset == len(SAMPLE)
    assert read(data, stream=stream, on_error="skip")[0] == RECORDS
    appended = data + frame(b"behind")
    assert read(appended, stream=stream, on_error="skip")[0] == [*RECORDS, b"behind"]


OTHERS = {
    "PNG": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
    "HTML": (b"\n<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"),
    "short HTML": (b"<html></html>", "an HTML page"),
    "LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "git lfs pull"),
    "zeros": (bytes(1000), "starts with zeros"),
    "text": (b"id,name\n1,abc\n2,def\n", "69 64 2c"),
    "zip": (b"PK\x03\x04" + bytes(60), "a zip archive"),
}


@pytest.mark.parametrize(("data", "what"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("stream", [False, True])
def test_other_files(data, what, stream):
    """Something else altogether is named as what it is."""
    error = refused(data, ferry.FormatError, "not a TFRecord file", stream=stream)

    assert what in error.message
    assert error.offset == 0
    assert read(data, on_error="skip")[0] == []


def test_first_header_damaged():
    """A broken first record is no reason to call a file none of ours."""
    error = refused(b"\xff" + SAMPLE[1:], ferry.ChecksumError, "record 0 is corrupt")
    assert error.offset == 0


def big_sample(count=3000):
    """Records that take several windows, and do not compress to nothing."""
    random = np.random.default_rng(0)
    return [random.bytes(1000) for _ in range(count)]


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.99])
def test_truncated_gzip(kept):
    """A gzip file that was cut: an error, behind all records before the cut."""
    records = big_sample()
    data = gzip.compress(b"".join(map(frame, records)), 1)
    cut = data[: int(len(data) * kept)]
    given = []
    with pytest.raises(ferry.TruncatedError, match="gzip stream ends too early"):
        for record in ferry.open(io.BytesIO(cut), raw=True):
            given.append(record)
    assert given == records[: len(given)]

    skipped, damages = read(cut, on_error="skip")
    assert skipped[: len(given)] == given
    assert len(skipped) >= kept * len(records) - 200
    assert "gzip stream ends too early" in damages[-1].problem


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_garbage_behind_a_compressed_stream(compress):
    """Other bytes behind the stream are an error, and the records before them are kept."""
    data = compress(SAMPLE) + b"garbage"
    refused(data, ferry.FormatError, "other bytes follow")

    records, (damage,) = read(data, on_error="skip")
    assert records == RECORDS
    assert "other bytes follow" in damage.problem


def test_flipped_bits_in_gzip():
    """Damage in a compressed file never goes unnoticed, and skipping gives only true records."""
    data = gzip.compress(SAMPLE)
    for position in range(10 * 8, len(data) * 8):
        broken = bytearray(data)
        broken[position // 8] ^= 1 << position % 8
        try:
            # Deflate has several ways to say the same.
            assert read(bytes(broken)) == (RECORDS, [])
        except ferry.FormatError:
            records, damages = read(bytes(broken), on_error="skip")
            assert damages
            assert set(records) <= set(RECORDS)


@pytest.mark.parametrize("record", [1000, 1 << 20])
def test_bomb(record):
    """A 1000:1 file is read in bounded memory: a window and one record."""
    data = gzip.compress(frame(bytes(record)) * (64_000_000 // record))
    assert len(data) * 200 < 64_000_000
    tracemalloc.start()
    with ferry.open(io.BytesIO(data), raw=True) as records:
        count = sum(1 for _ in records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 64_000_000 // record
    assert peak < 24 << 20


def test_bomb_without_records():
    """Skipping through a 1000:1 file of nothing stays in bounded memory, too."""
    data = gzip.compress(SAMPLE + bytes(80_000_000) + SAMPLE)
    tracemalloc.start()
    records, (damage,) = read(data, on_error="skip")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert records == RECORDS * 2
    assert damage.size == 80_000_000
    assert peak < 128 << 20


def test_bomb_in_one_record(monkeypatch):
    """A record that a small file inflates to more than the budget is refused unread."""
    monkeypatch.setattr(ferry.limits, "stream", 1 << 20)
    data = gzip.compress(frame(bytes(8 << 20)))
    refused(data, ferry.LimitError, "1048576 are allowed", peak=8 << 20)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("claim", [100, 100_000, 2**40])
def test_file_of_lengths(stream, claim):
    """A file full of lengths that fit their checksums takes no quadratic time to pass over."""
    data = header(claim) * 50_000 + SAMPLE
    start = time.process_time()
    records, damages = read(data, stream=stream, on_error="skip")

    assert records == RECORDS or claim == 100
    assert damages
    assert time.process_time() - start < 10


def test_lengths_and_records_in_turn():
    """Nor does one with good records in between, each behind a length that claims much."""
    data = (b"\xff" + header(500_000) + frame(b"x")) * 30_000
    start = time.process_time()
    records, damages = read(data, on_error="skip")

    assert records == [b"x"] * 30_000
    assert len(damages) == 30_000
    assert time.process_time() - start < 10


@pytest.mark.parametrize("stream", [False, True])
def test_large_record_behind_damage(stream):
    """A record of several windows directly behind damage is found whole."""
    large = np.random.default_rng(1).bytes(5 << 20)
    data = frame(b"a") + b"garbage" + frame(large) + frame(b"b")

    records, (damage,) = read(data, stream=stream, on_error="skip")
    assert records == [b"a", large, b"b"]
    assert (damage.offset, damage.size) == (17, 7)


def test_keep():
    """on_error="keep" gives data with a wrong checksum, and says so; it skips what is no data."""
    data = bytearray(SAMPLE)
    data[STARTS[2] - 1] ^= 1
    records, (damage,) = read(bytes(data), on_error="keep")
    assert records == RECORDS
    assert (damage.record, damage.kept) == (1, True)

    data[STARTS[2]] ^= 1
    records, damages = read(bytes(data), on_error="keep")
    assert records == RECORDS[:2] + RECORDS[3:]
    assert [one.kept for one in damages] == [True, False]


def example(*entries: tuple[bytes, bytes]) -> bytes:
    """An Example of keys and Feature messages."""
    parts = [field(1, field(1, key) + field(2, feature)) for key, feature in entries]
    return field(1, b"".join(parts))


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field of less than 128 bytes."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


INTEGER = field(3, field(1, b"\x07"))
LIES = {
    "wrong wire type of a list": example((b"a", b"\x18\x07")),
    "wrong wire type of the features": b"\x08\x07",
    "wrong wire type of a value": example((b"a", field(3, b"\x0d\x07\x00\x00\x00"))),
    "an integer of eleven bytes": example((b"a", field(3, field(1, b"\xff" * 10 + b"\x01")))),
    "a cut message": example((b"a", INTEGER))[:-1],
    "a length beyond the record": b"\x0a\x7f",
    "field number 0": b"\x02\x00",
    "an end without a start": b"\x0c",
    "text": b"hello, world",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_no_example(tmp_path, lie):
    """A record that is no Example is named, and skipped on demand."""
    good = example((b"a", INTEGER))
    path = tmp_path / "lies.tfrecord"
    path.write_bytes(b"".join(map(frame, [good, good, lie, good])))

    for schema in (None, {"a": "int64"}):
        with pytest.raises(ferry.FormatError, match="record 2") as caught:
            list(ferry.open(path, schema=schema))
        assert caught.value.path == str(path)
        assert "raw=True" in caught.value.hint
        with ferry.open(path, schema=schema, on_error="skip") as records:
            assert [row["a"] for row in records] == [7, 7, 7]
            assert [(one.record, one.size) for one in records.damages] == [(2, 16 + len(lie))]


def test_three_bytes_of_a_float(tmp_path):
    """A run of float32 values that ends inside one."""
    path = tmp_path / "floats.tfrecord"
    path.write_bytes(frame(example((b"a", field(2, field(1, b"abc"))))))

    with pytest.raises(ferry.FormatError, match="3 bytes of packed float32"):
        list(ferry.open(path, schema={"a": "float32"}))


def test_another_kind_in_a_later_record(tmp_path):
    """Where one record breaks what the others hold, it is named, with the way out."""
    path = tmp_path / "kinds.tfrecord"
    float_list = field(2, field(1, bytes(4)))
    kinds = [INTEGER] * 20 + [float_list, INTEGER]
    path.write_bytes(b"".join(frame(example((b"a", kind))) for kind in kinds))

    for schema in (None, {"a": "int64"}):
        with pytest.raises(ferry.FormatError, match=r"record 20.*expected int64") as caught:
            list(ferry.open(path, schema=schema))
        assert caught.value.path == str(path)
        assert "schema=" in caught.value.hint
    with ferry.open(path, schema={"a": "int64"}, on_error="skip") as records:
        assert len(list(records)) == 21


def test_two_kinds_in_one_feature(tmp_path):
    """Of several kinds in one Feature the last one counts, as in protobuf."""
    path = tmp_path / "kinds.tfrecord"
    path.write_bytes(frame(example((b"a", field(1, field(1, b"x")) + INTEGER))))

    assert [row["a"] for row in ferry.open(path)] == [7]


def test_key_that_is_not_text(tmp_path):
    """A key that is not UTF-8 has no column; a schema of the others leaves it out."""
    path = tmp_path / "keys.tfrecord"
    path.write_bytes(frame(example((b"a", INTEGER), (b"\xff", INTEGER))))

    with pytest.raises(ferry.FormatError, match="expected UTF-8") as caught:
        list(ferry.open(path))
    assert caught.value.path == str(path)
    assert [dict(row) for row in ferry.open(path, schema={"a": "int64"})] == [{"a": 7}]


def features(count):
    """Records that each have a feature of their own."""
    names = (b"f%d" % number for number in range(count))
    return b"".join(frame(example((name, INTEGER))) for name in names)


def test_features_of_their_own(tmp_path, monkeypatch):
    """What is known of a feature is gone through where a record has it, not for each segment."""
    path, seen = tmp_path / "x.tfrecord", []
    path.write_bytes(features(20_000))
    make = survey._statistics
    monkeypatch.setattr(survey, "_statistics", lambda *row: seen.append(row) or make(*row))

    assert ferry.verify(path).sound
    assert len(seen) < 100_000


def test_more_features_than_the_bytes_justify(tmp_path, monkeypatch):
    """What stands for features is counted while they are found."""
    path = tmp_path / "x.tfrecord"
    path.write_bytes(features(5000))
    monkeypatch.setattr(limits, "memory", 1 << 20)

    with pytest.raises(LimitError, match=r"what stands for [0-9]+ features"):
        ferry.open(path, infer="all").schema  # noqa: B018  # it is found when asked for
