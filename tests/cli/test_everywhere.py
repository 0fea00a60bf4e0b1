"""Every command as a process, on files of every format, and on URLs."""

from __future__ import annotations

import json

import pytest
from commands import NAMES, run
from servers import Web

from tensorferry.cli.application import COMMANDS

PLAIN = ("info", "ls", "tree", "show", "head", "tail", "cat", "verify", "hash", "stats", "schema")


def sample(command: str, files, folder) -> list:
    """Arguments with which a command does something."""
    path = files / "rows.tfrecord"
    return {
        "show": [path, "score[0]"],
        "diff": [path, files / "rows.parquet"],
        "convert": [path, folder / "out.npz"],
        "repair": [path, folder / "out.tfrecord"],
        "merge": [path, path, folder / "out.tfrecord"],
        "split": [path, folder / "out.tfrecord", "--shards", 2],
        "slice": [path, folder / "out.tfrecord", "3:5"],
        "index": [folder / "copy.tfrecord"],
        "formats": [],
        "completion": ["fish"],
        "bench": ["--shape", "4", "--runs", 1],
    }.get(command, [path])


@pytest.mark.parametrize("command", COMMANDS)
def test_as_a_process(files, tmp_path, command):
    """A process of each command ends well, with one JSON document and no noise."""
    (tmp_path / "copy.tfrecord").write_bytes((files / "rows.tfrecord").read_bytes())
    ran = run(command, *sample(command, files, tmp_path), "--json")

    assert (ran.code, ran.err) == (0, "")
    tree = json.loads(ran.out)
    assert (tree["version"], tree["command"]) == (1, command)


@pytest.mark.parametrize("name", NAMES)
def test_on_every_format(files, call, name):
    """Commands that look at one file do so in every format, in text and in JSON."""
    tensor = "tensor" if name.startswith("array") else "score"
    for command in PLAIN:
        place = [tensor] if command == "show" else []
        for form in ([], ["--json"]):
            ran = call(command, files / name, *place, *form)
            assert (ran.code, ran.err) == (0, ""), (command, ran.err)
            assert ran.out


@pytest.mark.parametrize("name", ["rows.tfrecord", "values.npz", "rows.parquet"])
def test_web(files, call, tmp_path, name):
    """Files on a web server are looked at, verified, compared and converted."""
    pytest.importorskip("obstore")
    server = Web((files / name).read_bytes())
    try:
        url = server.url(name)
        for command in ("info", "ls", "verify", "hash", "stats", "head"):
            ran = call(command, url)
            assert ran.code == 0, (command, ran.err)
        assert call("diff", url, files / name).code == 0
        assert call("convert", url, tmp_path / "out.safetensors", "--verify").code == 0
    finally:
        server.stop()


def test_object_store(files, call, s3):
    """An object is converted into another one, and a pattern means all that fit."""
    url = s3.put("data/a.npz", (files / "values.npz").read_bytes())
    target = s3.url("data/b.safetensors")

    assert call("convert", url, target, "--verify").code == 0
    assert call("convert", url, target).code == 2
    found = json.loads(call("info", "--json", s3.url("data/*")).out)["files"]
    assert [info["format"] for info in found] == ["npz", "safetensors"]
