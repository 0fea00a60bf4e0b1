"""HDF5 values: the arrays of datasets, and where they lie in a file.

The values of a dataset are one run of bytes, which is given as a view of the file; or chunks, to
which a tree leads and which went through filters one by one (deflate, shuffle, a checksum); or, if
they are few, a part of the object's header. Where nothing was written there is the fill value,
which is zero unless the file gives another. Values in other files are refused, as are shapes of far
more values than are stored.

The objects are `tensorferry.codecs.hdf5.file`, their types `tensorferry.codecs.hdf5.types`.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.codecs.hdf5 import file as hdf5, types as hdf5_types
from tensorferry.codecs.hdf5.chunks import CHUNKED, VIRTUAL, Chunk, Layout, find_chunks, read_layout
from tensorferry.codecs.hdf5.file import Node
from tensorferry.codecs.hdf5.headers import Message
from tensorferry.codecs.hdf5.types import UNDEFINED, Datatype
from tensorferry.dtypes import DType
from tensorferry.errors import ChecksumError, FormatError, UnsupportedError
from tensorferry.tensors.entries import Entry, Extent
from tensorferry.tensors.stored import Stored, StoredArray
from tensorferry.tensors.values import MAX_RANK, Array, Kind

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
FILTERS = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32001: "blosc", 32015: "zstd"}

# The classes of types that have no counterpart among our dtypes, by what HDF5 calls them.
CLASSES = {2: "time", 4: "bitfield", 5: "opaque", 6: "compound", 7: "reference", 8: "enumeration"}
CLASSES |= {9: "sequence", 10: "array"}

# A string of variable length: where it lies in which heap.
VARIABLE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])

# Called before values are read as a whole.
Check = Callable[[], None]


def stored(node: Node, *, dtype: str | None = None, check: Check | None = None) -> Stored:
    """The values of a dataset, not read yet.

    Args:
        node: The dataset.
        dtype: The name of the dtype that opaque bytes of its size are.
        check: Called before values are read as a whole; raises if the file is damaged.

    Raises:
        FormatError: Its messages contradict each other or the file.
        LimitError: It claims far more values than are stored.
        UnsupportedError: The values are no numbers or strings, or lie elsewhere.
    """
    try:
        with node.file.parsing(node.address, "a dataset"):
            return _Reader(node, dtype, check).stored()
    except FormatError as error:
        raise error.located(tensor=node.path[:200]) from None


def describe(node: Node) -> tuple[str, tuple[int, ...]]:
    """What the values of a dataset that cannot be read are called, and its shape.

    Raises:
        FormatError: Its messages are damaged.
    """
    name, shape = "unknown", None
    with suppress(UnsupportedError), node.file.parsing(node.address, "a dataset"):
        space, kind = node.find(hdf5.DATASPACE), node.find(hdf5.DATATYPE)
        if kind is not None:
            found = hdf5_types.read_datatype(kind.data)
            name = CLASSES.get(kind.data[0] & 15, name)
            if found is not None and (found.numpy is None or found.numpy.kind != "V"):
                is_text = found.is_text or found.numpy is None
                name = "string" if is_text else found.dtype or str(found.numpy)
        if space is not None:
            shape = hdf5_types.read_shape(space.data)
    return name, shape or ()


class _Reader:
    def __init__(self, node: Node, dtype: str | None, check: Check | None) -> None:
        self.node = node
        self.file = node.file
        self.dtype = dtype
        self.check = check
        self.type, self.row = self._datatype()
        self.shape = self._shape()
        self.nbytes = math.prod(self.shape) * self.type.size

    def stored(self) -> Stored:
        if self._message(hdf5.EXTERNAL_FILES) is not None:
            self._refuse("its values are in other files")
        message = self._message(hdf5.LAYOUT)
        if message is None:
            self.file.fail(self.node.address, "a dataset has no values")
        layout = read_layout(self.file, message)
        if layout.kind == CHUNKED:
            return self._chunked(layout)
        if layout.kind == VIRTUAL:
            self._refuse("its values are those of other datasets")
        if layout.address == UNDEFINED or not self.nbytes:
            return self._filled()
        return self._run(layout.address, self.nbytes if layout.size is None else layout.size)

    def _message(self, kind: int) -> Message | None:
        return self.node.find(kind)

    def _refuse(self, what: str) -> NoReturn:
        self.file.refuse(self.node.address, what, tensor=self.node.path[:200])

    def _datatype(self) -> tuple[Datatype, DType | None]:
        message = self._message(hdf5.DATATYPE)
        if message is None:
            self.file.fail(self.node.address, "a dataset has no type")
        found = hdf5_types.read_datatype(message.data)
        if found is None:
            self._refuse("its values are no numbers or strings that a tensor can have")
        name = found.dtype
        if found.numpy is not None and found.numpy.kind == "V":
            name = self.dtype
            row = dtypes.BY_NAME.get(name or "")
            if row is None or row.numpy is None or row.numpy.itemsize != found.size:
                self._refuse(f"its values are {found.size} bytes each, and nothing says of what")
        return found, None if name is None else dtypes.BY_NAME[name]

    def _shape(self) -> tuple[int, ...]:
        message = self._message(hdf5.DATASPACE)
        found = None if message is None else hdf5_types.read_shape(message.data)
        if found is None:
            self._refuse("it has no shape")
        if len(found) > MAX_RANK or math.prod(max(n, 1) for n in found) * self.type.size >= 1 << 63:
            self.file.fail(self.node.address, f"no array has the shape {str(list(found))[:100]}")
        return found

    def _run(self, address: int, size: int) -> Stored:
        """Values that lie one behind the other."""
        if size < self.nbytes:
            self.file.fail(
                address, f"{size} bytes of values, expected {self.nbytes} for {list(self.shape)}"
            )
        data = self.file.bytes
        if address + self.nbytes > data.size:
            raise data.beyond(address, self.nbytes)
        offset = data.start + address
        # The values of many datasets may lie in the same bytes.
        self.file.bytes.source.budget.take(
            self.nbytes,
            what=f"an array of shape {list(self.shape)}",
            key=("dataset", self.node.address),
            path=self.file.path,
            offset=offset,
        )
        if self.type.numpy is None:
            span = (address, address + self.nbytes)
            return StoredTexts(self.node, self.type, self.shape, span, self.nbytes, self.check)
        load = None if self.check is None else partial(self._checked, offset)
        return self._array(offset, load, None)

    def _checked(self, offset: int) -> Any:
        assert self.check is not None
        self.check()
        return self.file.bytes.source.range(offset, offset + self.nbytes)

    def _array(
        self,
        offset: int | None,
        load: Any,
        size: int | None,
        span: tuple[int, int] | None = None,
    ) -> Stored:
        assert self.type.numpy is not None
        source = self.file.bytes.source
        entry = Entry(
            self.type.numpy, self.shape, source, offset, load=load, stored=size, span=span
        )
        return StoredArray(entry, self.row)

    def _filled(self) -> Stored:
        """Values that were never written."""
        if self.type.numpy is None:
            return StoredTexts(self.node, self.type, self.shape, None, 0, self.check)
        return self._array(None, self._fill, 0)

    def _fill(self, decoded: int = 0) -> Array:
        """An array of the value that stands where nothing was written.

        Args:
            decoded: Number of bytes that chunks are decoded to, some of which may lie outside.
        """
        if self.check is not None:
            self.check()
        self.file.bytes.source.budget.take(
            max(self.nbytes, decoded),
            what=f"an array of shape {list(self.shape)}",
            key=("dataset", self.node.address),
            path=self.file.path,
            offset=self.file.bytes.start + self.node.address,
        )
        dtype = _raw(self.type)
        message = self._message(hdf5.FILL_VALUE)
        with self.file.parsing(self.node.address, "the fill value"):
            value = b"" if message is None else hdf5_types.read_fill_value(message.data)
        array = np.zeros(self.shape, dtype)
        if self.type.numpy is not None and len(value) == self.type.size and any(value):
            array[...] = np.frombuffer(value, dtype)[0]
        return array

    def _chunked(self, layout: Layout) -> Stored:
        block, size = layout.block, layout.itemsize
        if len(block) != len(self.shape) or size != self.type.size or 0 in block:
            self.file.fail(
                self.node.address,
                f"chunks of shape {list(block)} and {size} bytes a value, "
                f"in an array of shape {list(self.shape)} and {self.type.size} bytes a value",
            )
        message = self._message(hdf5.FILTERS)
        pipeline = [] if message is None else hdf5_types.read_filters(message.data)
        for number, _ in pipeline:
            if number not in (DEFLATE, SHUFFLE, FLETCHER32):
                name = FILTERS.get(number, str(number))
                self._refuse(f"its chunks went through the filter {name}")
        space = self._message(hdf5.DATASPACE)
        most = () if space is None else hdf5_types.read_largest_shape(space.data)
        chunks = find_chunks(self.file, layout, self.shape, most, filtered=bool(pipeline))
        held = sum(chunk.size for chunk in chunks)
        decode = _Decoder(self.file, tuple(block), self.type, pipeline)
        load = partial(self._put_together, chunks, decode)
        if self.type.numpy is None:
            return StoredTexts(
                self.node, self.type, self.shape, self._span(chunks, held), held, self.check, load
            )
        return self._array(None, load, held, self._span(chunks, held))

    def _span(self, chunks: list[Chunk], held: int) -> tuple[int, int] | None:
        """Where chunks lie, if they lie close together."""
        if not chunks:
            return None
        first = min(chunk.address for chunk in chunks)
        last = max(chunk.address + chunk.size for chunk in chunks)
        start = self.file.bytes.start
        return (start + first, start + last) if last - first <= 2 * held else None

    def _put_together(self, chunks: list[Chunk], decode: _Decoder) -> Array:
        array = self._fill(len(chunks) * math.prod(decode.block) * self.type.size)
        for chunk in chunks:
            place = tuple(
                slice(start, start + step)
                for start, step in zip(chunk.corner, decode.block, strict=True)
            )
            part = array[place]
            part[...] = decode(chunk)[tuple(slice(0, n) for n in part.shape)]
        return array


@dataclass(frozen=True, slots=True)
class _Decoder:
    file: hdf5.File
    block: tuple[int, ...]
    type: Datatype
    pipeline: list[tuple[int, tuple[int, ...]]]

    def __call__(self, chunk: Chunk) -> Array:
        """The values of a chunk."""
        start = self.file.bytes.start + chunk.address
        data = self.file.bytes.source.copy(start, start + chunk.size)
        size = math.prod(self.block) * self.type.size
        for place in reversed(range(len(self.pipeline))):
            number, _ = self.pipeline[place]
            if chunk.mask >> place & 1:
                continue
            if number == DEFLATE:
                data = self._inflate(data, size + 4 * len(self.pipeline), start)
            elif number == SHUFFLE:
                data = _unshuffle(data, self.type.size)
            else:
                data = self._verify(data, start)
        if len(data) != size:
            raise FormatError(
                f"a chunk has {len(data)} bytes, expected {size}",
                path=self.file.path,
                offset=start,
            )
        return np.frombuffer(data, _raw(self.type)).reshape(self.block)

    def _inflate(self, data: bytes, most: int, start: int) -> bytes:
        stream = zlib.decompressobj()
        try:
            found = stream.decompress(data, most)
        except zlib.error as error:
            raise FormatError(f"{error}", path=self.file.path, offset=start) from None
        if not stream.eof and len(found) < most:
            raise FormatError("a chunk's stream does not end", path=self.file.path, offset=start)
        return found

    def _verify(self, data: bytes, start: int) -> bytes:
        """The bytes without the checksum at their end."""
        content, found = data[:-4], data[-4:]
        expected = fletcher32(content)
        if found not in (struct.pack("<I", expected), struct.pack(">I", expected)):
            raise ChecksumError(
                f"a chunk's checksum is {expected:#010x}, stored 0x{found[::-1].hex()}",
                path=self.file.path,
                offset=start,
            )
        return content


def _raw(datatype: Datatype) -> np.dtype[Any]:
    """The dtype of values as they are stored: of strings in heaps, their places there."""
    return np.dtype(f"V{datatype.size}") if datatype.numpy is None else datatype.numpy


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum over pairs of bytes, the first of a pair being the higher."""
    padded = data + b"\0" * (len(data) % 2)
    words = np.frombuffer(padded, ">u2").astype(np.uint64)
    low = high = 0
    for start in range(0, len(words), 1 << 16):
        part = words[start : start + (1 << 16)]
        weights = np.arange(len(part), 0, -1, dtype=np.uint64)
        high = (high + low * len(part) + int((part * weights).sum())) % 65535
        low = (low + int(part.sum())) % 65535
    return high << 16 | low


