"""Layers of Keras files and nodes of SavedModels, beside what Keras and TensorFlow say."""

from __future__ import annotations

import pytest

from tensorferry.errors import UnsupportedError
from tensorferry.formats.savedmodel.nodes import ARGUMENT, RETURN, read_nodes
from tensorferry.operations.layers import layers
from tensorferry.operations.subject import open_one
from tensorferry.storage.place import Place


@pytest.fixture(scope="module")
def model(tf):
    """Two branches that come together, and a model inside the model."""
    keras = tf.keras
    inner = keras.Sequential([keras.layers.Dense(3, name="deep")], name="inner")
    first = keras.Input((4,), name="first")
    one = keras.layers.Dense(3, activation="relu", name="one")(first)
    both = keras.layers.Add(name="both")([one, inner(first)])
    return keras.Model(first, keras.layers.Dense(2, name="last")(both))


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_layers(model, tmp_path, suffix):
    """Names, classes, connections and weights of each layer."""
    path = tmp_path / f"x.{suffix}"
    model.save(path)
    with open_one(path) as subject:
        found = {layer.name: layer for layer in layers(subject)}
        shapes = {name: info.shape for name, info in subject.infos.items()}

    assert list(found) == ["first", "one", "inner", "both", "last", *list(found)[5:]]
    assert found["one"].class_name == "Dense"
    assert found["one"].settings["units"] == 3
    assert found["one"].settings["activation"] == "relu"
    assert found["one"].inputs == ("first",)
    assert set(found["both"].inputs) == {"one", "inner"}
    assert found["deep"].depth == 1
    assert [shapes[name] for name in found["last"].tensors] == [(3, 2), (2,)]
    assert [shapes[name] for name in found["one"].tensors] == [(4, 3), (3,)]


def test_nodes(tf, tmp_path):
    """The nodes of every function are those of TensorFlow's own message."""
    from tensorflow.core.protobuf import saved_model_pb2

    class Module(tf.Module):
        def __init__(self):
            self.weight = tf.Variable([[1.0], [2.0]])

        @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
        def run(self, x):
            with tf.control_dependencies([tf.debugging.assert_non_negative(x)]):
                return {"y": tf.nn.relu(tf.matmul(x, self.weight))}

    module = Module()
    tf.saved_model.save(module, str(tmp_path), signatures=module.run)
    message = saved_model_pb2.SavedModel()
    message.ParseFromString((tmp_path / "saved_model.pb").read_bytes())
    graph = message.meta_graphs[0].graph_def

    def base(name):
        return name.removeprefix("^").partition(":")[0]

    for function in graph.library.function:
        found = read_nodes(Place(str(tmp_path)), function=function.signature.name)
        inner = [node for node in found if node.op not in (ARGUMENT, RETURN)]
        assert [(node.name, node.op) for node in inner] == [
            (node.name, node.op) for node in function.node_def
        ]
        for node, expected in zip(inner, function.node_def, strict=True):
            names = [name for name in expected.input if name[0] != "^"]
            assert list(node.inputs) == list(dict.fromkeys(map(base, names)))
            assert set(node.after) == {base(name) for name in expected.input if name[0] == "^"}
        arguments = [node.name for node in found if node.op == ARGUMENT]
        assert arguments == [argument.name for argument in function.signature.input_arg]
        results = {node.name: node.inputs for node in found if node.op == RETURN}
        assert results == {f"→ {key}": (base(name),) for key, name in function.ret.items()}
    outside = read_nodes(Place(str(tmp_path)))
    assert [node.name for node in outside] == [node.name for node in graph.node]
    with pytest.raises(UnsupportedError, match="no function is called"):
        read_nodes(Place(str(tmp_path)), function="none")
    with pytest.raises(UnsupportedError, match="MetaGraph 7"):
        read_nodes(Place(str(tmp_path)), graph=7)
