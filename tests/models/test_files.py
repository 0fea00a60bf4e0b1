"""Files of models beside SavedModels, what is replaced, and what is refused before any write."""

from __future__ import annotations

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError

X = np.arange(6, dtype="float32").reshape(2, 3)


class Doubled(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1],), name="kernel")
        self.hidden = {"inner": [tf.Variable(2.0)]}

    def call(self, inputs):
        return inputs * self.kernel * self.hidden["inner"][0]


@keras.saving.register_keras_serializable(package="mine")
class Registered(keras.layers.Layer):
    def call(self, inputs):
        return inputs + 1


def trained(*layers):
    """A model with an optimizer that has taken steps."""
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(2)])
    model.compile("adam", loss=keras.losses.mean_squared_error, run_eagerly=True)
    for _ in range(3):
        model.train_on_batch(X, X[:, :2])
    return model


def test_keras_keeps_the_optimizer(tmp_path):
    """A .keras file has config, weights and training state: training goes on where it was."""
    model = trained()
    report = ferry.save_model(model, tmp_path / "x.keras")
    loaded = ferry.load_model(tmp_path / "x.keras")

    assert report.kept == (
        "the config of the model",
        f"{len(report.variables)} variables",
        "the state of the optimizer",
    )
    assert (report.needs, report.not_kept) == ((), ())
    assert loaded.model.optimizer.iterations.numpy() == 3
    for one in (model, loaded.model):
        one.train_on_batch(X, X[:, :2])
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)
    np.testing.assert_array_equal(loaded(X.tolist()), loaded(X))
    official = keras.saving.load_model(tmp_path / "x.keras")
    assert [v.shape for v in official.weights] == [v.shape for v in model.weights]


def test_keras_with_custom_classes(tmp_path):
    """Classes are named before saving, asked for when loading, and lost variables are named."""
    model = trained(Doubled(), Registered())
    report = ferry.save_model(model, tmp_path / "x.keras", dry_run=True)

    lost = {one.what for one in report.not_kept}
    assert lost == {"class Doubled", "class Registered", "variable doubled/hidden/inner/0"}
    assert len(report.needs) == 3
    assert not (tmp_path / "x.keras").exists()
    ferry.save_model(model, tmp_path / "x.keras")
    with pytest.raises(UnsupportedError, match="for 'Doubled'") as caught:
        ferry.load_model(tmp_path / "x.keras")
    assert "custom_objects=" in caught.value.hint
    classes = {"Doubled": Doubled, "Registered": Registered}
    loaded = ferry.load_model(tmp_path / "x.keras", custom_objects=classes)
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)
    loaded = ferry.load_model(
        tmp_path / "x.keras",
        custom_objects={"Doubled": Doubled},
        allow=("registered", "module"),
        compile=False,
    )
    assert {danger.kind for danger in loaded.dangers} == {"registered", "module"}


def test_lambda_layers(tmp_path):
    """Bytecode is said to be needed when it is saved, and runs only where it is allowed."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x * 3)])
    report = ferry.save_model(model, tmp_path / "x.keras")

    assert any(line.startswith("lambda: runs Python bytecode") for line in report.needs)
    with pytest.raises(UnsupportedError, match="lambda: runs Python bytecode"):
        ferry.load_model(tmp_path / "x.keras")
    np.testing.assert_array_equal(ferry.load_model(tmp_path / "x.keras", allow="lambda")(X), X * 3)
    ferry.save_model(model, tmp_path / "x", durable=False)
    np.testing.assert_array_equal(ferry.load_model(tmp_path / "x")(X), X * 3)


@pytest.mark.parametrize("name", ["x.weights.h5", "x.ckpt", "x.ckpt-3", "x.safetensors", "x.npz"])
def test_variables_alone(tmp_path, name):
    """Files of weights have the optimizer's state, too; they are no models, and say so."""
    model, other = trained(), trained()
    report = ferry.save_model(model, tmp_path / name)
    with pytest.raises(UnsupportedError) as caught:
        ferry.load_model(tmp_path / name)
    ferry.load_weights(other, tmp_path / name, optimizer=True)

    assert "load_weights" in caught.value.hint
    assert report.written
    assert [one.what for one in report.not_kept] == ["program"]
    assert sorted(os.listdir(tmp_path)) == list(report.files)
    assert report.nbytes == sum(variable.nbytes for variable in report.variables)
    for one, two in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(model.optimizer.variables, other.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, two)


