"""SavedModels that are loaded by their graph: what is run then, and the assets it reads."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf
from hostile.graphs import refused, saving, v1, write, write_v1
from tensorflow.core.protobuf import saved_model_pb2

import tensorferry as ferry


def test_a_plain_graph_of_tensorflow_1(tmp_path):
    """Without a trick, such a model is loaded: its restore op reads its variables."""
    path = write_v1(tmp_path / "model", lambda x, variable: {"y": x * variable})
    assert ferry.load_model(path)(np.float32(4))["y"] == 8


def test_restore_ops(tmp_path):
    """The restore op is run when a model is loaded; it may be any op that the file names."""
    trace = tmp_path / "trace"

    def build(x, variable):
        with tf.control_dependencies([saving(trace)]):
            tf.no_op("evil")
        return {"y": x * variable}

    def edit(graph):
        graph.saver_def.restore_op_name = "evil"

    path = write_v1(tmp_path / "model", build, edit)
    error = refused(path, "write")
    assert "SaveV2 writes files that are not the model's own" in error.message
    assert not os.path.exists(f"{trace}.index")


def test_restore_ops_that_read_other_files(tmp_path):
    """The restore op reads the variables of the model, no path that the file has."""

    def edit(graph):
        nodes = graph.graph_def.node
        path = nodes.add(name="path", op="Const")
        path.attr["dtype"].type = tf.string.as_datatype_enum
        path.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/secret/variables"))
        for node in nodes:
            if node.op == "RestoreV2":
                node.input[0] = "path"

    path = write_v1(tmp_path / "model", lambda x, variable: {"y": x * variable}, edit)
    error = refused(path, "read")
    assert "RestoreV2 reads files that are not the model's own" in error.message


@pytest.mark.parametrize(
    "collection", ["table_initializer", "legacy_init_op", "saved_model_main_op"]
)
def test_initializers(tmp_path, collection):
    """Whatever a collection of initializers has is run when a model is loaded."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            tf.no_op("evil")
        return {"y": x * variable}

    def edit(graph):
        graph.collection_def[collection].node_list.value[:] = ["evil"]

    refused(write_v1(tmp_path / "model", build, edit), "write")


def test_initializers_of_local_variables(tmp_path):
    """Local variables are initialized when a model is loaded that has no other initializer."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            value = tf.constant(1.0)
        v1.get_variable(
            "local",
            initializer=lambda: tf.identity(value),
            collections=[v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            v1.local_variables()[0].assign(value, name="assign")
        return {"y": x * variable}

    refused(write_v1(tmp_path / "model", build), "write")


def test_outputs_in_parts(tmp_path):
    """A sparse output is three tensors, each of which is computed."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            values = tf.reshape(x, [1])
        return {"y": tf.SparseTensor([[0]], values, [1])}

    refused(write_v1(tmp_path / "model", build), "write")


def test_several_graphs_with_objects(tmp_path):
    """TensorFlow loads the second of two graphs by its nodes, whatever objects it has."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    file = path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    other = message.meta_graphs.add()
    other.CopyFrom(message.meta_graphs[0])
    other.meta_info_def.tags[:] = ["train"]
    first = message.meta_graphs[0]
    saves = next(
        node.name
        for node in first.graph_def.node
        if "save" in node.attr["f"].func.name and "restore" not in node.attr["f"].func.name
    )
    first.collection_def["saved_model_main_op"].node_list.value[:] = [saves]
    file.write_bytes(message.SerializeToString())
    refused(path, "write", tags=["serve"])


# Assets


def build_table(secret, swap=False, called=True):
    """A table of a file whose path is a constant, filled in a call or by an initializer."""

    def build(x, variable):
        path = tf.constant(str(secret), name="path")
        other = tf.constant("other", name="other")
        table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        given = tf.raw_ops.IdentityN(input=[other, path], name="both")[1] if swap else path
        filled = tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=given, key_index=-2, value_index=-1
        )
        with tf.control_dependencies([filled]):
            tf.no_op("fill")
        with tf.control_dependencies([filled] if called else []):
            keys, _ = tf.raw_ops.LookupTableExportV2(
                table_handle=table, Tkeys=tf.string, Tvalues=tf.int64
            )
        return {"y": x * variable, "keys": keys}

    return build


def as_asset(tensor):
    """Says that a tensor is the path of an asset, and fills the table when the model is loaded."""

    def edit(graph):
        asset = graph.asset_file_def.add(filename="words.txt")
        asset.tensor_info.name = tensor
        graph.collection_def["legacy_init_op"].node_list.value[:] = ["fill"]

    return edit


def test_constants_that_pose_as_assets(tmp_path):
    """An asset's path is given to initializers alone: a call reads what the constant says."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    path = write_v1(tmp_path / "model", build_table(secret), as_asset("path:0"))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    error = refused(path, "read")
    assert "InitializeTableFromTextFileV2 reads files that are not the model's own" in error.message


def test_assets_of_initializers(tmp_path):
    """The same table is fine if an initializer alone fills it."""
    build = build_table(tmp_path / "secret", called=False)
    path = write_v1(tmp_path / "model", build, as_asset("path:0"))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    found = ferry.load_model(path)(np.float32(1))
    assert sorted(found["keys"].tolist()) == [b"a", b"b"]


@pytest.mark.parametrize("tensor", ["other:0", "both:0", "path:1"])
def test_another_tensor_of_the_same_node(tmp_path, tensor):
    """An asset is one tensor: neither another output of its node nor another input."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    build = build_table(secret, swap=True, called=False)
    path = write_v1(tmp_path / "model", build, as_asset(tensor))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    refused(path, "read")


def test_assets_in_collections(tmp_path):
    """Old models have their assets in a collection, where a name may lead out, too."""
    from tensorflow.core.protobuf import meta_graph_pb2

    def edit(graph):
        asset = meta_graph_pb2.AssetFileDef(filename="../../secret")
        asset.tensor_info.name = "path:0"
        graph.collection_def["saved_model_assets"].any_list.value.add().Pack(asset)
        graph.collection_def["legacy_init_op"].node_list.value[:] = ["fill"]

    build = build_table(tmp_path / "secret", called=False)
    refused(write_v1(tmp_path / "model", build, edit), "asset")
