"""HDF5 files as h5py writes them by default, described in Python, for comparison.

Each part of a file is packed on its own, in the order of the file, and nothing is remembered but
where it was put.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tensorferry.codecs.hdf5.file import (
    ATTRIBUTE,
    DATASPACE,
    DATATYPE,
    FILL_VALUE,
    LAYOUT,
    SIGNATURE,
    SYMBOL_TABLE,
)
from tensorferry.codecs.hdf5.types import UNDEFINED

# Half of how many members a table, and of how many children a node of a tree has: HDF5's defaults.
LEAF, INTERNAL = 4, 16

# Values of so many bytes start where vectors may be loaded from.
LARGE, ALIGNED, PLAIN = 4096, 64, 8

# The least size of a heap of texts, and the size beyond which another one is begun.
LEAST_HEAP, FULL_HEAP = 4096, 1 << 16

_CONSTANT = 1  # the flag of a message that never changes
_NO_FREE_SPACE = 1  # where a heap of names has none

_SUPERBLOCK = struct.Struct("<8s8BHHIQQQQQQIIQQ")
_HEADER = struct.Struct("<BxHII4x")
_MESSAGE = struct.Struct("<HHB3x")
_NODE = struct.Struct("<4sBBHQQ")
_NAMES = struct.Struct("<4sB3xQQQ")
_TABLE = struct.Struct("<4sBxH")
_SYMBOL = struct.Struct("<QQI4xQQ")
_HEAP = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<H6xQ")

# Where in the header of a dataset the address of its values is: the layout comes first.
_LAYOUT_ADDRESS = _HEADER.size + _MESSAGE.size + 2

_NODE_SIZE = _NODE.size + 8 * (4 * INTERNAL + 1)
_TABLE_SIZE = _TABLE.size + 2 * LEAF * _SYMBOL.size

_SCALAR = struct.pack("<BBBB4x", 1, 0, 0, 0)
# Written late, filled with zeros if it is not: what h5py asks for.
_FILL = struct.pack("<BBBBI", 2, 2, 2, 1, 0)


# A text of any length: bytes of UTF-8, in a heap.
_TEXT = struct.pack("<BBBBI", 0x19, 1, 1, 0, 16) + struct.pack("<BBBBIHH", 0x10, 0, 0, 0, 1, 0, 8)


@dataclass
class Dataset:
    """An array: the message of its type, its shape, its number of bytes and its attributes."""

    datatype: bytes
    shape: tuple[int, ...]
    size: int
    attributes: Mapping[str, str]
    address: int = UNDEFINED


@dataclass
class Group:
    """Groups and datasets by name, and attributes."""

    members: dict[str, Group | Dataset] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def enter(self, path: str) -> Group:
        """The group of a path, made if it is not there."""
        group = self
        for part in path.removeprefix("/").split("/"):
            inside = group.members.setdefault(part, Group())
            assert isinstance(inside, Group)
            group = inside
        return group


def encode(root: Group, datasets: Sequence[Dataset]) -> bytes:
    """All of a file that stands before its values; datasets get their addresses."""
    return _Encoder(datasets).encode(root)


class _Encoder:
    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self._datasets = datasets
        self._out = bytearray(_SUPERBLOCK.size)
        self._texts: dict[str, tuple[int, int]] = {}  # the heap of each, and its number there
        # By identity: where the header of an object is, and the tree and the names of a group.
        self._places: dict[int, tuple[int, int, int]] = {}

    def encode(self, root: Group) -> bytes:
        groups = [root]
        for group in groups:
            groups += (member for member in group.members.values() if isinstance(member, Group))
        described = (group.attributes for group in groups), (d.attributes for d in self._datasets)
        self._write_texts(itertools.chain(*described))
        for dataset in self._datasets:
            self._places[id(dataset)] = self._write_dataset(dataset), 0, 0
        for group in reversed(groups):  # what is inside comes first
            self._places[id(group)] = self._write_group(group)
        end = len(self._out)
        for dataset in self._datasets:
            if dataset.size:
                step = ALIGNED if dataset.size >= LARGE else PLAIN
                dataset.address = -(-end // step) * step
                place = self._places[id(dataset)][0] + _LAYOUT_ADDRESS
                struct.pack_into("<Q", self._out, place, dataset.address)
                end = dataset.address + dataset.size
        header, tree, names = self._places[id(root)]
        sizes = (0, 0, 0, 0, 0, 8, 8, 0)
        first = (SIGNATURE, *sizes, LEAF, INTERNAL, 0, 0, UNDEFINED, end, UNDEFINED)
        _SUPERBLOCK.pack_into(self._out, 0, *first, 0, header, 1, 0, tree, names)
        return bytes(self._out)

    def _write_texts(self, attributes: Iterable[Mapping[str, str]]) -> None:
        """Heaps of all texts that attributes have."""
        left = list(dict.fromkeys(text for each in attributes for text in each.values()))
        while left:
            address, held, objects = len(self._out), 0, bytearray()
            while held < len(left) and len(objects) < FULL_HEAP:
                data = left[held].encode()
                held += 1
                self._texts[left[held - 1]] = address, held
                objects += _OBJECT.pack(held, len(data)) + _padded(data)
            size = max(LEAST_HEAP, _HEAP.size + len(objects) + _OBJECT.size)
            free = size - _HEAP.size - len(objects)
            self._out += _HEAP.pack(b"GCOL", 1, size) + objects
            self._out += _OBJECT.pack(0, free) + bytes(free - _OBJECT.size)
            left = left[held:]

    def _write_group(self, group: Group) -> tuple[int, int, int]:
        """Where its header, its tree and its names are; those of its members are known."""
        names, members = bytearray(8), []
        for name, member in sorted((name.encode(), each) for name, each in group.members.items()):
            place = len(names)
            names += _padded(name + b"\0")
            header, tree, heap = self._places[id(member)]
            is_group = isinstance(member, Group)
            members.append((place, _SYMBOL.pack(place, header, is_group, tree, heap)))
        heap = len(self._out)
        self._out += _NAMES.pack(b"HEAP", 0, len(names), _NO_FREE_SPACE, heap + _NAMES.size) + names
        tree = self._write_tree(members)
        header = self._write_header(
            (SYMBOL_TABLE, 0, struct.pack("<QQ", tree, heap)), *self._attributes(group.attributes)
        )
        return header, tree, heap

    def _write_tree(self, members: list[tuple[int, bytes]]) -> int:
        """The address of the root of a tree of tables of members."""
        # Of each child: the place of its last name, which is the key behind it, and its address.
        children: list[tuple[int, int]] = []
        for start in range(0, len(members), 2 * LEAF):
            some = members[start : start + 2 * LEAF]
            children.append((some[-1][0], len(self._out)))
            table = _TABLE.pack(b"SNOD", 1, len(some)) + b"".join(symbol for _, symbol in some)
            self._out += table.ljust(_TABLE_SIZE, b"\0")
        level = 0
        while True:
            before, first, above = 0, len(self._out), []
            starts = range(0, max(len(children), 1), 2 * INTERNAL)
            for number, start in enumerate(starts):
                below = children[start : start + 2 * INTERNAL]
                address = len(self._out)
                left = UNDEFINED if number == 0 else address - _NODE_SIZE
                right = UNDEFINED if number == len(starts) - 1 else address + _NODE_SIZE
                numbers = [before, *(each for key, child in below for each in (child, key))]
                node = _NODE.pack(b"TREE", 0, level, len(below), left, right)
                self._out += (node + struct.pack(f"<{len(numbers)}Q", *numbers)).ljust(
                    _NODE_SIZE, b"\0"
                )
                before = numbers[-1]
                above.append((before, address))
            if len(above) == 1:
                return first
            children, level = above, level + 1

    def _write_dataset(self, dataset: Dataset) -> int:
        """Where its header is."""
        shape = dataset.shape
        dimensions = struct.pack(f"<{2 * len(shape)}Q", *shape, *shape)
        space = struct.pack("<BBBB4x", 1, len(shape), 1, 0) + dimensions if shape else _SCALAR
        layout = struct.pack("<BBQQ", 3, 1, UNDEFINED, dataset.size)
        return self._write_header(
            (LAYOUT, 0, layout),
            (DATASPACE, 0, space),
            (DATATYPE, _CONSTANT, dataset.datatype),
            (FILL_VALUE, _CONSTANT, _FILL),
            *self._attributes(dataset.attributes),
        )

    def _attributes(self, attributes: Mapping[str, str]) -> Iterator[tuple[int, int, bytes]]:
        for name, text in attributes.items():
            heap, number = self._texts[text]
            key = name.encode() + b"\0"
            head = struct.pack("<BxHHH", 1, len(key), len(_TEXT), len(_SCALAR))
            value = struct.pack("<IQI", len(text.encode()), heap, number)
            yield ATTRIBUTE, 0, head + _padded(key) + _padded(_TEXT) + _SCALAR + value

    def _write_header(self, *messages: tuple[int, int, bytes]) -> int:
        """Where the header of an object is."""
        address = len(self._out)
        body = bytearray()
        for kind, flags, data in messages:
            content = _padded(data)
            body += _MESSAGE.pack(kind, len(content), flags) + content
        self._out += _HEADER.pack(1, len(messages), 1, len(body)) + body
        return address


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
