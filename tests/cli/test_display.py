"""Names that a terminal, a page or a shell would obey: shown by every command, never obeyed."""

from __future__ import annotations

import ast
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import COMMAND, environment, run_on_terminal

import tensorferry as ferry
from tensorferry import display, errors
from tensorferry.cli import shells

EVIL = "a\x1b]0;title\x07\x9b2J\u202eb\u2066\nhint: c\r\x7f"
SAFE = {"\n", "\t"}
COMMANDS = ("info", "ls", "tree", "stats", "verify", "hash", "head", "cat", "schema", "diff")


def unsafe(text: str) -> set[str]:
    """The characters of an output that a terminal obeys, apart from our colours."""
    for code in ("0", "1", "2", "31", "32", "33", "36"):
        text = text.replace(f"\x1b[{code}m", "")
    return {character for character in text if not character.isprintable()} - SAFE


@pytest.fixture(scope="module")
def evil(tmp_path_factory) -> Path:
    """Files whose names of tensors and columns, and whose metadata, hold everything evil."""
    folder = tmp_path_factory.mktemp("evil")
    ferry.save({EVIL: np.arange(3.0)}, folder / "x.safetensors", metadata={EVIL: EVIL})
    table = pa.table({EVIL: [EVIL, "b"], "n": [1, 2]})
    pq.write_table(table.replace_schema_metadata({EVIL: EVIL}), folder / "x.parquet")
    with ferry.writer(folder / "x.tfrecord") as writer:
        writer.write({EVIL: EVIL.encode()})
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_commands(evil, call, command, as_json):
    """No command prints what a terminal obeys, and the JSON is still the text of the file."""
    suffixes = ("parquet", "tfrecord") if command in ("head", "cat", "schema") else (
        "safetensors", "parquet", "tfrecord",
    )  # fmt: skip
    for suffix in suffixes:
        path = evil / f"x.{suffix}"
        paths = [path, evil / "x.safetensors"] if command == "diff" else [path]
        ran = call(command, *paths, *(["--json"] if as_json else []))
        assert not unsafe(ran.out + ran.err), (suffix, ran.out)
        if as_json and ran.out:
            json.loads(ran.out)
    if as_json and command == "ls":
        (listed,) = json.loads(call("ls", evil / "x.safetensors", "--json").out)["files"]
        assert listed["tensors"][0]["name"] == EVIL


MORE = [
    ["show", "x.safetensors", EVIL],
    ["show", "x.safetensors", f"no{EVIL}"],
    ["tail", "x.parquet"],
    ["count", "x.tfrecord"],
    ["head", "x.parquet", "--columns", f"no{EVIL}"],
    ["sql", "select * from x", "x.parquet"],
    ["sql", f'select "{EVIL}"', "x.parquet"],
    ["slice", "x.parquet", "out.jsonl", "--where", f"{EVIL} > 1"],
    ["slice", "x.parquet", "out.jsonl", "--rows", "0:1"],
    ["sample", "x.parquet", "out.jsonl", "--rows", "1"],
    ["split", "x.parquet", "out.jsonl", "--shards", "2"],
    ["merge", "x.parquet", "x.tfrecord", "out.jsonl"],
    ["convert", "x.parquet", "out.csv"],
    ["convert", "x.parquet", f"out{EVIL}.tfrecord"],
    ["convert", "x.safetensors", f"out.{EVIL}"],
    ["edit", "x.safetensors", "out.safetensors", "--drop", f"no{EVIL}"],
    ["edit", "x.safetensors", "out.safetensors", "--rename", f"{EVIL}=b"],
    ["bench", "x.safetensors"],
    ["index", "x.tfrecord"],
    ["repair", "x.tfrecord", "out.tfrecord"],
    ["info", f"x{EVIL}"],
    [f"no{EVIL}"],
    ["info", f"--no{EVIL}"],
    ["help", EVIL],
]


