"""Sinks: where bytes go to.

A sink is anything with a `write` method that takes a buffer, as files have. Formats hand it the
caller's own memory: a sink that keeps buffers (as `Buffers` does) keeps that memory, and a sink
that writes them copies nothing.

A file is written under a temporary name (`tensorferry.storage.temporary`) beside its target,
synced, and renamed onto the target, so readers never see a half-written file. Several files that
appear together are `tensorferry.storage.replacement`.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Protocol

from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.storage import source, system, temporary
from tensorferry.storage.attributes import Attributes
from tensorferry.storage.folders import absolute, make_folder, remove_folders
from tensorferry.storage.source import STANDARD_STREAM, as_bytes, byte_view, unnameable
from tensorferry.storage.temporary import Identity

# Small writes are gathered into this many bytes; larger ones go to the system as they are.
WRITE_BUFFER = 1 << 18

# A file of at least so many bytes gets room on the disk before it is written, which makes ext4 one
# and a half times as fast, and the large file that it replaces is freed by a thread.
LARGE_FILE = 1 << 22
# The room is doubled each time, by this much at most.
MAX_ROOM = 1 << 26

# What was written is read again in pieces of so many bytes.
PIECE = 1 << 20

# The permissions of a file that everybody can open.
READABLE = stat.S_IRGRP | stat.S_IROTH


class Sink(Protocol):
    """Takes bytes in order."""

    def write(self, buffer: Any, /) -> Any:
        """Takes the bytes of a contiguous buffer."""


class Buffers(list[Any]):
    """A sink in memory that keeps the buffers it is given, without copying them."""

    write = list.append


class FileSink:
    """A sink that is a file. This base class writes to an open file directly: a device, a pipe.

    Whoever opened the sink ends it: by `prepare` and `commit`, or else by `abort`.

    Attributes:
        position: The offset of the next byte that is written.
        path: Names the file in errors.
    """

    def __init__(self, file: Any, *, path: str = "<stream>", owned: bool = False) -> None:
        if isinstance(file, io.TextIOBase):
            raise UnsupportedError(
                "a file opened as text, expected binary", path=path, hint='use open(path, "wb")'
            )
        self.position = 0
        self.path = path
        self._file: BinaryIO = file
        self._owned = owned

    def write(self, buffer: Any, /) -> int:
        """Writes all bytes of a contiguous buffer of any type; large ones are not copied."""
        data = as_bytes(buffer)
        size = memoryview(data).nbytes
        written = self._write(data)
        while written < size:  # a raw file takes 2 GB at a time, a socket less
            written += self._write(byte_view(data)[written:])
        self.position += size
        return size

    def _write(self, data: Any) -> int:
        """Writes some bytes, and returns how many."""
        written: int | None = self._file.write(data)
        if written is not None:
            return written
        raw: object = self._file
        if isinstance(raw, io.RawIOBase):
            raise BlockingIOError(errno.EAGAIN, "the file takes nothing without waiting", self.path)
        return memoryview(data).nbytes  # a class of the user's, which returns nothing

    def patch(self, offset: int, buffer: Any) -> None:
        """Overwrites bytes that were written before, such as a header with sizes.

        Raises:
            ValueError: The bytes are not all between 0 and `position`.
            UnsupportedError: The bytes are gone already: this is a stream or a remote file.
        """
        raise UnsupportedError(
            "what was written cannot be changed any more, expected a local file",
            path=self.path,
            hint="write it to a local file, and copy that",
        )

    def prepare(self) -> None:
        """Does everything that can fail, before the bytes become visible."""
        self._file.flush()

    def commit(self) -> None:
        """Makes the bytes visible."""
        if self._owned:
            self._file.close()

    def abort(self) -> None:
        """Drops the file; nothing becomes visible that was not visible already."""
        if self._owned:
            with suppress(OSError):  # the rest of its buffer may not fit on the disk either
                self._file.close()


class ReplacingSink(FileSink):
    """A temporary file that is renamed onto its target.

    Args:
        target: The path that is replaced, absolute and no link.
        old: What the new file inherits from the one that is replaced, if there is one.
        old_size: Number of bytes of that file.
        durable: Whether to wait until the disk has the bytes.

    The folder of the target is made if it is missing.

    Attributes:
        temporary: The path of the temporary file.
        replaces: Whether there is a file that is replaced.
    """

    def __init__(
        self,
        target: str,
        *,
        old: Attributes | None = None,
        old_size: int = 0,
        durable: bool = True,
    ) -> None:
        self.replaces = old is not None
        self._old_size = old_size
        self._durable = durable
        self._left = False
        self._found: os.stat_result | None = None
        self._claimed: str | None = None
        self._room = LARGE_FILE
        self._reserved = 0
        mode = 0o666 if old is None else old.first_mode
        self._made: list[str] = []
        try:
            # The descriptor stays open until the end: it holds the lock.
            self.temporary, self._descriptor = temporary.create(target, mode=mode)
        except (FileNotFoundError, NotADirectoryError):
            self._made = make_folder(os.path.dirname(target), durable=durable)
            try:
                self.temporary, self._descriptor = temporary.create(target, mode=mode)
            except BaseException:
                remove_folders(self._made)
                raise
        try:
            if old is not None:
                old.apply(self._descriptor)
            file = io.FileIO(self._descriptor, "wb", closefd=False)
        except BaseException:
            self._drop()
            raise
        super().__init__(io.BufferedWriter(file, WRITE_BUFFER), path=target, owned=True)

    def write(self, buffer: Any, /) -> int:
        """Writes all bytes of a buffer: see `FileSink.write`."""
        data = as_bytes(buffer)
        size = memoryview(data).nbytes
        if self.position + size > self._room:
            self._make_room(max(size, min(self.position, MAX_ROOM)))
        return super().write(data)

    def _make_room(self, size: int) -> None:
        """Makes room for so many bytes from here on, and for those that wait in the buffer."""
        end = self.position + size
        is_made = system.allocate(self._descriptor, 0, end)
        # A full disk is no error here: the write that does not fit raises it.
        self._room, self._reserved = (end, end) if is_made else (sys.maxsize, 0)

    def patch(self, offset: int, buffer: Any) -> None:
        """Overwrites bytes that were written before: see `FileSink.patch`."""
        view = byte_view(buffer)
        if not 0 <= offset <= self.position - view.nbytes:
            raise ValueError(
                f"{self.path}: bytes {offset} to {offset + view.nbytes} of {self.position} written"
            )
        self._file.flush()
        while view:
            done = system.write_at(self._descriptor, view, offset)
            view, offset = view[done:], offset + done

    def written(self) -> Iterator[bytes]:
        """What was written so far, read again piece by piece."""
        self._file.flush()
        start = 0
        while start < self.position:
            piece = system.read_at(self._descriptor, PIECE, start)
            if not piece:
                raise OSError(errno.EIO, "what was written cannot be read again", self.path)
            yield piece
            start += len(piece)

    def prepare(self) -> None:
        """Brings the bytes to the disk."""
        if source.watch is not None:
            source.watch.check()  # what was copied may be that of a file that was cut
        self._file.close()
        if self._reserved > self.position:
            os.ftruncate(self._descriptor, self.position)  # frees the room that was not used
        if self._durable:
            system.sync(self._descriptor)
        else:
            os.close(os.dup(self._descriptor))  # some network file systems report errors only here
        if not system.MOVES_OPEN_FILES:
            self._found = os.fstat(self._descriptor)
            self._let_go()

    def _written(self) -> os.stat_result:
        """What the system says of the file, once it is prepared."""
        if self._found is None:
            self._found = os.fstat(self._descriptor)
        return self._found

    def identify(self) -> Identity:
        """By which the file is known, once it is prepared, whatever its name.

        Raises:
            FileNotFoundError: Somebody has removed the temporary file.
        """
        if not temporary.is_at(self._written(), self.temporary):
            raise FileNotFoundError(errno.ENOENT, "its temporary file was removed", self.path)
        return temporary.identity(self._written())

    @property
    def is_committed(self) -> bool:
        """Whether the target is this file."""
        return self._left or temporary.is_at(self._written(), self.path)

    def commit(self) -> None:
        """Renames the file onto its target; once more does no harm."""
        is_hasty = self.replaces and not self._durable
        try:
            if is_hasty and self.is_committed:  # the temporary name may be that of the old file
                _remove_old(self.temporary, self.path)
            else:
                replace(self.temporary, self.path, size=self._old_size, hasty=is_hasty)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or not self.is_committed:
                with naming(self.temporary, self.path):
                    raise
        self.leave()

    def claim(self, path: str) -> bool:
        """Makes this writer the only one of a set until the file has its name, or is dropped.

        The journal of the set (`tensorferry.storage.journal`) becomes a second name of the
        temporary file, which is locked: that is two calls, where a lock takes eight.

        Args:
            path: Of the journal.

        Returns:
            False if somebody else has it, if the file is private, or if the file system has no
            second names.
        """
        if not system.MOVES_OPEN_FILES:
            return False
        try:
            # Others open it to see whether it is locked: of a private file, they could not.
            if os.fstat(self._descriptor).st_mode & READABLE != READABLE:
                return False
            os.link(self.temporary, path)
        except OSError:
            return False
        self._claimed = path
        return True

    def disclaim(self) -> None:
        """Lets others write the set."""
        if self._claimed is not None:
            with suppress(OSError):  # whoever comes next finds it, and that nobody holds it
                os.unlink(self._claimed)
            self._claimed = None

    def leave(self) -> None:
        """Lets go of the temporary file as it is."""
        temporary.forget(self.temporary)
        self._left = True
        self.disclaim()
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor != -1:
            temporary.release(descriptor)

    def abort(self) -> None:
        """Removes the temporary file, and the folders that were made for it."""
        with suppress(OSError):  # the rest of its buffer may not fit on the disk either
            self._file.close()
        self._drop()

    def _drop(self) -> None:
        if not system.MOVES_OPEN_FILES:
            self._let_go()
        temporary.remove(self.temporary)  # if that fails, the first error says more
        self.leave()
        remove_folders(self._made)


@contextmanager
def naming(hidden: str, target: str) -> Iterator[None]:
    """Makes errors name the target, where they would name the temporary file or what is in it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.filename2 is not None:  # "temporary -> target"
            raise OSError(error.errno, error.strerror, target) from None
        if isinstance(error, OSError) and isinstance(error.filename, str):
            error.filename = error.filename.replace(hidden, target)
        for name, value in vars(error).items():
            if isinstance(value, str) and hidden in value:
                setattr(error, name, value.replace(hidden, target))
        error.args = tuple(
            part.replace(hidden, target) if isinstance(part, str) else part for part in error.args
        )
        raise


