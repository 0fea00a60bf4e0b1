from __future__ import annotations

import io
import random
import stat
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tensorferry import limits
from tensorferry.codecs.zip import archive as archives
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.storage import open_source


class Bytes:
    """The least that an archive is read from; remembers what was asked for."""

    path = "a.zip"

    def __init__(self, data):
        self.data = memoryview(data)
        self.size = len(data)
        self.asked = []

    def range(self, start, stop):
        assert 0 <= start <= stop <= self.size
        self.asked.append((start, stop))
        return self.data[start:stop]


def open_bytes(data, **options):
    return archives.open_archive(Bytes(data), **options)


def contents(data):
    archive = open_bytes(data)
    return {name: bytes(archive.read(name)) for name in archive}


class Unseekable(io.RawIOBase):
    """A file as a pipe is one."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


MEMBERS = {"a.npy": b"tensors " * 30, "b/c.txt": b"", "ü.bin": bytes(range(256))}


def zipped(
    members=MEMBERS, *, method=zipfile.ZIP_DEFLATED, seekable=True, force_zip64=False, comment=b""
):
    """An archive by Python's own writer."""
    file = io.BytesIO() if seekable else Unseekable()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            with archive.open(name, "w", force_zip64=force_zip64) as member:
                member.write(data)
        archive.comment = comment
    return file.getvalue() if seekable else bytes(file.data)


def written(members=MEMBERS, method=zipfile.ZIP_DEFLATED, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


@settings(max_examples=50)
@given(
    members=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\\/.:"), min_size=1),
        st.tuples(st.binary(max_size=300), st.integers(0, 50), st.sampled_from([0, 8])),
        max_size=5,
    ),
    comment=st.binary(max_size=30),
    lazy=st.booleans(),
)
def test_reads_what_the_standard_library_writes(members, comment, lazy):
    """Names, sizes and every byte of archives by zipfile, stored and deflated."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, (data, times, method) in members.items():
            archive.writestr(name, data * times, method)
        archive.comment = comment
    ours = open_bytes(file.getvalue(), lazy=lazy)

    assert list(ours) == list(members)
    for name, (data, times, method) in members.items():
        member = ours.members[name]
        assert (member.name, member.size, member.method) == (name, len(data * times), method)
        assert ours.read(name) == data * times
        assert b"".join(ours.blocks(name, size=7)) == data * times
        assert ours.head(name, 10) == (data * times)[:10]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize(("force_zip64", "limit"), [(True, 1 << 31), (False, 1 << 31), (True, 10)])
def test_reads_every_layout_of_the_standard_library(
    method, seekable, force_zip64, limit, monkeypatch
):
    """Descriptors of a stream, zip64 where it is forced, and where it is needed."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    file = io.BytesIO() if seekable else Unseekable()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in MEMBERS.items():
            with archive.open(name, "w", force_zip64=force_zip64) as member:
                member.write(data)
    data = file.getvalue() if seekable else bytes(file.data)

    assert contents(data) == MEMBERS


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_what_numpy_writes(save):
    """The members of an npz file are npy files."""
    arrays = {"x": np.arange(1000.0), "w:0": np.ones((2, 3), np.int8), "empty": np.zeros(0)}
    file = io.BytesIO()
    save(file, **arrays)
    archive = open_bytes(file.getvalue())

    assert list(archive) == [f"{name}.npy" for name in arrays]
    for name, array in arrays.items():
        result = np.load(io.BytesIO(archive.read(f"{name}.npy")))
        np.testing.assert_array_equal(result, array)


def test_an_empty_archive():
    """Nothing but an end, with a comment or not."""
    assert contents(zipped({})) == {}
    assert contents(zipped({}, comment=b"nothing")) == {}


