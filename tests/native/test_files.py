"""Files: two of one thing opened together, room on the disk, and names that are exchanged."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from tensorferry import _native
from tensorferry.storage import system

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has none of these calls")
MOST = 1000


@pytest.fixture
def pair(tmp_path):
    """The paths of two files."""
    (tmp_path / "first").write_bytes(b"index")
    (tmp_path / "second").write_bytes(b"data" * 1000)
    return str(tmp_path / "first"), str(tmp_path / "second")


def test_a_pair(pair):
    """The bytes of the first file, and the second one open, of any size."""
    content, descriptor, held = _native.open_pair(*pair, MOST, 3999, bytearray)
    try:
        assert held is None
        assert content == b"index"
        assert os.pread(descriptor, 100, 0) == (b"data" * 25)
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


def test_a_small_pair(pair):
    """The bytes of both, and the identity of the second; no descriptor is left."""
    before = len(os.listdir("/dev/fd"))
    content, descriptor, (data, identity) = _native.open_pair(*pair, MOST, 4000, bytearray)
    found = os.stat(pair[1])

    assert (content, descriptor, data) == (b"index", -1, b"data" * 1000)
    assert identity == (found.st_ino, found.st_size, found.st_mtime_ns)
    for memory in (bytes, lambda size: bytearray(size - 1)):
        with pytest.raises((TypeError, ValueError)):
            _native.open_pair(*pair, MOST, 4000, memory)
    assert len(os.listdir("/dev/fd")) == before


def test_what_is_no_pair(pair, tmp_path):
    """Missing, empty and large files, folders, pipes and no names; no descriptor is left."""
    first, second = pair
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/dev/fd"))
    for path in ("missing", "empty", "pipe", ".", "zero\0byte", "half\udc80\ud800"):
        assert _native.open_pair(str(tmp_path / path), second, MOST, MOST, bytearray) is None
        if path != "empty":  # data of no bytes are fine
            other = str(tmp_path / path)
            assert _native.open_pair(first, other, MOST, MOST, bytearray) is None
    assert _native.open_pair(second, first, MOST, MOST, bytearray) is None
    assert len(os.listdir("/dev/fd")) == before


def test_room(tmp_path):
    """Room does not change a file; there is none for what is no file."""
    with open(tmp_path / "x", "wb") as file:
        if _native.make_room(file.fileno(), 0, 1 << 20):
            assert os.fstat(file.fileno()).st_blocks * 512 >= 1 << 20
        assert os.fstat(file.fileno()).st_size == 0
        assert not _native.make_room(file.fileno(), 0, 0)
        assert not _native.make_room(file.fileno(), -1, 10)
    assert not _native.make_room(-1, 0, 10)


def test_exchange(tmp_path):
    """Two names change their files in one step; otherwise the number of the error is given."""
    one, other, none = (os.fsencode(tmp_path / name) for name in ("one", "other", "none"))
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "other").write_bytes(b"2")
    if _native.exchange(one, other) in system.NO_EXCHANGE:
        pytest.skip("this file system exchanges no names")
    assert (tmp_path / "one").read_bytes() == b"2"
    assert (tmp_path / "other").read_bytes() == b"1"
    assert _native.exchange(one, none) == _native.exchange(none, one) == errno.ENOENT
    assert _native.exchange(one, other + b"\0") == errno.EINVAL
    assert sorted(os.listdir(tmp_path)) == ["one", "other"]


def numbers(*values):
    """A column."""
    return np.array(values, np.int64)


def test_sound():
    """Each range of bytes must have its checksum; one that is not there is not sound."""
    data = os.urandom(5000)
    offsets, sizes = numbers(0, 100, 5000, 7), numbers(100, 4900, 0, 0)
    ranges = zip(offsets.tolist(), sizes.tolist(), strict=True)
    sums = numbers(*(masked(data[start : start + size]) for start, size in ranges))
    assert _native.bundle_sound(data, offsets, sizes, sums)
    assert _native.bundle_sound(b"", numbers(), numbers(), numbers())
    for column in (offsets, sizes, sums):
        for place in range(4):
            for wrong in (-1, 1 << 62, -(1 << 63)):
                kept, column[place] = column[place], wrong
                assert not _native.bundle_sound(data, offsets, sizes, sums)
                column[place] = kept
    for place in range(0, 5000, 97):
        flipped = bytearray(data)
        flipped[place] ^= 1
        assert not _native.bundle_sound(flipped, offsets, sizes, sums)


def masked(data):
    """The checksum as it is stored."""
    crc = _native.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
