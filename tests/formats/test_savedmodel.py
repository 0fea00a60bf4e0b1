"""SavedModels: what TensorFlow's loader says of them, and what it cannot say."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import CORPUS
from strategies import same

from tensorferry import dtypes, errors
from tensorferry.formats import (
    savedmodel,
    savedmodel_chunks,
    savedmodel_op_names,
    savedmodel_ops,
    savedmodel_riegeli,
    savedmodel_text,
)

MODELS = sorted({path.parent for path in CORPUS.glob("**/saved_model.pb*")})
BAD = {"bad_node_attr", "const_with_no_value", "negative_shape"}
GOOD = [path for path in MODELS if path.name not in BAD]
DAMAGED = [path for path in MODELS if path.name in BAD]

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")


def named(paths):
    """The short names of paths in the corpus."""
    return [str(path.relative_to(CORPUS)) for path in paths]


def parse(tf, path):
    """The message, as TensorFlow's loader parses it."""
    from tensorflow.python.saved_model import loader_impl

    return loader_impl.parse_saved_model(str(path))


def shape_of(proto):
    """A shape as we have it."""
    if proto.unknown_rank:
        return None
    return tuple(None if dim.size == -1 else dim.size for dim in proto.dim)


def check_spec(spec, info):
    """A tensor's description is what the message says."""
    assert spec.name == info.name
    assert (0 if spec.dtype is None else spec.dtype.enum) == info.dtype % 100
    assert spec.shape == (shape_of(info.tensor_shape) if info.HasField("tensor_shape") else None)


def check_graph(graph, proto):
    """What a MetaGraph has is what the message says."""
    library = proto.graph_def.library.function
    assert graph.tags == tuple(proto.meta_info_def.tags)
    assert graph.tensorflow_version == proto.meta_info_def.tensorflow_version
    assert graph.git_version == proto.meta_info_def.tensorflow_git_version
    assert graph.signatures.keys() == set(proto.signature_def)
    for name, signature in graph.signatures.items():
        expected = proto.signature_def[name]
        assert signature.method == expected.method_name
        assert signature.inputs.keys() == set(expected.inputs)
        assert signature.outputs.keys() == set(expected.outputs)
        for key, spec in signature.inputs.items():
            check_spec(spec, expected.inputs[key])
        for key, spec in signature.outputs.items():
            check_spec(spec, expected.outputs[key])
    assert list(graph.functions) == [function.signature.name for function in library]
    nodes = [(node.name, node) for node in proto.graph_def.node]
    for function in library:
        nodes += [(f"{function.signature.name}:{node.name}", node) for node in function.node_def]
    assert graph.ops == counted(node.op for _, node in nodes if node.op not in graph.functions)
    constants = {name: node for name, node in nodes if node.op == "Const"}
    assert graph.constants.keys() == constants.keys()
    return constants


def counted(names):
    """How often each name comes."""
    counts = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_models_of_others(tf, path):
    """Tags, versions, signatures, functions, ops and constants are what TensorFlow parses."""
    model = savedmodel.read(path)
    proto = parse(tf, path)

    assert len(model.meta_graphs) == len(proto.meta_graphs)
    for graph, expected in zip(model.meta_graphs, proto.meta_graphs, strict=True):
        constants = check_graph(graph, expected)
        for name, node in constants.items():
            stored = graph.constants[name]
            value = tf.make_ndarray(node.attr["value"].tensor)
            assert stored.shape == value.shape
            assert same(stored.read(), value)
        named_assets = {(a.filename, a.tensor_info.name) for a in expected.asset_file_def}
        assert {(a.name, a.tensor) for a in model.assets if a.tensor} == named_assets
        assert graph.custom_ops == (("TRTEngineOp",) if "tftrt" in str(path) else ())
        assert graph.recursive_functions == ()
    assert all(asset.problem is None and asset.size is not None for asset in model.assets)


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_variables_of_others(tf, path):
    """Variables have the values that TensorFlow's reader of checkpoints gives, by their paths."""
    model = savedmodel.read(path)
    variables = model.meta_graphs[0].variables
    with model.open_variables() as opened:
        if not model.has_variables:
            assert not opened.stored
            return
        reader = tf.train.load_checkpoint(str(path / "variables/variables"))
        expected = reader.get_variable_to_shape_map()
        expected.pop("_CHECKPOINTABLE_OBJECT_GRAPH", None)
        assert set(opened.keys.values()) == set(expected)
        for name, key in opened.keys.items():
            assert same(opened.stored[name].read(), reader.get_tensor(key))
        for name in variables.keys() & opened.stored.keys():
            assert variables[name].dtype == opened.stored[name].dtype
        # What has no value was never initialised, and what has one is a variable.
        missing = variables.keys() - opened.stored.keys()
        assert missing == (
            {"uninitialized_variable", "sub_module/uninitialized_variable"}
            if path.name == "UninitializedVariable"
            else set()
        )
        assert opened.stored.keys() <= variables.keys()