def test_stored_members_are_views():
    """Nothing is copied, and nothing can be changed."""
    data = written({"x": b"0123456789"}, zipfile.ZIP_STORED)
    view = open_bytes(data).read("x")

    assert view.readonly
    assert np.shares_memory(np.frombuffer(view, "u1"), np.frombuffer(data, "u1"))


def test_directories_are_left_out():
    """An entry of a directory is no member; one with bytes is refused."""
    assert contents(written({"a/": b"", "a/b": b"1"})) == {"a/b": b"1"}
    with pytest.raises(FormatError, match="directory 'a/' has 1 bytes"):
        open_bytes(written({"a/": b"1"}, zipfile.ZIP_STORED))


def test_lazily():
    """Opening reads the end and the directory alone, and reading a member its own bytes."""
    data = written({f"{n}": b"x" * 100_000 for n in range(10)}, zipfile.ZIP_STORED)
    source = Bytes(data)
    archive = archives.open_archive(source, lazy=True)

    assert all(start >= 800_000 or stop <= 4 for start, stop in source.asked)
    source.asked.clear()
    archive.read("3")
    start = archive.offset("3")
    assert all(start - 40 <= begin and end <= start + 100_040 for begin, end in source.asked)


def test_head_inflates_no_more_than_it_needs():
    """The first bytes of a large member come from its first chunk."""
    source = Bytes(written({"x": random.Random(0).randbytes(3 << 20)}))
    archive = archives.open_archive(source)
    source.asked.clear()

    assert len(archive.head("x", 100)) == 100
    assert sum(stop - start for start, stop in source.asked) <= archives.CHUNK


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_is_one_request(method):
    """Over a network each request costs: reading a member is one, streaming it a few."""
    data = random.Random(0).randbytes(3 << 20)
    source = Bytes(written({"x": data}, method))
    archive = archives.open_archive(source)
    source.asked.clear()

    assert archive.read("x") == data
    assert len(source.asked) == 1
    assert b"".join(archive.blocks("x")) == data
    assert len(source.asked) <= 5


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_cut_at_every_offset(seekable, method):
    """What is cut is refused."""
    data = zipped(method=method, seekable=seekable)
    for size in range(len(data)):
        with pytest.raises(FormatError):
            contents(data[:size])
    with pytest.raises(TruncatedError, match="no end of its directory"):
        contents(data[:-1])


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("limit", [1 << 31, 10])
def test_every_bit_flipped(seekable, method, limit, monkeypatch):
    """A flipped bit is found, or does not matter."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    members = {"a.npy": b"tensors " * 6, "b": b"0123456789"}
    data = zipped(members, method=method, seekable=seekable, force_zip64=True)
    flipped = bytearray(data)
    same = 0
    for bit in range(8 * len(data)):
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert contents(bytes(flipped)) == members, bit
            same += 1
        except FerryError:
            pass
        flipped[bit // 8] ^= 1 << bit % 8
    assert same < 4 * len(data)


def test_a_flipped_bit_in_lazily_opened_members():
    """What the directory says falsely is found when the member is read."""
    data = bytearray(written({"abc": b"1"}))
    data[data.rindex(b"abc")] ^= 2
    archive = open_bytes(data, lazy=True)

    with pytest.raises(FormatError, match="name of member 'cbc' is b'abc' in its header"):
        archive.read("cbc")


def test_checksums():
    """A changed byte is found unless that is not wanted; blocks find it at the end."""
    data = bytearray(written({"x": b"0123456789"}, zipfile.ZIP_STORED))
    data[data.index(b"0123456789") + 5] = 0  # the headers may have a "5" in their time, too
    archive = open_bytes(data)

    with pytest.raises(ChecksumError, match=r"a.zip, byte 31: member 'x' is corrupt: its checksum"):
        archive.read("x")
    with pytest.raises(ChecksumError):
        list(archive.blocks("x"))
    assert archive.read("x", verify=False) == b"01234\x006789"


def entry(data, position=-1):
    """Where an entry of the directory begins."""
    places = [n for n in range(len(data)) if data.startswith(b"PK\x01\x02", n)]
    return places[position]


def patched(data, offset, form, *values):
    data = bytearray(data)
    struct.pack_into(form, data, offset, *values)
    return bytes(data)


def both(data, field, form, value):
    """The archive of one member, a field changed in both its headers (as in the local one)."""
    data = patched(data, field, form, value)
    return patched(data, entry(data) + field + 2, form, value)


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../x", "..", "/x", "C:/x", "a\\b", "a\0b", ""],
)
def test_names_that_lead_elsewhere(name):
    """Names that are absolute or climb, and those that some reader cuts or splits."""
    raw = name.encode()
    data = written({"n" * len(raw): b"1"}).replace(b"n" * len(raw), raw) if raw else None
    if data is None:
        local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 0, 0, 0, 0)
        central = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, *(0,) * 14)
        data = local + central + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 46, 30, 0)
    with pytest.raises(FormatError, match="name"):
        open_bytes(data)


def test_links():
    """A link is no file, nor is a device."""
    for kind in (stat.S_IFLNK, stat.S_IFCHR):
        info = zipfile.ZipInfo("x")
        info.external_attr = (kind | 0o777) << 16
        with pytest.raises(FormatError, match="expected a file"):
            open_bytes(written({info: b"/etc/passwd"}))


def test_encrypted():
    """No passwords here."""
    for bit in (0, 6, 13):
        with pytest.raises(UnsupportedError, match="is encrypted"):
            open_bytes(both(written({"x": b"1"}), 6, "<H", 1 << bit))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods(method):
    """They are named."""
    with pytest.raises(UnsupportedError, match=r"method 1[24] \((bzip2|lzma)\)"):
        open_bytes(written({"x": b"1"}, method))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_a_name():
    """Readers differ in which they take."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", b"1")
        archive.writestr("x", b"2")
    with pytest.raises(FormatError, match="two members are named 'x'"):
        open_bytes(file.getvalue())


