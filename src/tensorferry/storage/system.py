"""The system: what Linux, macOS and Windows do differently with files, in one place.

    Linux      all of it
    macOS      fsync leaves bytes in the cache of the disk, F_FULLFSYNC does not
    Windows    no locks, owners or permissions; directories are not opened, so they are not synced;
               a file that is open or mapped can be neither renamed, replaced nor removed

Modules that open, sync, lock or rename local files ask here, and no other module makes a call that
only some systems have. `tests/storage/test_system.py` takes those calls away from Linux, lets it
treat open files as Windows does, and saves and loads everything.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from tensorferry import _native

HAS_OWNERS = sys.platform != "win32"
"""Whether files have owners and permissions, which their replacements inherit."""

MOVES_OPEN_FILES = sys.platform != "win32"
"""Whether a file that is open can be renamed, replaced and removed."""

# The errors of systems and file systems that cannot exchange names.
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
# The errors of file systems that cannot sync directories (network and user-space ones).
UNSYNCED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)

if sys.platform == "win32":
    READ = os.O_RDONLY | os.O_BINARY
    UPDATE = os.O_RDWR | os.O_BINARY
    NOFOLLOW = NONBLOCK = 0
    FULL_SYNC = None
    LOCK_EX, LOCK_NB, LOCK_UN = 2, 4, 8

    def flock(descriptor: int, operation: int) -> None:
        """Refuses, as a file system without locks does."""
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def user() -> tuple[int, int]:
        """The numbers of the user and the group that new files belong to."""
        return 0, 0  # which every file has there

else:
    import fcntl
    from fcntl import LOCK_EX as LOCK_EX, LOCK_NB as LOCK_NB, LOCK_UN as LOCK_UN, flock as flock

    READ = os.O_RDONLY | os.O_CLOEXEC
    UPDATE = os.O_RDWR | os.O_CLOEXEC
    NOFOLLOW = os.O_NOFOLLOW
    NONBLOCK = os.O_NONBLOCK
    FULL_SYNC: int | None = 51 if sys.platform == "darwin" else None  # F_FULLFSYNC

    def user() -> tuple[int, int]:
        """The numbers of the user and the group that new files belong to."""
        return os.geteuid(), os.getegid()


_positioned = threading.Lock()


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Bytes of an open file, fewer if it ends; several threads may share the descriptor."""
    if sys.platform == "win32":
        with _positioned:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, size)
    return os.pread(descriptor, size, offset)


def read_into(descriptor: int, target: memoryview, offset: int) -> int:
    """Reads bytes into memory; gives their number, 0 at the end of the file."""
    if sys.platform == "win32":
        data = read_at(descriptor, min(target.nbytes, 1 << 20), offset)
        target[: len(data)] = data
        return len(data)
    return os.preadv(descriptor, [target], offset)


def write_at(descriptor: int, view: memoryview, offset: int) -> int:
    """Writes bytes into an open file; gives the number of those that are written."""
    if sys.platform == "win32":
        with _positioned:
            place = os.lseek(descriptor, 0, os.SEEK_CUR)
            try:
                os.lseek(descriptor, offset, os.SEEK_SET)
                return os.write(descriptor, view)
            finally:
                os.lseek(descriptor, place, os.SEEK_SET)
    return os.pwrite(descriptor, view, offset)


def sync(descriptor: int) -> None:
    """Waits until the disk has the bytes of a file.

    Raises:
        OSError: The system's own error.
    """
    if sys.platform != "win32" and FULL_SYNC is not None:
        # Network file systems do not have it.
        with suppress(OSError):
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_file(path: str) -> None:
    """Waits until the disk has the bytes of a file that another library wrote."""
    # Windows syncs only what is open for writing.
    descriptor = os.open(path, UPDATE if sys.platform == "win32" else READ)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def open_folder(path: str) -> int | None:
    """A descriptor of a directory, to lock and sync it; None where directories are not opened."""
    return None if sys.platform == "win32" else os.open(path or ".", READ)


def sync_folder(descriptor: int | None) -> None:
    """Waits until the disk has the names in a directory, where the file system can do that.

    Raises:
        OSError: The system's own error.
    """
    if descriptor is None:  # NTFS keeps its names in a journal
        return
    try:
        sync(descriptor)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise


def close_folder(descriptor: int | None) -> None:
    """Closes what `open_folder` gave."""
    if descriptor is not None:
        os.close(descriptor)


def path_in(name: str) -> str:
    """The path that a file:// URL has behind its host: `/C:/x` is `C:/x` on Windows."""
    has_drive = sys.platform == "win32" and re.match(r"/[A-Za-z]:(/|$)", name) is not None
    return name[1:] if has_drive else name


