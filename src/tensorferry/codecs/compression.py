"""Compression: streams of bytes to streams of bytes, in bounded memory.

    gzip   1f 8b 08 ... deflate ... crc32 | size       members may follow each other
    zlib   78 9c    ... deflate ... adler32            two bytes that are a multiple of 31
    zstd   28 b5 2f fd ... blocks ... xxhash           frames may follow each other

Members and frames that follow each other are one stream, and zero bytes after the last one are
padding. gzip and zlib run in isal, zstd in the standard library's `compression.zstd` (its backport
before Python 3.14): cramjam has no zstd decompressor that stops before the end of a frame, so
forty bytes could ask for gigabytes. All of them release the GIL.

To make a decompressor of zstd takes longer than to read a short frame, and a small file can hold a
million of them. So short members and frames that follow each other are read many at a time, frames
by cramjam into a block; whatever is unusual about them is left to the reading one by one.

Where the bytes come from is `tensorferry.storage`; what is in them is for the formats.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from tensorferry.errors import (
    ChecksumError,
    FormatError,
    LimitError,
    MissingExtraError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.storage.url import bare

Kind = Literal["gzip", "zlib", "zstd"]

# The suffixes of compressed files.
SUFFIXES: dict[str, Kind] = {".gz": "gzip", ".zlib": "zlib", ".zst": "zstd"}
_ENDINGS = tuple(SUFFIXES)

BLOCK = 1 << 20
"""The largest block that `decompressed` gives, in bytes."""

CHUNK = 1 << 17
"""How many compressed bytes are taken at a time."""

SHORT = 1 << 12
"""How many are taken first where a member or frame follows another: it may be a short one."""

STARTS: dict[Kind, tuple[bytes, ...]] = {
    "gzip": (b"\x1f\x8b\x08",),
    "zlib": (b"\x78",),  # the usual one; detect() knows the others
    # The second kind of frame holds no data and is skipped.
    "zstd": (b"\x28\xb5\x2f\xfd", *(b"%c\x2a\x4d\x18" % n for n in range(0x50, 0x60))),
}

# isal's levels are 0 to 3, zlib's go on to 9.
DEFLATE_LEVEL = 2
ZSTD_LEVEL = 1

LONG = 1 << 20
"""From so many bytes on, a zstd stream is compressed by threads."""

FEW = 8
"""Up to so many streams that are written side by side have threads of their own."""


class Compressor(Protocol):
    """Compresses a stream piece by piece."""

    def compress(self, buffer: Any, /) -> bytes:
        """Takes a contiguous buffer; returns the compressed bytes that are ready, if any."""

    def finish(self) -> bytes:
        """Ends the stream; returns the rest of its bytes."""


def split_suffix(name: str) -> tuple[str, Kind | None]:
    """The name of a file without the suffix of its compression, and that compression.

    The query of a URL is not part of the name.
    """
    name = bare(name)
    lowered = name.lower()
    if not lowered.endswith(_ENDINGS):
        return name, None
    suffix = next(suffix for suffix in _ENDINGS if lowered.endswith(suffix))
    return name[: -len(suffix)], SUFFIXES[suffix]


def detect(head: bytes) -> Kind | None:
    """The compression that some bytes start with.

    The first bytes of a TFRecord file can look like zlib: rule that out first.

    Args:
        head: At least the first four bytes.
    """
    if head.startswith(STARTS["gzip"]):
        return "gzip"
    if head.startswith(STARTS["zstd"]):
        return "zstd"
    # The method is 8 (deflate), the window at most 2^(7 + 8), and there is no preset dictionary.
    if len(head) >= 2 and head[0] & 0x0F == 8 and head[0] >> 4 <= 7 and not head[1] & 0x20:
        return "zlib" if (head[0] << 8 | head[1]) % 31 == 0 else None
    return None


def decompressed(
    read: Callable[[int], bytes], kind: Kind, *, path: str | None = None, threads: int = 0
) -> Iterator[bytes]:
    """The decompressed bytes of a stream, in blocks of at most `BLOCK`.

    Blocks are returned as they are decompressed, before a later error is found. A checksum is at
    the end of its member or frame and covers all of it.

    Args:
        read: Returns the next compressed bytes, at most the given number; nothing at the end.
        kind: The compression, as from `detect`.
        path: Names the stream in errors.
        threads: 1 decompresses the next block in the background while this one is used. `read` is
            then called in that thread.

    Raises:
        TruncatedError: The stream ends too early.
        ChecksumError: The stream was changed after it was written.
        LimitError: A zstd frame needs more memory than the library grants.
        FormatError: The stream is damaged, or other bytes follow it.
        MissingExtraError: zstd is not installed.
    """
    blocks = _blocks(_Input(read), kind, path)
    return _in_background(blocks) if threads else blocks


class _Input:
    """Compressed bytes that can be put back, and how many were taken."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._chunk = b""
        self._next = 0
        self.position = 0

    def take(self, most: int = CHUNK) -> bytes:
        if self._next == len(self._chunk):
            self._chunk, self._next = self._read(CHUNK), 0
        piece = self._chunk[self._next : self._next + most]
        self._next += len(piece)
        self.position += len(piece)
        return piece

    def put_back(self, rest: bytes) -> None:
        self.position -= len(rest)
        if len(rest) <= self._next:
            self._next -= len(rest)
        else:
            self._chunk, self._next = rest + self._chunk[self._next :], 0

    def peek(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        while len(self._chunk) - self._next < size and (more := self._read(CHUNK)):
            self._chunk, self._next = self._chunk[self._next :] + more, 0
        return self._chunk[self._next : self._next + size]

    def skip(self, size: int) -> None:
        """Takes bytes that `peek` gave."""
        self._next += size
        self.position += size

    def skip_zeros(self) -> None:
        while chunk := self.take():
            if rest := chunk.lstrip(b"\0"):
                self.put_back(rest)
                return


def _blocks(source: _Input, kind: Kind, path: str | None) -> Iterator[bytes]:
    make, error_type = _decompressors(kind)
    good = 0  # decompressed bytes given out
    first = CHUNK  # bytes that a decompressor gets first: of what it does not need it makes a copy

    alone = 1  # up to this position members are read one by one
    short = _ShortFrames() if kind == "zstd" else _ShortMembers(kind, make, error_type)
    head = source.peek(4)
    while True:
        _check_start(head, kind, source.position, good, path)
        if source.position >= alone:
            taken, block = short.read(source.peek(SHORT))
            source.skip(taken)
            if block:
                good += len(block)
                yield block
            if not taken:
                alone = source.position + SHORT
            elif not (head := _next_head(source)):
                return
            else:
                continue
        decompressor = make()
        chunk_start = source.position
        most, first = first, SHORT
        while not decompressor.eof:
            chunk = b""
            wants = decompressor.needs_input
            if wants:
                chunk_start = source.position
                chunk, most = source.take(most), CHUNK
            try:
                block = decompressor.decompress(chunk, BLOCK)
            except error_type as error:
                raise _corrupt(kind, str(error), chunk_start, good, path) from None
            if block:
                good += len(block)
                yield block
            elif wants and not chunk and not decompressor.eof:
                # isal may hold back output after it has taken all input: only now is there no more.
                raise _truncated(kind, source.position, good, path)
        source.put_back(decompressor.unused_data)
        if not (head := _next_head(source)):
            return


def _next_head(source: _Input) -> bytes:
    """The first bytes behind a member and its padding; nothing at the end."""
    head = source.peek(4)
    if head[:1] == b"\0":
        source.skip_zeros()
        head = source.peek(4)
    return head


class _ShortFrames:
    """Reads many short zstd frames at a time."""

    def __init__(self) -> None:
        self._zstd = _zstd()
        self._room: bytearray | None = None

    def read(self, data: bytes) -> tuple[int, bytes]:
        """The number of bytes of the frames that are whole, and what they hold.

        It is nothing if they are damaged, or hold more than a block.
        """
        import cramjam  # here, because most files are not compressed

        view, end = memoryview(data), 0
        try:
            while end < len(data):
                end += self._zstd.get_frame_size(view[end:])
        except self._zstd.ZstdError:  # a frame that goes on, or none
            pass
        if not end:
            return 0, b""
        if self._room is None:
            self._room = bytearray(BLOCK)
        try:
            size = cramjam.zstd.decompress_into(view[:end], self._room)
        except (cramjam.DecompressionError, OSError, ValueError):
            return 0, b""
        return end, bytes(memoryview(self._room)[:size])


class _ShortMembers:
    """Reads many short members of gzip, or streams of zlib, at a time."""

    def __init__(self, kind: Kind, make: Callable[[], Any], error: type[Exception]) -> None:
        self._starts = STARTS[kind]
        self._make = make
        self._error = error

    def read(self, data: bytes) -> tuple[int, bytes]:
        """The number of bytes of the members that are whole, and what they hold.

        The first one that is damaged, or holds more than a block together with those before it,
        is left, and so is what follows it.
        """
        view, end, blocks, room = memoryview(data), 0, [], BLOCK
        while room and data.startswith(self._starts, end):
            decompressor = self._make()
            try:
                block = decompressor.decompress(view[end:], room)
            except self._error:
                break
            if not decompressor.eof:
                break
            end = len(data) - len(decompressor.unused_data)
            if block:
                blocks.append(block)
                room -= len(block)
        return end, b"".join(blocks)


def _check_start(head: bytes, kind: Kind, offset: int, good: int, path: str | None) -> None:
    if detect(head) == kind:
        return
    if len(head) < 4 and any(start.startswith(head) for start in STARTS[kind]):
        raise _truncated(kind, offset + len(head), good, path)
    found = f"found bytes {head.hex(' ')}"
    if offset:
        raise FormatError(
            f"other bytes follow the {kind} stream after {good} decompressed bytes: {found}, "
            "expected the end, zero bytes or another stream",
            path=path,
            offset=offset,
        )
    raise FormatError(f"not a {kind} stream: {found}", path=path, offset=0)


def _truncated(kind: Kind, offset: int, good: int, path: str | None) -> TruncatedError:
    return TruncatedError(
        f"the {kind} stream ends too early, after {good} good decompressed bytes",
        path=path,
        offset=offset,
        hint="the file was cut or its writer died: copy or write it again",
    )


def _corrupt(kind: Kind, reason: str, offset: int, good: int, path: str | None) -> FormatError:
    """The error for what the library reports; its place is known to within a chunk."""
    where = f"within {CHUNK} bytes from here, {good} decompressed bytes before it"
    if "checksum" in reason:
        message = f"the {kind} stream's checksum does not fit its bytes ({where})"
        return ChecksumError(message, path=path, offset=offset)
    if "memory" in reason:
        return LimitError(
            f"the {kind} stream looks back further than 2^27 bytes",
            path=path,
            offset=offset,
            hint="it was made with `zstd --long` or `--ultra`: compress it again without",
        )
    return FormatError(f"corrupt {kind} stream: {reason} ({where})", path=path, offset=offset)


def _decompressors(kind: Kind) -> tuple[Callable[[], Any], type[Exception]]:
    """A function that makes a decompressor for one member or frame, and the error it raises."""
    if kind == "zstd":
        zstd = _zstd()
        return zstd.ZstdDecompressor, zstd.ZstdError
    from isal import igzip_lib  # here, because names are asked for more often than bytes

    flags = {"gzip": igzip_lib.DECOMP_GZIP, "zlib": igzip_lib.DECOMP_ZLIB}
    if kind not in flags:
        raise _unknown(kind)
    return lambda: igzip_lib.IgzipDecompressor(flag=flags[kind]), igzip_lib.IsalError  # type: ignore[return-value]


def _in_background(blocks: Iterator[bytes]) -> Iterator[bytes]:
    from concurrent.futures import ThreadPoolExecutor  # most files are not compressed

    with ThreadPoolExecutor(1, "decompress") as pool:
        following = pool.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, blocks, None)
            yield block


