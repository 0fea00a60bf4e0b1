"""HDF5 files as h5py writes them by default: groups, contiguous datasets, attributes of text.

    superblock | texts of attributes | headers of datasets | groups | values

The native core encodes all of a file that stands before the values (native/core/hdf5_encode.h).
The values are written by whoever has them, at the addresses that datasets have by then. What the
numbers in messages mean is said in `tensorferry.codecs.hdf5.file`, which reads such files, and
`tensorferry.codecs.hdf5.types`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Literal

from tensorferry import _native
from tensorferry.classes import NamedTuple

MAX_RANK = 32
"""The most dimensions that the HDF5 library knows."""

LARGE = 4096
"""Values of so many bytes start where vectors may be loaded from."""

Attributes = tuple[tuple[str, str], ...]
"""The attributes of an object: names and texts."""

Datatype = tuple[bytes, Attributes]
"""The type of values, as a message, and the attributes that datasets of the type have."""


def _fixed(bits: int, is_signed: bool) -> bytes:
    return struct.pack("<BBBBIHH", 0x10, 8 * is_signed, 0, 0, bits // 8, 0, bits)


def _float(bits: int, exponent: int) -> bytes:
    mantissa = bits - exponent - 1
    head = struct.pack("<BBBBI", 0x11, 0x20, bits - 1, 0, bits // 8)
    bias = (1 << (exponent - 1)) - 1
    return head + struct.pack("<HHBBBBI", 0, bits, mantissa, exponent, 0, mantissa, bias)


_BOOL = (
    struct.pack("<BBBBI", 0x18, 2, 0, 0, 1)
    + _fixed(8, True)
    + b"FALSE".ljust(8, b"\0")
    + b"TRUE".ljust(8, b"\0")
    + b"\0\1"
)

DATATYPES: Mapping[str, bytes] = {
    "bool": _BOOL,
    **{f"int{bits}": _fixed(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _fixed(bits, False) for bits in (8, 16, 32, 64)},
    "float16": _float(16, 5),
    "float32": _float(32, 8),
    "float64": _float(64, 11),
    "opaque16": struct.pack("<BBBBI", 0x15, 0, 0, 0, 2),
}
"""The types that values may have, by name, as messages: `opaque16` are two bytes of no type."""


class Encoded(NamedTuple):
    """A file before its values.

    Attributes:
        front: The bytes of the file up to the first value.
        starts: Where the values of each dataset stand in the file; zeros stand between them. An
            empty dataset stands nowhere.
        sizes: Number of bytes of each dataset's values, little-endian and in C order.
    """

    front: bytes
    starts: list[int]
    sizes: list[int]


class Refused(NamedTuple):
    """An object that a file cannot have.

    Attributes:
        reason: "path" if its path is none, "twice" if another dataset has the path, "mixed" if a
            dataset and a group have one, "rank" if there are more than `MAX_RANK` dimensions.
        number: Which object it is: first groups are counted, then datasets.
    """

    reason: Literal["path", "twice", "mixed", "rank"]
    number: int


def encode(
    groups: Sequence[tuple[str, Attributes]],
    paths: list[str],
    types: list[Datatype],
    shapes: list[tuple[int, ...]],
    *,
    within: str,
) -> Encoded | Refused:
    """All of a file that stands before its values, or the first object that it cannot have.

    Args:
        groups: The paths of groups that have attributes, with these.
        paths: Those of datasets, in the order of their values in the file. Groups that lead to them
            are made.
        types: Those of the datasets.
        shapes: Those of the datasets.
        within: What the groups are called that datasets are in.
    """
    front, starts, sizes, refused = _native.hdf5_encode(list(groups), paths, types, shapes, within)
    return Encoded(front, starts, sizes) if refused is None else Refused(*refused)
