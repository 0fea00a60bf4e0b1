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

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from tensorferry import limits
from tensorferry._native import MessageFields
from tensorferry.budget import Budget
from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import (
    BYTES,
    Message,
    Span,
    Tables,
    Writer,
    encode_number,
    frame,
    join,
    parse_schema,
    utf8,
    varint,
)
from tensorferry.errors import FerryError, FormatError, LimitError, UnsupportedError
from tensorferry.formats.messages import STRUCTURES, TENSORS
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.storage import Buffers, Sink
from tensorferry.tensors.values import RaggedTensor, SparseTensor, is_namedtuple, make_namedtuple

NAME = "structure"

_TABLES = parse_schema(TENSORS, STRUCTURES)
_FIELDS = _TABLES["StructuredValue"]
_WRITER = Writer(_TABLES)
_TAGS = {field.name: _WRITER.tag("StructuredValue", field.name) for field in _FIELDS.values()}
_KEY, _VALUE = _WRITER.tag("ValuePair", "key"), _WRITER.tag("ValuePair", "value")
_ELEMENT, _PAIR = _WRITER.tag("ValueList", "values"), _WRITER.tag("ValueDict", "fields")
_NAMED_PAIR = _WRITER.tag("ValuePairs", "values")

SPARSE = "tensorferry_SparseTensor"
RAGGED = "tensorferry_RaggedTensor"
PLAIN_BYTES = "tensorferry_bytes"

# Protobuf's readers, TensorFlow's among them, stop at this many messages inside each other.
MAX_DEPTH = 100
TENSOR_DEPTH = 3  # TensorProto, its shape, a dimension


# Writing


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
        return Message.of(encoded)
    if isinstance(value, np.ndarray):
        buffers = Buffers()
        tensorproto.write(value, buffers)
        sizes = (len(buffer) if type(buffer) is bytes else buffer.nbytes for buffer in buffers)
        return frame(_TAGS["tensor_value"], Message(buffers, sum(sizes)))
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
        return frame(_TAGS["dict_value"], _repeated(_PAIR, pairs))
    if isinstance(value, list | tuple):
        elements = [_encode(element, depth - 2) for element in value]
        kind = "list_value" if isinstance(value, list) else "tuple_value"
        return frame(_TAGS[kind], _repeated(_ELEMENT, elements))
    raise UnsupportedError(f"{type(value).__name__} has no place in a structure")


def _depth_of(value: Any) -> int:
    """How many messages a value takes inside its StructuredValue, its elements left out."""
    if isinstance(value, np.ndarray):
        return TENSOR_DEPTH
    return 0 if isinstance(value, bool | int | float | str) else 1


def _encode_scalar(value: Any) -> bytes | None:
    if value is None:
        return _TAGS["none_value"] + b"\0"
    if isinstance(value, bool):
        return _TAGS["bool_value"] + (b"\x01" if value else b"\0")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(
                f"the int {value} does not fit 64 bits", hint='format="json" has no such limit'
            )
        return _TAGS["int64_value"] + encode_number("zigzag", value)
    if isinstance(value, float):
        return _TAGS["float64_value"] + encode_number("double", value)
    if isinstance(value, str):
        text = utf8(value)
        return _TAGS["string_value"] + varint(len(text)) + text
    return None


def _encode_pairs(name: str, pairs: dict[str, Any], depth: int) -> Message:
    fields = [_encode_pair(key, element, depth - 3) for key, element in pairs.items()]
    head = _WRITER.encode("ValuePairs", name=name)
    found = join([Message.of(head), _repeated(_NAMED_PAIR, fields)])
    return frame(_TAGS["named_tuple_value"], found)


def _encode_pair(key: str, value: Any, depth: int) -> Message:
    text = utf8(key)
    try:
        element = _encode(value, depth)
    except FerryError as error:
        raise error.located(tensor=key) from None
    head = _KEY + varint(len(text)) + text + _VALUE + varint(element.size)
    return Message([head, *element.buffers], len(head) + element.size)


def _repeated(tag: bytes, messages: list[Message]) -> Message:
    """Messages as the values of one repeated field; small ones become one buffer."""
    found = join(frame(tag, message) for message in messages)
    if all(type(buffer) is bytes for buffer in found.buffers):
        return Message.of(b"".join(found.buffers))
    return found


