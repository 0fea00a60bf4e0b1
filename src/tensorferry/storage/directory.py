"""Files and directories that are replaced as a whole, for writers that need a path to write to.

    with replacing_path("models/encoder") as temporary:
        write_many_files(temporary)          # a directory, or one file
    # models/encoder is now the new directory as a whole; after an error it is the old one

The writer gets a temporary name beside the target (`.name.<random>.tmp`). Its files are synced and
take the target's place in one step: a file by a rename, a directory by an exchange of two names
(renameat2 of Linux), after which the old directory is removed. A process that is killed leaves the
old or the new directory under the target's name, and perhaps a temporary one beside it.

Other systems and some network file systems cannot exchange names. There the old directory is
renamed first, and for a moment nothing has the target's name.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from tensorferry.storage.sink import make_folder, naming, remove_folders, replace, sync

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# The errors of systems and file systems that cannot exchange names.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@contextmanager
def replacing_path(target: str, *, suffix: str = "", durable: bool = True) -> Iterator[str]:
    """A path for a file or a directory that replaces its target when the block ends well.

    If the block raises, the target stays as it was and nothing is left beside it.

    Args:
        target: A local path; a link stays a link, and the path that it leads to is replaced. Its
            folder is made if it is missing.
        suffix: The end of the temporary path, for writers that look at the suffix.
        durable: Whether to wait until the disk has the bytes, and then the names.

    Raises:
        OSError: The system's own error.
    """
    target = os.path.realpath(target)
    temporary = _beside(target, suffix)
    made = make_folder(os.path.dirname(target), durable=durable)
    try:
        with naming(temporary, target):
            yield temporary
        if durable:
            _sync_tree(temporary)
        if not os.path.isdir(temporary):
            replace(temporary, target)
        elif os.path.lexists(target):
            _replace_directory(temporary, target, durable)
        else:
            os.rename(temporary, target)
        if durable:
            sync(os.path.dirname(target))
    except BaseException:
        _remove(temporary)
        remove_folders(made)
        raise
    finally:
        _remove(temporary)


def _beside(target: str, suffix: str = "") -> str:
    directory, name = os.path.split(target)
    return os.path.join(directory, f".{name[:50]}.{secrets.token_hex(8)}.tmp{suffix}")


def _replace_directory(temporary: str, target: str, durable: bool) -> None:
    """Puts the new directory in the target's place, and removes or renames the old one."""
    os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
    if exchange(temporary, target):
        return
    old = _beside(target)
    os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(old, target)
        raise
    if durable:
        sync(os.path.dirname(target))
    _remove(old)


def exchange(one: str, other: str) -> bool:
    """Exchanges two names in one step; False if the system cannot do that.

    Raises:
        OSError: The system's own error.
    """
    call = _renameat2()
    if call is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), other)


@cache
def _renameat2() -> Any:
    """The system's renameat2, if it has one."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call


def _sync_tree(path: str) -> None:
    """Syncs a file, or all files of a directory and then the directories."""
    for place, _, files in os.walk(path, topdown=False):
        for file in files:
            sync(os.path.join(place, file))
        sync(place)
    if not os.path.isdir(path):
        sync(path)


def _remove(path: str) -> None:
    """Removes a temporary file or directory, if it exists; a failure does not undo the write."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
