"""Files of Keras whose config does more than describe a model: refused before Keras sees them."""

from __future__ import annotations

import base64
import json
import marshal
import os
import shutil
import sys
import tracemalloc
import zipfile

import h5py
import keras
import numpy as np
import pytest
from hostile.graphs import refused

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.keras import config as keras_config
from tensorferry.models import private

X = np.ones((1, 3), "float32")
DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}}


def rewrite(path, edit):
    """Changes the members of an archive."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    edit(members)
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.fixture
def make(genuine, tmp_path):
    """Files of the genuine model with other layers in its config, of both kinds."""

    def both(*layers, **more):
        archive, legacy = (shutil.copy(genuine / name, tmp_path) for name in ("x.keras", "x.h5"))

        def change(members):
            config = json.loads(members["config.json"])
            config["config"]["layers"][1:1] = layers
            config.update(more)
            members["config.json"] = json.dumps(config)

        rewrite(archive, change)
        with h5py.File(legacy, "a") as file:
            config = json.loads(file.attrs["model_config"])
            config["config"]["layers"][1:1] = layers
            config.update(more)
            file.attrs["model_config"] = json.dumps(config)
        return archive, legacy

    return both


def code(path):
    """Bytecode that would leave a file behind."""
    source = f"open({str(path)!r}, 'w')"
    return base64.b64encode(marshal.dumps(compile(source, "x", "eval"))).decode()


def test_a_config_in_two_places(make, tmp_path):
    """Keras reads config.json; a harmless config in the weights of an archive says nothing."""
    trace = tmp_path / "trace"
    evil = {"class_name": "__lambda__", "config": {"value": code(trace)}}
    layer = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": evil}}
    (archive, _) = make(layer)
    harmless = {"class_name": "Sequential", "module": "keras", "config": {"layers": [DENSE]}}

    def change(members):
        (tmp_path / "w.h5").write_bytes(members["model.weights.h5"])
        with h5py.File(tmp_path / "w.h5", "a") as file:
            file.attrs["model_config"] = json.dumps(harmless)
            file.attrs["training_config"] = json.dumps({"loss": "mse"})
        members["model.weights.h5"] = (tmp_path / "w.h5").read_bytes()

    refused(rewrite(archive, change), "lambda")
    assert ferry.inspect(archive).model.keras.findings[0].kind == "bytecode"
    assert not trace.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("keras", "utils.get_file"),
        ("keras", "saving.load_model"),
        ("keras.layers", "TFSMLayer.from_config"),
        ("keras", "config.enable_unsafe_deserialization"),
        ("keras.src", "utils.file_utils.get_file"),
        ("keras.utils", "get_file"),
        ("keras.models", "model_from_json"),
        ("keras.callbacks", "ModelCheckpoint"),
        ("keras.saving", "KerasFileEditor"),
        ("keras.src.saving.file_editor", "KerasFileEditor"),
        ("keras.export", "ExportArchive"),
        ("keras.layers", "JaxLayer"),
        ("keras.layers", "FlaxLayer"),
        ("keras.layers", "deserialize"),
        ("keras.losses", "deserialize"),
        ("keras.ops", "custom_gradient"),
        ("keras._legacy.backend", "eval"),
        ("keras.src.ops.core", "Map"),
        ("keras.quantizers", "GPTQConfig"),
        ("keras.dtype_policies", "get"),
    ],
)
def test_names_that_are_no_part_of_a_model(make, module, name):
    """Whatever of Keras is not in the list is refused, as a class and as a function."""
    as_class = {"module": module, "class_name": name, "config": {}}
    as_function = {"module": module, "class_name": "function", "config": name}
    activation = {
        "module": "keras.layers",
        "class_name": "Activation",
        "config": {"activation": as_function},
    }
    for layer in (as_class, activation):
        for path in make(layer):
            error = refused(path, "gadget")
            assert name.rpartition(".")[2] in error.message


@pytest.mark.parametrize("name", ["get", "deserialize", "serialize", "exec", "get_file", "Dense"])
def test_functions_without_a_module(make, name):
    """Keras looks for functions of the module "builtins" in several places of its own."""
    function = {"module": "builtins", "class_name": "function", "config": name}
    for path in make({**DENSE, "config": {"units": 2, "activation": function}}):
        refused(path, "function")


def test_other_modules(make):
    """The published attacks: any callable of any module, with its arguments in the config."""
    for module, name in (
        ("subprocess", "Popen"),
        ("os", "system"),
        ("keras_hub", "x"),
        ("kerasx", "y"),
    ):
        for path in make({"module": module, "class_name": name, "config": {"args": ["true"]}}):
            refused(path, "module")
        function = {"module": module, "class_name": "function", "config": name}
        for path in make({**DENSE, "config": {"units": 2, "activation": function}}):
            refused(path, "module")


def test_tests_of_keras(make, monkeypatch):
    """A part of Keras that nobody has imported is not imported because a file names it."""
    for module, name in (
        ("keras.src.layers.core.dense_test", "Dense"),
        ("keras.src.losses.loss_test", "Loss"),
    ):
        monkeypatch.delitem(sys.modules, module, raising=False)
        for path in make({"module": module, "class_name": name, "config": {"units": 2}}):
            refused(path, "module")
        assert module not in sys.modules


@pytest.mark.parametrize("name", ["deserialize", "__builtins__", "TypeSpec", "Evil", "get_file"])
def test_classes_of_old_files(make, name):
    """Old files name classes alone, which Keras looks up among everything in its layers."""
    for path in make({"class_name": name, "config": {"name": "x"}, "type_spec": "x"}):
        refused(path, "class")


def test_functions_of_old_files(make):
    """A text in an old config becomes the function of that name beside Keras' layers."""
    for name in ("serialize", "deserialize"):
        layer = {"class_name": "Activation", "config": {"name": "x", "activation": name}}
        for path in make(layer):
            refused(path, "gadget", "function")


