"""Recipes run, and what they rebuild has the weights."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import tensorferry as ferry


class Net:
    """Takes arguments of every kind that can be written down, and one that cannot."""

    def __init__(self, units, rate=0.5, *, names=("a",), sizes=None, lock=None, **options):
        self.units = units
        self._rate = rate
        self.names = names
        self.sizes = sizes if sizes is not None else {"x": [1, 2.5, None, True, b"\0"]}
        self.lock = lock if lock is not None else threading.Lock()
        self.weight = np.zeros((units, 2))


class Needy:
    """Needs something that cannot be written down."""

    def __init__(self, tokenizer, units):
        self.tokenizer = tokenizer
        self.units = units
        self.weight = np.zeros(units)


class Outer:
    class Inner(Net):
        """A class that is found by way of another one."""


def rebuilt(model, folder, **given):
    """What a recipe makes of a model, from a file that it wrote."""
    recipe = ferry.diagnose(model).recipe
    program: dict = {}
    exec(str(recipe), program)
    path = str(folder / "weights.safetensors")
    program["save"](model, path)
    assert tuple(given) == recipe.given
    return program["rebuild"](path, **given)


def test_arguments(tmp_path):
    """Arguments that differ from their defaults are written down; weights come from the file."""
    model = Net(3, 0.25, names=["b", "c"])
    model.weight[:] = 7
    recipe = ferry.diagnose(model).recipe
    result = rebuilt(model, tmp_path)

    assert "model = Net(" in recipe.text
    assert "units=3" in recipe.text
    assert "lock=None" in recipe.text
    assert (result.units, result._rate, result.names) == (3, 0.25, ["b", "c"])
    assert result.sizes == model.sizes
    assert (result.weight == 7).all()
    assert result.lock is not model.lock


def test_what_may_be_given(tmp_path):
    """What cannot be written down but has a default may be given, or not."""
    model = Net(1)
    program: dict = {}
    exec(str(ferry.diagnose(model).recipe), program)
    path = str(tmp_path / "weights.npz")
    program["save"](model, path)

    assert program["rebuild"](path, lock=model.lock).lock is model.lock
    assert program["rebuild"](path).lock is not model.lock


def test_defaults(tmp_path):
    """What is as the constructor would have it is not repeated."""
    model = Net(3, sizes={})
    assert "rate" not in ferry.diagnose(model).recipe.text
    assert rebuilt(model, tmp_path).sizes == {}


def test_what_has_to_be_given(tmp_path):
    """What cannot be written down becomes an argument."""
    lock = threading.Lock()
    model = Needy(lock, 4)
    model.weight[:] = 3
    result = rebuilt(model, tmp_path, tokenizer=lock)

    assert result.tokenizer is lock
    assert (result.weight == 3).all()


def test_inner_and_local_classes(tmp_path):
    """A class inside of another is found by way of it; a local one has to be given."""

    class Local(Net):
        pass

    assert isinstance(rebuilt(Outer.Inner(2), tmp_path), Outer.Inner)
    assert isinstance(rebuilt(Local(2), tmp_path, Local=Local), Local)


@pytest.mark.parametrize("make", [lambda: {"w": np.ones(2)}, lambda: SimpleNamespace(w=np.ones(2))])
def test_without_a_class(make, tmp_path):
    """What has no class of its own is made by whoever knows how."""
    model = make()
    held = model["w"] if isinstance(model, dict) else model.w
    held[:] = 5
    result = rebuilt(model, tmp_path, make_model=make)

    assert ((result["w"] if isinstance(result, dict) else result.w) == 5).all()


def test_strange_values(tmp_path):
    """Numbers that have no literal, and texts with anything in them."""
    for value in (float("nan"), float("-inf"), "'\"\\\n{}", -0.0, 10**30, (1,), np.float32(2.5)):
        result = rebuilt(Net(1, value), tmp_path)
        assert repr(result._rate) == repr(value) or result._rate == value


def test_long_values(tmp_path):
    """Long values are given, not written."""
    long = list(range(1000))
    model = Needy("x", 1)
    model.tokenizer = long
    result = rebuilt(model, tmp_path, tokenizer=long)

    assert result.tokenizer is long
    assert max(map(len, ferry.diagnose(model).recipe.text.splitlines())) <= 80


def test_no_weights():
    """Without weights there is no recipe."""
    assert ferry.diagnose(threading.Lock()).recipe is None


def test_another_process(tmp_path):
    """A recipe works in a process that has only the class's module and the file."""
    (tmp_path / "network.py").write_text(
        "import threading\nimport numpy as np\n"
        "class Network:\n"
        "    def __init__(self, units):\n"
        "        self.units, self.lock = units, threading.Lock()\n"
        "        self.weight = np.zeros(units)\n"
    )
    first = """
import tensorferry as ferry
from network import Network
model = Network(3)
model.weight[:] = 9
text = str(ferry.diagnose(model).recipe)
open("recipe.py", "w").write(text)
import recipe
recipe.save(model)
"""
    second = "import recipe; model = recipe.rebuild(); assert model.weight.tolist() == [9, 9, 9]"
    for code in (first, second):
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.fixture(scope="module")
def keras(tf):
    """Keras 3, which TensorFlow brings."""
    import keras

    return keras


def test_layers(keras, tmp_path):
    """A Sequential or functional model is made of its config, lambdas and own classes included."""

    class Own(keras.layers.Layer):
        def __init__(self, units, **options):
            super().__init__(**options)
            self.units = units

        def call(self, x):
            return x * self.units

    def make(*layers):
        return keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(2)])

    given = np.ones((2, 3), np.float32)
    for model, more in (
        (make(), {}),
        (make(keras.layers.Lambda(lambda x: x * 2)), {}),
        (make(Own(4)), {"custom_objects": {"Own": Own}}),
    ):
        result = rebuilt(model, tmp_path, **more)
        assert result is not model
        assert np.allclose(result(given), model(given))


def test_layers_without_a_config(keras, tmp_path):
    """Where there is no config either, the function that makes the model is asked for."""

    class Own(keras.layers.Layer):
        def __init__(self, part, **options):
            super().__init__(**options)
            self.part = part

        def call(self, x):
            return x

    def make():
        own = Own(threading.Lock())
        return keras.Sequential([keras.Input((3,)), own, keras.layers.Dense(2)])

    model, given = make(), np.ones((2, 3), np.float32)
    result = rebuilt(model, tmp_path, make_model=make)
    assert np.allclose(result(given), model(given))


def test_subclassed(keras, tmp_path):
    """A subclassed model is built as it was before the weights are loaded."""

    class Own(keras.Model):
        def __init__(self, units, tokenizer):
            super().__init__()
            self.units = units
            self.tokenizer = tokenizer
            self.dense = keras.layers.Dense(units)

        def call(self, x):
            return self.dense(x)

    lock, given = threading.Lock(), np.ones((2, 3), np.float32)
    model = Own(4, lock)
    expected = model(given)
    result = rebuilt(model, tmp_path, Own=Own, tokenizer=lock)

    assert np.allclose(result(given), expected)


def test_module(tf, tmp_path):
    """A tf.Module of a class of its own."""

    class Own(tf.Module):
        def __init__(self, units, name=None):
            super().__init__(name)
            self.units = units
            self.parts = [tf.Variable(tf.zeros([units])) for _ in range(2)]

    model = Own(3)
    model.parts[1].assign([1.0, 2.0, 3.0])
    result = rebuilt(model, tmp_path, Own=Own)

    assert result.parts[1].numpy().tolist() == [1, 2, 3]
