"""HDF5 layouts: where the values of a dataset are, and by which index its chunks are found.

A layout is a run of bytes, a part of the object's header, or chunks. The message of versions 1 and
2 has no size for a run; that of version 3 knows one index, a B-tree; those of versions 4 and 5 know
five. Version 5 is of HDF5 2.0, and differs in how long the size of a chunk is in an index, which
the index itself says:

    1 single      the one chunk lies at the address
    2 implicit    the chunks lie one behind the other
    3 fixed       an array of addresses "FAHD", in pages if it is long
    4 extensible  an array that grows "EAHD": an index block, data blocks, blocks of those
    5 tree        a B-tree of version 2

An element of an array is the address of a chunk; if there are filters, its size and a mask of
filters that were left out follow. Elements are numbered like the chunks in the array, row by row,
the dimension without a limit first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensorferry.classes import dataclass
from tensorferry.codecs.hdf5.trees import CHUNKS, FILTERED_CHUNKS, walk_records, walk_tree
from tensorferry.codecs.hdf5.types import UNDEFINED

if TYPE_CHECKING:
    from tensorferry.codecs.hdf5.file import File
    from tensorferry.codecs.hdf5.headers import Message

COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = 0, 1, 2, 3
TREE, SINGLE, IMPLICIT, FIXED, EXTENSIBLE, NEW_TREE = 0, 1, 2, 3, 4, 5
ALL_FILTERS = 0xFFFFFFFF
UNLIMITED = UNDEFINED


@dataclass(frozen=True, slots=True)
class Layout:
    """Where values are.

    Attributes:
        kind: COMPACT, CONTIGUOUS, CHUNKED or VIRTUAL.
        address: Of the values or of the index; UNDEFINED if nothing was written.
        size: Number of bytes of a run, or of the one filtered chunk; None where nothing says it.
        block: The shape of a chunk.
        itemsize: Number of bytes of a value in a chunk.
        index: How chunks are found.
        mask: The filters that the one chunk did not go through.
        whole_edges: Whether chunks that reach beyond the array went through no filter.
    """

    kind: int
    address: int
    size: int | None = None
    block: tuple[int, ...] = ()
    itemsize: int = 0
    index: int = TREE
    mask: int = 0
    whole_edges: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A block of values: where it lies in the array and in the file."""

    corner: tuple[int, ...]
    address: int
    size: int
    mask: int


def read_layout(file: File, message: Message) -> Layout:
    """The layout that a message describes.

    Raises:
        FormatError: It is none.
        UnsupportedError: It is of another version.
    """
    data = message.data
    version = data[0]
    if version in (1, 2):
        rank, kind = struct.unpack_from("<BB", data, 1)
        place = 8 if kind == COMPACT else 16
        if kind == COMPACT:
            (size,) = struct.unpack_from("<I", data, place + 4 * rank)
            return Layout(kind, message.offset + place + 4 * rank + 4, size)
        (address,) = struct.unpack_from("<Q", data, 8)
        if kind == CHUNKED:
            *block, size = struct.unpack_from(f"<{rank}I", data, place)
            return Layout(kind, address, None, tuple(block), size)
        return Layout(kind, address)
    if version not in (3, 4, 5):
        file.refuse(message.offset, f"a layout is of version {version}, expected 1 to 5")
    kind = data[1]
    if kind == COMPACT:
        (size,) = struct.unpack_from("<H", data, 2)
        return Layout(kind, message.offset + 4, size)
    if kind == CONTIGUOUS:
        return Layout(kind, *struct.unpack_from("<QQ", data, 2))
    if kind == CHUNKED and version == 3:
        rank, address = struct.unpack_from("<BQ", data, 2)
        *block, size = struct.unpack_from(f"<{rank}I", data, 11)
        return Layout(kind, address, None, tuple(block), size)
    if kind == CHUNKED:
        return _read_new_chunks(file, message)
    if kind != VIRTUAL:
        file.fail(message.offset, f"the layout is of class {kind}, expected 0 to 3")
    return Layout(kind, UNDEFINED)


def _read_new_chunks(file: File, message: Message) -> Layout:
    data = message.data
    flags, rank, width = struct.unpack_from("<BBB", data, 2)
    if not 1 <= width <= 8:
        file.fail(message.offset, f"the sizes of chunks take {width} bytes, expected 1 to 8")
    position = 5 + rank * width
    sizes = [
        int.from_bytes(data[place : place + width], "little") for place in range(5, position, width)
    ]
    index = data[position]
    position += 1
    size, mask = None, 0
    if index == SINGLE and flags & 2:
        size, mask = struct.unpack_from("<QI", data, position)
        position += 12
    elif index in (SINGLE, IMPLICIT, FIXED, EXTENSIBLE, NEW_TREE):
        position += {FIXED: 1, EXTENSIBLE: 5, NEW_TREE: 6}.get(index, 0)
    else:
        file.fail(message.offset, f"an index of chunks is of kind {index}, expected 1 to 5")
    (address,) = struct.unpack_from("<Q", data, position)
    *block, itemsize = sizes
    return Layout(
        CHUNKED, address, size, tuple(block), itemsize, index, mask, whole_edges=bool(flags & 1)
    )