@pytest.mark.parametrize(
    ("what", "offset", "form", "value"),
    [
        ("flags", 6, "<H", 1 << 11),
        ("method", 8, "<H", 8),
        ("checksum", 14, "<I", 5),
        ("size", 22, "<I", 4),
    ],
)
def test_headers_that_contradict_the_directory(what, offset, form, value):
    """The local header and the directory say the same."""
    with pytest.raises(FormatError, match=f"{what} of member 'x' is .* in its header"):
        open_bytes(patched(written({"x": b"12345"}, zipfile.ZIP_STORED), offset, form, value))


def test_overlapping_members():
    """Two members of the same bytes, or one inside the other."""
    data = written({"a": b"1" * 200, "b": b"2"}, zipfile.ZIP_STORED)
    with pytest.raises(FormatError, match="into what begins at byte 0"):
        open_bytes(patched(data, entry(data) + 42, "<I", 0))
    # A quine of sorts: the second member lies in the first one's data.
    inner = written({"b": b"2"}, zipfile.ZIP_STORED)[:32]
    data = written({"a": inner, "b": b"2"}, zipfile.ZIP_STORED)
    with pytest.raises(FormatError, match=r"member 'a' reaches to byte 63, into .* byte 31"):
        open_bytes(patched(data, entry(data) + 42, "<I", 31))


def test_a_long_extra_field_pushes_nothing_into_the_next_member():
    """The end of the data counts, not the least it could be."""
    data = written({"a": b"1", "b": b"2"}, zipfile.ZIP_STORED)
    with pytest.raises(FormatError, match="reaches to byte 42, into what begins at byte 32"):
        open_bytes(patched(data, 28, "<H", 10))


