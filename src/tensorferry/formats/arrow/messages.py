"""The messages of Arrow's IPC formats, as far as they are checked before PyArrow reads them.

A stream is a row of messages; a file is a stream between two magic words, with a list of its
messages (the footer) behind it:

    message   0xFFFFFFFF | int32 length | flatbuffer `Message`, padded | body
    stream    message of the schema | messages of dictionaries and batches | 0xFFFFFFFF 00000000
    file      "ARROW1" 00 00 | stream | flatbuffer `Footer` | int32 its length | "ARROW1"

Before version 0.15 a message began with its length. A body is the buffers of a batch; a compressed
one begins with the int64 length of what it unpacks to. Here lengths and places are held against
the bytes that are there, and sizes against `tensorferry.limits`. A schema must not name one part
of its flatbuffer many times, nor bring names that slow PyArrow's tables down. What the buffers mean
is for PyArrow (`tensorferry.formats.arrow.file`), which verifies flatbuffers and contents itself.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError, TruncatedError
from tensorferry.tensors.values import Array, check_budget

MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"

SCHEMA, DICTIONARY, BATCH = 1, 2, 3

_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("padding", "<i4"), ("body", "<i8")])
_SIZES = ("metadata", "body")
_NODE = np.dtype([("length", "<i8"), ("nulls", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("length", "<i8")])
_START = len(MAGIC) + 2
_END = 4 + len(MAGIC)


# By the numbers that Arrow has for them.
CODECS = {0: "lz4", 1: "zstd"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        offset: Where it begins.
        end: Where its body ends.
        kind: `SCHEMA`, `DICTIONARY`, `BATCH` or another number of Arrow's.
        rows: Of a batch, or of a dictionary's values.
        nulls: How many nulls each array has, children behind their parents.
        unpacked: How many bytes its buffers take in memory beside those of the source.
        codec: The compression of its buffers.
        version: Of Arrow's metadata.
    """

    offset: int
    end: int
    kind: int
    rows: int = 0
    nulls: Array = field(default_factory=lambda: np.empty(0, np.int64))
    unpacked: int = 0
    codec: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class Messages:
    """What a file or stream holds.

    Attributes:
        batches: Its record batches.
        has_dictionaries: Whether there are dictionaries beside them.
        ended: Whether the end is marked: a stream may also just stop.
    """

    batches: list[Message]
    has_dictionaries: bool
    ended: bool


class _Table:
    """A table of a flatbuffer; nothing outside the buffer is looked at."""

    def __init__(self, data: memoryview, place: int, offset: int) -> None:
        self._data, self._place, self._offset = data, place, offset
        self._fields = place - self._read("<i", place)
        self._size = self._read("<H", self._fields)

    @classmethod
    def root(cls, data: memoryview, offset: int) -> _Table:
        """The table that a flatbuffer begins with, which lies at `offset` in the source."""
        table = object.__new__(cls)
        table._data, table._offset = data, offset
        return cls(data, table._read("<I", 0), offset)

    def number(self, index: int, kind: str) -> int:
        """A number, 0 where there is none."""
        place = self._find(index)
        return 0 if place is None else self._read(kind, place)

    def table(self, index: int) -> _Table | None:
        """Another table."""
        place = self._find(index)
        return None if place is None else _Table(self._data, self._follow(place), self._offset)

    def structs(self, index: int, dtype: np.dtype[Any]) -> Array:
        """A vector of structs."""
        place = self._find(index)
        if place is None:
            return np.empty(0, dtype)
        place = self._follow(place)
        count = self._read("<I", place)
        if count * dtype.itemsize > len(self._data) - place - 4:
            raise self._broken(place)
        return np.frombuffer(self._data, dtype, count, place + 4)

    def _find(self, index: int) -> int | None:
        entry = 4 + 2 * index
        if entry + 2 > self._size:
            return None
        distance = self._read("<H", self._fields + entry)
        return self._place + distance if distance else None

    def _follow(self, place: int) -> int:
        return place + self._read("<I", place)

    def _read(self, kind: str, place: int) -> int:
        try:
            if place < 0:
                raise self._broken(place)
            return int(struct.unpack_from(kind, self._data, place)[0])
        except struct.error:
            raise self._broken(place) from None

    def _broken(self, place: int) -> FormatError:
        return FormatError(
            f"a flatbuffer of {len(self._data)} bytes points to byte {place} of itself",
            offset=self._offset,
        )


def scan_stream(source: memoryview) -> Messages:
    """The messages of a stream, one after the other.

    Raises:
        FormatError: A message is none, or asks for more than there is.
    """
    batches: list[Message] = []
    has_dictionaries, first, offset = False, True, 0
    while offset < len(source):
        message = _message(source, offset)
        if message is None:
            return Messages(batches, has_dictionaries, True)
        if first and message.kind != SCHEMA:
            raise FormatError(f"a stream begins with a message of kind {message.kind}, "
                              f"expected {SCHEMA}, a schema", offset=0)  # fmt: skip
        first = False
        if message.kind == BATCH:
            batches.append(message)
        has_dictionaries |= message.kind == DICTIONARY
        offset = message.end
    if first:
        raise TruncatedError("no bytes, expected an Arrow stream", offset=0)
    return Messages(batches, has_dictionaries, False)


