"""Signatures: how each format is recognised, by a file's first bytes, its last ones and its name.

Each function looks at a `Glimpse` and answers "surely", "perhaps" or "no". It never raises, and
imports nothing: recognising a file loads no format.
"""

from __future__ import annotations

import struct

from tensorferry import _native
from tensorferry.expressions import expression
from tensorferry.formats.contract import Answer, Glimpse

HDF5 = b"\x89HDF\r\n\x1a\n"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
LEVELDB = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"

# The position of the name of an archive's first member, and the names with which Keras archives
# start.
_MEMBER_NAME = 30
_KERAS_MEMBERS = (b"metadata.json", b"config.json", b"model.weights.h5")

# The first node of a frozen graph, as far as its name goes.
_FIRST_NODE = expression(rb"\n[\x80-\xff]{0,4}[\x00-\x7f]\n([\x01-\x7f])([A-Za-z0-9.][\w./>\\-]*)")

# The fields of a StructuredValue by the wire type they have: numbers, eight bytes, or a length.
_STRUCTURE_FIELDS = {
    0: {12, 14, 32},
    1: {11},
    2: {13, 31, 33, 34, 35, 51, 52, 53, 54, 55, 56},
}

_MAX_SAFETENSORS_HEADER = 100_000_000


def tfrecord(glimpse: Glimpse) -> Answer:
    """The checksum of the first length fits, which does not happen by chance."""
    if len(glimpse.head) < 12:
        return "no"
    crc = _native.crc32c(glimpse.head[:8])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return "surely" if masked == int.from_bytes(glimpse.head[8:12], "little") else "no"


def npy(glimpse: Glimpse) -> Answer:
    """NumPy's magic string."""
    return "surely" if glimpse.head.startswith(b"\x93NUMPY") else "no"


def keras(glimpse: Glimpse) -> Answer:
    """An HDF5 file, an archive whose first member is one of Keras', or the index of shards."""
    if glimpse.head.startswith(HDF5):
        return "surely"
    is_archive = glimpse.head.startswith(ZIP[0])
    return (
        "surely" if is_archive and glimpse.head.startswith(_KERAS_MEMBERS, _MEMBER_NAME) else "no"
    )


def npz(glimpse: Glimpse) -> Answer:
    """A zip archive: its first member, or the end of an empty one."""
    return "surely" if glimpse.head.startswith(ZIP) else "no"


def safetensors(glimpse: Glimpse) -> Answer:
    """A length that a header may have, and the start of a JSON object."""
    head = glimpse.head
    if len(head) < 9 or head[8] != ord("{"):
        return "no"
    return "surely" if 2 <= int.from_bytes(head[:8], "little") <= _MAX_SAFETENSORS_HEADER else "no"


def arrow(glimpse: Glimpse) -> Answer:
    """The magic word of a file, or the start of a stream: a mark, a length, and what follows it."""
    head = glimpse.head
    if head.startswith((b"ARROW1\0\0", b"FEA1")):
        return "surely"
    if not head.startswith(b"\xff\xff\xff\xff") or len(head) < 16:
        return "no"
    length, root = struct.unpack_from("<iI", head, 4)
    return "surely" if length > 0 and length % 8 == 0 and 4 <= root < length else "no"


def parquet(glimpse: Glimpse) -> Answer:
    """The magic word, of an encrypted file too."""
    return "surely" if glimpse.head.startswith((b"PAR1", b"PARE")) else "no"


def savedmodel(glimpse: Glimpse) -> Answer:
    """A frozen graph. A SavedModel is found by its path: its bytes start as TensorProtos do."""
    found = _FIRST_NODE.match(glimpse.head)
    if found is None:
        return "no"
    end = found.start(2) + found[1][0]  # where the name ends, and the op follows
    is_name = found.end() >= min(end, len(glimpse.head))
    if not is_name or glimpse.head[end : end + 1] not in (b"", b"\x12"):
        return "no"
    return "surely" if glimpse.name.endswith(".pb") else "perhaps"


def checkpoint(glimpse: Glimpse) -> Answer:
    """A table of the first version, known by its last bytes; others are found by their path."""
    return "perhaps" if glimpse.tail(8) == LEVELDB else "no"


def tensorproto(glimpse: Glimpse) -> Answer:
    """The dtype field comes first, and no dtype is 0."""
    return "perhaps" if glimpse.head[:1] == b"\x08" else "no"


def structure(glimpse: Glimpse) -> Answer:
    """A message whose first field is one of StructuredValue's, in its wire type."""
    head = glimpse.head
    if head[:1] == b"\n":  # None, which is empty; otherwise a text that starts with a new line
        return "perhaps" if head == b"\n\0" else "no"
    first = head[0] if head else 0
    if first & 0x80 and len(head) > 1:
        first = first & 0x7F | head[1] << 7
    return "perhaps" if first >> 3 in _STRUCTURE_FIELDS.get(first & 7, ()) else "no"


def json(glimpse: Glimpse) -> Answer:
    """An object or a list comes first, perhaps after white space."""
    return "perhaps" if glimpse.head.lstrip(b" \t\r\n")[:1] in (b"{", b"[") else "no"


def nothing(glimpse: Glimpse) -> Answer:
    """Any bytes could be of this format, so it must be named by `format=` or a suffix."""
    return "no"
