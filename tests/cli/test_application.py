"""What all commands have in common: help, documents, errors, and the page that describes them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from commands import run
from conftest import ROOT

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


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md"])
def test_pages(name, tmp_path):
    """The commands of a page, on the files that its code writes, print what stands there."""
    import subprocess

    from commands import environment

    page = (ROOT / name).read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (block,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    sessions = re.findall(r"^\$ (ferry .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert sessions
    for line, shown in sessions:
        program, *arguments = shlex.split(line)
        ran = run(*arguments, cwd=tmp_path)
        printed = ran.out + ran.err
        assert ran.code == 0, (line, ran.err)
        # How long it takes, and how well what is installed compresses, is not the same everywhere.
        times = r"[0-9.]+ kB, [0-9.]+ s"
        assert re.sub(times, "", printed) == re.sub(times, "", shown), line


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
