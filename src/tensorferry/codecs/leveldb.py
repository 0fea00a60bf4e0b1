"""Tables: sorted keys and values in checksummed blocks, as LevelDB keeps them.

    data blocks | metaindex block, empty | index block | footer

    block    entries | uint32 restart offsets | uint32 count of them, then its trailer:
             uint8 compression: 0 none, 1 snappy | uint32 masked crc32c of the block and that byte
    entry    varint bytes of the key shared with the one before | varint bytes of its own
             | varint size of the value | the key's own bytes | value
    handle   varint offset of a block | varint size without its trailer
    footer   handles of metaindex and index, padded with zeros to 40 bytes | uint64 magic

The index block has a key for each data block, not less than any key of the block and less than all
that follow; its values are handles. Every 16th entry of a data block stores its whole key: these
are the restarts. The index of a checkpoint is a table (`tensorferry.formats.checkpoint.index`), an
old checkpoint is one as a whole (`tensorferry.formats.checkpoint.v1`).

The official reader trusts the footer and ignores the metaindex. This one finds every flipped bit:
blocks must follow each other without gaps, the numbers of the footer must take as few bytes as they
can, and its padding must be zeros, as every writer has it.
"""

from __future__ import annotations

import struct
import sys
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from tensorferry import _native
from tensorferry.classes import NamedTuple
from tensorferry.codecs.protobuf import read_varint, varint
from tensorferry.errors import ChecksumError, FormatError, LimitError, TruncatedError
from tensorferry.storage import Sink, Source

MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
FOOTER = 48
TRAILER = 5
PLAIN, SNAPPY = 0, 1
# As TensorFlow writes its tables.
BLOCK_SIZE = 1 << 18
RESTART_INTERVAL = 16
# The longest copy of snappy expands 3 bytes to 64.
SNAPPY_RATIO = 22


def mask(crc: int) -> int:
    """A checksum as it is stored: the checksum of bytes with their plain checksum is a constant."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# Reading


class Handle(NamedTuple):
    """The position of a block."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """Where its trailer ends."""
        return self.offset + self.size + TRAILER


class Block(NamedTuple):
    """The entries of a block: their keys, and where in `data` their values start and end."""

    offset: int
    data: bytes | memoryview
    keys: list[bytes]
    starts: list[int]
    ends: list[int]


class Table:
    """A table in a file, whose blocks are read and verified on demand.

    Args:
        source: The file.

    Raises:
        FormatError: The file is not a table, or is damaged.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._last: tuple[int, Block] | None = None
        size = len(source.everything()) if source.size is None else source.size
        try:
            metaindex, index = _read_footer(source, size)
            if self._read(metaindex).keys:
                raise FormatError("the metaindex block has entries", offset=metaindex.offset)
            self._separators, self._handles = self._read_index(index, metaindex)
        except FormatError as error:
            raise error.located(path=source.path) from None

    def blocks(self) -> Iterator[Block]:
        """All data blocks in order; their keys rise from one to the next."""
        last: bytes | None = None
        for number in range(len(self._handles)):
            block = self._data_block(number)
            if last is not None and block.keys[0] <= last:
                raise self._unsorted(block)
            last = block.keys[-1]
            yield block

    def find(self, key: bytes) -> bytes | memoryview | None:
        """The value of a key; None if it is not there. Only its block is read."""
        number = bisect_left(self._separators, key)
        if number == len(self._separators):
            return None
        if self._last is None or self._last[0] != number:  # neighbours are often asked for next
            self._last = number, self._data_block(number)
        block = self._last[1]
        place = bisect_left(block.keys, key)
        if place == len(block.keys) or block.keys[place] != key:
            return None
        return block.data[block.starts[place] : block.ends[place]]

    def _data_block(self, number: int) -> Block:
        try:
            block = self._read(self._handles[number])
            if not block.keys:
                raise FormatError("a block without entries", offset=block.offset)
        except FormatError as error:
            raise error.located(path=self.source.path) from None
        first, last = block.keys[0], block.keys[-1]
        if last > self._separators[number] or (number and first <= self._separators[number - 1]):
            raise self._unsorted(block)
        return block

    def _unsorted(self, block: Block) -> FormatError:
        return FormatError(
            "the keys of a block do not fit between those of its neighbours",
            path=self.source.path,
            offset=block.offset,
        )

    def _read_index(self, index: Handle, metaindex: Handle) -> tuple[list[bytes], list[Handle]]:
        block = self._read(index)
        separators, handles, position = [], [], 0
        for key, start, end in zip(block.keys, block.starts, block.ends, strict=True):
            handle, behind = _read_handle(block.data, start, end)
            if behind != end or handle.offset != position or handle.end > metaindex.offset:
                raise FormatError(
                    f"the index has a block of {handle.size} bytes at {handle.offset}, "
                    f"expected one at {position} that ends before {metaindex.offset}",
                    offset=index.offset,
                )
            separators.append(key)
            handles.append(handle)
            position = handle.end
        if position != metaindex.offset:
            raise FormatError(
                f"the index has blocks up to byte {position}, expected {metaindex.offset}",
                offset=index.offset,
            )
        return separators, handles

    def _read(self, handle: Handle) -> Block:
        raw = memoryview(self.source.range(handle.offset, handle.end))
        body, kind = raw[: handle.size], raw[handle.size]
        (stored,) = struct.unpack_from("<I", raw, handle.size + 1)
        found = mask(_native.crc32c(raw[: handle.size + 1]))
        if found != stored:
            raise ChecksumError(
                f"a block is corrupt: its checksum is {found:#010x}, stored {stored:#010x}",
                offset=handle.offset,
                hint="the file was changed after it was written: get another copy of it",
            )
        if kind not in (PLAIN, SNAPPY):
            raise FormatError(
                f"a block is of compression {kind}, expected 0 (none) or 1 (snappy)",
                offset=handle.offset + handle.size,
            )
        data = body if kind == PLAIN else _unsnappy(body, handle.offset)
        try:
            return Block(handle.offset, data, *_native.table_block(data))
        except FormatError as error:
            where = handle.offset + (error.offset or 0) if kind == PLAIN else handle.offset
            error.offset = where
            raise


