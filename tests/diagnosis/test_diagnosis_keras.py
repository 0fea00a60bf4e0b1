"""Diagnosis of Keras' models; model.save, load_model and the picklers decide."""

from __future__ import annotations

import pickle
import threading
import time
import tracemalloc

import cloudpickle
import numpy as np
import pytest

import tensorferry as ferry

DUMPS = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


class Box:
    """A Python object that nobody tracks."""

    def __init__(self, **held):
        vars(self).update(held)


def named(x):
    """A function that nobody registered."""
    return x


@pytest.fixture(scope="module")
def keras(tf):
    """Keras 3, which TensorFlow brings."""
    import keras

    return keras


@pytest.fixture(scope="module")
def makers(keras):
    """Functions that make a model, built unless its name says otherwise."""
    layers = keras.layers

    def register(kind):
        """Registered with Keras, and found by pickle as a class of this module."""
        kind.__qualname__ = kind.__name__
        globals()[kind.__name__] = kind
        return keras.saving.register_keras_serializable("diagnosis")(kind)

    @keras.saving.register_keras_serializable("diagnosis")
    class Local(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    @register
    class Narrow(Local):
        """Its constructor does not take what every config has."""

        def __init__(self):
            super().__init__()

    @register
    class Plain(layers.Layer):
        def __init__(self, units, **options):
            super().__init__(**options)
            self.units = units
            self.lock = threading.Lock()

        def call(self, x):
            return x

    class Unregistered(Plain):
        pass

    @register
    class NoConfig(layers.Layer):
        def __init__(self, tokenizer, **options):
            super().__init__(**options)
            self.tokenizer = tokenizer

        def call(self, x):
            return x

    @register
    class Forgetful(layers.Layer):
        """Its config lacks an argument that it cannot do without."""

        def __init__(self, units, **options):
            super().__init__(**options)
            self.units = units

        def call(self, x):
            return x

        def get_config(self):
            return super().get_config()

    @register
    class Careless(Forgetful):
        """Its config lacks an argument that has a default."""

        def __init__(self, units=1, **options):
            super().__init__(units, **options)

    @register
    class Odd(Plain):
        """Its config has something that is no plain value."""

        def get_config(self):
            return {**super().get_config(), "units": self.units, "lock": self.lock}

    @register
    class Raising(Plain):
        def get_config(self):
            raise RuntimeError("not today")

    @register
    class Hiding(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.dense = layers.Dense(2)
            self.box = Box(part=keras.Variable(np.float32(3.0)))
            self.note = "later"

        def call(self, x):
            return self.dense(x) * self.box.part

    @register
    class Numbered(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.parts = {1: layers.Dense(2)}

        def call(self, x):
            return self.parts[1](x)

    @register
    class Subclassed(keras.Model):
        def __init__(self, units, **options):
            super().__init__(**options)
            self.units = units
            self.dense = layers.Dense(units)
            self.rest = [layers.Dense(3), layers.Dense(2)]
            self.lock = threading.Lock()

        def get_config(self):
            return {**super().get_config(), "units": self.units}

        def call(self, x):
            for layer in (self.dense, *self.rest):
                x = layer(x)
            return x

    @register
    class Unconfigured(keras.Model):
        def __init__(self, units):
            super().__init__()
            self.units = units
            self.dense = layers.Dense(units)

        def call(self, x):
            return self.dense(x)

    def sequence(*middle):
        return keras.Sequential([keras.Input((3,)), layers.Dense(3), *middle, layers.Dense(2)])

    def called(model):
        model(np.ones((1, 3), np.float32))
        return model

    def functional(layer):
        given = keras.Input((3,))
        return keras.Model(given, layers.Dense(2)(layer(given)))

    def compiled(loss):
        model = sequence()
        model.compile("adam", loss)
        return model

    return {
        "sequential": sequence,
        "functional": lambda: functional(layers.Dense(4)),
        "registered": lambda: sequence(Plain(3)),
        "unregistered": lambda: sequence(Unregistered(3)),
        "unregistered, functional": lambda: functional(Unregistered(3)),
        "nested": lambda: sequence(sequence(Unregistered(3))),
        "lambda": lambda: sequence(layers.Lambda(lambda x: x * 2)),
        "lambda of a name": lambda: sequence(layers.Lambda(named)),
        "activation": lambda: sequence(layers.Dense(2, activation=named)),
        "no config": lambda: sequence(NoConfig(Box())),
        "forgetful": lambda: sequence(Forgetful(3)),
        "careless": lambda: sequence(Careless(3)),
        "odd": lambda: sequence(Odd(3)),
        "raising": lambda: sequence(Raising(3)),
        "hiding": lambda: called(Hiding()),
        "numbered": lambda: called(Numbered()),
        "subclassed": lambda: called(Subclassed(4)),
        "model without a config": lambda: called(Unconfigured(4)),
        "narrow": lambda: called(Narrow()),
        "local": lambda: called(Local()),
        "not built": lambda: Subclassed(4),
        "compiled": lambda: compiled("mse"),
        "own loss": lambda: compiled(named_loss),
        "closing": lambda: sequence(closing(keras)),
        "dropout": lambda: sequence(layers.Dropout(0.5)),
        "recurrent dropout": lambda: keras.Sequential(
            [keras.Input((3, 4)), layers.LSTM(2, dropout=0.1)]
        ),
        "layer": lambda: built(layers.Dense(2)),
    }


def closing(keras):
    """A layer with a function that closes over a variable."""
    weight = keras.Variable(np.float32(2))
    return keras.layers.Lambda(lambda x: x * weight)


def built(layer):
    layer.build((None, 3))
    return layer


def named_loss(y_true, y_pred):
    """A loss that nobody registered."""
    return (y_true - y_pred) ** 2


# What lies where, and what .keras makes of it and of the whole, and pickle of the whole.
CASES = {
    "sequential": ("model.layers[0]", "keeps", "keeps", "keeps"),
    "functional": ("model.layers[1]", "keeps", "keeps", "keeps"),
    "registered": ("model.layers[1]", "keeps", "keeps", "keeps"),
    "unregistered": ("model.layers[1]", "fails", "fails", "fails"),
    "unregistered, functional": ("model.layers[1]", "fails", "fails", "fails"),
    "nested": ("model.layers[1].layers[1]", "fails", "fails", "fails"),
    "lambda": ("model.layers[1].function", "fails", "fails", "keeps"),
    "lambda of a name": ("model.layers[1].function", "fails", "fails", "fails"),
    "activation": ("model.layers[1].activation", "fails", "fails", "fails"),
    "no config": ("model.layers[1].tokenizer", "fails", "fails", "fails"),
    "forgetful": ("model.layers[1].units", "fails", "fails", "fails"),
    "careless": ("model.layers[1].units", "drops", "drops", "drops"),
    "odd": ("model.layers[1].lock", "fails", "fails", "fails"),
    "raising": ("model.layers[1]", "fails", "fails", "fails"),
    "hiding": ("model.box.part", "drops", "drops", "drops"),
    "numbered": ("model.parts", "keeps", "keeps", "keeps"),
    "subclassed": ("model.lock", "drops", "keeps", "keeps"),
    "model without a config": ("model", "fails", "fails", "fails"),
    "narrow": ("model", "fails", "fails", "fails"),
    "local": ("model.dense", "keeps", "keeps", "fails"),
    "not built": ("model.dense", "keeps", "keeps", "keeps"),
    "compiled": ("model.layers[0]", "keeps", "keeps", "keeps"),
    "own loss": ("model.loss", "fails", "fails", "fails"),
    "closing": ("model.layers[1].function", "fails", "fails", "drops"),
    "dropout": ("model.layers[1]", "keeps", "keeps", "keeps"),
    "recurrent dropout": ("model.layers[0]", "keeps", "keeps", "keeps"),
    "layer": ("model.bias", "keeps", "keeps", "keeps"),
}


@pytest.mark.parametrize("name", CASES)
def test_keras(name, makers, keras, tmp_path):
    """A .keras file keeps, leaves out and refuses what the report says."""
    path, verdict, whole, _ = CASES[name]
    model = makers[name]()
    report = ferry.diagnose(model)

    assert report.ways["keras"].verdict == whole
    assert report[path].verdicts["keras"] == verdict
    if whole == "fails":
        assert "keras" in report[path].reasons
        with pytest.raises((TypeError, ValueError, NotImplementedError, RuntimeError)):
            back_and_forth(model, keras, tmp_path)
        return
    loaded = back_and_forth(model, keras, tmp_path)
    assert len(loaded.get_weights()) == len(model.get_weights())
    for mine, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        assert (mine == other).all()
    if name == "careless":
        assert loaded.layers[1].units != model.layers[1].units


def back_and_forth(model, keras, folder):
    """What comes back of a model that is saved."""
    keras.saving.save_model(model, folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


@pytest.mark.parametrize("name", CASES)
def test_picklers(name, makers):
    """Pickling such a model, and unpickling it, goes as the report says."""
    path, _, _, whole = CASES[name]
    model = makers[name]()
    report = ferry.diagnose(model)

    for way, dumps in DUMPS.items():
        if name == "local":  # cloudpickle takes the class along
            path, whole = "model", "fails" if way == "pickle" else "keeps"
        assert report.ways[way].verdict == whole
        if whole == "fails":
            assert report[path].verdicts[way] == "fails"
            with pytest.raises(
                (AttributeError, TypeError, ValueError, NotImplementedError, RuntimeError)
            ):
                pickle.loads(dumps(model))
        else:
            assert len(pickle.loads(dumps(model)).get_weights()) == len(model.get_weights())
    for row in report.attributes:
        eval(row.path, {"model": model})
    assert max(map(len, str(report).splitlines())) <= 80


@pytest.mark.parametrize("name", CASES)
def test_inside(name, makers):
    """A model inside of something else is judged as it is alone, under its longer path."""
    path, _, _, whole = CASES[name]
    held = {"held": Box(part=makers[name]())}
    alone, report = ferry.diagnose(held["held"].part), ferry.diagnose(held)

    for way, dumps in DUMPS.items():
        assert report.ways[way].verdict == alone.ways[way].verdict
        if whole == "fails" and name != "local":
            longer = path.replace("model", "model['held'].part", 1)
            assert report[longer].verdicts[way] == "fails"
            with pytest.raises((TypeError, ValueError, NotImplementedError, RuntimeError)):
                pickle.loads(dumps(held))
    for row in report.attributes:
        eval(row.path, {"model": held})


# What a SavedModel has no place for.
UNSAVED = {
    "hiding": "model.box.part",
    "numbered": "model.parts",
    "closing": "model.layers[1].function.__closure__[0].cell_contents",
    "recurrent dropout": "model.layers[0].cell",
}


@pytest.mark.parametrize("name", CASES)
def test_saved_model(name, makers, tf, tmp_path):
    """tf.saved_model.save takes the model exactly if the report says so.

    It also writes a model that was not built, with nothing in it; model.export and save_model do
    not.
    """
    model = makers[name]()
    report = ferry.diagnose(model)

    if name == "not built":
        assert report.ways["savedmodel"].verdict == "fails"
        with pytest.raises(ValueError, match="not yet been built"):
            model.export(tmp_path / "theirs")
        with pytest.raises(ferry.UnsupportedError, match="not built yet"):
            ferry.save_model(model, tmp_path / "ours")
    elif report.ways["savedmodel"].verdict == "fails":
        with pytest.raises((AssertionError, KeyError, ValueError)):
            tf.saved_model.save(model, str(tmp_path))
        assert "savedmodel" in report[UNSAVED[name]].reasons
    else:
        assert name not in UNSAVED
        tf.saved_model.save(model, str(tmp_path))


def test_weights(makers, tmp_path):
    """Weights are kept, whatever a model's classes are; hidden ones and those to come are not."""
    for name in CASES:
        model = makers[name]()
        verdict = ferry.diagnose(model).ways["weights"].verdict
        if name == "not built":
            assert verdict == "fails"
            with pytest.raises(ferry.UnsupportedError):
                ferry.save_weights(model, tmp_path / "weights.npz")
        else:
            assert verdict == ("drops" if name in ("hiding", "closing") else "keeps")
            ferry.save_weights(model, tmp_path / "weights.npz")
            assert len(ferry.load(tmp_path / "weights.npz")) == len(model.weights)


def test_not_built(makers):
    """The page says that there are no weights yet."""
    report = ferry.diagnose(makers["not built"]())

    assert "was not built yet: it has no weights" in report.ways["weights"].reason
    assert "was not built yet" in str(report)
    assert report.recipe is None


def test_nothing_is_run(keras):
    """The model is not called, not built, and stays as it is."""
    calls = []

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            calls.append(x)
            return self.dense(x)

    model = Model()
    names = [name for name in vars(model) if not name.startswith("_self_")]
    ferry.diagnose(model)

    assert not calls
    assert not model.built
    number = int(keras.layers.Dense(1).name.split("_")[-1])
    ferry.diagnose(keras.Sequential([model], name="outer"))
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"
    assert not model.dense.built
    assert [name for name in vars(model) if not name.startswith("_self_")] == names


def test_large(keras):
    """A gigabyte of weights is not copied, though Keras would for pickle."""
    model = keras.Sequential(
        [keras.Input((1 << 14,)), keras.layers.Dense(1 << 14, kernel_initializer="zeros")]
    )
    ferry.diagnose(keras.layers.Dense(1))
    tracemalloc.start()
    start = time.process_time()
    report = ferry.diagnose([model, threading.Lock()])
    whole = ferry.diagnose(model)
    seconds = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report["model[0]"].verdicts["pickle"] == "keeps"
    assert report["model[1]"].verdicts["pickle"] == "fails"
    assert whole.ways["keras"].verdict == "keeps"
    assert peak < 20e6
    assert seconds < 2


def test_order_of_advice(makers):
    """Keras' own file comes first where it works, then graphs, then weights."""
    assert [one.way for one in ferry.diagnose(makers["subclassed"]()).advice] == [
        "keras",
        "savedmodel",
        "weights",
        "pickle",
        "cloudpickle",
    ]
    assert [one.way for one in ferry.diagnose(makers["no config"]()).advice] == [
        "savedmodel",
        "weights",
    ]
