"""Deflate on all cores: pieces that threads compress side by side, and streams made of them.

    gzip   1f 8b 08 00 | time 0 | 00 ff | deflate ... | crc32 | size
    zlib   78 9c                        | deflate ... | adler32

A stream is cut into pieces of `PIECE` bytes. Each is compressed alone, in a thread without the GIL,
with the end of the piece before it as a dictionary, and ends on a whole byte (a sync flush). Put
one behind the other they are one deflate stream, as if it had been made in one go: every reader of
gzip and zlib reads it, and it is no larger. The pieces are always the same ones, however many cores
there are, so that the same bytes give the same stream.

`Line` and `deflate` serve zip archives, too (`tensorferry.codecs.zip.writer`). isal compresses at
levels 0 to 3, zlib at 4 to 9. The other compressions, and decompressing, are
`tensorferry.codecs.compression`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Literal

from isal import isal_zlib

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 1 << 19
"""The number of bytes that are compressed together."""

WINDOW = 1 << 15
"""How far deflate looks back."""

# Without a time and a name: the same bytes give the same stream.
_GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_ZLIB = b"\x78\x9c"


class DeflateCompressor:
    """Compresses one stream; see `tensorferry.codecs.compression.Compressor`.

    Args:
        kind: "gzip" or "zlib".
        level: 0 to 9.
    """

    def __init__(self, kind: Literal["gzip", "zlib"], level: int) -> None:
        self._is_gzip = kind == "gzip"
        self._level = level
        self._checksum = 0 if self._is_gzip else 1
        self._size = 0
        self._waiting = bytearray()  # less than a piece
        self._before = b""  # the end of the piece before
        self._line = Line()
        self._head = _GZIP if self._is_gzip else _ZLIB

    def compress(self, buffer: Buffer, /) -> bytes:
        """Takes a buffer, which is copied; returns the compressed bytes that are ready."""
        data = memoryview(buffer).cast("B")
        place = 0
        while len(self._waiting) + len(data) - place >= PIECE:
            stop = place + PIECE - len(self._waiting)
            piece = bytes(self._waiting) + data[place:stop] if self._waiting else data[place:stop]
            self._start(bytes(piece))
            self._waiting.clear()
            place = stop
        self._waiting += data[place:]
        return self._ready(2 * cores())

    def finish(self) -> bytes:
        """Ends the stream; returns the rest of its bytes."""
        rest = self._ready(0)
        piece = bytes(self._waiting)
        self._count(piece)
        last = deflate([piece], self._level, zlib.Z_FINISH, self._before)
        if self._is_gzip:
            end = struct.pack("<II", self._checksum, self._size & 0xFFFFFFFF)
        else:
            end = struct.pack(">I", self._checksum)
        return b"".join((rest, last, end))

    def _start(self, piece: bytes) -> None:
        self._count(piece)
        self._line.start([piece], self._level, zlib.Z_SYNC_FLUSH, self._before)
        self._before = piece[-WINDOW:]

    def _count(self, piece: bytes) -> None:
        """Takes the checksum of what is compressed: the caller's buffer may change meanwhile."""
        checksum = isal_zlib.crc32 if self._is_gzip else isal_zlib.adler32
        self._checksum = checksum(piece, self._checksum)
        self._size += len(piece)

    def _ready(self, most: int) -> bytes:
        """The next bytes of the stream; at most `most` pieces are left."""
        found = b"".join([self._head, *self._line.ready(most)])
        self._head = b""
        return found


class Line:
    """Pieces that threads deflate, given back in their order."""

    def __init__(self) -> None:
        self._running: deque[Future[bytes]] = deque()

    def start(self, piece: Sequence[Buffer], level: int, flush: int, before: bytes = b"") -> None:
        """Lets a thread call `deflate` with these arguments."""
        try:
            self._running.append(_threads().submit(deflate, piece, level, flush, before))
        except RuntimeError:  # Python is ending, and starts no threads any more
            done: Future[bytes] = Future()
            done.set_result(deflate(piece, level, flush, before))
            self._running.append(done)

    def ready(self, most: int) -> Iterator[bytes]:
        """The next pieces that are done; waits until at most `most` are left."""
        while self._running and (len(self._running) > most or self._running[0].done()):
            yield self._running.popleft().result()

    def drop(self) -> None:
        """Gives up what is left; no thread reads the pieces any more."""
        for future in self._running:
            future.cancel()
        wait(self._running)
        self._running.clear()


def deflate(piece: Sequence[Buffer], level: int, flush: int, before: bytes = b"") -> bytes:
    """A piece of a deflate stream.

    Args:
        piece: Its bytes, in one or several buffers.
        level: 0 to 9.
        flush: How the piece ends: a constant of zlib.
        before: The bytes before it that it may refer to.
    """
    library: Any = isal_zlib if level <= 3 else zlib
    options = {"zdict": before} if before else {}
    stream = library.compressobj(level, zlib.DEFLATED, -15, 9, **options)
    return b"".join([*map(stream.compress, piece), stream.flush(flush)])


# The threads of this process, which all streams share; a fork has none of them.
_pool: tuple[int, ThreadPoolExecutor] | None = None


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid():
        _pool = os.getpid(), ThreadPoolExecutor(cores(), "deflate")
    return _pool[1]


def cores() -> int:
    """Number of pieces that are compressed at the same time."""
    return os.cpu_count() or 1
