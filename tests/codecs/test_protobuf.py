"""Protobuf messages by a table, held against Google's own."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry._native import MessageFields
from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Message,
    Span,
    Tables,
    Writer,
    frame,
    join,
    parse_schema,
    read_varint,
    varint,
)
from tensorferry.formats.checkpoint.messages import TABLES, WRITER

MESSAGES = ("BundleHeaderProto", "BundleEntryProto", "TrackableObjectGraph", "TensorProto")


def google(name: str) -> Any:
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.core.protobuf import tensor_bundle_pb2, trackable_object_graph_pb2

    return {
        "BundleHeaderProto": tensor_bundle_pb2.BundleHeaderProto,
        "BundleEntryProto": tensor_bundle_pb2.BundleEntryProto,
        "TrackableObjectGraph": trackable_object_graph_pb2.TrackableObjectGraph,
        "TensorProto": tensor_pb2.TensorProto,
    }[name]


def numbers(kind: str, bits: int) -> st.SearchStrategy[Any]:
    """Values of a field; `bits` is the width that the message's definition gives it."""
    return {
        "int": st.integers(-(1 << bits - 1), (1 << bits - 1) - 1),
        "uint": st.integers(0, (1 << bits) - 1),
        "dtype": st.integers(0, 30),
        "bool": st.booleans(),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "fixed32": st.integers(0, (1 << 32) - 1),
        "text": st.text(max_size=5),
        "bytes": st.binary(max_size=5),
    }[kind]


@st.composite
def fields_of(draw: Any, message: str, descriptor: Any, depth: int = 4) -> dict[str, Any]:
    """Fields of a message that are not zero, as a dict."""
    found = {}
    for field in TABLES[message].values():
        if field.name not in descriptor.fields_by_name or not draw(st.booleans()):
            continue
        described = descriptor.fields_by_name[field.name]
        if field.kind in TABLES:
            if depth == 0:
                continue
            values = fields_of(field.kind, described.message_type, depth - 1)
        elif described.enum_type is not None and field.kind == "uint":
            values = st.sampled_from([value.number for value in described.enum_type.values])
        else:
            is_short = described.cpp_type in (described.CPPTYPE_INT32, described.CPPTYPE_UINT32)
            values = numbers(field.kind, 32 if is_short else 64)
        if field.repeated:
            found[field.name] = draw(st.lists(values, min_size=1, max_size=3))
            continue
        value = draw(values)
        # A float of -0.0 is no zero to protobuf.
        if value or field.kept or field.kind in TABLES or str(value) == "-0.0":
            found[field.name] = value
    return found


class Reader(protobuf.Reader):
    tables: ClassVar[Tables] = TABLES

    def all(self, message: str, span: tuple[int, int]) -> dict[str, Any]:
        """The fields of a message and of those inside it, with bytes for spans."""
        found = self.read(message, span)
        for field in TABLES[message].values():
            if field.wire != BYTES or field.kind == "text" or field.name not in found:
                continue
            given = found[field.name] if field.repeated else [found[field.name]]
            inner = [
                self.all(field.kind, place) if field.kind in TABLES else self.bytes(place)
                for place in given
            ]
            found[field.name] = inner if field.repeated else inner[0]
        return found


