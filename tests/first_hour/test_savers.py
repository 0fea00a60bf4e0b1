"""Savers, managers and callbacks as people type them, compared with TensorFlow's and Keras' own."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture
def model(tf):
    """A small Keras model, built."""
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    """Paths are relative, as people type them."""
    monkeypatch.chdir(tmp_path)


def test_a_list_of_variables(tf):
    """`Saver([w1, b1])` uses the variables' own names, as TensorFlow's Saver does."""
    w1, b1 = tf.Variable([[1.0, 2.0]], name="w1"), tf.Variable([3.0], name="b1")

    saver = ferry.Saver([w1, b1])
    saver.save("ours/model", global_step=7)
    tf.compat.v1.train.Saver([w1, b1]).save(None, "theirs/model", global_step=7)

    for path in (ferry.latest_checkpoint("ours"), ferry.latest_checkpoint("theirs")):
        assert dict(tf.train.list_variables(path)) == {"w1": [1, 2], "b1": [1]}
        w1.assign([[0.0, 0.0]])
        b1.assign([0.0])
        saver.restore(path)
        assert (w1.numpy().tolist(), b1.numpy().tolist()) == ([[1.0, 2.0]], [3.0])
    w1.assign([[0.0, 0.0]])
    tf.compat.v1.train.Saver([w1, b1]).restore(None, "ours/model-7")
    assert w1.numpy().tolist() == [[1.0, 2.0]]


def test_variables_without_names(tf):
    """Variables of one name, and arrays, are told apart by their places."""
    held = [tf.Variable([1.0]), tf.Variable([2.0]), np.array([3.0])]
    ferry.Saver(held).save("x.npz")

    assert {name: array.tolist() for name, array in ferry.load("x.npz").items()} == {
        "0": [1.0],
        "1": [2.0],
        "2": [3.0],
    }


def test_a_model(tf, model):
    """`Saver(model)` saves what `tf.train.Checkpoint(model)` restores, and restores it."""
    before = [array.copy() for array in model.get_weights()]

    path = ferry.Saver(model).save("run/model", global_step=tf.Variable(7, dtype=tf.int64))
    model.set_weights([array * 0 for array in before])
    ferry.Saver(model).restore("run/model-7")

    for found, wanted in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, wanted)
    model.set_weights([array * 0 for array in before])
    tf.train.Checkpoint(model).restore(path).expect_partial()  # what `save` gives is a path
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


@pytest.mark.parametrize("name", ["run/m", "run/m.ckpt", "run/m.safetensors", "run/m.npz"])
def test_max_to_keep(tf, name):
    """`Saver(max_to_keep=2)` keeps the files that TensorFlow's Saver keeps."""
    w = tf.Variable([1.0], name="w")
    saver, theirs = ferry.Saver(max_to_keep=2), tf.compat.v1.train.Saver([w], max_to_keep=2)
    for step in (1, 5, 9, 12):
        saver.save(name, global_step=step, variables=[w])
        theirs.save(None, name.replace("run", "theirs"), global_step=step)

    kept = [os.path.basename(path) for path in saver.last_checkpoints]
    latest = ferry.latest_checkpoint("run")
    if name in ("run/m", "run/m.ckpt"):
        assert sorted(os.listdir("run")) == sorted(
            path for path in os.listdir("theirs") if not path.endswith(".meta")
        )
        assert kept == [os.path.basename(path) for path in theirs.last_checkpoints]
        assert latest == tf.train.latest_checkpoint("run") == f"{name}-12"
        state = tf.train.get_checkpoint_state("run")
        assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == kept
    else:
        assert sorted(os.listdir("run")) == sorted(kept)
        assert [ferry.load(path)["w"].tolist() for path in saver.last_checkpoints] == [[1.0]] * 2
        assert os.path.basename(latest) == kept[-1]


def test_latest_checkpoint(tf):
    """As TensorFlow finds it; None where there is none."""
    assert ferry.latest_checkpoint("nowhere") is tf.train.latest_checkpoint("nowhere") is None
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), "run", 3)
    for _ in range(4):
        manager.save()
    assert ferry.latest_checkpoint("run") == tf.train.latest_checkpoint("run") == "run/ckpt-4"


def test_without_variables(tf):
    """A saver without variables says what to type."""
    with pytest.raises(ferry.UnsupportedError, match=r"hint: Saver\(model, max_to_keep=5\)"):
        ferry.Saver(max_to_keep=5).save("x")
    with pytest.raises(ValueError, match="expected 1 or more"):
        ferry.Saver(max_to_keep=0)


