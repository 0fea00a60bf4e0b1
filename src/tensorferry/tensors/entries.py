"""Entries: the arrays of numbers in a file, read whole or in part.

The formats of named arrays (npy, npz, safetensors) share this module. Each makes an `Entry` for
every array of a file. `tensorferry.tensors.stored` combines arrays into tensors.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import FormatError
from tensorferry.storage import Sink, Source
from tensorferry.storage.source import as_bytes
from tensorferry.tensors.values import Array

# Number of elements of a non-contiguous array that are copied at a time.
CHUNK = 1 << 20
# Arrays below the first size are gathered, up to the second size.
SMALL = 16 << 10
GATHERED = 1 << 20
# The most reads for one slice; a slice of more runs reads more bytes than it needs.
MAX_RUNS = 1024


Extent = tuple[Source, int, int]
"""A range of bytes: the source, the start, the end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An array of numbers in a file.

    Attributes:
        dtype: The dtype, with the byte order of the file.
        shape: The shape.
        source: The file.
        offset: Where the bytes start; None if they can only be loaded as a whole.
        fortran: Whether the first index runs fastest.
        load: Returns all bytes, decompressed and verified; by default they are read as they are.
        stored: Number of bytes in the file, if it differs from the size of the array.
        span: The range of the stored bytes in the file, if it is known.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    source: Source
    offset: int | None
    fortran: bool = False
    load: Callable[[], Any] | None = None
    stored: int | None = None
    span: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """The size of the array in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def extents(self) -> tuple[Extent, ...]:
        """The position of the array's bytes in the file, if known."""
        if self.span is not None:
            return ((self.source, *self.span),)
        if self.offset is None:
            return ()
        return ((self.source, self.offset, self.offset + self.nbytes),)

    def read(self) -> Array:
        """The array; a view of the file if possible."""
        return self._array(self._range() if self.load is None else self.load())

    def read_part(self, index: Any) -> Array:
        """The result of `array[index]`; only this part is read, if the file allows it.

        A checksum over the whole array is not verified then.

        Args:
            index: Integers, slices and an ellipsis, as NumPy takes them.
        """
        if self.offset is None:
            return _indexed(self.read(), index)
        if self.source.buffer is not None:
            return _indexed(self._array(self._range()), index)
        return _read_slice(self, index)

    def _range(self) -> Any:
        assert self.offset is not None
        return self.source.range(self.offset, self.offset + self.nbytes)

    def _array(self, data: Any) -> Array:
        try:
            return np.ndarray(self.shape, self.dtype, data, order="F" if self.fortran else "C")
        except ValueError as error:
            raise _no_array(error) from None


Place = tuple[np.dtype[Any], tuple[int, ...], int]
"""The dtype of an array, its shape, and where in the file its bytes start."""


class Entries(Mapping[str, Entry]):
    """The arrays of one file that are all stored plainly; an entry is made on access.

    A file may have thousands of small arrays, and making their entries takes longer than reading
    them.

    Args:
        source: The file.
        places: The position of each array, by name.
    """

    def __init__(self, source: Source, places: dict[str, Place]) -> None:
        self.source = source
        self.places = places

    def __getitem__(self, name: str) -> Entry:
        dtype, shape, offset = self.places[name]
        return Entry(dtype, shape, self.source, offset)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def read(self, name: str) -> Array | None:
        """An array as a view of the file; None if the file is not in memory."""
        place, buffer = self.places[name], self.source.buffer
        return None if buffer is None else views_in(buffer, {name: place})[name]

    def read_all(self) -> dict[str, Array] | None:
        """All arrays, verified; None if the file is not in memory."""
        return self.views()

    def views(self) -> dict[str, Array] | None:
        """All arrays as views, of which nothing is read; None if they must be read first."""
        buffer = self.source.buffer
        return None if buffer is None else views_in(buffer, self.places)


def views_in(buffer: bytearray | memoryview, places: Mapping[str, Place]) -> dict[str, Array]:
    """Arrays that lie in memory.

    Raises:
        FormatError: An array has no elements, and yet a shape that is too large for NumPy.
    """
    try:
        return {
            name: np.ndarray(shape, dtype, buffer, offset)
            for name, (dtype, shape, offset) in places.items()
        }
    except ValueError as error:
        raise _no_array(error) from None


def _no_array(error: ValueError) -> FormatError:
    """The error for an array without elements whose other dimensions are too large for NumPy."""
    return FormatError(f"no array has the shape that the file has: {error}")