@needs_corpus
@pytest.mark.parametrize("path", DAMAGED, ids=named(DAMAGED))
def test_damaged_models(tf, path):
    """What fuzzers made is refused, with the node and what is wrong; TensorFlow does too."""
    with pytest.raises(errors.FormatError, match=r"without a tensor|dimension 0 is -1") as caught:
        savedmodel.read(path)

    assert caught.value.path == str(path / "saved_model.pb")
    assert caught.value.offset
    assert caught.value.tensor
    with pytest.raises(ValueError, match=r"missing attr|not fully defined|inconsistent"):
        tf.saved_model.load(str(path))


@needs_corpus
def test_variables_beside_a_damaged_graph():
    """The variables are given although the graph is damaged: it is not looked at."""
    path = CORPUS / "tensorflow/saved_model/fuzz_generated/negative_shape"

    with savedmodel.open_stored(path) as opened:
        assert opened.stored


@needs_corpus
def test_three_ways_to_write():
    """The same model as a message, in chunks and as text: the same in every respect."""
    top = CORPUS / "tensorflow/saved_model/chunked_saved_model"
    plain = savedmodel.read(top / "non_chunked_model/saved_model.pb")
    (graph,) = plain.meta_graphs
    for file, kind in (("saved_model.cpb", "chunks"), ("saved_model.pbtxt", "text")):
        other = savedmodel.read(top / "chunked_model" / file)
        (same_graph,) = other.meta_graphs
        assert other.kind == kind
        assert graph.signatures.keys() == same_graph.signatures.keys()
        assert graph.ops == same_graph.ops
        assert graph.functions == same_graph.functions
        assert graph.variables == same_graph.variables
        assert list(graph.constants) == list(same_graph.constants)
        for name in graph.constants:
            assert same(graph.constants[name].read(), same_graph.constants[name].read())


@needs_corpus
def test_text_is_what_tensorflow_parses(tf):
    """A text gives the fields that protobuf's own parser gives."""
    path = CORPUS / "tensorflow/saved_model/half_plus_two_pbtxt/00000123"
    data = savedmodel_text.encode((path / "saved_model.pbtxt").read_bytes(), "SavedModel")
    expected = parse(tf, path)
    ours = type(expected).FromString(data)

    for found, graph in zip(ours.meta_graphs, expected.meta_graphs, strict=True):
        assert found.signature_def == graph.signature_def
        assert found.asset_file_def == graph.asset_file_def
        for node, other in zip(found.graph_def.node, graph.graph_def.node, strict=True):
            assert (node.name, node.op, node.attr) == (other.name, other.op, other.attr)