def test_training_state(tmp_path):
    """A dict of a model, an optimizer and a step is a checkpoint that TensorFlow restores."""
    model = trained()
    state = {"model": model, "optimizer": model.optimizer, "step": 3}
    report = ferry.save_model(state, tmp_path / "x.ckpt")
    other = trained()
    step = tf.Variable(0, dtype=tf.int64)
    restored = tf.train.Checkpoint(model=other, optimizer=other.optimizer, step=step)
    status = restored.read(str(tmp_path / "x.ckpt"))
    status.assert_consumed()
    status.assert_existing_objects_matched()

    assert report.format == "checkpoint"
    assert "the state of the optimizer" in report.kept
    assert step.numpy() == 3
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(model.optimizer.variables, other.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, two)

    third = trained()
    steps = np.zeros((), "int64")
    goal = {"model": third, "optimizer": third.optimizer, "step": steps}
    assert ferry.load_weights(goal, tmp_path / "x.ckpt", optimizer=True).ok
    assert steps == 3
    for one, two in zip(model.optimizer.variables, third.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, two)


def test_training_state_of_modules(tmp_path):
    """The same for tf.Modules, and without the optimizer where that is wanted."""
    module = tf.Module()
    module.kernel = tf.Variable([1.0, 2.0])
    ferry.save_model({"module": module, "epoch": 2}, tmp_path / "x.ckpt")
    other = tf.Module()
    other.kernel = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(module=other).restore(str(tmp_path / "x.ckpt")).expect_partial()
    assert other.kernel.numpy().tolist() == [1, 2]
    report = ferry.save_model(trained(), tmp_path / "x.npz", optimizer=False)
    assert len(report.variables) == 2
    assert [one.what for one in report.not_kept] == ["program", "optimizer"]
    with pytest.raises(UnsupportedError, match="'note' is a str"):
        ferry.save_model({"module": module, "note": "x"}, tmp_path / "y.ckpt")


# What is there already


@pytest.fixture
def simple():
    module = tf.Module()
    module.scale = tf.Variable(2.0)
    module.__call__ = tf.function(
        lambda x: x * module.scale, input_signature=[tf.TensorSpec([None], tf.float32)]
    )
    return module


def test_a_savedmodel_is_replaced(simple, tmp_path):
    """All of the old one is gone, and nothing is left beside the new one."""
    path = tmp_path / "model"
    ferry.save_model(simple, path)
    (path / "assets").mkdir(exist_ok=True)
    (path / "assets" / "old").write_text("old")
    simple.scale.assign(5.0)
    ferry.save_model(simple, path)

    assert ferry.load_model(path)([1.0]).tolist() == [5]
    assert not (path / "assets" / "old").exists()
    assert os.listdir(tmp_path) == ["model"]
    with pytest.raises(FileExistsError, match="overwrite=False"):
        ferry.save_model(simple, path, overwrite=False)


