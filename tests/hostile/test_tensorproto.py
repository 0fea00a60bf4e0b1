"""TensorProtos that lie: each gives a typed error that says where, never a crash."""

from __future__ import annotations

import contextlib
import time
import tracemalloc

import numpy as np
import pytest

import tensorferry as ferry

FLOATS = b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08\x00\x00\x80\x3f\x00\x00\x00\x40"
STRINGS = b"\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01a\x42\x00"
BOOLS = b"\x08\x0a\x12\x04\x12\x02\x08\x02\x5a\x02\x01\x00"
RAGGED = (
    b'\x08\x15\x12\x00"CB\n\x13RaggedTensorVariant\x1a\r\x08\t\x12\x04\x12\x02\x08\x03R\x03\x00\x02'
    b"\x02\x1a\r\x08\t\x12\x04\x12\x02\x08\x03R\x03\x00\x01\x03\x1a\r\x08\x03\x12\x04\x12\x02\x08"
    b"\x03:\x03\x01\x02\x03"
)
SAMPLES = {"floats": FLOATS, "strings": STRINGS, "bools": BOOLS, "ragged": RAGGED}


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def shape(*dims: int) -> bytes:
    """The shape field."""
    sizes = [b"\x08" + varint(dim % 2**64) for dim in dims]
    body = b"".join(b"\x12" + varint(len(size)) + size for size in sizes)
    return b"\x12" + varint(len(body)) + body


