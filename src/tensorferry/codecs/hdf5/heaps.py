"""HDF5 heaps of the newer kind: where groups keep many links, and objects many attributes.

A fractal heap holds messages, in blocks that double their size from row to row of a table:

    header "FRHP" | direct blocks "FHDB" | indirect blocks "FHIB", which list others

A tree of version 2 (`tensorferry.codecs.hdf5.trees`) has a record for each message, which says
where it is in the heap. Every block is read once, so that a damaged file gives an error and no
endless walk.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING

from tensorferry.codecs.hdf5.types import UNDEFINED

if TYPE_CHECKING:
    from tensorferry.codecs.hdf5.file import File


def _log2(file: File, address: int, number: int) -> int:
    if number < 1 or number & (number - 1):
        file.fail(address, f"a size in a heap is {number}, expected a power of two")
    return number.bit_length() - 1


class Heap:
    """A fractal heap.

    Args:
        file: The file that holds it.
        address: Of its header.
    """

    def __init__(self, file: File, address: int) -> None:
        head = file.bytes.take(address, 142)
        if head[:5] != b"FRHP\0":
            file.fail(address, "no heap, expected one")
        self._file = file
        self._address = address
        filters, self._flags, managed = struct.unpack_from("<HBI", head, 7)
        if filters:
            file.refuse(address, "a heap went through filters")
        width, start, largest, bits, _, root, rows = struct.unpack_from("<HQQHHQH", head, 110)
        self._width = width
        self._start = start
        self._start_bits = _log2(file, address, start)
        self._direct_rows = _log2(file, address, largest) - self._start_bits + 2
        self._offset_size = (bits + 7) // 8
        self._length_size = min(
            (largest.bit_length() + 6) // 8, (max(managed, 1).bit_length() - 1) // 8 + 1
        )
        if not width or bits > 64:
            file.fail(address, "a heap without rows, or of more than 64 bits")
        self._blocks: list[tuple[int, int, int]] = []  # offset in the heap, size, address
        self._seen: set[int] = set()
        if root != UNDEFINED:
            if rows:
                self._read_indirect(root, 0, rows)
            else:
                self._add(0, start, root)
            self._blocks.sort()

    def take(self, identity: bytes) -> bytes:
        """The object that an identity of a record stands for."""
        kind = identity[0] >> 4
        if kind == 2:  # tiny: the identity itself
            length = (identity[0] & 15) + 1
            return identity[1 : 1 + length]
        if kind:
            self._file.refuse(self._address, "an object of a heap lies outside of it")
        end = 1 + self._offset_size
        offset = int.from_bytes(identity[1:end], "little")
        length = int.from_bytes(identity[end : end + self._length_size], "little")
        place = bisect_right(self._blocks, offset, key=lambda block: block[0]) - 1
        start, size, address = self._blocks[place] if place >= 0 else (0, 0, 0)
        if not length or offset + length > start + size:
            self._file.fail(self._address, f"no block of a heap has {length} bytes at {offset}")
        return self._file.bytes.take(address + offset - start, length)

    def _add(self, offset: int, size: int, address: int) -> None:
        if address in self._seen:
            self._file.fail(address, "a block of a heap is also another")
        self._seen.add(address)
        if self._file.bytes.take(address, 5) != b"FHDB\0":
            self._file.fail(address, "no block of a heap, expected one")
        self._blocks.append((offset, size, address))

    def _row_size(self, row: int) -> int:
        return int(self._start << max(row - 1, 0))

    def _read_indirect(self, address: int, offset: int, rows: int) -> None:
        left = [(address, offset, rows)]
        while left:
            address, offset, rows = left.pop()
            if address in self._seen or rows > 64:
                self._file.fail(address, "a block of a heap is also another, or has too many rows")
            self._seen.add(address)
            size = 13 + self._offset_size + rows * self._width * 8
            data = self._file.bytes.take(address, size)
            if data[:5] != b"FHIB\0":
                self._file.fail(address, "no table of a heap's blocks, expected one")
            position = 13 + self._offset_size
            for row in range(rows):
                for _ in range(self._width):
                    (child,) = struct.unpack_from("<Q", data, position)
                    position += 8
                    step = self._row_size(row)
                    if child != UNDEFINED and row < self._direct_rows:
                        self._add(offset, step, child)
                    elif child != UNDEFINED:
                        inner = step.bit_length() - 1 - self._start_bits
                        inner -= _log2(self._file, address, self._width) - 1
                        left.append((child, offset, inner))
                    offset += step
