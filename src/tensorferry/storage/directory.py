"""Paths that are replaced as a whole, by writers that insist on a path of their own.

    with replacing_path("models/encoder") as temporary:
        write_many_files(temporary)          # a directory, or one file
    # models/encoder is what was written, all of it, or what it was before

What is written lies beside its target under a temporary name (`.name.<random>.tmp`), is synced, and
takes the target's place in one step: a file by a rename, a directory by an exchange of two names
(renameat2 of Linux), after which the old one is removed. A process that is killed leaves the old or
the new under the target's name, and perhaps a temporary one beside it.

Where names cannot be exchanged, which is on other systems and some network file systems, the old
directory gets a temporary name first: between these two renames nothing has the target's name.
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

from tensorferry.storage.sink import UNSYNCED_DIRECTORY, replace

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# What systems and file systems answer that know no exchange.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@contextmanager
def replacing_path(target: str, *, suffix: str = "", durable: bool = True) -> Iterator[str]:
    """A path to write a file or a directory to, which replaces its target when the block ends well.

    If the block raises, the target stays as it was and nothing is left beside it.

    Args:
        target: A local path; a link stays a link, and what it leads to is replaced.
        suffix: How the temporary path is to end, for writers that look at that.
        durable: Waits until the disk has the bytes, and then their names.

    Raises:
        OSError: The system's own error.
    """
    target = os.path.realpath(target)
    temporary = _beside(target, suffix)
    try:
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
            _sync(os.path.dirname(target))
    finally:
        _remove(temporary)


def _beside(target: str, suffix: str = "") -> str:
    directory, name = os.path.split(target)
    return os.path.join(directory, f".{name[:50]}.{secrets.token_hex(8)}.tmp{suffix}")


def _replace_directory(temporary: str, target: str, durable: bool) -> None:
    """After this the target is the new one, and the temporary name has the old one, or none."""
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
        _sync(os.path.dirname(target))
    _remove(old)


def exchange(one: str, other: str) -> bool:
    """Exchanges two names in one step; false if that cannot be done here.

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
    """The system's call; None where there is none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call


def _sync_tree(path: str) -> None:
    """Brings a file, or all files of a directory and then their names, to the disk."""
    for place, _, files in os.walk(path, topdown=False):
        for file in files:
            _sync(os.path.join(place, file))
        _sync(place)
    if not os.path.isdir(path):
        _sync(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSYNCED_DIRECTORY:
            raise
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    """Removes what a temporary name still has; that something is left is no failed write."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
