"""Deflate on all cores: gzip and zlib streams whose pieces are compressed side by side.

    gzip   1f 8b 08 00 | time 0 | 00 ff | deflate ... | crc32 | size
    zlib   78 9c                        | deflate ... | adler32

A stream is cut into pieces of `PIECE` bytes. Each is compressed alone, in a thread without the GIL,
with the end of the piece before it as a dictionary, and ends on a whole byte (a sync flush). Put
one behind the other they are one deflate stream, as if it had been made in one go: every reader of
gzip and zlib reads it, and it is no larger. The pieces are always the same ones, however many cores
there are, so that the same bytes give the same stream.

isal compresses at levels 0 to 3, zlib at 4 to 9. The other compressions, and decompressing, are
`tensorferry.codecs.compression`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

from isal import isal_zlib

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
        self._running: deque[Future[bytes]] = deque()
        self._head = _GZIP if self._is_gzip else _ZLIB

    def compress(self, buffer: Any, /) -> bytes:
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
        return self._ready(2 * _cores())

    def finish(self) -> bytes:
        """Ends the stream; returns the rest of its bytes."""
        rest = self._ready(0)
        piece = bytes(self._waiting)
        self._count(piece)
        last = _deflated(piece, self._before, self._level, zlib.Z_FINISH)
        if self._is_gzip:
            end = struct.pack("<II", self._checksum, self._size & 0xFFFFFFFF)
        else:
            end = struct.pack(">I", self._checksum)
        return b"".join((rest, last, end))

    def _start(self, piece: bytes) -> None:
        """Lets a thread compress a piece."""
        self._count(piece)
        work = (piece, self._before, self._level, zlib.Z_SYNC_FLUSH)
        self._before = piece[-WINDOW:]
        try:
            self._running.append(_threads().submit(_deflated, *work))
        except RuntimeError:  # Python is ending, and starts no threads any more
            done: Future[bytes] = Future()
            done.set_result(_deflated(*work))
            self._running.append(done)

    def _count(self, piece: bytes) -> None:
        """Takes the checksum of what is compressed: the caller's buffer may change meanwhile."""
        checksum = isal_zlib.crc32 if self._is_gzip else isal_zlib.adler32
        self._checksum = checksum(piece, self._checksum)
        self._size += len(piece)

    def _ready(self, waiting: int) -> bytes:
        """What is compressed, in order; all but so many pieces are waited for."""
        found = [self._head]
        self._head = b""
        while self._running and (len(self._running) > waiting or self._running[0].done()):
            found.append(self._running.popleft().result())
        return b"".join(found)


def _deflated(piece: bytes, before: bytes, level: int, flush: int) -> bytes:
    """A piece of a deflate stream, behind another one."""
    library: Any = isal_zlib if level <= 3 else zlib
    options = {"zdict": before} if before else {}
    stream = library.compressobj(level, zlib.DEFLATED, -15, 9, **options)
    data: bytes = stream.compress(piece) + stream.flush(flush)
    return data


# The threads of this process, which all streams share; a fork has none of them.
_pool: tuple[int, ThreadPoolExecutor] | None = None


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid():
        _pool = os.getpid(), ThreadPoolExecutor(_cores(), "deflate")
    return _pool[1]


def _cores() -> int:
    return os.cpu_count() or 1
