"""Sources: where bytes come from.

A source is a read-only buffer of the whole input wherever that costs nothing (a mapped file,
memory). Otherwise it is a stream (a pipe), or a remote file of which ranges are fetched
(`tensorferry.storage.ranged`). All sources have the same methods. What the bytes mean is left to
the formats, compression to `tensorferry.codecs.compression`.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from tensorferry import _native, limits
from tensorferry.budget import Budget
from tensorferry.errors import (
    FormatError,
    LimitError,
    OptionError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.storage import system
from tensorferry.storage.temporary import Identity, identity

if TYPE_CHECKING:
    from typing_extensions import Buffer

STANDARD_STREAM = "-"

# Number of bytes read at a time when a whole stream is read into memory.
STREAM_PIECE = 1 << 20

# A local file of at most so many bytes is read when it is opened: to map it takes longer.
SMALL_FILE = 1 << 16


Span = tuple[int, int]
"""A start and a stop."""


def as_source(data: Buffer) -> bytes | memoryview:
    """A read-only view of the bytes of a buffer; of a tensor of one string, that string.

    Raises:
        OptionError: The data is neither.
    """
    if type(data) is bytes:
        return data
    if isinstance(data, bytes):
        return bytes(data)  # NumPy's own kind exports no zero bytes at its end
    try:
        view = memoryview(data)
    except (TypeError, ValueError):
        return _only_string(data)
    # The memory of an array of objects holds addresses, and that of an array of text no bytes.
    if not _OBJECTS.isdisjoint(view.format):
        return _only_string(data)
    return view.toreadonly().cast("B")


# Of the buffer protocol: Python's objects, and text.
_OBJECTS = frozenset("Ouw")


def _only_string(data: Any) -> bytes:
    """The bytes in an array of one element, or in a tensor of any framework, also of uint8."""
    numpy: Any = sys.modules.get("numpy")  # if it is not loaded, there are no arrays
    if numpy is not None and hasattr(data, "__array__"):
        array = numpy.asarray(data)
        if array.size == 1 and array.dtype.kind == "S":
            return bytes(array.tobytes())  # an element would lose the zero bytes at its end
        if array.size == 1 and isinstance(array.item(), bytes):
            return bytes(array.item())
        if array.ndim == 1 and array.dtype == numpy.uint8:
            return bytes(array.tobytes())
        found = f"a tensor of {array.dtype} and shape {list(array.shape)}"
        hint = "a tensor of one string, or of uint8, counts as its bytes"
        raise OptionError(f"{found}, expected bytes", hint=hint)
    raise OptionError(f"a value of type {type(data).__name__}, expected bytes")


def as_bytes(buffer: Any) -> Any:
    """A NumPy array as an array of bytes, without a copy; any other buffer as it is.

    NumPy does not export arrays of ml_dtypes' dtypes as buffers.
    """
    if type(buffer) in (bytes, bytearray, memoryview):
        return buffer
    numpy: Any = sys.modules.get("numpy")  # if it is not loaded, the buffer is no array
    is_array = numpy is not None and isinstance(buffer, numpy.ndarray)
    return buffer.reshape(-1).view("u1") if is_array else buffer


def byte_view(buffer: Any) -> memoryview:
    """The bytes of a buffer, whatever the type of its elements."""
    view = memoryview(as_bytes(buffer))
    return view.cast("B") if view.nbytes else memoryview(b"")  # an empty view cannot be cast


class Whole(bytearray):
    """All bytes of a small file, in memory that nobody else has."""

    __slots__ = ()


class Watch:
    """Files that are mapped, of which none may lose bytes: see `tensorferry.storage.cuts`."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[tuple[int, int], str, int]] = {}
        self._lost: TruncatedError | None = None

    def add(self, key: int, identity: tuple[int, int], path: str, size: int) -> None:
        """A file was mapped."""
        self._open[key] = identity, path, size

    def drop(self, key: int) -> None:
        """It is mapped no longer."""
        if key in self._open:
            try:
                _check_size(*self._open.pop(key))
            except TruncatedError as error:
                self._lost = self._lost or error

    def check(self) -> None:
        """Makes sure that no file lost bytes while it was mapped.

        The bytes between a new end and the end of its page read as zeros, and no signal tells.

        Raises:
            TruncatedError: One did. A file that was replaced keeps its bytes in the map.
        """
        if self._lost is not None:
            raise self._lost
        for found in list(self._open.values()):
            _check_size(*found)


def _check_size(identity: tuple[int, int], path: str, size: int) -> None:
    try:
        found = os.stat(path)
    except OSError:
        return
    if (found.st_dev, found.st_ino) == identity and found.st_size < size:
        raise shorter(path, found.st_size, size)


