"""The quick way into HDF5 files: it takes those of the usual form, and agrees with the other."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import _native
from tensorferry.formats.keras import reader, usual

Outcome = Callable[[bytes], object]


def h5pys(fill: Callable[[h5py.File], object], **options: Any) -> bytes:
    """The bytes of a file that h5py writes."""
    file = io.BytesIO()
    with h5py.File(file, "w", **options) as opened:
        fill(opened)
    return file.getvalue()


def fill_layers(file: h5py.File, count: int = 2) -> None:
    """Groups and attributes as Keras has them."""
    for number in range(count):
        group = file.create_group(f"layers/dense_{number}/vars")
        group.attrs["name"] = f"dense_{number}"
        group.create_dataset("0", data=np.arange(6, dtype=np.float32).reshape(2, 3))
        group.create_dataset("1", data=np.float64(number))
    group = file.create_group("optimizer/vars")
    group.create_dataset("0", data=np.arange(3))
    group["0"].attrs["kind"] = np.bytes_(b"a fixed text")


def is_usual(data: bytes) -> bool:
    return _native.hdf5_objects(data, 0, len(data), 100, usual.NAMES) is not None


def shown(array: np.ndarray) -> object:
    """An array, of which a damaged file may make a large one."""
    if array.dtype == object:
        return array.tolist()
    return array.dtype, array.shape, array.tobytes() if array.size < 1000 else None


def outcome(data: bytes) -> object:
    """What reading gives: everything that is known of the file, or the error."""
    try:
        with ferry.open(data, format="keras") as bundle:
            weights = bundle.details
            values = {
                name: None if info.unreadable else shown(bundle[name])
                for name, info in bundle.infos().items()
            }
            kept = weights.paths, weights.layers, weights.optimizer, weights.layout, weights.plain
            links = [str(link) for link in weights.links()]
            return repr((list(bundle.infos().values()), values, kept, bundle.metadata, links))
    except ferry.FerryError as error:
        return repr((type(error), str(error), error.offset))


@pytest.fixture
def slowly(monkeypatch) -> Outcome:
    """Reads object by object."""

    def read(data: bytes) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(reader, "find_usual", lambda *arguments: None)
            return outcome(data)

    return read


def ours() -> bytes:
    layers = {"layers/dense_0": "first", "layers/dense_1": "second"}
    tensors = {
        f"layers/dense_{i}/vars/{j}": np.full((2, 2), i, dtype)
        for i, j, dtype in [(0, 0, "f4"), (0, 1, "i2"), (1, 0, "f2"), (1, 1, "u8")]
    }
    return ferry.dumps(tensors, format="keras", layers=layers)


@pytest.mark.parametrize("data", [h5pys(fill_layers), ours()], ids=["h5py", "ours"])
def test_usual_files(data, slowly):
    """Files of h5py and of ours are taken, and both ways tell the same of them."""
    assert is_usual(data)
    assert outcome(data) == slowly(data)


def test_many_members(slowly):
    """A tree of several levels is walked in the same order."""

    def fill(file: h5py.File) -> None:
        for number in random.Random(1).sample(range(3000), 3000):
            file[f"group/{number}"] = np.int8(number % 100)

    data = h5pys(fill)

    assert is_usual(data)
    assert outcome(data) == slowly(data)


UNUSUAL: dict[str, Callable[[h5py.File], object]] = {
    "a soft link": lambda file: file.__setitem__("link", h5py.SoftLink("/layers")),
    "a link to a file": lambda file: file.__setitem__("link", h5py.ExternalLink("a.h5", "/x")),
    "a second name of a dataset": lambda file: file.__setitem__("b", file["layers/dense_0/vars/0"]),
    "a second name of a group": lambda file: file.__setitem__("b", file["layers/dense_0"]),
    "a group inside itself": lambda file: file["layers"].__setitem__("again", file["layers"]),
    "chunks": lambda file: file.create_dataset("c", data=np.zeros(9), chunks=(2,)),
    "compressed chunks": lambda file: file.create_dataset("c", data=np.zeros(9), compression=4),
    "nothing written": lambda file: file.create_dataset("c", (3,), "f4"),
    "no values": lambda file: file.create_dataset("c", data=np.zeros((0, 2))),
    "no shape": lambda file: file.create_dataset("c", data=h5py.Empty("f4")),
    "bools": lambda file: file.create_dataset("c", data=np.array([True, False])),
    "big-endian": lambda file: file.create_dataset("c", data=np.arange(3, dtype=">i4")),
    "complex": lambda file: file.create_dataset("c", data=np.zeros(2, np.complex64)),
    "texts": lambda file: file.create_dataset("c", data=["a", "b"]),
    "fixed texts": lambda file: file.create_dataset("c", data=np.array([b"a", b"bc"])),
    "opaque": lambda file: file.create_dataset("c", data=np.zeros(3, "V2")),
    "an attribute of numbers": lambda file: file["layers"].attrs.__setitem__("n", [1, 2]),
    "an attribute of texts": lambda file: file["layers"].attrs.__setitem__("n", ["a", "b"]),
    "an attribute of the root": lambda file: file.attrs.__setitem__("title", "x"),
    "many attributes": lambda file: [file["layers"].attrs.create(f"{i}", "x") for i in range(99)],
    "legacy": lambda file: file.create_group("model_weights").attrs.__setitem__("layer_names", []),
    "a dataset called vars": lambda file: file.create_dataset("vars", data=1.0),
    "a type with a name": lambda file: (
        file.__setitem__("t", np.dtype("f4")),
        file.create_dataset("c", data=np.zeros(2, "f4"), dtype=file["t"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSUAL)
def test_unusual_files(what, slowly):
    """Whatever else HDF5 has is left to the reader of objects, and read as ever."""

    def fill(file: h5py.File) -> None:
        fill_layers(file)
        UNUSUAL[what](file)

    data = h5pys(fill)

    assert outcome(data) == slowly(data)


def test_new_files(slowly):
    """Files of the newest form are left to the reader of objects."""
    data = h5pys(fill_layers, libver="latest")

    assert not is_usual(data)
    assert outcome(data) == slowly(data)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("make", [lambda: h5pys(lambda file: fill_layers(file, 1)), ours])
def test_flipped_bits(make, size, slowly):
    """Whatever is changed, both ways tell the same of the file, or both refuse it alike."""
    data = bytearray(make())
    # Where there are only zeros, nothing is read.
    places = [i for i in range(len(data)) if any(data[max(i - 4, 0) : i + 5])]
    chosen = random.Random(size)
    usual = 0
    for place in places:
        kept = bytes(data[place : place + size])
        flipped = bytes(byte ^ 1 << chosen.randrange(8) for byte in kept)
        data[place : place + size] = flipped
        changed = bytes(data)
        data[place : place + size] = kept
        if is_usual(changed):  # otherwise there is only one way
            usual += 1
            assert outcome(changed) == slowly(changed), (place, flipped)
    assert usual > len(places) // 10


def test_changed_numbers(slowly):
    """Addresses, sizes and counts that lead elsewhere are refused alike, or mean the same."""
    data = bytearray(h5pys(lambda file: fill_layers(file, 1)))
    known = sorted({struct.unpack_from("<Q", data, place)[0] for place in range(0, 4096, 8)})
    addresses = [number for number in known if number < len(data)]
    chosen = random.Random(7)
    for place in range(0, len(data) - 8, 8):
        kept = bytes(data[place : place + 8])
        if not any(kept):
            continue
        for number in (chosen.choice(addresses), 0, len(data) - 1, (1 << 64) - 1):
            data[place : place + 8] = struct.pack("<Q", number)
            changed = bytes(data)
            if is_usual(changed):
                assert outcome(changed) == slowly(changed), (place, number)
        data[place : place + 8] = kept


def test_cut_at_every_offset():
    """A part of a file is never taken."""
    data = h5pys(lambda file: fill_layers(file, 1))
    for end in itertools.chain(range(0, 200), range(200, len(data), 7)):
        assert not is_usual(data[:end])


def test_numbers_of_variables(slowly):
    """A variable is called by its number as Keras writes it; others keep their paths."""
    keys = ["0", "00", "1" * 5000, "٣"]

    def fill(file: h5py.File) -> None:
        group = file.create_group("layers/dense/vars")
        group.attrs["name"] = "dense"
        for key in keys:
            group.create_dataset(key, data=np.arange(2.0))

    data = h5pys(fill)
    assert is_usual(data)
    assert outcome(data) == slowly(data)
    with ferry.open(data, format="keras") as bundle:
        assert sorted(bundle) == sorted(f"layers/dense/vars/{key}" for key in keys)


def test_depth(monkeypatch, slowly):
    """Groups that nest too deeply are refused, whichever way they are met."""
    data = h5pys(lambda file: file.__setitem__("a/b/c/d/e", 1.0))
    deep = h5pys(lambda file: file.__setitem__("/".join("x" * 150), 1.0))

    assert is_usual(data)
    assert not is_usual(deep)
    assert outcome(deep) == slowly(deep)
    monkeypatch.setattr("tensorferry.limits.depth", 3)
    assert outcome(data) == slowly(data)
    assert "LimitError" in str(outcome(data))


def test_archives(tmp_path: Path):
    """Weights in an archive are verified before the first of them is read."""
    import zipfile

    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.0"}')
        archive.writestr("model.weights.h5", h5pys(fill_layers))
    with ferry.open(path) as bundle:
        expected = bundle["dense_0/kernel"].copy()
        assert bundle.details.roots == []

    data = path.read_bytes()
    place = data.index(expected.tobytes())
    path.write_bytes(data[:place] + b"\x01" + data[place + 1 :])
    with ferry.open(path) as bundle:
        assert "dense_0/kernel" in bundle.infos()
        for read in (lambda: bundle["dense_0/kernel"], bundle.value):
            with pytest.raises(ferry.ChecksumError):
                read()
        assert bundle.slice("dense_0/kernel", np.s_[1:]).shape == (1, 3)


def test_a_glance_agrees(tmp_path: Path):
    """`inspect` tells the same without opening the file."""
    path = tmp_path / "x.weights.h5"
    path.write_bytes(h5pys(fill_layers))
    with ferry.open(path) as bundle:
        expected = list(bundle.infos().values())

    info = ferry.inspect(path)
    opened = ferry.inspect(path, verify=True)

    assert list(info.tensors) == list(opened.tensors) == expected
    assert info == opened
