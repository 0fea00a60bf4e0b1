from __future__ import annotations

import io
import random
import struct
import threading
import tracemalloc
import zipfile

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib import format as npy

from tensorferry.codecs import deflate
from tensorferry.codecs.zip import (
    archive as archives,
    directory as zip_directory,
    writer as zip_writer,
)
from tensorferry.codecs.zip.writer import Writer
from tensorferry.errors import UnsupportedError


class Sink(list):
    """Keeps the buffers as they are, and cannot seek."""

    write = list.append

    def joined(self):
        return b"".join(bytes(buffer) for buffer in self)


class Bytes:
    path = "a.zip"

    def __init__(self, data):
        self.data, self.size = memoryview(data), len(data)

    def range(self, start, stop):
        return self.data[start:stop]


def written(members, **options):
    sink = Sink()
    with Writer(sink, **options) as archive:
        for name, data in members.items():
            archive.write(name, data)
    return sink.joined()


def check(data, members):
    """The standard library and we find the same members in it, without damage."""
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert theirs.testzip() is None
        assert {name: theirs.read(name) for name in theirs.namelist()} == members
    ours = archives.open_archive(Bytes(data))
    assert {name: bytes(ours.read(name)) for name in ours} == members


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0\\/.:"), min_size=1)
CONTENTS = st.builds(lambda data, times: data * times, st.binary(max_size=300), st.integers(0, 40))


@settings(max_examples=100)
@given(
    members=st.dictionaries(NAMES, CONTENTS, max_size=5),
    deflate=st.booleans(),
    level=st.none() | st.integers(0, 9),
    align=st.sampled_from([1, 2, 4, 64, 4096]),
    small=st.booleans(),
    zip64=st.booleans(),
    blocks=st.booleans(),
)
def test_the_standard_library_reads_ours(members, deflate, level, align, small, zip64, blocks):
    """Stored and deflated, whole and in blocks, with descriptors and zip64: all is read."""
    sink = Sink()
    with pytest.MonkeyPatch.context() as patch:
        if small:  # so that small members are large ones
            patch.setattr(zip_writer, "PIECE", 100)
            patch.setattr(zip_writer, "HELD", 150)
        if zip64:
            patch.setattr(zip_writer, "ZIP64_FROM", 200)
        options = {"deflate": deflate, "level": level, "align": align}
        with Writer(sink, **options) as archive:
            for name, data in members.items():
                pieces = [data[start : start + 70] for start in range(0, len(data), 70)]
                if blocks:
                    archive.write_blocks(name, iter(pieces))
                else:
                    archive.write(name, *pieces)
    data = sink.joined()

    check(data, members)
    archive = archives.open_archive(Bytes(data))
    for name, member in archive.members.items():
        if member.method == zip_directory.STORED:
            assert archive.offset(name) % align == 0


@pytest.mark.parametrize("deflate", [False, True])
def test_numpy_reads_ours(deflate):
    """An npz file is an archive of npy files."""
    arrays = {"x": np.arange(100_000.0), "y": np.ones((2, 3), "f4"), "empty": np.zeros((0, 4))}
    sink = Sink()
    with Writer(sink, deflate=deflate) as archive:
        for name, array in arrays.items():
            header = io.BytesIO()
            npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
            archive.write(f"{name}.npy", header.getvalue(), array)
    with np.load(io.BytesIO(sink.joined())) as loaded:
        assert list(loaded) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)


def test_stored_buffers_are_not_copied():
    """The caller's memory goes to the sink, at an aligned place in the file."""
    array = np.ones((100, 1000), ml_dtypes.bfloat16)
    array[7] = 3
    sink = Sink()
    with Writer(sink) as archive:
        archive.write("a", b"x")
        archive.write("b", array)
    shared = [np.shares_memory(np.frombuffer(part, "u1"), array.view("u1")) for part in sink]
    data = sink.joined()

    assert sum(shared) == 1
    assert data.index(array.tobytes()) % 64 == 0
    check(data, {"a": b"x", "b": array.tobytes()})


@settings(max_examples=100)
@given(
    members=st.dictionaries(NAMES, st.tuples(st.binary(max_size=90), st.integers(0, 300))),
    align=st.sampled_from([1, 2, 5, 8, 64, 4096]),
    far=st.booleans(),
)
def test_small_members_are_written_together(members, align, far):
    """They have the bytes that they have one by one, wherever they stand."""
    given = [(name, head, np.arange(n, dtype="u2")) for name, (head, n) in members.items()]
    together, alone = Sink(), Sink()
    with pytest.MonkeyPatch.context() as patch:
        if far:
            patch.setattr(zip_writer, "_FAR", 0)
        with Writer(together, align=align) as archive:
            archive.write("first", b"1")
            archive.write_small(given[:3])
            archive.write_small(given[3:])
    with Writer(alone, align=align) as archive:
        archive.write("first", b"1")
        for name, head, array in given:
            archive.write(name, head, array)

    assert together.joined() == alone.joined()