def test_other_directories_are_left_alone(simple, tmp_path):
    """What is no SavedModel, or has somebody's own files in it, is not replaced."""
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "me.jpg").write_text("me")
    with pytest.raises(FormatError, match=r"no SavedModel alone: it has me\.jpg"):
        ferry.save_model(simple, photos)
    ferry.save_model(simple, tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("mine")
    with pytest.raises(FormatError, match=r"README\.md"):
        ferry.save_model(simple, tmp_path / "model")
    (tmp_path / "file").write_text("file")
    with pytest.raises(FormatError, match="a file is there"):
        ferry.save_model(simple, tmp_path / "file")
    with pytest.raises(FormatError, match="a directory is there"):
        (tmp_path / "x.keras").mkdir()
        ferry.save_model(trained(), tmp_path / "x.keras")
    (tmp_path / "empty").mkdir()
    ferry.save_model(simple, tmp_path / "empty")

    assert (photos / "me.jpg").read_text() == "me"
    assert ferry.load_model(tmp_path / "empty")([1.0]).tolist() == [2]


def test_a_failed_write_changes_nothing(simple, tmp_path, monkeypatch):
    """An error while TensorFlow writes leaves the old model and no temporary one."""
    from tensorferry.frameworks.tensorflow import models as tensorflow_models

    ferry.save_model(simple, tmp_path / "model")
    before = (tmp_path / "model/saved_model.pb").read_bytes()
    write = tensorflow_models.write

    def fail(program, directory):
        write(program, directory)
        raise OSError("no space left")

    monkeypatch.setattr(tensorflow_models, "write", fail)
    with pytest.raises(OSError, match="no space"):
        ferry.save_model(simple, tmp_path / "model")
    assert (tmp_path / "model/saved_model.pb").read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


# What cannot be kept


def test_refused(tmp_path):
    """What has no function, or none that would work elsewhere, is refused before it is written."""

    def back(x):
        return tf.numpy_function(lambda y: y + 1, [x], tf.float32)

    def fails(x):
        raise RuntimeError("my own trouble")

    class Nothing:
        pass

    for model, options, problem in (
        (back, {"inputs": X}, "calls back into Python"),
        (fails, {"inputs": X}, "RuntimeError: my own trouble"),
        (lambda x: object(), {"inputs": X}, "found return value of type object"),
        (lambda x: x, {}, "what the signature 'serving_default' takes is not known"),
        (lambda x: x, {"inputs": X, "signatures": {}}, "empty"),
        (keras.layers.Dense(2, name="early"), {"inputs": X}, "early was not built yet"),
        (Nothing(), {}, "no function that could be called"),
        (Nothing(), {"signatures": ["go"]}, "names 'go', which Nothing has not"),
        ({"a": tf.Variable(1.0)}, {}, "dict has no function"),
    ):
        with pytest.raises(UnsupportedError, match=problem) as caught:
            ferry.save_model(model, tmp_path / "model", **options)
        assert caught.value.hint or "empty" in problem or "Nothing" in problem
    for name in ("x.h5", "x.pb", "x.tflite", "x.json", "x.tfrecord"):
        with pytest.raises(UnsupportedError, match="not kept as"):
            ferry.save_model(lambda x: x, tmp_path / name, inputs=X)
    with pytest.raises(UnsupportedError, match="is no model of Keras"):
        ferry.save_model(lambda x: x, tmp_path / "x.keras")
    with pytest.raises(TypeError, match="shard_size"):
        ferry.save_model(lambda x: x, tmp_path / "x", inputs=X, shard_size="1MB")
    assert os.listdir(tmp_path) == []


def test_model_without_a_config(tmp_path):
    """A class whose __init__ takes what get_config does not say has no .keras file."""

    class Odd(keras.layers.Layer):
        def __init__(self, table):
            super().__init__()
            self.table = table

        def call(self, inputs):
            return inputs

    model = keras.Sequential([keras.Input((3,)), Odd(object())])
    with pytest.raises(UnsupportedError, match="has no config: NotImplementedError"):
        ferry.save_model(model, tmp_path / "x.keras")
    assert ferry.save_model(model, tmp_path / "x", dry_run=True).signatures


def test_what_examples_mean(tmp_path):
    """A tuple is several arguments, a dict of parameters names them, specs are taken exactly."""

    def combine(a, b=None, training=False):
        return a if b is None else a + b

    def specs(inputs):
        report = ferry.save_model(combine, tmp_path / "x", inputs=inputs, dry_run=True)
        return dict(report.signatures[0].inputs)

    assert specs(X) == {"a": "float32[?, 3]"}
    assert specs((X, X[0])) == {"a": "float32[?, 3]", "b": "float32[?]"}
    assert specs({"a": X, "b": [1.0, 2.0, 3.0]}) == {"a": "float32[?, 3]", "b": "float32[?]"}
    assert specs(tf.TensorSpec([4, 3], tf.int8)) == {"a": "int8[4, 3]"}
    report = ferry.save_model(combine, tmp_path / "x", inputs=(X, None, True), dry_run=True)
    assert "the argument training is always True" in report.signatures[0].notes

    def fixed(x):
        return tf.reshape(x, [x.shape[0] * 3])

    report = ferry.save_model(fixed, tmp_path / "x", inputs=X, dry_run=True)
    assert report.signatures[0].inputs == {"x": "float32[2, 3]"}
    assert report.signatures[0].notes[0].startswith("only the size of the examples is taken")
    ragged = ferry.RaggedTensor.from_rows([[1, 2], [3]])
    report = ferry.save_model(lambda r: r * 2, tmp_path / "x", inputs=ragged, durable=False)
    assert list(report.signatures[0].inputs) == ["r_values", "r_row_splits"]
    loaded = ferry.load_model(tmp_path / "x")
    assert loaded(ragged).to_list() == [[2, 4], [6]]
    parts = loaded.signatures["serving_default"](r_values=[5], r_row_splits=[0, 0, 1])
    assert parts["output_0_values"].tolist() == [10]


class Traced(tf.Module):
    """Functions that say nothing of their arguments, as most in the world."""

    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def __call__(self, x):
        return x * self.weight

    @tf.function
    def both(self, a, b, training=False):
        return a + b, (a - b if training else a)


def test_concrete_functions(tmp_path):
    """What `get_concrete_function` gives is a signature, as for `tf.saved_model.save`."""
    module = Traced()
    spec = tf.TensorSpec([None, 3], tf.float32)
    one = module.__call__.get_concrete_function(spec)
    two = module.both.get_concrete_function(spec, b=spec, training=True)
    reserved = module.__call__.get_concrete_function(tf.TensorSpec([None, 3], name="in"))

    report = ferry.save_model(module, tmp_path / "one", signatures=one, durable=False)
    assert report.signatures[0].inputs == {"x": "float32[?, 3]"}
    np.testing.assert_array_equal(ferry.load_model(tmp_path / "one")(X), X * [1, 2, 3])
    np.testing.assert_array_equal(tf.saved_model.load(str(tmp_path / "one"))(X), X * [1, 2, 3])

    signatures = {"one": one, "two": two, "reserved": reserved}
    report = ferry.save_model(module, tmp_path / "all", signatures=signatures, durable=False)
    assert [*report.signatures[1].inputs] == ["a", "b"]
    assert "the argument training is always True" in report.signatures[1].notes
    loaded = ferry.load_model(tmp_path / "all").signatures
    both = loaded["two"](a=X, b=X)
    np.testing.assert_array_equal(both["output_0"], X + X)
    np.testing.assert_array_equal(both["output_1"], X - X)
    np.testing.assert_array_equal(loaded["reserved"](in_=X)["output_0"], X * [1, 2, 3])


def test_a_concrete_function_alone(tmp_path):
    """Its variables are kept, whoever holds them, and so are the shapes that it was traced for."""
    module = Traced()
    concrete = module.__call__.get_concrete_function(tf.TensorSpec([2, 3], tf.float32))

    report = ferry.save_model(concrete, tmp_path / "x", durable=False)

    assert len(report.variables) == 1
    assert report.signatures[0].inputs == {"x": "float32[2, 3]"}
    loaded = ferry.load_model(tmp_path / "x")
    np.testing.assert_array_equal(loaded(X), X * [1, 2, 3])
    with pytest.raises(ferry.MismatchError):
        loaded(X[:1])


def test_several_signatures_of_keras(tmp_path):
    """Other functions of a Keras model take what the model takes, if nothing else is said."""
    model = trained()
    report = ferry.save_model(
        model,
        tmp_path / "x",
        signatures={
            "serving_default": model,
            "probabilities": lambda x: {"p": tf.nn.softmax(model(x))},
            "sum": (lambda x, y: x + y, (X, X)),
        },
        durable=False,
    )
    loaded = ferry.load_model(tmp_path / "x")

    assert [one.name for one in report.signatures] == list(loaded.signatures)
    assert report.signatures[1].inputs == {"x": "float32[?, 3]"}
    expected = tf.nn.softmax(model(X)).numpy()
    np.testing.assert_allclose(loaded.signatures["probabilities"](X)["p"], expected, rtol=1e-6)
    np.testing.assert_array_equal(loaded.signatures["sum"](x=X, y=X)["output_0"], X + X)
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)


