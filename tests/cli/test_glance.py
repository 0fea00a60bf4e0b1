"""`ferry info FILE` without click: the same answers, from fewer modules."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest
from commands import environment
from savedmodels import encode

import tensorferry as ferry

MODEL = """
saved_model_schema_version: 1
meta_graphs {
  meta_info_def { tags: "serve" }
  graph_def { node { name: "read" op: "ReadFile" } }
}"""
SLOW = {"click", "inspect", "dataclasses", "numpy", "ast", "uuid", "datetime"}


@pytest.fixture
def paths(tmp_path):
    """A model, a checkpoint and files with headers."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/saved_model.pb").write_bytes(encode(MODEL))
    tensors = {"a/b": np.zeros((2, 3), np.float32), "c": np.arange(4)}
    for name in ("x.ckpt", "x.safetensors", "x.npy"):
        value = tensors["c"] if name == "x.npy" else tensors
        ferry.save(value, tmp_path / name, durable=False)
    return [tmp_path / name for name in ("model", "x.ckpt", "x.safetensors", "x.npy")]


def test_the_same_answers(paths, call):
    """What a glance prints is what the application prints, whose option changes nothing."""
    for path in paths:
        glanced, whole = call("info", path), call("info", path, "--no-pager")
        assert glanced == whole
        assert glanced.out
        assert call(path) == whole


def test_problems_have_their_code(tmp_path, call):
    """A model with a missing asset is described, and the exit code is 1, both ways."""
    (tmp_path / "model").mkdir()
    asset = 'meta_graphs { asset_file_def { filename: "../words" } }'
    (tmp_path / "model/saved_model.pb").write_bytes(encode(asset))
    glanced, whole = (call("info", tmp_path / "model", *more) for more in ((), ("--no-pager",)))

    assert glanced == whole
    assert (glanced.code, "problem: " in glanced.out) == (1, True)


def test_errors_are_the_applications(tmp_path, call):
    """What is damaged, missing or no file is told as ever, once."""
    damaged = tmp_path / "model"
    damaged.mkdir()
    (damaged / "saved_model.pb").write_bytes(b"\x12\x05\x08")
    for path in (damaged, tmp_path / "nothing.npy", tmp_path):
        glanced, whole = call("info", path), call("info", path, "--no-pager")
        assert glanced == whole
        assert glanced.code == 2
        assert glanced.err.count("ferry: ") == 1


def test_slow_modules_are_not_imported(paths):
    """Neither click nor NumPy is imported, nor what imports of theirs take the longest."""
    code = (
        "import sys; from tensorferry.cli import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    for path in paths:
        command = [sys.executable, "-c", code, "info", str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), check=True
        )
        assert not SLOW & set(done.stderr.split()), path


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collections_go_on(paths, call, is_enabled):
    """The collector of garbage is afterwards as it was before, and works for long commands."""
    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        for arguments in (("info", paths[0]), ("ls", paths[1]), ("--version",), ("nothing",)):
            call(*arguments)
            assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if before else gc.disable)()
