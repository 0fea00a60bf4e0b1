"""Sources and sinks: where bytes come from and go to.

A source is a read-only buffer of the whole input, or a stream where there can be none (a pipe). A
sink is anything with a `write` method that takes a buffer, as files have; formats hand it the
caller's own memory, so a sink that keeps buffers (as `Buffers` does) keeps them as they are, and
one that writes them copies nothing.

A file is written under a temporary name (`.name.<random>.tmp`) beside its target, synced, and
renamed onto it: whatever happens, the target is the old file or the new one, whole. What the bytes
mean is for the formats, compression for `tensorferry.codecs.compression`.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import re
import secrets
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

import numpy as np

from tensorferry.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

STANDARD_STREAM = "-"

# Small writes are gathered into this many bytes; larger ones go to the system as they are.
WRITE_BUFFER = 1 << 18

# Freeing a file of so many bytes is worth a thread.
LARGE_FILE = 1 << 22

# What file systems without synced directories answer (network and user-space ones).
UNSYNCED_DIRECTORY = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)

# Before 3.13 a map holds a file descriptor: a thousand mapped shards reach the usual limit.
MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Sink(Protocol):
    """Takes bytes, in order."""

    def write(self, buffer: Any, /) -> Any:
        """Takes the bytes of a contiguous buffer."""


class Buffers(list[Any]):
    """A sink in memory that keeps the buffers it is given, without copying them."""

    write = list.append


def as_source(data: Buffer) -> bytes | memoryview:
    """A read-only view of the bytes of a buffer."""
    if type(data) is bytes:
        return data
    return memoryview(data).toreadonly().cast("B")


def byte_view(buffer: Any) -> memoryview:
    """A buffer as a flat run of bytes, whatever the type of its elements."""
    if isinstance(buffer, np.ndarray):  # NumPy exports no small dtype as a buffer with a format
        buffer = buffer.reshape(-1).view(np.uint8)
    return memoryview(buffer).cast("B")


class Source:
    """Bytes to read: a buffer of all of them wherever possible, and a stream always.

    Arrays made from `buffer` stay valid after `close`, and after the file was unlinked or replaced
    by renaming; the memory is unmapped when the last of them is gone. Writing into a mapped file or
    cutting it is another matter: that changes the arrays, or ends the process (SIGBUS).

    Attributes:
        path: Names it in errors.
        buffer: Everything, read-only; None for pipes and the like, and after closing.
        size: How many bytes there are; None when only reading to the end can tell.
    """

    def __init__(
        self,
        path: str,
        *,
        buffer: memoryview | None = None,
        file: BinaryIO | None = None,
        owned: bool = False,
    ) -> None:
        self.path = path
        self.buffer = buffer
        self.size = None if buffer is None else buffer.nbytes
        self._file = file
        self._owned = owned
        self._position = 0

    def read(self, size: int) -> bytes:
        """The next bytes, fewer than `size` only at the end."""
        if self.buffer is not None:
            part = self.buffer[self._position : self._position + size]
            self._position += len(part)
            return bytes(part)
        if self._file is None:
            raise ValueError(f"{self.path}: the source is closed")
        data = self._file.read(size) or b""
        if len(data) == size or not data:
            return data
        pieces, missing = [data], size - len(data)
        while missing and (data := self._file.read(missing)):
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Lets go of the bytes. A file object that was given stays open."""
        if self._file is not None and self._owned:
            self._file.close()
        # Unmapping here would fail while arrays view the map: its last user does it instead.
        self.buffer = self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_source(given: str | os.PathLike[str] | Buffer | BinaryIO) -> Source:
    """Opens what a user names for reading.

    Args:
        given: The path of a local file, "-" for the standard input, a binary file object (read
            from where it stands, and left open), or the bytes themselves.

    Raises:
        FormatError: It is a directory.
        UnsupportedError: It is a URL or a text file.
        OSError: The system's own error, such as FileNotFoundError.
    """
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        if path == STANDARD_STREAM:
            return _source_of_file(sys.stdin.buffer, "<stdin>", owned=False)
        _refuse_url(path)
        try:
            file = open(path, "rb")  # noqa: SIM115
        except IsADirectoryError:
            raise FormatError("is a directory, expected a file", path=path) from None
        return _source_of_file(file, path, owned=True)
    if hasattr(given, "read"):
        name = getattr(given, "name", None)
        return _source_of_file(given, name if isinstance(name, str) else "<stream>", owned=False)
    return Source("<bytes>", buffer=memoryview(as_source(given)))


def _source_of_file(file: Any, path: str, *, owned: bool) -> Source:
    if isinstance(file, io.TextIOBase):
        raise UnsupportedError(
            "a file opened as text, expected binary", path=path, hint='use open(path, "rb")'
        )
    buffer = _map(file)
    if buffer is None:
        return Source(path, file=file, owned=owned)
    if owned:
        file.close()
    return Source(path, buffer=buffer)


