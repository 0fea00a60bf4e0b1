"""Raw bytes against NumPy's own, `struct`, and lengths that do not fit."""

from __future__ import annotations

import struct
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import NUMERIC, numeric_arrays, same

import tensorferry as ferry
from tensorferry import dtypes
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.detect import recognise

BYTE_ORDERS = ("little", "big", "native")

# Whose bytes `struct` gives back as the numbers they are.
PLAIN = tuple(
    row
    for row in NUMERIC
    if row.bits >= 8 and not row.name.startswith(("q", "complex", "bfloat", "float8"))
)


def foreign_dtype(dtype: np.dtype, byteorder: str) -> np.dtype:
    """What a reader without our dtypes would use: the same numbers, or the integers of the bits."""
    dtype = dtypes.from_numpy(dtype).numpy
    if dtype.names:
        dtype = dtype[0]
    elif dtype.isbuiltin != 1:
        dtype = np.dtype(f"u{dtype.itemsize}")
    return dtype.newbyteorder({"little": "<", "big": ">", "native": "="}[byteorder])


@given(numeric_arrays(), st.sampled_from(BYTE_ORDERS), st.sampled_from("CF"))
def test_roundtrip(array, byteorder, order):
    """What is written is what is read: every dtype, shape, layout, byte order and memory order."""
    options = {"byteorder": byteorder, "order": order}
    data = ferry.dumps(array, format="raw", **options)

    result = ferry.loads(data, format="raw", dtype=array.dtype, shape=array.shape, **options)

    assert same(result, array)
    assert result.dtype.isnative


@given(numeric_arrays(), st.sampled_from("CF"))
def test_bytes_are_numpys(array, order):
    """The bytes are those that `tobytes` gives for the values in this machine's byte order."""
    native = array.astype(dtypes.from_numpy(array.dtype).numpy)

    assert ferry.dumps(array, format="raw", byteorder="native", order=order) == native.tobytes(
        order
    )


@given(numeric_arrays(), st.sampled_from(BYTE_ORDERS))
def test_foreign_reader(array, byteorder):
    """`np.frombuffer` reads the bytes with nothing but a dtype of its own."""
    data = ferry.dumps(array, format="raw", byteorder=byteorder)

    foreign = np.frombuffer(data, foreign_dtype(array.dtype, byteorder))

    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    assert foreign.astype(foreign.dtype.newbyteorder("=")).tobytes() == native.tobytes()


@given(numeric_arrays(PLAIN), st.sampled_from(BYTE_ORDERS))
def test_struct_agrees(array, byteorder):
    """`struct` gives the same numbers as `tolist`."""
    data = ferry.dumps(array, format="raw", byteorder=byteorder)

    numbers = struct.unpack(ferry.struct_format(array, byteorder=byteorder), data)

    assert list(map(repr, numbers)) == list(map(repr, array.ravel().tolist()))


@given(numeric_arrays(), st.sampled_from(BYTE_ORDERS))
def test_struct_format_takes_all_bytes(array, byteorder):
    """A struct format stands for exactly the bytes of the tensor, for every dtype."""
    data = ferry.dumps(array, format="raw", byteorder=byteorder)

    assert struct.calcsize(ferry.struct_format(array, byteorder=byteorder)) == len(data)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.zeros((2, 3), np.float32), "<6f"),
        (np.zeros((0, 3), np.float32), "<0f"),
        (np.zeros((), np.float16), "<1e"),
        (np.zeros(2, np.complex64), "<4f"),
        (np.zeros(2, np.complex128), "<4d"),
        (np.zeros(2, bool), "<2?"),
        (np.zeros(2, ml_dtypes.bfloat16), "<2H"),
        (np.zeros(2, ml_dtypes.float8_e5m2), "<2B"),
        (np.zeros(2, ml_dtypes.float4_e2m1fn), "<2B"),
        (np.zeros(2, ml_dtypes.int4), "<2b"),
        (np.zeros(2, ml_dtypes.uint2), "<2B"),
        ([1, 2, 3], "<3i"),
        ("int64", "<1q"),
        (np.uint16, "<1H"),
        ("qint32", "<1i"),
        ("quint16", "<1H"),
    ],
)
def test_struct_format(value, expected):
    """A struct format has the code of the dtype and the number of its numbers."""
    assert ferry.struct_format(value) == expected


def test_struct_format_of_a_dtype():
    """With a dtype, the count and the byte order are given."""
    assert ferry.struct_format("float32", count=6, byteorder="big") == ">6f"
    assert ferry.struct_format(ml_dtypes.bfloat16, count=2, byteorder="native") == "=2H"
    with pytest.raises(TypeError, match="count goes with a dtype"):
        ferry.struct_format(np.zeros(3), count=3)


def test_struct_format_of_tensorflow(tf):
    """TensorFlow's tensors and dtypes are taken as they are."""
    assert ferry.struct_format(tf.zeros([2, 3])) == "<6f"
    assert ferry.struct_format(tf.bfloat16, count=3) == "<3H"


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_tensorflow_reads(tf, byteorder):
    """`tf.io.decode_raw` reads both byte orders."""
    array = np.array([[1.5, -2.0], [np.inf, 0.1]], np.float32)
    data = ferry.dumps(array, format="raw", byteorder=byteorder)

    result = tf.io.decode_raw(data, tf.float32, little_endian=byteorder == "little")

    assert same(result.numpy().reshape(2, 2), array)


def test_reading_is_in_place():
    """What needs no change is a read-only view of the bytes, in both memory orders."""
    data = np.arange(6, dtype=np.float32).tobytes()
    for order in "CF":
        result = ferry.loads(data, format="raw", dtype="float32", shape=[2, 3], order=order)
        assert np.shares_memory(result, np.frombuffer(data, np.uint8))
        assert not result.flags.writeable


