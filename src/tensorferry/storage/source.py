"""Sources: where bytes come from.

A source is a read-only buffer of the whole input wherever that costs nothing (a mapped file,
memory), and otherwise a stream (a pipe) or ranges that are fetched (`tensorferry.storage.ranged`).
All of them answer the same questions. What the bytes mean is for the formats, compression for
`tensorferry.codecs.compression`.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from tensorferry import limits
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

STANDARD_STREAM = "-"

# How much of a stream is read at a time to hold all of it.
STREAM_PIECE = 1 << 20

# Before 3.13 a map holds a file descriptor: a thousand mapped shards reach the usual limit.
MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


Span = tuple[int, int]
"""A start and a stop."""


def as_source(data: Buffer) -> bytes | memoryview:
    """A read-only view of the bytes of a buffer."""
    if type(data) is bytes:
        return data
    return memoryview(data).toreadonly().cast("B")


def as_bytes(buffer: Any) -> Any:
    """An array as one of bytes, without a copy: NumPy exports no small dtype with a format."""
    array: Any = getattr(sys.modules.get("numpy"), "ndarray", ())  # not loaded: nothing is one
    return buffer.reshape(-1).view("u1") if isinstance(buffer, array) else buffer


def byte_view(buffer: Any) -> memoryview:
    """A buffer as a flat run of bytes, whatever the type of its elements."""
    view = memoryview(as_bytes(buffer))
    return view.cast("B") if view.nbytes else memoryview(b"")  # without elements a cast fails


class Source:
    """Bytes to read: a buffer of all of them wherever possible, ranges and a stream always.

    Arrays made from `buffer` stay valid after `close`, and after the file was unlinked or replaced
    by renaming; the memory is unmapped when the last of them is gone. Writing into a mapped file or
    cutting it is another matter: that changes the arrays, or ends the process (SIGBUS).

    Attributes:
        path: Names it in errors.
        buffer: Everything, read-only; None for remote files, for streams until all of them was
            read, and after closing.
        size: How many bytes there are; None when only reading to the end can tell.
    """

    path: str
    buffer: memoryview | None
    size: int | None

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
        self._peeked = b""  # of a stream: what follows its position, and was looked at already

    def read(self, size: int) -> bytes:
        """The next bytes, fewer than `size` only at the end."""
        if self.buffer is not None:
            part = self.buffer[self._position : self._position + size]
            self._position += len(part)
            return bytes(part)
        if self._peeked:
            data, self._peeked = self._peeked[:size], self._peeked[size:]
            if len(data) < size:
                data += self._read_file(size - len(data))
        else:
            data = self._read_file(size)
        self._position += len(data)
        return data

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
        """The first bytes, fewer at the end of a short source, which are still there to be read.

        Raises:
            UnsupportedError: It is a stream, of which something was read.
        """
        if self.buffer is None:
            self._check_unread()
            if len(self._peeked) < size:
                self._peeked += self._read_file(size - len(self._peeked))
            return self._peeked[:size]
        return bytes(self.buffer[:size])

    def range(self, start: int, stop: int) -> bytes | memoryview:
        """Exactly these bytes, without copying them if they lie in memory or a mapped file.

        Of a stream everything is read into memory first; `buffer` has it from then on.

        Raises:
            TruncatedError: The source ends before `stop`.
            UnsupportedError: It is a stream, of which something was read.
            LimitError: It is a stream of more than `tensorferry.limits.memory` bytes.
        """
        buffer = self._whole()
        self._check_range(start, stop, buffer.nbytes)
        return buffer[start:stop]

    def ranges(self, pairs: Iterable[tuple[int, int]]) -> list[bytes | memoryview]:
        """Several ranges, each from its start to its stop; of a remote file at once."""
        return [self.range(start, stop) for start, stop in pairs]

    def everything(self) -> bytes | memoryview:
        """All bytes as one buffer: the map, or read into memory; see `range` for what it raises."""
        return self._whole()

    def expect(self, spans: Iterable[Span]) -> None:
        """Says what will be read next, so that a remote source can fetch it in few requests.

        Args:
            spans: Pairs of a start and a stop.
        """

    def again(self) -> Source:
        """Another source of the same bytes, which reads from the start.

        Of a stream, which cannot be read twice, it is the source itself.
        """
        if self.buffer is None:
            return self
        return Source(self.path, buffer=self.buffer)

    def close(self) -> None:
        """Lets go of the bytes. A file object that was given stays open."""
        if self._file is not None and self._owned:
            self._file.close()
        # Unmapping here would fail while arrays view the map: its last user does it instead.
        self.buffer = self._file = None
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
                if size > limits.memory:
                    raise LimitError(
                        f"a stream of more than {limits.memory} bytes, which are allowed in memory",
                        path=self.path,
                        hint="copy it into a file, or raise tensorferry.limits.memory",
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
        try:
            file = open(given, "rb")  # noqa: SIM115
        except IsADirectoryError:
            raise FormatError("is a directory, expected a file", path=given) from None
        return _source_of_file(file, given, owned=True)
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
