"""What all commands have in common: help, documents, errors, and the page that describes them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from commands import columns, run
from conftest import ROOT

import tensorferry as ferry
from tensorferry.cli.application import COMMANDS, application
from tensorferry.cli.reference import reference


def test_reference():
    """docs/cli.md is what the commands say of themselves."""
    page = (ROOT / "docs/cli.md").read_text()

    assert page == reference(), "run: python -m tensorferry.cli.reference > docs/cli.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command(call, name):
    """A command has help, `--json`, an option's help each, and its line in the table."""
    context = click.Context(application, info_name="ferry")
    command = application.get_command(context, name)
    options = [param for param in command.params if isinstance(param, click.Option)]

    assert command.name == name
    assert command.help
    assert all(option.help for option in options)
    assert "--json" in {opt for option in options for opt in option.opts}
    ran = call(name, "--help")
    assert (ran.code, ran.err) == (0, "")


def test_readme(tmp_path, call, monkeypatch):
    """The commands in README run as they stand."""
    with ferry.writer(tmp_path / "train.tfrecord", durable=False) as out:
        out.write_batch(columns())
    tensors = {f"encoder.{n}.kernel": np.zeros((4, 8), np.float32) for n in range(3)}
    ferry.save(tensors, tmp_path / "model.safetensors", durable=False)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(ferry .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(lines) == 9
    for program, *arguments in lines:
        ran = call(*arguments)
        assert program == "ferry"
        assert ran.code == 0, (arguments, ran.err)


def test_start_up_is_light():
    """Help imports neither NumPy nor a format; no command imports rich or a framework."""
    code = (
        "import sys; from tensorferry.cli import main; main(sys.argv[1:]);"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    import subprocess

    from commands import environment

    def modules(*arguments: object) -> str:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment()).stderr

    assert "'numpy'" not in modules("--help")
    assert "'numpy'" not in modules("formats", "--help")


def test_a_light_info(files):
    """A file of tensors is described without PyArrow, rich or a framework."""
    code = (
        "import sys; from tensorferry.cli import main; main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    import subprocess

    from commands import environment

    command = [sys.executable, "-c", code, "info", str(files / "values.safetensors")]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment()).stderr

    assert not {"pyarrow", "rich", "tensorflow", "torch", "jax"} & set(shown.split())


def test_versions(files, call):
    """Every document has a version and the name of its command."""
    for command in ("info", "ls", "tree", "verify", "hash", "stats", "cat", "schema", "bench"):
        tree = json.loads(call(command, files / "rows.tfrecord", "--json").out)
        assert (tree["version"], tree["command"]) == (1, command)
    for command in ("formats",):
        assert json.loads(call(command, "--json").out)["command"] == command


def test_hints_are_for_the_command(files, tmp_path):
    """A hint names options of the command, not of the library."""
    path = Path(tmp_path / "cut.tfrecord")
    path.write_bytes((files / "rows.tfrecord").read_bytes()[:-3])
    ran = run("cat", path)

    assert ran.code == 2
    assert "--option on_error=skip" in ran.err
    assert "ferry repair" in ran.err
    assert len(run("cat", path, "--option", "on_error=skip").out.splitlines()) == 39