def replace(path: str, target: str, *, size: int | None = None, hasty: bool = False) -> None:
    """Renames a file onto another, which is freed in a thread if it is large.

    Freeing a file takes about as long as writing it, and happens when its last descriptor is
    closed: the thread closes that one.

    Args:
        path: The file, under a temporary name.
        target: Its new name.
        size: Number of bytes of the other one, if the caller knows it.
        hasty: Whether nobody waits for the disk. ext4 starts to write a file that is renamed onto
            another one, which takes longer than all the rest; exchanged names do without.
    """
    old = None
    if system.MOVES_OPEN_FILES and (size is None or size >= LARGE_FILE):
        with suppress(OSError):  # there is no target, or it cannot be read
            if os.stat(target).st_size >= LARGE_FILE:
                old = os.open(target, system.READ | system.NONBLOCK)
    try:
        if not (hasty and _exchange(path, target)):
            system.move(path, target)
    finally:
        if old is not None:
            _close_in_thread(old)


def _exchange(path: str, target: str) -> bool:
    """Exchanges the names of two files and removes the old one; False if that is not possible.

    A writer that is killed in between leaves the old file under the temporary name, without a lock:
    whoever writes next removes it.
    """
    with suppress(FileNotFoundError):  # there is no old file any more
        if stat.S_ISREG(os.lstat(target).st_mode) and system.exchange(path, target):
            _remove_old(path, target)
            return True
    return False


