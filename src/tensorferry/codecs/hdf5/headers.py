"""Headers of HDF5 objects: the messages that say what an object is.

    version 1   01 | ... | size | messages         version 2   OHDR | flags ... | size | messages

A header may continue in other blocks of the file, each of which is read once. What the messages
mean is for `tensorferry.codecs.hdf5.file` and `tensorferry.codecs.hdf5.types`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensorferry.classes import NamedTuple
from tensorferry.codecs.hdf5.types import UNDEFINED

if TYPE_CHECKING:
    from tensorferry.codecs.hdf5.file import File

CONTINUATION = 16
# Messages of the superblock's extension that do not change what an address means: shared messages,
# which are refused where they are met, sizes of tree nodes, and free space.
_EXTENSIONS = (0x0F, 0x13, 0x17)
_MESSAGE = struct.Struct("<HHB3x")


class Message(NamedTuple):
    """A message of an object's header."""

    kind: int
    flags: int
    data: bytes
    offset: int


def read_messages(file: File, address: int) -> Iterator[Message]:
    """The messages of an object's header, in all its blocks."""
    data = file.bytes
    head = data.take(address, max(4, min(16, data.size - address)))
    if head[0] == 1:
        version, fixed, order = 1, _MESSAGE, 0
        (size,) = struct.unpack_from("<I", head[:16], 8)
        blocks = [(address + 16, size)]
    elif head.startswith(b"OHDR"):
        version = 2
        number, flags = data.take(address + 4, 2)
        if number != 2:
            file.refuse(address, f"an object's header is of version {number}")
        start = address + 6 + 16 * bool(flags & 32) + 4 * bool(flags & 16)
        width = 1 << (flags & 3)
        size = int.from_bytes(data.take(start, width), "little")
        blocks = [(start + width, size)]
        fixed, order = struct.Struct("<BHB"), 2 * bool(flags & 4)
    else:
        file.fail(address, f"no object: its header starts with {head[:4].hex(' ')}")
    seen = set()
    for start, size in blocks:
        if start in seen:
            file.fail(start, "an object's header continues in itself")
        seen.add(start)
        block, position = data.take(start, size), 0
        while position + fixed.size + order <= size:
            kind, length, flags = fixed.unpack_from(block, position)
            position += fixed.size + order
            if length > size - position:
                file.fail(start + position, "a message reaches beyond its header")
            content = block[position : position + length]
            if kind == CONTINUATION:
                following, more = struct.unpack_from("<QQ", content)
                if version == 2:
                    if more < 8 or data.take(following, 4) != b"OCHK":
                        file.fail(following, "no part of an object's header")
                    following, more = following + 4, more - 8
                blocks.append((following, more))
            elif kind:
                yield Message(kind, flags, content, start + position)
            position += length


def check_extension(file: File, address: int) -> None:
    """Refuses a superblock whose extension makes the HDF5 library read other objects than we do.

    An image of its cache holds objects that it takes in the place of those at their addresses.
    """
    for message in read_messages(file, address) if address != UNDEFINED else ():
        if message.kind not in _EXTENSIONS:
            what = (
                f"the superblock is extended by message {message.kind}, as by an image of a cache"
            )
            file.refuse(message.offset, what)
