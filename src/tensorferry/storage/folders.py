"""Folders: made where they are missing, and synced, so that the disk has the names in them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from tensorferry.errors import UnsupportedError
from tensorferry.storage import system


def absolute(path: str) -> str:
    """A path that stays the same if the process changes its folder; links are not followed."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def make_folder(path: str, *, durable: bool) -> list[str]:
    """Makes a folder and all that it lies in, where they are missing.

    Returns:
        The folders that were made, the outermost first.

    Raises:
        NotADirectoryError: A part of the path is a file.
        UnsupportedError: The path begins with "~", which only a shell expands.
        OSError: The system's own error.
    """
    missing = []
    while path and not os.path.isdir(path):
        if os.path.lexists(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if os.path.basename(path) == "~":
            raise UnsupportedError(
                "there is no folder '~' here, and only a shell takes it for the home directory",
                path=path,
                hint=f"write {os.path.expanduser('~')} instead",
            )
        missing.append(path)
        path = os.path.dirname(path)
    made = []
    try:
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(folder)
                made.append(folder)
                if durable:
                    sync(os.path.dirname(folder))
    except BaseException:
        remove_folders(made)
        raise
    return made


def remove_folders(made: list[str]) -> None:
    """Removes folders that `make_folder` made, as far as nothing is in them."""
    for folder in reversed(made):
        with suppress(OSError):
            os.rmdir(folder)


def sync(path: str) -> None:
    """Waits until the disk has the names in a folder."""
    descriptor = system.open_folder(path)
    try:
        system.sync_folder(descriptor)
    finally:
        system.close_folder(descriptor)
