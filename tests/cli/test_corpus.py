"""Every command on files of others, sound and hostile: an answer or a clear error."""

from __future__ import annotations

import pytest
from conftest import CORPUS

COMMANDS = (["info"], ["ls"], ["verify", "--nan"], ["hash"], ["stats"], ["head"], ["schema"])


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_traceback(call, command):
    """Exit codes 0 to 3, at most three lines of error, and no error of Python's own."""
    files = [path for path in sorted(CORPUS.rglob("*")) if path.is_file()]
    assert files
    for path in files:
        ran = call(*command, path)
        assert ran.code in (0, 1, 2, 3), path
        assert len(ran.err.splitlines()) <= 3, path
        assert "--debug" not in ran.err, (path, ran.err)
        assert "\x1b" not in ran.out, path


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_directories(call):
    """Directories are opened, or refused with what to do."""
    for path in sorted(CORPUS.rglob("*")):
        if path.is_dir():
            ran = call("info", path)
            assert ran.code in (0, 1, 2, 3), path
            assert "--debug" not in ran.err, (path, ran.err)