watch: Watch | None = None
"""Where mapped files are noted; None in programs that do not own their process."""


class Mapped:
    """A mapped file of a path, opened again when bytes of it are copied.

    Copying out of the map would end the process if the file was cut meanwhile; reading (`pread`)
    takes as long, and is an error then. A file that was replaced keeps its bytes in the map.
    """

    __slots__ = ("_buffer", "_descriptor", "_path", "identity")

    def __init__(self, path: str, found: os.stat_result, buffer: memoryview) -> None:
        self._path = path
        self.identity = found.st_dev, found.st_ino
        self._buffer = buffer
        self._descriptor: int | None = None
        if watch is not None:
            watch.add(id(self), self.identity, path, buffer.nbytes)

    def read(self, start: int, stop: int) -> bytes:
        """Some bytes of the file.

        Raises:
            TruncatedError: The file was cut.
        """
        descriptor = self._open() if self._descriptor is None else self._descriptor
        if descriptor is None:
            return bytes(self._buffer[start:stop])
        data = system.read_at(descriptor, stop - start, start)
        while len(data) < stop - start:
            piece = system.read_at(descriptor, stop - start - len(data), start + len(data))
            if not piece:
                raise shorter(self._path, start + len(data), stop)
            data += piece
        return data

    def check(self, stop: int) -> None:
        """Makes sure that the file still has its bytes up to `stop`; see `Source.check`."""
        size = system.size_of_mapped(self._buffer.obj)
        if size is None:
            try:
                found = os.stat(self._path)
            except OSError:
                return
            size = found.st_size if self._is_same(found) else stop
        if size < stop:
            raise shorter(self._path, size, stop)

    def check_all(self) -> None:
        """Makes sure that the file still has all its bytes; see `Source.check`."""
        self.check(self._buffer.nbytes)

    def _open(self) -> int | None:
        """Opens the file, unless its name is that of another one now."""
        try:
            descriptor = os.open(self._path, system.READ)
        except OSError:
            return None
        if not self._is_same(os.fstat(descriptor)):
            os.close(descriptor)
            return None
        self._descriptor = descriptor
        return descriptor

    def __del__(self) -> None:
        if watch is not None:
            watch.drop(id(self))
        # Several sources share it: the last one closes the file.
        if self._descriptor is not None:
            os.close(self._descriptor)

    def is_at(self, path: str) -> bool:
        """Whether a path is that of the mapped file now."""
        try:
            return self._is_same(os.stat(path))
        except OSError:
            return False

    def _is_same(self, found: os.stat_result) -> bool:
        return (found.st_dev, found.st_ino) == self.identity


def shorter(path: str, size: int, wanted: int) -> TruncatedError:
    """The error for a file that was cut after it was opened."""
    return TruncatedError(
        f"the file ends here now, and had at least {wanted - size} bytes more when it was opened",
        path=path,
        offset=size,
        hint="something writes into the file: replace it by renaming, and open it again",
    )