def _indexed(array: Array, index: Any) -> Array:
    """An array, even where NumPy would return a scalar, in native byte order."""
    return np.asarray(array[index], array.dtype)


def _read_slice(entry: Entry, index: Any) -> Array:
    """Reads the runs of bytes that cover a slice."""
    picks = _picks(index, entry.shape)
    if picks is None:  # with an array or a new axis
        return _indexed(entry.read(), index)
    if entry.fortran:
        turned = Entry(entry.dtype, entry.shape[::-1], entry.source, entry.offset)
        return _read_slice(turned, tuple(reversed(_slices(index, entry.shape)))).T
    shape = [len(pick) for pick in picks if isinstance(pick, range)]
    ranges = [pick if isinstance(pick, range) else range(pick, pick + 1) for pick in picks]
    if not all(ranges):
        return np.empty(shape, entry.dtype)
    spans = [(min(picked), max(picked) + 1) for picked in ranges]
    # The first `depth` axes are read as asked, all others whole.
    depth = len(spans)
    while depth and spans[depth - 1] == (0, entry.shape[depth - 1]):
        depth -= 1
    while math.prod(stop - start for start, stop in spans[: max(depth - 1, 0)]) > MAX_RUNS:
        depth -= 1
    spans[depth:] = [(0, size) for size in entry.shape[depth:]]
    data = b"".join(entry.source.ranges(_runs(entry, spans, depth)))
    block = np.frombuffer(data, entry.dtype).reshape([stop - start for start, stop in spans])
    places = [np.asarray(r) - start for r, (start, _) in zip(ranges, spans, strict=True)]
    return _indexed(block, np.ix_(*places)).reshape(shape)


def _runs(entry: Entry, spans: list[tuple[int, int]], depth: int) -> list[tuple[int, int]]:
    """The position of a block's bytes in the file."""
    assert entry.offset is not None
    if depth == 0:
        return [(entry.offset, entry.offset + entry.nbytes)]
    size = math.prod(entry.shape[depth:]) * entry.dtype.itemsize
    start, stop = spans[depth - 1]
    runs = []
    for outer in itertools.product(*(range(*span) for span in spans[: depth - 1])):
        row = 0
        for place, length in zip(outer, entry.shape, strict=False):
            row = row * length + place
        first = entry.offset + row * entry.shape[depth - 1] * size
        runs.append((first + start * size, first + stop * size))
    return runs


def _slices(index: Any, shape: tuple[int, ...]) -> list[Any]:
    """The index of each axis, without an ellipsis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(part is Ellipsis for part in parts):
        place = next(i for i, part in enumerate(parts) if part is Ellipsis)
        parts[place : place + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    return parts + [slice(None)] * (len(shape) - len(parts))


def _picks(index: Any, shape: tuple[int, ...]) -> list[range | int] | None:
    """The requested indices along each axis, or one integer; None if it is no plain slice."""
    parts = _slices(index, shape)
    if len(parts) != len(shape):
        return None
    picks: list[range | int] = []
    for part, size in zip(parts, shape, strict=True):
        if not isinstance(part, slice):
            if isinstance(part, bool) or not hasattr(part, "__index__"):
                return None
            part = operator.index(part)
        picks.append(range(size)[part])
    return picks


def write_array(array: Array, sink: Sink) -> None:
    """Writes the values of an array, the last index running fastest, without copying it whole."""
    for chunk in chunks(array):
        sink.write(chunk)


def write_arrays(arrays: Iterable[Array], sink: Sink) -> None:
    """Writes the values of arrays one after the other; small ones are gathered and copied.

    A write takes longer than copying some kilobytes.
    """
    gathered: list[Any] = []
    size = 0

    def flush() -> None:
        if gathered:
            sink.write(b"".join(gathered))
            gathered.clear()

    for array in arrays:
        if array.nbytes >= SMALL or not array.flags.c_contiguous:
            flush()
            write_array(array, sink)
            continue
        # NumPy exports no buffers of ml_dtypes' dtypes.
        gathered.append(array if array.dtype.kind in "biufc" else as_bytes(array))
        size += array.nbytes
        if size >= GATHERED:
            flush()
            size = 0
    flush()


def chunks(array: Array) -> Iterator[Array]:
    """The values of an array in C order: the array itself if contiguous, otherwise pieces of it."""
    if array.flags.c_contiguous:
        yield array
        return
    units = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    for chunk in np.nditer(units, flags, order="C", buffersize=CHUNK):
        yield np.array(chunk)  # nditer reuses the memory of its chunk
