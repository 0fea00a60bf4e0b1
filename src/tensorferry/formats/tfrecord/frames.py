"""TFRecord: a stream of length-prefixed, checksummed byte records.

One record, little-endian:

    uint64 length | uint32 checksum of length | data | uint32 checksum of data

The checksums are masked crc32c. There is no header and no index; gzip, zlib or (ours alone) zstd
compress the file as a whole. Framing and checksums run in `tensorferry._native` without the GIL;
this module owns windows over a file, what happens at damage, and repair. Files that say where the
records are belong to `tensorferry.formats.tfrecord.index`; what is inside a record is left to
`tensorferry.formats.tfrecord.example`.

The length's checksum is always checked: without it a length is no length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from tensorferry import _native, limits
from tensorferry.classes import NamedTuple
from tensorferry.codecs import compression
from tensorferry.errors import (
    ChecksumError,
    FormatError,
    LimitError,
    TruncatedError,
)
from tensorferry.progress import METER, Progress
from tensorferry.rows.rows import Damage
from tensorferry.storage import Sink, Source
from tensorferry.storage.pages import release
from tensorferry.tensors.values import Array

NAME = "tfrecord"

HEADER = 12
FOOTER = 4
# Number of bytes of a compressed file or a pipe that are scanned together.
WINDOW = 1 << 20
# Number of bytes of a mapped file that are scanned together, and whose pages are released together.
PIECE = 16 << 20
# Number of bytes that are kept to search for the record behind damage; a longer one is lost, too.
RECOVERY = 16 << 20
# Searching costs time for each damage and for each byte: after so many damages in a file, a search
# starts with few bytes, so that no file can ask for the product of both.
MANY_DAMAGES = 16
SEARCH = 1 << 16
MANY = 1 << 62

OnError = Literal["raise", "skip", "keep"]


class Status(IntEnum):
    """What is at an offset: see native/core/tfrecord.h."""

    RECORD = 0
    END = 1
    SHORT_HEADER = 2
    BAD_LENGTH = 3
    SHORT_DATA = 4
    BAD_DATA = 5


def sniff(head: bytes) -> bool:
    """Whether the first length fits its checksum."""
    return len(head) >= HEADER and _native.tfrecord_scan(head, 0, 1, False)[2] in (
        Status.RECORD,
        Status.SHORT_DATA,
    )


class Segment(NamedTuple):
    """Whole frames that follow each other in a buffer."""

    buffer: bytes | memoryview
    start: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    end: int
    base: int  # where the buffer starts in the decompressed file
    first: int  # number of the first record in its file
    path: str
    verify: bool  # whether the checksums of the data are still to be checked

    def records(self) -> list[bytes]:
        """The records' bytes.

        Raises:
            ChecksumError: The data of a record does not fit its checksum.
        """
        records, end, status = _native.tfrecord_read(
            self.buffer, self.start, self.count, self.verify
        )
        if status != Status.RECORD:
            raise self.corrupt(len(records), end)
        return records

    def split(self, count: int) -> tuple[Segment, Segment]:
        """The first `count` frames, and the rest."""
        _, end, _ = _native.tfrecord_scan(self.buffer, self.start, count, False)
        return self._replace(count=count, end=end), self._replace(
            start=end, count=self.count - count, first=self.first + count
        )

    def check(self) -> int:
        """Verifies the data of the records, and gives their number.

        Raises:
            ChecksumError: The data of a record does not fit its checksum.
        """
        done, end, status = _native.tfrecord_scan(self.buffer, self.start, self.count, True)
        if status != Status.RECORD:
            raise self.corrupt(done, end)
        return self.count

    def corrupt(self, done: int, offset: int) -> ChecksumError:
        """The error for the frame at `offset`, after `done` good ones."""
        places = locate(self.buffer, offset, 1, verify=False)
        if not len(places):
            return ChecksumError(
                f"record {self.first + done} is not here: the bytes are no length with its "
                "checksum, expected one by the index",
                path=self.path,
                offset=self.base + offset,
                hint="remove the index beside the file and write it again",
            )
        start, end = int(places[0, 0]), int(places[0].sum())
        stored = int.from_bytes(self.buffer[end : end + FOOTER], "little")
        found = masked_checksum(self.buffer[start:end])
        return ChecksumError(
            f"record {self.first + done} is corrupt: "
            f"data checksum is 0x{found:08x}, stored 0x{stored:08x}",
            path=self.path,
            offset=self.base + offset,
            hint="on_error='skip' leaves it out; tensorferry.repair(path, target) keeps the others",
        )


def within(segments: Iterable[Segment], start: int, stop: int) -> Iterator[Segment]:
    """The frames of segments from one number to another, counted over all of them."""
    before = 0
    for segment in segments if start < stop else ():
        after = before + segment.count
        if after > start:
            if before < start:
                _, segment = segment.split(start - before)
            if after > stop:
                segment, _ = segment.split(segment.count - (after - stop))
            yield segment
        before = after
        if before >= stop:
            return


def masked_checksum(data: bytes | memoryview) -> int:
    """The checksum that a record carries for its data."""
    crc = _native.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def locate(buffer: Any, start: int, limit: int, *, verify: bool) -> Array:
    """Offset and length of the data of records that follow each other: int64 [records, 2]."""
    pairs, _, _ = _native.tfrecord_index(buffer, start, limit, verify)
    return np.frombuffer(pairs, np.int64).reshape(-1, 2)


class Trail:
    """Segments that were read: their pages are released."""

    def __init__(self) -> None:
        self._buffer: Any = None
        self._start = 0
        self._end = 0

    def add(self, segment: Segment) -> None:
        """Takes the next segment that nobody needs any more."""
        if segment.buffer is not self._buffer or segment.start < self._end:
            self._buffer, self._start = segment.buffer, segment.start
        self._end = segment.end
        if self._end - self._start >= PIECE and isinstance(self._buffer, memoryview):
            release(self._buffer[self._start : self._end])
            self._start = self._end

    def follow(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The segments; each is released when the next one is asked for."""
        for segment in segments:
            yield segment
            self.add(segment)


