"""What systems do differently: the fallbacks, switched on."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import tensorferry as ferry
from tensorferry.storage import system
from tensorferry.storage.url import localize

# What not every system has; names of `os` and modules.
ONLY_SOME = {
    *("pread", "preadv", "pwrite", "pwritev", "writev", "fchmod", "fchown", "chown", "geteuid"),
    *("getegid", "getuid", "getgid", "uname", "mkfifo", "fork", "fsync", "fdatasync", "replace"),
    *("posix_fallocate", "posix_fadvise", "copy_file_range", "sendfile", "listxattr", "getxattr"),
    *("setxattr", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_RDONLY", "O_RDWR", "SEEK_DATA"),
    *("SEEK_HOLE", "O_DIRECTORY", "sched_getaffinity", "statvfs", "killpg", "getpgid"),
}
MODULES = {"fcntl", "resource", "termios", "tty", "pwd", "grp", "msvcrt", "ctypes"}


@pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux which files are in use")
def test_as_on_windows(tmp_path):
    """Without the calls of Linux and with open files that cannot be replaced, everything works."""
    program = Path(__file__).parent / "windows.py"
    run = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert run.stdout == "as on Windows\n", run.stderr[-3000:]


def test_one_module_knows_systems():
    """No other module makes a call that only some systems have."""
    found = []
    for path in sorted((ROOT / "src/tensorferry").rglob("*.py")):
        if path.name == "system.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "os" and node.attr in ONLY_SOME:
                    found.append(f"{path.name}:{node.lineno} os.{node.attr}")
                if node.value.id == "sys" and node.attr == "platform":
                    found.append(f"{path.name}:{node.lineno} sys.platform")
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [f"{path.name}:{node.lineno} {name}" for name in MODULES.intersection(names)]

    assert found == []


def test_the_cache_of_a_disk(tmp_path, monkeypatch):
    """F_FULLFSYNC of macOS is asked for first; file systems that do not have it get an fsync."""
    fcntl = pytest.importorskip("fcntl")
    real = os.fsync
    asked, synced = [], []
    monkeypatch.setattr(system, "FULL_SYNC", 51)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(real(descriptor)))

    ferry.save(np.arange(3), tmp_path / "x.npy")  # Linux does not know the number
    assert len(synced) == 2  # the file and its folder

    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, number: asked.append(number))
    ferry.save(np.arange(4), tmp_path / "x.npy")
    assert asked == [51, 51]
    assert len(synced) == 2
    assert ferry.load(tmp_path / "x.npy").tolist() == [0, 1, 2, 3]


def test_drives_are_paths_elsewhere():
    """Where there are no drives, `file:///C:/x` is a folder called `C:`."""
    assert localize("file:///C:/x") == ("C:/x" if os.name == "nt" else "/C:/x")
