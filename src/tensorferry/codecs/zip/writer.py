"""Zip archives, written front to back, to a sink that need not seek.

The local header has the sizes and the checksum where they are known before the data: for stored
members, and for deflated ones up to `HELD`. Otherwise a descriptor follows the data. Numbers beyond
four bytes are written as zip64. A member is deflated in pieces of `PIECE`, none of which refers to
the one before, by threads (`tensorferry.codecs.deflate`). The bytes depend neither on the time nor
on the number of threads.

`tensorferry.codecs.zip.archive` shows the bytes, and reads them.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from isal import isal_zlib

from tensorferry import _native
from tensorferry.classes import NamedTuple
from tensorferry.codecs import deflate as deflating
from tensorferry.codecs.compression import DEFLATE_LEVEL
from tensorferry.codecs.zip.directory import (
    DEFLATED,
    DESCRIPTOR,
    DESCRIPTOR_SIGNATURE,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    ENTRY,
    ENTRY_SIGNATURE,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR,
    LOCATOR_SIGNATURE,
    STORED,
    UTF8,
    ZIP64_FIELD,
    name_fault,
)
from tensorferry.errors import UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Data = Buffer | np.ndarray[Any, np.dtype[Any]]

_ALIGNMENT_FIELD = 0xD935

PIECE = 2 << 20
"""How many bytes are deflated without reference to the others, so that threads share a member."""

HELD = 32 << 20
"""A member up to this size is deflated in memory, so that its header can tell the sizes."""

ZIP64_FROM = 0xFFFFFFFF
"""The first number that needs eight bytes: four bytes of this say to look in the zip64 field."""

_DATE = 1 << 5 | 1  # the first of January 1980, where zip's time begins
_UNIX = 3 << 8
_REGULAR_FILE = (stat.S_IFREG | 0o644) << 16
_VERSION, _VERSION64 = 20, 45

# Members below the first size are gathered, up to the second size.
SMALL, GATHERED = 16 << 10, 1 << 20

_FAR = 1 << 31  # where no number behind some small members needs eight bytes yet

_DEFLATE_END = b"\x03\x00"  # an empty last block


class Sink(Protocol):
    """Takes bytes, in order."""

    def write(self, buffer: Buffer, /) -> object:
        """Takes the bytes of a contiguous buffer."""


class _Member(NamedTuple):
    """What both headers of a member say of it."""

    raw_name: bytes
    flags: int
    method: int
    checksum: int
    stored_size: int
    size: int
    zip64: bool


class Writer:
    """Writes an archive to a sink, front to back; the same members give the same bytes.

    As a context manager it finishes the archive if the block raises nothing.

        with Writer(sink, deflate=True) as archive:
            archive.write("kernel.npy", header, array)

    Args:
        sink: Takes the bytes, the caller's own buffers among them.
        deflate: Deflate members where that makes them smaller.
        level: 0 to 3 by isal, 4 to 9 by zlib, smaller and ten times slower; 2 by default.
        align: The data of stored members starts at a multiple of this, so that arrays in a mapped
            file are aligned; 1 leaves no room between members.

    Raises:
        UnsupportedError: There is no such level or alignment.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        deflate: bool = False,
        level: int | None = None,
        align: int = 64,
    ) -> None:
        self._level = DEFLATE_LEVEL if level is None else level
        if not 0 <= self._level <= 9:
            raise UnsupportedError(f"deflate level is {level}, expected 0 to 9")
        if not 1 <= align <= 1 << 15:
            raise UnsupportedError(f"alignment is {align}, expected 1 to {1 << 15}")
        self._sink = sink
        self._deflate = deflate
        self._align = align
        self._position = 0
        self._gathered: list[bytes] = []
        self._room = GATHERED
        self._names: set[bytes] = set()
        self._entries: list[bytes] = []  # of the directory
        self._count = 0
        self._unfinished: bytes | None = None

    def write(self, name: str, *buffers: Data, deflate: bool | None = None) -> None:
        """Writes a member of one or several buffers, which follow each other in it.

        Args:
            name: Its path, with `/` between the parts.
            *buffers: Contiguous buffers or arrays; stored ones go to the sink as they are.
            deflate: Overrides the writer's own choice.

        Raises:
            UnsupportedError: The archive has such a member, or cannot have one of that name.
        """
        raw_name = self._begin(name)
        views = list(map(_bytes_of, buffers))
        size = sum(map(len, views))
        deflate = self._deflate if deflate is None else deflate
        if deflate and size > HELD:
            self._write_unknown(raw_name, views, deflate=True, zip64=size + size // 64 > ZIP64_FROM)
        else:
            self._write_known(raw_name, views, size, deflate=deflate and size > 0)

    def write_small(self, members: Sequence[tuple[str, bytes, Any]]) -> None:
        """Stores members of a head and a contiguous array of numbers each, as `write` does.

        They are encoded together, in memory: they should be small, and not too many.

        Raises:
            UnsupportedError: As in `write`; none of them is written then.
        """
        if self._position >= _FAR:
            for name, head, array in members:
                self.write(name, head, array, deflate=False)
            return
        named = [(self._begin(name), head, array) for name, head, array in members]
        data, entries = _native.zip_stored(named, self._position, self._align)
        self._put(data)
        self._entries.append(entries)
        self._count += len(named)

    def write_blocks(
        self, name: str, blocks: Iterable[Data], *, deflate: bool | None = None
    ) -> None:
        """Writes a member of blocks of unknown number and sizes, in bounded memory.

        Args:
            name: Its path, with `/` between the parts.
            blocks: Contiguous buffers, which must not change once they were given.
            deflate: Overrides the writer's own choice.

        Raises:
            UnsupportedError: As in `write`.
        """
        raw_name = self._begin(name)
        deflate = self._deflate if deflate is None else deflate
        views = (_bytes_of(block) for block in blocks)
        held: list[bytes | memoryview] = []
        size = 0
        for view in views:
            held.append(view)
            size += len(view)
            if size > HELD:
                rest = _chain(held, views)
                self._write_unknown(raw_name, rest, deflate=deflate, zip64=True)
                return
        self._write_known(raw_name, held, size, deflate=deflate and size > 0)

    def finish(self) -> None:
        """Writes the directory; nothing can be written afterwards."""
        self._check_whole()
        start = self._position
        self._put(b"".join(self._entries))
        stop, count = self._position, self._count
        length = stop - start
        if count >= 0xFFFF or length >= ZIP64_FROM or start >= ZIP64_FROM:
            version = _UNIX | _VERSION64, _VERSION64
            sizes = count, count, length, start
            self._put(END64.pack(END64_SIGNATURE, END64.size - 12, *version, 0, 0, *sizes))
            self._put(LOCATOR.pack(LOCATOR_SIGNATURE, 0, stop, 1))
        count, length, start = min(count, 0xFFFF), _narrow(length), _narrow(start)
        self._put(END.pack(END_SIGNATURE, 0, 0, count, count, length, start, 0))
        self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.finish()

    def _begin(self, name: str) -> bytes:
        self._check_whole()
        fault = name_fault(name)
        if fault is None and name.endswith("/"):
            fault = "is a directory's"
        try:
            raw_name = name.encode()
        except UnicodeEncodeError:
            raw_name, fault = b"", "is no text that UTF-8 can carry"
        if fault is None and raw_name in self._names:
            fault = "is there already"
        if len(raw_name) > 0xFFFF:
            fault = "is longer than 65535 bytes"
        if fault is not None:
            raise UnsupportedError(f"the name {name[:200]!r} {fault}, expected another")
        self._names.add(raw_name)
        return raw_name

    def _check_whole(self) -> None:
        if self._unfinished is not None:
            raise ValueError(f"member {self._unfinished.decode()!r} was not written to its end")

    def _write_known(
        self, raw_name: bytes, views: list[bytes | memoryview], size: int, *, deflate: bool
    ) -> None:
        checksum = 0
        for view in views:
            checksum = isal_zlib.crc32(view, checksum)
        contents: Sequence[bytes | memoryview] = views
        method, stored_size = STORED, size
        if deflate:
            deflated = [*self._deflated(_pieces(views)), _DEFLATE_END]
            length = sum(map(len, deflated))
            if length < size:
                contents, method, stored_size = deflated, DEFLATED, length
        zip64 = max(size, stored_size) >= ZIP64_FROM
        flags = 0 if raw_name.isascii() else UTF8
        member = _Member(raw_name, flags, method, checksum, stored_size, size, zip64)
        self._unfinished, offset = raw_name, self._position
        header = self._header(member)
        if stored_size < SMALL:  # a write takes longer than a copy
            self._put(b"".join([*header, *contents]))
        else:
            for buffer in (*header, *contents):
                self._put(buffer)
        self._done(member, offset)

    def _write_unknown(
        self, raw_name: bytes, views: Iterable[bytes | memoryview], *, deflate: bool, zip64: bool
    ) -> None:
        """Writes a member whose sizes and checksum follow it."""
        method = DEFLATED if deflate else STORED
        flags = DESCRIPTOR if raw_name.isascii() else DESCRIPTOR | UTF8
        member = _Member(raw_name, flags, method, 0, 0, 0, zip64)
        self._unfinished, offset = raw_name, self._position
        self._put(b"".join(self._header(member)))
        begin = self._position
        size = checksum = 0

        def measured() -> Iterator[bytes | memoryview]:
            nonlocal size, checksum
            for view in views:
                checksum = isal_zlib.crc32(view, checksum)
                size += len(view)
                yield view

        if deflate:
            for piece in self._deflated(_pieces(measured())):
                self._put(piece)
            self._put(_DEFLATE_END)
        else:
            for view in measured():
                self._put(view)
        stored_size = self._position - begin
        form = "<4sI2Q" if zip64 else "<4s3I"
        self._put(struct.pack(form, DESCRIPTOR_SIGNATURE, checksum, stored_size, size))
        known = member._replace(checksum=checksum, stored_size=stored_size, size=size)
        self._done(known, offset)

    def _header(self, member: _Member) -> tuple[bytes, bytes, bytes]:
        """The local header of a member that starts here: numbers, name and extra fields."""
        raw_name, flags, method, checksum, stored_size, size, zip64 = member
        extra = b""
        if zip64:
            extra = struct.pack("<2H2Q", ZIP64_FIELD, 16, size, stored_size)
            size = stored_size = 0xFFFFFFFF
        if method == STORED:
            end = self._position + LOCAL.size + len(raw_name) + len(extra)
            extra += _padding(-end % self._align, self._align)
        version = _VERSION64 if zip64 else _VERSION
        sizes = checksum, stored_size, size, len(raw_name), len(extra)
        return (
            LOCAL.pack(LOCAL_SIGNATURE, version, flags, method, 0, _DATE, *sizes),
            raw_name,
            extra,
        )

    def _done(self, member: _Member, offset: int) -> None:
        self._entries.append(_entry(member, offset))
        self._count += 1
        self._unfinished = None

    def _put(self, buffer: bytes | memoryview) -> None:
        size = len(buffer)
        self._position += size
        if buffer.__class__ is bytes and size < self._room:
            self._gathered.append(buffer)
            self._room -= size
            return
        self._flush()
        if size:
            self._sink.write(buffer)

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered, self._room = self._gathered, [], GATHERED
            self._sink.write(b"".join(gathered))

    def _deflated(self, pieces: Iterator[list[memoryview]]) -> Iterator[bytes]:
        """The pieces deflated, in their order: blocks that refer to nothing before them."""
        how = self._level, zlib.Z_FULL_FLUSH
        first = next(pieces, None)
        if first is None:
            return
        second = next(pieces, None)
        if second is None:  # which needs no thread
            yield deflating.deflate(first, *how)
            return
        line = deflating.Line()
        try:
            for piece in chain([first, second], pieces):
                line.start(piece, *how)
                yield from line.ready(2 * deflating.cores())
            yield from line.ready(0)
        finally:
            line.drop()


def _chain(
    first: list[bytes | memoryview], rest: Iterator[bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    """Both, one after the other, without holding on to what was given."""
    first.reverse()
    while first:
        yield first.pop()
    yield from rest


def _bytes_of(buffer: Data) -> bytes | memoryview:
    """A buffer as a flat run of bytes, whatever the type of its elements."""
    if buffer.__class__ is bytes:
        return buffer
    if isinstance(buffer, np.ndarray):  # NumPy exports no small dtype as a buffer with a format
        return buffer.reshape(-1).view(np.uint8).data if buffer.nbytes else memoryview(b"")
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _pieces(views: Iterable[bytes | memoryview]) -> Iterator[list[memoryview]]:
    """The same bytes in groups of `PIECE`, the last one smaller."""
    piece: list[memoryview] = []
    room = PIECE
    for given in views:
        view, position = memoryview(given), 0
        while position < len(view):
            part = view[position : position + room]
            piece.append(part)
            position += len(part)
            room -= len(part)
            if not room:
                yield piece
                piece, room = [], PIECE
    if piece:
        yield piece


@lru_cache(1 << 7)
def _padding(length: int, align: int) -> bytes:
    """An extra field that moves what follows by a length, or by a multiple of `align` more.

    It is the one of Android's zipalign: the alignment, then zeros.
    """
    if not length:
        return b""
    while length < 6:
        length += align
    return struct.pack("<3H", _ALIGNMENT_FIELD, length - 4, align) + bytes(length - 6)


def _narrow(number: int) -> int:
    return number if number < ZIP64_FROM else 0xFFFFFFFF


def _entry(member: _Member, offset: int) -> bytes:
    """A member's entry in the directory.

    Args:
        member: The member.
        offset: Where its local header starts.
    """
    raw_name, flags, method, checksum, stored_size, size, zip64 = member
    extra, version = b"", _VERSION64 if zip64 else _VERSION
    if max(size, stored_size, offset) >= ZIP64_FROM:
        wide = [number for number in (size, stored_size, offset) if number >= ZIP64_FROM]
        extra = struct.pack(f"<2H{len(wide)}Q", ZIP64_FIELD, 8 * len(wide), *wide)
        version = _VERSION64
    fixed = ENTRY.pack(
        ENTRY_SIGNATURE,
        _UNIX | version,
        version,
        flags,
        method,
        0,
        _DATE,
        checksum,
        _narrow(stored_size),
        _narrow(size),
        len(raw_name),
        len(extra),
        0,
        0,
        0,
        _REGULAR_FILE,
        _narrow(offset),
    )
    return fixed + raw_name + extra