@pytest.mark.parametrize("message", MESSAGES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_round_trip(tf, message, data):
    """Google's writer gives our bytes, and our reader what was written."""
    made = google(message)
    fields = data.draw(fields_of(message, made.DESCRIPTOR))
    encoded = WRITER.encode(message, **fields)

    assert encoded == made(**fields).SerializeToString(deterministic=True)
    assert Reader(encoded).all(message, (0, len(encoded))) == fields
    assert Reader(memoryview(encoded)).all(message, (0, len(encoded))) == fields


SAMPLE = WRITER.encode(
    "TrackableObjectGraph",
    nodes=[
        {
            "children": [{"node_id": 1, "local_name": "kernel"}, {"node_id": 300}],
            "slot_variables": [{"slot_name": "m", "slot_variable_node_id": -1}],
            "has_checkpoint_values": {"value": True},
        },
        {"attributes": [{"name": "VARIABLE_VALUE", "checkpoint_key": "a" * 200}]},
    ],
)


def test_every_cut():
    """A message that ends early: an error whose offset lies in it, or fewer fields."""
    whole = Reader(SAMPLE).all("TrackableObjectGraph", (0, len(SAMPLE)))["nodes"]
    for end in range(len(SAMPLE)):
        try:
            found = Reader(SAMPLE[:end]).all("TrackableObjectGraph", (0, end))
        except ferry.FormatError as error:
            assert 0 <= error.offset <= end
        else:
            assert found.get("nodes", []) == whole[: len(found.get("nodes", []))]
            assert len(found.get("nodes", [])) < len(whole)


def test_every_bit_flipped():
    """Any flipped bit gives other fields or an error whose offset lies in the message."""
    refused = 0
    for position in range(8 * len(SAMPLE)):
        flipped = bytearray(SAMPLE)
        flipped[position // 8] ^= 1 << position % 8
        data = bytes(flipped)
        try:
            nodes = Reader(data).all("TrackableObjectGraph", (0, len(data))).get("nodes", [])
            assert all(isinstance(node, dict) for node in nodes)
        except ferry.FormatError as error:
            refused += 1
            assert 0 <= error.offset <= len(data)
    assert refused > len(SAMPLE)


def test_rows():
    """Messages as tuples of all fields: what is not there is zero, empty or None."""
    data = b"\x08\x07\x12\x01a" + b"\x12\x02\xc3\xa9" + b""
    found = Reader(data).rows("ObjectReference", [(0, 5), (5, 9), (9, 9)])

    assert found == [(7, "a"), (0, "\u00e9"), (0, "")]
    for wrong, problem in (
        (b"\x08\x01\x08\x02", "node_id of ObjectReference comes twice"),
        (b"\x12\x01\xff", "not UTF-8"),
        (b"\x10\x01", "wire type 0, expected 2"),
        (b"\x12\x05ab", "5 bytes"),
    ):
        with pytest.raises(ferry.FormatError, match=problem):
            Reader(wrong).rows("ObjectReference", [(0, len(wrong))])
    with pytest.raises(IndexError):
        Reader(data).rows("ObjectReference", [(0, len(data) + 1)])


def test_rows_of_rows():
    """Repeated messages inside of rows are rows; what claims more than its message is refused."""
    data = b"\x0a\x05\x08\x07\x12\x01a" + b"\x0a\x00" + b"\x12\x03\x1a\x01k"
    whole, none = Reader(data).rows("TrackableObject", [(0, len(data)), (0, 0)])

    assert whole == ([(7, "a"), (0, "")], [("", "", "k")], (), None)
    assert none == ((), (), (), None)
    for wrong, problem in (
        (b"\x08\x01", "children of TrackableObject has wire type 0, expected 2"),
        (b"\x0a\x04\x08\x01\x08\x02", "node_id of ObjectReference comes twice"),
        (b"\x0a\x03\x12\x05ab", "5 bytes"),
    ):
        with pytest.raises(ferry.FormatError, match=problem):
            Reader(wrong).rows("TrackableObject", [(0, len(wrong))])
    loose = b"\x18\x01\x1a\x02\x02\x03"  # one number, and a run of two
    (found,) = Reader(loose).rows("VersionDef", [(0, len(loose))])
    assert found[-1] == [1, 2, 3]


def test_spans_end_inside_their_message():
    """What an inner message claims beyond its own end is refused, though the buffer goes on."""
    inner = b"\x0a\x05ab"  # a text of five bytes, of which two are inside
    data = b"\x12" + varint(len(inner)) + inner + b"cde"
    (start, end) = Reader(data).read("TrackableObject", (0, 2 + len(inner)))["attributes"][0]

    with pytest.raises(ferry.FormatError) as caught:
        Reader(data).read("SerializedTensor", (start, end))
    assert start <= caught.value.offset <= end


VALUES = {VARINT: b"\x01", FIXED64: bytes(8), BYTES: b"\x01a", FIXED32: bytes(4)}


@pytest.mark.parametrize("message", ["BundleEntryProto", "TensorProto", "SerializedTensor"])
def test_other_wire_types(message):
    """A field in another wire type is an error that names both; packed numbers are none."""
    for number, field in TABLES[message].items():
        for wire, value in VALUES.items():
            data = varint(number << 3 | wire) + value
            if wire == field.wire or (wire == BYTES and field.repeated):
                continue
            with pytest.raises(ferry.FormatError, match=f"wire type {wire}, expected {field.wire}"):
                Reader(data).read(message, (0, len(data)))


def test_packed_and_loose_numbers_mix():
    """Repeated numbers stand one by one, in runs, or both."""
    data = (
        b"\x38\x05" + b"\x3a\x03\x01\xac\x02" + b"\x38\x07" + b"\x2a\x08" + struct.pack("<2f", 1, 2)
    )

    found = Reader(data).read("TensorProto", (0, len(data)))

    assert found == {"int_val": [5, 1, 300, 7], "float_val": [1.0, 2.0]}
    with pytest.raises(ferry.FormatError, match="3 bytes of float_val, expected a multiple of 4"):
        Reader(b"\x2a\x03abc").read("TensorProto", (0, 5))
    with pytest.raises(ferry.FormatError, match="varint") as caught:
        Reader(b"\x3a\x01\x80").read("TensorProto", (0, 3))
    assert caught.value.offset == 2


def test_what_comes_twice():
    """A single field, or a key of a map, comes once; fields that nobody knows are passed over."""
    with pytest.raises(ferry.FormatError, match="dtype of BundleEntryProto comes twice") as caught:
        Reader(b"\x08\x01\x08\x02").read("BundleEntryProto", (0, 4))
    assert caught.value.offset == 2
    assert Reader(b"\xf8\x07\x01\x08\x02").read("BundleEntryProto", (0, 5)) == {"dtype": 2}


class Maps(protobuf.Reader):
    tables: ClassVar[Tables] = parse_schema(
        """
Map: 1 entries *Entry
Entry: 1 key ?text, 2 value Value
Value: 1 number int
"""
    )


@given(st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_maps(values):
    """A map is its entries; the key is written even if it is empty."""
    writer = Writer(Maps.tables)
    entries = [{"key": key, "value": {"number": number}} for key, number in values.items()]
    reader = Maps(writer.encode("Map", entries=entries))

    found = reader.entries("Entry", reader.each("Map", "entries", (0, len(reader.data))))

    assert {k: reader.read("Value", v).get("number", 0) for k, v in found.items()} == values


@given(st.lists(st.binary(max_size=4), max_size=5), st.binary(max_size=3))
def test_counted(values, other):
    """The messages of a field are those that `each` yields; others beside it are left out."""
    framed = [b"\x0a%c" % len(value) + value for value in values]
    data = (b"\x12%c" % len(other) + other).join([b"", *framed, b""])
    reader = Maps(data)

    found = reader.counted("Map", "entries", (0, len(data)), size=1, what="entries")

    assert found == list(reader.each("Map", "entries", (0, len(data))))
    assert [reader.bytes(span) for span in found] == values
    assert all(type(span) is Span for span in found)


def test_counted_no_further_than_allowed(monkeypatch):
    """More messages than the buffer justifies are refused, and not listed; so are numbers."""
    monkeypatch.setattr(ferry.limits, "memory", 1 << 10)
    data = b"\x0a\x00" * 1000
    with pytest.raises(ferry.LimitError, match=r"stands for .* entries"):
        Maps(data).counted("Map", "entries", (0, len(data)), size=1 << 20, what="entries")
    assert len(Maps._compiled["Map"].spans(data, 0, len(data), "entries", 7)) == 7
    with pytest.raises(ferry.FormatError, match="entries of Map has wire type 0, expected 2"):
        Maps(b"\x08\x01").counted("Map", "entries", (0, 2), size=1, what="entries")
    with pytest.raises(ValueError, match="no such field"):
        Maps(b"").counted("Map", "nothing", (0, 0), size=1, what="entries")


def test_entries_of_maps():
    """A value may be left out; a second key or value, or a number in their place, is refused."""
    assert Maps(b"\x0a\x01a").entry("Entry", (0, 3)) == ("a", None)
    assert Maps(b"\x12\x00\x0a\x01a").entry("Entry", (0, 5)) == ("a", Span(2, 2))
    for data in (b"\x0a\x01a\x0a\x01b", b"\x12\x00\x12\x00", b"\x08\x01", b"\x10\x01"):
        with pytest.raises(ferry.FormatError):
            Maps(data).entry("Entry", (0, len(data)))
    with pytest.raises(ferry.FormatError, match="the key 'a' of Entry comes twice"):
        Maps(b"\x0a\x01a\x0a\x01a").entries("Entry", [(0, 3), (3, 6)])


def test_texts():
    """A text is UTF-8, on both sides."""
    with pytest.raises(ferry.FormatError, match="not UTF-8") as caught:
        Reader(b"\x0a\x01\xff").read("SerializedTensor", (0, 3))
    assert caught.value.offset == 2
    with pytest.raises(ferry.UnsupportedError, match="UTF-8"):
        WRITER.encode("SerializedTensor", name="\ud800")


def test_fields_of_no_message():
    """An iterator that was never given a message is refused, and not followed to nowhere."""
    with pytest.raises(TypeError, match="without a message"):
        next(MessageFields.__new__(MessageFields))


def test_unknown_names():
    """A field that the table does not have is a mistake of the caller."""
    with pytest.raises(KeyError):
        WRITER.encode("SerializedTensor", naem="x")
    with pytest.raises(KeyError):
        WRITER.tag("SerializedTensor", "naem")
    with pytest.raises(KeyError):
        next(Reader(b"").each("SerializedTensor", "naem", (0, 0)))


def test_buffers_are_not_copied():
    """`frame` and `join` put a message together around the caller's buffers."""
    content = memoryview(bytes(1000))
    inner = Message([content], 1000)

    message = join(
        [Message.of(b"\x08\x01"), frame(WRITER.tag("TensorProto", "tensor_content"), inner)]
    )

    assert message.buffers[-1] is content
    data = b"".join(message.buffers)
    assert len(data) == message.size
    found = Reader(data).read("TensorProto", (0, len(data)))
    assert found == {"dtype": 1, "tensor_content": Span(5, 1005)}


@given(st.integers(0, 2**64 - 1))
def test_varints(number):
    """A number of up to 64 bits, and where it ends."""
    data = varint(number)
    assert read_varint(b"\xff" + data + b"\xff", 1, len(data) + 2) == (number, len(data) + 1)
    for end in range(len(data)):
        with pytest.raises(ferry.FormatError):
            read_varint(data, 0, end)


def test_varints_that_are_too_long():
    """Ten bytes at most, and no more than 64 bits."""
    for data in (b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02"):
        with pytest.raises(ferry.FormatError) as caught:
            read_varint(data, 0, len(data))
        assert caught.value.offset == 0
