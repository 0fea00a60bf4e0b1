"""Documents: results as JSON, with the number of the shape they are in."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tensorferry.display import escape_json
from tensorferry.operations.plain import plain

VERSION = 1
"""Of the shape of all documents; it rises when something in them changes its meaning."""

TOGETHER = 64
"""How many rows become lines in one call."""


def document(command: str, **parts: Any) -> str:
    """The JSON document of a command: one line, or readable on a terminal."""
    tree = {"version": VERSION, "command": command, **plain(parts)}
    indent = 2 if sys.stdout.isatty() else None
    return escape_json(json.dumps(tree, indent=indent, ensure_ascii=False))


def line(value: Any) -> str:
    """A value as JSON on one line."""
    return escape_json(json.dumps(plain(value), ensure_ascii=False, separators=(", ", ": ")))


def lines(rows: Iterable[dict[str, Any]]) -> Iterator[list[str]]:
    """Rows as JSON, one on a line, some at a time; the rows before an error come before it."""
    some: list[dict[str, Any]] = []
    failure: Exception | None = None
    try:
        for row in rows:
            some.append(row)
            if len(some) == TOGETHER:
                yield _lines(some)
                some = []
    except Exception as error:
        failure = error
    yield _lines(some)
    if failure is not None:
        raise failure


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    import numpy as np

    from tensorferry import _native

    return _native.json_lines(rows, (np.ndarray, np.generic), line)
