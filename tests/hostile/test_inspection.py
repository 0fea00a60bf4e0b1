"""Models that would do something when they are loaded: looked into, reported, never run."""

from __future__ import annotations

import json
import sys
import zipfile

import h5py
import numpy as np
import pytest
from savedmodels import model_of

import tensorferry as ferry
from tensorferry.formats.savedmodel import ops as savedmodel_ops

CANARY = "tensorferry_canary_module"


@pytest.mark.parametrize("op", ["ReadFile", "WriteFile", "PyFunc", "EagerPyFunc", "Own>Op"])
@pytest.mark.parametrize("place", ["node", "function"])
def test_ops(tmp_path, op, place):
    """Ops that reach files or run Python, and custom ones, are named wherever they are."""
    node = f'name: "n" op: "{op}"'
    body = f'signature {{ name: "f" }} node_def {{ {node} }}'
    graph = f"node {{ {node} }}" if place == "node" else f"library {{ function {{ {body} }} }}"
    (tmp_path / "saved_model.pb").write_bytes(model_of(graph))
    info = ferry.inspect(tmp_path)
    (found,) = info.model.graphs

    group = savedmodel_ops.groups().get(op)
    if group is not None:
        assert [(risk.op, risk.expected) for risk in found.risks] == [(op, False)]
        assert f"{savedmodel_ops.EFFECT_OF[group.kind]}: {op}" in info.notes[0]
    else:
        assert found.custom_ops == (op,)
        assert info.notes == (f"the graph needs ops that TensorFlow lacks: {op}",)


def test_nothing_is_run(tf, tmp_path):
    """A model that writes a file and calls Python when it is called does neither here."""
    target = tmp_path / "written"
    called = []

    class Model(tf.Module):
        @tf.function(input_signature=[])
        def __call__(self):
            tf.io.write_file(str(target), "x")
            return tf.py_function(lambda: called.append(1) or 1, [], tf.int32)

    tf.saved_model.save(Model(), str(tmp_path / "model"))
    info = ferry.inspect(tmp_path / "model")
    with ferry.open(tmp_path / "model") as bundle:
        dict(bundle)

    assert set(info.notes) == {
        "the graph writes files: WriteFile",
        "the graph runs Python: EagerPyFunc",
    }
    assert not target.exists()
    assert not called


def config(tmp_path) -> dict:
    """A config with a Lambda, a class of any module, a function by name, and a gadget."""
    lambda_layer = {
        "class_name": "Lambda",
        "module": "keras.layers",
        "config": {
            "name": "l",
            "function": {"class_name": "__lambda__", "config": {"code": "4wEAAAA="}},
        },
    }
    others = [
        {"class_name": "Layer", "module": CANARY, "config": {"name": "m"}},
        {"class_name": "function", "module": "builtins", "config": "eval"},
        {
            "class_name": "function",
            "module": "keras.utils",
            "config": "get_file",
            "registered_name": "get_file",
        },
    ]
    layers = [lambda_layer, *others]
    return {"class_name": "Sequential", "module": "keras", "config": {"layers": layers}}


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module that can be imported, and writes a file when it is."""
    written = tmp_path / "imported"
    (tmp_path / f"{CANARY}.py").write_text(f"open({str(written)!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    return written


EXPECTED = ("bytecode", CANARY, "'eval'", "keras.utils.get_file")


def check(info, canary):
    """All of it is told, and none of it happened."""
    assert info.model.keras.class_name == "Sequential"
    for what in EXPECTED:
        assert any(what in note for note in info.notes), what
    assert not canary.exists()
    assert CANARY not in sys.modules


def test_keras_archive(tmp_path, canary):
    """Bytecode, modules, functions and gadgets in the config of a `.keras` file are named only."""
    weights = tmp_path / "model.weights.h5"
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = np.zeros(3, np.float32)
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.0"}))
        archive.writestr("config.json", json.dumps(config(tmp_path)))
        archive.write(weights, "model.weights.h5")

    check(ferry.inspect(tmp_path / "m.keras"), canary)


def test_keras_legacy(tmp_path, canary):
    """The same in an `.h5` file."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(config(tmp_path))
        file.attrs["keras_version"] = "2.15.0"
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([b"d"])
        group.create_group("d").attrs["weight_names"] = np.array([b"d/kernel:0"])
        group["d/d/kernel:0"] = np.zeros(3, np.float32)

    check(ferry.inspect(tmp_path / "m.h5"), canary)


def test_keras_metadata(tmp_path, canary):
    """The same in what Keras 2 kept beside a SavedModel."""
    from savedmodels import field

    text = json.dumps(config(tmp_path)).encode()
    node = field(3, b"root") + field(4, b"_tf_keras_sequential") + field(5, text)
    (tmp_path / "saved_model.pb").write_bytes(model_of(""))
    (tmp_path / "keras_metadata.pb").write_bytes(field(1, node))

    check(ferry.inspect(tmp_path), canary)


def test_deep_keras_metadata(tmp_path):
    """A config that nests without end, or is no JSON, is a problem of its file."""
    from savedmodels import field

    (tmp_path / "saved_model.pb").write_bytes(model_of(""))
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"no", b"[]"):
        (tmp_path / "keras_metadata.pb").write_bytes(field(1, field(3, b"root") + field(5, text)))
        (problem,) = ferry.inspect(tmp_path).problems
        assert problem.path.endswith("keras_metadata.pb")
