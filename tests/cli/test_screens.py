"""What people see: tables that fit, the pager, progress, and help that opens with examples."""

from __future__ import annotations

import shlex
import sys

import numpy as np
import pytest
from commands import columns, run, run_on_terminal

import tensorferry as ferry
from tensorferry import progress
from tensorferry.cli.application import COMMANDS
from tensorferry.cli.examples import EXAMPLES
from tensorferry.display import columns_of

WIDE = {f"a_long_name_of_column_{place}": place * 1.5 for place in range(9)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the examples of the commands name."""
    folder = tmp_path_factory.mktemp("examples")
    generator = np.random.default_rng(0)
    model = {
        "encoder/kernel": generator.standard_normal((4, 8)).astype(np.float32),
        "encoder/bias": np.zeros(8, np.float32),
    }
    for name in ("model.npz", "model.safetensors"):
        ferry.save(model, folder / name, durable=False)
    ferry.save({**model, "encoder/bias": np.ones(8)}, folder / "other.npz", durable=False)
    rows = {"id": np.arange(40), **columns()}
    for name in ("train.tfrecord", "train-1.tfrecord", "train-2.tfrecord", "damaged.tfrecord"):
        with ferry.writer(folder / name, durable=False) as out:
            out.write_batch(rows)
            if name[5:6] == "-":
                out.write_batch({**rows, "id": rows["id"] + 100 * int(name[6])})
    for name in ("train.parquet", "b.parquet"):
        ferry.save(rows, folder / name, rows=True, durable=False)
    data = bytearray((folder / "damaged.tfrecord").read_bytes())
    data[50] ^= 1
    (folder / "damaged.tfrecord").write_bytes(data)
    ferry.save({name: np.array([value]) for name, value in WIDE.items()}, folder / "wide.npz")
    return folder


def test_help_opens_with_examples(call, folder, monkeypatch):
    """The help of every command opens with two examples, and each of them runs."""
    assert set(EXAMPLES) == set(COMMANDS)
    monkeypatch.chdir(folder)
    for name, examples in EXAMPLES.items():
        shown = call(name, "--help").out.splitlines()
        assert tuple(line.strip() for line in shown[2:4]) == examples
        for example in examples:
            words = shlex.split(example)
            if words[0] != "ferry":
                words = shlex.split(words[1].removeprefix("$(").removesuffix(")"))
            ran = call(*words[1:])
            expected = 1 if example == EXAMPLES["verify"][1] else 0
            assert ran.code == expected, (example, ran.err)


@pytest.mark.parametrize("width", [60, 200])
def test_tables_fit(folder, width):
    """A table is never wider than the terminal: what does not fit becomes a block a row."""
    shown = run_on_terminal("head", folder / "wide.npz", columns=width, NO_COLOR="1").out
    lines = shown.splitlines()

    assert max(map(columns_of, lines)) <= width
    if width < 200:
        assert lines == [*(f"{name}: {value:g}" for name, value in WIDE.items()), ""]
    else:
        assert len(lines) == 2
        assert lines[1].split() == [f"{value:g}" for value in WIDE.values()]
        assert len(set(lines[0].split())) == len(WIDE)


def test_expanded(call, folder):
    """`-x` gives a block a row, of every table, in a pipe as well."""
    shown = call("head", folder / "train.parquet", "-n", 2, "-s", "id,label", "-x").out
    assert shown == "id:    0\nlabel: 0\n\nid:    1\nlabel: 1\n\n"
    shown = call("stats", folder / "model.npz", "-x").out
    assert "standard deviation: 0" in shown


def test_pager(folder, tmp_path):
    """What is longer than the terminal goes through the pager, errors behind it; --no-pager."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged\ncat\n")
    pager.chmod(0o755)
    many = [folder / "model.npz"] * 12

    def shown(*arguments: object, **variables: str) -> str:
        return run_on_terminal(*arguments, NO_COLOR="1", PAGER=str(pager), **variables).out

    long = shown("ls", *many, folder / "missing.npz")
    assert long.startswith("paged\n")
    assert long.count("encoder/kernel") == 12
    assert long.splitlines()[-1].startswith("ferry: ")
    assert not shown("ls", *many, "--no-pager").startswith("paged")
    assert not shown("ls", folder / "model.npz").startswith("paged")
    assert "paged" not in run("ls", *many, PAGER=str(pager)).out


@pytest.mark.parametrize("width", [30, 60, 80, 200])
@pytest.mark.parametrize("unit", ["bytes", "records", "tensors"])
def test_progress_fits_its_line(monkeypatch, capsys, width, unit):
    """A bar appears after a second, fits its line, and says how fast records and bytes go."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_width", lambda: width)
    name = "/data/a/rather/long/path/of/train-00000-of-00100.tfrecord"
    with progress.ProgressLine(name, unit=unit, shown=True) as tell:
        now[0] = 0.9
        tell(500, 1000)
        assert capsys.readouterr().err == ""
        now[0] = 2.0
        tell(600_000, 1_000_000)
        line = capsys.readouterr().err.strip("\r")
        now[0] = 3.0
        tell(900_000, None)
        other = capsys.readouterr().err.strip("\r")
    assert columns_of(line) < width
    assert columns_of(other.rstrip()) < width
    if width >= 60:
        rate = {"bytes": "300 kB/s", "records": "300,000 records/s"}.get(unit, "of 1,000,000")
        assert "60%" in line
        assert rate in line
        assert "█" in line


def test_progress_of_commands(folder, tmp_path):
    """Commands that take long tell how far they are, on the standard error only."""
    program = (
        "import sys; from tensorferry import progress, cli; progress.SILENT = -1.0; "
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    for arguments in (
        ["hash", "train.tfrecord"],
        ["diff", "model.npz", "other.npz"],
        ["repair", "damaged.tfrecord", str(tmp_path / "good.tfrecord")],
    ):
        ran = run_on_terminal(
            *("-c", program, *arguments),
            command=[sys.executable],
            cwd=folder,
            overwritten=True,
            NO_COLOR="1",
        )
        assert ran.code in (0, 1), ran.out
        assert "\r" in ran.out, arguments


@pytest.mark.parametrize("name", ["ls", "tree", "schema", "show", "info", "index"])
def test_waiting_tells_a_rate(tmp_path, name):
    """Commands that look at files say how fast that goes, on a line that fits the terminal."""
    rows = {"id": np.arange(60_000), "x": np.zeros((60_000, 4), np.float32)}
    path = tmp_path / ("train.tfrecord" if name in ("index", "show") else "train.jsonl")
    with ferry.writer(path, durable=False) as out:
        out.write_batch(rows)
    program = (
        "import sys; from tensorferry import progress, cli; progress.SILENT = progress.SECONDS = "
        "0.002; sys.exit(cli.main(sys.argv[1:]))"
    )
    arguments = [name, str(path), *(["x"] if name == "show" else [])]
    ran = run_on_terminal(
        "-c", program, *arguments, command=[sys.executable], overwritten=True, NO_COLOR="1"
    )

    drawn = [line for line in ran.out.split("\r") if "reading  " in line or "/s" in line]
    assert ran.code == 0, ran.out
    assert any("B/s" in line or "records/s" in line for line in drawn), ran.out
    assert max(columns_of(line.rstrip("\n")) for line in drawn) < 80
