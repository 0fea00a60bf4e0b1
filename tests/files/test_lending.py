"""Arrays of files can be written into, and the files stay as they are."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.storage import open_source, source, system
from tensorferry.storage.pages import release
from tensorferry.storage.place import Place
from tensorferry.storage.source import Whole

NAME = "layers/dense/vars/0"  # which Keras' files have, too
VALUES = {
    NAME: np.arange(6, dtype=np.float32).reshape(2, 3),
    "layers/dense/vars/1": np.arange(5, dtype=np.float32),
}
LARGE = {name: np.resize(array, (1 << 17, 3)) for name, array in VALUES.items()}
SINGLE = {".npy", ".pb"}
SUFFIXES = [
    *(".npy", ".npz", ".safetensors", ".ckpt", ".weights.h5", ".structure", ".pb"),
    *(".safetensors.gz", "-00001-of-00002.safetensors"),
]


def owner_of(array: np.ndarray) -> object:
    """What the memory of an array belongs to."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writable(tmp_path, suffix):
    """Arrays of `load` and `open` are writable; the file, and who opens it anew, see nothing."""
    path = tmp_path / f"x{suffix}"
    if suffix.startswith("-0"):
        path = tmp_path / "x.safetensors"
        ferry.save(VALUES, path, shard_size=24)
    else:
        ferry.save(VALUES[NAME] if suffix in SINGLE else VALUES, path)
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    loaded = ferry.load(path)
    array = loaded if suffix in SINGLE else loaded[NAME]

    array[0, 1] = 77
    assert array[0, 1] == 77
    with ferry.open(path) as bundle:
        name = next(iter(bundle)) if suffix in SINGLE else NAME
        first = bundle[name]
        np.testing.assert_array_equal(first, VALUES[NAME])
        first[...] = 5
        assert (bundle[name] == 5).all()  # and no checksum is compared with what was written
        assert name in bundle.infos()
        assert list(bundle.problems()) == []
    np.testing.assert_array_equal(first, np.full((2, 3), 5))
    assert {file: file.read_bytes() for file in files} == files


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".ckpt", ".weights.h5"])
def test_no_copy(tmp_path, suffix):
    """The arrays are views of a private map of the file, or of the memory of a small one."""
    path = tmp_path / f"x{suffix}"
    for values, kind in ((LARGE, system.Private), (VALUES, Whole)):
        ferry.save(values[NAME] if suffix in SINGLE else values, path)
        with ferry.open(path) as bundle:
            assert isinstance(owner_of(next(iter(bundle.values()))), kind)


def test_small_files_stay(tmp_path):
    """The arrays of a small file stay what they were, whoever writes into the file or cuts it."""
    path = tmp_path / "x.safetensors"
    ferry.save(VALUES, path)
    with ferry.open(path) as bundle:
        path.write_bytes(b"short")
        np.testing.assert_array_equal(bundle[NAME], VALUES[NAME])


def test_a_file_shorter_than_its_size(tmp_path, monkeypatch):
    """A file that is cut while it is read is what was read of it."""
    path = tmp_path / "x.bin"
    path.write_bytes(b"0123456789")
    read = system.read_into

    def cutting(descriptor, target, offset):
        os.truncate(path, 4)
        return read(descriptor, target, offset)

    # Of a file that ends early, the native reader gives nothing.
    monkeypatch.setattr(source, "read_small", lambda path: None)
    monkeypatch.setattr(system, "read_into", cutting)
    with open_source(path) as opened:
        assert (opened.size, bytes(opened.everything())) == (4, b"0123")


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: np.frombuffer(data, np.uint8)])
def test_memory_of_others(kind):
    """Arrays in bytes that the caller gave are read-only, whoever may write into those."""
    for name in ("npz", "safetensors", "structure"):
        with ferry.open(kind(ferry.dumps(VALUES, format=name)), format=name) as bundle:
            assert not bundle[NAME].flags.writeable


def test_unpacked(tmp_path):
    """Arrays that had to be decompressed or fetched are writable, too."""
    ferry.save(VALUES, tmp_path / "x.npz", compression="deflate")
    for array in ferry.load(tmp_path / "x.npz").values():
        array[...] = 1
    sparse = ferry.SparseTensor.from_dense(np.eye(3))
    ferry.save({"s": sparse}, tmp_path / "s.npz")
    with ferry.open(tmp_path / "s.npz") as bundle:
        bundle["s"].values[...] = 4
        assert (bundle["s"].values == 4).all()


def test_lent_pages_are_kept(tmp_path):
    """Pages that a program may have changed are not given back; those of a reader are."""
    path = tmp_path / "x.npy"
    ferry.save(np.zeros(1 << 18), path)
    array = ferry.load(path)
    array[:] = 3
    release(array)
    assert (array == 3).all()
    with open_source(path) as source:
        assert not source.again().buffer.obj.lent
    place = Place(str(path))
    place.lend()
    assert place.open().buffer.readonly is False
    assert place.companion(str(path)).open().buffer.readonly is False


def test_operations_lend_nothing(tmp_path):
    """What reads a file through, and is not seen by a program, may give its pages back."""
    ferry.save(LARGE, tmp_path / "x.safetensors")
    from tensorferry.files.open import Reading

    with Reading().open(tmp_path / "x.safetensors") as bundle:
        array = bundle[NAME]
        assert not array.flags.writeable
        assert not owner_of(array).lent