@pytest.mark.parametrize("name", ["os.system", "get_file", "eval", "Lambda", "x>y"])
def test_names_in_texts(make, name):
    """A text that stands for a function or class is one of those that only compute."""
    for key in (
        "activation",
        "kernel_initializer",
        "bias_regularizer",
        "activity_regularizer",
        "kernel_constraint",
    ):
        for layer in (DENSE, {"class_name": "Dense"}):
            for path in make({**layer, "config": {"units": 2, key: name}}):
                error = refused(path, "function")
                assert f"looks up {name!r}" in error.message


@pytest.mark.parametrize("name", ["os.system", "get_file", "Lambda"])
def test_names_that_a_model_is_compiled_with(make, name):
    """The same in losses, metrics and optimizers, however deep; without `compile` nobody looks."""
    sound = {"loss": "mse", "optimizer": "adam", "metrics": ["acc"], "loss_weights": None}
    for key, value in (
        ("loss", name),
        ("loss", {"a": [name]}),
        ("metrics", [["mae", {"a": name}]]),
        ("weighted_metrics", [name]),
        ("optimizer", name),
    ):
        (archive, legacy) = make(compile_config={**sound, key: value})
        refused(archive, "function")
        assert ferry.load_model(archive, compile=False)(X).shape == (1, 2)
        if key == "optimizer":
            continue
        with h5py.File(legacy, "a") as file:
            config = json.loads(file.attrs["model_config"])
            del config["compile_config"]
            file.attrs["model_config"] = json.dumps(config)
            training = json.loads(file.attrs["training_config"])
            file.attrs["training_config"] = json.dumps({**training, key: value})
        refused(legacy, "function")
        assert ferry.load_model(legacy, compile=False)(X).shape == (1, 2)


def test_functions_that_a_lambda_layer_names(make):
    """A Lambda layer calls functions that a text names."""
    for config in (
        {"function": "system"},
        {"function": "relu", "output_shape": "system"},
        {"function": "relu", "mask": "os.system"},
    ):
        for path in make({"module": "keras.layers", "class_name": "Lambda", "config": config}):
            refused(path, "function")


@pytest.mark.parametrize("name", [None, 7, ["Dense"], {"a": "Dense"}, "__tuple__", "TensorShape"])
def test_classes_that_are_no_classes(make, name):
    """A name that is no text, or of a value, does not make Keras import the module beside it."""
    layer = {"module": "keras.src.backend.jax", "class_name": name, "config": {}}
    for path in make(layer):
        refused(path, "gadget")


def test_a_long_key_costs_no_more_than_its_length():
    """Places in a config are told by their ends: a key is not copied for each value below it."""
    configs = [
        {"k" * 300_000: [{}] * 20_000},
        {"class_name": "Dense", "config": {"k" * 300_000 + "_loss": ["none"] * 20_000}},
    ]
    for config in configs:
        tracemalloc.start()
        findings = keras_config.find(config)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
        tracemalloc.stop()
        assert all(len(finding.place) < 300 for finding in findings)