@pytest.mark.parametrize("arguments", MORE, ids=[ascii(one[0]) for one in MORE])
def test_other_commands(evil, call, arguments, monkeypatch, tmp_path):
    """The same for all other commands, and for what they say of arguments that are wrong."""
    for path in evil.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--json"]):
        ran = call(*arguments, *more)
        assert not unsafe(ran.out + ran.err), ran


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_of_files_that_are_no_text(evil, call, tmp_path):
    """Bytes that are no UTF-8, and escapes, in the name of a file itself."""
    path = os.fsencode(tmp_path) + b"/\xff\x1b[2J\xc2\x9b.safetensors"
    Path(os.fsdecode(path)).write_bytes((evil / "x.safetensors").read_bytes())
    for command in ("info", "ls", "tree", "verify", "hash", "stats"):
        for more in ([], ["--json"]):
            ran = call(command, os.fsdecode(path), *more)
            assert not unsafe(ran.out + ran.err), ran
            assert ran.code == 0


def test_terminal(evil):
    """On a terminal, too: heads of tables, and errors."""
    for arguments in (
        ["head", evil / "x.parquet"],
        ["show", evil / "x.safetensors", f"no{EVIL}"],
        ["--debug", "info", evil / f"no{EVIL}.npz"],
    ):
        assert not unsafe(run_on_terminal(*arguments).out), arguments


def test_errors():
    """The text of an error is safe to print, and no line of it looks like a hint that is none."""
    error = errors.FormatError(f"found {EVIL}", path=EVIL, tensor=EVIL, hint=EVIL)
    lines = str(error).split("\n")

    assert not unsafe(str(error))
    assert [line.startswith("hint:") for line in lines] == [False, False, True]
    assert error.path == error.hint == EVIL


def test_one_output():
    """Only `cli/output` prints."""
    folder = Path(ferry.__file__).parent / "cli"
    for path in folder.glob("*.py"):
        calls = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
        assert not calls or path.name in ("output.py", "reference.py"), (path.name, calls)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.text += "".join(value or "" for _, value in attrs)

    def handle_data(self, data):
        self.text += data


def test_html():
    """A name is text in a page, wherever it stands there."""
    evil = f"<script>alert(1)</script>\"'><img src=x onerror=y>&{EVIL}"
    page = Page()
    page.feed(f'<p title="{display.escape_html(evil)}">{display.escape_html(evil)}</p>')

    assert page.tags == ["p"]
    assert page.text == 2 * display.clean(evil)
    assert not unsafe(page.text)


@pytest.mark.parametrize("text", ["plain", EVIL, "\ud800\udfff", "\U000e0001", "é漢", '"\\'])
def test_json(text):
    """JSON reads back what was written, and holds nothing that a terminal obeys."""
    for indent in (None, 2):
        document = display.escape_json(json.dumps([text], ensure_ascii=False, indent=indent))
        assert json.loads(document) == json.loads(json.dumps([text]))
        assert not unsafe(document)


EVIL_NAMES = ["a;touch x", "b$(touch x)`touch x`", "c' 'touch x\\;touch x"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs bash")
def test_completion(tmp_path):
    """Names that are commands to a shell are completed, quoted, and still name the tensors."""
    ferry.save({name: np.arange(3.0) for name in EVIL_NAMES}, tmp_path / "x.safetensors")
    command = tmp_path / "bin" / "ferry"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    script = tmp_path / "rc"
    script.write_text(f'PATH={command.parent}:$PATH\nPS1="> "\neval "$(ferry completion bash)"\n')
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "--rcfile", script, "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=environment(TERM="dumb", INPUTRC="/dev/null", HISTFILE="/dev/null", COLUMNS="200"),
        start_new_session=True,
    )
    os.close(theirs)
    _until(ours, "> ")
    for name in EVIL_NAMES:
        os.write(ours, f"ferry show x.safetensors {name[0]}\t".encode())
        _until(ours, f"{shells.quote(name)} ")
        os.write(ours, b"\n")
        assert "float64" in _until(ours, "\n> "), name
    os.write(ours, b"exit\n")
    process.wait(30)
    os.close(ours)

    assert not (tmp_path / "x").exists()


def _until(terminal: int, end: str) -> str:
    """What comes on a terminal until a text."""
    seen = ""
    while not seen.endswith(end):
        assert select.select([terminal], [], [], 30)[0], seen
        seen += os.read(terminal, 1 << 16).decode()
    return seen
