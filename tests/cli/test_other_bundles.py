"""Formats of several files: every command works on whatever `open` gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture
def checkpoint(tmp_path) -> str:
    """The prefix of a checkpoint."""
    tensors = {f"layer/{n}/kernel": np.full((2, 3), n, np.float32) for n in range(3)}
    tensors["layer/0/kernel/.OPTIMIZER_SLOT/opt/m"] = np.zeros((2, 3), np.float32)
    ferry.save(tensors, tmp_path / "model.ckpt-9", format="checkpoint", durable=False)
    return str(tmp_path / "model.ckpt-9")


def test_every_command(checkpoint, call, tmp_path):
    """Looked at, listed, summed up, verified, hashed, converted and compared."""
    (found,) = json.loads(call("info", checkpoint, "--json").out)["files"]

    assert (found["format"], found["count"]) == ("checkpoint", 4)
    assert len(found["files"]) == 2
    assert found["nbytes"] > 96
    listed = call("ls", checkpoint).out
    assert "layer/{0..2}/kernel" in listed
    assert "optimizer:" in listed
    for command in ("tree", "verify", "hash", "stats", "head"):
        ran = call(command, checkpoint)
        assert ran.code == 0, ran.err
    assert "[2. 2.]" in call("show", checkpoint, "layer/2/kernel[0,:2]").out
    for target in ("out.safetensors", "out.npz", "out.tfrecord", "out.parquet"):
        ran = call("convert", checkpoint, tmp_path / target, "--verify")
        assert ran.code == 0, ran.err
    assert ferry.load(tmp_path / "out.npz")["layer/1/kernel"][0, 0] == 1