def _read_footer(source: Source, size: int) -> tuple[Handle, Handle]:
    if size < FOOTER:
        raise TruncatedError(
            f"{size} bytes, expected a table, which has {FOOTER} or more", offset=0
        )
    start = size - FOOTER
    footer = bytes(source.range(start, size))
    if footer[-8:] != MAGIC:
        raise FormatError(
            f"the last bytes are {footer[-8:].hex(' ')}, expected {MAGIC.hex(' ')}",
            offset=size - 8,
            hint="this is no table of TensorFlow's, or its end is missing",
        )
    try:
        metaindex, position = _read_handle(footer, 0, 40)
        index, position = _read_handle(footer, position, 40)
    except FormatError as error:
        error.offset = start
        raise
    if any(footer[position:40]):
        raise FormatError("the footer is not padded with zeros", offset=start + position)
    if (
        varint(metaindex.offset)
        + varint(metaindex.size)
        + varint(index.offset)
        + varint(index.size)
        != (footer[:position])
    ):
        raise FormatError("a number of the footer takes more bytes than it needs", offset=start)
    if metaindex.end != index.offset or index.end != start:
        raise FormatError(
            f"the footer has blocks at {metaindex.offset} to {metaindex.end} and at {index.offset} "
            f"to {index.end}, expected them to follow each other up to {start}",
            offset=start,
        )
    return metaindex, index


def _read_handle(data: Any, position: int, end: int) -> tuple[Handle, int]:
    offset, position = read_varint(data, position, end)
    size, position = read_varint(data, position, end)
    return Handle(offset, size), position


def _unsnappy(body: memoryview, offset: int) -> bytes:
    import cramjam

    size, _ = read_varint(body, 0, min(len(body), 5))
    if size > SNAPPY_RATIO * len(body):
        raise LimitError(
            f"a snappy block of {len(body)} bytes claims {size}, which it cannot hold",
            offset=offset,
        )
    try:
        data = bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise FormatError(f"a snappy block is damaged: {error}", offset=offset) from None
    if len(data) != size:
        raise FormatError(
            f"a snappy block gives {len(data)} bytes, it claims {size}", offset=offset
        )
    return data


# Writing


def write(keys: list[bytes], values: list[bytes], sink: Sink) -> None:
    """Writes a table as TensorFlow does.

    Args:
        keys: In order, each once.
        values: One for each.
        sink: Takes the bytes.
    """
    index_keys, handles, written = [], [], []
    position = 0
    blocks = _native.table_blocks(keys, values, BLOCK_SIZE, RESTART_INTERVAL) if keys else []
    for block, end in blocks:
        handles.append(varint(position) + varint(len(block)))
        position += len(block) + TRAILER
        written.append(_with_trailer(block))
        last = keys[end - 1]
        index_keys.append(_separator(last, keys[end]) if end < len(keys) else _successor(last))
    footer = b""
    for some, handle in (([], []), (index_keys, handles)):
        # The index stores every key whole.
        ((block, _),) = _native.table_blocks(some, handle, sys.maxsize, 1)
        footer += varint(position) + varint(len(block))
        position += len(block) + TRAILER
        written.append(_with_trailer(block))
    sink.write(b"".join((*written, footer.ljust(FOOTER - len(MAGIC), b"\0"), MAGIC)))


def _with_trailer(block: bytes) -> bytes:
    data = block + bytes((PLAIN,))
    return data + struct.pack("<I", mask(_native.crc32c(data)))


def _shared(left: bytes, right: bytes) -> int:
    """How many bytes two keys start with in common."""
    size = min(len(left), len(right))
    number = int.from_bytes
    different = number(left[:size], "big") ^ number(right[:size], "big")
    return size - (different.bit_length() + 7 >> 3)


def _separator(before: bytes, after: bytes) -> bytes:
    """A short key from `before` on, and less than `after`."""
    shared = _shared(before, after)
    if shared < min(len(before), len(after)):
        byte = before[shared]
        if byte < 0xFF and byte + 1 < after[shared]:
            return before[:shared] + bytes((byte + 1,))
    return before


def _successor(key: bytes) -> bytes:
    """A short key that is not less."""
    for place, byte in enumerate(key):
        if byte != 0xFF:
            return key[:place] + bytes((byte + 1,))
    return key
