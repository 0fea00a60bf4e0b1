"""Temporary files: written beside their target, and gone with their writer.

    .train.tfrecord.ferry-0b1c2d3e4f5a6b7c.tmp

The first eight digits stand for the running system, the others are random. A writer holds a lock
(flock) on its temporary files and directories as long as it lives, so whoever finds one that is
not locked may remove it: its writer was killed (`tensorferry.storage.sweeping`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from tensorferry.expressions import expression
from tensorferry.storage.system import (
    LOCK_EX,
    LOCK_NB,
    LOCK_UN,
    NOFOLLOW,
    NONBLOCK,
    READ,
    UPDATE,
    flock,
    open_folder,
    running,
)

NAME = expression(r"\..*\.ferry-([0-9a-f]{8})[0-9a-f]{8}\.tmp(\.[a-z0-9]+)?", re.DOTALL)
# 50 characters of the target's name at most, because file names have at most 255 bytes.
LONGEST = 50
# The errors of file systems that have no locks, or none for directories.
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.ENOLCK, errno.EBADF)
OLD = "old"
"""In a temporary directory: what had the target's name, on systems that exchange no names."""


Identity = tuple[int, int, int]
"""The inode, size and time of a file: a file that replaces it has another."""

live: set[str] = set()


def name_beside(target: str) -> str:
    """A temporary name in the folder of a target."""
    name = os.path.basename(target)
    folder = target[: len(target) - len(name)]
    return f"{folder}.{name[:LONGEST]}.ferry-{system()}{os.urandom(4).hex()}.tmp"


@cache
def system() -> str:
    """Eight digits for the running system: another machine, and a restart, have others."""
    import hashlib  # readers do without

    return hashlib.sha256(running()).hexdigest()[:8]


def identity(found: os.stat_result) -> Identity:
    """What tells a file from those that had its name before."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def identity_of(path: str, *, follow: bool = True) -> Identity | None:
    """The identity of a regular file, also behind a link if it is to be followed; None for none."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    return identity(found) if stat.S_ISREG(found.st_mode) else None


def is_at(opened: os.stat_result, path: str) -> bool:
    """Whether a path names a file that was opened, of which the system's answer is known."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def lock(descriptor: int, *, wait: bool = True) -> bool:
    """Locks a file or directory; False if another process or thread has it.

    A file system that has no locks is as one where nobody else is.
    """
    try:
        flock(descriptor, LOCK_EX | (0 if wait else LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def release(descriptor: int | None) -> None:
    """Unlocks and closes a file; a process that was forked meanwhile holds no lock either."""
    if descriptor is None:
        return
    with suppress(OSError):
        flock(descriptor, LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)


def create(target: str, *, mode: int = 0o666) -> tuple[str, int]:
    """Creates a temporary file beside a target; gives its path and an open, locked descriptor.

    Args:
        target: An absolute path.
        mode: The permission bits, of which the umask takes some away.
    """
    flags = UPDATE | os.O_CREAT | os.O_EXCL | NOFOLLOW
    while True:
        path = name_beside(target)
        live.add(path)
        try:
            descriptor = os.open(path, flags, mode)
        except BaseException as error:
            live.discard(path)
            if isinstance(error, FileExistsError):
                continue
            if isinstance(error, OSError):
                error.filename = target  # the user does not know the temporary name
            raise
        try:
            lock(descriptor)
            if is_at(os.fstat(descriptor), path):  # somebody may have swept it before it was locked
                return path, descriptor
        except BaseException:
            release(descriptor)
            remove(path)
            raise
        live.discard(path)
        release(descriptor)


def forget(path: str) -> None:
    """Says that a temporary path is none any more: it was renamed, or is left to others."""
    live.discard(path)


def remove(path: str) -> None:
    """Removes a temporary file or directory, if it is there; a failure undoes no write."""
    for _ in range(2):  # again, if that failed
        try:
            os.unlink(path)
        except FileNotFoundError:
            break
        except OSError:
            with suppress(OSError):
                import shutil

                shutil.rmtree(path, ignore_errors=True)
    live.discard(path)


def remove_all() -> None:
    """Removes all temporary files of this process: for programs that are told to end."""
    for path in list(live):
        if give_back(path):
            remove(path)


def _create_directory(target: str) -> tuple[str, int | None]:
    """The path of a new directory, and a locked descriptor if directories can be locked."""
    while True:
        path, descriptor = name_beside(target), None
        live.add(path)
        try:
            os.mkdir(path, stat.S_IRWXU)
        except BaseException as error:
            live.discard(path)
            if isinstance(error, FileExistsError):
                continue
            if isinstance(error, OSError):
                error.filename = target
            raise
        try:
            descriptor = open_folder(path)
            if descriptor is not None:
                lock(descriptor)
            os.stat(path)
            return path, descriptor
        except FileNotFoundError:
            pass  # somebody has swept it before it was locked
        except BaseException:
            release(descriptor)
            remove(path)
            raise
        live.discard(path)
        release(descriptor)


@contextmanager
def directory(target: str) -> Iterator[str]:
    """A temporary directory beside a target, which is locked, and removed at the end."""
    path, descriptor = _create_directory(target)
    try:
        yield path
    finally:
        if give_back(path):
            remove(path)
        live.discard(path)
        if descriptor is not None:
            release(descriptor)


def give_back(path: str) -> bool:
    """Gives what was moved into a temporary directory its name again, if nothing else has it.

    Returns:
        Whether there is nothing in the directory any more that has to be kept.
    """
    try:
        for name in os.listdir(os.path.join(path, OLD)):
            target = os.path.join(os.path.dirname(path), name)
            if not os.path.lexists(target):
                os.rename(os.path.join(path, OLD, name), target)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def is_free(descriptor: int) -> bool:
    """Whether nobody holds the lock of a file, for sure."""
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def opened(path: str, *, lockable: bool = True) -> Iterator[int | None]:
    """A file or directory that somebody left, open; None if it cannot be opened."""
    flags = NOFOLLOW | NONBLOCK
    descriptor = None
    with suppress(OSError):
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        # For writing, too, because some network file systems lock no others.
        modes = (UPDATE, READ) if lockable else (READ,)
        for mode in modes if kind in (stat.S_IFREG, stat.S_IFDIR) else ():
            with suppress(OSError):
                descriptor = os.open(path, flags | mode)
                break
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            release(descriptor)
