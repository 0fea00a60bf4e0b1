"""What `tensorferry.inspect` says of models: what TensorFlow's own reader parses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import environment
from conftest import CORPUS, ROOT
from savedmodels import (
    DAMAGED,
    GOOD,
    counted,
    encode,
    named,
    needs_corpus,
    parse,
    save_module,
    shape_of,
)
from strategies import same

import tensorferry as ferry
from tensorferry import dtypes, errors
from tensorferry.formats.checkpoint import outline as checkpoint_outline
from tensorferry.operations.list import list_tensors


def expected_argument(name, info):
    """An input or output, as TensorFlow's message has it."""
    dtype = dtypes.BY_ENUM[info.dtype % 100].name if info.dtype else None
    shape = shape_of(info.tensor_shape) if info.HasField("tensor_shape") else None
    if info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        tensors = (
            sparse.indices_tensor_name,
            sparse.values_tensor_name,
            sparse.dense_shape_tensor_name,
        )
        return name, dtype, shape, "sparse", tensors
    return name, dtype, shape, "dense", (info.name,)


def check_graph(graph, proto):
    """A graph has the tags, signatures, ops and functions of TensorFlow's message."""
    assert graph.tags == tuple(proto.meta_info_def.tags)
    assert graph.tensorflow_version == proto.meta_info_def.tensorflow_version
    assert [signature.name for signature in graph.signatures] == sorted(proto.signature_def)
    for signature in graph.signatures:
        expected = proto.signature_def[signature.name]
        assert signature.method == expected.method_name
        for found, infos in (
            (signature.inputs, expected.inputs),
            (signature.outputs, expected.outputs),
        ):
            assert [(a.name, a.dtype, a.shape, a.kind, a.tensors) for a in found] == [
                expected_argument(name, infos[name]) for name in sorted(infos)
            ]
    library = proto.graph_def.library.function
    assert graph.functions == {f.signature.name: len(f.node_def) for f in library}
    assert graph.nodes == len(proto.graph_def.node)
    nodes = [*proto.graph_def.node, *(node for f in library for node in f.node_def)]
    assert graph.ops == counted(n.op for n in nodes if n.op not in graph.functions)
    assert graph.constants == sum(node.op == "Const" for node in nodes)


def check_variables(tf, info, path):
    """The variables have the dtypes, shapes and values that TensorFlow's own reader gives."""
    if not (path / "variables/variables.index").exists():
        assert info.tensors == ()
        return
    reader = tf.train.load_checkpoint(str(path / "variables/variables"))
    shapes = reader.get_variable_to_shape_map()
    shapes.pop("_CHECKPOINTABLE_OBJECT_GRAPH", None)
    keys = {t.name: t.origin.get("aliases", (t.name,))[0] for t in info.tensors}
    assert sorted(keys.values()) == sorted(shapes)
    with ferry.open(path) as bundle:
        assert list(info.tensors) == [bundle.info[name] for name in bundle]
        for tensor in info.tensors:
            value = reader.get_tensor(keys[tensor.name])
            assert same(bundle[tensor.name], value)
            assert tensor.shape == value.shape
            if tensor.dtype != "string":
                assert tensor.nbytes == value.nbytes


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_models_of_others(tf, path):
    """Every model of others: signatures, tags, ops and variables are what TensorFlow reads."""
    info = ferry.inspect(path)
    proto = parse(tf, path)

    assert (info.format, info.holds, info.problems) == ("savedmodel", "tensors", ())
    assert info.count == len(info.tensors)
    assert info.nbytes == sum(Path(file).stat().st_size for file in info.files)
    assert len(info.model.graphs) == len(proto.meta_graphs)
    for graph, expected in zip(info.model.graphs, proto.meta_graphs, strict=True):
        check_graph(graph, expected)
    check_variables(tf, info, path)