def test_writing_is_in_place():
    """A tensor that lies in memory as asked for is handed over without a copy."""
    for order in "CF":
        array = np.zeros((2, 3), np.float32, order=order)
        (buffer,) = ferry.dumps_buffers(array, format="raw", order=order, byteorder="native")
        assert np.shares_memory(np.frombuffer(buffer, np.uint8), array)


def test_dtype_casts_on_writing():
    """A dtype given on writing is a cast as `astype` does it."""
    array = np.array([1.9, -2.5, 300.0])
    assert ferry.dumps(array, format="raw", dtype="int16") == array.astype(np.int16).tobytes()
    quantized = ferry.dumps(np.array([1, -1]), format="raw", dtype="qint8")
    assert quantized == b"\x01\xff"
    assert ferry.dumps([1, 2], format="raw", dtype="uint8") == b"\x01\x02"


@pytest.mark.parametrize(
    ("shape", "expected"), [(None, (6,)), (6, (6,)), ([-1, 3], (2, 3)), ((2, -1, 1), (2, 3, 1))]
)
def test_shapes(shape, expected):
    """One dimension may be left open; without a shape it is the only one."""
    assert ferry.loads(bytes(12), format="raw", dtype="int16", shape=shape).shape == expected


@pytest.mark.parametrize(
    ("size", "shape", "message"),
    [
        (11, None, "11 bytes, expected a multiple of 4"),
        (12, [2, 2], "12 bytes, expected 16 for float32 of shape [2, 2]"),
        (20, [2, 2], "20 bytes, expected 16"),
        (12, [2, -1], "12 bytes, expected a multiple of 8"),
        (0, [-1, 0], "leaves open what -1 stands for"),
        (4, [-1, -1], "-1 at most once"),
        (4, [-2], "expected 0 or more"),
        (4, [1] * 65, "no array has the shape"),
        (0, [2**62, 2**62, 0], "no array has the shape"),
        (0, [2**70, 0], "no array has the shape"),
        (4, [2**40, 2**40], f"expected {2**82}"),
    ],
)
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_lengths_that_do_not_fit(size, shape, message, byteorder):
    """A shape that the bytes do not fill is refused, with both numbers."""
    options = {"dtype": "float32", "shape": shape, "byteorder": byteorder}
    with pytest.raises(ferry.FormatError) as caught:
        ferry.loads(bytes(size), format="raw", **options)
    assert message in str(caught.value)


def test_too_few_bytes_are_truncated():
    """Fewer bytes than the shape takes are reported as a truncation."""
    with pytest.raises(ferry.TruncatedError):
        ferry.loads(bytes(3), format="raw", dtype="int32", shape=[1])


def test_bools_are_normalised():
    """A bool byte other than 0 and 1 is read as true."""
    result = ferry.loads(b"\x00\x01\x02\xff", format="raw", dtype=bool)
    assert result.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_narrow_kinds_are_normalised():
    """Bits beyond the width of a kind narrower than a byte are dropped on reading."""
    result = ferry.loads(b"\xff\x07", format="raw", dtype="int4")
    assert result.view(np.uint8).tolist() == [0x0F, 0x07]
    assert result.tolist() == [-1, 7]


def test_dtype_is_required():
    """Without a dtype the error says what to pass."""
    with pytest.raises(TypeError, match="pass its dtype"):
        ferry.loads(b"1234", format="raw")


def test_bytes_that_look_compressed():
    """Raw bytes are just that, though they start as gzip, zstd or zlib do."""
    for start in (b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"\x78\x9c\x00\x00"):
        assert ferry.loads(start, format="raw", dtype="uint8").tobytes() == start


def test_never_recognised():
    """Raw bytes are never taken for a format of their own accord."""
    assert recognise(Glimpse("", bytes(64))) is None
    with pytest.raises(ferry.UnknownFormatError):
        ferry.loads(b"\xff" * 8)


@pytest.mark.parametrize(
    "value",
    [
        np.array([b"a"], object),
        "text",
        {"a": 1},
        None,
        ferry.RaggedTensor.from_rows([[1]]),
        ferry.SparseTensor.from_dense(np.eye(2)),
    ],
)
def test_what_raw_cannot_carry(value):
    """Strings, sparse, ragged and nested values are refused, with a format that carries them."""
    with pytest.raises(ferry.UnsupportedError, match="structure"):
        ferry.dumps(value, format="raw")


@pytest.mark.parametrize(
    "options",
    [{"byteorder": "middle"}, {"order": "K"}, {"dtype": "string"}, {"dtype": "no such"}],
)
def test_wrong_options(options):
    """An option that is none of the choices is refused, on both ways."""
    with pytest.raises(ferry.UnsupportedError):
        ferry.dumps(np.zeros(2), format="raw", **options)
    with pytest.raises(ferry.UnsupportedError):
        ferry.loads(bytes(16), format="raw", **{"dtype": "float64", **options})


def test_a_cast_that_numpy_has_not():
    """A cast that NumPy does not know is refused by the names of both dtypes."""
    with pytest.raises(ferry.UnsupportedError, match="cannot cast int4 to uint2"):
        ferry.dumps(np.zeros(2, ml_dtypes.int4), format="raw", dtype="uint2")


def test_native_is_this_machines():
    """The native byte order is one of the other two."""
    array = np.array([1, 2], np.int32)
    native, own = (
        ferry.dumps(array, format="raw", byteorder=order) for order in ("native", sys.byteorder)
    )
    assert native == own
