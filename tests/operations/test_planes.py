"""Planes: the part of a tensor that a screen shows, as NumPy would cut it out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import UnsupportedError
from tensorferry.operations import planes
from tensorferry.operations.planes import arrangement, filters, line, picture, plane
from tensorferry.operations.subject import open_one
from tensorferry.tensors.infos import TensorInfo

GENERATOR = np.random.default_rng(5)
TENSORS = {
    "matrix": GENERATOR.standard_normal((70, 50)).astype(np.float32),
    "cube": GENERATOR.integers(-9, 9, (3, 40, 20)),
    "large": GENERATOR.integers(-(2**62), 2**62, (4, 5)),
    "small": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "complex": np.array([[3 + 4j, 1j]]),
    "flags": np.array([[True, False]]),
    "vector": GENERATOR.standard_normal(5000),
    "text": np.array([b"a", b"b"], object),
    "scalar": np.float32(3),
    "photo": GENERATOR.integers(0, 255, (64, 48, 3), dtype=np.uint8),
    "channels": GENERATOR.standard_normal((3, 64, 48)).astype(np.float32),
    "keras": GENERATOR.standard_normal((5, 5, 8, 16)).astype(np.float32),
    "torch": GENERATOR.standard_normal((16, 8, 1, 5)).astype(np.float32),
}


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    path = tmp_path_factory.mktemp("planes") / "x.safetensors"
    ferry.save(TENSORS, path)
    with open_one(path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("shape", "look", "axes"),
    [
        ((), "scalar", (None, None)),
        ((7,), "line", (None, 0)),
        ((3, 4), "matrix", (0, 1)),
        ((2, 3, 40, 20), "image", (2, 3)),
        ((2, 5, 40, 20), "matrix", (2, 3)),
        ((1, 7, 64, 128), "tiles", (0, 1)),
        ((64, 48, 3), "image", (0, 1)),
        ((3, 64, 48), "image", (1, 2)),
        ((32, 28, 28, 1), "image", (1, 2)),
        ((3, 3, 64, 128), "tiles", (0, 1)),
        ((128, 64, 3, 3), "tiles", (2, 3)),
        ((1, 1, 64, 128), "matrix", (2, 3)),
        ((0, 4), "empty", (None, None)),
    ],
)
def test_arrangement(shape, look, axes):
    """The shape says how a tensor is best looked at."""
    found = arrangement(TensorInfo("x", "float32", shape))

    assert (found.look, found.rows, found.columns) == (look, *axes)


def test_arrangement_of_other_kinds():
    """Strings and the like are looked at as what they are; what cannot be read says so."""
    assert arrangement(TensorInfo("x", "string", (3,), kind="string")).look == "string"
    assert arrangement(TensorInfo("x", "int64", (3, None), kind="ragged")).look == "ragged"
    assert arrangement(TensorInfo("x", "odd", (3,), unreadable="why")).look == "unreadable"


def test_every_value(subject):
    """What fits is given as it is, bit by bit."""
    found = plane(subject, "matrix", most=(100, 100))

    assert found.values.tobytes() == TENSORS["matrix"].tobytes()
    assert (found.window, found.steps, found.whole) == ((0, 70, 0, 50), (1, 1), True)


@pytest.mark.parametrize("name", ["large", "small", "half", "complex", "flags"])
def test_dtypes(subject, name):
    """Every dtype becomes one that a browser has, and no number changes."""
    values = plane(subject, name).values

    assert values.dtype.byteorder in "<|="
    assert values.dtype.name in {"float32", "float64", "int64", "uint8"}
    expected = np.abs(TENSORS[name]) if name == "complex" else TENSORS[name]
    assert (values == expected.astype(values.dtype)).all()


def test_blocks(subject):
    """A cell of a smaller picture is the mean of its block, or the value farthest from zero."""
    array = TENSORS["matrix"]
    mean = plane(subject, "matrix", most=(8, 10))
    largest = plane(subject, "matrix", most=(8, 10), reduce="largest")

    assert mean.steps == (9, 5)
    for row in range(8):
        for column in range(10):
            block = array[row * 9 : row * 9 + 9, column * 5 : column * 5 + 5]
            assert mean.values[row, column] == pytest.approx(block.mean(), abs=1e-6)
            assert abs(largest.values[row, column]) == np.abs(block).max()


def test_of_very_large_ones_every_nth(subject, monkeypatch):
    """Where reading all would take too long, every n-th value is read, and that is said."""
    monkeypatch.setattr(planes, "READ", 100)
    found = plane(subject, "matrix", most=(10, 10))

    assert not found.whole
    assert (found.values == TENSORS["matrix"][::7, ::5]).all()


def test_axes_and_window(subject):
    """Any two axes in any order, any window, and an index along the others."""
    found = plane(subject, "cube", rows=2, columns=0, at={1: 7}, window=(5, 9, 1, 99))

    assert (found.values == TENSORS["cube"][1:3, 7, 5:9].T).all()
    assert found.window == (5, 9, 1, 3)
    assert found.shape == (20, 3)


@pytest.mark.parametrize("window", [(-5, -1, -5, -1), (99, 100, 99, 100), (5, 5, 5, 5)])
def test_window_outside(subject, window):
    """A window that lies outside, or is empty, is moved to where the tensor is."""
    assert plane(subject, "matrix", window=window).values.size >= 1


def test_difference(subject):
    """The other tensor minus this one; integers do not wrap around."""
    found = plane(subject, "large", other=(subject, "large"))
    halves = plane(subject, "small", other=(subject, "half"))

    assert (found.values == 0).all()
    assert (halves.values == 0).all()
    with pytest.raises(UnsupportedError, match="differ in shape"):
        plane(subject, "matrix", other=(subject, "cube"))


@pytest.mark.parametrize("name", ["text", "scalar"])
def test_no_plane(subject, name):
    """Strings and scalars are refused with a reason."""
    with pytest.raises(UnsupportedError, match="no plane of numbers"):
        plane(subject, name)
    with pytest.raises(UnsupportedError, match="not two of the 2 axes"):
        plane(subject, "matrix", rows=1, columns=1)


def test_line(subject):
    """The least and the largest number of each point; a short window is exact."""
    vector = TENSORS["vector"]
    found = line(subject, "vector", most=100)

    assert found.step == 50
    assert (found.low == vector.reshape(100, 50).min(axis=1)).all()
    assert (found.high == vector.reshape(100, 50).max(axis=1)).all()
    assert (line(subject, "vector", window=(10, 60)).low == vector[10:60]).all()


def test_pictures(subject):
    """Rows, columns and channels, whichever axis the channels are."""
    info = subject.infos
    photo = picture(subject, "photo", arrangement(info["photo"]))
    channels = picture(subject, "channels", arrangement(info["channels"]))

    assert (photo == TENSORS["photo"]).all()
    assert (channels == TENSORS["channels"].transpose(1, 2, 0)).all()
    assert picture(subject, "photo", arrangement(info["photo"]), most=16).shape == (16, 16, 3)


def test_filters(subject):
    """Outputs, inputs, rows and columns, as TensorFlow and as PyTorch store them."""
    keras = filters(subject, "keras", arrangement(subject.infos["keras"]), most=(4, 99))
    torch = filters(subject, "torch", arrangement(subject.infos["torch"]), first=(12, 0))

    assert (keras == TENSORS["keras"].transpose(3, 2, 0, 1)[:4]).all()
    assert (torch == TENSORS["torch"][12:]).all()
