"""Every command on files of others, sound and hostile: an answer or a clear error."""

from __future__ import annotations

import pytest
from conftest import CORPUS

COMMANDS = (
    ["info"],
    ["ls"],
    ["tree"],
    ["show"],
    ["head"],
    ["tail"],
    ["cat", "-n", 20],
    ["verify", "--nan"],
    ["hash"],
    ["stats"],
    ["schema"],
    ["bench", "--runs", 1],
)
INTO = (
    ["diff"],
    ["convert", "--to", "npz"],
    ["repair"],
    ["split", "--shards", 2],
    ["merge"],
    ["slice"],
)
"""Commands with a second path: of a file to compare with, or to write."""

FILES = [path for path in sorted(CORPUS.rglob("*")) if path.is_file()] if CORPUS.exists() else []


def check(ran, path) -> None:
    """An answer, or an error of at most three lines that says what to do."""
    assert ran.code in (0, 1, 2, 3), path
    assert len(ran.err.splitlines()) <= 3, (path, ran.err)
    assert "--debug" not in ran.err, (path, ran.err)
    assert "\x1b" not in ran.out, path


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_traceback(call, command):
    """Exit codes 0 to 3, at most three lines of error, and no error of Python's own."""
    assert FILES
    most = 50_000 if command[0] == "bench" else 1 << 62  # it writes each of them thirty times
    for path in FILES:
        if path.stat().st_size <= most:
            check(call(command[0], path, *command[1:]), path)


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("command", INTO, ids=lambda command: command[0])
def test_no_traceback_with_two_paths(call, tmp_path, command):
    """The same where something is compared or written; what is refused leaves nothing."""
    for number, path in enumerate(FILES):
        folder = tmp_path / str(number)
        folder.mkdir()
        second = path if command[0] == "diff" else folder / "out"
        ran = call(command[0], path, second, *command[1:])
        check(ran, path)
        if ran.code == 2:
            assert not list(folder.iterdir()), path
        elif command[0] == "diff":
            # A file is the same as itself, as far as it can be read.
            assert ran.code == ("cannot be read" in ran.out), (path, ran.out)


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_directories(call):
    """Directories are opened, or refused with what to do."""
    for path in sorted(CORPUS.rglob("*")):
        if path.is_dir():
            check(call("info", path), path)
