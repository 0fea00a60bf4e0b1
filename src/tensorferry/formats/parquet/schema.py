"""The schema of a Parquet file, as far as it is checked before PyArrow reads it.

A schema is a list of elements, each group before what is in it. PyArrow makes a tree of them, joins
the names on the way to each leaf, and puts names and ways into tables whose hash is known to
everybody. A small file could ask for very many long ways, or for names that all fall into one
place. Beside it, the metadata of a file may have the schema of the Arrow table that was written: a
message in base64, which PyArrow reads, too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence

from tensorferry import _native, limits
from tensorferry.budget import check_spread, room_for_paths
from tensorferry.errors import FormatError, LimitError

ARROW_SCHEMA = b"ARROW:schema"
MARK = b"\xff\xff\xff\xff"

Element = tuple[bytes | None, int | None]
"""The name of an element, and of a group how many children it has."""


def check_elements(elements: Sequence[Element], *, size: int, offset: int) -> None:
    """Refuses a schema that is small, and of which PyArrow makes much.

    Args:
        elements: Each group before what is in it; the first is the root.
        size: Number of bytes of the footer.
        offset: Where that is in the file.

    Raises:
        FormatError: Names fall into one place of a hash table.
        LimitError: It nests deeper than `limits.depth`, or the ways to its leaves are too long.
    """
    ways: list[bytes] = []
    for names, way in _groups(elements, room_for_paths(size), offset):
        ways += [way + name for name in names]
        check_spread(names, offset=offset)
    check_spread(ways, offset=offset)


def check_metadata(pairs: Iterable[tuple[bytes | None, bytes | None]], *, offset: int) -> None:
    """Refuses the schema of an Arrow table that PyArrow shall not read.

    Args:
        pairs: The metadata of the file.
        offset: Where the footer is in the file.

    Raises:
        FormatError: It is such a schema, or none.
    """
    for key, value in pairs:
        if key != ARROW_SCHEMA or not value:
            continue
        try:
            message = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
        except binascii.Error as error:
            raise FormatError(f"{ARROW_SCHEMA.decode()} is no base64: {error}") from None
        if refusal := _native.arrow_schema_refusal(_flatbuffer(message), False):
            raise FormatError(f"{ARROW_SCHEMA.decode()} has {refusal}", offset=offset)


def _flatbuffer(message: bytes) -> bytes:
    """What a message of Arrow's holds: its length stands before it, and mostly a mark."""
    start = 4 if message.startswith(MARK) else 0
    length = int.from_bytes(message[start : start + 4], "little")
    return message[start + 4 : start + 4 + length]


def _groups(
    elements: Sequence[Element], room: int, offset: int
) -> Iterator[tuple[list[bytes], bytes]]:
    """The names in each group, and the way to it; the ways to all elements fit into the room."""
    # Groups that are open: how many children they have, the names of those so far, and the way.
    above: list[tuple[int, list[bytes], bytes]] = []
    for given, children in elements:
        name, way = given or b"", b""
        if above:
            _, names, way = above[-1]
            names.append(name)
            room -= len(way) + len(name) + 1
        if room < 0:
            raise LimitError(
                "the names on the way to its columns are far longer than the footer", offset=offset
            )
        if children is not None and children > 0:
            above.append((children, [], way + name + b"." if above else b""))
            if len(above) > limits.depth:
                raise LimitError(f"the schema nests deeper than {limits.depth}", offset=offset)
        while above and len(above[-1][1]) >= above[-1][0]:
            _, names, way = above.pop()
            yield names, way
        if not above:
            return
    for _, names, way in above:  # PyArrow says that some are missing
        yield names, way