class Told(list):
    """A list that must not become text: all configs around it would do so as well."""

    def __repr__(self):
        raise AssertionError("a list became text")


NESTED = {
    "vocabulary": lambda inner: {"class_name": "A", "config": {"vocabulary": {"a": inner}}},
    "function": lambda inner: {"class_name": "function", "config": inner},
    "class": lambda inner: {"class_name": inner},
    "registered": lambda inner: {"class_name": "Dense", "registered_name": inner},
    "named": lambda inner: {"function_type": "function", "module": inner, "function": inner},
    "type": lambda inner: {"class_name": "__typespec__", "module": "a", "spec_name": inner},
}


@pytest.mark.parametrize("kind", NESTED)
def test_configs_inside_of_each_other(kind):
    """Of a list or an object in the place of a name, only that is told: it may hold all others."""
    findings = keras_config.find(NESTED[kind](NESTED[kind](Told())))

    assert findings


def test_names_inside_of_each_other(monkeypatch):
    """A list of names is looked at once, in however many configs it stands."""
    config = ["mse"] * 1000
    for _ in range(50):
        config = {"optimizer_config": None, "loss": config}
    below, walked = keras_config._below, []
    monkeypatch.setattr(
        keras_config, "_below", lambda *given: walked.append(given) or below(*given)
    )

    assert not keras_config.find(config)
    assert len(walked) < 5000
    assert keras_config.find({"loss": {"optimizer_config": 0, "out": "a"}, "optimizer_config": 0})


def test_names_beside_a_name(make):
    """A part of Keras that is said to be registered under another name is refused by us."""
    for layer in (
        {**DENSE, "registered_name": "Custom>Evil"},
        {**DENSE, "registered_name": "Lambda"},
        {**DENSE, "registered_name": ["Dense"]},
        {"class_name": "Dense", "registered_name": "Custom>Evil", "config": {"units": 2}},
    ):
        for path in make(layer):
            refused(path, "registered")
    function = {"module": "keras.activations", "class_name": "function", "config": "relu"}
    for path in make(
        {**DENSE, "config": {"units": 2, "activation": {**function, "registered_name": "evil"}}}
    ):
        refused(path, "registered")
    for name in ("relu", "function", None):
        given = {**function, "registered_name": name}
        config = {"module": "keras.layers", "class_name": "Activation", "registered_name": None}
        (archive, _) = make({**config, "config": {"activation": given}})
        assert ferry.load_model(archive)(X).shape == (1, 2)


class Mine(keras.layers.Layer):
    """A layer of the caller's, whose config means what it likes."""

    def __init__(self, activation=None, **options):
        super().__init__(**options)
        self.activation = activation


def test_custom_objects_are_what_the_caller_named(make):
    """A name of the caller's is not a word for something else that the file names."""
    mine = {"module": "somewhere", "class_name": "Mine", "config": {"activation": "wavy"}}
    for name in ("Mine", "package>Mine", "package>Other"):
        (archive, _) = make({**mine, "registered_name": name})
        model = ferry.load_model(archive, custom_objects={"Mine": Mine}).model
        assert [one.activation for one in model.layers if isinstance(one, Mine)] == ["wavy"]
    # Keras would import the module instead, or take the caller's class for its own.
    for name in (None, "Dense", "Other"):
        (archive, _) = make({**mine, "registered_name": name})
        refused(archive, "module", custom_objects={"Mine": Mine})
    for path in make({"class_name": "package>TFSMLayer", "config": {"name": "x"}}):
        refused(path, "class")


def test_types_of_tensors(make):
    """A type of a tensor names a class, too."""
    spec = {
        "class_name": "__typespec__",
        "spec_name": "get_file",
        "module": "keras.utils",
        "registered_name": None,
        "config": [],
    }
    for path in make({**DENSE, "config": {"units": 2, "name": spec}}):
        refused(path, "gadget")


