"""From one library's weights to another's, each judged by the library itself."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.numpy

import tensorferry as ferry

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def keras(tf):
    """Keras 3."""
    import keras

    return keras


@pytest.fixture(scope="module")
def old_keras(tf):
    """Keras 2, as it lives on."""
    import tf_keras

    return tf_keras


def make(keras):
    """The same model in either version of Keras."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8,)),
            layers.Dense(16, activation="relu", name="hidden"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(4, name="scores"),
        ]
    )
    model.compile("adam", "mse")
    return model


@pytest.fixture(scope="module")
def batch():
    return np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def old(old_keras, batch):
    """A model of Keras 2 that was trained a little."""
    model = make(old_keras)
    model.fit(batch, np.ones((5, 4), np.float32), epochs=2, verbose=0)
    return model


def predictions(model, batch):
    return np.asarray(model(batch, training=False))


@pytest.mark.parametrize("name", ["old.ckpt", "old.h5", "old.weights.h5", "old.keras", "saved"])
def test_old_weights_in_keras_3(name, old, keras, batch, tmp_path):
    """A model of Keras 3 takes the weights of an old checkpoint, SavedModel or file."""
    path = tmp_path / name
    if name == "saved":
        old.save(str(path), save_format="tf")
    elif name == "old.keras":
        old.save(str(path))
    else:
        old.save_weights(str(path))
    model = make(keras)
    assert not np.allclose(predictions(model, batch), predictions(old, batch))

    report = ferry.load_weights(model, path)

    assert report.ok
    np.testing.assert_allclose(predictions(model, batch), predictions(old, batch), atol=1e-6)


def test_checkpoint_of_keras_2_to_weights_of_keras_3(old, keras, batch, tmp_path):
    """By way of a model: what Keras 3 cannot load it then loads itself."""
    old.save_weights(str(tmp_path / "old.ckpt"))
    between = make(keras)
    ferry.load_weights(between, tmp_path / "old.ckpt")
    ferry.save_weights(between, tmp_path / "new.weights.h5")

    model = make(keras)
    model.load_weights(str(tmp_path / "new.weights.h5"))

    np.testing.assert_allclose(predictions(model, batch), predictions(old, batch), atol=1e-6)


def test_into_keras_2(old, old_keras, batch, tmp_path):
    """A model of Keras 2 takes weights like any other."""
    ferry.save_weights(old, tmp_path / "x.safetensors", durable=False)
    model = make(old_keras)

    assert ferry.load_weights(model, tmp_path / "x.safetensors").ok

    np.testing.assert_allclose(predictions(model, batch), predictions(old, batch), atol=1e-6)


def test_saved_model_to_safetensors(old, tmp_path):
    """The variables of a SavedModel, under readable names."""
    old.save(str(tmp_path / "saved"), save_format="tf")
    with ferry.open(tmp_path / "saved") as bundle:
        ferry.save(bundle, tmp_path / "x.safetensors", durable=False)
        names = set(bundle)

    found = safetensors.numpy.load_file(tmp_path / "x.safetensors")

    assert names <= set(found)
    kernels = [
        array for name, array in found.items() if name.endswith("layer_with_weights-0/kernel")
    ]
    assert np.array_equal(kernels[0], old.get_layer("hidden").kernel.numpy())


def test_safetensors_to_checkpoint(tf, tmp_path):
    """TensorFlow's reader finds every tensor."""
    tensors = {"a": np.arange(6.0).reshape(2, 3), "b/c": np.array([1, 2], np.int32)}
    safetensors.numpy.save_file(tensors, tmp_path / "x.safetensors")
    with ferry.open(tmp_path / "x.safetensors") as bundle:
        ferry.save(bundle, tmp_path / "x.ckpt", durable=False)

    reader = tf.train.load_checkpoint(str(tmp_path / "x.ckpt"))

    assert set(reader.get_variable_to_shape_map()) == set(tensors)
    for name, array in tensors.items():
        assert np.array_equal(reader.get_tensor(name), array)


def test_h5_to_checkpoint(old, tf, tmp_path):
    """Weights of an old file as a checkpoint."""
    old.save_weights(str(tmp_path / "old.h5"))
    with ferry.open(tmp_path / "old.h5") as bundle:
        expected = dict(bundle)
        ferry.save(bundle, tmp_path / "x.ckpt", durable=False)

    reader = tf.train.load_checkpoint(str(tmp_path / "x.ckpt"))

    # The file's metadata goes along.
    assert set(reader.get_variable_to_shape_map()) - {"_TENSORFERRY"} == set(expected)
    for name, array in expected.items():
        assert np.array_equal(reader.get_tensor(name), array)


def test_partitioned_to_whole(tf, tmp_path):
    """A variable that was saved in pieces is one tensor."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable(
            "table",
            shape=[10, 3],
            initializer=v1.random_uniform_initializer(seed=1),
            partitioner=tf.compat.v1.fixed_size_partitioner(3),
        )
        session.run(v1.global_variables_initializer())
        whole = session.run(tf.convert_to_tensor(variable))
        prefix = v1.train.Saver().save(session, str(tmp_path / "parts"))

    with ferry.open(prefix) as bundle:
        assert list(bundle) == ["table"]
        ferry.save(bundle, tmp_path / "whole.safetensors", durable=False)

    assert np.array_equal(ferry.load(tmp_path / "whole.safetensors")["table"], whole)


def test_explicit_variables(tf, tmp_path):
    """A Saver keeps variables under names of its own, in every format."""
    first, second = tf.Variable([1.0, 2.0]), tf.Variable([[3]])
    saver = ferry.Saver({"w1": first, "w2": second})
    for name in ("x.ckpt", "x.npz", "x.safetensors"):
        saver.save(tmp_path / name, durable=False)
        first.assign([0, 0])
        second.assign([[0]])

        assert saver.restore(tmp_path / name).ok

        assert first.numpy().tolist() == [1, 2]
        assert second.numpy().tolist() == [[3]]
