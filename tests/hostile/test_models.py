"""Models that would do more than compute: refused by name before TensorFlow or Keras see them."""

from __future__ import annotations

import base64
import json
import marshal
import os
import sys
import zipfile
from dataclasses import replace

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from hostile.graphs import change, refused, write

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError

X = np.ones((1, 3), "float32")


# SavedModels


def test_ops_that_read_and_write_files(tmp_path):
    """ReadFile and WriteFile in a function are named; allowed, they do what they do."""
    trace, secret = tmp_path / "trace", tmp_path / "secret"
    secret.write_text("secret")

    def run(x, module):
        with tf.control_dependencies([tf.io.write_file(str(trace), "here")]):
            return {"x": x + 1, "secret": tf.io.read_file(str(secret))}

    path = write(tmp_path / "model", run)
    error = refused(path, "read", "write")
    assert "the op ReadFile reads files" in error.message
    assert "allow=('read', 'write',)" in error.hint
    refused(path, "write", allow="read")
    assert not trace.exists()
    model = ferry.load_model(path, allow=("read", "write"))
    assert not trace.exists()
    assert model(np.float32(1))["secret"] == b"secret"
    assert trace.exists()
    assert {danger.kind for danger in model.dangers} == {"read", "write"}


def test_ops_that_run_python(tmp_path):
    """PyFunc calls whatever the process has registered under a number."""
    path = write(
        tmp_path / "model", lambda x, module: {"y": tf.py_function(lambda y: y, [x], tf.float32)}
    )
    error = refused(path, "python")
    assert "EagerPyFunc runs Python" in error.message


def test_custom_ops(tmp_path):
    """An op that TensorFlow does not have needs a library; it is named before one is missed."""

    def edit(graph):
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                node.op = node.op.replace("AddV2", "StealSecrets")

    path = change(write(tmp_path / "model", lambda x, module: {"y": x + 1}), edit)
    assert "the op StealSecrets is not TensorFlow's own" in refused(path, "native").message
    with pytest.raises(UnsupportedError, match=r"TensorFlow cannot load it.*StealSecrets"):
        ferry.load_model(path, allow=True)


def test_saving_ops_outside_of_saving(tmp_path):
    """SaveV2 and RestoreV2 are in every model; in a function that is called they are named."""
    target = tmp_path / "stolen"

    def save(x, module):
        saved = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[x]
        )
        with tf.control_dependencies([saved]):
            return {"y": x + module.value}

    def restore(x, module):
        read = tf.raw_ops.RestoreV2(
            prefix="/secrets/x", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
        )
        return {"y": read[0] + x}

    error = refused(write(tmp_path / "one", save), "write")
    assert "SaveV2 writes files that are not the model's own" in error.message
    refused(write(tmp_path / "two", restore), "read")
    plain = write(tmp_path / "three", lambda x, module: {"y": x + module.value})
    assert ferry.load_model(plain).signatures["serving_default"](1.0)["y"].tolist() == [2, 3]
    assert not os.path.exists(f"{target}.index")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "C:\\secret", "words.txt/../x"])
def test_names_of_assets(vocabulary, name):
    """An asset whose name leads out of the model is refused."""

    def edit(graph):
        graph.asset_file_def[0].filename = name

    refused(change(vocabulary, edit), "asset")


def test_links_among_assets(vocabulary, tmp_path):
    """An asset that is a link out of the model is refused, and so is one that is not there."""
    asset = vocabulary / "assets/words.txt"
    asset.rename(tmp_path / "elsewhere")
    error = refused(vocabulary, "asset")
    assert "there is no such file" in error.message
    asset.symlink_to(tmp_path / "elsewhere")
    error = refused(vocabulary, "asset")
    assert "leads out of the model" in error.message


def test_tables_from_files_that_are_no_assets(vocabulary):
    """A table that is filled from a path in a constant reads a file of the machine's."""

    def edit(graph):
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "InitializeTableFromTextFileV2":
                    constant = function.node_def.add(name="path", op="Const")
                    constant.attr["dtype"].type = tf.string.as_datatype_enum
                    value = tf.make_tensor_proto("/etc/passwd")
                    constant.attr["value"].tensor.CopyFrom(value)
                    node.input[1] = "path:output:0"
                    return

    error = refused(change(vocabulary, edit), "read")
    assert "InitializeTableFromTextFileV2 reads files that are not the model's own" in error.message


def test_tables_of_objects_that_are_no_assets(vocabulary):
    """The same where the path is a constant among the objects."""

    def edit(graph):
        objects = graph.object_graph_def
        for node in objects.nodes:
            if node.WhichOneof("kind") == "asset":
                node.constant.operation = "Const"

    refused(change(vocabulary, edit), "read")


