"""StructuredValue: TensorFlow's own bytes for nested structures.

A protobuf message with one field, which says what the value is:

    1 None | 11 float | 12 int | 13 str | 14 bool | 51 list | 52 tuple | 53 dict | 54 named tuple
    55 tensor, 56 array: a TensorProto each

TensorFlow's `nested_structure_coder` decodes what stands here. It has no place for sparse tensors,
ragged tensors and `bytes`: these are named tuples of their parts, under the names below, so that
TensorFlow sees the parts and we give back the whole. Tensors are `tensorferry.formats.tensorproto`
and are neither copied on writing nor, where it can be avoided, on reading; that and offsets in
errors are why the message is walked with `_native.MessageFields` and not by a protobuf library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tensorferry import _native, limits
from tensorferry.codecs.wire import tag, varint
from tensorferry.errors import FerryError, FormatError, LimitError, UnsupportedError
from tensorferry.formats import tensorproto
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.wholes import WholeReader
from tensorferry.storage import Buffers, Sink
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.content import Content
from tensorferry.tensors.values import RaggedTensor, SparseTensor, is_namedtuple, make_namedtuple

NAME = "structure"

NONE, FLOAT, INT, STR, BOOL = 1, 11, 12, 13, 14
LIST, TUPLE, DICT, NAMED_TUPLE, TENSOR, ARRAY = 51, 52, 53, 54, 55, 56

# Fields that describe tensors and hold no value: TensorShape, DType, TensorSpec, TypeSpec ...
DESCRIPTIONS = {31, 32, 33, 34, 35}

VARINT, FIXED64, BYTES = 0, 1, 2
WIRE = {FLOAT: FIXED64, INT: VARINT, BOOL: VARINT, 32: VARINT}

SPARSE = "tensorferry_SparseTensor"
RAGGED = "tensorferry_RaggedTensor"
PLAIN_BYTES = "tensorferry_bytes"

# Protobuf's readers, TensorFlow's among them, stop at this many messages inside each other.
MAX_DEPTH = 100
TENSOR_DEPTH = 3  # TensorProto, its shape, a dimension


# Writing: a message is the list of its buffers and their total size.


class Message(NamedTuple):
    """The buffers of an encoded message, and the sum of their sizes."""

    buffers: list[Any]
    size: int


def write(value: Any, sink: Sink) -> None:
    """Writes any value, without copying its contiguous tensors."""
    message = _encode(value, MAX_DEPTH)
    if message.size > tensorproto.MAX_SIZE:
        raise UnsupportedError(
            f"a StructuredValue holds less than 2 GiB, this one takes {message.size} bytes",
            hint="write its tensors one by one",
        )
    for buffer in message.buffers:
        sink.write(buffer)


def _encode(value: Any, depth: int) -> Message:
    if depth < _depth_of(value):
        raise LimitError(
            f"the structure takes more than {MAX_DEPTH} messages inside each other",
            hint="TensorFlow's reader stops there: flatten the structure",
        )
    encoded = _encode_scalar(value)
    if encoded is not None:
        return Message([encoded], len(encoded))
    if isinstance(value, np.ndarray):
        buffers = Buffers()
        tensorproto.write(value, buffers)
        sizes = (len(buffer) if type(buffer) is bytes else buffer.nbytes for buffer in buffers)
        return frame(TENSOR, buffers, sum(sizes))
    if isinstance(value, SparseTensor):
        parts = {name: getattr(value, name) for name in ("indices", "values", "dense_shape")}
        return _encode_pairs(SPARSE, parts, depth)
    if isinstance(value, RaggedTensor):
        parts = {"flat_values": value.flat_values, "nested_row_splits": value.nested_row_splits}
        return _encode_pairs(RAGGED, parts, depth)
    if isinstance(value, bytes):
        string = np.empty((), dtype=object)
        string[()] = value
        return _encode_pairs(PLAIN_BYTES, {"value": string}, depth)
    if is_namedtuple(value):
        return _encode_pairs(type(value).__name__, value._asdict(), depth)
    if isinstance(value, dict):
        pairs = [_encode_pair(key, element, depth - 3) for key, element in value.items()]
        return frame(DICT, *_repeated(1, pairs))
    if isinstance(value, list | tuple):
        elements = [_encode(element, depth - 2) for element in value]
        return frame(LIST if isinstance(value, list) else TUPLE, *_repeated(1, elements))
    raise UnsupportedError(f"{type(value).__name__} has no place in a structure")


def _depth_of(value: Any) -> int:
    """How many messages a value takes inside its StructuredValue, its elements left out."""
    if isinstance(value, np.ndarray):
        return TENSOR_DEPTH
    return 0 if isinstance(value, bool | int | float | str) else 1


def _encode_scalar(value: Any) -> bytes | None:
    if value is None:
        return tag(NONE, BYTES) + b"\0"
    if isinstance(value, bool):
        return tag(BOOL, VARINT) + varint(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(
                f"the int {value} does not fit 64 bits", hint='format="json" has no such limit'
            )
        return tag(INT, VARINT) + varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, float):
        return tag(FLOAT, FIXED64) + struct.pack("<d", value)
    if isinstance(value, str):
        text = utf8(value)
        return tag(STR, BYTES) + varint(len(text)) + text
    return None


def _encode_pairs(name: str, pairs: dict[str, Any], depth: int) -> Message:
    text = utf8(name)
    named = tag(1, BYTES) + varint(len(text)) + text
    fields = [_encode_pair(key, element, depth - 3) for key, element in pairs.items()]
    buffers, size = _repeated(2, fields)
    return frame(NAMED_TUPLE, [named, *buffers], len(named) + size)


def _encode_pair(key: str, value: Any, depth: int) -> Message:
    text = utf8(key)
    named = tag(1, BYTES) + varint(len(text)) + text
    try:
        buffers, size = frame(2, *_encode(value, depth))
    except FerryError as error:
        raise error.located(tensor=key) from None
    return Message([named, *buffers], len(named) + size)


def _repeated(number: int, messages: list[Message]) -> Message:
    buffers: list[Any] = []
    size = 0
    for message in messages:
        framed = frame(number, *message)
        buffers += framed.buffers
        size += framed.size
    if all(type(buffer) is bytes for buffer in buffers):
        buffers = [b"".join(buffers)]
    return Message(buffers, size)


def frame(number: int, buffers: list[Any], size: int) -> Message:
    """A message as a field of another."""
    prefix = tag(number, BYTES) + varint(size)
    return Message([prefix, *buffers], len(prefix) + size)


def utf8(text: str) -> bytes:
    """The bytes of a text.

    Raises:
        UnsupportedError: It holds half a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"{text[:60]!r} is no text that UTF-8 can carry") from None