# What `tf.saved_model.load` refuses: ops of TensorRT, no variables beside the graph, variables that
# were never initialised, and a graph of TensorFlow 1 that counts in a reference.
UNLOADABLE = ("tftrt", "/chunked_model", "UninitializedVariable", "saved_model_counter")


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_loaded_models_of_others(tf, path):
    """What `tf.saved_model.load` makes of them has these signatures, and variables at these paths.

    What it cannot load is told of all the same.
    """
    (graph,) = ferry.inspect(path).model.graphs
    if any(name in str(path) for name in UNLOADABLE):
        assert graph.signatures
        with pytest.raises((ValueError, OSError, RuntimeError, KeyError, tf.errors.OpError)):
            tf.saved_model.load(str(path), tags=list(graph.tags))
        return
    loaded = tf.saved_model.load(str(path), tags=list(graph.tags))
    signatures = {signature.name: signature for signature in graph.signatures}

    assert {name for name in loaded.signatures if not name.startswith("__")} == {
        name for name in signatures if not name.startswith("__")
    }
    for name, concrete in loaded.signatures.items():
        given = concrete.structured_input_signature[1]
        # Of sparse ones TensorFlow has three inputs.
        inputs = [a for a in signatures[name].inputs if a.kind == "dense"]
        described = {a.name: (a.dtype, a.shape) for a in inputs}
        assert described == {
            n: (s.dtype.name, known(s.shape)) for n, s in given.items() if n in described
        }
        if not name.startswith("__"):
            outputs = [a for a in signatures[name].outputs if a.kind == "dense"]
            found = concrete.structured_outputs
            assert [(a.dtype, a.shape) for a in outputs] == [
                (found[a.name].dtype.name, known(found[a.name].shape)) for a in outputs
            ]
    for variable in graph.variables:
        value = follow(loaded, variable.path)
        if value is not None:
            assert (value.dtype.name, known(value.shape)) == (variable.dtype, variable.shape)


def follow(value, path):
    """The object at a path; None for slots of an optimizer, and in graphs of TensorFlow 1."""
    for part in path.split("/"):
        if part.isdigit() and isinstance(value, list | tuple):
            value = value[int(part)]
        else:
            value = getattr(value, part, None)
    return value


def known(shape):
    """A shape of TensorFlow's as we have it."""
    return None if shape.rank is None else tuple(shape.as_list())


@needs_corpus
@pytest.mark.parametrize("path", DAMAGED, ids=named(DAMAGED))
def test_damaged_models(path):
    """A damaged graph is refused, with the node, and the way to its variables where there are."""
    with pytest.raises(errors.FormatError, match=r"without a tensor|dimension 0 is -1") as caught:
        ferry.inspect(path)

    assert caught.value.path == str(path / "saved_model.pb")
    assert caught.value.tensor
    has_variables = (path / "variables").exists()
    assert ("variables can be read" in str(caught.value.hint)) == has_variables


# Models of this TensorFlow


@pytest.fixture(scope="module")
def module_path(tf, tmp_path_factory):
    """A module with two signatures, an asset, and a variable inside another object."""
    return save_module(tf, tmp_path_factory.mktemp("module"))


@pytest.fixture
def copy(module_path, tmp_path):
    """A copy of the module's model, to be damaged."""
    return Path(shutil.copytree(module_path, tmp_path / "copy"))


def test_module(tf, module_path):
    """Signatures, variables by path, the asset, the fingerprint, and a file that would be read."""
    info = ferry.inspect(module_path)
    (graph,) = info.model.graphs

    check_graph(graph, parse(tf, module_path).meta_graphs[0])
    check_variables(tf, info, module_path)
    assert (info.model.kind, info.model.written_as, info.model.version) == (
        "savedmodel",
        "binary",
        1,
    )
    assert {v.path: (v.dtype, v.shape, v.trainable) for v in graph.variables} == {
        "layer/kernel": ("float32", (2, 3), True),
        "step": ("int64", (), False),
        "words": ("string", (2,), True),
    }
    assert [(asset.name, asset.size) for asset in info.model.assets] == [("words.txt", 4)]
    expected = tf.saved_model.experimental.read_fingerprint(str(module_path))
    assert info.model.fingerprint.saved_model_checksum == expected.saved_model_checksum
    assert graph.callables["serve"][0] in graph.functions
    assert info.notes == ("the graph reads files: ReadFile",)
    assert any(risk.op == "SaveV2" and risk.expected for risk in graph.risks)
    assert {Path(file).name for file in info.files} == {
        "saved_model.pb",
        "fingerprint.pb",
        "words.txt",
        "variables.index",
        "variables.data-00000-of-00001",
    }