def test_bytes_around_the_archive():
    """The archive fills its file: nothing before it, nothing behind it, one end."""
    data = zipped()
    with pytest.raises(FormatError, match="expected to end at byte"):
        open_bytes(b"#!/bin/sh\n" + data)
    moved = io.BytesIO(b"prefix")
    with zipfile.ZipFile(moved, "a") as archive:  # offsets count from the file's first byte
        archive.writestr("x", b"1")
    with pytest.raises(FormatError, match="the archive begins at byte 6, expected 0"):
        open_bytes(moved.getvalue())
    with pytest.raises(FormatError, match="3 bytes follow the end of the archive"):
        open_bytes(data + b"abc")
    with pytest.raises(FormatError, match="two ends"):
        open_bytes(zipped(comment=zipped({"other": b"1"})[-22:]))


def test_other_files():
    """What is no archive is called so."""
    for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(100), b"version https://git-lfs", bytes(1000)):
        with pytest.raises(FormatError, match="not a zip archive"):
            open_bytes(data)


def test_several_disks():
    """An archive is one file."""
    data = zipped()
    for offset in (4, 6):
        with pytest.raises(UnsupportedError, match="several disks"):
            open_bytes(patched(data, len(data) - 22 + offset, "<H", 1))
    with pytest.raises(UnsupportedError, match="on disk 1"):
        open_bytes(patched(data, entry(data) + 34, "<H", 1))


def test_files_and_streams(tmp_path):
    """A mapped file gives views of it; a stream is read into memory first."""
    path = tmp_path / "a.zip"
    path.write_bytes(written(method=zipfile.ZIP_STORED))
    with open_source(path) as source:
        archive = archives.open_archive(source)
        view = archive.read("a.npy")
        assert np.shares_memory(np.frombuffer(view, "u1"), np.frombuffer(source.buffer, "u1"))
    assert view == MEMBERS["a.npy"]

    class Stream:
        read = io.BytesIO(path.read_bytes()).read

    archive = archives.open_archive(open_source(Stream()))
    assert {name: archive.read(name) for name in archive} == MEMBERS


def test_streams_that_cannot_be_kept():
    """A source that never knows its size is refused with advice."""

    class Endless(Bytes):
        def range(self, start, stop):
            return b""

    source = Endless(b"")
    source.size = None
    with pytest.raises(UnsupportedError, match="copy it to a file first"):
        archives.open_archive(source)


def test_more_entries_than_there_are():
    """A count is held against the bytes that are there."""
    data = written({"x": b"1"})
    with pytest.raises(FormatError, match="directory of 65534 members"):
        open_bytes(patched(data, len(data) - 14, "<HH", 65534, 65534))


def test_sizes_that_lie():
    """A member is exactly as long as it says, and says nothing its bytes cannot be."""
    data = written({"x": b"1" * 1000})
    for size, message in [
        (999, "holds more than the 999 bytes it declares"),
        (1001, "holds 1000 bytes, declared are 1001"),
        (1 << 30, "which 11 deflated ones cannot be"),
    ]:
        archive = open_bytes(both(data, 22, "<I", size))
        assert archive.members["x"].size == size
        with pytest.raises(FormatError, match=message):
            archive.read("x")
        with pytest.raises(FormatError, match=message):
            list(archive.blocks("x", size=100))
    with pytest.raises(FormatError, match="is stored, but has 4 bytes and 5 stored ones"):
        open_bytes(both(written({"x": b"12345"}, zipfile.ZIP_STORED), 22, "<I", 4))


def test_bytes_behind_the_deflate_stream():
    """The stream takes all of what is stored."""
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = deflater.compress(b"1" * 50) + deflater.flush()
    data = written({"x": stream + b"secret"}, zipfile.ZIP_STORED)
    for field, form, value in [(8, "<H", 8), (14, "<I", zlib.crc32(b"1" * 50)), (22, "<I", 50)]:
        data = both(data, field, form, value)

    with pytest.raises(FormatError, match="6 bytes follow its deflate stream"):
        open_bytes(data).read("x")