def refused(data: bytes, kind: type[Exception], match: str) -> ferry.FerryError:
    """The error that some bytes give, which must come at once and without a large allocation."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(kind, match=match) as caught:
            ferry.loads(data, format="tensorproto")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20 or peak < 20 * len(data)
    assert time.process_time() - start < 5
    return caught.value


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_cut_at_every_offset(sample):
    """Cut anywhere, the bytes are refused or hold a smaller, whole message."""
    for end in range(len(sample)):
        try:
            value = ferry.loads(sample[:end], format="tensorproto")
        except (ferry.FormatError, ferry.UnsupportedError) as error:
            assert error.offset is None or 0 <= error.offset <= end
        else:
            # A message has no end mark: without its values it is one of zeros.
            assert isinstance(value, np.ndarray)
            assert end in field_ends(sample)


def field_ends(data: bytes) -> set[int]:
    """Where a cut leaves a whole message."""
    from tensorferry import _native

    fields = _native.MessageFields(data, 0, len(data))
    return {last if wire == 2 else last + 2 for _, wire, _, last in fields}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_every_bit_flipped(sample):
    """Any flipped bit gives another tensor or a typed error."""
    for position in range(len(sample) * 8):
        flipped = bytearray(sample)
        flipped[position // 8] ^= 1 << position % 8
        with contextlib.suppress(ferry.FormatError, ferry.UnsupportedError):
            ferry.loads(bytes(flipped), format="tensorproto")


@pytest.mark.parametrize("dtype", [0, 34, 99, 100, 134, 999, 2**64 - 1])
@pytest.mark.parametrize("dims", [(), (2,), (0,)], ids=str)
def test_unknown_dtype(dtype, dims):
    """A dtype TensorFlow does not have, even for no elements."""
    refused(b"\x08" + varint(dtype) + shape(*dims), ferry.FormatError, "dtype number")


@pytest.mark.parametrize("dim", [-1, -2, -(2**63)])
def test_negative_dimension(dim):
    """A size below zero, -1 for unknown among them: a tensor has a shape."""
    error = refused(b"\x08\x01" + shape(3, dim), ferry.FormatError, f"dimension 1 is {dim}")
    assert error.offset


def test_unknown_rank():
    """A shape of unknown rank describes tensors and is the shape of none."""
    refused(b"\x08\x01\x12\x02\x18\x01", ferry.FormatError, "no known rank")


@pytest.mark.parametrize("dims", [(2**32, 2**32), (2**62, 2**62, 0), (2**63 - 1, 3)], ids=str)
def test_overflowing_shape(dims):
    """Dimensions whose product does not fit 63 bits, even beside a zero."""
    refused(b"\x08\x01" + shape(*dims), ferry.LimitError, "2\\^63")


def test_fill_beyond_the_budget(monkeypatch):
    """One value may fill a shape, but not one beyond limits.memory."""
    data = b"\x08\x01" + shape(2**40) + b"\x2d\x00\x00\x80\x3f"
    refused(data, ferry.LimitError, "limits.memory")
    refused(b"\x08\x07" + shape(2**40) + b"\x42\x01a", ferry.LimitError, "limits.memory")
    refused(b"\x08\x01" + shape(2**40), ferry.LimitError, "limits.memory")

    small = b"\x08\x01" + shape(1000) + b"\x2d\x00\x00\x80\x3f"
    assert ferry.loads(small).tolist() == [1.0] * 1000
    monkeypatch.setattr(ferry.limits, "memory", 3999)
    refused(small, ferry.LimitError, "3999 are allowed")


@pytest.mark.parametrize("size", [0, 1, 7, 9, 16])
def test_content_of_another_size(size):
    """Content must be as long as shape and dtype say; both numbers are in the message."""
    if size:
        data = b"\x08\x01" + shape(2) + b"\x22" + varint(size) + bytes(size)
        error = refused(data, ferry.FormatError, f"{size} bytes of content, expected 8")
        assert error.offset == len(data) - size
    refused(b"\x08\x07" + shape(2) + b"\x22\x03\x01\x03a", ferry.TruncatedError, "3 bytes")
    refused(b"\x08\x07" + shape(1) + b"\x22\x03\x01ab", ferry.FormatError, "behind the last")
    refused(b"\x08\x07" + shape(2**50) + b"\x22\x03\x01ab", ferry.TruncatedError, "strings in 3")


def test_too_many_dimensions():
    """255 dimensions are beyond TensorFlow's limit, 65 beyond NumPy's."""
    refused(b"\x08\x01" + shape(*[1] * 255), ferry.LimitError, "254")
    refused(b"\x08\x01" + shape(*[1] * 254) + b"\x22\x04aaaa", ferry.UnsupportedError, "254 dim")
    refused(b"\x08\x01" + shape(*[1] * 65), ferry.UnsupportedError, "at most 64")
    assert ferry.loads(b"\x08\x01" + shape(*[1] * 64)).ndim == 64


@pytest.mark.parametrize(
    "values",
    [b"\x42\x01a", b"\x42\x00", b"\x5a\x01\x01", b"\x58\x01", b"\x72\x00", b"\x7a\x00"],
    ids=["string", "empty string", "packed bool", "bool", "resource", "variant"],
)
def test_values_of_another_dtype(values):
    """A float tensor with only strings in it is refused, not read as zeros."""
    refused(b"\x08\x01" + shape(1) + values, ferry.FormatError, "float32 tensor with values in")


def test_values_twice():
    """Values in two places: which of them counts would be a guess."""
    refused(FLOATS + b"\x2d\x00\x00\x80\x3f", ferry.FormatError, "content besides")
    both = b"\x08\x0e" + shape(1) + b"\x6a\x01\x00\x3a\x01\x00"
    refused(both, ferry.FormatError, "bfloat16 tensor with values in field 7")


@pytest.mark.parametrize("data", [b"", b"\xff" * 9, b"\x0a\x03abc", b"\x1a\x02\x08\x15"], ids=str)
def test_resources_and_variants_are_opaque(data):
    """Handles and variants are refused as unsupported, whatever is in them."""
    for dtype in (b"\x14", b"\x15"):
        for field in (b"\x72", b"\x7a"):
            message = b"\x08" + dtype + shape() + field + varint(len(data)) + data
            with pytest.raises((ferry.UnsupportedError, ferry.FormatError)):
                ferry.loads(message)


def test_variants_inside_variants():
    """A variant whose tensors are variants again, 10,000 deep, is not followed."""
    data = b"\x08\x15\x12\x00"
    for _ in range(10_000):
        inner = b"\x0a\x13RaggedTensorVariant" + 2 * (b"\x1a" + varint(len(data)) + data)
        if len(inner) > 1 << 20:
            inner = b"\x0a\x13RaggedTensorVariant\x1a" + varint(len(data)) + data + b"\x1a\x00"
        data = b"\x08\x15\x12\x00\x7a" + varint(len(inner)) + inner
        if len(data) > 1 << 22:
            break
    refused(data, ferry.UnsupportedError, "variant")


def test_bool_bytes_are_normalised():
    """Any byte that is not 0 is True, as an array that NumPy can trust."""
    array = ferry.loads(b"\x08\x0a" + shape(3) + b"\x22\x03\x00\x01\xff")

    assert array.view(np.uint8).tolist() == [0, 1, 1]


def test_narrow_bytes_are_normalised():
    """Bits beyond an int4 are dropped: -1 comes as 0x0f and as 0xff."""
    array = ferry.loads(b"\x08\x1d" + shape(3) + b"\x22\x03\x0f\xff\x07")

    assert array.astype(int).tolist() == [-1, -1, 7]
    assert array.view(np.uint8).tolist() == [15, 15, 7]


@pytest.mark.parametrize(
    ("dtype", "value"), [(4, 256), (4, -1), (6, 128), (5, 2**15), (29, 8), (30, 16)]
)
def test_integers_out_of_range(dtype, value):
    """A number that its dtype cannot hold is refused, not cut."""
    number = varint(value % 2**64)
    data = b"\x08" + varint(dtype) + shape(1) + b"\x3a" + varint(len(number)) + number

    error = refused(data, ferry.FormatError, f"value {value} does not fit")
    assert error.offset == len(data) - len(number)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08" + b"\xff" * 10 + b"\x01", "varint does not fit"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "varint does not fit"),
        (b"\x08\x01\x00\x01", "field number 0"),
        (b"\x08\x01" + varint((2**29) << 3) + b"\x01", "field number 536870912"),
        (b"\x08\x01\x0e\x01", "wire type 6"),
        (b"\x08\x01\x0f\x01", "wire type 7"),
        (b"\x08\x01\x9c\x06", "the end of group 99 without its start"),
        (b"\x08\x01\x9b\x06\xa4\x06", "the end of group 100 inside group 99"),
        (b"\x08\x01\x9b\x06", "ends inside group 99"),
        (b"\x0d\x01\x00\x00\x00", "field 1 is 4 fixed bytes, expected a varint"),
        (b"\x08\x01\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "18446744073709551615 bytes"),
    ],
)
def test_broken_wire(data, message):
    """Varints, tags and groups that protobuf does not allow."""
    assert refused(data, ferry.FormatError, message).offset is not None


def test_unknown_fields_are_skipped():
    """Fields of a later version are passed over, groups included."""
    unknown = b"\xa8\x06\x01" + b"\x9b\x06\x08\x01\x12\x01a\x9c\x06" + b"\xaa\x06\x02hi"

    assert ferry.loads(FLOATS + unknown).tolist() == [1.0, 2.0]


def test_deep_nesting():
    """10,000 groups inside each other are a depth error, never a RecursionError."""
    refused(b"\x08\x01" + b"\x9b\x06" * 10_000, ferry.LimitError, "nest deeper")
