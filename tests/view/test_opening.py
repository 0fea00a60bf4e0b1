"""`ferry view` as a process, and `tensorferry.view` in a notebook."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import types
import urllib.request

import numpy as np
import pytest
from commands import COMMAND, environment, run

import tensorferry as ferry


@pytest.fixture
def path(tmp_path):
    ferry.save({"x": np.ones(3)}, tmp_path / "x.npz")
    return tmp_path / "x.npz"


def test_command(path):
    """The address is printed, the page is there, and Ctrl-C ends it."""
    process = subprocess.Popen(
        [*COMMAND, "view", str(path), "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    url = json.loads(process.stdout.readline())["url"]
    with urllib.request.urlopen(f"{url}api/files", timeout=60) as answer:
        assert json.loads(answer.read())["files"][0]["count"] == 1
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize("arguments", [["nothing.npz"], ["-"], ["broken.npz"]])
def test_what_cannot_be_shown(tmp_path, arguments):
    """A path that names nothing, a stream, a file that is none: an error on the terminal."""
    (tmp_path / "broken.npz").write_bytes(b"none")
    ran = run("view", "--no-browser", *arguments, cwd=tmp_path, stdin=b"")
    assert ran.code == 2
    assert 1 <= len(ran.err.splitlines()) <= 3


def test_notebook(path, monkeypatch):
    """In a notebook no browser opens, and the page may be shown in a frame."""
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with ferry.view(path) as shown:
        assert opened == [shown.url]
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    with ferry.view(path) as shown:
        assert len(opened) == 1
        assert f'<iframe src="{shown.url}"' in shown._repr_html_()
        with urllib.request.urlopen(shown.url, timeout=60) as answer:
            assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]


def test_refused(tmp_path):
    """Nothing to show, or too much of it."""
    with pytest.raises(ferry.UnsupportedError, match="0 files"):
        ferry.view(browser=False)
    with pytest.raises(FileNotFoundError):
        ferry.view(tmp_path / "none.npz", browser=False)
    with pytest.raises(ferry.UnsupportedError, match="stream"):
        ferry.view("-", browser=False)
