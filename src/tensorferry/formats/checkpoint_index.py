"""The index of a checkpoint: what each tensor is, and where its bytes lie.

A table (`tensorferry.formats.checkpoint_table`) of protobuf messages. The empty key, which comes
first, has the header, all others are names of tensors or keys of slices:

    BundleHeaderProto   1 num_shards | 2 endianness: 0 little, 1 big | 3 version
    BundleEntryProto    1 dtype | 2 shape | 3 shard_id | 4 offset | 5 size
                        | 6 fixed32 masked crc32c | 7 slices

What is zero is left out. A tensor's bytes lie in the data file `shard_id`, whole and in C order; of
one with slices there are none, and each slice has an entry of its own
(`tensorferry.formats.checkpoint_slices`). Entries are parsed here in one pass and checked against
the sizes of the data files all together: a checkpoint may have a hundred thousand of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats import checkpoint_slices as slices
from tensorferry.formats.checkpoint_slices import Extents
from tensorferry.formats.checkpoint_table import Block, Table, varint
from tensorferry.tensors import MAX_RANK, Array

# The version that we and TensorFlow write.
PRODUCER = 1
VARINT, FIXED32, BYTES = 0, 5, 2
MAX_DIMENSIONS = 254
_SIGNED = 1 << 63


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


@dataclass(slots=True)
class Index:
    """A parsed index.

    Attributes:
        shards: How many data files there are.
        big_endian: The byte order of the data.
        numbers: The number of each key, in order.
        kinds: What `columns` refers to.
        columns: The kind, shard, offset, size and checksum of each number.
        slices: Of the tensors that have some, by number.
    """

    shards: int
    big_endian: bool = False
    numbers: dict[bytes, int] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)
    columns: Array = field(default_factory=lambda: np.zeros((5, 0), np.int64))
    slices: dict[int, tuple[Extents, ...]] = field(default_factory=dict)

    def kind(self, number: int) -> Kind:
        """The dtype and shape of an entry."""
        found: int = self.columns.item(0, number)
        return self.kinds[found]

    def entry(self, number: int) -> Entry:
        """An entry."""
        kind, shard, offset, size, crc = self.columns[:, number].tolist()
        found = self.slices.get(number, ())
        return Entry(self.kinds[kind], shard, offset, size, crc, found)

    def name(self, number: int) -> str:
        """The key of an entry, as an error shows it."""
        return _shown(list(self.numbers)[number])


def read(table: Table) -> Index:
    """All entries of an index.

    Raises:
        FormatError: Something in it cannot be.
        UnsupportedError: It is for newer readers.
    """
    index: Index | None = None
    path = table.source.path
    parser = _Parser()
    keys: list[bytes] = []
    columns = []
    for block in table.blocks():
        if index is None:
            index = _take_header(block, path)
            if not block.keys:
                continue
        columns.append(parser.parse(block, len(keys), path))
        keys += block.keys
    if index is None:
        raise FormatError("a table without a header", path=path, offset=0)
    index.numbers = dict(zip(keys, range(len(keys)), strict=True))
    index.kinds, index.slices = parser.kinds, parser.slices
    if columns:
        index.columns = np.concatenate(columns, axis=1)
    return index


def read_header(table: Table) -> Index:
    """Only what the header says: an index without entries.

    Raises:
        FormatError: It has none.
    """
    data = table.find(b"")
    if data is None:
        raise FormatError("a table without a header", path=table.source.path, offset=0)
    return _parse_header(data, 0, len(data))


def _shown(key: bytes) -> str:
    return key[:200].decode(errors="backslashreplace")


def _take_header(block: Block, path: str) -> Index:
    key, start, end = block.keys.pop(0), block.starts.pop(0), block.ends.pop(0)
    if key != b"":
        raise FormatError(
            f"the first key is {key[:60]!r}, expected the header's, which is empty",
            path=path,
            offset=block.offset,
        )
    try:
        return _parse_header(block.data, start, end)
    except (FormatError, UnsupportedError) as error:
        error.offset = block.offset + (error.offset or 0)
        raise error.located(path=path) from None


def _parse_header(data: Any, start: int, end: int) -> Index:
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
    return Index(shards, endianness == 1)


class _Parser:
    """Parses entries, a block at a time.

    Most start with a dtype and shape that others have too, and have all else in the order of its
    fields: their columns are taken from the bytes all together. Others are parsed one by one.
    """

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.slices: dict[int, tuple[Extents, ...]] = {}
        self._heads: dict[bytes, int] = {}
        self._known: dict[Kind, int] = {}

    def parse(self, block: Block, first: int, path: str) -> Array:
        """The columns of a block's entries, of which the first has the number `first`."""
        data = block.data
        heads, columns = _native.bundle_entries(data, block.starts, block.ends)
        known = self._heads
        for head in heads:
            if head not in known:
                known[head] = self._parse_head(head)
        table = np.frombuffer(bytearray(columns), np.int64).reshape(5, -1)
        table[0] = np.array([*(known[head] for head in heads), -1], np.int64)[table[0]]
        # Strings, of which the shape does not tell the size, are looked at one by one.
        sizes = [-1 if kind.nbytes is None else kind.nbytes for kind in self.kinds]
        sound = np.array([*sizes, -1], np.int64)[table[0]] == table[3]
        sound &= table[2] <= _SIGNED - 1 - table[3]
        for number in np.flatnonzero(~sound).tolist():
            key, start, end = block.keys[number], block.starts[number], block.ends[number]
            try:
                entry = _parse_entry(data, start, end)
            except (FormatError, UnsupportedError) as error:
                error.offset = block.offset + (error.offset or 0)
                raise error.located(path=path, tensor=_shown(key)) from None
            table[:, number] = (self._number(entry.kind), *entry[1:5])
            if entry.slices:
                self.slices[first + number] = entry.slices
        return table

    def _parse_head(self, head: bytes) -> int:
        """The kind of entries that start so; -1 if they have to be looked at one by one."""
        try:
            return self._number(_parse_fields(head, 0, len(head)).kind)
        except (FormatError, UnsupportedError):
            return -1

    def _number(self, kind: Kind) -> int:
        number = self._known.setdefault(kind, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        return number


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= _SIGNED else value


def _parse_entry(data: Any, start: int, end: int) -> Entry:
    """An entry of any form; errors have the offset in `data`."""
    entry = _parse_fields(data, start, end)
    _check(entry, start)
    return entry


def _parse_fields(data: Any, start: int, end: int) -> Entry:
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
            pieces.append(slices.parse(data, first, last))
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
    itemsize = 8 if row.numpy is None else row.numpy.itemsize
    if math.prod(size for size in shape if size) * itemsize >= _SIGNED:
        raise FormatError(f"no array has the shape {str(list(shape))[:60]}", offset=offset)
    elements = math.prod(shape)
    return Kind(row, shape, elements, elements * itemsize if row.bits else None)


def _check(entry: Entry, start: int) -> None:
    kind, _, offset, size, _, pieces = entry
    if offset < 0 or size < 0 or offset + size >= _SIGNED:
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


def check_places(index: Index, sizes: Mapping[int, int], path: Callable[[int], str]) -> None:
    """Refuses entries whose bytes are not there, or belong to two of them.

    Args:
        index: All entries.
        sizes: Of the data files that they lie in.
        path: Names a data file.

    Raises:
        FormatError: There are such entries.
    """
    numbers = _plain(index)
    if not len(numbers):
        return
    _, shard, offset, size, _ = index.columns[:, numbers]
    end = offset + size
    known = np.array(sorted(sizes), np.int64)
    room = np.array([sizes[number] for number in known.tolist()], np.int64)
    room = room[np.searchsorted(known, shard)]
    over = np.flatnonzero(end > room)
    if len(over):
        at = int(over[0])
        raise TruncatedError(
            f"the file has {room[at]} bytes, the tensor lies at {offset[at]} to {end[at]}",
            path=path(int(shard[at])),
            offset=int(room[at]),
            tensor=index.name(int(numbers[at])),
            hint="the file is cut, or belongs to another index",
        )
    order = np.lexsort((offset, shard))
    order = order[size[order] > 0]  # what is empty may lie anywhere
    shard, offset, end, numbers = shard[order], offset[order], end[order], numbers[order]
    clash = np.flatnonzero((shard[1:] == shard[:-1]) & (offset[1:] < end[:-1]))
    if len(clash):
        at = int(clash[0])
        raise FormatError(
            f"the bytes from {offset[at + 1]} on are also those of "
            f"{index.name(int(numbers[at]))!r}",
            path=path(int(shard[at])),
            offset=int(offset[at + 1]),
            tensor=index.name(int(numbers[at + 1])),
        )


def check_shards(index: Index, path: str) -> list[int]:
    """The data files that entries lie in.

    Raises:
        FormatError: One is none of the checkpoint's.
    """
    numbers = _plain(index)
    shards = index.columns[1, numbers]
    wrong = np.flatnonzero((shards < 0) | (shards >= index.shards))
    if len(wrong):
        raise FormatError(
            f"lies in data file {shards[wrong[0]]}, expected one of 0 to {index.shards - 1}",
            path=path,
            tensor=index.name(int(numbers[wrong[0]])),
        )
    return sorted(set(shards.tolist()))


def _plain(index: Index) -> Array:
    """The entries that have bytes of their own."""
    numbers = np.arange(index.columns.shape[1])
    return np.delete(numbers, list(index.slices)) if index.slices else numbers


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