def test_bombs(monkeypatch):
    """Beyond the budget, members may be 100 times the file; the hint says how to lift it."""
    zeros, numbers = bytes(3 << 20), np.arange(1 << 18, dtype="<i4").tobytes()
    archive = open_bytes(written({"zeros": zeros}))
    assert archive.read("zeros") == zeros
    monkeypatch.setattr(limits, "memory", 1 << 19)

    assert open_bytes(written({"numbers": numbers})).read("numbers") == numbers
    with pytest.raises(LimitError, match="3145728 bytes; 524288 are allowed") as caught:
        archive.read("zeros")
    assert "limits.memory" in str(caught.value)
    with pytest.raises(LimitError):
        list(archive.blocks("zeros"))


def test_more_than_4_gib_declared():
    """A zip64 size is held against the budget before anything is allocated."""
    data = zipped({"x": b"1" * 1000}, force_zip64=True)
    place = entry(data)
    field = struct.pack("<HHQ", 1, 8, 5 << 30)
    head = patched(data[: place + 47], place + 24, "<I", 0xFFFFFFFF)
    head = patched(patched(head, place + 30, "<H", len(field)), 35, "<Q", 5 << 30)
    end = patched(data[place + 47 :], 12, "<I", len(head) - place + len(field))

    with pytest.raises(LimitError, match="takes 5368709120 bytes"):
        open_bytes(head + field + end).read("x")


class Sparse(Bytes):
    """Mostly zeros, of any size."""

    def __init__(self, parts, size):
        self.parts, self.size, self.asked = parts, size, []

    def range(self, start, stop):
        data = bytearray(stop - start)
        for offset, part in self.parts:
            begin, end = max(offset, start), min(offset + len(part), stop)
            if begin < end:
                data[begin - start : end - start] = part[begin - offset : end - offset]
        return bytes(data)


def test_members_beyond_4_gib():
    """Offsets and sizes of eight bytes, where a member really is that large."""
    size = 5 << 30
    large = struct.pack("<4s5H3I2H", b"PK\x03\x04", 45, 0, 0, 0, 33, 0, *(0xFFFFFFFF,) * 2, 1, 20)
    large += b"a" + struct.pack("<HHQQ", 1, 16, size, size)
    second = len(large) + size
    small = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, zlib.crc32(b"2"), 1, 1, 1, 0)
    small += b"b2"
    form = "<4s6H3I5H2I"
    directory = struct.pack(
        form, b"PK\x01\x02", 45, 45, 0, 0, 0, 33, 0, *(0xFFFFFFFF,) * 2, 1, 20, 0, 0, 0, 0, 0
    )
    directory += b"a" + struct.pack("<HHQQ", 1, 16, size, size)
    numbers = (zlib.crc32(b"2"), 1, 1, 1, 12, 0, 0, 0, 0, 0xFFFFFFFF)
    directory += struct.pack(form, b"PK\x01\x02", 45, 45, 0, 0, 0, 33, *numbers)
    directory += b"b" + struct.pack("<HHQ", 1, 8, second)
    start = second + len(small)
    end = struct.pack(
        "<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, len(directory), start
    ) + struct.pack("<4sIQI", b"PK\x06\x07", 0, start + len(directory), 1)
    end += struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), 0xFFFFFFFF, 0)
    tail = small + directory + end
    archive = archives.open_archive(Sparse([(0, large), (second, tail)], second + len(tail)))

    assert archive.members["a"].size == size
    assert archive.head("a", 10) == bytes(10)
    assert archive.read("b") == b"2"


@settings(max_examples=300)
@given(data=st.data())
def test_random_damage(data):
    """Bytes changed at random, several at a time: an error of ours, or members that are right."""
    whole = bytearray(zipped(seekable=data.draw(st.booleans()), comment=b"remark"))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    try:
        found = contents(bytes(whole))
    except FerryError:
        return
    assert set(found.values()) <= set(MEMBERS.values())