def test_names_of_variables(module_path):
    """`names=` is that of `tensorferry.open`: the outline and the bundle call variables alike."""
    for names in ("paths", "variables", "keys"):
        with ferry.open(module_path, names=names) as bundle:
            expected = [bundle.info[name] for name in bundle]
        assert list(ferry.inspect(module_path, names=names).tensors) == expected


def test_tables_and_python(tf, tmp_path):
    """A table from a file is expected; Python code in a graph is named."""
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")

    class Model(tf.Module):
        def __init__(self):
            filled = tf.lookup.TextFileInitializer(
                str(words),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )
            self.table = tf.lookup.StaticHashTable(filled, -1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="word")])
        def __call__(self, word):
            found = self.table.lookup(word)
            return tf.py_function(lambda number: number + 1, [found], tf.int64)

    tf.saved_model.save(Model(), str(tmp_path / "model"))
    info = ferry.inspect(tmp_path / "model")
    (graph,) = info.model.graphs

    check_graph(graph, parse(tf, tmp_path / "model").meta_graphs[0])
    assert info.notes == ("the graph runs Python: EagerPyFunc",)
    assert [asset.name for asset in info.model.assets] == ["words.txt"]
    assert "InitializeTableFromTextFileV2" in {r.op for r in graph.risks if r.expected}


