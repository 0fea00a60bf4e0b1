"""One vocabulary: the same options in every command, and their former names."""

from __future__ import annotations

import json

import click
import numpy as np
import pytest
from commands import run, run_on_terminal

import tensorferry as ferry
from tensorferry.cli.application import COMMANDS, application
from tensorferry.cli.examples import EXAMPLES


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """Twelve layers and a head."""
    path = tmp_path_factory.mktemp("layers") / "model.safetensors"
    tensors = {f"layers.{n}.{part}": np.full(3, n, "f4") for n in range(12) for part in "wb"}
    ferry.save({**tensors, "head": np.zeros(2, "f4")}, path, durable=False)
    return path


@pytest.mark.parametrize("option", ["--select", "-s", "--match", "--columns"])
@pytest.mark.parametrize(
    ("given", "count"),
    [
        (["layers.{0..11}.w"], 12),
        (["layers.{2..3}.*,head"], 5),
        (["head", "layers.11.{w,b}"], 3),
    ],
)
def test_select(layers, call, option, given, count):
    """Every command that chooses names does so by `--select`, also called as it was before."""
    options = [argument for text in given for argument in (option, text)]
    listed = json.loads(call("ls", layers, *options, "--json").out)["files"][0]["tensors"]
    tree = json.loads(call("tree", layers, *options, "--json").out)["files"][0]["tree"]
    stats = json.loads(call("stats", layers, *options, "--json").out)["files"][0]["columns"]
    hashed = json.loads(call("hash", layers, *options, "--json").out)["files"][0]["tensors"]
    same = json.loads(call("diff", layers, layers, *options, "--json").out)["tensors"]

    assert [len(found) for found in (listed, stats, hashed, same)] == [count] * 4
    assert sum(node["tensors"] for node in tree) == count


def test_what_is_listed_can_be_selected(layers, call):
    """A collapsed name, as `ls` prints it, is what `--select` takes."""
    name = call("ls", layers).out.splitlines()[-2].split()[0]

    assert name == "layers.{0..11}.w"
    assert call("ls", layers, "--select", name, "-1").out.count("\n") == 12


@pytest.mark.parametrize("option", ["--select", "-s", "--match", "--columns"])
def test_columns(files, call, option):
    """Columns come in the order asked for, by names or patterns."""
    row = json.loads(call("head", "-1", files / "rows.tfrecord", option, "name,[ls]*").out)
    assert list(row) == ["name", "label", "score"]


def test_help_has_one_name(call):
    """Help tells of `--select` only."""
    for name in COMMANDS:
        shown = call(name, "--help").out
        assert "--match" not in shown
        assert "--columns" not in shown


def test_letters():
    """A letter means one option, whatever the command."""
    context = click.Context(application, info_name="ferry")
    meanings: dict[str, set[str]] = {}
    for name in COMMANDS:
        command = application.get_command(context, name)
        assert command is not None
        for param in command.params:
            letters = [opt for opt in param.opts if len(opt) == 2 and opt.startswith("-")]
            for letter in letters:
                meanings.setdefault(letter, set()).add(param.name or "")

    assert all(len(names) == 1 for names in meanings.values()), meanings
    assert {"-o", "-f", "-q", "-s", "-n"} <= set(meanings)


def test_head_with_a_number(files, call):
    """`head -5` is `head -n 5`."""
    assert call("head", "-5", files / "rows.tfrecord").out.count("\n") == 5
    assert call("tail", files / "rows.tfrecord", "-2").out.count("\n") == 2


def test_output(files, call, tmp_path):
    """`-o` is OUT, and `-f` replaces it."""
    path = files / "rows.tfrecord"
    for command, *rest in (
        ["convert", "-o", tmp_path / "a.npz", path],
        ["merge", path, path, "-o", tmp_path / "b.tfrecord"],
        ["slice", path, "3:5", "-o", tmp_path / "c.tfrecord"],
        ["slice", path, "-o", tmp_path / "d.tfrecord"],
        ["split", path, "-o", tmp_path / "e.tfrecord", "--shards", 2],
        ["repair", path, "-o", tmp_path / "f.tfrecord"],
    ):
        assert call(command, *rest).code == 0, rest
        assert call(command, *rest).code == 2
        assert call(command, *rest, "-f").code == 0
    assert len(ferry.open(str(tmp_path / "c.tfrecord"))) == 2
    assert len(ferry.open(str(tmp_path / "d.tfrecord"))) == 40
    assert "one OUT" in call("repair", path, tmp_path / "x", "-o", tmp_path / "y").err
    assert "one OUT" in call("repair", path).err


def test_quiet(files, call, tmp_path):
    """`-q` leaves results and errors, before and behind the command."""
    path = files / "rows.tfrecord"
    for arguments in (["-q", "convert"], ["convert", "--quiet"]):
        ran = call(*arguments, path, tmp_path / "a.npz", "--force")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert call("convert", path, tmp_path / "a.npz", "-f").err
    assert call("convert", path, tmp_path / "a.npz", "-q").err
    assert call("diff", path, files / "values.npz", "-q").out == ""
    assert call("verify", path, "-q").out == ""


def test_colours(files, call, monkeypatch):
    """Colours are for terminals, unless the user says something else."""
    path = files / "rows.tfrecord"
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in call("info", path).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in call("info", path).out
    assert "\x1b[31m" in call("info", "no.npz").err
    assert "\x1b" not in call("info", path, "--no-color").out
    assert "\x1b" not in call("--no-color", "info", path).out
    assert "\x1b" not in call("--no-color", "info", "no.npz").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in call("info", path).out
    assert "\x1b" in run_on_terminal("info", path).out
    assert "\x1b" not in run_on_terminal("info", path, "--no-color").out
    assert "\x1b" not in run_on_terminal("info", path, TERM="dumb").out


def test_help(call):
    """`ferry help CMD` is `ferry CMD --help`, and `ferry help` is `ferry --help`."""
    for name in COMMANDS:
        assert call("help", name).out == call(name, "--help").out
    assert call("help").out == call("--help").out
    assert "did you mean `ferry convert`" in call("help", "covnert").err


def test_examples_fit():
    """The examples of the help stand on one line of a terminal of 80 columns."""
    lines = [line for examples in EXAMPLES.values() for line in examples]
    assert max(map(len, lines)) <= 80 - len("    ")


def test_version(call):
    """`-V` prints the version."""
    assert call("-V").out == call("--version").out == f"ferry {ferry.__version__}\n"
    assert run("-V").code == 0
