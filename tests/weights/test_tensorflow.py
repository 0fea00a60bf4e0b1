"""Weights of TensorFlow's modules and variables."""

from __future__ import annotations

import numpy as np
import pytest
from weights.conftest import FORMATS, values

import tensorferry as ferry


@pytest.fixture(scope="session")
def module(tf):
    """A class of modules with variables in lists, dicts and other modules."""

    class Inner(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.random.normal((2, 3)), name="weights")

    class Outer(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [Inner(), Inner()]
            self.named = {"a": tf.Variable(tf.random.normal((4,)), trainable=False)}
            self.same = self.parts[0].w
            self.text = tf.Variable(["x", "y"])
            self.half = tf.Variable(tf.random.normal((3,), dtype=tf.bfloat16))
            self.loose = tf.Variable([1.0], shape=tf.TensorShape([None]))
            self.layer = tf.keras.layers.Dense(2)
            self.layer.build((2, 2))

        @tf.function
        def __call__(self, x):
            return x

    return Outer


@pytest.mark.parametrize("format", FORMATS)
def test_module_round_trip(module, tmp_path, format):
    """A tf.Module's variables come through, each once, under the paths of its objects."""
    model, fresh = module(), module()
    model.loose.assign([1.0, 2.0, 3.0])
    model(3)

    ferry.save_weights(model, tmp_path / f"module.{format}")
    report = ferry.load_weights(fresh, tmp_path / f"module.{format}")

    assert list(values(fresh).values()) == list(values(model).values())
    assert fresh.loose.shape == [None]
    assert fresh.loose.numpy().tolist() == [1, 2, 3]
    assert len(report.loaded) == 8
    assert {"named/a", "text", "half", "loose", "parts/1/w"} < set(report.loaded)


def test_module_checkpoint(tf, module, tmp_path):
    """The keys of a checkpoint of a tf.Module lead to its variables."""
    model, fresh = module(), module()
    reader = tf.train.load_checkpoint(tf.train.Checkpoint(net=model).write(str(tmp_path / "c")))
    tensors = {
        key: reader.get_tensor(key)
        for key in reader.get_variable_to_shape_map()
        if key != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }

    report = ferry.load_weights(fresh, tensors, structure=False)

    assert not report.unexpected
    assert list(values(fresh).values()) == list(values(model).values())


def test_variables_in_dicts(tf):
    """A dict of variables of several kinds is a model; names of TensorFlow are names, too."""
    model = {
        "a": tf.Variable([0.0, 0.0], name="scope/first"),
        "b": tf.keras.Variable([0.0], name="second"),
        "c": np.zeros(1),
    }

    file = {"scope/first:0": np.float32([1, 2]), "b": np.float32([3]), "c": np.float64([4])}
    ferry.load_weights(model, file)

    assert model["a"].numpy().tolist() == [1, 2]
    assert model["b"].numpy().tolist() == [3]
    assert model["c"].tolist() == [4]
