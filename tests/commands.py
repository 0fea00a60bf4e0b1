"""The command `ferry` as a process, in a pipe or on a terminal; and what its files hold."""

from __future__ import annotations

import atexit
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensorferry as ferry

SOURCE = str(Path(ferry.__file__).parent.parent)
BYTECODE = tempfile.mkdtemp(prefix="ferry-bytecode-")
atexit.register(shutil.rmtree, BYTECODE, ignore_errors=True)
COMMAND = [sys.executable, "-m", "tensorferry"]


@dataclass
class Ran:
    """What a process did."""

    code: int
    out: str
    err: str


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that finds this package."""
    without = (
        "NO_COLOR",
        "FORCE_COLOR",
        "PYTHONDONTWRITEBYTECODE",
    )  # compiling all of it takes a second each time
    inherited = {name: value for name, value in os.environ.items() if name not in without}
    own = {"PYTHONPATH": SOURCE, "PYTHONPYCACHEPREFIX": BYTECODE}
    return {**inherited, **own, **variables}


def run(
    *arguments: object, stdin: bytes | None = None, cwd: object = None, **variables: str
) -> Ran:
    """Runs the command as a process, in pipes."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        cwd=cwd,
        env=environment(**variables),
        timeout=600,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_on_terminal(
    *arguments: object,
    columns: int = 80,
    command: Sequence[str] = COMMAND,
    cwd: object = None,
    overwritten: bool = False,
    **variables: str,
) -> Ran:
    """Runs the command on a terminal of so many columns and 40 lines.

    The output is what stands there in the end, or also what was overwritten: bars of progress.
    """
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {"TERM": "xterm", "COLUMNS": "", "PAGER": "cat", **variables}
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**variables),
    )
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        seen += block
    os.close(ours)
    shown = seen.decode().replace("\r\n", "\n")
    if not overwritten:
        shown = "\n".join(line.rpartition("\r")[2] for line in shown.split("\n"))
    return Ran(process.wait(30), shown, "")


def columns() -> dict:
    """Columns that every format of several tensors carries."""
    generator = np.random.default_rng(7)
    return {
        "score": generator.standard_normal((40, 3)).astype(np.float32),
        "label": np.arange(40, dtype=np.int64) % 5,
        "name": np.array([f"row {row}".encode() for row in range(40)], object),
    }


NAMES = (
    "array.npy",
    "array.pb",
    "array.raw",
    "values.npz",
    "values.safetensors",
    "values.json",
    "values.structure",
    "rows.arrow",
    "rows.parquet",
    "rows.tfrecord",
    "rows.tfrecord.gz",
    "array.npy.zst",
)
