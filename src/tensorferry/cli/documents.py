"""Documents: results as JSON, with the number of the shape they are in."""

from __future__ import annotations

import json
import sys
from typing import Any

from tensorferry.display import escape_json
from tensorferry.operations.plain import plain

VERSION = 1
"""Of the shape of all documents; it rises when something in them changes its meaning."""


def document(command: str, **parts: Any) -> str:
    """The JSON document of a command: one line, or readable on a terminal."""
    tree = {"version": VERSION, "command": command, **plain(parts)}
    indent = 2 if sys.stdout.isatty() else None
    return escape_json(json.dumps(tree, indent=indent, ensure_ascii=False))


def line(value: Any) -> str:
    """A value as JSON on one line."""
    return escape_json(json.dumps(plain(value), ensure_ascii=False, separators=(", ", ": ")))