# Reading


def read(source: bytes | memoryview, *, budget: Budget | None = None) -> Any:
    """The value in a buffer; its tensors lie in the buffer where the bytes allow it.

    Args:
        source: The buffer.
        budget: Counts what the tensors take beside the buffer; by default the buffer has its own.
    """
    reader = _Reader(source)
    if budget is not None:
        reader.budget = budget
    return reader.value(0, len(source), limits.depth)


class _Reader(protobuf.Reader):
    """Reads the values of one buffer; what they take beside it is counted together."""

    tables: ClassVar[Tables] = _TABLES

    def value(self, start: int, end: int, depth: int) -> Any:
        """The value of the StructuredValue between two offsets."""
        if depth < 0:
            raise LimitError(
                f"more than {limits.depth} messages inside each other",
                offset=start,
                hint="raise tensorferry.limits.depth if the file is to be trusted",
            )
        # Not through `read`, with which `loads` takes a third longer; nor are `pairs`.
        fields = list(MessageFields(self.data, start, end))
        if len(fields) != 1:
            raise FormatError(f"{len(fields)} values where one is expected", offset=start)
        number, wire, first, last = fields[0]
        field = _FIELDS.get(number)
        if field is None:
            raise FormatError(f"field {number} is no kind of value", offset=start)
        kind, _, _, expected, _, _, decode = field
        if wire != expected:
            raise FormatError(f"{kind} has wire type {wire}, expected {expected}", offset=start)
        if decode is not None:
            return decode(first)
        if kind == "string_value":
            return self.text(first, last)
        if kind in ("tensor_value", "numpy_value"):
            return tensorproto.read(self.data, start=first, end=last, budget=self.budget)
        if kind == "none_value":
            return None
        if kind in ("list_value", "tuple_value"):
            elements = [
                self.value(begin, stop, depth - 2) for begin, stop in self.messages(first, last)
            ]
            return elements if kind == "list_value" else tuple(elements)
        if kind == "dict_value":
            return self.pairs(self.messages(first, last), depth - 3)
        if kind == "named_tuple_value":
            return self.named_tuple(Span(first, last), depth)
        raise UnsupportedError(
            "a TensorSpec, shape or dtype describes a tensor and holds no value", offset=start
        )

    def messages(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where the elements of a list, or the pairs of a dict, stand: the values of field 1."""
        # Like `each`, but a plain tuple takes less time to make and to unpack than a Span.
        for number, wire, first, last in MessageFields(self.data, start, end):
            if number == 1:
                if wire != BYTES:
                    raise FormatError(
                        f"field 1 has wire type {wire}, expected {BYTES}", offset=last
                    )
                yield first, last

    def pairs(self, spans: Iterable[tuple[int, int]], depth: int) -> dict[str, Any]:
        """Keys and values, in order."""
        pairs: dict[str, Any] = {}
        for start, end in spans:
            key, place = "", None
            for number, wire, first, last in MessageFields(self.data, start, end):
                if number == 1 and wire == BYTES:
                    key = self.text(first, last)
                elif number == 2 and wire == BYTES:
                    place = first, last
            if place is None or key in pairs:
                problem = "comes twice" if place else "has no value"
                raise FormatError(f"the key {key[:60]!r} {problem}", offset=start)
            try:
                pairs[key] = self.value(*place, depth)
            except FerryError as error:
                raise error.located(tensor=key[:60]) from None
        return pairs

    def named_tuple(self, span: Span, depth: int) -> Any:
        """A named tuple, or what stands under one of our own names."""
        fields = self.read("ValuePairs", span)
        name = fields.get("name", "")
        pairs = self.pairs(fields.get("values", ()), depth - 3)
        try:
            if name in WHOLES:
                return WHOLES[name](**pairs)
            return make_namedtuple(name, tuple(pairs))(*pairs.values())
        except FormatError as error:
            error.offset = span.start
            raise
        except (TypeError, UnsupportedError) as error:
            raise FormatError(f"{name} has other parts: {error}", offset=span.start) from None


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