def compressor(kind: Kind, level: int | None = None, *, streams: int = 1) -> Compressor:
    """A compressor for one stream, on all cores; the same input always gives the same output.

    Args:
        kind: The compression.
        level: gzip and zlib: 0 to 3 by isal, 4 to 9 by zlib, smaller and ten times slower; zstd:
            -7 to 22. The defaults, 2 and 1, write ten times as fast as zlib at its default of 6
            (TensorFlow's) and more; numbers get about the same size, text 20% and 9% more.
        streams: How many streams are written side by side: many of them keep the cores busy, and
            each has no threads of its own.

    Raises:
        UnsupportedError: There is no such compression or level.
        MissingExtraError: zstd is not installed.
    """
    if kind == "zstd":
        return _ZstdCompressor(_level(kind, level, ZSTD_LEVEL, -7, 22), streams <= FEW)
    if kind not in ("gzip", "zlib"):
        raise _unknown(kind)
    from tensorferry.codecs.deflate import DeflateCompressor

    return DeflateCompressor(kind, _level(kind, level, DEFLATE_LEVEL, 0, 9))


def _level(kind: Kind, level: int | None, default: int, lowest: int, highest: int) -> int:
    if level is None:
        return default
    if not lowest <= level <= highest:
        raise UnsupportedError(f"{kind} level is {level}, expected {lowest} to {highest}")
    return level