def test_the_bytes():
    """The smallest archive, byte by byte: no time, no extra field, a regular file."""
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0xE8B7BE43, 1, 1, 1, 0)
    entry = struct.pack("<4s6H3I", b"PK\x01\x02", 0x314, 20, 0, 0, 0, 33, 0xE8B7BE43, 1, 1)
    entry += struct.pack("<5H2I", 1, 0, 0, 0, 0, 0o100644 << 16, 0)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 47, 32, 0)

    assert written({"n": b"a"}, align=1) == local + b"na" + entry + b"n" + end
    assert written({}) == struct.pack("<4s4H2IH", b"PK\x05\x06", *(0,) * 7)


def test_threads_change_nothing(monkeypatch):
    """The same bytes, however many pieces are deflated at the same time."""
    members = {"x": bytes(range(256)) * 30_000, "y": random.Random(0).randbytes(5 << 20)}
    monkeypatch.setattr(deflate, "cores", lambda: 1)
    one = written(members, deflate=True)
    monkeypatch.setattr(deflate, "cores", lambda: 3)

    assert written(members, deflate=True) == one
    check(one, members)


def test_what_does_not_shrink_is_stored():
    """Deflating random bytes makes them longer: they stay as they are, and readable in place."""
    noise = random.Random(0).randbytes(10_000)
    archive = archives.open_archive(Bytes(written({"x": noise, "y": b""}, deflate=True)))

    assert archive.members["x"].method == zip_directory.STORED
    assert archive.members["y"].method == zip_directory.STORED


def test_one_member_otherwise():
    """A member need not follow the writer's choice."""
    sink = Sink()
    with Writer(sink, deflate=True) as archive:
        archive.write("a", b"a" * 100, deflate=False)
        archive.write("b", b"a" * 100)
        archive.write_blocks("c", [b"a" * 100], deflate=False)
    members = archives.open_archive(Bytes(sink.joined())).members

    assert [member.method for member in members.values()] == [0, 8, 0]


@pytest.mark.parametrize("deflated", [False, True])
def test_memory_is_bounded(deflated, monkeypatch):
    """Of a member in blocks, no more is held than a few pieces."""

    class Nowhere:
        def write(self, buffer):
            pass

    def blocks():
        for _ in range(100):
            yield bytes(1 << 20)

    monkeypatch.setattr(deflate, "cores", lambda: 2)
    tracemalloc.start()
    with Writer(Nowhere(), deflate=deflated) as archive:
        archive.write_blocks("x", blocks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 60 << 20


def test_many_members():
    """More than two bytes can count."""
    members = {str(number): b"" for number in range(65_540)}
    data = written(members, align=1)

    assert list(archives.open_archive(Bytes(data))) == list(members)
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert theirs.namelist() == list(members)


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a\\b", "a\0", "a/", "C:/a", "there", "\ud800", "x" * 70_000]
)
def test_names_that_are_refused(name):
    """What would be refused on reading is not written; what was written before stays good."""
    sink = Sink()
    with Writer(sink) as archive:
        archive.write("there", b"1")
        for write in (archive.write, archive.write_blocks):
            with pytest.raises(UnsupportedError, match="the name"):
                write(name, [])
        with pytest.raises(UnsupportedError, match="the name"):
            archive.write_small([(name, b"", np.zeros(1))])
    check(sink.joined(), {"there": b"1"})


def test_options_that_are_refused():
    """Levels and alignments that do not exist."""
    for options in ({"level": 10}, {"level": -1}, {"align": 0}, {"align": 1 << 16}):
        with pytest.raises(UnsupportedError, match="expected"):
            Writer(Sink(), **options)


def test_an_error_leaves_no_archive():
    """A member that broke off cannot be followed by a directory that says it is whole."""
    count = threading.active_count()

    def blocks():
        yield bytes(40 << 20)
        raise RuntimeError("the reader broke")

    sink = Sink()
    with pytest.raises(RuntimeError, match="the reader broke"), Writer(sink, deflate=True) as out:
        out.write_blocks("x", blocks())
    assert not any(bytes(part).startswith(b"PK\x05\x06") for part in sink)
    assert threading.active_count() == count
    with pytest.raises(ValueError, match="'x' was not written to its end"):
        out.finish()
