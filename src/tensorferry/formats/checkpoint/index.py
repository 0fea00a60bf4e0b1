"""The index of a checkpoint: all of its entries together.

A table (`tensorferry.codecs.leveldb`) whose values are a header and entries
(`tensorferry.formats.checkpoint.entries`). Entries are parsed here in one pass and checked against
the sizes of the data files all together: a checkpoint may have a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tensorferry import _native
from tensorferry.classes import dataclass, field
from tensorferry.codecs.leveldb import Block, Table
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.checkpoint.entries import (
    SIGNED,
    Entry,
    Header,
    Kind,
    kind_of,
    parse_entry,
    parse_header,
    shown,
)
from tensorferry.formats.checkpoint.extents import Extents
from tensorferry.formats.checkpoint.messages import Reader
from tensorferry.storage import Source
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE, Whole
from tensorferry.tensors.values import Array

# Of an index without entries.
_NO_COLUMNS = np.zeros((5, 0), np.int64)


@dataclass(slots=True)
class Index:
    """A parsed index.

    Attributes:
        shards: How many data files there are.
        big_endian: The byte order of the data.
        keys: Of the entries, which are numbered in this order.
        kinds: What `columns` refers to.
        columns: The kind, shard, offset, size and checksum of each number.
        slices: Of the tensors that have some, by number.
        end: Where the last entry ends, if all lie in the first data file and no two have the same
            bytes.
    """

    shards: int
    big_endian: bool = False
    keys: list[bytes] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    columns: Array = field(default_factory=lambda: _NO_COLUMNS)
    slices: dict[int, tuple[Extents, ...]] = field(default_factory=dict)
    end: int | None = None

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
        return shown(self.keys[number])


def read_content(content: bytes, path: str) -> Index:
    """All entries of an index that is in memory.

    Args:
        content: All bytes of the file.
        path: The file, for errors.

    Raises:
        FormatError: Something in it cannot be.
        UnsupportedError: It is for newer readers.
    """
    found = _native.bundle_index(content)
    if found is None:  # compressed or damaged
        return read(Table(Source(path, buffer=memoryview(content))))
    header, start, keys, heads, sizes, end, numbers = found
    try:
        index = Index(*parse_header(header, 0, len(header)), keys)
    except (FormatError, UnsupportedError) as error:
        error.offset = start + (error.offset or 0)
        raise error.located(path=path) from None
    if not keys:
        return index
    table: Array = np.ndarray((7, len(keys)), np.int64, bytearray(numbers))
    kinds = [kind for head in heads if (kind := kind_of(head)) is not None]
    if sizes and sizes == [kind.nbytes for kind in kinds] and _are_different(kinds):
        index.kinds, index.columns, index.end = kinds, table[:5], end if end >= 0 else None
    else:
        parser = _Parser()
        index.columns = parser.fill(heads, table, keys, content, path=path)
        index.kinds, index.slices = parser.kinds, parser.slices
    return index


def _are_different(kinds: list[Kind]) -> bool:
    # As text: the hash of numbers has no secret.
    return len(kinds) < 2 or len({f"{kind.row.name} {kind.shape}" for kind in kinds}) == len(kinds)


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
    index.keys = keys
    index.kinds, index.slices = parser.kinds, parser.slices
    if columns:
        index.columns = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    return index


def read_header(place: Place) -> Header:
    """What the header of an index says.

    Raises:
        FormatError: It has none.
        UnsupportedError: It is for newer readers.
        OSError: The system's own error, such as FileNotFoundError.
    """
    small = None if place.is_url else _native.read_small(place.path, SMALL_FILE, Whole)
    found = None if small is None else _native.bundle_index(small[0])
    if found is not None:  # nearly always: a small index is read sooner than it is opened
        return parse_header(found[0], 0, len(found[0]))
    table = Table(place.open())
    data = table.find(b"")
    if data is None:
        raise FormatError("a table without a header", path=table.source.path, offset=0)
    return parse_header(data, 0, len(data))


def _take_header(block: Block, path: str) -> Index:
    key, start, end = block.keys.pop(0), block.starts.pop(0), block.ends.pop(0)
    if key != b"":
        raise FormatError(
            f"the first key is {key[:60]!r}, expected the header's, which is empty",
            path=path,
            offset=block.offset,
        )
    try:
        return Index(*parse_header(block.data, start, end))
    except (FormatError, UnsupportedError) as error:
        error.offset = block.offset + (error.offset or 0)
        raise error.located(path=path) from None


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
        heads, columns = _native.bundle_entries(block.data, block.starts, block.ends)
        found = np.frombuffer(columns, np.int64).reshape(5, -1)
        table = np.concatenate([found, np.array([block.starts, block.ends], np.int64)])
        return self.fill(
            heads, table, block.keys, block.data, first=first, offset=block.offset, path=path
        )

    def fill(
        self,
        heads: list[bytes],
        table: Array,
        keys: list[bytes],
        data: bytes | memoryview,
        *,
        path: str,
        first: int = 0,
        offset: int = 0,
    ) -> Array:
        """The columns of entries, where numbers of kinds stand for those of heads.

        Args:
            heads: The different starts of entries.
            table: The columns, and where each entry starts and ends.
            keys: Of the entries.
            data: The bytes of the entries.
            path: Where they are.
            first: The number of the first entry.
            offset: Where `data` starts in the file.
        """
        known = self._heads
        for head in heads:
            if head not in known:
                known[head] = self._parse_head(head)
        table[0] = np.array([*(known[head] for head in heads), -1], np.int64)[table[0]]
        # Strings, of which the shape does not tell the size, are looked at one by one.
        sizes = [-1 if kind.nbytes is None else kind.nbytes for kind in self.kinds]
        sound = np.array([*sizes, -1], np.int64)[table[0]] == table[3]
        sound &= table[2] <= SIGNED - 1 - table[3]
        for number in () if sound.all() else np.flatnonzero(~sound).tolist():
            start, end = table[5:, number].tolist()
            try:
                entry = parse_entry(Reader(data), start, end)
            except (FormatError, UnsupportedError) as error:
                error.offset = offset + (error.offset or 0)
                raise error.located(path=path, tensor=shown(keys[number])) from None
            table[:5, number] = (self._number(entry.kind), *entry[1:5])
            if entry.slices:
                self.slices[first + number] = entry.slices
        return table[:5]

    def _parse_head(self, head: bytes) -> int:
        """The kind of entries that start so; -1 if they have to be looked at one by one."""
        kind = kind_of(head)
        return -1 if kind is None else self._number(kind)

    def _number(self, kind: Kind) -> int:
        number = self._known.setdefault(kind, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        return number


def _room(sizes: Mapping[int, int], shard: Array) -> Array:
    """The size of the data file of each entry."""
    if len(sizes) == 1:
        return np.full(len(shard), next(iter(sizes.values())), np.int64)
    known = np.array(sorted(sizes), np.int64)
    room = np.array([sizes[number] for number in known.tolist()], np.int64)
    return room[np.searchsorted(known, shard)]


def check_places(index: Index, sizes: Mapping[int, int], path: Callable[[int], str]) -> None:
    """Refuses entries whose bytes are not there, or belong to two of them.

    Args:
        index: All entries.
        sizes: Of the data files that they lie in.
        path: Names a data file.

    Raises:
        FormatError: There are such entries.
    """
    if index.end is not None and index.end <= sizes.get(0, 0):
        return
    columns, numbers = index.columns, None
    if index.slices:
        numbers = _plain(index)
        columns = columns[:, numbers]
    if not columns.shape[1]:
        return
    _, shard, offset, size, _ = columns
    end = offset + size
    room = _room(sizes, shard)
    is_over = end > room
    if is_over.any():
        over = np.flatnonzero(is_over)
        at = int(over[0])
        raise TruncatedError(
            f"the file has {room[at]} bytes, the tensor lies at {offset[at]} to {end[at]}",
            path=path(int(shard[at])),
            offset=int(room[at]),
            tensor=index.name(at if numbers is None else int(numbers[at])),
            hint="the file is cut, or belongs to another index",
        )
    if len(sizes) == 1 and (offset[1:] >= end[:-1]).all():  # in order, as nearly all are
        return
    order = np.lexsort((offset, shard))
    order = order[size[order] > 0]  # what is empty may lie anywhere
    shard, offset, end = shard[order], offset[order], end[order]
    numbers = order if numbers is None else numbers[order]
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
    if index.end is not None:
        return [0]
    numbers = _plain(index) if index.slices else None
    shards = index.columns[1] if numbers is None else index.columns[1, numbers]
    found = sorted(set(shards.tolist()))
    if found and not 0 <= found[0] <= found[-1] < index.shards:
        wrong = np.flatnonzero((shards < 0) | (shards >= index.shards))
        raise FormatError(
            f"lies in data file {shards[wrong[0]]}, expected one of 0 to {index.shards - 1}",
            path=path,
            tensor=index.name(int(wrong[0] if numbers is None else numbers[wrong[0]])),
        )
    return found


def _plain(index: Index) -> Array:
    """The entries that have bytes of their own."""
    numbers = np.arange(index.columns.shape[1])
    return np.delete(numbers, list(index.slices))
