"""safetensors: named arrays of numbers behind a JSON header, as Hugging Face's models are kept.

    uint64 length of the header | header: JSON, padded with spaces | data

The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, with offsets from the
start of the data, and "__metadata__" to an object of strings. The arrays cover the data without
holes. Numbers are little-endian, in C order. There is no checksum.

A dict of arrays gives the very bytes of the safetensors package: those of the widest dtypes come
first, each dtype's by name, so that all are aligned. Names that a stream brings come in its order,
behind a header that has room to be filled in at the end.

A tensor of a dtype that NumPy has not (F6_E2M3) is listed, and refused when it is asked for. A
model of several files has an index beside them: `tensorferry.formats.safetensors.shards`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.codecs import json_text as json
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from tensorferry.formats.arrays import Contents
from tensorferry.storage import Source
from tensorferry.tensors.entries import Entry, write_array
from tensorferry.tensors.stored import Unreadable, plain_storage
from tensorferry.tensors.values import MAX_RANK, Array

NAME = "safetensors"

METADATA = "__metadata__"
MAX_HEADER = 100_000_000
ALIGNMENT = 8
# Of a stream of parts, so many bytes are gathered before it counts as too long for that; the header
# then gets so much room, enough for ten thousand tensors.
GATHERED = 16 << 20
RESERVED = 1 << 20

# The order of the package's dtypes, by which it lays out the data.
ORDER = (
    "BOOL",
    "F4",
    "F6_E2M3",
    "F6_E3M2",
    "U8",
    "I8",
    "F8_E5M2",
    "F8_E4M3",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
    "I16",
    "U16",
    "F16",
    "BF16",
    "I32",
    "U32",
    "F32",
    "C64",
    "F64",
    "I64",
    "U64",
)

# The bits of a value of the dtypes that NumPy has not.
_BITS = {"F6_E2M3": 6, "F6_E3M2": 6}
# Two values a byte, the first in its lower half.
_HALVES = "F4"


@cache
def _numpy() -> dict[str, np.dtype[Any]]:
    """NumPy's dtypes, with the byte order of the format, by the names that the format has."""
    rows = ((row.safetensors, row.numpy) for row in dtypes.BY_NAME.values())
    return {name: dtype.newbyteorder("<") for name, dtype in rows if name and dtype is not None}


def storage(row: DType) -> np.dtype[Any] | None:
    """What values of a dtype are stored as, if not as themselves."""
    return None if row.safetensors is not None else plain_storage(row)


def write_parts(
    parts: Iterable[tuple[str, Array]], sink: Any, metadata: Callable[[], dict[str, str]]
) -> None:
    """Writes arrays.

    Args:
        parts: Names and arrays. Those of a list are laid out as the package does it, and so are
            few others; many are taken and written one by one.
        sink: Takes the bytes; if parts are to be taken one by one, a file.
        metadata: Gives the metadata, when all parts were taken.
    """
    gathered, size = [], 0
    stream = iter(parts)
    for part in stream:
        gathered.append(part)
        size += part[1].nbytes
        if size > GATHERED and not isinstance(parts, Sequence):
            _write_stream(itertools.chain(gathered, stream), sink, metadata)
            return
    # As in the package: the widest first.
    order = sorted(gathered, key=lambda part: (-ORDER.index(_dtype_of(part[1])), part[0]))
    header, begin = _Header(metadata()), 0
    for name, array in order:
        begin = header.add(name, array, begin)
    sink.write(header.encode())
    for _, array in order:
        write_array(array, sink)


def _write_stream(
    parts: Iterable[tuple[str, Array]], sink: Any, metadata: Callable[[], dict[str, str]]
) -> None:
    start = sink.position
    sink.write(bytes(RESERVED))
    header, begin = _Header({}), 0
    for name, array in parts:
        begin = header.add(name, array, begin)
        write_array(array, sink)
    header.set_metadata(metadata())
    sink.patch(start, header.encode(RESERVED))


