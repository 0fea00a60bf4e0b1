"""SavedModels for tests: those of others, of TensorFlow, and written by hand as text."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from conftest import CORPUS

import tensorferry as ferry
from tensorferry import errors
from tensorferry.formats.savedmodel import model as savedmodel, text as savedmodel_text

# Of others

MODELS = sorted({path.parent for path in CORPUS.glob("**/saved_model.pb*")})
BAD = {"bad_node_attr", "const_with_no_value", "negative_shape"}
GOOD = [path for path in MODELS if path.name not in BAD]
DAMAGED = [path for path in MODELS if path.name in BAD]

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")


def named(paths: list[Path]) -> list[str]:
    """The short names of paths in the corpus."""
    return [str(path.relative_to(CORPUS)) for path in paths]


# Of TensorFlow


def save_module(tf, path: Path) -> Path:
    """Saves a module: two signatures, an asset, a variable inside another object; gives where."""
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


# By hand

CONST = """
node {
  name: "c" op: "Const"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor {
    dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] } } }
}"""

SAMPLE = f"""
saved_model_schema_version: 1
meta_graphs {{
  meta_info_def {{ tags: "serve" tensorflow_version: "2.21.0" }}
  graph_def {{
    {CONST}
    library {{ function {{
      signature {{ name: "f" input_arg {{ name: "x" type: DT_FLOAT }} }}
      node_def {{ name: "n" op: "If" attr {{ key: "body" value {{ func {{ name: "f" }} }} }}
        attr {{ key: "s" value {{ shape {{ dim {{ size: -1 }} }} }} }} }}
    }} }}
  }}
  signature_def {{ key: "s" value {{ method_name: "m"
    inputs {{ key: "x" value {{ name: "x:0" dtype: DT_INT32 tensor_shape {{ }} }} }} }} }}
  asset_file_def {{ tensor_info {{ name: "a:0" }} filename: "a.txt" }}
  object_graph_def {{
    nodes {{ children {{ node_id: 1 local_name: "v" }} children {{ node_id: 2 local_name: "f" }} }}
    nodes {{ variable {{ dtype: DT_FLOAT shape {{ dim {{ size: 2 }} }} name: "v" }} }}
    nodes {{ function {{ concrete_functions: "f" }} }}
    concrete_functions {{ key: "f" value {{ canonicalized_input_signature {{
      tuple_value {{ values {{ tensor_spec_value {{ name: "x" dtype: DT_FLOAT }} }}
                     values {{ dict_value {{ }} }} }} }} }} }}
  }}
}}"""


def encode(text: str, message: str = "SavedModel") -> bytes:
    """The bytes of a message that a test writes as text."""
    return savedmodel_text.encode(text.encode(), message)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def visit(model: savedmodel.SavedModel) -> None:
    """Asks for everything that is read late."""
    for graph in model.meta_graphs:
        for name in graph.constants:
            graph.constants[name].read()
        for concrete in graph.concrete_functions.values():
            str([*concrete.inputs.values(), concrete.results])
        for signature in graph.signatures.values():
            str([*signature.inputs.values()])
            for default in signature.defaults.values():
                default.read()


def read(data: bytes, path, name: str = "saved_model.pb") -> savedmodel.SavedModel:
    """What is in these bytes, all of it."""
    file = path / name
    file.write_bytes(data)
    model = savedmodel.read(file)
    visit(model)
    return model


def refused(data: bytes, path, kind: type[Exception], match: str, name="saved_model.pb"):
    """The error that some bytes give, at once and without a large allocation.

    What is wrong with the graph, `tensorferry.inspect` says too.
    """
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(kind, match=match) as caught:
            read(data, path, name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20 or peak < 100 * len(data)
    assert time.process_time() - start < 5
    with suppress(errors.FerryError):
        savedmodel.read(path / name)
        return caught.value  # what is wrong is read when it is asked for
    with pytest.raises(kind, match=match):
        ferry.inspect(path / name, verify=True)
    return caught.value


def model_of(graph: str) -> bytes:
    """A model with a graph."""
    return encode(f'meta_graphs {{ meta_info_def {{ tags: "serve" }} graph_def {{ {graph} }} }}')
