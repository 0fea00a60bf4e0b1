"""Leftovers: small files that an earlier run left for the next one, and folders of such files.

A job that can be resumed finds lists and notes of what is done. Anybody who may write into the
folder can put other files in their place: a link to a file elsewhere, a pipe that nobody writes
into, a text without end. So a leftover is read only if it is a regular file of this user, no link,
and not large. What is no such file is as good as none: the work is done again.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tensorferry.storage import system

LARGEST = 64 << 20
"""Number of bytes of the largest leftover that is read."""


def read(path: str) -> dict[str, Any] | None:
    """The JSON object in a local leftover; None if there is none, or if it is not ours."""
    data = read_bytes(path, LARGEST)
    return None if data is None else parse(data)


def read_bytes(path: str, most: int) -> bytes | None:
    """The bytes of a local leftover; None if there is none, if it is not ours, or too long."""
    try:
        descriptor = os.open(path, system.READ | system.NOFOLLOW | system.NONBLOCK)
    except (OSError, ValueError):
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or not _is_own(found) or found.st_size > most:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file, suppress(OSError):
        return file.read(most)
    return None


def parse(data: bytes) -> dict[str, Any] | None:
    """The JSON object in the bytes of a leftover; None if they are something else."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, dict) else None


def check_file(path: str) -> None:
    """Refuses to write a leftover where something else than a file of ours is.

    Raises:
        PermissionError: It is a link, a pipe, or belongs to somebody else.
    """
    _check(path, stat.S_ISREG, "a file")


def check_folder(path: str) -> None:
    """Refuses to use a folder that is not ours, or not even a folder.

    Raises:
        PermissionError: It is a link, a file, or belongs to somebody else.
    """
    _check(path, stat.S_ISDIR, "a folder")


def has_files_alone(folder: str) -> bool:
    """Whether nothing is in a folder but regular files: no links, pipes or folders."""
    try:
        with os.scandir(folder) as entries:
            return all(entry.is_file(follow_symlinks=False) for entry in entries)
    except OSError:
        return False


def _check(path: str, is_kind: Callable[[int], bool], kind: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not is_kind(found.st_mode) or not _is_own(found):
        raise PermissionError(
            errno.EACCES,
            f"what is left there is not {kind} of this user: whoever put it there could read "
            "or change what is written; remove it first",
            path,
        )


def _is_own(found: os.stat_result) -> bool:
    return not system.HAS_OWNERS or found.st_uid == system.user()[0]