def scan_file(source: memoryview) -> Messages:
    """The messages that the footer of a file lists.

    Raises:
        FormatError: The footer or a message lies outside the file, or asks for more than there is.
    """
    size = len(source)
    if size < _START + _END or bytes(source[-len(MAGIC) :]) != MAGIC:
        raise TruncatedError(
            f"an Arrow file of {size} bytes does not end with {MAGIC.decode()}",
            offset=size,
            hint="copy it again; a file that was not closed has no footer",
        )
    (length,) = struct.unpack_from("<i", source, size - _END)
    if not 0 < length <= size - _START - _END:
        raise FormatError(
            f"the footer takes {length} bytes, expected 1 to {size - _START - _END}",
            offset=size - _END,
        )
    start = size - _END - length
    data = source[start : start + length]
    footer = _Table.root(data, start)
    _check_schema(data, start, is_footer=True)
    blocks = [footer.structs(2, _BLOCK), footer.structs(3, _BLOCK)]
    # Whoever reads all batches takes as long as the file is, if no two share their bytes.
    taken = sum(float(part[name].sum(dtype=float)) for part in blocks for name in _SIZES)
    if taken > start:
        raise FormatError(
            f"the messages that the footer names take {taken:.0f} bytes together, {start} stand "
            "before it",
            offset=start,
        )
    dictionaries, batches = ([_of_block(source, start, block) for block in part] for part in blocks)
    for messages, kind in ((dictionaries, DICTIONARY), (batches, BATCH)):
        for message in messages:
            if message.kind != kind:
                raise FormatError(
                    f"the footer names a message of kind {message.kind}, expected {kind}",
                    offset=message.offset,
                )
    return Messages(batches, bool(dictionaries), True)


def check_memory(messages: list[Message], *, held: int) -> None:
    """Refuses batches that unpack to more than the file or `limits.memory` justifies."""
    total = sum(message.unpacked for message in messages)
    check_budget((total,), np.dtype(np.uint8), what="what was compressed", held=held)


def _check_schema(flatbuffer: memoryview, offset: int, *, is_footer: bool) -> None:
    refusal = _native.arrow_schema_refusal(flatbuffer, is_footer)
    if refusal:
        raise FormatError(f"the schema has {refusal}", offset=offset)


def _of_block(source: memoryview, limit: int, block: Any) -> Message:
    offset, metadata, _, body = block.item()
    if offset < _START or metadata <= 0 or body < 0 or offset + metadata + body > limit:
        raise FormatError(
            f"the footer places a message of {metadata} and {body} bytes at byte {offset}, "
            f"expected it between byte {_START} and {limit}"
        )
    message = _message(source[: offset + metadata + body], offset)
    if message is None:
        raise FormatError("the footer names a message that is empty", offset=offset)
    return message


def _message(source: memoryview, offset: int) -> Message | None:
    """The message that begins there, None if that is the mark of the end."""
    start = offset
    if bytes(source[start : start + 4]) == CONTINUATION:
        start += 4
    if start + 4 > len(source):
        raise TruncatedError(
            f"{len(source) - offset} bytes, expected the length of a message", offset=offset
        )
    (length,) = struct.unpack_from("<i", source, start)
    start += 4
    if length == 0:
        return None
    if length < 0:
        raise FormatError(f"a message of {length} bytes, expected 0 or more", offset=offset)
    if length > len(source) - start:
        raise TruncatedError(
            f"a message of {length} bytes, {len(source) - start} are left", offset=offset
        )
    table = _Table.root(source[start : start + length], start)
    kind, body = table.number(1, "<B"), table.number(3, "<q")
    start += length
    if not 0 <= body <= len(source) - start:
        raise TruncatedError(
            f"a message with a body of {body} bytes, {len(source) - start} are left", offset=offset
        )
    if kind == SCHEMA:
        _check_schema(source[start - length : start], offset, is_footer=False)
    header = table.table(2)
    end = start + body
    if header is not None and kind == DICTIONARY:
        header = header.table(1)
    if header is None or kind not in (BATCH, DICTIONARY):
        return Message(offset, end, kind)
    rows = header.number(0, "<q")
    if rows < 0:
        raise FormatError(f"a batch of {rows} rows, expected 0 or more", offset=offset)
    unpacked = _check_buffers(header, source[start:end], offset)
    packing = header.table(3)
    codec = None if packing is None else CODECS.get(packing.number(0, "<b"))
    nulls = header.structs(1, _NODE)["nulls"]
    return Message(offset, end, kind, rows, nulls, unpacked, codec, table.number(0, "<h") + 1)


def _check_buffers(batch: _Table, body: memoryview, offset: int) -> int:
    """How many bytes the buffers unpack to, all of which lie in the body; 0 if not compressed."""
    buffers = batch.structs(2, _BUFFER)
    starts, lengths = buffers["offset"], buffers["length"]
    bad = (starts < 0) | (lengths < 0) | (starts > len(body)) | (lengths > len(body) - starts)
    if bad.any():
        where = int(np.argmax(bad))
        raise FormatError(
            f"buffer {where} of a batch has {lengths[where]} bytes from byte {starts[where]} on, "
            f"its body {len(body)}",
            offset=offset,
        )
    if batch.table(3) is None:
        return 0
    total = 0
    for start, length in buffers[lengths >= 8].tolist():
        (size,) = struct.unpack_from("<q", body, start)
        if size < -1:
            raise FormatError(
                f"a buffer unpacks to {size} bytes, expected -1 or more", offset=offset
            )
        total += length - 8 if size == -1 else size
    return total
