"""Structures against TensorFlow's nested_structure_coder, and hostile ones."""

from __future__ import annotations

import contextlib
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import arrays, ragged_tensors, same, sparse_tensors

import tensorferry as ferry
from tensorferry import dtypes

Point = namedtuple("Point", "x y")

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    arrays(),
    ragged_tensors(),
    sparse_tensors(),
)

STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=8), inner, max_size=4),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=8,
)


@given(STRUCTURES)
def test_roundtrip(value):
    """Every value comes back as it was: kinds, order of keys, dtypes and every bit."""
    assert same(ferry.loads(ferry.dumps(value, format="structure"), format="structure"), value)


@given(STRUCTURES)
def test_dumps_chooses_and_loads_recognises(value):
    """A dense tensor becomes a TensorProto, all else a structure, and both are recognised."""
    data = ferry.dumps(value)

    assert same(ferry.loads(data), value)
    assert (data[0] == 8) == isinstance(value, np.ndarray)


@pytest.mark.parametrize("length", [0x39A, 0x3A2, 0x3AA, 0x3B2, 0x5039A, 0xFF03AA])
def test_records_that_start_like_a_structure(length):
    """The length of a first record may have the bytes of a list or a dict, and stays a length."""
    records = [b"x" * length, b"last"]

    assert ferry.loads(ferry.dumps(records, format="tfrecord")) == records


def decode(data):
    """What TensorFlow makes of a StructuredValue."""
    from tensorflow.core.protobuf import struct_pb2
    from tensorflow.python.saved_model import nested_structure_coder

    return nested_structure_coder.decode_proto(struct_pb2.StructuredValue.FromString(data))


def encode(value):
    """TensorFlow's StructuredValue of a value."""
    from tensorflow.python.saved_model import nested_structure_coder

    return nested_structure_coder.encode_structure(value).SerializeToString()


def assert_parts(theirs, ours):
    """TensorFlow sees our value, or the parts of one it has no type for."""
    if isinstance(ours, np.ndarray):
        row = dtypes.from_numpy(ours.dtype)
        assert theirs.dtype.name == row.name
        if row is dtypes.STRING:
            assert same(np.array(theirs.numpy(), object), ours)
        else:  # a quantized scalar comes out of TensorFlow as a plain integer of the same bits
            assert same(np.asarray(theirs.numpy()).view(row.numpy), ours)
    elif isinstance(ours, ferry.SparseTensor | ferry.RaggedTensor):
        for name in ours.__dataclass_fields__:
            assert_parts(getattr(theirs, name), getattr(ours, name))
    elif isinstance(ours, bytes):
        assert theirs.value.numpy() == ours
    elif isinstance(ours, dict):
        assert set(theirs) == set(ours)
        for key, value in ours.items():
            assert_parts(theirs[key], value)
    elif isinstance(ours, list | tuple):
        assert len(theirs) == len(ours)
        assert type(theirs).__name__ == type(ours).__name__
        for part in zip(theirs, ours, strict=True):
            assert_parts(*part)
    else:
        assert same(theirs, ours)


@given(value=STRUCTURES)
def test_tensorflow_reads_ours(tf, value):
    """TensorFlow's own decoder gives the same structure, sparse and ragged as their parts."""
    for array in leaves(value):
        if array.dtype.name.endswith("fnuz"):  # TensorFlow reads no empty or constant one of these
            return
    assert_parts(decode(ferry.dumps(value, format="structure")), value)


