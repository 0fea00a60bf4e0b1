"""SavedModels for attacks: written by TensorFlow, changed by hand, and refused."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import tensorferry as ferry
from tensorferry.errors import UnsupportedError

v1 = tf.compat.v1
FLOAT = tf.TensorSpec([], tf.float32)


def refused(path, *kinds, **options):
    """The error for a model; nothing but these kinds of danger are named."""
    with pytest.raises(UnsupportedError, match="was not loaded, because") as caught:
        ferry.load_model(path, **options)
    lines = caught.value.message.splitlines()[1:]
    assert {line.strip().partition(":")[0] for line in lines} == set(kinds), lines
    return caught.value


def write(path, function, spec=FLOAT, **parts):
    """A SavedModel of one function, by TensorFlow itself."""
    module = tf.Module()
    module.value = tf.Variable([1.0, 2.0])
    for name, part in parts.items():
        setattr(module, name, part)
    module.run = tf.function(lambda x: function(x, module), input_signature=[spec])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.run})
    return path


def change(path, edit):
    """Edits the message of a model."""
    file = path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    edit(message.meta_graphs[0])
    file.write_bytes(message.SerializeToString())
    return path


def write_v1(path, build, edit=None):
    """A SavedModel of TensorFlow 1.

    Args:
        path: Of the model.
        build: Adds to the graph and gives the outputs, from the input and the variable.
        edit: Changes the MetaGraph.
    """
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [], name="x")
        variable = v1.get_variable("v", initializer=2.0, use_resource=True)
        outputs = build(x, variable)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        infos = {name: v1.saved_model.build_tensor_info(one) for name, one in outputs.items()}
        signature = v1.saved_model.build_signature_def(
            {"x": v1.saved_model.build_tensor_info(x)}, infos, "tensorflow/serving/predict"
        )
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}
        )
        builder.save()
    return path if edit is None else change(path, edit)


def saving(target):
    """An op that writes a file, although it looks as if it saved variables."""
    return tf.raw_ops.SaveV2(
        prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
    )


class Vocabulary(tf.Module):
    """A table that is filled from a file, by a function with a branch."""

    def __init__(self, path):
        super().__init__()
        column = tf.lookup.TextFileIndex
        initializer = tf.lookup.TextFileInitializer(
            path, tf.string, column.WHOLE_LINE, tf.int64, column.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(initializer, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, words):
        return self.table.lookup(words)
