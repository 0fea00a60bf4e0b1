"""`ferry info` and `ferry tree` of models: signatures, what they would do, and what is wrong."""

from __future__ import annotations

import json
import re

import pytest
from commands import run, run_on_terminal
from savedmodels import DAMAGED, GOOD, encode, named, needs_corpus, parse

TEXT = """
saved_model_schema_version: 1
meta_graphs {{
  meta_info_def {{ tags: "{tag}" tensorflow_version: "2.21.0" }}
  graph_def {{
    node {{ name: "x" op: "Placeholder" }}
    node {{ name: "read" op: "ReadFile" }}
    node {{ name: "own" op: "Own>Op" }}
  }}
  signature_def {{ key: "__init" value {{ }} }}
  signature_def {{ key: "{name}" value {{ method_name: "tensorflow/serving/predict"
    inputs {{ key: "tokens" value {{ name: "x:0" dtype: DT_INT32
      tensor_shape {{ dim {{ size: -1 }} dim {{ size: 128 }} }} }} }}
    outputs {{ key: "scores" value {{ name: "y:0" dtype: DT_FLOAT
      tensor_shape {{ unknown_rank: true }} }} }} }} }}
}}"""


def write(path, tag="serve", name="serving_default", more=""):
    """A model whose graph reads a file and has an op of its own."""
    path.mkdir()
    (path / "saved_model.pb").write_bytes(encode(TEXT.format(tag=tag, name=name) + more))
    return path


def test_info(tmp_path, call):
    """Tags, version, signatures with dtypes and shapes, and what the graph would do."""
    ran = call("info", write(tmp_path / "model"))

    assert ran.code == 0
    assert re.search(r"^tags +serve$", ran.out, re.MULTILINE)
    assert re.search(r"^written by +TensorFlow 2\.21\.0$", ran.out, re.MULTILINE)
    assert re.search(
        r"^serving_default +in +tokens +int32 +\[\?, 128\] +predict$", ran.out, re.MULTILINE
    )
    assert re.search(r"^ +out +scores +float32 +\[\.\.\.\]$", ran.out, re.MULTILINE)
    assert ran.out.index("serving_default") < ran.out.index("__init")
    assert "note: the graph reads files: ReadFile\n" in ran.out
    assert "note: the graph needs ops that TensorFlow lacks: Own>Op\n" in ran.out


def test_json(tmp_path, call):
    """The same for programs, with the names of tensors in the graph."""
    ran = call("info", write(tmp_path / "model"), "--json")
    (found,) = json.loads(ran.out)["files"]
    (graph,) = found["model"]["graphs"]

    assert graph["tags"] == ["serve"]
    assert graph["custom_ops"] == ["Own>Op"]
    assert graph["risks"] == [
        {"op": "ReadFile", "count": 1, "effect": "reads files", "expected": False}
    ]
    signature = next(s for s in graph["signatures"] if s["name"] == "serving_default")
    assert signature["inputs"] == [
        {
            "name": "tokens",
            "dtype": "int32",
            "shape": [None, 128],
            "kind": "dense",
            "tensors": ["x:0"],
            "optional": False,
        }
    ]
    assert signature["outputs"][0]["shape"] is None


def test_several_graphs(tmp_path, call):
    """Each MetaGraph is headed by its tags."""
    other = TEXT.format(tag="gpu", name="other").partition("\n")[2].partition("\n")[2]
    ran = call("info", write(tmp_path / "model", more=other))

    assert ran.out.index("MetaGraph serve") < ran.out.index("serving_default")
    assert ran.out.index("MetaGraph gpu") < ran.out.index("other")


def test_tree(tmp_path, call):
    """Signatures come before the variables, as branches."""
    path = write(tmp_path / "model")
    ran = call("tree", path)

    assert "├ serving_default" in ran.out
    assert re.search(r"^│ ├ in tokens +int32 +\[\?, 128\]$", ran.out, re.MULTILINE)
    assert ran.out.index("scores") < ran.out.index("variables")
    assert "signatures" not in call("tree", path, "--match", "*").out
    (found,) = json.loads(call("tree", path, "--json").out)["files"]
    assert found["model"]["graphs"][0]["tags"] == ["serve"]


