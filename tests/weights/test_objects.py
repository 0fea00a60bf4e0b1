"""Weights in plain objects: NumPy's arrays, wherever they lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from weights.conftest import values

import tensorferry as ferry
from tensorferry.frameworks.variables import list_variables


class Slots:
    __slots__ = ("__secret", "unset", "w")

    def __init__(self):
        self.w = np.zeros(2)
        self.__secret = np.zeros(3)


class Point(NamedTuple):
    x: np.ndarray
    y: np.ndarray


class Plain:
    shared = np.zeros(9)  # of the class, not of the model

    def __init__(self):
        self.w = np.zeros((2, 3))
        self.parts = [np.zeros(1), {"deep": (np.zeros(2),)}]
        self.slots = Slots()
        self.point = Point(np.zeros(1), np.zeros(2))
        self.me = self
        self.again = self.w
        self.name, self.rate, self.call, self.kind = "plain", 0.1, print, Plain

    @property
    def bad(self):
        raise RuntimeError("properties are not to be called")


def test_plain_objects(tmp_path):
    """Arrays are found wherever they lie in an object, and set in place; cycles end."""
    model, fresh = Plain(), Plain()
    for number, one in enumerate(list_variables(model)):
        one.assign(np.full(one.shape, number + 1.0))
    held = fresh.w

    ferry.save_weights(model, tmp_path / "plain.safetensors")
    report = ferry.load_weights(fresh, tmp_path / "plain.safetensors")

    assert list(report.loaded) == [
        "w",
        "parts/0",
        "parts/1/deep/0",
        "slots/_Slots__secret",
        "slots/w",
        "point/x",
        "point/y",
    ]
    assert values(fresh) == values(model)
    assert fresh.w is held
    assert not report.unexpected


def test_depth_is_bounded():
    """What nests without end is refused, not followed until the stack ends."""
    model: dict = {"w": np.zeros(1)}
    for _ in range(200):
        model = {"deeper": model}

    with pytest.raises(ferry.LimitError, match="nests deeper than 100"):
        ferry.load_weights(model, {"w": np.zeros(1)})


def test_swapped_arrays():
    """The tensors may be the variables themselves."""
    model = {"a": np.zeros(2), "b": np.ones(2)}

    ferry.load_weights(model, {"a": model["b"], "b": model["a"]})

    assert model["a"].tolist() == [1, 1]
    assert model["b"].tolist() == [0, 0]


def test_read_only_array():
    """An array that cannot be set is known before anything is."""
    model = {"a": np.zeros(2), "b": np.frombuffer(bytes(16))}

    with pytest.raises(ferry.UnsupportedError, match="'b': cannot be set: the array is read-only"):
        ferry.load_weights(model, {"a": np.ones(2), "b": np.ones(2)})

    assert not model["a"].any()


@pytest.mark.parametrize("model", [{}, 3, "text", SimpleNamespace(rate=0.1), [1.0]])
def test_no_variables(model):
    """What holds no variables is no model."""
    with pytest.raises(ferry.UnsupportedError, match="variables"):
        ferry.load_weights(model, {"a": np.zeros(1)})


def test_tied_arrays():
    """A file may have an array at each of its places, but only with the same values."""
    shared = np.zeros(2)
    model = {"embedding": shared, "head": shared}

    assert not ferry.load_weights(model, {"embedding": np.ones(2), "head": np.ones(2)}).unexpected
    assert ferry.load_weights(model, {"head": np.full(2, 2.0)}).ok
    assert shared.tolist() == [2, 2]
    with pytest.raises(ferry.MismatchError, match="head is the same variable, with other values"):
        ferry.load_weights(model, {"embedding": np.ones(2), "head": np.zeros(2)})