# Reading: a span of the source for each message.


def read(source: bytes | memoryview) -> Any:
    """The value in a buffer; its tensors lie in the buffer where the bytes allow it."""
    return _Decoder(source).value(0, len(source), limits.depth)


class _Decoder:
    """Reads the messages of one source."""

    def __init__(self, source: bytes | memoryview) -> None:
        self.source = source

    def value(self, start: int, end: int, depth: int) -> Any:
        """The value of the StructuredValue between two offsets."""
        if depth < 0:
            raise LimitError(
                f"more than {limits.depth} messages inside each other",
                offset=start,
                hint="raise tensorferry.limits.depth if the file is to be trusted",
            )
        fields = list(_native.MessageFields(self.source, start, end))
        if len(fields) != 1:
            raise FormatError(f"{len(fields)} values where one is expected", offset=start)
        number, wire, first, last = fields[0]
        if wire != WIRE.get(number, BYTES):
            raise FormatError(f"field {number} has wire type {wire}", offset=start)
        if number in SCALAR_READERS:
            return SCALAR_READERS[number](first)
        if number == STR:
            return self.text(first, last)
        if number in (TENSOR, ARRAY):
            return tensorproto.read(self.source, start=first, end=last)
        if number == NONE:
            return None
        if number in (LIST, TUPLE):
            elements = [
                self.value(*span, depth - 2) for span in self.messages(first, last, number=1)
            ]
            return elements if number == LIST else tuple(elements)
        if number == DICT:
            return self.pairs(self.messages(first, last, number=1), depth - 3)
        if number == NAMED_TUPLE:
            return self.named_tuple(first, last, depth)
        if number in DESCRIPTIONS:
            raise UnsupportedError(
                "a TensorSpec, shape or dtype describes a tensor and holds no value", offset=start
            )
        raise FormatError(f"field {number} is no kind of value", offset=start)

    def messages(self, start: int, end: int, *, number: int) -> Iterator[tuple[int, int]]:
        """Where the repeated messages of one field stand."""
        for field, wire, first, last in _native.MessageFields(self.source, start, end):
            if field == number:
                if wire != BYTES:
                    raise FormatError(f"field {number} has wire type {wire}", offset=last)
                yield first, last

    def pairs(self, spans: Iterator[tuple[int, int]], depth: int) -> dict[str, Any]:
        """Keys and values, in order."""
        pairs: dict[str, Any] = {}
        for start, end in spans:
            key, place = "", None
            for field, wire, first, last in _native.MessageFields(self.source, start, end):
                if (field, wire) == (1, BYTES):
                    key = self.text(first, last)
                elif (field, wire) == (2, BYTES):
                    place = first, last
            if place is None or key in pairs:
                problem = "comes twice" if place else "has no value"
                raise FormatError(f"the key {key[:60]!r} {problem}", offset=start)
            try:
                pairs[key] = self.value(*place, depth)
            except FerryError as error:
                raise error.located(tensor=key[:60]) from None
        return pairs

    def named_tuple(self, start: int, end: int, depth: int) -> Any:
        """A named tuple, or what stands under one of our own names."""
        name = ""
        for field, wire, first, last in _native.MessageFields(self.source, start, end):
            if (field, wire) == (1, BYTES):
                name = self.text(first, last)
        pairs = self.pairs(self.messages(start, end, number=2), depth - 3)
        try:
            if name in WHOLES:
                return WHOLES[name](**pairs)
            return make_namedtuple(name, tuple(pairs))(*pairs.values())
        except FormatError as error:
            error.offset = start
            raise
        except (TypeError, UnsupportedError) as error:
            raise FormatError(f"{name} has other parts: {error}", offset=start) from None

    def text(self, start: int, end: int) -> str:
        """A UTF-8 string."""
        try:
            return bytes(self.source[start:end]).decode()
        except UnicodeDecodeError:
            raise FormatError("a string is not UTF-8", offset=start) from None


