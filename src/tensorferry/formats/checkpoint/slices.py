"""Slices: how checkpoints keep a tensor in pieces, as partitioned variables are.

The tensor has an entry of its own with its dtype, its shape and a TensorSliceProto for each piece:

    1 extent, one a dimension: 1 start | 2 length; the whole of it where there is no length

A piece is under a key that no name of a tensor can be, written so that keys sort as their parts do
(Google's OrderedCode):

    number 0 | name | number of dimensions | signed start, signed length of each, or 0 and -1

All keys of a table of the first version (`tensorferry.formats.checkpoint.v1`) are of this form.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, LimitError
from tensorferry.formats.checkpoint.extents import WHOLE, Extents
from tensorferry.tensors.entries import Extent
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, Kind, check_budget

# What a number of one to ten bytes starts with, so that longer ones are greater.
_HEADERS = [0xFFFF << 16 - size & 0xFFFF for size in range(11)]
# How many boxes slices may cut a tensor into.
MAX_CELLS = 1 << 24
_ESCAPED = re.compile(rb"[\x00\xff]")


def key(name: bytes, extents: Extents) -> bytes:
    """The key of a piece."""
    escaped = _ESCAPED.sub(lambda found: found[0] + bytes((0xFF - found[0][0],)), name)
    parts = [b"\0", escaped, b"\0\x01", _number(len(extents))]
    for start, length in extents:
        parts += (_signed_number(start), _signed_number(length))
    return b"".join(parts)


def _number(number: int) -> bytes:
    size = (number.bit_length() + 7) // 8
    return bytes((size,)) + number.to_bytes(size, "big")


def _signed_number(number: int) -> bytes:
    bits = (~number if number < 0 else number).bit_length()
    size = bits // 7 + 1
    data = bytearray((number & (1 << 80) - 1).to_bytes(10, "big")[-size:])
    header = _HEADERS[size]
    data[0] ^= header >> 8
    if size > 1:
        data[1] ^= header & 0xFF
    return bytes(data)


@dataclass(frozen=True, slots=True)
class StoredSlices(Stored):
    """A tensor in pieces.

    Attributes:
        dtype: The dtype of the values.
        shape: The shape of the whole tensor.
        pieces: Where each starts in every dimension, and what it is.
    """

    dtype: DType
    shape: tuple[int, ...]
    pieces: tuple[tuple[tuple[int, ...], Stored], ...]

    @property
    def kind(self) -> Kind:
        """How it is made."""
        return "string" if self.dtype is dtypes.STRING else "dense"

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the files."""
        return sum(piece.nbytes for _, piece in self.pieces)

    def extents(self) -> Iterable[Extent]:
        """Where its pieces lie."""
        return (extent for _, piece in self.pieces for extent in piece.extents())

    def read(self) -> Array:
        """The whole tensor."""
        assert self.dtype.numpy is not None
        check_budget(self.shape, self.dtype.numpy, what="a tensor of slices", held=self.nbytes)
        whole: Array = np.empty(self.shape, self.dtype.numpy)
        for starts, piece in self.pieces:
            part: Any = piece.read()
            ends = (start + size for start, size in zip(starts, part.shape, strict=True))
            whole[tuple(map(slice, starts, ends))] = part
        whole.flags.writeable = False
        return whole

    def read_part(self, index: Any) -> Array:
        """Some of its values."""
        return np.asarray(self.read()[index])


def place(shape: tuple[int, ...], extents: Extents) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where a piece of a tensor starts, and its shape.

    Raises:
        FormatError: It is no piece of such a tensor.
    """
    if len(extents) != len(shape):
        raise FormatError(f"a slice of {len(extents)} dimensions of a tensor of {len(shape)}")
    starts, sizes = [], []
    for (start, length), size in zip(extents, shape, strict=True):
        length = size if length == WHOLE else length
        if start + length > size:
            raise FormatError(f"a slice from {start} to {start + length} of a dimension of {size}")
        starts.append(start)
        sizes.append(length)
    return tuple(starts), tuple(sizes)


def check_cover(
    shape: tuple[int, ...], places: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    """Refuses pieces that overlap, or leave something out.

    Raises:
        FormatError: They do.
    """
    total = sum(_volume(sizes) for _, sizes in places)
    if total != _volume(shape):
        raise FormatError(
            f"the slices have {total} elements, expected {_volume(shape)} for shape {list(shape)}"
        )
    # As many elements as the whole: each is there once, unless two pieces share some. That shows on
    # a grid of the places where pieces start.
    cuts = [sorted({starts[axis] for starts, _ in places}) for axis in range(len(shape))]
    cells = [len(cut) for cut in cuts]
    if _volume(tuple(cells)) > MAX_CELLS:
        raise LimitError(f"{len(places)} slices that lie too wildly to be checked")
    taken = np.zeros(cells, bool)
    for starts, sizes in places:
        if not _volume(sizes):
            continue
        spans = zip(cuts, starts, sizes, strict=True)
        box = tuple(slice(bisect_left(c, at), bisect_left(c, at + size)) for c, at, size in spans)
        if taken[box].any():
            raise FormatError("two slices of a tensor overlap")
        taken[box] = True


def _volume(sizes: tuple[int, ...]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