def _unshuffle(data: bytes, width: int) -> bytes:
    """Puts the bytes of each value together again; what is no whole value stays at the end."""
    count = len(data) // width
    values = np.frombuffer(data, np.uint8, count * width).reshape(width, count)
    return values.T.tobytes() + data[count * width :]


@dataclass(frozen=True, slots=True)
class StoredTexts(Stored):
    """Strings of variable length, which are in heaps.

    Attributes:
        node: The dataset.
        datatype: The type of its values.
        shape: The dimensions.
        span: From where to where the list of places in the heaps lies; None if nothing was written,
            or if chunks of it lie far apart.
        nbytes: Number of bytes of that list.
        check: Called before the strings are read.
        load: Gives the list, if it is in chunks.
    """

    node: Node
    datatype: Datatype
    shape: tuple[int, ...]
    span: tuple[int, int] | None
    nbytes: int
    check: Check | None = None
    load: Callable[[], Array] | None = None
    kind: Kind = "string"
    dtype: DType = dtypes.STRING

    def extents(self) -> Iterable[Extent]:
        """Where the list lies; where the strings do is known when it was read."""
        if self.span is None:
            return ()
        start = 0 if self.load is not None else self.node.file.bytes.start
        return ((self.node.file.bytes.source, start + self.span[0], start + self.span[1]),)

    def read(self) -> Array:
        """The strings."""
        if self.check is not None:
            self.check()
        count = math.prod(self.shape)
        if self.span is None and self.load is None:
            self.node.file.bytes.source.budget.take(
                8 * count,
                what=f"{count} strings of which none is stored",
                key=("dataset", self.node.address),
            )
            values = [b""] * count
        else:
            data = self._places()
            self._count(data)
            places = range(0, len(data), self.datatype.size)
            values = [
                self.node.text(data[place : place + self.datatype.size], self.datatype)
                for place in places
            ]
        array: Array = np.empty(count, object)
        array[:] = values
        return array.reshape(self.shape)

    def _count(self, data: bytes) -> None:
        """Counts the bytes of the strings: many of them may be the same bytes of the file."""
        if not self.datatype.is_variable or len(data) % VARIABLE.itemsize:
            return
        self.node.file.bytes.source.budget.take(
            int(np.frombuffer(data, VARIABLE)["length"].sum(dtype=np.uint64)),
            what=f"the strings of {self.node.path[:200]!r}",
            key=("strings", self.node.address),
        )

    def _places(self) -> bytes:
        if self.load is not None:
            return self.load().tobytes()
        assert self.span is not None
        return self.node.file.bytes.take(self.span[0], self.nbytes)

    def read_part(self, index: Any) -> Array:
        """Some of the strings."""
        return np.asarray(self.read()[index])
