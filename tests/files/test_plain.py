"""Files of plain arrays: a short way that differs from the long one in nothing but time."""

import gzip
import io
import json
import os
import pickle
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import tensorferry as ferry
from tensorferry import _native
from tensorferry.errors import FormatError
from tensorferry.files.open import Reading
from tensorferry.files.plain import look, value_of
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.detect import is_open, recognise
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE, Whole

VALUES = {
    "plain.safetensors": {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array(3.0)},
    "none.safetensors": {},
    "empty.safetensors": {"a": np.zeros((0, 3), "i8"), "b": np.zeros(2, "u1")},
    "narrow.safetensors": {"a": np.array([True, False])},
    "bfloat16.safetensors": {"a": np.arange(4).astype(ml_dtypes.bfloat16)},
    "plain.npy": np.arange(6, dtype="i2").reshape(2, 3),
    "one.npy": np.float32(2),
    "large.npy": np.arange(SMALL_FILE, dtype="u4"),
    "large.safetensors": {"a": np.arange(SMALL_FILE, dtype="u4"), "b": np.array([True])},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("lends", [False, True])
def test_the_short_way_gives_what_the_long_one_gives(tmp_path, name, lends):
    """Values, dtypes, infos, metadata, files, versions and whether arrays are writable."""
    path = str(tmp_path / name)
    value = VALUES[name]
    if name.endswith(".npy"):
        np.save(path, value)
    else:
        safetensors.numpy.save_file(value, path, metadata={"step": "9"})
    found = look(path)
    assert found is not None
    how = Reading(lends=lends)

    with how.open_found(found) as short, how.open_any(path) as long:
        assert same(short.value(), long.value())
        assert list(short) == list(long)
        for tensor in long:
            assert same(short[tensor], long[tensor])
            assert short[tensor].flags.writeable == long[tensor].flags.writeable
        assert dict(short.info) == dict(long.info)
        assert dict(short.infos()) == dict(long.infos())
        for fact in ("metadata", "files", "version", "format", "layout", "path", "checksums"):
            assert getattr(short, fact) == getattr(long, fact)
        assert short.place == long.place
        assert short.place.open().identity == long.place.open().identity
        assert pickle.loads(pickle.dumps(short)).place == long.place
    loaded = ferry.load(path)
    assert same(loaded, Reading(lends=True).open_any(path).value())
    assert all(array.flags.writeable for array in arrays_of(loaded))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", [name for name in VALUES if "large" not in name])
def test_bytes_have_a_short_way_too(name, kind):
    """The same values as the long way gives, and none of them writable; damage is its error."""
    value = VALUES[name]
    if name.endswith(".npy"):
        file = io.BytesIO()
        np.save(file, value)
        data = file.getvalue()
    else:
        data = safetensors.numpy.save(value, metadata={"step": "9"})

    assert value_of(data) is not None
    for named in (None, name.partition(".")[2]):
        short = ferry.loads(kind(data), format=named)
        with Reading(named).open_any(Place(data)) as opened:
            assert same(short, opened.value())
        assert not any(array.flags.writeable for array in arrays_of(short))
    for end in range(len(data)):
        if value_of(data[:end]) is None:
            with pytest.raises(FormatError):
                ferry.loads(data[:end])


def test_bytes_that_are_something_else_go_the_long_way():
    """Compressed ones, records whose first bytes look like a header, and files with a note."""
    data = safetensors.numpy.save({"a": np.arange(3)})

    assert value_of(gzip.compress(data)) is None
    assert value_of(data, "npy") is None
    assert value_of(data, "npz") is None
    assert value_of(b"") is None
    assert value_of(ferry.dumps({"a": [np.arange(3), "text"]}, format="safetensors")) is None
    assert same(ferry.loads(gzip.compress(data)), {"a": np.arange(3)})


def test_paths_have_the_short_way(tmp_path):
    """However a path is given, but as bytes."""
    path = tmp_path / "x.npy"
    np.save(path, np.arange(3))

    assert Reading().look(path) is not None
    assert Reading().look(str(path)) is not None
    assert Reading().look(ferry.save(np.arange(3), path)) is not None
    assert Reading().look(os.fsencode(path)) is None
    assert Reading().look(5) is None


def same(one, other):
    """Whether two values are the same, bit by bit."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def arrays_of(value):
    """The arrays of a value."""
    return list(value.values()) if isinstance(value, dict) else [value]


def test_bits_that_a_dtype_does_not_have_are_cleaned(tmp_path):
    """A bool of 2 is True, as in every other file."""
    path = str(tmp_path / "x.safetensors")
    safetensors.numpy.save_file({"a": np.zeros(2, np.bool_)}, path)
    (tmp_path / "x.safetensors").write_bytes((tmp_path / "x.safetensors").read_bytes()[:-1] + b"\2")

    assert look(path) is not None
    assert ferry.load(path)["a"].tobytes() == b"\0\1"
    with ferry.open(path) as bundle:
        assert bundle["a"].tobytes() == b"\0\1"


def test_what_is_not_plain_goes_the_long_way(tmp_path):
    """Notes, sidecars, compression, other orders, records, objects, folders."""
    ferry.save({"a": [np.ones(2)]}, tmp_path / "nested.safetensors", durable=False)
    ferry.save({"a": np.array([b"x"], object)}, tmp_path / "text.safetensors", durable=False)
    ferry.save(np.ones(3), tmp_path / "beside.npy", metadata={"step": 3}, durable=False)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.ones((2, 3))))
    np.save(tmp_path / "big-endian.npy", np.arange(3, dtype=">i4"))
    np.save(tmp_path / "record.npy", np.zeros(2, [("x", "f4"), ("y", "i8")]))
    np.save(tmp_path / "object.npy", np.array([None]), allow_pickle=True)
    (tmp_path / "zero.npy").write_bytes(b"")
    (tmp_path / "folder.npy").mkdir()
    os.symlink("nowhere", tmp_path / "link.npy")
    plain = ferry.dumps(np.ones(3), format="npy")
    ferry.save(np.ones(3), tmp_path / "packed.npy.gz", durable=False)
    os.rename(tmp_path / "packed.npy.gz", tmp_path / "packed.npy")
    (tmp_path / "other.bin").write_bytes(plain)

    for path in [*tmp_path.iterdir(), tmp_path / "missing.npy"]:
        assert look(str(path)) is None
    for name in ("zero\0byte.npy", "half\udc80\ud800.npy", "file:///x.npy", "s3://bucket/x.npy"):
        assert look(name) is None
    assert ferry.open(str(tmp_path / "beside.npy")).metadata == {"step": 3}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_is_not_touched(tmp_path):
    """Whoever waits to write into it waits on."""
    os.mkfifo(tmp_path / "x.npy")
    assert _native.read_small(str(tmp_path / "x.npy"), SMALL_FILE, Whole) is None


@pytest.mark.parametrize("name", ["x.safetensors", "x.npy"])
def test_damage_is_reported_by_the_long_way(tmp_path, name):
    """A file cut anywhere gives the error that it gives by any other name, with its offset."""
    ferry.save({"a": np.ones(2)} if "safe" in name else np.ones(2), tmp_path / name, durable=False)
    data = (tmp_path / name).read_bytes()
    for size in range(len(data)):
        (tmp_path / name).write_bytes(data[:size])
        assert look(str(tmp_path / name)) is None
        with pytest.raises(ferry.FerryError) as short:
            ferry.load(str(tmp_path / name))
        with pytest.raises(ferry.FerryError) as long:
            Reading().open_any(str(tmp_path / name))
        assert str(short.value) == str(long.value)


def test_first_bytes_that_mean_something_else_are_left_to_detection():
    """A length of a header can look like zlib, and its checksum like that of a record."""
    doubtful = 0
    for length in range(2, SMALL_FILE):
        head = length.to_bytes(8, "little") + b'{"a":{"dtype":"F32"'
        if is_open(head):
            assert recognise(Glimpse("x.safetensors", head)) == "safetensors"
        else:
            doubtful += 1
    assert doubtful > 0


def test_a_file_that_is_replaced_stays_what_it_was(tmp_path):
    """A bundle keeps the file it has opened; opened again, it is the new one."""
    path = str(tmp_path / "x.safetensors")
    ferry.save({"a": np.zeros(3)}, path, durable=False)
    bundle = ferry.open(path)
    assert bundle.place.is_current()
    ferry.save({"a": np.ones(3)}, path, durable=False)

    assert not bundle.place.is_current()
    assert bundle["a"].tolist() == [0, 0, 0]
    assert pickle.loads(pickle.dumps(bundle))["a"].tolist() == [1, 1, 1]
    array = bundle["a"]
    array[:] = 7
    assert bundle["a"].tolist() == [7, 7, 7]
    bundle.close()
    assert array.tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="closed"):
        bundle["a"]
    with pytest.raises(ValueError, match="closed"):
        bundle.info["a"]


@pytest.mark.parametrize("name", ["x.npy", "x.safetensors"])
@pytest.mark.parametrize("mmap", [True, False])
def test_shapes_without_elements(tmp_path, name, mmap):
    """An empty array whose other dimensions are too large for NumPy is an error of ours."""
    path, shape = tmp_path / name, [2**62, 2**62, 0]
    header = {"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}
    if name == "x.npy":
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}\n".encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    else:
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text)

    with pytest.raises(ferry.FormatError, match="no array has the shape") as caught:
        ferry.load(str(path), mmap=mmap)
    assert caught.value.path == str(path)
    with ferry.open(str(path), mmap=mmap) as bundle:
        (key,) = bundle
        with pytest.raises(ferry.FormatError, match="no array has the shape"):
            bundle[key]
