"""Weights of Keras' models in TensorFlow's checkpoints, and back."""

from __future__ import annotations

import numpy as np
import pytest
from weights.conftest import MODELS

import tensorferry as ferry


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("prefix", ["", "model/"])
@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoints_of_keras(tf, makers, tmp_path, kind, prefix, compiled):
    """What tf.train.Checkpoint keeps of a model is loaded by its keys, compiled or not."""
    (model, _), (fresh, _) = makers[kind](), makers[kind]()
    if compiled:
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model) if prefix else tf.train.Checkpoint(model)
    written = checkpoint.write(str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(written)
    tensors = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    del tensors["_CHECKPOINTABLE_OBJECT_GRAPH"]

    report = ferry.load_weights(fresh, tensors, strict=False, structure=False)

    # TensorFlow does not see the layers in Keras' lists and dicts: they are in no checkpoint.
    lost = {one.name for one in report.missing}
    assert all("dense" in name for name in lost)
    assert len(lost) == (6 if kind == "subclassed" and not compiled else 0)
    assert not report.mismatched
    assert not report.unexpected
    assert len(report.optimizer) == (2 + 2 * len(model.trainable_variables) if compiled else 0)
    for ours, theirs in zip(fresh.weights, model.weights, strict=True):
        assert ours.path in lost or np.array_equal(ours, theirs)


def test_checkpoints_of_keras_2(makers):
    """The object names of Keras 2 lead to the same layers of a Keras 3 model."""
    model, _ = makers["nested"]()
    tensors = {
        f"model/layer_with_weights-0/{name}/.ATTRIBUTES/VARIABLE_VALUE": np.full(shape, 2.0, "f4")
        for name, shape in (("kernel", (4, 4)), ("bias", (4,)))
    }
    for number, parts in ((0, ("kernel", "bias")), (2, ("kernel", "bias"))):
        for name in parts:
            key = f"model/layer_with_weights-1/layer_with_weights-{number}/{name}"
            tensors[key] = np.full((4, 4) if name == "kernel" else (4,), 3.0 + number, "f4")
    for name in ("gamma", "beta", "moving_mean", "moving_variance"):
        tensors[f"model/layer_with_weights-1/layer_with_weights-1/{name}"] = np.full(4, 9.0, "f4")
    slot = "model/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/model/optimizer/m"
    tensors[slot] = np.zeros((4, 4), "f4")

    report = ferry.load_weights(model, tensors, structure=False)

    assert report.optimizer == (slot,)
    assert [float(np.mean(weight)) for weight in model.weights] == [2, 2, 3, 3, 9, 9, 9, 9, 5, 5]


@pytest.mark.parametrize("name", ["sequential", "nested"])  # of lists TensorFlow knows nothing
def test_tensorflow_restores_a_checkpoint_of_weights(tf, makers, name, tmp_path):
    """What is saved of a model that TensorFlow tracks, tf.train.Checkpoint puts into another."""
    model, value = makers[name]()
    other, _ = makers[name]()
    ferry.save_weights(model, tmp_path / "x.ckpt")
    tf.train.Checkpoint(other).read(str(tmp_path / "x.ckpt")).assert_consumed()

    np.testing.assert_array_equal(other(value), model(value))
