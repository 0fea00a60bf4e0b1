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
from functools import lru_cache
from typing import Any

from tensorferry import dtypes
from tensorferry._native import MessageFields
from tensorferry.classes import NamedTuple
from tensorferry.codecs.protobuf import Span
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.checkpoint import extents
from tensorferry.formats.checkpoint.extents import Extents
from tensorferry.formats.checkpoint.messages import TABLES, WRITER, Reader
from tensorferry.tensors.infos import MAX_RANK

# The version that we and TensorFlow write.
PRODUCER = 1
MAX_DIMENSIONS = 254
SIGNED = 1 << 63
# Up to how many bytes a header is remembered.
SHORT = 64

_FIELDS = TABLES["BundleEntryProto"]


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
    header = bytes(data[start:end])
    try:
        return _known_header(header) if len(header) <= SHORT else _parse_header(header)
    except (FormatError, UnsupportedError) as error:
        error.offset = start + (error.offset or 0)
        raise


def _parse_header(data: bytes) -> Header:
    reader = Reader(data)
    fields = reader.whole("BundleHeaderProto")
    version = reader.part(fields, "version", "VersionDef")
    shards, endianness = fields.get("num_shards", 0), fields.get("endianness", 0)
    producer, consumer = version.get("producer", 0), version.get("min_consumer", 0)
    if not 0 < shards < 2**31:
        raise FormatError(f"{shards} data files, expected 1 or more", offset=0)
    if endianness not in (0, 1):
        raise FormatError(f"byte order {endianness}, expected 0 or 1", offset=0)
    if consumer > PRODUCER or PRODUCER in version.get("bad_consumers", ()):
        raise UnsupportedError(
            f"the checkpoint is for readers of version {max(consumer, PRODUCER + 1)} or later, "
            f"this one knows {PRODUCER}",
            offset=0,
            hint="a newer tensorferry may read it",
        )
    if producer < 0:
        raise FormatError(f"written by version {producer}, expected 0 or more", offset=0)
    return Header(shards, endianness == 1)


# Nearly all checkpoints have one of a few.
_known_header = lru_cache(maxsize=64)(_parse_header)


def parse_entry(reader: Reader, start: int, end: int) -> Entry:
    """An entry of any form; errors have the offset in the reader's buffer."""
    entry = parse_fields(reader, start, end)
    _check(entry, start)
    return entry


def parse_fields(reader: Reader, start: int, end: int) -> Entry:
    """An entry whose numbers are not checked yet, or the start of one."""
    # Not through `read`, with which listing a checkpoint takes a third longer.
    enum = shard = offset = size = crc = 0
    shape: tuple[int, ...] = ()
    pieces = []
    for number, wire, first, last in MessageFields(reader.data, start, end):
        field = _FIELDS.get(number)
        if field is None:
            continue
        if wire != field.wire:
            raise FormatError(
                f"{field.name} of an entry has wire type {wire}, expected {field.wire}",
                offset=start,
            )
        if number == 1:
            enum = first
        elif number == 2:
            shape = parse_shape(reader, Span(first, last))
        elif number == 3:
            shard = _signed(first)
        elif number == 4:
            offset = _signed(first)
        elif number == 5:
            size = _signed(first)
        elif number == 6:
            crc = first
        elif number == 7:
            pieces.append(extents.parse(reader, Span(first, last)))
    kind = make_kind(enum, shape, start)
    return Entry(kind, shard, offset, size, crc, tuple(pieces))


@lru_cache(maxsize=1024)
def kind_of(head: bytes) -> Kind | None:
    """The kind of entries that start so; None if they have to be looked at one by one."""
    try:
        return parse_fields(Reader(head), 0, len(head)).kind
    except (FormatError, UnsupportedError):
        return None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= SIGNED else value


def parse_shape(reader: Reader, span: Span) -> tuple[int, ...]:
    """The dimensions of a TensorShapeProto.

    Raises:
        FormatError: The rank is not known, or a dimension is negative.
    """
    raw = reader.bytes(span)
    if raw in reader.shapes:
        return reader.shapes[raw]
    fields = reader.read("TensorShapeProto", span)
    if fields.get("unknown_rank"):
        raise FormatError("a shape of unknown rank", offset=span.start)
    shape = []
    for place in fields.get("dim", ()):
        size = reader.read("Dim", place).get("size", 0)
        if size < 0:
            raise FormatError(f"a dimension of {size}, expected 0 or more", offset=place.start)
        shape.append(size)
    if len(shape) > MAX_DIMENSIONS:
        raise FormatError(
            f"{len(shape)} dimensions, expected at most {MAX_DIMENSIONS}", offset=span.start
        )
    found = reader.shapes[raw] = tuple(shape)
    return found


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


@lru_cache(maxsize=64)
def encode_header(shards: int) -> bytes:
    """The header of a checkpoint with so many data files."""
    return WRITER.encode("BundleHeaderProto", num_shards=shards, version={"producer": PRODUCER})


@lru_cache(maxsize=1024)
def encode_kind(row: DType, shape: tuple[int, ...]) -> bytes:
    """The start of an entry: its dtype and shape."""
    dimensions = {"dim": [{"size": size} for size in shape]}
    return WRITER.encode("BundleEntryProto", dtype=dtypes.of_tensorflow(row).enum, shape=dimensions)