def test_functions_that_call_themselves(tmp_path):
    """A function without end is an error of a living process."""

    def edit(graph):
        library = graph.graph_def.library.function
        names = [one.signature.name for one in library]
        inner = next(name for name in names if name.startswith("__inference_<lambda>"))
        for function in library:
            if function.signature.name == inner:
                node = function.node_def.add(name="again", op="StatefulPartitionedCall")
                node.attr["f"].func.name = inner
                node.attr["Tin"].list.SetInParent()
                node.attr["Tout"].list.SetInParent()

    path = change(write(tmp_path / "model", lambda x, module: {"y": x + 1}), edit)
    with pytest.raises(UnsupportedError, match="TensorFlow cannot load it"):
        ferry.load_model(path, allow=True)


def test_two_models_in_one_directory(tmp_path):
    """Which of several files TensorFlow loads is not left to chance, or to whoever made them."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + 1})
    text = 'meta_graphs { meta_info_def { tags: "serve" } }'
    for name in ("saved_model.pbtxt", "saved_model.cpb"):
        (path / name).write_text(text)
        for given in (path, path / "saved_model.pb", path / name):
            with pytest.raises(UnsupportedError, match="and each is a model"):
                ferry.load_model(given, allow=True)
        (path / name).unlink()
    assert ferry.load_model(path / "saved_model.pb").signatures


def test_a_model_that_two_readers_see_differently(tmp_path, monkeypatch):
    """If TensorFlow sees other ops than those that were judged, nothing is loaded."""
    from tensorferry.formats.savedmodel import model as savedmodel

    path = write(tmp_path / "model", lambda x, module: {"y": x + 1})
    other = write(tmp_path / "other", lambda x, module: {"y": tf.io.read_file("/etc/hostname")})
    sound = savedmodel.read(path)
    monkeypatch.setattr(savedmodel, "read", lambda path: replace(sound, path=str(other)))
    with pytest.raises(FormatError, match="sees another model in it than we do: AddV2"):
        ferry.load_model(other)


def test_damaged_variables(tmp_path):
    """A damaged index is found by our own reader."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    index = path / "variables/variables.index"
    data = bytearray(index.read_bytes())
    data[20] ^= 1
    index.write_bytes(data)
    with pytest.raises(FormatError):
        ferry.load_model(path, allow=True)


def test_damaged_models(tmp_path):
    """What our own reader finds damaged is not given to TensorFlow."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + 1})
    data = (path / "saved_model.pb").read_bytes()
    for end in (10, len(data) // 2, len(data) - 1):
        (path / "saved_model.pb").write_bytes(data[:end])
        with pytest.raises(FormatError):
            ferry.load_model(path, allow=True)


# Keras


def bytecode(path):
    """Code that would leave a file behind."""
    source = f"open({str(path)!r}, 'w')"
    return base64.b64encode(marshal.dumps(compile(source, "x", "eval"))).decode()


@pytest.fixture
def hostile(tmp_path):
    """Makes files of a genuine model with another config, of both kinds."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(tmp_path / "genuine.keras")
    model.save(tmp_path / "genuine.h5")
    with zipfile.ZipFile(tmp_path / "genuine.keras") as file:
        members = {name: file.read(name) for name in file.namelist()}

    def make(*layers, **more):
        config = json.loads(members["config.json"])
        config["config"]["layers"][1:1] = layers
        config.update(more)
        with zipfile.ZipFile(tmp_path / "x.keras", "w") as file:
            for name, data in {**members, "config.json": json.dumps(config)}.items():
                file.writestr(name, data)
        legacy = tmp_path / "x.h5"
        legacy.write_bytes((tmp_path / "genuine.h5").read_bytes())
        with h5py.File(legacy, "a") as file:
            file.attrs["model_config"] = json.dumps(config)
        return tmp_path / "x.keras", legacy

    return make


def test_bytecode(hostile, tmp_path):
    """Bytecode of a Lambda layer runs in no file of Keras, whatever the spelling."""
    trace = tmp_path / "trace"
    code = bytecode(trace)
    value = {"class_name": "__lambda__", "config": {"value": code}}
    new = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": value}}
    old = {
        "class_name": "Lambda",
        "config": {"function": [code, None, None], "function_type": "lambda"},
    }
    for layer in (new, old):
        for path in hostile(layer):
            refused(path, "lambda")
    assert not trace.exists()