def _unknown(kind: str) -> UnsupportedError:
    return UnsupportedError(f'compression is {kind!r}, expected "gzip", "zlib" or "zstd"')


class _ZstdCompressor:
    """A zstd frame with a checksum, which the format makes optional.

    A stream that is long enough is compressed by threads of the library's own, in jobs of which it
    makes one frame: the jobs are the same ones, however many threads there are.
    """

    def __init__(self, level: int, threaded: bool) -> None:
        self._zstd = _zstd()
        self._level = level
        self._waiting = bytearray()
        self._stream = None if threaded else self._begin(0)

    def _begin(self, threads: int) -> Any:
        names = self._zstd.CompressionParameter
        options = {names.compression_level: self._level, names.checksum_flag: 1}
        if threads and names.nb_workers.bounds()[1]:  # a library may be built without
            options[names.nb_workers] = threads
            # A job looks at nothing before it: a quarter of the time, for 0.2% of the size.
            options[names.overlap_log] = 1
        return self._zstd.ZstdCompressor(options=options)

    def compress(self, buffer: Any, /) -> bytes:
        if self._stream is not None:
            return self._stream.compress(buffer)  # type: ignore[no-any-return]
        self._waiting += buffer
        if len(self._waiting) < LONG:
            return b""
        held, self._waiting = self._waiting, bytearray()
        self._stream = self._begin(os.cpu_count() or 1)
        return self._stream.compress(held)  # type: ignore[no-any-return]

    def finish(self) -> bytes:
        stream = self._begin(0) if self._stream is None else self._stream
        held, self._waiting = self._waiting, bytearray()
        return stream.compress(held) + stream.flush()  # type: ignore[no-any-return]


def _zstd() -> Any:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"zstd needs {name}, which is not installed", hint="pip install backports.zstd"
        ) from error