def _map(file: Any) -> memoryview | None:
    """The rest of a file as a buffer, or None if it has to be read."""
    if type(file) is io.BytesIO:
        return memoryview(file.getvalue())[file.tell() :]
    # Others (gzip.GzipFile is one) have a `fileno`, whose bytes are not what they read.
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO or not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    file.flush()
    start = file.tell()
    try:
        mapped = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ, **MAP_OPTIONS)
    except ValueError:  # nothing to map: the file is empty, or one of /proc, which have no size
        return memoryview(file.read())
    except OSError:  # a file system that cannot
        return None
    return memoryview(mapped)[start:]


def _refuse_url(path: str) -> None:
    if _URL.match(path):
        raise UnsupportedError(
            "URLs are not supported yet, expected a local path", path=path, hint="copy it first"
        )


class FileSink:
    """A sink that is a file.

    Attributes:
        position: The offset in the file of what is written next.
    """

    def __init__(self, file: BinaryIO, *, position: int = 0) -> None:
        self.position = position
        self._file = file

    def write(self, buffer: Any, /) -> int:
        """Writes all bytes of a contiguous buffer of any type; large ones are not copied."""
        if isinstance(buffer, np.ndarray):  # as in `byte_view`, whose cast fails without elements
            buffer = buffer.reshape(-1).view(np.uint8)
        size = self._file.write(buffer)
        self.position += size
        return size


@contextmanager
def open_sink(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[FileSink]:
    """Opens a file for writing; it replaces its target when the `with` block ends well.

    If the block raises, the target stays as it was and nothing is left beside it. A target that is
    replaced hands on its permission bits, and a link stays a link. Devices and pipes are written
    directly, as is the standard output ("-").

    Args:
        path: The target.
        durable: Waits until the disk has the bytes, and then their name.

    Raises:
        UnsupportedError: It is a URL.
        OSError: The system's own error.
    """
    path = os.fspath(path)
    _refuse_url(path)
    if path == STANDARD_STREAM:
        yield FileSink(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb", WRITE_BUFFER) as file:
            yield FileSink(file)
        return
    target = os.path.realpath(path)
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    with _replacement(target, durable=durable) as file:
        if old is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        yield FileSink(file)


@contextmanager
def _replacement(target: str, *, durable: bool) -> Iterator[BinaryIO]:
    directory, name = os.path.split(target)
    # At most 50 characters of it, because a name has at most 255 bytes.
    temporary = os.path.join(directory, f".{name[:50]}.{secrets.token_hex(8)}.tmp")
    with ExitStack() as stack:
        folder = None
        if durable:  # opened first, so that it cannot fail when all is written
            folder = os.open(directory, os.O_RDONLY)
            stack.callback(os.close, folder)
        file = open(temporary, "xb", WRITE_BUFFER)  # noqa: SIM115
        try:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            file.close()
            _replace(temporary, target)
        except BaseException:
            with suppress(OSError):  # what is still in its buffer may not fit either
                file.close()
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        if folder is not None:
            _sync_directory(folder)


def _replace(temporary: str, target: str) -> None:
    """Renames a file onto another one, which is freed in a thread if it is large.

    That takes about as long as writing it did, and the last one who has it open has to do it.
    """
    try:
        old = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # there is none, or it may be written but not read
        os.replace(temporary, target)
        return
    try:
        os.replace(temporary, target)
    finally:
        _close_old(old)


def _close_old(descriptor: int) -> None:
    if os.fstat(descriptor).st_size >= LARGE_FILE:
        with suppress(RuntimeError):  # no more threads, as when the interpreter ends
            threading.Thread(target=os.close, args=(descriptor,)).start()
            return
    os.close(descriptor)


def _sync_directory(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in UNSYNCED_DIRECTORY:
            raise


@contextmanager
def append_sink(
    path: str | os.PathLike[str], offset: int, *, durable: bool = True
) -> Iterator[FileSink]:
    """Opens an existing file to write from `offset` on, in place.

    The first write cuts off what lies behind `offset`. If the block raises, what was written is cut
    off again. A process that is killed leaves a part of it: the format must be able to tell.

    Args:
        path: A regular file.
        offset: The end of what is good in it.
        durable: Waits until the disk has the bytes.

    Raises:
        FormatError: It is no regular file, or ends before `offset`.
        OSError: The system's own error, such as FileNotFoundError.
    """
    path = os.fspath(path)
    _refuse_url(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FormatError("is no regular file, nothing can be appended", path=path)
        if not 0 <= offset <= found.st_size:
            raise FormatError(
                f"is {found.st_size} bytes long, nothing can be appended at byte {offset}",
                path=path,
            )
        file = open(descriptor, "r+b", WRITE_BUFFER, closefd=False)  # noqa: SIM115
        sink = _AppendSink(file, position=offset)
        try:
            yield sink
            file.flush()
            if durable:
                os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):  # what is still in its buffer may not fit either
                file.close()
            if sink.started:
                os.ftruncate(descriptor, offset)
            raise
    finally:
        os.close(descriptor)


class _AppendSink(FileSink):
    """A file that is cut at the position of the first write."""

    started = False

    def write(self, buffer: Any, /) -> int:
        if not self.started:
            self._file.seek(self.position)
            self._file.truncate()
            self.started = True
        return super().write(buffer)