def test_modules_functions_and_gadgets(hostile, tmp_path, monkeypatch):
    """Nothing that a config names is imported or called."""
    trace = tmp_path / "trace"
    (tmp_path / "evil_module.py").write_text(f"open({str(trace)!r}, 'w')\nclass Evil: pass")
    monkeypatch.syspath_prepend(tmp_path)
    function = {"module": "builtins", "class_name": "function"}
    for layer, kind in (
        ({"module": "evil_module", "class_name": "Evil", "config": {}}, "module"),
        ({**function, "config": "exec"}, "function"),
        ({"module": "keras.utils", "class_name": "function", "config": "get_file"}, "gadget"),
        ({"module": "keras.src.utils", "class_name": "get_file", "config": {}}, "gadget"),
        ({"module": "keras.models", "class_name": "function", "config": "load_model"}, "gadget"),
        ({"class_name": "Evil", "config": {"name": "evil"}}, "class"),
        (
            {
                "module": "keras.layers",
                "class_name": "TFSMLayer",
                "config": {"filepath": "/models/other"},
            },
            "read",
        ),
        (
            {
                "module": "keras.layers",
                "class_name": "StringLookup",
                "config": {"vocabulary": "/etc/passwd"},
            },
            "read",
        ),
        (
            {
                "module": "keras.layers",
                "class_name": "TorchModuleWrapper",
                "config": {"module": "gASV"},
            },
            "pickle",
        ),
    ):
        for path in hostile(layer):
            refused(path, kind)
    (archive, _) = hostile(compile_config={"loss": {**function, "config": "eval"}})
    refused(archive, "function")
    (archive, _) = hostile(compile_config={"loss": {**function, "config": "mean_squared_error"}})
    assert ferry.load_model(archive, compile=False)(X).shape == (1, 2)
    assert not trace.exists()
    assert "evil_module" not in sys.modules


def test_registered_classes(hostile):
    """A class that the program registered is not made because a file says its name."""
    made = []

    @keras.saving.register_keras_serializable(package="mine", name="Sender")
    class Sender(keras.layers.Layer):
        def __init__(self, **options):
            made.append(self)
            super().__init__(**options)

    for layer in (
        {"module": None, "class_name": "Sender", "registered_name": "mine>Sender", "config": {}},
        {
            "module": "keras.layers",
            "class_name": "Dense",
            "registered_name": "mine>Sender",
            "config": {},
        },
        {
            "module": "keras.layers",
            "class_name": "Activation",
            "config": {"activation": "mine>Sender"},
        },
    ):
        for path in hostile(layer):
            refused(path, "registered")
    assert not made


def test_weights_that_lead_elsewhere(hostile, tmp_path):
    """Links in the weights are refused before the HDF5 library follows them."""
    (path, legacy) = hostile()
    with h5py.File(legacy, "a") as file:
        file["model_weights/other"] = h5py.ExternalLink("/etc/secret.h5", "/x")
    with pytest.raises(UnsupportedError, match="is a"):
        ferry.load_model(legacy, allow=True)
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["layers/dense/vars/0"] = h5py.SoftLink("/elsewhere")
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members["model.weights.h5"] = (tmp_path / "w.h5").read_bytes()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    with pytest.raises(UnsupportedError, match="is a"):
        ferry.load_model(path, allow=True)


def test_weights_in_other_files(hostile, tmp_path):
    """Values that lie in another file are refused before the HDF5 library opens it."""
    (tmp_path / "secret").write_bytes(bytes(4096))
    (_, legacy) = hostile()
    with h5py.File(legacy, "a") as file:
        names = []
        file.visititems(lambda name, node: names.append(name) if hasattr(node, "dtype") else None)
        kernel = file[names[0]]
        shape, dtype = kernel.shape, kernel.dtype
        del file[names[0]]
        outside = [(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(names[0], shape, dtype, external=outside)
    with pytest.raises(UnsupportedError):
        ferry.load_model(legacy, allow=True)


def test_names_that_lie(hostile, tmp_path):
    """Keras goes by the name and we by the bytes: both have to say the same."""
    (archive, legacy) = hostile()
    assert ferry.load_model(legacy)(X).shape == (1, 2)
    for source, name in ((archive, "y.h5"), (legacy, "y.keras")):
        (tmp_path / name).write_bytes(source.read_bytes())
        with pytest.raises(FormatError, match=r"expected .* by its name"):
            ferry.load_model(tmp_path / name, allow=True)


def test_configs_that_two_readers_see_differently(hostile, tmp_path, monkeypatch):
    """A config that the HDF5 library reads is the one that was judged."""
    from tensorferry.formats.keras import reader as files

    (_, legacy) = hostile()
    read = files.open_weights

    def other(place):
        opened = read(place)
        opened.config = {"class_name": "Sequential", "config": {"layers": []}}
        return opened

    monkeypatch.setattr(files, "open_weights", other)
    with pytest.raises(FormatError, match="Keras sees another model_config"):
        ferry.load_model(legacy)


def test_archives_that_lie(hostile, tmp_path):
    """What our reader of archives refuses is not given to Keras: two configs, names leading out."""
    (path, _) = hostile()
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("config.json", "{}")
    with pytest.raises(FormatError, match="two members"):
        ferry.load_model(path, allow=True)
    (path, _) = hostile()
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("../evil", "")
    with pytest.raises(FormatError, match="the name"):
        ferry.load_model(path, allow=True)
    path.write_bytes(b"no archive")
    with pytest.raises(FormatError):
        ferry.load_model(path, allow=True)