class _Header:
    def __init__(self, metadata: dict[str, str]) -> None:
        self._tensors: dict[str, Any] = {}
        self._metadata = metadata

    def set_metadata(self, metadata: dict[str, str]) -> None:
        self._metadata = metadata

    def add(self, name: str, array: Array, begin: int) -> int:
        """Notes an array that stands at `begin`, and gives its end."""
        if name == METADATA or name in self._tensors:
            what = "is no name for a tensor" if name == METADATA else "names two tensors"
            raise UnsupportedError(f"{name!r} {what} of a safetensors file", tensor=name)
        end = begin + array.nbytes
        self._tensors[name] = {
            "dtype": _dtype_of(array),
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        return end

    def encode(self, size: int | None = None) -> bytes:
        """The length and the header, in exactly `size` bytes if that is given."""
        head = {METADATA: self._metadata} if self._metadata else {}
        text = json.to_text({**head, **self._tensors})
        padded = -(-len(text) // ALIGNMENT) * ALIGNMENT if size is None else size - 8
        if len(text) > min(padded, MAX_HEADER):
            room = min(padded, MAX_HEADER)
            raise UnsupportedError(
                f"the header takes {len(text)} bytes, {room} are there for it",
                hint="save the tensors in several files",
            )
        return padded.to_bytes(8, "little") + text.ljust(padded)


def _dtype_of(array: Array) -> str:
    name = dtypes.from_numpy(array.dtype).safetensors
    assert name is not None
    return name


def read_parts(source: Source) -> Contents:
    """The arrays of a file, and its metadata; nothing but the header is read."""
    size = _size(source)
    if size < 8:
        raise TruncatedError(
            f"{size} bytes, expected 8 for the length of a header", path=source.path, offset=0
        )
    length = int.from_bytes(source.range(0, 8), "little")
    if length > MAX_HEADER:
        raise LimitError(
            f"the header takes {length} bytes, expected at most {MAX_HEADER}",
            path=source.path,
            offset=0,
            hint="this may be no safetensors file",
        )
    if length > size - 8:
        raise TruncatedError(
            f"the header takes {length} bytes, {size - 8} are there", path=source.path, offset=0
        )
    try:
        header = json.parse(source.range(8, 8 + length))
    except FormatError as error:
        error.offset = None if error.offset is None else 8 + error.offset
        raise error.located(path=source.path) from None
    try:
        return _contents(header, source, 8 + length, size)
    except FormatError as error:
        raise error.located(path=source.path) from None


def _size(source: Source) -> int:
    return len(source.everything()) if source.size is None else source.size


def _contents(header: Any, source: Source, start: int, size: int) -> Contents:
    if not isinstance(header, dict):
        raise FormatError("the header is no JSON object", offset=8)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FormatError(f"{METADATA!r} is no object of strings", offset=8)
    entries: dict[str, Entry | Unreadable] = {}
    ranges = []
    for name, description in header.items():
        try:
            dtype, shape, begin, end = _check(description)
        except FormatError as error:
            raise error.located(tensor=name[:200]) from None
        ranges.append((begin, end, name))
        if isinstance(dtype, str):
            reason = UnsupportedError(f"dtype {dtype} has no counterpart in NumPy or TensorFlow")
            entries[name] = Unreadable(reason, dtype, shape, end - begin)
        elif description["dtype"] == _HALVES:
            load = partial(_unpack, source, start + begin, start + end, dtype)
            span = (start + begin, start + end)
            entries[name] = Entry(
                dtype, shape, source, None, load=load, stored=end - begin, span=span
            )
        else:
            entries[name] = Entry(dtype, shape, source, start + begin)
    expected = 0
    for begin, end, name in sorted(ranges):
        if begin != expected:
            what = "overlaps the tensor before it" if begin < expected else "leaves a hole"
            raise FormatError(
                f"the data begins at {begin}, expected {expected}: it {what}",
                tensor=name[:200],
                offset=start + begin,
            )
        expected = end
    if expected != size - start:
        kind = TruncatedError if expected > size - start else FormatError
        raise kind(
            f"{size - start} bytes of data, the tensors have {expected}",
            offset=min(size, start + expected),
        )
    return Contents(entries, metadata)


def _unpack(source: Source, start: int, end: int, dtype: np.dtype[Any]) -> Array:
    packed = np.frombuffer(source.range(start, end), np.uint8)
    values = np.empty(2 * len(packed), np.uint8)
    values[::2], values[1::2] = packed & 15, packed >> 4
    return values.view(dtype)


def _check(description: Any) -> tuple[np.dtype[Any] | str, tuple[int, ...], int, int]:
    """The dtype, shape and place that the header has for a tensor.

    A dtype of the package's that NumPy has not is given by its name.
    """
    if not isinstance(description, dict) or description.keys() != {
        "dtype",
        "shape",
        "data_offsets",
    }:
        raise FormatError("not described by dtype, shape and data_offsets", offset=8)
    dtype, shape, place = description["dtype"], description["shape"], description["data_offsets"]
    found = _numpy().get(dtype) if isinstance(dtype, str) else None
    if found is None and dtype == _HALVES:
        found = dtypes.BY_NAME["float4_e2m1fn"].numpy
    if found is None and not (isinstance(dtype, str) and dtype in _BITS):
        raise FormatError(f"dtype is {str(dtype)[:60]!r}, which safetensors has not", offset=8)
    for numbers, name in ((shape, "shape"), (place, "data_offsets")):
        if not _are_sizes(numbers):
            raise FormatError(f"{name} is {str(numbers)[:60]}, expected numbers of 0 or more")
    if len(place) != 2 or place[0] > place[1]:
        raise FormatError(f"data_offsets are {str(place)[:60]}, expected a begin and an end")
    if len(shape) > MAX_RANK or max(shape, default=0) >= 2**63:
        raise FormatError(f"no array has the shape {str(shape)[:60]}")
    bits = 4 if dtype == _HALVES else _BITS[dtype] if found is None else 8 * found.itemsize
    expected, rest = divmod(math.prod(shape) * bits, 8)
    if place[1] - place[0] != expected or rest:
        raise FormatError(
            f"{place[1] - place[0]} bytes, expected {str(expected)[:40]} "
            f"for {dtype} of shape {str(shape)[:60]}"
        )
    return dtype if found is None else found, tuple(shape), place[0], place[1]


def _are_sizes(numbers: Any) -> bool:
    """Whether JSON has a list of numbers of 0 or more."""
    if type(numbers) is not list:
        return False
    for number in numbers:  # noqa: SIM110  # twice as fast as all(): this is done for each tensor
        if type(number) is not int or number < 0:
            return False
    return True