class Source:
    """Bytes to read: by ranges or in order, and as one buffer wherever possible.

    Arrays made from `buffer` stay valid after `close`, and after the file was unlinked or replaced
    by renaming; the memory is unmapped when the last array is gone. A local file is mapped
    privately: after `lend`, arrays are writable without touching the file. Whoever else writes into
    a mapped file changes the arrays, and cutting it ends the process (SIGBUS) when they are used;
    `copy` and `read` raise an error instead. A small file is read instead of mapped.

    Attributes:
        path: Names the source in errors.
        buffer: All bytes, read-only unless the source lends them; None for remote files, for
            streams that were not read to their end, and after closing.
        size: Number of bytes; None for a stream that was not read to its end.
        version: What a store calls these bytes, where it has a name for them.
        identity: Of the regular file that was opened by its path, if it was one.
    """

    _budget: Budget | None = None  # most files expand to nothing

    path: str
    buffer: memoryview | None
    size: int | None
    version: str | None = None
    identity: Identity | None = None

    def __init__(
        self,
        path: str,
        *,
        buffer: memoryview | None = None,
        file: BinaryIO | None = None,
        owned: bool = False,
        budget: Budget | None = None,
        mapped: Mapped | None = None,
    ) -> None:
        self.path = path
        self._mapped = mapped
        if budget is not None:
            self._budget = budget
        self.buffer = buffer
        self.size = None if buffer is None else buffer.nbytes
        self._file = file
        self._owned = owned
        self._position = 0
        self._peeked = b""  # the next bytes of a stream, which `head` has read

    @property
    def budget(self) -> Budget:
        """Counts what the file expands to, over everything that is read from it."""
        if self._budget is None:
            self._budget = Budget(self.size or 0)
        return self._budget

    def read(self, size: int) -> bytes:
        """The next bytes, fewer than `size` only at the end."""
        if self.buffer is not None:
            data = self.copy(self._position, min(self._position + size, self.buffer.nbytes))
            self._position += len(data)
            return data
        if self._peeked:
            data, self._peeked = self._peeked[:size], self._peeked[size:]
            if len(data) < size:
                data += self._read_file(size - len(data))
        else:
            data = self._read_file(size)
        self._position += len(data)
        return data

    @property
    def mapped(self) -> Mapped | None:
        """The local file that the buffer maps, if it is one."""
        return self._mapped

    def copy(self, start: int, stop: int) -> bytes:
        """A copy of some bytes; a mapped file that was cut meanwhile is an error, and no SIGBUS.

        Raises:
            TruncatedError: The file ends before `stop`, or does now.
        """
        if self._mapped is None:
            return bytes(self.range(start, stop))
        buffer = self._whole()
        self._check_range(start, stop, buffer.nbytes)
        return self._mapped.read(start, stop)

    def check(self, stop: int) -> None:
        """Looks whether a mapped file was cut, before its bytes up to `stop` are verified.

        Raises:
            TruncatedError: It was. A file that is cut while its bytes are used is still SIGBUS.
        """
        if self._mapped is not None:
            self._mapped.check(stop)

    def _read_file(self, size: int) -> bytes:
        if self._file is None:
            raise self._closed()
        data = self._file.read(size) or b""
        if len(data) == size or not data:
            return data
        pieces, missing = [data], size - len(data)
        while missing and (data := self._file.read(missing)):
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def head(self, size: int) -> bytes:
        """The first bytes, fewer if the source is shorter; `read` still starts with them.

        Raises:
            UnsupportedError: The source is a stream, and some of it was read.
        """
        if self.buffer is None:
            self._check_unread()
            if len(self._peeked) < size:
                self._peeked += self._read_file(size - len(self._peeked))
            return self._peeked[:size]
        return bytes(self.buffer[:size])

    def range(self, start: int, stop: int) -> bytes | memoryview:
        """Exactly these bytes: a view, if they lie in memory or in a mapped file.

        A stream is read into memory as a whole first, and `buffer` has its bytes from then on.

        Raises:
            TruncatedError: The source ends before `stop`.
            UnsupportedError: The source is a stream, and some of it was read.
            LimitError: The stream has more than `tensorferry.limits.stream` bytes.
        """
        buffer = self._whole()
        self._check_range(start, stop, buffer.nbytes)
        return buffer[start:stop]

    def lend(self) -> None:
        """Makes views of a mapped file writable from now on, without touching the file.

        Whoever writes into one changes the memory of this process, and all views of this source.
        """
        memory: Any = None if self.buffer is None else self.buffer.obj
        if memory.__class__ is system.Private and len(memory) == self.size:
            memory.lent = True
            self.buffer = memoryview(memory)
        elif memory.__class__ is Whole:
            self.buffer = memoryview(memory)

    def ranges(self, pairs: Iterable[tuple[int, int]]) -> list[bytes | memoryview]:
        """Several ranges, each from its start to its stop; remote ones are fetched at once."""
        return [self.range(start, stop) for start, stop in pairs]

    def everything(self) -> bytes | memoryview:
        """All bytes as one buffer: the mapped file, or read into memory; raises as `range`."""
        return self._whole()

    def expect(self, spans: Iterable[Span]) -> None:
        """Says what will be read next, so that a remote source can fetch it in few requests.

        Args:
            spans: Pairs of a start and a stop.
        """

    def again(self) -> Source:
        """Another source of the same bytes, which reads from the start.

        A stream cannot be read twice: it gives itself.
        """
        if self.buffer is None:
            return self
        return Source(self.path, buffer=self.buffer, budget=self.budget, mapped=self._mapped)

    def close(self) -> None:
        """Drops the bytes. A file object that the caller opened stays open."""
        if self._file is not None and self._owned:
            self._file.close()
        # Unmapping would fail while arrays view the map: it happens when the last array is gone.
        self.buffer = self._file = self._mapped = None
        self._peeked = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _whole(self) -> memoryview:
        if self.buffer is None:
            self._check_unread()
            pieces, size = [self._peeked], len(self._peeked)
            while piece := self._read_file(STREAM_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > limits.stream:
                    raise LimitError(
                        f"the stream has more than {limits.stream} bytes, which is the limit",
                        path=self.path,
                        hint="copy it into a file, or raise tensorferry.limits.stream",
                    )
            self._peeked = b""
            self.buffer = memoryview(b"".join(pieces))
            self.size = size
        return self.buffer

    def _check_unread(self) -> None:
        if self._file is None:
            raise self._closed()
        if self._position:
            raise UnsupportedError(
                f"the first {self._position} bytes of a stream were read, "
                "and it cannot be read again",
                path=self.path,
            )

    def _check_range(self, start: int, stop: int, size: int) -> None:
        if not 0 <= start <= stop:
            raise ValueError(f"{self.path}: bytes from {start} to {stop}, expected 0 or more")
        if stop > size:
            raise TruncatedError(
                f"the file ends here, expected {stop - size} bytes more: {start} to {stop} are "
                "asked for",
                path=self.path,
                offset=size,
            )

    def _closed(self) -> ValueError:
        return ValueError(f"{self.path}: the source is closed")


def open_local(given: str | Buffer | BinaryIO) -> Source:
    """Opens a local path, the standard input, a file object or bytes: see `open_source`."""
    if isinstance(given, str):
        if given == STANDARD_STREAM:
            return _source_of_file(sys.stdin.buffer, "<stdin>", owned=False)
        small = read_small(given)
        if small is not None:
            return small
        try:
            descriptor = os.open(given, system.READ)
        except ValueError:
            raise unnameable(given) from None
        return source_of(descriptor, given)
    # Users' file objects need no common base, and some pass `read` on to another object.
    if hasattr(given, "read"):
        return _source_of_file(given, _name_of(given), owned=False)
    return Source("<bytes>", buffer=memoryview(as_source(given)))


def read_small(path: str) -> Source | None:
    """A small regular file, read by one call; None for any other, and for whatever goes wrong."""
    found = _native.read_small(path, SMALL_FILE, Whole)
    if found is None:
        return None
    memory, known = found
    source = Source(path, buffer=memoryview(memory).toreadonly())
    source.identity = known
    return source


def check_name(path: str) -> None:
    """Refuses a path that no file can have.

    Raises:
        UnsupportedError: It holds a zero byte, or half a character.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return
    except UnicodeEncodeError:
        pass
    raise unnameable(path)


def unnameable(path: str) -> UnsupportedError:
    """The error for a path that no file can have."""
    what = "a zero byte" if "\0" in path else "half a character"
    return UnsupportedError(f"the path {path[:200]!r} holds {what}, which no name of a file does")


def _name_of(file: Any) -> str:
    """The name of a file object; descriptors have numbers for names, and others have none."""
    try:
        name = file.name
    except AttributeError:
        return "<stream>"
    return name if isinstance(name, str) else "<stream>"


def source_of(descriptor: int, path: str) -> Source:
    """A file that was opened by its path: read if it is small, else mapped where that works.

    Args:
        descriptor: The open file, which is closed, also if there is an error.
        path: Its path.
    """
    source = None
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise FormatError("is a directory, expected a file", path=path)
        is_file = stat.S_ISREG(found.st_mode)
        if is_file and 0 < found.st_size <= SMALL_FILE:
            whole = _read_whole(descriptor, found.st_size)
            source = Source(path, buffer=memoryview(whole).toreadonly())
        elif is_file and found.st_size:
            # It may have been cut meanwhile, and some file systems map no files.
            with suppress(OSError, ValueError):
                buffer = memoryview(system.map_file(descriptor)).toreadonly()
                source = Source(path, buffer=buffer, mapped=Mapped(path, found, buffer))
    except BaseException:
        os.close(descriptor)
        raise
    if source is None:
        file = open(descriptor, "rb")  # noqa: SIM115
        source = _source_of_file(file, path, owned=True)
    else:
        os.close(descriptor)
    if is_file:
        source.identity = identity(found)
    return source


def _read_whole(descriptor: int, size: int) -> Whole:
    """So many bytes of an open file from its start on, or fewer if it ends before."""
    whole = Whole(size)
    view = memoryview(whole)
    position = 0
    while position < size and (count := system.read_into(descriptor, view[position:], position)):
        position += count
    view.release()
    del whole[position:]
    return whole


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
    """The rest of a file as a buffer, or None if the file must be read instead."""
    if type(file) is io.BytesIO:
        return memoryview(file.getvalue())[file.tell() :]
    # Other classes have a `fileno` too, but read other bytes than those there: gzip.GzipFile does.
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO or not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    file.flush()
    start = file.tell()
    try:
        mapped = system.map_file(raw.fileno())
    except (
        ValueError
    ):  # there is nothing to map: the file is empty, or one of /proc, which have no size
        return memoryview(file.read())
    except OSError:  # the file system cannot map files
        return None
    return memoryview(mapped).toreadonly()[start:]
