"""Extents: where a slice of a tensor starts in each dimension, and how long it is there.

They are a TensorSliceProto in an entry of an index, and parts of a slice's key. They need no
NumPy: a checkpoint is listed without it.
"""

from __future__ import annotations

from tensorferry.codecs.protobuf import Span
from tensorferry.errors import FormatError
from tensorferry.formats.checkpoint.messages import Reader

Extents = tuple[tuple[int, int], ...]
"""The start and the length in each dimension."""

WHOLE = -1
"""The length of a slice that is the whole dimension."""

_MAX = 1 << 63


def parse(reader: Reader, span: Span) -> Extents:
    """The starts and lengths of a TensorSliceProto; a length of -1 is the whole dimension.

    Raises:
        FormatError: A start is negative, or the end is beyond all numbers.
    """
    extents = []
    for place in reader.each("TensorSliceProto", "extent", span):
        extent = reader.read("Extent", place)
        begin, length = extent.get("start", 0), extent.get("length", WHOLE)
        if begin < 0 or length < WHOLE or begin + length >= _MAX or (length == WHOLE and begin):
            raise FormatError(
                f"a slice starts at {begin} and has a length of {length}, expected 0 or more",
                offset=place.start,
            )
        extents.append((begin, length))
    return tuple(extents)