WITHOUT_TENSORFLOW = """
import sys
import keras, numpy as np
import tensorferry as ferry
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
ferry.save_model(model, sys.argv[1] + "/x.keras")
loaded = ferry.load_model(sys.argv[1] + "/x.keras")
x = np.ones((1, 3), "float32")
assert np.allclose(loaded(x), model(x)) and np.allclose(loaded([[1, 1, 1]]), model(x))
try:
    ferry.save_model(model, sys.argv[1] + "/x")
except ferry.UnsupportedError as error:
    print(error.message)
"""


def test_another_backend_of_keras(tmp_path):
    """Keras' own files need no TensorFlow; programs do, and that is said."""
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("Keras computes with jax here")


def test_keras_2(tmp_path):
    """A model of Keras 2 is a model of TensorFlow's, and is kept as one."""
    tf_keras = pytest.importorskip("tf_keras")
    model = tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))])
    report = ferry.save_model(model, tmp_path / "x", durable=False)
    assert len(report.variables) == 2
    np.testing.assert_allclose(ferry.load_model(tmp_path / "x")(X), model(X), rtol=1e-6)
    model.save(tmp_path / "y", save_format="tf")
    np.testing.assert_allclose(ferry.load_model(tmp_path / "y")(X), model(X), rtol=1e-6)
    inputs = tf_keras.Input((3,))
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(2, activation="relu")(inputs))
    model.save(tmp_path / "z.h5")
    np.testing.assert_allclose(ferry.load_model(tmp_path / "z.h5")(X), model(X), rtol=1e-6)
