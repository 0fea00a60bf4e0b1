"""The pager: what is longer than the screen is shown by `less`, as other commands do.

The first lines are held back until there are more of them than the terminal has; only then the
pager starts. It is that of PAGER, `less` by default, and none if PAGER is empty or "cat".
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tensorferry.display import columns_of

if TYPE_CHECKING:
    import subprocess

PAGER, OPTIONS = "less", "FRX"

COMMANDS = frozenset(
    (
        "info",
        "ls",
        "tree",
        "show",
        "head",
        "tail",
        "cat",
        "diff",
        "stats",
        "schema",
        "formats",
        "help",
    )
)
"""The commands whose results are read from the top, and are there all at once."""


class Pager:
    """Takes lines, and shows them on the terminal or by a program if they are many.

    Args:
        command: The program, and its arguments.
        rows: How many lines the terminal has.
        columns: How many columns it has.
    """

    def __init__(self, command: list[str], rows: int, columns: int) -> None:
        self._command = command
        self._room, self._columns = rows - 1, columns
        self._held: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def add(self, text: str) -> None:
        """Takes a line.

        Raises:
            BrokenPipeError: The user has seen enough.
        """
        if self._process is None:
            self._held.append(text)
            self._room -= max(1, -(-columns_of(text) // self._columns))
            if self._room >= 0:
                return
            self._start()
        else:
            self._write(text)

    def _start(self) -> None:
        import subprocess  # most results fit onto the screen

        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            text=True,
            errors="replace",
            env={"LESS": OPTIONS, **os.environ},
        )
        held, self._held = self._held, []
        for text in held:
            self._write(text)

    def _write(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")

    def close(self) -> list[str]:
        """Waits until the user has seen enough; gives the lines if they are too few to page."""
        if self._process is None:
            return self._held
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        while True:
            try:
                self._process.wait()
                return []
            except KeyboardInterrupt:  # it is for the pager, which stops searching
                continue


def choose() -> list[str]:
    """The pager that the user wants, and its arguments; none if this is no place for one."""
    wanted = os.environ.get("PAGER", PAGER)
    is_place = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not is_place:
        return []
    import shlex  # these are for terminals only
    import shutil

    try:
        command = shlex.split(wanted)
    except ValueError:
        command = []
    if not command or command == ["cat"] or shutil.which(command[0]) is None:
        return []
    return command


def for_command(command: str) -> Pager | None:
    """The pager for the results of a command; None if it has none, or this is no place for one."""
    program = choose() if command in COMMANDS else []
    if not program:
        return None
    import shutil

    columns, rows = shutil.get_terminal_size((80, 24))
    return Pager(program, rows, max(columns, 1))
