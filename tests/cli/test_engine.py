"""`--engine`: commands that work on many parts at once."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    "command", [("verify",), ("stats", "--json"), ("hash",)], ids=lambda command: command[0]
)
def test_same_answer(files, call, command):
    """A command says the same with an engine as without."""
    plain = call(*command, files / "rows.tfrecord")
    spread = call(*command, files / "rows.tfrecord", "--engine", "local")

    assert (spread.code, spread.out) == (plain.code, plain.out)


def test_convert_and_diff(files, call, tmp_path):
    """Shards that an engine wrote are the same as the source."""
    ran = call(
        "convert",
        files / "rows.tfrecord",
        tmp_path / "out.tfrecord",
        "--shards",
        3,
        "--engine",
        "local",
        "--json",
    )

    assert len(json.loads(ran.out)["conversions"][0]["files"]) == 3
    pattern = tmp_path / "out.tfrecord@3"
    assert call("diff", files / "rows.tfrecord", pattern, "--engine", "local").code == 0


def test_directory(files, call, tmp_path):
    """Many files into a directory are converted by an engine, too."""
    sources = [files / "values.npz", files / "rows.tfrecord"]
    ran = call("convert", *sources, f"{tmp_path}/", "--to", "safetensors", "--engine", "local")

    assert ran.code == 0
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_repair(files, call, tmp_path):
    """A repair by an engine."""
    ran = call("repair", files / "rows.tfrecord", tmp_path / "x.tfrecord", "--engine", "local")

    assert ran.code == 0
    assert (tmp_path / "x.tfrecord").read_bytes() == (files / "rows.tfrecord").read_bytes()


def test_address_alone(files, call):
    """An address without Ray is wrong use."""
    ran = call("verify", files / "rows.tfrecord", "--address", "auto")

    assert ran.code == 2
    assert "--engine ray" in ran.err