def move(path: str, target: str) -> None:
    """Renames a file onto another in one step.

    Raises:
        PermissionError: Windows replaces no file that is open or mapped.
        OSError: The system's own error.
    """
    try:
        os.replace(path, target)
    except PermissionError as error:
        if MOVES_OPEN_FILES or not os.path.isfile(target):
            raise
        text = "a program has it open or mapped, and Windows replaces no such file; close it, or"
        text = f"{text} drop the arrays, or open it with mmap=False"
        raise PermissionError(error.errno, text, target) from None


def allocate(descriptor: int, offset: int, size: int) -> bool:
    """Makes room on the disk without changing the size of a file; False if that fails."""
    return _native.make_room(descriptor, offset, size)  # `os.posix_fallocate` would write zeros


def exchange(one: str, other: str) -> bool:
    """Exchanges two names in one step; False if the system cannot do that.

    Raises:
        OSError: The system's own error.
    """
    number = _native.exchange(os.fsencode(one), os.fsencode(other))
    if number in NO_EXCHANGE:
        return False
    if number != 0:
        raise OSError(number, os.strerror(number), other)
    return True


def give_away(descriptor: int, owner: int, group: int) -> None:
    """Gives a file to a user (-1 for the one that has it) and a group.

    Raises:
        OSError: The system's own error; only root gives files to other users.
    """
    if sys.platform != "win32":
        os.fchown(descriptor, owner, group)


def set_mode(descriptor: int, mode: int) -> None:
    """Sets the permission bits of an open file, where files have them."""
    if sys.platform != "win32":
        os.fchmod(descriptor, mode)


def extended(path: str) -> Iterator[tuple[str, bytes]]:
    """The extended attributes of a file, by their names; Linux keeps access control lists in them.

    Raises:
        OSError: The system's own error; some file systems have none.
    """
    if sys.platform == "linux":
        for name in os.listxattr(path):
            with suppress(OSError):  # it is gone, or not ours to read
                yield name, os.getxattr(path, name)


def set_extended(descriptor: int, name: str, value: bytes) -> None:
    """Sets an extended attribute of an open file, where `extended` gives some."""
    if sys.platform == "linux":
        os.setxattr(descriptor, name, value)


class Private(mmap.mmap):
    """A private map of a file: whoever writes into it gets pages of his own, and the file stays.

    Attributes:
        lent: Whether a program was given arrays in it, so that its pages may hold what no file has.
    """

    lent = False


# Linux counts private maps as memory that is promised, unless they ask for none: a file may be
# larger than the memory. Python has no name for that before 3.13.
_NO_RESERVE = vars(mmap).get("MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0

# Before 3.13 every map holds a file descriptor, and 1,024 is the usual limit: see `Place.close`.
_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def map_file(descriptor: int) -> mmap.mmap:
    """A map of a whole file: a private one, or one for reading where the system refuses that.

    Raises:
        ValueError: The file has no bytes, or no size.
        OSError: The file system maps no files.
    """
    how: dict[str, Any] = {"access": mmap.ACCESS_COPY}
    if sys.platform == "linux":
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        how = {"flags": mmap.MAP_PRIVATE | _NO_RESERVE, "prot": writable}
    try:
        return Private(descriptor, 0, **how, **_MAP_OPTIONS)
    except OSError:  # more than this system promises
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **_MAP_OPTIONS)


def size_of_mapped(mapped: Any) -> int | None:
    """The size that a mapped file has now; None if the map holds no descriptor to ask for it."""
    try:
        return int(mapped.size())
    except (OSError, ValueError):
        return None


def release_pages(mapped: mmap.mmap, start: int, size: int) -> None:
    """Gives pages of a mapped file back to the system, where it takes them."""
    if sys.platform != "win32":
        mapped.madvise(mmap.MADV_DONTNEED, start, size)


def next_data(descriptor: int, offset: int, size: int) -> tuple[int, int]:
    """Where the next bytes of a file start and end that are no hole."""
    if sys.platform == "win32":
        return offset, size
    try:
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
        return start, min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
    except OSError as error:
        # Nothing but a hole is left, or the file system cannot tell.
        return (size, size) if error.errno == errno.ENXIO else (offset, size)


def copy_some(source: int, target: int, offset: int, count: int) -> int:
    """Copies bytes from one open file to the same place of another; gives their number."""
    if sys.platform == "linux":
        # In the kernel, where some file systems share the blocks instead of copying them.
        with suppress(OSError):  # others cannot
            return os.copy_file_range(source, target, count, offset, offset)
    os.lseek(source, offset, os.SEEK_SET)
    os.lseek(target, offset, os.SEEK_SET)
    return os.write(target, os.read(source, min(count, 1 << 20)))


@cache
def running() -> bytes:
    """Tells this run of this machine from others, as far as the system says so."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read()
    except OSError:
        import platform

        return repr(platform.uname()).encode()
