"""Output: the one place where the command prints, so that nothing of a file reaches a terminal raw.

What is printed was cleaned where it was made (`text.clean`, `plain`). Here every line is cleaned
once more; only our own colours pass, and tabs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from tensorferry.cli.text import CODES, MANNER
from tensorferry.display import clean
from tensorferry.progress import ProgressLine, Unit

_OURS = re.compile(rf"(\x1b\[(?:0|{'|'.join(CODES.values())})m|\t)")


def line(text: str = "") -> None:
    """Prints a line on the standard output."""
    print(_safe(text))


def lines(texts: Iterable[str]) -> None:
    """Prints lines on the standard output."""
    for text in texts:
        print(_safe(text))


def block(text: str) -> None:
    """Prints a text of several lines on the standard output."""
    lines(text.split("\n"))


def note(text: str) -> None:
    """Prints a line on the standard error."""
    print(_safe(text), file=sys.stderr)


def report(text: str) -> None:
    """Prints what was done, on the standard error, unless the user wants it quiet."""
    if not MANNER.quiet:
        note(text)


def progress(about: str, unit: Unit) -> ProgressLine:
    """A line that says how far something is, unless the user wants it quiet."""
    return ProgressLine(about, unit=unit, shown=False if MANNER.quiet else None)


def notes(text: str) -> None:
    """Prints a text of several lines on the standard error."""
    for each in text.split("\n"):
        note(each)


def _safe(text: str) -> str:
    if text.isprintable():
        return text
    parts = _OURS.split(text)
    return "".join(part if place % 2 else clean(part) for place, part in enumerate(parts))