def test_keras_export(tf, tmp_path):
    """What Keras 3 exports: the signatures of TensorFlow's message, and the model's weights."""
    import keras

    layers = [keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    model.export(tmp_path / "model", verbose=False)
    info = ferry.inspect(tmp_path / "model")

    check_graph(info.model.graphs[0], parse(tf, tmp_path / "model").meta_graphs[0])
    check_variables(tf, info, tmp_path / "model")
    assert {t.shape for t in info.tensors} == {known(w.shape) for w in model.weights}
    assert info.model.keras is None


def test_several_graphs(tf, tmp_path):
    """MetaGraphs of TensorFlow 1, each with its tags and signatures; sparse inputs."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        w = v1.get_variable("scope/w", initializer=np.ones((3, 2), np.float32))
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        sparse = v1.sparse_placeholder(tf.int64, [None, 4], name="sparse")
        signature = v1.saved_model.predict_signature_def(
            {"x": x, "s": sparse}, {"y": tf.matmul(x, w)}
        )
        builder.add_meta_graph_and_variables(session, ["serve"], {"predict": signature})
        builder.add_meta_graph(["serve", "gpu"], {"other": signature})
        builder.save()
    info = ferry.inspect(tmp_path / "model")
    proto = parse(tf, tmp_path / "model")

    assert [graph.tags for graph in info.model.graphs] == [("serve",), ("serve", "gpu")]
    for graph, expected in zip(info.model.graphs, proto.meta_graphs, strict=True):
        check_graph(graph, expected)
        assert [(v.path, v.trainable) for v in graph.variables] == [("scope/w", True)]
    check_variables(tf, info, tmp_path / "model")


def test_frozen_graph(tf, tmp_path):
    """A frozen graph has its constants as tensors, and a graph without tags."""
    with tf.Graph().as_default() as graph:
        tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3), name="w")
        tf.io.read_file(tf.constant("x", name="name"))
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    info = ferry.inspect(path)

    assert info == ferry.inspect(path, format="savedmodel")
    assert info.model.kind == "graph"
    assert info.notes == ("the graph reads files: ReadFile",)
    with ferry.open(path) as bundle:
        assert list(info.tensors) == [bundle.info[name] for name in bundle]
        assert {t.name: t.shape for t in info.tensors} == {"w": (2, 3), "name": ()}
    assert info.files == (str(path),)


def test_what_no_frozen_graph_is(tf, tmp_path):
    """TensorProtos, Examples and StructuredValues in a .pb are not taken for graphs."""
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    path = tmp_path / "tensor.pb"
    path.write_bytes(tf.io.serialize_tensor(np.float32([1, 2])).numpy())
    assert ferry.inspect(path).format == "tensorproto"
    for data in (example.SerializeToString(), ferry.dumps([None, 1], format="structure"), b"\n"):
        path.write_bytes(data)
        with pytest.raises(errors.FormatError) as caught:
            ferry.inspect(path)
        assert "node" not in str(caught.value)


def test_remote(s3, module_path):
    """A model in an object store is the same one."""
    for file in filter(Path.is_file, module_path.rglob("*")):
        s3.put(f"models/m/{file.relative_to(module_path)}", file.read_bytes())
    local, remote = ferry.inspect(module_path), ferry.inspect(s3.url("models/m"))

    assert remote.model == local.model
    assert remote.tensors == local.tensors
    assert remote.nbytes == local.nbytes


# What Keras says of models


def test_keras_2(tf, tmp_path):
    """A SavedModel of Keras 2: its class, version and layers; its Lambda is named, not run."""
    import tf_keras

    layers = [
        tf_keras.layers.Dense(3, input_shape=(4,)),
        tf_keras.layers.Lambda(lambda x: x + 1),
        tf_keras.layers.Dense(2),
    ]
    model = tf_keras.Sequential(layers, name="net")
    model.save(tmp_path / "model", save_format="tf")
    info = ferry.inspect(tmp_path / "model")
    keras = info.model.keras

    assert (keras.class_name, keras.name, keras.version) == (
        "Sequential",
        "net",
        tf_keras.__version__,
    )
    assert keras.layers["Dense"] == 2
    assert keras.layers["Lambda"] == 1
    assert any("bytecode" in note for note in info.notes)
    (tmp_path / "model/keras_metadata.pb").write_bytes(b"\xff\xff")
    (problem,) = ferry.inspect(tmp_path / "model").problems
    assert problem.path.endswith("keras_metadata.pb")


@needs_corpus
def test_keras_metadata_of_others():
    """The metadata that another Keras 2 kept."""
    from tensorferry.formats.keras import outline as keras_outline

    data = (CORPUS / "serving/tf_text_regression/01/keras_metadata.pb").read_bytes()
    found = keras_outline.read_metadata(data)

    assert found.version.startswith("2.")
    assert found.class_name


def test_keras_archive(tmp_path):
    """A `.keras` file: class, version, layers with those inside layers, and what would run."""
    import keras

    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)], name="inner")
    layers = [keras.Input((4,)), keras.layers.Dense(3), inner, keras.layers.Lambda(lambda x: x)]
    keras.Sequential(layers, name="net").save(tmp_path / "m.keras")
    info = ferry.inspect(tmp_path / "m.keras")
    found = info.model.keras

    assert (info.format, info.model.kind) == ("keras", "keras")
    assert (found.class_name, found.name, found.version) == ("Sequential", "net", keras.__version__)
    assert found.layers["Dense"] == 2
    assert found.layer_count == sum(found.layers.values())
    assert [note for note in info.notes if "bytecode" in note]


def test_weights_alone(tmp_path):
    """A file of weights without a config says nothing of a model."""
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.save_weights(tmp_path / "m.weights.h5")

    assert ferry.inspect(tmp_path / "m.weights.h5").model is None


# What is wrong


def test_missing_asset(copy):
    """A file that the graph names and that is not there is a problem."""
    (copy / "assets/words.txt").unlink()
    (problem,) = ferry.inspect(copy).problems

    assert "'words.txt': there is no such file" in problem.problem


def test_missing_variables(copy):
    """A model without its variables is told of, and that they are missing."""
    shutil.rmtree(copy / "variables")
    info = ferry.inspect(copy)

    assert [s.name for s in info.model.graphs[0].signatures][:1] == ["__saved_model_init_op"]
    assert "not there" in info.problems[0].problem
    assert info.tensors == ()


@pytest.mark.parametrize("file", ["variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_damaged_variables(copy, file, damage):
    """Variables that are cut, flipped or missing are a problem, as opening them says; one each."""
    path = copy / "variables" / file
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        if damage == "flipped":
            data[9] ^= 1
        path.write_bytes(data[:-5] if damage == "cut" else data)
    info = ferry.inspect(copy)
    if damage == "flipped" and "data" in file:  # of values, which are not read
        assert info.problems == ()
        return
    (problem,) = info.problems
    assert info.model.graphs
    with pytest.raises((errors.FormatError, FileNotFoundError)) as caught:
        ferry.open(copy, verify=False)
    assert problem.problem in str(caught.value)


def test_many_variables(tmp_path):
    """A checkpoint beyond what the outline reads one by one is opened: the same is told of it."""
    from tensorferry.formats.checkpoint import outline as checkpoint_outline

    count = checkpoint_outline.MOST + 5
    (tmp_path / "saved_model.pb").write_bytes(encode("meta_graphs { graph_def { } }"))
    (tmp_path / "variables").mkdir()
    tensors = {f"v{n}": np.float32(n) for n in range(count)}
    ferry.save(tensors, tmp_path / "variables/variables", format="checkpoint", durable=False)

    assert checkpoint_outline.read(str(tmp_path / "variables/variables")) is None
    assert ferry.inspect(tmp_path).count == count


def test_slices_and_notes(tmp_path):
    """Variables that are kept in other ways than whole are opened: nothing is left out."""
    (tmp_path / "saved_model.pb").write_bytes(encode("meta_graphs { graph_def { } }"))
    (tmp_path / "variables").mkdir()
    ragged = ferry.RaggedTensor.from_rows([[1], [2, 3]])
    ferry.save({"r": ragged}, tmp_path / "variables/variables", format="checkpoint", durable=False)

    assert [(t.name, t.kind) for t in ferry.inspect(tmp_path).tensors] == [("r", "ragged")]


@pytest.fixture
def checkpoint_path(tmp_path):
    """A checkpoint of three tensors."""
    ferry.save({name: np.ones(3) for name in "abc"}, tmp_path / "x.ckpt", durable=False)
    return tmp_path / "x.ckpt"


CHECKPOINTS = sorted(
    path
    for folder in (ROOT / "tests/golden/checkpoints", CORPUS)
    for path in folder.glob("**/*.index")
)


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.name)
def test_outlines_of_checkpoints(path, monkeypatch):
    """A checkpoint that is not opened is described as if it were, by inspect and in a list."""
    prefix = str(path).removesuffix(".index")
    quick = ferry.inspect(prefix), list_tensors(prefix), ferry.inspect(path)
    outlined = checkpoint_outline.read(prefix)
    monkeypatch.setattr(checkpoint_outline, "read", lambda prefix: None)

    assert quick == (ferry.inspect(prefix), list_tensors(prefix), ferry.inspect(path))
    if path.name == "objects-1.index":  # the others have slices
        assert outlined is not None


def test_a_graph_of_numbers_has_no_outline(tf, tmp_path):
    """Numbers under the name of the object graph are an error of whoever opens the checkpoint."""
    prefix = str(tmp_path / "model")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["_CHECKPOINTABLE_OBJECT_GRAPH", "v"],
        shape_and_slices=["", ""],
        tensors=[tf.zeros(3), tf.zeros(2)],
    )

    assert checkpoint_outline.read(prefix) is None
    with pytest.raises(ferry.FerryError, match="_CHECKPOINTABLE_OBJECT_GRAPH"):
        ferry.inspect(prefix)


@pytest.mark.parametrize("what", ["module_path", "checkpoint_path"])
def test_outline_imports_neither_numpy_nor_tensorflow(what, request):
    """SavedModels and checkpoints are looked into without NumPy, and without what opens others."""
    module_path = request.getfixturevalue(what)
    code = f"""
import json, sys
import tensorferry
info = tensorferry.inspect({str(module_path)!r})
print(json.dumps([info.count, sorted(sys.modules)]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment()
    )
    count, modules = json.loads(ran.stdout)

    assert count == 3
    assert not {"numpy", "ml_dtypes", "tensorflow", "click", "isal", "google"} & set(modules)


def test_verify_finds_what_inspect_finds(tf, tmp_path):
    """A missing asset of a model is a problem for both."""
    path = save_module(tf, tmp_path)
    assert ferry.verify(path).sound
    (asset,) = (path / "assets").iterdir()
    asset.unlink()
    found = [problem.problem for problem in ferry.inspect(path).problems]
    assert len(found) == 1
    assert "asset" in found[0]
    for quick in (False, True):
        report = ferry.verify(path, quick=quick)
        assert not report.sound
        assert [problem.problem for problem in report.problems] == found