class Frames:
    """Walks over the frames of one file, in segments.

    Args:
        source: The file.
        verify: Check the checksums of the data: while scanning if damage is passed over, and
            otherwise when a segment is read, which may happen in another thread.
        on_error: "raise" on damage, "skip" it, or "keep" data whose checksum is wrong.
        damages: Takes a note of what was skipped or kept.
        start: Where to begin, if only a part of the file is wanted: the start of a frame.
        stop: Where that part ends; None is the end of the file.
        first: The number of the first record, in its file.
    """

    def __init__(
        self,
        source: Source,
        *,
        verify: bool = True,
        on_error: OnError = "raise",
        damages: list[Damage] | None = None,
        start: int | None = None,
        stop: int | None = None,
        first: int = 0,
    ) -> None:
        self.path = source.path
        self.size = source.size
        self.on_error = on_error
        self.damages = [] if damages is None else damages
        self.verify = verify
        self.record = first
        self.position = start or 0
        self.base = 0
        self.compression: str | None = None
        self.window: bytes | memoryview = b""
        self._more: Iterator[bytes] | None = None
        # The error that ended the stream early; it is raised after the records before it.
        self._failure: FormatError | None = None
        self._damage_count = 0
        self._source = source
        self._checked = 0  # up to where the file was there when that was looked at
        if start is None and stop is None:
            self._open(source)
        else:
            self.window = _part(source, start or 0, stop)

    def _open(self, source: Source) -> None:
        if source.buffer is not None:
            head, read = bytes(source.buffer[:HEADER]), source.read
        else:
            head, read = _peek(source)
        self.compression = detect_compression(head)
        if self.compression is not None:
            self._more = compression.decompressed(read, self.compression, path=self.path)
        elif source.buffer is not None:
            self.window = source.buffer
        else:
            self._more = iter(lambda: read(WINDOW), b"")

    @property
    def mapped(self) -> bool:
        """Whether the window is the whole file, uncompressed: offsets are places in the file."""
        return self._more is None

    def __iter__(self) -> Iterator[Segment]:
        """All frames in large segments; each is released when the next one is asked for."""
        return Trail().follow(iter(lambda: self.take(MANY), None))

    def take(self, limit: int) -> Segment | None:
        """The next whole frames, up to `limit` of them; None at the end of the file.

        Raises:
            FormatError: The next bytes are no frame, and damage is not passed over.
        """
        passing = self.on_error != "raise"
        while True:
            start = self.position
            count, end, status = self._scan(start, limit, self.verify and passing)
            if count:
                self.position = end
                METER.add(end - start)
                return self._segment(start, count, verify=self.verify and not passing)
            if status not in (Status.BAD_LENGTH, Status.BAD_DATA) and self._advance(
                self._wanted(Status(status))
            ):
                continue
            if self._failure is not None and (status == Status.END or not passing):
                self._fail()
                return None
            if status == Status.END:
                return None
            if not passing:
                raise self._error(Status(status))
            if (kept := self._pass_over(Status(status))) is not None:
                return kept

    def _scan(self, start: int, limit: int, verify: bool) -> tuple[int, int, int]:
        """Whole frames from `start` on: their number, where they end, and what follows them."""
        if self.mapped and start >= self._checked:
            self._checked = min(start + PIECE, len(self.window))
            self._source.check(self._checked)
        if self.mapped and len(self.window) - start > PIECE:
            near = memoryview(self.window)[: start + PIECE]
            count, end, status = _native.tfrecord_scan(near, start, limit, verify)
            if count:
                return count, end, status
        return _native.tfrecord_scan(self.window, start, limit, verify)

    def _segment(self, start: int, count: int, *, verify: bool) -> Segment:
        self.record += count
        first = self.record - count
        return Segment(
            self.window, start, count, self.position, self.base, first, self.path, verify
        )

    def _wanted(self, status: Status) -> int:
        """Number of bytes that may complete the frame at the position."""
        if status != Status.SHORT_DATA or self._more is None:
            return WINDOW
        length = int.from_bytes(self.window[self.position : self.position + 8], "little")
        if length <= limits.stream:
            missing = HEADER + length + FOOTER - (len(self.window) - self.position)
            return max(WINDOW, missing)
        if self.on_error != "raise":
            return 0
        raise LimitError(
            f"record {self.record} is said to take {length} bytes, {limits.stream} are allowed",
            path=self.path,
            offset=self.base + self.position,
            hint="raise tensorferry.limits.stream if the file is to be trusted",
        )

    def _advance(self, wanted: int) -> bool:
        """Moves the window to the position, and adds `wanted` bytes if there are any."""
        if self._more is None:
            return False
        parts: list[bytes | memoryview] = [self.window[self.position :]]
        while wanted > 0 and (block := self._next_block()):
            parts.append(block)
            wanted -= len(block)
        if len(parts) == 1:
            return False
        self.base += self.position
        self.position = 0
        self.window = b"".join(parts)
        return True

    def _next_block(self) -> bytes:
        assert self._more is not None
        try:
            return next(self._more, b"")
        except FormatError as error:
            self._failure, self._more = error, iter(())
            return b""

    def _fail(self) -> None:
        """Raises the error that ended the stream early, or notes it."""
        failure, self._failure = self._failure, None
        assert failure is not None
        if self.on_error == "raise":
            raise failure
        self._note(failure.message, self.base + self.position)

    def _pass_over(self, status: Status) -> Segment | None:
        """Moves past the damage at the position and notes it; returns data that is kept."""
        start, offset = self.position, self.base + self.position
        if status == Status.BAD_DATA:
            ((_, length),) = locate(self.window, start, 1, verify=False)
            self.position = start + HEADER + int(length) + FOOTER
            kept = self.on_error == "keep"
            self._note(PROBLEMS[status], offset, kept=kept)
            return self._segment(start, 1, verify=False) if kept else None
        span = len(self.window) if self._damage_count < MANY_DAMAGES else SEARCH
        while True:
            end = min(self.position + span, len(self.window))
            found = _native.tfrecord_find(memoryview(self.window)[:end], self.position + 1)
            if found < end:
                self.position = found
                break
            span *= 2
            if end < len(self.window):
                continue
            self.position = max(self.position, end - RECOVERY)
            if not self._advance(max(WINDOW, end - self.position)):
                self.position = end
                break
        self._note(PROBLEMS[status], offset)
        return None

    def _note(self, problem: str, offset: int, *, kept: bool = False) -> None:
        """Notes the damage from `offset` to the position."""
        self._damage_count += 1
        size = self.base + self.position - offset
        self.damages.append(Damage(self.path, self.record, offset, size, problem, kept))
        self.record += not kept  # what is skipped was a record, and keeps its number

    def _error(self, status: Status) -> FormatError:
        offset = self.base + self.position
        if offset == 0 and status in (Status.BAD_LENGTH, Status.SHORT_HEADER):
            head = memoryview(self.window)[:SEARCH]
            known = _known(bytes(head[:64]))
            strange = status == Status.BAD_LENGTH and (_native.tfrecord_find(head, 1) == len(head))
            if known or strange:
                start = f"starts with {bytes(head[:HEADER]).hex(' ')}, no length with its checksum"
                return FormatError(
                    f"not a TFRecord file: it {known or start}", path=self.path, offset=0
                )
        hint = (
            "on_error='skip' goes on behind it; tensorferry.repair(path, target) keeps the others"
        )
        if status == Status.BAD_LENGTH:
            return ChecksumError(
                f"record {self.record} is corrupt: its length does not fit its checksum",
                path=self.path,
                offset=offset,
                hint=hint,
            )
        return TruncatedError(
            f"the file ends inside record {self.record}: "
            f"{self.record} records come before byte {offset}",
            path=self.path,
            offset=offset,
            hint=hint,
        )