def find_chunks(
    file: File, layout: Layout, shape: Sequence[int], most: Sequence[int], *, filtered: bool
) -> list[Chunk]:
    """The chunks that were written.

    Args:
        file: The file that holds them.
        layout: Of the dataset.
        shape: Of the dataset.
        most: The largest shape it may have; UNLIMITED stands for no limit.
        filtered: Whether chunks go through filters.

    Raises:
        FormatError: A chunk lies outside the array or the file, or two in one place.
    """
    if layout.address == UNDEFINED or not math.prod(shape):
        return []
    found: list[Chunk] = []
    corners: set[tuple[int, ...]] = set()
    for chunk in _walk(file, layout, shape, most, filtered):
        inside = all(
            start < stop and not start % step
            for start, stop, step in zip(chunk.corner, shape, layout.block, strict=True)
        )
        if not inside:
            if layout.index in (FIXED, EXTENSIBLE, NEW_TREE):
                continue  # of a dataset that was larger once
            file.fail(chunk.address, f"a chunk is said to be at {list(chunk.corner)}")
        if chunk.corner in corners:
            file.fail(chunk.address, f"two chunks are said to be at {list(chunk.corner)}")
        if chunk.address + chunk.size > file.bytes.size:
            raise file.bytes.beyond(chunk.address, chunk.size)
        corners.add(chunk.corner)
        is_edge = any(
            start + step > stop
            for start, stop, step in zip(chunk.corner, shape, layout.block, strict=True)
        )
        if is_edge and layout.whole_edges:
            size = math.prod(layout.block) * layout.itemsize
            chunk = Chunk(chunk.corner, chunk.address, size, ALL_FILTERS)
        found.append(chunk)
    return found


