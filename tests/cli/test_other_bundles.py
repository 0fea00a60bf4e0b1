"""Formats that are no files of their own: every command works on whatever `open` gives."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations import opened, opening
from tensorferry.tensors import TensorInfo


class Checkpoint(Mapping):
    """Tensors behind the common start of several files' names."""

    format = "checkpoint"
    metadata: dict = {}  # noqa: RUF012

    def __init__(self, path: str) -> None:
        self.path = path
        self._values = {f"layer/{n}/kernel": np.full((2, 3), n, np.float32) for n in range(3)} | {
            "layer/0/kernel/.OPTIMIZER_SLOT/m": np.zeros((2, 3), np.float32)
        }
        self.info = {name: TensorInfo(name, "float32", (2, 3), 24) for name in self._values}

    def __getitem__(self, name: str):
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def slice(self, name: str, index):
        return self._values[name][index]

    def tensors(self):
        return iter(self._values.items())

    def close(self) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception: object) -> None:
        pass


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> str:
    """The name of a checkpoint, which only `open` knows what to do with."""
    (tmp_path / "model.ckpt-9.index").write_bytes(b"i" * 10)
    (tmp_path / "model.ckpt-9.data-00000-of-00001").write_bytes(b"d" * 90)
    original = opening.open

    def open_any(path, **options):
        if str(path).endswith("model.ckpt-9"):
            return Checkpoint(str(path))
        return original(path, **options)

    monkeypatch.setattr(opening, "open", open_any)
    monkeypatch.setattr(opened.opening, "open", open_any)
    return str(tmp_path / "model.ckpt-9")


def test_every_command(checkpoint, call, tmp_path):
    """Looked at, listed, summed up, verified, hashed, converted and compared."""
    (found,) = json.loads(call("info", checkpoint, "--json").out)["files"]

    assert (found["format"], found["count"], found["nbytes"]) == ("checkpoint", 4, 100)
    assert len(found["files"]) == 2
    listed = call("ls", checkpoint).out
    assert "layer/[0-2]/kernel" in listed
    assert "optimizer:" in listed
    for command in ("tree", "verify", "hash", "stats", "head"):
        ran = call(command, checkpoint)
        assert ran.code == 0, ran.err
    assert "[2. 2.]" in call("show", checkpoint, "layer/2/kernel[0,:2]").out
    for target in ("out.safetensors", "out.npz", "out.tfrecord", "out.parquet"):
        ran = call("convert", checkpoint, tmp_path / target, "--verify")
        assert ran.code == 0, ran.err
    assert ferry.load(tmp_path / "out.npz")["layer/1/kernel"][0, 0] == 1