@needs_corpus
@pytest.mark.parametrize("name", ["large-constant", "large-nodes", "lots-nodes", "standard"])
def test_chunks_are_merged(tf, name):
    """Chunks of TensorFlow's splitter are one message again; the numbers in them are random."""
    message = "SavedModel" if name == "standard" else "GraphDef"
    path = CORPUS / f"tensorflow/proto_splitter/split-{name}.cpb"
    merged = savedmodel_chunks.merge(path.read_bytes(), message)

    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    kind = saved_model_pb2.SavedModel if name == "standard" else graph_pb2.GraphDef
    ours, expected = kind.FromString(merged), kind.FromString(path.with_suffix(".pb").read_bytes())
    for whole in (ours, expected):
        graphs = [g.graph_def for g in whole.meta_graphs] if name == "standard" else [whole]
        for graph in graphs:
            bodies = [node for function in graph.library.function for node in function.node_def]
            for node in [*graph.node, *bodies]:
                tensor = node.attr["value"].tensor
                tensor.tensor_content = bytes(len(tensor.tensor_content))
    assert ours == expected


def test_hash():
    """The hashes that stand at the start of every Riegeli file, of 0, 16 and 32 bytes."""
    start = savedmodel_riegeli.START
    for first, last, place in ((0, 0, 40), (8, 24, 0), (32, 64, 24)):
        stored = int.from_bytes(start[place : place + 8], "little")
        assert savedmodel_riegeli.highway_hash(start[first:last]) == stored
    hashes = {savedmodel_riegeli.highway_hash(bytes(range(length))) for length in range(70)}

    assert len(hashes) == 70


# Models of this TensorFlow


@pytest.fixture(scope="module")
def module_path(tf, tmp_path_factory):
    """A module with two signatures, a table from an asset, and a variable inside another object."""
    path = tmp_path_factory.mktemp("module")
    vocabulary = path / "words.txt"
    vocabulary.write_text("a\nb\n")

    class Inner(tf.Module):
        def __init__(self):
            self.kernel = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="kernel")

    class Model(tf.Module):
        def __init__(self):
            self.layer = Inner()
            self.step = tf.Variable(7, dtype=tf.int64, trainable=False)
            self.vocabulary = tf.saved_model.Asset(str(vocabulary))
            self.words = tf.Variable([b"x", b"yz"])

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(self, x):
            if tf.reduce_sum(x) > 0:
                x = tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: [y + 1], [x])[0]
            return {"y": x @ self.layer.kernel}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="path")])
        def load(self, path):
            return tf.io.read_file(path)

    model = Model()
    tf.saved_model.save(
        model, str(path / "model"), signatures={"serving_default": model.serve, "load": model.load}
    )
    return path / "model"


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
    with model.open_variables() as opened:
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
    with savedmodel.open_stored(tmp_path / "model", names="variables") as opened:
        for layer in model.layers:
            kernel = opened.stored[f"net/{layer.name}/kernel"]
            assert same(kernel.read(), layer.kernel.numpy())
            assert same(kernel.read_part(np.s_[1:3]), layer.kernel.numpy()[1:3])
    with savedmodel.open_stored(tmp_path / "model") as opened:
        assert set(opened.stored) == set(graph.variables)
    with savedmodel.open_stored(tmp_path / "model", names="keys") as opened:
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
    with model.open_variables() as opened:
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
    with savedmodel.open_stored(tmp_path / "frozen.pb") as opened:
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
        assert savedmodel.resolve(path) == file
        assert savedmodel.read(path).path == str(module_path)
    assert savedmodel.resolve(tmp_path) is None
    assert savedmodel.resolve(tmp_path / "saved_model.pb") is None
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
    with model.open_variables() as opened, local.open_variables() as expected:
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
        savedmodel.open_stored(tmp_path)


def test_names_of_ops(tf):
    """Every op of TensorFlow that a model may have is known as its own."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session as session

    registered = op_def_pb2.OpList.FromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    names = {op.name for op in registered.op}

    assert len(savedmodel_op_names.NAMES & names) > 1700
    assert savedmodel_ops.find_custom(["Addons>Sparsemax", "MatMul"]) == ("Addons>Sparsemax",)
    # All but those of accelerators, and those that are custom themselves, are TensorFlow's.
    assert {op for op in savedmodel_ops.EFFECTS if op not in names} <= {
        "TRTEngineOp",
        "RemoteFusedGraphExecute",
    }
