"""Weights of Keras' models: saved, and loaded into others."""

from __future__ import annotations

import numpy as np
import pytest
from weights.conftest import FORMATS, MODELS

import tensorferry as ferry
from tensorferry.frameworks.variables import list_variables
from tensorferry.weights.saving import names_for


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("format", FORMATS)
def test_keras_round_trip(makers, tmp_path, kind, format):
    """A fresh model with the weights of another one predicts what that predicts."""
    (model, given), (fresh, _) = makers[kind](), makers[kind]()
    path = tmp_path / f"model.{format}"
    assert not np.array_equal(model(given), fresh(given))

    ferry.save_weights(model, path)
    report = ferry.load_weights(fresh, path)

    assert np.array_equal(model(given), fresh(given))
    assert report.ok
    assert report.applied
    assert len(report.loaded) == len(model.weights)
    assert not report.unexpected


@pytest.mark.parametrize("kind", MODELS)
def test_names_of_keras_files(makers, tmp_path, kind):
    """Every variable has the name that Keras gives it in a .weights.h5 file."""
    import h5py

    model, _ = makers[kind]()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save_weights(tmp_path / "model.weights.h5")
    theirs = {}
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: theirs.update({name: item[()]}) if hasattr(item, "shape") else None
        )

    ours = dict(names_for(list_variables(model), "keras"))

    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name].read(), theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", MODELS)
def test_files_of_keras(makers, tmp_path, kind):
    """Keras loads the file that we write for a model, and we load Keras' own."""
    (model, given), (fresh, _), (third, _) = (makers[kind]() for _ in range(3))
    ferry.save_weights(model, tmp_path / "ours.weights.h5")
    model.save_weights(tmp_path / "theirs.weights.h5")

    fresh.load_weights(tmp_path / "ours.weights.h5")
    report = ferry.load_weights(third, tmp_path / "theirs.weights.h5")

    assert report.ok
    assert not report.unexpected
    assert np.array_equal(model(given), fresh(given))
    assert np.array_equal(model(given), third(given))


def test_tied_variables_of_keras(makers, tmp_path):
    """A file has a variable at each layer that holds it; other values there are refused."""
    model, _ = makers["tied"]()
    held = dict(names_for(list_variables(model), "keras"))
    assert len(held) == len(model.weights) + 2
    tensors = {name: variable.read() for name, variable in held.items()}
    again = "layers/head/vars/0"
    assert held[again] is held["layers/dense/vars/0"]

    ferry.save({**tensors, again: tensors[again] + 1}, tmp_path / "x.weights.h5")

    with pytest.raises(ferry.MismatchError, match="the same variable, with other values"):
        ferry.load_weights(model, tmp_path / "x.weights.h5")


def test_optimizer(makers, tmp_path):
    """The state of an optimizer is kept apart, and saved and loaded when asked for."""
    (model, given), (fresh, _) = makers["sequential"](), makers["sequential"]()
    for one in (model, fresh):
        one.compile("adam", "mse")
    model.fit(given, np.zeros((2, 4)), verbose=0)
    path = tmp_path / "model.npz"
    ferry.save_weights(model, path, optimizer=True)
    state = [variable.numpy() for variable in model.optimizer.variables]

    before = [variable.numpy() for variable in fresh.optimizer.variables]
    report = ferry.load_weights(fresh, path)
    assert len(report.optimizer) == len(state)
    assert not report.unexpected
    assert all(map(np.array_equal, before, fresh.optimizer.variables))

    report = ferry.load_weights(fresh, path, optimizer=True)
    assert report.ok
    assert not report.optimizer
    assert all(map(np.array_equal, state, fresh.optimizer.variables))

    ferry.save_weights(model, path)
    assert not [name for name in ferry.load(path) if "optimizer" in name]
    with pytest.raises(ferry.MismatchError, match="optimizer/vars/0"):
        ferry.load_weights(fresh, path, optimizer=True)


def test_renamed_layers(keras, tmp_path):
    """Layers with other names are found if names and shapes leave no doubt, and reported so."""

    def make(*names):
        sizes = zip(names, (5, 6), strict=True)
        return keras.Sequential(
            [keras.Input((4,)), *(keras.layers.Dense(size, name=name) for name, size in sizes)]
        )

    model, fresh = make("encoder", "head"), make("trunk", "logits")
    ferry.save_weights(model, tmp_path / "model.npz")

    report = ferry.load_weights(fresh, tmp_path / "model.npz")

    assert set(report.how.values()) == {"structure"}
    assert [name.split("/")[-2:] for name in report.loaded] == [
        [layer, part] for layer in ("trunk", "logits") for part in ("kernel", "bias")
    ]
    assert "head/kernel  (by structure)" in str(report)
    assert np.array_equal(model(np.ones((1, 4))), fresh(np.ones((1, 4))))
    with pytest.raises(ferry.MismatchError, match=r"missing .*trunk/kernel"):
        ferry.load_weights(fresh, tmp_path / "model.npz", structure=False)


def test_layers_of_one_name(keras):
    """Variables of the same path are told apart by their places."""

    class Pair(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="pair")
            self.left, self.right = (keras.layers.Dense(2, name="part") for _ in range(2))

        def call(self, x):
            return self.left(x) + self.right(x)

    pair = Pair()
    pair(np.ones((1, 2)))
    names = [one.name for one in list_variables(pair)]
    assert len(set(names)) == 4

    file = {
        name: np.full((2, 2) if number % 2 == 0 else (2,), number)
        for number, name in enumerate(names)
    }
    ferry.load_weights(pair, {name: value.astype("f4") for name, value in file.items()})

    assert [float(np.mean(weight)) for weight in pair.weights] == [0, 1, 2, 3]


def test_not_built(keras):
    """A model that has no weights yet says how to get them."""
    model = keras.Sequential([keras.layers.Dense(3)])

    with pytest.raises(ferry.UnsupportedError, match=r"not built yet.*\nhint: model\.build"):
        ferry.load_weights(model, {"a": np.zeros(3)})


def test_variables_that_files_of_keras_lack(keras, tmp_path):
    """A layer with LoRA writes the sum into Keras' files; others keep both, and nothing is lost."""

    def made():
        dense = keras.layers.Dense(4)
        model = keras.Sequential([keras.Input((3,)), dense])
        dense.enable_lora(2)
        for weight in model.weights:
            weight.assign(np.random.default_rng(len(weight.shape)).uniform(size=weight.shape))
        return model

    model, fresh = made(), made()
    with pytest.raises(ferry.UnsupportedError, match=r"kernel.*LoRA.*\n.*\.safetensors"):
        ferry.save_weights(model, tmp_path / "x.weights.h5")
    assert not list(tmp_path.iterdir())
    model.layers[0].lora_kernel_a.assign(np.ones((3, 2)))
    ferry.save_weights(model, tmp_path / "x.safetensors")

    assert ferry.load_weights(fresh, tmp_path / "x.safetensors").ok
    assert np.array_equal(fresh(np.ones((1, 3))), model(np.ones((1, 3))))


def test_other_variables_beside_those_of_keras(keras, tmp_path):
    """A variable that is no layer's has the place in a file of Keras that `paths` gives it."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    both = {"model": model, "step": np.ones(3, np.float32)}
    path = tmp_path / "x.weights.h5"
    with pytest.raises(ferry.UnsupportedError, match=r"'step'.*no place for this variable"):
        ferry.save_weights(both, path)

    ferry.save_weights(both, path, paths={"step": "extra/vars/0"})

    assert ferry.load_weights(both, path).ok
