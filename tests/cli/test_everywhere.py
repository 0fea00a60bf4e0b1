"""Every command as a process, on files of every format, and on URLs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from commands import COMMAND, NAMES, environment, run
from servers import Web

import tensorferry as ferry
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
        "sample": [path, folder / "out.tfrecord", "-n", 5],
        "shuffle": [path, folder / "out.tfrecord"],
        "edit": [files / "values.npz", "-o", folder / "out.npz", "--metadata", "a=b"],
        "sql": [f'select count(*) as n from "{path}"'],
        "index": [folder / "copy.tfrecord"],
        "formats": [],
        "completion": ["fish"],
        "bench": ["--shape", "4", "--runs", 1],
        "view": [path, "--static", folder / "page.html"],
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


def test_several_files_in_a_store(call, s3, tmp_path):
    """Prefixes of checkpoints, sets of shards and patterns work in a store as on a disk."""
    ferry.save({"dense/kernel": np.ones((3, 2), np.float32)}, tmp_path / "m.ckpt", durable=False)
    with ferry.writer(tmp_path / "t.tfrecord@2", durable=False) as out:
        out.write_batch({"id": np.arange(10)})
    for path in tmp_path.iterdir():
        s3.put(f"data/{path.name}", path.read_bytes())
    for name in ("m.ckpt", "m.ckpt.index", "t.tfrecord@2", "t.tfrecord-*"):
        for command in ("info", "ls", "verify", "hash"):
            ran = call(command, s3.url(f"data/{name}"))
            assert ran.code == 0, (name, command, ran.err)
    assert call("diff", s3.url("data/m.ckpt"), tmp_path / "m.ckpt").code == 0
    assert call("diff", s3.url("data/t.tfrecord@2"), tmp_path / "t.tfrecord@2").code == 0
    target = s3.url("data/out.tfrecord@2")
    assert call("convert", tmp_path / "t.tfrecord@2", target, "--verify").code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
def test_a_full_disk(files, tmp_path):
    """No room for the output or the report: exit code 2, a hint, and nothing half-written."""
    for target in (["/dev/full", "--to", "npz", "--force"], ["/dev/full", "--to", "tfrecord"]):
        ran = run("convert", files / "values.npz", *target, "--force")
        assert ran.code == 2
        assert "No space left" in ran.err
        assert "hint: make room" in ran.err
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "cat", str(files / "rows.tfrecord")],
            stdout=full, stderr=subprocess.PIPE, env=environment(), text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_a_limit_on_files(files, tmp_path):
    """A file that may not grow as large: exit code 2, the old one is whole, nothing is left."""
    target = tmp_path / "out.npz"
    target.write_text("old")
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500));"
        "from tensorferry.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", str(files / "values.npz"), str(target),
         "--force"],
        capture_output=True, env=environment(PYTHONDONTWRITEBYTECODE="1"), text=True,
    )  # fmt: skip

    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.npz"]


def test_no_permission(files, tmp_path):
    """Where nothing may be written or read, the file is named as the user did."""
    ran = run("convert", files / "values.npz", "/sys/out.npz")
    assert ran.code == 2
    assert ran.err.startswith("ferry: /sys/out.npz: ")
    if os.geteuid() == 0:
        return  # root may read everything
    path = tmp_path / "secret.npz"
    path.write_bytes((files / "values.npz").read_bytes())
    path.chmod(0)
    ran = run("info", path)
    assert ran.code == 2
    assert "ermission" in ran.err


def test_closed_pipe(files):
    """Who reads only the first line ends the command quietly."""
    command = shlex.join([*COMMAND, "cat", str(files / "rows.tfrecord")])
    script = command + " | head -n 1; echo ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment(), text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"
    assert json.loads(done.stdout.splitlines()[0])["name"] == "row 0"
