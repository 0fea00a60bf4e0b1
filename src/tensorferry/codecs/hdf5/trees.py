"""HDF5 trees: B-trees of both versions, walked from the root.

Version 1 leads to the members of a group, or to chunks of values:

    "TREE" | kind | level | number of entries | neighbours | keys and addresses

Version 2 has records, as for links, attributes and chunks:

    header "BTHD" | leaves "BTLF" | inner nodes "BTIN", which have addresses behind their records

Every node is read once, so that a damaged file gives an error and no endless walk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tensorferry.classes import NamedTuple
from tensorferry.codecs.hdf5.types import UNDEFINED

if TYPE_CHECKING:
    from tensorferry.codecs.hdf5.file import File

LINK_NAMES, ATTRIBUTE_NAMES, CHUNKS, FILTERED_CHUNKS = 5, 8, 10, 11

# Levels of a tree of nodes as small as they may be, with more records than any file has.
DEEPEST = 32

_NODE = struct.Struct("<4sBBHQQ")


class Branch(NamedTuple):
    """An entry of a leaf of a B-tree: its key, and the address that it points to."""

    key: tuple[Any, ...]
    child: int


def walk_tree(file: File, root: int, kind: int, key: struct.Struct) -> Iterator[Branch]:
    """The entries of the leaves of a B-tree, in order.

    Args:
        file: The file that holds the tree.
        root: The address of the root node.
        kind: 0 for members of a group, 1 for chunks of values.
        key: The form of the keys between the addresses of a node.
    """
    entry = struct.Struct(f"{key.format}Q")
    seen: set[int] = set()
    left: list[tuple[int, int | None]] = [(root, None)]
    while left:
        address, expected = left.pop()
        if address in seen:
            file.fail(address, "a part of a tree is also another part of it")
        seen.add(address)
        signature, found, level, count, _, _ = _NODE.unpack(file.bytes.take(address, _NODE.size))
        if (
            signature != b"TREE"
            or found != kind
            or level != (level if expected is None else expected)
        ):
            file.fail(address, f"no part of a tree at level {expected}, expected one")
        entries = file.bytes.take(address + _NODE.size, count * entry.size)
        branches = [Branch(each[:-1], each[-1]) for each in entry.iter_unpack(entries)]
        if level == 0:
            yield from branches
        else:
            left += [(branch.child, level - 1) for branch in reversed(branches)]


def _bytes_for(number: int) -> int:
    """How many bytes a number takes."""
    return (number.bit_length() + 7) // 8


def walk_records(file: File, address: int, kind: int) -> Iterator[bytes]:
    """The records of a tree of version 2, those of inner nodes before those of leaves.

    Args:
        file: The file that holds the tree.
        address: Of its header.
        kind: Of the records.
    """
    head = file.bytes.take(address, 34)
    signature, version, found, node_size, record_size, depth, _, _, root, count, _ = struct.unpack(
        "<4sBBIHHBBQHQ", head
    )
    if signature != b"BTHD" or version or found != kind or not record_size or depth > DEEPEST:
        file.fail(address, f"no tree of records of kind {kind}, expected one")
    if root == UNDEFINED:
        return
    # By the height of a node: how many bytes the number of all records below it takes.
    most = (node_size - 10) // record_size
    width, totals, below = _bytes_for(most), [0], most
    for height in range(1, depth + 1):
        pointer = 8 + width + totals[height - 1]
        here = (node_size - 10 - pointer) // (record_size + pointer)
        if here < 1:
            file.fail(address, f"nodes of {node_size} bytes have no room in a tree")
        below = (here + 1) * below + here
        totals.append(_bytes_for(below))
    seen: set[int] = set()
    left = [(root, count, depth)]
    while left:
        place, count, height = left.pop()
        if place in seen or 6 + count * record_size > node_size:
            file.fail(place, f"a node of a tree with {count} records, of {node_size} bytes")
        seen.add(place)
        data = file.bytes.take(place, node_size)
        if data[:6] != (b"BTIN" if height else b"BTLF") + bytes((0, kind)):
            file.fail(place, "no node of a tree, expected one")
        end = 6 + count * record_size
        for start in range(6, end, record_size):
            yield data[start : start + record_size]
        if height:
            step = 8 + width + totals[height - 1]
            for start in range(end, end + (count + 1) * step, step):
                (child,) = struct.unpack_from("<Q", data, start)
                number = int.from_bytes(data[start + 8 : start + 8 + width], "little")
                left.append((child, number, height - 1))