def _walk(
    file: File, layout: Layout, shape: Sequence[int], most: Sequence[int], filtered: bool
) -> Iterator[Chunk]:
    rank, block = len(shape), layout.block
    nbytes = math.prod(block) * layout.itemsize
    if layout.index == TREE:
        for branch in walk_tree(file, layout.address, 1, struct.Struct(f"<II{rank + 1}Q")):
            size, mask, *corner = branch.key
            yield Chunk(tuple(corner[:-1]), branch.child, size, mask)
        return
    if layout.index == SINGLE:
        size = nbytes if layout.size is None else layout.size
        yield Chunk((0,) * rank, layout.address, size, layout.mask)
        return
    if layout.index == NEW_TREE:
        kind = FILTERED_CHUNKS if filtered else CHUNKS
        for record in walk_records(file, layout.address, kind):
            address, size, mask = _element(record[: -8 * rank], nbytes, filtered)
            scaled = struct.unpack_from(f"<{rank}Q", record, len(record) - 8 * rank)
            place = tuple(n * step for n, step in zip(scaled, block, strict=True))
            yield Chunk(place, address, size, mask)
        return
    grid = _Grid(shape, most, block, growing=layout.index == EXTENSIBLE)
    if layout.index == IMPLICIT:
        count = math.prod(-(-size // step) for size, step in zip(shape, block, strict=True))
        if count * nbytes > file.bytes.size:
            raise file.bytes.beyond(layout.address, count * nbytes)
        for number in range(count):
            yield Chunk(grid.corner(number), layout.address + number * nbytes, nbytes, 0)
        return
    walk = _fixed if layout.index == FIXED else _extensible
    for number, element in walk(file, layout.address):
        address, size, mask = _element(element, nbytes, filtered)
        if address != UNDEFINED:
            yield Chunk(grid.corner(number), address, size, mask)


def _element(data: bytes, nbytes: int, filtered: bool) -> tuple[int, int, int]:
    """The address, size and mask of a chunk."""
    (address,) = struct.unpack_from("<Q", data)
    if not filtered:
        return address, nbytes, 0
    (mask,) = struct.unpack_from("<I", data, len(data) - 4)
    return address, int.from_bytes(data[8:-4], "little"), mask


class _Grid:
    """The places of chunks by their number, in the largest array that the dataset may be."""

    def __init__(
        self, shape: Sequence[int], most: Sequence[int], block: Sequence[int], *, growing: bool
    ) -> None:
        sizes = most if len(most) == len(shape) else shape
        self._block = tuple(block)
        counts = [
            0 if size == UNLIMITED else -(-size // step)
            for size, step in zip(sizes, block, strict=True)
        ]
        self._first = next((n for n, size in enumerate(sizes) if size == UNLIMITED), 0)
        self._first = self._first if growing else 0
        order = list(range(len(counts)))
        order.insert(0, order.pop(self._first))
        self._order = order
        self._counts = [max(counts[n], 1) for n in order]

    def corner(self, number: int) -> tuple[int, ...]:
        """Where the chunk starts in the array."""
        places = [0] * len(self._order)
        for place in reversed(range(1, len(self._order))):
            number, places[self._order[place]] = divmod(number, self._counts[place])
        places[self._order[0]] = number
        return tuple(n * step for n, step in zip(places, self._block, strict=True))


def _fixed(file: File, address: int) -> Iterator[tuple[int, bytes]]:
    """The numbers and elements of an array of a fixed size."""
    head = file.bytes.take(address, 24)
    signature, version, _, width, bits, count, block = struct.unpack("<4sBBBBQQ", head)
    if signature != b"FAHD" or version or not width or bits > 32:
        file.fail(address, "no array of chunks, expected one")
    if block == UNDEFINED:
        return
    if file.bytes.take(block, 5) != b"FADB\0":
        file.fail(block, "no block of an array of chunks, expected one")
    page = 1 << bits
    if count <= page:
        data = file.bytes.take(block + 14, count * width)
        yield from _split(data, width, 0)
        return
    pages = -(-count // page)
    used = file.bytes.take(block + 14, -(-pages // 8))
    position = block + 14 + len(used) + 4
    for number in range(pages):
        here = min(page, count - number * page)
        if used[number // 8] & 0x80 >> number % 8:
            yield from _split(file.bytes.take(position, here * width), width, number * page)
        position += here * width + 4


def _split(data: bytes, width: int, first: int) -> Iterator[tuple[int, bytes]]:
    for number, place in enumerate(range(0, len(data), width)):
        yield first + number, data[place : place + width]


def _extensible(file: File, address: int) -> Iterator[tuple[int, bytes]]:
    """The numbers and elements of an array that grows."""
    head = file.bytes.take(address, 68)
    signature, version, _, width, bits, inside, smallest, pointers, paged = struct.unpack_from(
        "<4sBBBBBBBB", head
    )
    (used,) = struct.unpack_from("<Q", head, 44)
    (index,) = struct.unpack_from("<Q", head, 60)
    sound = signature == b"EAHD" and not version and width and bits <= 64
    if not sound or not smallest or not pointers or smallest & smallest - 1 or paged > 32:
        file.fail(address, "no array of chunks that grows, expected one")
    if index == UNDEFINED:
        return
    if file.bytes.take(index, 5) != b"EAIB\0":
        file.fail(index, "no index of an array of chunks, expected one")
    yield from _split(file.bytes.take(index + 14, inside * width), width, 0)
    position = index + 14 + inside * width
    offset_size = (bits + 7) // 8
    supers = 1 + bits - (smallest.bit_length() - 1)
    direct = 2 * (pointers.bit_length() - 1)
    first = inside
    for number in range(supers):
        blocks, length = 1 << number // 2, smallest << (number + 1) // 2
        if first >= used:
            return
        pages = length >> paged if length > 1 << paged else 0
        if number < direct:
            addresses = file.bytes.take(position, 8 * blocks)
            position += 8 * blocks
        else:
            (place,) = struct.unpack("<Q", file.bytes.take(position, 8))
            position += 8
            if place == UNDEFINED:
                first += blocks * length
                continue
            if file.bytes.take(place, 5) != b"EASB\0":
                file.fail(place, "no list of blocks of an array of chunks, expected one")
            start = place + 14 + offset_size + (blocks * -(-pages // 8) if pages else 0)
            addresses = file.bytes.take(start, 8 * blocks)
        for (block,) in struct.iter_unpack("<Q", addresses):
            if block != UNDEFINED and first < used:
                yield from _grown(file, block, first, length, width, offset_size, pages)
            first += length


def _grown(
    file: File, address: int, first: int, length: int, width: int, offset_size: int, pages: int
) -> Iterator[tuple[int, bytes]]:
    if file.bytes.take(address, 5) != b"EADB\0":
        file.fail(address, "no block of an array of chunks, expected one")
    position = address + 14 + offset_size
    if not pages:
        yield from _split(file.bytes.take(position, length * width), width, first)
        return
    position += 4
    step = length // pages
    for page in range(pages):
        data = file.bytes.take(position, step * width)
        yield from _split(data, width, first + page * step)
        position += step * width + 4
