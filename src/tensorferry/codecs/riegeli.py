"""Riegeli: the file of records that a chunked SavedModel (saved_model.cpb) is.

The file is a sequence of chunks of records, little-endian:

    uint64 hash of the header's rest | uint64 size of data | uint64 hash of data
    uint8 kind | uint56 number of records | uint64 size of all records
    data

Every 64 KiB a block header of 24 bytes interrupts them, wherever that falls; with it a reader can
start in the middle. The data of a chunk of kind "r" is

    uint8 compression | varint size | sizes of records, compressed | records, compressed

and compressed bytes start with a varint, their size before compression. Hashes are HighwayHash with
a fixed key. A position names a record: that of its chunk, plus the record's number in the chunk.
`tensorferry.formats.savedmodel.chunks` interprets the records of a SavedModel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tensorferry import _native
from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple
from tensorferry.codecs.protobuf import read_varint
from tensorferry.errors import (
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)

BLOCK = 1 << 16
BLOCK_HEADER = 24
USABLE = BLOCK - BLOCK_HEADER
HEADER = struct.Struct("<QQQQQ")

SIGNATURE, METADATA, PADDING, SIMPLE, TRANSPOSED = b"smprt"
# The first chunk of every file, after the first block header.
START = bytes.fromhex("83af70d10d884a3f00000000000000004000000000000000") + bytes.fromhex(
    "91bac23c9287e1a90000000000000000e19f13c0e9b1c3727300000000000000" + "00" * 8
)

RECORD = 1 << 12
"""As so many bytes each record counts: one byte of a file may be one."""

_KEY = b"Riegeli/records\nRiegeli/records\n"


class Record(NamedTuple):
    """A record, and the position that names it."""

    position: int
    data: memoryview


def highway_hash(data: bytes | memoryview) -> int:
    """The 64-bit HighwayHash of some bytes, under Riegeli's key."""
    return _native.highway_hash(data, _KEY)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with these bytes is one of records."""
    return head[: len(START)] == START


def read_records(
    source: bytes | memoryview, *, verify: bool = True, budget: Budget | None = None
) -> Iterator[Record]:
    """The records of a file, in order.

    Args:
        source: The whole file.
        verify: Check the hashes of data; the hashes of headers are always checked.
        budget: Counts what is decompressed; by default the file has its own.

    Raises:
        FormatError: The file is not a Riegeli file, or is damaged.
        LimitError: The chunks take far more memory than the file.
        UnsupportedError: Records are stored by column.
    """
    data = memoryview(source)
    if not sniff(bytes(data[: len(START)])):
        raise FormatError("no Riegeli file: it does not start with a file signature", offset=0)
    budget = Budget(len(data)) if budget is None else budget
    begin = 0
    while begin < len(data):
        header, place = _take(data, begin, HEADER.size)
        stored, size, stored_data, kind_and_count, decoded = HEADER.unpack(header)
        _check_hash(header[8:], stored, "the header of a chunk", begin)
        kind, count = kind_and_count & 0xFF, kind_and_count >> 8
        body, end = _take(data, place, size)
        # A chunk takes at least a byte a record, so that each has a position of its own.
        after = max(end, _boundary(begin + count))
        if after > len(data):
            raise TruncatedError(
                f"a chunk of {count} records ends at {after}, the file has {len(data)} bytes",
                offset=begin,
            )
        if verify:
            _check_hash(body, stored_data, "the data of a chunk", begin)
        if kind == SIMPLE:
            budget.take(RECORD * count, what=f"a chunk of {count} records", offset=begin)
            for number, record in enumerate(_read_simple(body, count, decoded, begin, budget)):
                yield Record(begin + number, record)
        elif kind == TRANSPOSED:
            raise UnsupportedError(
                "records that are stored by column ('transposed')",
                offset=begin,
                hint="write the file again without transpose, as TensorFlow does",
            )
        elif kind not in (SIGNATURE, METADATA, PADDING):
            raise FormatError(
                f"a chunk of kind {kind}, expected one of s, m, p, r, t", offset=begin
            )
        begin = after


def _take(data: memoryview, place: int, size: int) -> tuple[memoryview, int]:
    """The next bytes without block headers, and where they end."""
    if size > len(data) - place:
        raise TruncatedError(f"{len(data) - place} bytes are left, expected {size}", offset=place)
    pieces = []
    left = size
    while left:
        if place % BLOCK == 0:
            place += BLOCK_HEADER
        piece = data[place : min(place + left, place - place % BLOCK + BLOCK)]
        if not piece:
            raise TruncatedError(f"the file ends, expected {left} more bytes", offset=len(data))
        pieces.append(piece)
        place += len(piece)
        left -= len(piece)
    if len(pieces) == 1:
        return pieces[0], place
    return memoryview(b"".join(pieces)), place


def _boundary(place: int) -> int:
    """The first place from this one on at which a chunk may start."""
    remaining = -place % BLOCK
    return place + max(0, remaining - (USABLE - 1))


def _check_hash(data: memoryview, stored: int, what: str, offset: int) -> None:
    found = highway_hash(data)
    if found != stored:
        raise ChecksumError(f"{what} has hash {found:#x}, stored {stored:#x}", offset=offset)


def _read_simple(
    body: memoryview, count: int, decoded: int, begin: int, budget: Budget
) -> Iterator[memoryview]:
    """The records of a chunk."""
    if not body:
        raise TruncatedError("a chunk of records without data", offset=begin)
    try:
        length, place = read_varint(body, 1, len(body))
    except FormatError:
        raise FormatError("a chunk's sizes have no size", offset=begin) from None
    if length > len(body) - place:
        raise TruncatedError(f"sizes of {length} bytes do not fit their chunk", offset=begin)
    # A varint is at most ten bytes.
    sizes = _decompress(body[0], body[place : place + length], None, 10 * count, begin, budget)
    values = _decompress(body[0], body[place + length :], decoded, decoded, begin, budget)
    position = start = 0
    for _ in range(count):
        try:
            size, position = read_varint(sizes, position, len(sizes))
        except FormatError:
            raise FormatError(f"the sizes of {count} records end early", offset=begin) from None
        if size > len(values) - start:
            raise FormatError(f"a record of {size} bytes does not fit its chunk", offset=begin)
        yield values[start : start + size]
        start += size
    if position != len(sizes) or start != len(values):
        raise FormatError("a chunk has more bytes than its records", offset=begin)


def _decompress(
    kind: int, body: memoryview, expected: int | None, most: int, begin: int, budget: Budget
) -> memoryview:
    if kind == 0:
        size, place = len(body), 0
    else:
        try:
            size, place = read_varint(body, 0, len(body))
        except FormatError:
            raise FormatError("compressed bytes without their size", offset=begin) from None
    if size > most or (expected is not None and size != expected):
        raise FormatError(f"{size} bytes where the header has {most}", offset=begin)
    if kind == 0:
        return body
    budget.take(size, what="a chunk", key=("chunk", begin, expected is None), offset=begin)
    import cramjam
    import numpy as np

    decoders = {
        ord("b"): cramjam.brotli.decompress_into,
        ord("z"): cramjam.zstd.decompress_into,
        ord("s"): cramjam.snappy.decompress_raw_into,
    }
    if kind not in decoders:
        raise FormatError(f"compression {kind}, expected 0, 'b', 'z' or 's'", offset=begin)
    # Memory that is not written to is not taken. One byte more shows what is longer than it says.
    out = np.empty(size + 1, np.uint8)
    try:
        written = decoders[kind](bytes(body[place:]), memoryview(out))  # type: ignore[arg-type]
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        raise FormatError(
            f"a chunk is not what it was compressed to: {error}", offset=begin
        ) from None
    if written != size:
        raise FormatError(f"a chunk holds {written} bytes, expected {size}", offset=begin)
    return memoryview(out)[:size]  # type: ignore[arg-type]
