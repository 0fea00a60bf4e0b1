"""SavedModels of this TensorFlow: what its loader says of them, and what it cannot say."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from savedmodels import check_graph, parse, save_module
from strategies import same

from tensorferry import dtypes
from tensorferry.formats.savedmodel import (
    model as savedmodel,
)
from tensorferry.formats.savedmodel.reader import open_variables
from tensorferry.storage.place import Place


@pytest.fixture(scope="module")
def module_path(tf, tmp_path_factory):
    """A module with two signatures, an asset, and a variable inside another object."""
    return save_module(tf, tmp_path_factory.mktemp("module"))


def test_module(tf, module_path):
    """What TensorFlow's loader makes of a model: signatures, variables and their values."""
    model = savedmodel.read(module_path)
    graph = model.find(["serve"])
    loaded = tf.saved_model.load(str(module_path))

    check_graph(graph, parse(tf, module_path).meta_graphs[0])
    assert graph.tensorflow_version == tf.__version__
    serving = graph.signatures["serving_default"]
    assert str(serving.inputs["x"]) == "float32[?, 2]"
    assert str(serving.outputs["y"]) == "float32[?, 3]"
    assert serving.method == "tensorflow/serving/predict"
    assert {path: (v.dtype.name, v.shape, v.trainable) for path, v in graph.variables.items()} == {
        "layer/kernel": ("float32", (2, 3), True),
        "step": ("int64", (), False),
        "words": ("string", (2,), True),
    }
    with open_variables(model.place) as opened:
        assert set(opened.stored) == {"layer/kernel", "step", "words"}
        assert same(opened.stored["layer/kernel"].read(), loaded.layer.kernel.numpy())
        assert same(opened.stored["words"].read(), loaded.words.numpy())
    assert graph.objects.callables.keys() >= {"serve", "load"}
    (name,) = graph.objects.callables["serve"].concrete
    concrete = graph.concrete_functions[name]
    assert {key: str(spec) for key, spec in concrete.inputs.items()} == {"0/0": "float32[?, 2]"}
    assert concrete.arguments[0][0].name == "x"
    assert concrete.results["y"].shape == (None, 3)


def test_risks(module_path):
    """An op that reads files is named; those that save and restore variables are expected."""
    graph = savedmodel.read(module_path).find()

    assert [(risk.op, risk.effect) for risk in graph.risks if not risk.expected] == [
        ("ReadFile", "reads files")
    ]
    assert {risk.op for risk in graph.risks if risk.expected} >= {"SaveV2", "RestoreV2"}
    assert graph.custom_ops == ()


def test_calls(module_path):
    """Loops and branches call functions of the library, of which none calls itself."""
    graph = savedmodel.read(module_path).find()
    calls = {name: function.calls for name, function in graph.functions.items()}

    assert any("while_body" in called for names in calls.values() for called in names)
    assert all(called in calls for names in calls.values() for called in names)
    assert graph.recursive_functions == ()


def test_python_function(tf, tmp_path):
    """Python code in a model is reported."""
    module = tf.Module()
    module.f = tf.function(
        lambda x: tf.py_function(lambda y: y + 1, [x], tf.float32),
        input_signature=[tf.TensorSpec([], tf.float32)],
    )
    tf.saved_model.save(module, str(tmp_path))

    risk = savedmodel.read(tmp_path).find().risks[0]

    assert (risk.op, risk.effect, risk.expected) == ("EagerPyFunc", "runs Python", False)


def test_keras_export(tf, tmp_path):
    """What Keras exports: signatures as TensorFlow has them, and weights by the layers' names."""
    import keras

    layers = [keras.Input((4,)), keras.layers.Dense(3, name="first"), keras.layers.Dense(2)]
    model = keras.Sequential(layers, name="net")
    model.export(tmp_path / "model", verbose=False)
    graph = savedmodel.read(tmp_path / "model").find(["serve"])

    check_graph(graph, parse(tf, tmp_path / "model").meta_graphs[0])
    (spec,) = graph.signatures["serve"].inputs.values()
    assert str(spec) == "float32[?, 4]"
    with open_variables(Place(tmp_path / "model"), names="variables") as opened:
        for layer in model.layers:
            kernel = opened.stored[f"net/{layer.name}/kernel"]
            assert same(kernel.read(), layer.kernel.numpy())
            assert same(kernel.read_part(np.s_[1:3]), layer.kernel.numpy()[1:3])
    with open_variables(Place(tmp_path / "model")) as opened:
        for layer in model.layers:
            kernel = opened.stored[f"net/{layer.name}/kernel"]
            assert same(kernel.read(), layer.kernel.numpy())
    with open_variables(Place(tmp_path / "model"), names="keys") as opened:
        assert all(name.endswith("/.ATTRIBUTES/VARIABLE_VALUE") for name in opened.stored)