def _whole_sparse(indices: Any, values: Any, dense_shape: Any) -> SparseTensor:
    return SparseTensor(indices, values, dense_shape)


def _whole_ragged(flat_values: Any, nested_row_splits: Any) -> RaggedTensor:
    return RaggedTensor(flat_values, tuple(nested_row_splits))


def _whole_bytes(value: Any) -> bytes:
    whole = value.item() if isinstance(value, np.ndarray) and value.shape == () else None
    if not isinstance(whole, bytes):
        raise TypeError("expected a string scalar")
    return whole


WHOLES: dict[str, Callable[..., Any]] = {
    SPARSE: _whole_sparse,
    RAGGED: _whole_ragged,
    PLAIN_BYTES: _whole_bytes,
}

SCALAR_READERS: dict[int, Callable[[int], Any]] = {
    FLOAT: lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0],
    INT: lambda number: number >> 1 ^ -(number & 1),
    BOOL: bool,
}


class Reader(WholeReader[TensorOptions]):
    """Reads StructuredValues."""

    name = NAME
    options = TensorOptions

    def value(self, source: bytes | memoryview, how: TensorOptions) -> Any:
        """The structure."""
        return read(source)


class Writer:
    """Writes StructuredValues."""

    options = WriteOptions

    def write(self, content: Content, target: Target, how: WriteOptions) -> Written:
        """Writes a value of any kind."""
        value = content.value()
        with target.sink() as sink:
            write(value, sink)
            return Written(size_of(sink), (target.path,))


FORMAT = Format(reads=Reader(), writes=Writer())