def _remove_old(path: str, target: str) -> None:
    """Removes the old file, which has the temporary name, or gives it back its own."""
    try:
        os.unlink(path)
    except FileNotFoundError:  # somebody has swept it
        pass
    except OSError:
        system.exchange(path, target)
        raise


def _close_in_thread(descriptor: int) -> None:
    try:
        threading.Thread(target=os.close, args=(descriptor,)).start()
    except RuntimeError:  # no thread can be started while the interpreter ends
        os.close(descriptor)


def open_local_sink(path: str, *, durable: bool) -> FileSink:
    """A sink for a local path or the standard output: see `open_sink`."""
    if path == STANDARD_STREAM:
        return FileSink(sys.stdout.buffer, path="<stdout>")
    try:
        target, old = _target_of(path)
    except ValueError:
        raise unnameable(path) from None
    if old is not None and not stat.S_ISREG(old.st_mode):
        return FileSink(open(path, "wb", WRITE_BUFFER), path=path, owned=True)
    if old is None:
        return ReplacingSink(target, durable=durable)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    attributes = Attributes.of(target, old)
    return ReplacingSink(target, old=attributes, old_size=old.st_size, durable=durable)


def _target_of(path: str) -> tuple[str, os.stat_result | None]:
    """The absolute path of the file that a path leads to, and what the system says of the file."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    is_link = found is not None and stat.S_ISLNK(found.st_mode)
    if not is_link and ".." not in path and not path.endswith((os.sep, "/")):
        return absolute(path), found
    target = os.path.realpath(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        return target, os.stat(path)  # /dev/stdout is a link to a pipe, which has no path
    return target, None


@contextmanager
def append_local(path: str, offset: int, *, durable: bool) -> Iterator[FileSink]:
    """Opens an existing file to write from `offset` on, in place: see `append_sink`."""
    descriptor = os.open(path, system.UPDATE)
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
        sink = _AppendSink(file, path=path)
        sink.position = offset
        try:
            yield sink
            file.flush()
            if durable:
                system.sync(descriptor)
            file.close()  # its number may be another file's from now on
        except BaseException:
            with suppress(OSError):  # the rest of its buffer may not fit on the disk either
                file.close()
            if sink.started:
                os.ftruncate(descriptor, offset)
            raise
    finally:
        os.close(descriptor)


class _AppendSink(FileSink):
    """A file that the first write cuts at its position."""

    started = False

    def write(self, buffer: Any, /) -> int:
        if not self.started:
            self._file.seek(self.position)
            self._file.truncate()
            self.started = True
        return super().write(buffer)