def leaves(value):
    """All arrays in a value."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, ferry.SparseTensor):
        return [value.values]
    if isinstance(value, ferry.RaggedTensor):
        return [value.flat_values]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [leaf for part in value for leaf in leaves(part)] if isinstance(value, list | tuple) else []
    )


def test_reads_tensorflows(tf):
    """What TensorFlow encodes is read: both kinds of tensors, every container."""
    value = {
        "tensor": tf.constant([[1.5, 2.5]]),
        "array": np.array([1, 2], np.int16),
        "strings": tf.constant(["a", "b"]),
        "plain": [None, True, -7, 2.5, "text"],
        "nested": (Point(1, [2]), {}, [], ()),
    }
    result = ferry.loads(encode(value))

    assert_parts(value["tensor"], result["tensor"])
    assert same(result["array"], value["array"])
    assert result["strings"].tolist() == [b"a", b"b"]
    assert result["plain"] == value["plain"]
    assert repr(result["nested"]) == repr(value["nested"])


def test_bytes_are_tensorflows(tf):
    """For what TensorFlow encodes, and one key a dict, ours are its very bytes."""
    value = [{"a": (tf.constant([1.0, 2.0]), None, "é", -3, 1e9, False)}, Point(1, 2), [], {}]

    assert ferry.dumps(value) == encode(value)


def test_tensors_are_not_copied():
    """Large tensors of a structure are written from, and read in, their place."""
    value = {"a": [np.arange(10_000.0)], "b": np.arange(10)}
    buffers = ferry.dumps_buffers(value)
    data = ferry.dumps(value)

    assert any(
        np.shares_memory(np.frombuffer(buffer, np.uint8), value["a"][0]) for buffer in buffers
    )
    assert np.shares_memory(ferry.loads(data)["a"][0], np.frombuffer(data, np.uint8))


def test_tensors_of_different_shapes():
    """A list of tensors of different shapes goes into one byte string and back."""
    tensors = [np.arange(n, dtype=np.float32).reshape(n, 1) for n in range(5)]

    assert same(ferry.loads(ferry.dumps(tensors)), tensors)


@pytest.mark.parametrize(
    "value",
    [{1: 2}, 2**63, {"a": object()}, {"a": {"b": [0, 1j]}}, "\ud800", {"\ud800": 1}, {1, 2}],
)
def test_refuses_what_it_cannot_carry(value):
    """What has no place in the format is an error that says which part it was."""
    with pytest.raises(ferry.UnsupportedError):
        ferry.dumps(value, format="structure")


def test_errors_name_the_place():
    """The error leads to the value inside the structure."""
    with pytest.raises(ferry.UnsupportedError) as caught:
        ferry.dumps({"a": [1, {"b": object()}]})

    assert caught.value.tensor == "a/1/b"


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}, lambda v: Point(v, 1)])
@pytest.mark.parametrize("leaf", [1, None, [], np.zeros(3), "x"], ids=str)
def test_depth(tf, wrap, leaf):
    """What we write TensorFlow can read: as deep as its parser goes, and no deeper."""
    value, previous = leaf, None
    with pytest.raises(ferry.LimitError):
        for _ in range(110):
            previous = ferry.dumps(value, format="structure")
            value = wrap(value)
    decode(previous)
    assert previous is not None
    ferry.loads(previous)


def test_contains_itself():
    """A structure that contains itself is a depth error."""
    value: list = []
    value.append(value)
    with pytest.raises(ferry.LimitError):
        ferry.dumps(value)


def test_deeper_than_the_stack(monkeypatch):
    """It is one as well if the limit is higher than the one of Python."""
    monkeypatch.setattr(ferry.limits, "depth", 1_000_000)
    value = []
    for _ in range(5000):
        value = [value]

    with pytest.raises(ferry.LimitError, match="deeper"):
        ferry.dumps(value, format="structure")


def nested(levels: int) -> bytes:
    """Lists inside each other."""
    data = b"\x0a\x00"
    for _ in range(levels):
        for tag in (b"\x0a", b"\x9a\x03"):
            size, length = bytearray(), len(data)
            while length >= 0x80:
                size.append(length & 0x7F | 0x80)
                length >>= 7
            data = tag + bytes([*size, length]) + data
    return data


def test_hostile_depth():
    """10,000 lists inside each other are a depth error, never a RecursionError."""
    with pytest.raises(ferry.LimitError, match="messages inside each other"):
        ferry.loads(nested(10_000))
    assert ferry.loads(nested(40)) is not None


SAMPLE = ferry.dumps(
    {
        "t": np.arange(3, dtype=np.int16),
        "p": Point(1, b"x"),
        "r": ferry.RaggedTensor.from_rows([[1], [2, 3]]),
        "s": ferry.SparseTensor.from_dense([0, 5]),
        "l": [None, 1.5, True, "é"],
    }
)


def test_cut_at_every_offset():
    """Cut anywhere, the structure is refused."""
    for end in range(len(SAMPLE)):
        with pytest.raises(ferry.FormatError):
            ferry.loads(SAMPLE[:end], format="structure")


def test_every_bit_flipped():
    """Any flipped bit gives another value or a typed error."""
    for position in range(len(SAMPLE) * 8):
        flipped = bytearray(SAMPLE)
        flipped[position // 8] ^= 1 << position % 8
        with contextlib.suppress(ferry.FormatError, ferry.UnsupportedError):
            ferry.loads(bytes(flipped), format="structure")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 values where one"),
        (b"\x60\x02\x60\x02", "2 values where one"),
        (b"\x61" + bytes(8), "8 fixed bytes, expected a varint"),
        (b"\x9a\x03\x02\x0a\x00", "0 values where one"),
        (b"\xaa\x03\x05\x0a\x03\x0a\x01a", "has no value"),
        (b"\xaa\x03\x12" + 2 * b"\x0a\x07\x0a\x01a\x12\x02\x60\x02", "comes twice"),
        (b"\xaa\x03\x0d\x0a\x0b\x0a\x01a\x12\x02\x60\x02\x12\x02\x60\x04", "field 2 comes twice"),
        (b"\xaa\x03\x0c\x0a\x0a\x0a\x01a\x0a\x01b\x12\x02\x60\x02", "field 1 comes twice"),
        (b"\xaa\x03\x08\x0a\x06\x08\x01\x12\x02\x60\x02", "field 1 is a varint"),
        (b"\xb2\x03\x06\x0a\x01A\x0a\x01B", "field 1 comes twice"),
        (b"\x6a\x01\xff", "not UTF-8"),
        (b"\xb2\x03\x05\x0a\x03a-b", "expected an identifier"),
        (b"\xb2\x03\x07\x0a\x05class", "expected an identifier"),
        (b"\xb2\x03\x13\x0a\x11tensorferry_bytes", "other parts"),
        (b"\xca\x03\x00", "no kind of value"),
    ],
)
def test_hostile_messages(data, message):
    """Structures that TensorFlow never writes: an error with the offset."""
    with pytest.raises(ferry.FormatError, match=message) as caught:
        ferry.loads(data, format="structure")
    assert caught.value.offset is not None


def test_specs_are_refused(tf):
    """A TensorSpec holds no value, and the error says so."""
    with pytest.raises(ferry.UnsupportedError, match="describes a tensor"):
        ferry.loads(encode([tf.TensorSpec([2], tf.float32)]))
