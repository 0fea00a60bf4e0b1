"""String tensors in a checkpoint's data file.

    varint length of each | uint32 masked crc32c of the lengths | the strings, one behind the other

The checksum covers each length as a uint32 (a uint64 beyond 4 GiB) in the byte order of the file,
not as a varint. The checksum of the whole entry continues it over the stored checksum and the
strings. A tensor without elements may have no bytes at all.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.classes import dataclass
from tensorferry.codecs.leveldb import mask
from tensorferry.codecs.protobuf import MAX_VARINT, varint
from tensorferry.dtypes import DType
from tensorferry.errors import ChecksumError, FormatError
from tensorferry.formats.checkpoint.entries import Entry
from tensorferry.storage import Source
from tensorferry.tensors.entries import Extent
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, Kind

CHECKSUM = 4
# Lengths beyond that are hashed as eight bytes.
LONG = 1 << 32


@dataclass(frozen=True, slots=True)
class StoredStrings(Stored):
    """A string tensor in a data file."""

    entry: Entry
    source: Source
    big_endian: bool = False
    verify: bool = True
    kind: Kind = "string"
    dtype: DType = dtypes.STRING

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self.entry.kind.shape

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.entry.size

    def extents(self) -> Iterable[Extent]:
        """Where its bytes lie."""
        return ((self.source, self.entry.offset, self.entry.offset + self.entry.size),)

    def read(self) -> Array:
        """The strings."""
        start, size = self.entry.offset, self.entry.size
        data = memoryview(self.source.range(start, start + size))
        self.source.check(start + size)
        strings: Array = np.empty(self.entry.kind.elements, object)
        try:
            strings[:] = self._decode(data)
        except FormatError as error:
            error.offset = start + (error.offset or 0)
            raise error.located(path=self.source.path) from None
        return strings.reshape(self.shape)

    def read_part(self, index: Any) -> Array:
        """Some of the strings."""
        return np.asarray(self.read()[index])

    def _decode(self, data: memoryview) -> list[bytes]:
        count = self.entry.kind.elements
        if not data and not count:
            return []
        lengths, position = _read_lengths(data, count)
        begin = position + CHECKSUM
        if begin + sum(lengths) != len(data):
            raise FormatError(
                f"strings of {sum(lengths)} bytes behind {begin} of lengths and their checksum, "
                f"expected {len(data)} in all"
            )
        if self.verify:
            order = ">" if self.big_endian else "<"
            crc = _crc_of_lengths(lengths, order)
            (stored,) = struct.unpack_from(f"{order}I", data, position)
            _check(mask(crc), stored, "the lengths of strings are", position)
            crc = _native.crc32c(data[position:], crc)
            _check(mask(crc), self.entry.crc, "the strings are", 0)
        text = bytes(data[begin:])
        ends = itertools.accumulate(lengths, initial=0)
        return [text[start:end] for start, end in itertools.pairwise(ends)]


def _check(found: int, stored: int, what: str, offset: int) -> None:
    if found != stored:
        raise ChecksumError(
            f"{what} corrupt: the checksum is {found:#010x}, stored {stored:#010x}", offset=offset
        )


def _read_lengths(data: memoryview, count: int) -> tuple[list[int], int]:
    """The lengths, and where they end."""
    raw = np.frombuffer(data[: MAX_VARINT * count], np.uint8)
    ends = np.flatnonzero(raw < 0x80)[:count]
    if len(ends) < count or len(data) < (int(ends[-1]) if count else -1) + 1 + CHECKSUM:
        raise FormatError(f"{len(data)} bytes end before the lengths of {count} strings do")
    if not count:
        return [], 0
    stop = int(ends[-1]) + 1
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends + 1 - starts
    if sizes.max() > MAX_VARINT - 1:  # 2^63 or more
        raise FormatError("a string is longer than any file")
    shifts = 7 * (np.arange(stop) - np.repeat(starts, sizes))
    values = (raw[:stop] & 0x7F).astype(np.int64) << shifts
    return np.add.reduceat(values, starts).tolist(), stop


def _crc_of_lengths(lengths: list[int], order: str) -> int:
    if max(lengths, default=0) < LONG:
        return _native.crc32c(np.array(lengths, f"{order}u4").tobytes())
    sizes = (struct.pack(f"{order}{'I' if length < LONG else 'Q'}", length) for length in lengths)
    return _native.crc32c(b"".join(sizes))


def encode(strings: list[bytes]) -> tuple[list[bytes], int]:
    """The buffers of a string tensor, and their checksum, masked."""
    lengths = list(map(len, strings))
    crc = _crc_of_lengths(lengths, "<")
    stored = mask(crc).to_bytes(4, "little")
    short = max(lengths, default=0) < 0x80
    sizes = bytes(lengths) if short else b"".join(map(varint, lengths))
    text = b"".join(strings)
    return [sizes + stored, text], mask(_native.crc32c(text, _native.crc32c(stored, crc)))
