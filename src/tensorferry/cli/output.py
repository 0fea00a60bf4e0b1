"""Output: the one place where the command prints, so that nothing of a file reaches a terminal raw.

What is printed was cleaned where it was made (`text.clean`, `plain`). Here every line is cleaned
once more; only our own colours pass, and tabs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from tensorferry.cli import pager
from tensorferry.cli.pager import Pager
from tensorferry.cli.text import CODES, MANNER, is_coloured
from tensorferry.display import clean, plural
from tensorferry.expressions import expression
from tensorferry.progress import ProgressLine, Unit, WaitingLine

_OURS = expression(rf"(\x1b\[(?:0|{'|'.join(CODES.values())})m|\t)")


class Screen:
    """Where the results of a command go: the standard output, or a pager before it."""

    def __init__(self) -> None:
        self._command: str | None = None
        self._pager: Pager | None = None

    def begin(self, command: str) -> None:
        """Takes the name of the command whose results follow."""
        self._command = command

    def add(self, text: str) -> None:
        """Prints a line."""
        if self._command is not None:
            command, self._command = self._command, None
            # Now all options are known.
            self._pager = None if MANNER.unpaged else pager.for_command(command)
        if self._pager is None:
            print(text)
        else:
            self._pager.add(text)

    def add_all(self, texts: list[str]) -> None:
        """Prints lines."""
        if texts:
            self.add(texts[0])
        if self._pager is None and len(texts) > 1:
            print("\n".join(texts[1:]))
        else:
            for text in texts[1:]:
                self.add(text)

    def end(self) -> None:
        """Shows everything, and waits for the pager."""
        self._command = None
        if self._pager is not None:
            found, self._pager = self._pager, None
            for text in found.close():
                print(text)
            sys.stdout.flush()


SCREEN = Screen()


def line(text: str = "") -> None:
    """Prints a line on the standard output."""
    SCREEN.add(_safe(text))


def lines(texts: Iterable[str]) -> None:
    """Prints lines on the standard output."""
    if isinstance(texts, list) and "".join(texts).isprintable():
        SCREEN.add_all(texts)
        return
    for text in texts:
        line(text)


def block(text: str) -> None:
    """Prints a text of several lines on the standard output."""
    lines(text.split("\n"))


def exact(text: str) -> None:
    """Prints data as it is, with the line breaks in it; a terminal gets it cleaned."""
    if not sys.stdout.isatty():
        SCREEN.add(text)
    else:
        block(text)


def note(text: str) -> None:
    """Prints a line on the standard error, behind everything that was printed before."""
    SCREEN.end()
    print(_safe(text), file=sys.stderr)


def say(text: str) -> None:
    """Prints up to three lines about what went wrong on the standard error."""
    lines = text.splitlines() or [""]
    name = "\x1b[31mferry:\x1b[0m" if is_coloured(sys.stderr) else "ferry:"
    lines[0] = f"{name} {lines[0]}"
    for each in lines[:3]:
        note(each)


def left_out(hidden: Mapping[str, str]) -> None:
    """Says which tensors or columns are not among those shown, with the first reason."""
    (name, reason), *others = hidden.items()
    more = f", and {plural(len(others), 'other')}" if others else ""
    note(f"ferry: left out: {clean(name)}: {clean(reason)}{more}")


def report(text: str) -> None:
    """Prints what was done, on the standard error, unless the user wants it quiet."""
    if not MANNER.quiet:
        note(text)


def progress(about: str, unit: Unit) -> ProgressLine:
    """A line that says how far something is, unless the user wants it quiet."""
    return ProgressLine(about, unit=unit, shown=False if MANNER.quiet else None)


def waiting(about: str, unit: Unit = "rows") -> WaitingLine:
    """A line that says for how long something goes on, or how far it is if it tells."""
    return WaitingLine(about, unit=unit, shown=False if MANNER.quiet else None)


def notes(text: str) -> None:
    """Prints a text of several lines on the standard error."""
    for each in text.split("\n"):
        note(each)


def _safe(text: str) -> str:
    if text.isprintable():
        return text
    parts = _OURS.split(text)
    return "".join(part if place % 2 else clean(part) for place, part in enumerate(parts))