def test_bytecode_in_every_way(make, tmp_path):
    """Keras 1 to 3 wrote bytecode in five ways, and output shapes may be code as well."""
    trace = tmp_path / "trace"
    text = code(trace)
    lambdas = (
        {"function": {"class_name": "__lambda__", "config": {"value": text}}},
        {"function": {"class_name": "__lambda__", "config": {"code": text}}},
        {"function": [text, None, None]},
        {"function": [text, None, None], "function_type": "lambda"},
        {"function": text, "function_type": "raw"},
        {"function": [text, None, None], "function_type": "another"},
        {"function": "relu", "function_type": "function", "output_shape_type": "lambda"},
    )
    for config in lambdas:
        for layer in (
            {"class_name": "Lambda", "config": config},
            {"module": "keras.layers", "class_name": "Lambda", "config": config},
            {
                "module": "keras.src.layers.core.lambda_layer",
                "class_name": "Lambda",
                "config": config,
            },
        ):
            for path in make(layer):
                refused(path, "lambda")
    assert not trace.exists()


@pytest.mark.parametrize("name", ["StringLookup", "IntegerLookup", "TextVectorization"])
def test_vocabularies_from_paths(make, tmp_path, name):
    """A vocabulary is a list of words, no path, however it is spelled."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    as_bytes = {"class_name": "__bytes__", "config": {"value": str(secret)}}
    for module in ("keras.layers", f"keras.src.layers.preprocessing.{name.lower()}"):
        for words in (str(secret), as_bytes, {"class_name": "__slice__", "config": {}}):
            layer = {"module": module, "class_name": name, "config": {"vocabulary": words}}
            for path in make(layer):
                refused(path, "read")


def test_models_inside_of_models(make):
    """What a model inside a model is compiled with is looked at as well."""
    evil = {"module": "keras.utils", "class_name": "function", "config": "get_file"}
    inner = {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"layers": [DENSE]},
        "compile_config": {"loss": [[{"a": evil}]], "optimizer": "adam"},
        "build_config": {"input_shape": evil},
    }
    for path in make(inner):
        refused(path, "gadget")


def test_registered_names_anywhere(make):
    """A metric by its registered name, in a list of lists, is made when the model is compiled."""
    made = []

    @keras.saving.register_keras_serializable(package="hostile")
    class Spy(keras.metrics.Mean):
        def __init__(self, **options):
            made.append(self)
            super().__init__(**options)

    compiled = {"loss": "mse", "optimizer": "adam", "metrics": [["hostile>Spy"]]}
    (archive, legacy) = make(compile_config=compiled)
    refused(archive, "registered")
    with h5py.File(legacy, "a") as file:
        training = json.loads(file.attrs["training_config"])
        training["metrics"] = [[["hostile>Spy"]]]
        file.attrs["training_config"] = json.dumps(training)
    refused(legacy, "registered")

    @keras.saving.register_keras_serializable(package="hostile")
    def send(x):
        made.append(x)
        return x

    function = {"module": "builtins", "class_name": "function", "config": "send"}
    for path in make({**DENSE, "config": {"units": 2, "activation": function}}):
        refused(path, "function")
    assert not made


def test_datasets_that_no_layout_has(make, tmp_path):
    """A dataset in another file is refused wherever it stands, before the HDF5 library opens it."""
    (tmp_path / "secret").write_bytes(bytes(64))
    (archive, legacy) = make()
    outside = [(str(tmp_path / "secret"), 0, 64)]
    with h5py.File(legacy, "a") as file:
        file.create_dataset("elsewhere/x", (16,), "float32", external=outside)
    with pytest.raises(UnsupportedError, match=r"other files|another file|external"):
        ferry.load_model(legacy, allow=True)

    def change(members):
        (tmp_path / "w.h5").write_bytes(members["model.weights.h5"])
        with h5py.File(tmp_path / "w.h5", "a") as file:
            file.create_dataset("optimizer/x/vars/0", (16,), "float32", external=outside)
        members["model.weights.h5"] = (tmp_path / "w.h5").read_bytes()

    with pytest.raises(UnsupportedError, match=r"other files|another file|external"):
        ferry.load_model(rewrite(archive, change), allow=True)


def test_old_versions_of_keras(make, monkeypatch):
    """A Keras with known holes loads a file on the caller's word alone."""
    (archive, legacy) = make()
    for version in ("3.0.0", "3.8.0", "3.11.3", "3.12.0"):
        monkeypatch.setattr(keras, "__version__", version)
        for path in (archive, legacy):
            error = refused(path, "version")
        assert f"Keras {version} has known holes in loading models; 3.12.1 is" in error.message
    assert ferry.load_model(archive, allow="version")(X).shape == (1, 2)
    monkeypatch.setattr(keras, "__version__", "3.13.0.dev20260101")
    assert ferry.load_model(archive)(X).shape == (1, 2)