@pytest.mark.parametrize("name", ["ckpt", "w.safetensors", "w.npz"])
def test_a_manager_keeps_the_last_and_the_best(tf, name):
    """The last two and the best one stay, and a new process goes on with all of them."""
    w = tf.Variable([0.0], name="w")
    manager = ferry.CheckpointManager([w], "run", max_to_keep=2, best=1, name=name)
    assert manager.restore_latest() is None
    for step, score in enumerate([0.5, 0.1, 0.4, 0.3, float("nan")], 1):
        w.assign([float(step)])
        manager.save(score=score)

    again = ferry.CheckpointManager([w], "run", max_to_keep=2, best=1, name=name)
    steps = [
        int(path.removesuffix(".safetensors").removesuffix(".npz").rsplit("-", 1)[1])
        for path in again.checkpoints
    ]
    assert steps == [2, 4, 5]
    assert again.restore_best().ok
    assert w.numpy().tolist() == [2.0]
    assert again.restore_latest().ok
    assert w.numpy().tolist() == [5.0]
    again.save(6, score=0.05)
    assert len(again.checkpoints) == 2
    assert again.best_checkpoint == again.latest_checkpoint
    if name == "ckpt":
        assert tf.train.latest_checkpoint("run") == again.latest_checkpoint


def test_a_manager_keeps_what_it_has_just_saved():
    """A run that starts again at a low step does not lose its files to those of the run before."""
    w = np.zeros(1)
    before = ferry.CheckpointManager({"w": w}, "run", max_to_keep=2, name="w.npz")
    for step in (900, 901):
        before.save(step)

    saved = ferry.CheckpointManager({"w": w}, "run", max_to_keep=2, name="w.npz").save(1)

    assert os.path.exists(saved.path)
    assert ferry.load(saved.path)["w"].tolist() == [0.0]


def test_files_of_others_stay(tf):
    """A manager removes nothing but files of its own names."""
    os.mkdir("run")
    others = ["w-final.npz", "w.npz", "v-1.npz", "w-01.npz", "w-1.txt"]
    for other in others:
        (open(f"run/{other}", "wb")).close()
    w = tf.Variable([0.0], name="w")
    manager = ferry.CheckpointManager([w], "run", max_to_keep=1, name="w.npz")
    for step in range(3):
        manager.save(step)

    assert sorted(os.listdir("run")) == sorted([*others, "w-2.npz"])


def test_the_callback_saves_what_keras_saves(model):
    """Each epoch has a file in the format of its ending, with the weights that Keras saves."""
    import keras

    x, y = np.ones((8, 2), "f4"), np.ones((8, 1), "f4")
    model.fit(
        x,
        y,
        epochs=3,
        verbose=0,
        callbacks=[
            ferry.weights_callback("run/w-{epoch:02d}.safetensors", max_to_keep=2),
            ferry.weights_callback("best.npz", monitor="loss", save_best_only=True),
            keras.callbacks.ModelCheckpoint("k-{epoch}.weights.h5", save_weights_only=True),
        ],
    )

    assert sorted(os.listdir("run")) == ["w-02.safetensors", "w-03.safetensors"]
    for epoch in (2, 3):
        model.load_weights(f"k-{epoch}.weights.h5")
        theirs = model.get_weights()
        ferry.load_weights(model, f"run/w-0{epoch}.safetensors")
        for found, wanted in zip(model.get_weights(), theirs, strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert len(ferry.load("best.npz")) == 4


def test_the_callback_says_what_can_be_monitored(model):
    """A metric that the model does not report is an error that names those it does."""
    x, y = np.ones((4, 2), "f4"), np.ones((4, 1), "f4")
    keep = ferry.weights_callback("w.npz", monitor="val_loss", save_best_only=True)
    with pytest.raises(ferry.OptionError, match="hint: monitor= can be loss"):
        model.fit(x, y, verbose=0, callbacks=[keep])
    every = ferry.weights_callback("b-{batch}.npz", save_freq=2)
    model.fit(x, y, batch_size=1, verbose=0, callbacks=[every])
    assert sorted(name for name in os.listdir() if name.startswith("b-")) == ["b-2.npz", "b-4.npz"]


def test_a_compiled_model_that_was_never_trained(tf, tmp_path):
    """Its file has little of the optimizer's state, and is restored; a trained one's has all."""
    import keras

    def compiled():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        return model

    one = compiled()
    manager = ferry.CheckpointManager(one, tmp_path / "run")
    manager.save()
    assert manager.restore_latest().ok
    one.fit(np.ones((2, 3)), np.ones((2, 2)), verbose=0)
    manager.save()

    other = compiled()
    assert ferry.Saver(other).restore(manager.latest_checkpoint).ok
    assert len(other.optimizer.variables) == len(one.optimizer.variables) == 6
    for found, wanted in zip(other.optimizer.variables, one.optimizer.variables, strict=True):
        np.testing.assert_array_equal(found, wanted)