def test_two_graphs_of_version_1(tf, tmp_path):
    """Several MetaGraphs by their tags, and variables by name, as TensorFlow 1 saves them."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        w = v1.get_variable("scope/w", initializer=np.ones((3, 2), np.float32))
        v1.get_variable("count", initializer=5, trainable=False)
        y = tf.matmul(x, w, name="y")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        sparse = v1.sparse_placeholder(tf.int64, [None, 4], name="sparse")
        signature = v1.saved_model.predict_signature_def({"x": x, "s": sparse}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"predict": signature})
        builder.add_meta_graph(["serve", "gpu"])
        builder.save()
    model = savedmodel.read(tmp_path / "model")

    assert [graph.tags for graph in model.meta_graphs] == [("serve",), ("serve", "gpu")]
    graph = model.find(["serve"])
    spec = graph.signatures["predict"].inputs["s"]
    assert str(spec) == "sparse int64[?, 4]"
    assert spec.parts == ("sparse/indices:0", "sparse/values:0", "sparse/shape:0")
    assert graph.objects is None
    assert {name: (v.shape, v.trainable) for name, v in graph.variables.items()} == {
        "scope/w": ((3, 2), True),
        "count": ((), False),
    }
    assert model.find({"gpu", "serve"}).signatures == {}
    with pytest.raises(KeyError, match="2 MetaGraphs fit"):
        model.find()
    with open_variables(model.place) as opened:
        assert same(opened.stored["scope/w"].read(), np.ones((3, 2), np.float32))


def test_frozen_graph(tf, tmp_path):
    """A GraphDef in a file of its own: its constants are the weights."""
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    with tf.Graph().as_default() as graph:
        tf.constant(weights, name="layer/w")
        tf.constant([b"a", b"bc"], name="words")
    (tmp_path / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    model = savedmodel.read(tmp_path / "frozen.pb")

    assert model.kind == "graph"
    assert model.find().ops == {"Const": 2}
    with open_variables(Place(tmp_path / "frozen.pb")) as opened:
        assert list(opened.stored) == ["layer/w", "words"]
        assert same(opened.stored["layer/w"].read(), weights)
        assert same(opened.stored["layer/w"].read_part(1), weights[1])
        assert opened.stored["words"].kind == "string"
        assert opened.stored["words"].read().tolist() == [b"a", b"bc"]


def test_composite_signatures(tf, tmp_path):
    """Ragged and sparse inputs, and structures of them, as the signature has them."""
    module = tf.Module()
    module.f = tf.function(
        lambda ragged, nested: ragged.flat_values[0] + nested["a"][0],
        input_signature=[
            tf.RaggedTensorSpec([None, None], tf.float32),
            {"a": tf.TensorSpec([3], tf.float32)},
        ],
    )
    tf.saved_model.save(module, str(tmp_path))
    graph = savedmodel.read(tmp_path).find()
    (name,) = graph.objects.callables["f"].concrete
    ragged, nested = graph.concrete_functions[name].arguments[0]

    assert ragged.name == "RaggedTensorSpec"
    assert ragged.state[0] == (None, None)
    assert ragged.state[1] is dtypes.BY_NAME["float32"]
    assert str(nested["a"]) == "float32[3]"


def test_default_values(tf, module_path, tmp_path):
    """Inputs that have a default value give it."""
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel.FromString((module_path / "saved_model.pb").read_bytes())
    defaults = proto.meta_graphs[0].signature_def["serving_default"].defaults
    defaults["x"].CopyFrom(tf.make_tensor_proto(np.float32([[1, 2]])))
    (tmp_path / "saved_model.pb").write_bytes(proto.SerializeToString())
    signature = savedmodel.read(tmp_path).find().signatures["serving_default"]

    assert same(signature.defaults["x"].read(), np.float32([[1, 2]]))


def test_fingerprint(tf, module_path):
    """The fingerprint that TensorFlow reads."""
    expected = tf.saved_model.experimental.read_fingerprint(str(module_path))
    found = savedmodel.read(module_path).fingerprint

    assert found.saved_model_checksum == expected.saved_model_checksum
    assert found.checkpoint_hash == expected.checkpoint_hash
    assert found.graph_def_program_hash == expected.graph_def_program_hash


def test_assets(module_path):
    """A file that the model names is there, with its size, and can be opened."""
    model = savedmodel.read(module_path)
    (asset,) = model.assets

    assert (asset.name, asset.size, asset.problem) == ("words.txt", 4, None)
    assert asset.tensor
    with model.open_asset("words.txt") as source:
        assert bytes(source.everything()) == b"a\nb\n"
    with pytest.raises(KeyError):
        model.open_asset("other.txt")


def test_paths(module_path, tmp_path):
    """A directory, with and without a slash, and the file in it name the same model."""
    file = str(module_path / "saved_model.pb")

    for path in (module_path, f"{module_path}/", file, f"file://{module_path}"):
        assert savedmodel.find(Place(path)).path == file
        assert savedmodel.read(path).path == str(module_path)
    assert savedmodel.find(Place(tmp_path)) is None
    assert savedmodel.find(Place(tmp_path / "saved_model.pb")) is None
    with pytest.raises(FileNotFoundError, match=r"saved_model\.pbtxt"):
        savedmodel.read(tmp_path)


def test_remote(s3, module_path):
    """A model in an object store: the same, with its assets and variables."""
    for file in filter(Path.is_file, module_path.rglob("*")):
        s3.put(f"models/m/{file.relative_to(module_path)}", file.read_bytes())
    local, model = savedmodel.read(module_path), savedmodel.read(s3.url("models/m"))

    assert model.assets == local.assets
    assert model.fingerprint == local.fingerprint
    assert model.find().functions == local.find().functions
    assert model.find().variables == local.find().variables
    with open_variables(model.place) as opened, open_variables(local.place) as expected:
        assert set(opened.stored) == set(expected.stored)
        kernel = opened.stored["layer/kernel"]
        assert same(kernel.read(), expected.stored["layer/kernel"].read())
    with model.open_asset("words.txt") as source:
        assert bytes(source.everything()) == b"a\nb\n"


def test_variables_that_are_not_there(module_path, tmp_path):
    """A model without its variables says so; one that has none gives none."""
    shutil.copy(module_path / "saved_model.pb", tmp_path)

    assert not savedmodel.read(tmp_path).has_variables
    with pytest.raises(FileNotFoundError, match="not there"):
        open_variables(Place(tmp_path))
