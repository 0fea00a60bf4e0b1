"""Names in files: what the content of a file may lead to.

An index names its shards, a state file its checkpoints, a model its assets. Whoever wrote the file
chose those names, and the caller did not. So a name in a file leads to a regular file in the folder
of that file, or below it where the format has folders, and nowhere else: to no URL, no other path
of the machine, no device or pipe, not the standard input. The same holds for files that are looked
for without being named by anybody, such as a sidecar.

All formats ask here: `Place.beside` and `Place.companion` use it, `problem_with` says what is wrong
with a name. A link in the folder is followed, because caches of models consist of links, but only
to a regular file.
"""

from __future__ import annotations

import os
import re
import stat

from tensorferry.expressions import expression
from tensorferry.storage.url import is_url

_DRIVE = expression(r"[A-Za-z]:")
_ESCAPED = expression(r"%(?:2e|2f|5c|00)", re.IGNORECASE)


def problem_with(name: object, *, deep: bool = False) -> str | None:
    """What is wrong with a name that stands in a file; None if nothing is.

    Args:
        name: As it stands there.
        deep: Whether it may lead into folders below.
    """
    if not isinstance(name, str) or not name or name.endswith("/") or name in (".", "-"):
        return "it is no name of a file"
    if name.startswith(("/", "\\")) or _DRIVE.match(name) or is_url(name) or "://" in name:
        return "it is an absolute path or a URL"
    parts = re.split(r"[/\\]", name)
    if ".." in parts:
        return "it leads out of the folder"
    if len(parts) > 1 and not deep:
        return "it leads into another folder"
    if not name.isprintable():
        return "it has characters that no name of a file should have"
    return None


def problem_in_url(name: str) -> str | None:
    """What else is wrong with a name that becomes a part of a URL."""
    if "::" in name or "?" in name or "#" in name or _ESCAPED.search(name):
        return "it has characters that mean something else in a URL"
    return None


def is_special(path: str) -> bool:
    """Whether a local path is there, and is no regular file: a device, a pipe, a directory."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_below(path: str, folder: str) -> bool:
    """Whether a local path lies in a folder or further down, also if links are followed."""
    try:
        inside = os.path.realpath(folder)
        return os.path.commonpath([os.path.realpath(path), inside]) == inside
    except (OSError, ValueError):
        return False