def test_the_judged_bytes_are_loaded(make, tmp_path, monkeypatch):
    """A file that is replaced after it was judged changes nothing, and no copy stays behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def racing(copy):
        def race(path, *more):
            made = copy(path, *more)
            with open(path, "wb") as file:
                file.write(b"something else")
            return made

        return race

    for path in make():
        with monkeypatch.context() as patch:
            patch.setattr(private, "copy_file", racing(private.copy_file))
            patch.setattr(private, "unpack_archive", racing(private.unpack_archive))
            model = ferry.load_model(path)
        assert model(X).shape == (1, 2)
        assert model.path == str(path)
        with pytest.raises(FormatError, match="by its name") as caught:
            ferry.load_model(path)
        assert caught.value.path == str(path)
    assert os.listdir(tmp_path / "temporary") == []


# What is fine


def instances(package, *arguments):
    """What each class of a package makes, if it can be made so, and its config."""
    for name, kind in vars(package).items():
        if isinstance(kind, type) and kind.__name__ == name:
            for given in ((), *arguments):
                try:
                    value = kind(*given)
                    yield value, keras.saving.serialize_keras_object(value)
                    break
                except Exception:  # it needs other arguments
                    continue


def test_what_keras_writes_is_fine():
    """The configs of Keras' own classes and functions have nothing that is more than computing."""
    count = 0
    for package in (
        keras.losses,
        keras.metrics,
        keras.optimizers,
        keras.optimizers.schedules,
        keras.initializers,
        keras.regularizers,
        keras.constraints,
        keras.dtype_policies,
        keras.quantizers,
        keras.layers,
    ):
        arguments = [(2,), (1, 2), (2, 2), ((2, 2),), (0.5, 10), (0.5, 10, 0.5), ("int8",)]
        for value, config in instances(package, *arguments):
            name = type(value).__name__
            if name in ("GPTQConfig", "AWQConfig", "InputSpec", "Lambda"):
                continue
            assert keras_config.find(config) == (), name
            count += 1
    for package in (keras.activations, keras.losses, keras.metrics, keras.ops):
        for name, function in vars(package).items():
            if name in ("get", "deserialize", "serialize") or name.startswith("_"):
                continue
            if callable(function) and not isinstance(function, type) and package is not keras.ops:
                config = keras.saving.serialize_keras_object(function)
                assert keras_config.find(config) == (), name
                count += 1
    assert count > 250


def test_models_of_every_day(tmp_path):
    """Functional models with ops, attention, augmentation, lookups and mixed precision."""
    layers = keras.layers
    image = keras.Input((16, 16, 3), name="image")
    x = layers.RandomFlip()(layers.Rescaling(1 / 255)(image))
    x = layers.Conv2D(4, 3, activation="relu", kernel_regularizer="l2")(x)
    x = layers.BatchNormalization()(layers.SeparableConv2D(4, 3)(x))
    x = layers.GlobalAveragePooling2D()(keras.ops.relu(x) * 2.0)
    words = keras.Input((5,), dtype="string", name="words")
    ids = layers.StringLookup(vocabulary=["a", "b"])(words)
    y = layers.Embedding(4, 4)(ids)
    y = layers.MultiHeadAttention(2, 2)(y, y)
    y = layers.Bidirectional(layers.LSTM(2, dropout=0.1))(y)
    z = keras.ops.concatenate([x, y], axis=-1)[:, :6]
    z = layers.Dense(3, activation=keras.ops.tanh, dtype="mixed_float16")(z)
    model = keras.Model({"image": image, "words": words}, layers.Activation("softmax")(z))
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 10)
    model.compile(
        keras.optimizers.AdamW(schedule),
        loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
        metrics=["accuracy", keras.metrics.AUC()],
    )
    model.save(tmp_path / "x.keras")
    loaded = ferry.load_model(tmp_path / "x.keras")
    assert loaded.dangers == ()
    inputs = {"image": np.ones((2, 16, 16, 3), "float32"), "words": np.array([["a"] * 5] * 2)}
    expected = model(inputs, training=False)
    np.testing.assert_allclose(loaded(inputs), expected, atol=1e-3)