def test_problems(tmp_path, call):
    """A missing asset is told of; the exit code is 1."""
    asset = 'meta_graphs { asset_file_def { filename: "gone.txt" } }'
    ran = call("info", write(tmp_path / "model", more=asset))

    assert ran.code == 1
    assert "the asset 'gone.txt': there is no such file" in ran.out


@needs_corpus
@pytest.mark.parametrize("path", DAMAGED, ids=named(DAMAGED))
def test_damaged_models(call, path):
    """A damaged graph is refused with file, byte and node: exit code 2."""
    for arguments in ([path], [path, "--json"], [path / "saved_model.pb"]):
        ran = call("info", *arguments)
        assert ran.code == 2
        assert ran.out == ""
        assert re.search(r"saved_model\.pb, byte \d+, tensor '.+': ", ran.err)
        assert len(ran.err.splitlines()) <= 3


@needs_corpus
def test_damaged_graph_beside_sound_variables(call):
    """`ferry tree` shows the variables all the same, and says that there are no signatures."""
    (path,) = (path for path in DAMAGED if path.name == "negative_shape")
    ran = call("tree", path)

    assert ran.code == 0
    assert "layer_with_weights-0" in ran.out
    assert "ferry: no signatures: " in ran.err


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_models_of_others(tf, call, path):
    """Every input and output of a model of others has a line, with what TensorFlow parses."""
    ran = call("info", path)

    assert ran.code == 0
    for graph in parse(tf, path).meta_graphs:
        for name, signature in graph.signature_def.items():
            assert name in ran.out
            for argument in [*sorted(signature.inputs)[:12], *sorted(signature.outputs)[:12]]:
                assert re.search(rf" (in|out) +{re.escape(argument)} ", ran.out)


def test_long_models(tmp_path, call):
    """Of very many signatures, inputs and assets the first are named, and how many there are."""
    inputs = "".join(f'inputs {{ key: "i{n}" value {{ dtype: DT_FLOAT }} }}' for n in range(500))
    many = "".join(f'signature_def {{ key: "s{n}" value {{ {inputs} }} }}' for n in range(50))
    path = tmp_path / "model"
    path.mkdir()
    (path / "saved_model.pb").write_bytes(encode(f"meta_graphs {{ {many} }}"))
    ran = call("info", path)

    assert "and 488 more" in ran.out
    assert "and 38 signatures more" in ran.out
    assert len(ran.out.splitlines()) < 250


def test_terminals(tmp_path):
    """On a narrow terminal long names give way, not dtypes and shapes."""
    name = "serving_of_" + "a_very_long_name_" * 5
    path = write(tmp_path / "model", name=name)
    narrow = run_on_terminal("info", path, columns=80)
    wide = run_on_terminal("info", path, columns=200)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", narrow.out).splitlines()[1:]

    assert max(map(len, lines)) <= 80
    assert "[?, 128]" in narrow.out
    assert name not in narrow.out
    assert name in wide.out


def test_names_cannot_command_a_terminal(tmp_path, call):
    """Escape sequences in names of a graph are shown, not obeyed."""
    evil = "a\\033]0;title\\007b"
    asset = f'meta_graphs {{ asset_file_def {{ filename: "{evil}" }} }}'
    path = write(tmp_path / "model", tag=evil, name=evil, more=asset)
    for command in ("info", "tree", "ls"):
        ran = call(command, path)
        assert "\x1b" not in ran.out + ran.err
        assert "\x07" not in ran.out + ran.err


def test_a_process(tmp_path):
    """The command as it is called, in a process of its own."""
    ran = run(write(tmp_path / "model"))

    assert ran.code == 0
    assert ran.err == ""
    assert "serving_default" in ran.out
