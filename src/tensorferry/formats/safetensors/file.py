"""safetensors: named arrays of numbers behind a JSON header, as Hugging Face's models are kept.

    uint64 length of the header | header: JSON, padded with spaces | data

The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, with offsets from the
start of the data, and "__metadata__" to an object of strings. The arrays cover the data without
holes. Numbers are little-endian, in C order. There is no checksum.

A dict of arrays gives the very bytes of the safetensors package: those of the widest dtypes come
first, each dtype's by name, so that all are aligned. Names that a stream brings come in its order,
behind a header that has room to be filled in at the end.

The header is parsed and checked in `tensorferry._native`. A tensor of a dtype that NumPy has not
(F6_E2M3) is listed, and refused when it is asked for. A model of several files has an index beside
them: `tensorferry.formats.safetensors.shards`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.codecs import json_text as json
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from tensorferry.formats.arrays import Contents
from tensorferry.formats.contract import Plain
from tensorferry.storage import Source
from tensorferry.tensors.entries import Entries, Entry, write_array, write_arrays
from tensorferry.tensors.note import KEY
from tensorferry.tensors.stored import Unreadable, plain_storage
from tensorferry.tensors.values import Array

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

# Two values a byte, the first in its lower half.
_HALVES = "F4"


@cache
def _numpy() -> dict[str, np.dtype[Any]]:
    """NumPy's dtypes, by the names that the format has.

    Those of NumPy itself, which it knows without looking: the machine is little-endian as well.
    """
    rows = ((row.safetensors, row.numpy) for row in dtypes.BY_NAME.values())
    return {name: dtype for name, dtype in rows if name and dtype is not None}


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
    gathered: list[tuple[str, Array]] = []
    if isinstance(parts, Sequence):
        gathered = list(parts)
    else:
        size, stream = 0, iter(parts)
        for part in stream:
            gathered.append(part)
            size += part[1].nbytes
            if size > GATHERED:
                _write_stream(itertools.chain(gathered, stream), sink, metadata)
                return
    # As in the package: the widest first.
    places = _places()
    order = sorted(
        [(places[array.dtype], name, number) for number, (name, array) in enumerate(gathered)]
    )
    ordered = [gathered[number] for _, _, number in order]
    header, begin = _Header(metadata()), 0
    for name, array in ordered:
        begin = header.add(name, array, begin)
    sink.write(header.encode())
    write_arrays([array for _, array in ordered], sink)


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
        self._tensors: dict[str, str] = {}
        self._metadata = metadata
        # As text: most arrays share theirs.
        self._kinds: dict[tuple[np.dtype[Any], tuple[int, ...]], str] = {}

    def set_metadata(self, metadata: dict[str, str]) -> None:
        self._metadata = metadata

    def add(self, name: str, array: Array, begin: int) -> int:
        """Notes an array that stands at `begin`, and gives its end."""
        if name == METADATA or name in self._tensors:
            what = "is no name for a tensor" if name == METADATA else "names two tensors"
            raise UnsupportedError(f"{name!r} {what} of a safetensors file", tensor=name)
        kind = array.dtype, array.shape
        text = self._kinds.get(kind)
        if text is None:
            shape = ",".join(map(str, array.shape))
            text = self._kinds[kind] = f'"dtype":"{_names()[array.dtype]}","shape":[{shape}]'
        end = begin + array.nbytes
        # json.dumps would take three times as long, and an object for each tensor.
        self._tensors[name] = f'{json.quote(name)}:{{{text},"data_offsets":[{begin},{end}]}}'
        return end

    def encode(self, size: int | None = None) -> bytes:
        """The length and the header, in exactly `size` bytes if that is given."""
        entries = list(self._tensors.values())
        if self._metadata:
            entries.insert(0, f'"{METADATA}":{json.to_text(self._metadata).decode()}')
        text = json.to_bytes("{" + ",".join(entries) + "}")
        padded = -(-len(text) // ALIGNMENT) * ALIGNMENT if size is None else size - 8
        if len(text) > min(padded, MAX_HEADER):
            room = min(padded, MAX_HEADER)
            raise UnsupportedError(
                f"the header takes {len(text)} bytes, {room} are there for it",
                hint="save the tensors in several files",
            )
        return padded.to_bytes(8, "little") + text.ljust(padded)


@cache
def _names() -> dict[np.dtype[Any], str]:
    """The names that the format has for NumPy's dtypes."""
    rows = dtypes.BY_NAME.values()
    return {row.numpy: row.safetensors for row in rows if row.numpy and row.safetensors}


@cache
def _places() -> dict[np.dtype[Any], int]:
    """By which arrays are sorted: the widest first."""
    return {dtype: -ORDER.index(name) for dtype, name in _names().items()}


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
        found, metadata, is_usual = _native.safetensors_header(
            source.range(8, 8 + length), size - 8 - length, _numpy()
        )
    except FormatError as error:
        raise error.located(path=source.path) from None
    if is_usual:
        return Contents(Entries(source, found), metadata)
    return Contents({name: _entry(source, *place) for name, place in found.items()}, metadata)


def read_plain(data: memoryview) -> Plain | None:
    """The arrays of a file; None if anything is unusual: see `ReadsPlain`."""
    length = int.from_bytes(data[:8], "little")
    rest = len(data) - 8 - length
    if rest < 0 or length > MAX_HEADER:
        return None
    header = bytes(data[8 : 8 + length])
    if _NOTED in header:  # before it is parsed, which the long way does once more
        return None
    try:
        found, metadata, is_usual = _native.safetensors_header(header, rest, _numpy())
    except FormatError:
        return None
    return Plain(found, metadata) if is_usual and KEY not in metadata else None


_NOTED = f'"{KEY}"'.encode()


def _size(source: Source) -> int:
    return len(source.everything()) if source.size is None else source.size


def _entry(
    source: Source,
    dtype: np.dtype[Any] | str,
    shape: tuple[int, ...],
    start: int,
    end: int | None = None,
) -> Entry | Unreadable:
    """An array of a file in which some have a dtype that is not simply NumPy's."""
    if end is None:
        assert not isinstance(dtype, str)
        return Entry(dtype, shape, source, start)
    if dtype == _HALVES:
        unpacked = dtypes.BY_NAME["float4_e2m1fn"].numpy
        assert unpacked is not None
        load = partial(_unpack, source, start, end, unpacked)
        stored = end - start
        return Entry(unpacked, shape, source, None, load=load, stored=stored, span=(start, end))
    reason = UnsupportedError(f"dtype {dtype} has no counterpart in NumPy or TensorFlow")
    return Unreadable(reason, str(dtype), shape, end - start)


def _unpack(source: Source, start: int, end: int, dtype: np.dtype[Any]) -> Array:
    packed = np.frombuffer(source.range(start, end), np.uint8)
    values = np.empty(2 * len(packed), np.uint8)
    values[::2], values[1::2] = packed & 15, packed >> 4
    return values.view(dtype)
