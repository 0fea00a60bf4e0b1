"""Models whose parts contradict each other: an error of ours, whatever a framework raises."""

from __future__ import annotations

import shutil
import struct
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import tensorferry as ferry
from tensorferry.errors import FerryError, FormatError, LimitError

v1 = tf.compat.v1


# SavedModels of TensorFlow 1


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A sound model of TensorFlow 1."""
    path = tmp_path_factory.mktemp("old") / "model"
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [], name="x")
        y = x * v1.get_variable("v", initializer=2.0, use_resource=True)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": y})
    return path


@pytest.fixture
def change(old, tmp_path):
    """Makes a copy of the model whose message is edited."""

    def copy(edit):
        path = tmp_path / "model"
        shutil.copytree(old, path)
        message = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        edit(message.meta_graphs[0])
        (path / "saved_model.pb").write_bytes(message.SerializeToString())
        return path

    return copy


@pytest.mark.parametrize("key", ["local_resources", "local_variables", "variables", "savers"])
@pytest.mark.parametrize(
    ("kind", "value"), [("node_list", "x"), ("bytes_list", b"\xff\xff"), ("int64_list", 3)]
)
def test_collections_of_something_else(change, key, kind, value):
    """A collection that holds other things than TensorFlow expects in it is an error of ours."""

    def edit(graph):
        graph.collection_def[key].Clear()
        getattr(graph.collection_def[key], kind).value.append(value)

    try:
        model = ferry.load_model(change(edit))
    except FerryError:
        return
    assert model.signatures["serving_default"](x=3.0)["y"] == 6  # nobody asks for this collection


def test_assets_that_are_none(change):
    """An old list of assets holds messages in strings."""

    def edit(graph):
        asset = graph.collection_def["saved_model_assets"].any_list.value.add()
        asset.type_url = "type.googleapis.com/tensorflow.AssetFileDef"
        asset.value = b"\xff\xff"

    with pytest.raises(FormatError, match="TensorFlow does not parse it"):
        ferry.load_model(change(edit))


def test_inputs_that_are_missing(change):
    """A signature whose output depends on an input that the signature does not name."""
    with pytest.raises(FerryError, match="TensorFlow cannot load it"):
        ferry.load_model(
            change(lambda graph: graph.signature_def["serving_default"].inputs.clear())
        )


def test_outputs_that_are_no_tensors(change):
    """An op that gives no tensor, as one that trains, is an output of some models."""

    def edit(graph):
        graph.signature_def["serving_default"].outputs["train"].name = "v/Assign"

    signature = ferry.load_model(change(edit)).signatures["serving_default"]
    assert signature.outputs == {"y": "float32[]"}


def test_gradients_of_a_graph(change):
    """A gradient function is run when somebody trains the model on."""

    def edit(graph):
        library = graph.graph_def.library
        library.function.add().signature.name = "evil"
        library.function[-1].node_def.add(name="save", op="SaveV2")
        library.registered_gradients.add(gradient_func="evil", registered_op_type="x")

    with pytest.raises(FerryError, match=r"SaveV2 writes files .*\(in evil/save\)"):
        ferry.load_model(change(edit))


# SavedModels with objects


@pytest.mark.parametrize("name", ["signatures", "serving_default"])
def test_signatures_that_are_none(tmp_path, name):
    """Whatever the file has in the place of the signatures, or of one, is not called."""
    path, module = tmp_path / "model", tf.Module()
    module.value = tf.Variable(1.0)
    module.run = tf.function(
        lambda x: x + module.value, input_signature=[tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(module, str(path), signatures=module.run)
    file = path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    nodes = message.meta_graphs[0].object_graph_def.nodes
    variable = next(n for n, one in enumerate(nodes) if one.WhichOneof("kind") == "variable")
    for child in (child for node in nodes for child in node.children):
        if child.local_name == name:
            child.node_id = variable
    file.write_bytes(message.SerializeToString())

    with pytest.raises(FerryError, match=r"are no functions|TensorFlow cannot load it"):
        ferry.load_model(path)


# Files of Keras


@pytest.mark.parametrize("key", ["model_config", "training_config"])
@pytest.mark.parametrize(
    "value",
    [3, np.arange(10), np.array([b"{}", b"{}"]), h5py.Empty("f"), h5py.Empty("S3"), np.void(b"{}")],
    ids=repr,
)
def test_configs_that_are_no_text(genuine, tmp_path, key, value):
    """What the HDF5 library makes of an attribute is looked at before it is taken for text."""
    path = shutil.copy(genuine / "x.h5", tmp_path)
    with h5py.File(path, "a") as file:
        file.attrs[key] = value
    with pytest.raises(FerryError, match=r"x\.h5: (its training_config is no text|.* no config)"):
        ferry.load_model(path)


@pytest.mark.parametrize("place", [9, 10, 12, 23])
def test_files_that_only_the_library_refuses(genuine, tmp_path, place):
    """The HDF5 library checks more than our reader, and its errors become ours."""
    data = bytearray((genuine / "x.h5").read_bytes())
    data[place] ^= 1  # versions of parts that we do not read, and a flag
    (tmp_path / "x.h5").write_bytes(data)
    with pytest.raises(FormatError, match="the HDF5 library does not read it"):
        ferry.load_model(tmp_path / "x.h5")


def rewritten(path, target, *, extra=b"", method=zipfile.ZIP_STORED, **more):
    """A copy of an archive with more members."""
    with zipfile.ZipFile(path) as file, zipfile.ZipFile(target, "w", method) as new:
        for name in file.namelist():
            new.writestr(name, file.read(name))
        for name, data in more.items():
            info = zipfile.ZipInfo(name)
            info.extra, info.compress_type = extra, method
            new.writestr(info, data)
    return target


def test_members_with_two_names(genuine, tmp_path):
    """Newer versions of zipfile go by a second name, and would find other weights than we do."""
    for name in ("model.weights.h5", "evil"):
        content = b"\x01" + struct.pack("<I", zlib.crc32(b"evil")) + name.encode()
        field = struct.pack("<HH", 0x7075, len(content)) + content
        path = rewritten(genuine / "x.keras", tmp_path / "x.keras", extra=field, evil=b"")
        if name == "evil":  # the same name again is nothing but that
            assert ferry.load_model(path).variables
            continue
        with pytest.raises(FormatError, match=r"'evil' is also named b'model\.weights\.h5'"):
            ferry.load_model(path)


def test_archives_that_expand(genuine, tmp_path, monkeypatch):
    """Keras unpacks all members, so that all of them count, also those that nobody asks for."""
    more = {f"assets{number}": bytes(1 << 20) for number in range(4)}
    path = rewritten(genuine / "x.keras", tmp_path / "x.keras", method=zipfile.ZIP_DEFLATED, **more)
    assert ferry.load_model(path).variables
    monkeypatch.setattr(ferry.limits, "memory", 3 << 20)
    monkeypatch.setattr("tensorferry.budget.RATIO", 10)
    with pytest.raises(LimitError, match="what the archive holds takes"):
        ferry.load_model(path)
