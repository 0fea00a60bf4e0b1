"""The entries of a checkpoint's index: what each tensor is, and where its bytes lie.

Protobuf messages, in a table (`tensorferry.codecs.leveldb`). The empty key, which comes
first, has the header, all others are names of tensors or keys of slices:

    BundleHeaderProto   1 num_shards | 2 endianness: 0 little, 1 big | 3 version
    BundleEntryProto    1 dtype | 2 shape | 3 shard_id | 4 offset | 5 size
                        | 6 fixed32 masked crc32c | 7 slices

What is zero is left out. A tensor's bytes lie in the data file `shard_id`, whole and in C order; of
one with slices there are none, and each slice has an entry of its own
(`tensorferry.formats.checkpoint.slices`). Here they are parsed one by one, and made; all of an
index together is `tensorferry.formats.checkpoint.index`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tensorferry import _native, dtypes
from tensorferry.codecs.wire import varint
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.tensors.infos import MAX_RANK

# The version that we and TensorFlow write.
PRODUCER = 1
VARINT, FIXED32, BYTES = 0, 5, 2
MAX_DIMENSIONS = 254
SIGNED = 1 << 63

# The key of what we keep of tensors beside their values.
NOTE = "_TENSORFERRY"

Extents = tuple[tuple[int, int], ...]


class Header(NamedTuple):
    """How many data files there are, and the byte order of what is in them."""

    shards: int
    big_endian: bool


class Kind(NamedTuple):
    """What entries of one dtype and shape have in common."""

    row: DType
    shape: tuple[int, ...]
    elements: int
    nbytes: int | None  # None where the shape does not tell


class Entry(NamedTuple):
    """A tensor, or a slice of one, in a data file."""

    kind: Kind
    shard: int
    offset: int
    size: int
    crc: int
    slices: tuple[Extents, ...] = ()


def shown(key: bytes) -> str:
    """A key, as an error shows it."""
    return key[:200].decode(errors="backslashreplace")


def parse_header(data: Any, start: int, end: int) -> Header:
    """The header of an index.

    Raises:
        FormatError: It cannot be one.
        UnsupportedError: It is for newer readers.
    """
    shards = endianness = producer = consumer = 0
    bad: list[int] = []
    for number, wire, first, last in _native.MessageFields(data, start, end):
        if (number, wire) == (1, VARINT):
            shards = _signed(first)
        elif (number, wire) == (2, VARINT):
            endianness = first
        elif (number, wire) == (3, BYTES):
            for inner, kind, value, stop in _native.MessageFields(data, first, last):
                if (inner, kind) == (1, VARINT):
                    producer = _signed(value)
                elif (inner, kind) == (2, VARINT):
                    consumer = _signed(value)
                elif inner == 3:  # small numbers, each of one byte
                    bad += [value] if kind == VARINT else data[value:stop]
    if not 0 < shards < 2**31:
        raise FormatError(f"{shards} data files, expected 1 or more", offset=start)
    if endianness not in (0, 1):
        raise FormatError(f"byte order {endianness}, expected 0 or 1", offset=start)
    if consumer > PRODUCER or PRODUCER in bad:
        raise UnsupportedError(
            f"the checkpoint is for readers of version {max(consumer, PRODUCER + 1)} or later, "
            f"this one knows {PRODUCER}",
            offset=start,
            hint="a newer tensorferry may read it",
        )
    if producer < 0:
        raise FormatError(f"written by version {producer}, expected 0 or more", offset=start)
    return Header(shards, endianness == 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= SIGNED else value


def parse_entry(data: Any, start: int, end: int) -> Entry:
    """An entry of any form; errors have the offset in `data`."""
    entry = parse_fields(data, start, end)
    _check(entry, start)
    return entry


def parse_fields(data: Any, start: int, end: int) -> Entry:
    """An entry whose numbers are not checked yet, or the start of one."""
    enum = shard = offset = size = crc = 0
    shape: tuple[int, ...] = ()
    pieces = []
    for number, wire, first, last in _native.MessageFields(data, start, end):
        expected = FIXED32 if number == 6 else BYTES if number in (2, 7) else VARINT
        if number <= 7 and wire != expected:
            raise FormatError(f"field {number} of an entry has wire type {wire}", offset=start)
        if number == 1:
            enum = first
        elif number == 2:
            shape = parse_shape(data, first, last)
        elif number == 3:
            shard = _signed(first)
        elif number == 4:
            offset = _signed(first)
        elif number == 5:
            size = _signed(first)
        elif number == 6:
            crc = first
        elif number == 7:
            from tensorferry.formats.checkpoint import slices as checkpoint_slices

            pieces.append(checkpoint_slices.parse(data, first, last))
    kind = make_kind(enum, shape, start)
    return Entry(kind, shard, offset, size, crc, tuple(pieces))


def parse_shape(data: Any, start: int, end: int) -> tuple[int, ...]:
    """The dimensions of a TensorShapeProto.

    Raises:
        FormatError: It has none, or a negative one.
    """
    shape = []
    for number, wire, first, last in _native.MessageFields(data, start, end):
        if (number, wire) == (3, VARINT) and first:
            raise FormatError("a shape of unknown rank", offset=start)
        if (number, wire) != (2, BYTES):
            continue
        size = 0
        for inner, kind, value, _ in _native.MessageFields(data, first, last):
            if (inner, kind) == (1, VARINT):
                size = _signed(value)
        if size < 0:
            raise FormatError(f"a dimension of {size}, expected 0 or more", offset=first)
        shape.append(size)
    if len(shape) > MAX_DIMENSIONS:
        raise FormatError(
            f"{len(shape)} dimensions, expected at most {MAX_DIMENSIONS}", offset=start
        )
    return tuple(shape)


def make_kind(enum: int, shape: tuple[int, ...], offset: int) -> Kind:
    """The dtype and shape of an entry, checked.

    Raises:
        FormatError: There is no such dtype, or no such array.
        UnsupportedError: NumPy has no arrays of so many dimensions.
    """
    row = dtypes.BY_ENUM.get(enum - 100 if enum > 100 else enum)
    if row is None or row.name == "resource":
        raise FormatError(
            f"dtype number {enum}, expected one of 1 to {dtypes.TABLE[-1].enum} that holds values",
            offset=offset,
        )
    if len(shape) > MAX_RANK:
        raise UnsupportedError(
            f"a tensor of {len(shape)} dimensions: NumPy has at most {MAX_RANK}", offset=offset
        )
    itemsize = (row.bits + 7) // 8 or 8  # of strings and the like, a pointer
    if math.prod(size for size in shape if size) * itemsize >= SIGNED:
        raise FormatError(f"no array has the shape {str(list(shape))[:60]}", offset=offset)
    elements = math.prod(shape)
    return Kind(row, shape, elements, elements * itemsize if row.bits else None)


def _check(entry: Entry, start: int) -> None:
    kind, _, offset, size, _, pieces = entry
    if offset < 0 or size < 0 or offset + size >= SIGNED:
        raise FormatError(f"{size} bytes at offset {offset}, expected 0 or more", offset=start)
    if pieces:
        if size or offset:
            raise FormatError("a tensor of slices with bytes of its own", offset=start)
        return
    if kind.nbytes is not None and size != kind.nbytes:
        raise FormatError(
            f"{size} bytes, expected {kind.nbytes} "
            f"for {kind.row.name} of shape {str(list(kind.shape))[:60]}",
            offset=start,
        )
    if kind.nbytes is None and size < kind.elements:
        raise FormatError(
            f"{size} bytes for {kind.elements} of {kind.row.name}, each of which takes some",
            offset=start,
        )


def data_path(prefix: str, shard: int, shards: int) -> str:
    """The path of a data file."""
    return f"{prefix}.data-{shard:05}-of-{shards:05}"


# Writing


def encode_header(shards: int) -> bytes:
    """The header of a checkpoint with so many data files."""
    return b"\x08" + varint(shards) + b"\x1a\x02\x08" + varint(PRODUCER)


def encode_kind(row: DType, shape: tuple[int, ...]) -> bytes:
    """The start of an entry: its dtype and shape."""
    dimensions = b""
    for size in shape:
        number = b"\x08" + varint(size) if size else b""
        dimensions += b"\x12" + varint(len(number)) + number
    return b"\x08" + varint(row.enum) + b"\x12" + varint(len(dimensions)) + dimensions


def encode_place(shard: int, offset: int, size: int, crc: int) -> bytes:
    """The rest of an entry."""
    parts = b"\x18" + varint(shard) if shard else b""
    if offset:
        parts += b"\x20" + varint(offset)
    if size:
        parts += b"\x28" + varint(size)
    return parts + (b"\x35" + crc.to_bytes(4, "little") if crc else b"")