def detect_compression(head: bytes) -> compression.Kind | None:
    """The compression of a file that starts with these bytes, at least a header of them."""
    if sniff(head):
        return None
    kind = compression.detect(head)
    # One length in some hundred looks like zlib. If its checksum is damaged, its upper half still
    # tells: no zlib stream has four zeros there.
    return None if kind == "zlib" and head[4:8] == bytes(4) else kind


PROBLEMS = {
    Status.SHORT_HEADER: "the file ends inside a record's header",
    Status.BAD_LENGTH: "no record: the length does not fit its checksum",
    Status.SHORT_DATA: "the file ends inside a record's data",
    Status.BAD_DATA: "the data does not fit its checksum",
}

_KNOWN_HEADS = {
    b"\x89png": "is a PNG image",
    b"version https://git-lfs": "is a Git LFS pointer: run `git lfs pull`",
    b"<!doctype": "is an HTML page",
    b"<html": "is an HTML page",
    b"<?xml": "is an XML document",
    b"par1": "is a Parquet file",
    b"arrow1": "is an Arrow file",
    b"pk\x03\x04": "is a zip archive",
    b"\x93numpy": "is a NumPy array",
    bytes(HEADER): "starts with zeros",
}


def _known(head: bytes) -> str | None:
    lower = head.lstrip().lower()
    return next((what for start, what in _KNOWN_HEADS.items() if lower.startswith(start)), None)


def _part(source: Source, start: int, stop: int | None) -> memoryview:
    """The bytes of a file up to a place that was the end of a record when the file was divided."""
    whole = memoryview(source.everything())
    end = start if stop is None else stop
    if end > whole.nbytes:
        raise TruncatedError(
            f"the file ends here, and a part of it reached to byte {end} when it was divided",
            path=source.path,
            offset=whole.nbytes,
            hint="divide the file again",
        )
    return whole[:stop]


def _peek(source: Source) -> tuple[bytes, Any]:
    """The first bytes of a stream, and how to read it from its start all the same."""
    head = source.read(HEADER)
    pending = [head]

    def read(size: int) -> bytes:
        return pending.pop() if pending and pending[0] else source.read(size)

    return head, read


def repair(
    source: Source, sink: Sink, progress: Progress | None = None
) -> tuple[int, list[Damage]]:
    """Writes every whole record of a damaged file; gives their number and what was lost."""
    frames = Frames(source, on_error="skip")
    count = 0
    for segment in frames:
        sink.write(memoryview(segment.buffer)[segment.start : segment.end])
        count += segment.count
        if progress is not None:
            progress(count, None)
    return count, frames.damages
