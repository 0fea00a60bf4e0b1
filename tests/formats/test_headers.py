"""npy, npz and safetensors files that are described by their headers, as opening describes them."""

from __future__ import annotations

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from commands import environment

import tensorferry as ferry
from tensorferry.errors import FerryError
from tensorferry.formats import headers
from tensorferry.operations.fileinfo import describe
from tensorferry.operations.list import list_tensors
from tensorferry.operations.subject import open_one

NUMBERS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def opened(path):
    """What is told of a file that is opened."""
    with open_one(str(path), verify=False, lenient=True) as subject:
        return describe(subject)


def safetensors(header, data=b""):
    """The bytes of a file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture
def plain_files(tmp_path):
    """Files that need no NumPy."""
    paths = []
    for number, kind in enumerate(NUMBERS):
        for shape in ((), (3,), (2, 0, 5), (4, 3)):
            path = tmp_path / f"{number}-{len(shape)}.npy"
            np.save(path, np.zeros(shape, kind, order="F"))
            paths.append(path)
    tensors = {kind: np.zeros((2, 3), kind) for kind in NUMBERS if kind != "c16"}
    tensors["small"] = np.zeros(4, ml_dtypes.bfloat16)
    for name, metadata in (("a", None), ("b", {"format": "pt"})):
        paths.append(tmp_path / f"{name}.safetensors")
        ferry.save(tensors, paths[-1], metadata=metadata)
    numbers = {kind: np.zeros((2, 3), kind, order="F") for kind in NUMBERS}
    for ending in ("npz", "safetensors"):
        paths.append(tmp_path / f"nested.{ending}")
        nested = {"a": [np.ones(3, np.float32), {"b": np.zeros(())}], "c": None, "d": "text"}
        ferry.save(nested, paths[-1], metadata={"step": 7, "who": "me"})
    paths.append(tmp_path / "numbers.npz")
    np.savez(paths[-1], **numbers)
    return paths


def test_headers_tell_what_opening_tells(plain_files):
    """The description is the same, without opening the file."""
    for path in plain_files:
        assert headers.read(str(path)) is not None, path
        assert ferry.inspect(path) == opened(path)
        with ferry.open(path) as bundle:
            assert tuple(bundle.infos().values()) == tuple(bundle.info.values())
        assert list_tensors(path).tensors == opened(path).tensors


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_tensors_of_a_framework(tf, tmp_path, ending):
    """Where tensors were is told, too."""
    path = tmp_path / f"a.{ending}"
    ferry.save({"a": tf.ones(3), "b": [tf.Variable(2.0, name="rate"), 3]}, path)

    assert headers.read(str(path)) is not None
    assert ferry.inspect(path) == opened(path)
    assert ferry.inspect(path).tensors[-1].origin["name"] == "rate"


def test_unusual_files_are_opened(tmp_path):
    """Whatever is not plain has no outline: records, big-endian numbers, notes, sidecars."""
    unusual = {
        "records.npy": np.zeros(3, [("a", "i4"), ("b", "f4")]),
        "big.npy": np.zeros(3, ">f4"),
        "texts.npy": np.array(["a", "bc"]),
    }
    for name, array in unusual.items():
        np.save(tmp_path / name, array)
    for name in ("note.safetensors", "note.npz"):
        ferry.save({"r": ferry.RaggedTensor.from_rows([[1], []])}, tmp_path / name)
    ferry.save({"a": np.ones(3, ml_dtypes.bfloat16)}, tmp_path / "dtype.npz")
    ferry.save({"a": np.ones(64)}, tmp_path / "deflated.npz", compression="deflate")
    np.savez(tmp_path / "texts.npz", a=np.array(["a", "bc"]))
    np.savez(tmp_path / "empty.npz")
    ferry.save(np.zeros(3, np.float32), tmp_path / "beside.npy", metadata={"a": "b"})
    with open(tmp_path / "second.npy", "wb") as file:
        np.lib.format.write_array(file, np.zeros(3), version=(2, 0))
    entry = {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}
    (tmp_path / "narrow.safetensors").write_bytes(safetensors({"x": entry}, bytes(3)))
    for path in tmp_path.iterdir():
        if path.suffix != ".json":
            assert headers.read(str(path)) is None, path
            assert ferry.inspect(path) == opened(path)


def test_damaged_files_are_left_to_their_readers(tmp_path, plain_files):
    """Cut at every byte of the header, with any bit of it flipped: the same answer or error."""
    rng = np.random.default_rng(0)
    target = tmp_path / "damaged"
    nested = [path for path in plain_files if path.stem == "nested"]
    for source in (plain_files[7], plain_files[-4], *nested):
        good = source.read_bytes()
        end = 10 + int.from_bytes(good[8:10], "little") if source.suffix == ".npy" else 600
        end = len(good) if source.suffix == ".npz" else min(end, len(good))
        hurt = [good[:size] for size in range(0, end + 8, 7)] + [good + b"\0"]
        for place in rng.integers(0, end, 60):
            flipped = bytearray(good)
            flipped[place] ^= 1 << int(rng.integers(8))
            hurt.append(bytes(flipped))
        path = target.with_suffix(source.suffix)
        for data in hurt:
            path.write_bytes(data)
            if headers.read(str(path)) is not None:
                assert ferry.inspect(path) == opened(path)


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"x": 3},
        {"x": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}},
        {"x": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {"x": {"dtype": "F32", "shape": [2**70], "data_offsets": [0, 4]}},
        {"__metadata__": {"a": 1}, "x": ENTRY},
        {"__metadata__": {"a": "\ud800"}, "x": ENTRY},
        {"\udc00": ENTRY},
        b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{}}',
        b"[" * 100_000,
    ],
    ids=ascii,
)
def test_lies_have_no_outline(tmp_path, header):
    """A header that lies is read by the format's own reader, which refuses it."""
    path = tmp_path / "lie.safetensors"
    path.write_bytes(safetensors(header, bytes(4)))

    assert headers.read(str(path)) is None
    with pytest.raises(FerryError):
        ferry.inspect(path)


def test_numpy_is_not_imported(plain_files):
    """`ferry info` of a plain file imports neither NumPy nor what opens files."""
    program = """
import sys
from tensorferry.cli import main
assert main(["info", *sys.argv[1:]]) == 0
heavy = [name for name in ("numpy", "ml_dtypes", "tensorferry.files.open") if name in sys.modules]
print("heavy:", heavy)
"""
    paths = list(map(str, plain_files))
    found = subprocess.run(
        [sys.executable, "-c", program, *paths],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )

    assert "heavy: []" in found.stdout
    assert "bfloat16" in found.stdout
