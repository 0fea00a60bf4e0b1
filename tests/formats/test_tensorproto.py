"""TensorProto against TensorFlow itself, in both directions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp
from strategies import NUMERIC, SERIALIZABLE, arrays, from_bits, numeric_arrays, same, string_arrays

import tensorferry as ferry
from tensorferry import dtypes
from tensorferry.formats.tensorproto import message as tensorproto


@given(arrays())
def test_roundtrip(array):
    """What is written is what is read: dtype, shape and every bit."""
    assert same(ferry.loads(ferry.dumps(array)), array)


@given(array=numeric_arrays(SERIALIZABLE))
def test_bytes_are_tensorflows(tf, array):
    """Our bytes are those of tf.io.serialize_tensor, for every dtype, shape and layout."""
    tensor = tf.constant(np.ascontiguousarray(array).reshape(array.shape))

    assert ferry.dumps(array) == tf.io.serialize_tensor(tensor).numpy()


@given(array=string_arrays())
def test_string_bytes_are_tensorflows(tf, array):
    """String tensors too, any bytes in them."""
    assert ferry.dumps(array) == tf.io.serialize_tensor(tf.constant(array, tf.string)).numpy()


@given(array=numeric_arrays(SERIALIZABLE))
def test_tensorflow_reads_ours(tf, array):
    """tf.io.parse_tensor gives back every bit."""
    dtype = tf.dtypes.as_dtype(dtypes.from_numpy(array.dtype).name)

    assert same(tf.io.parse_tensor(ferry.dumps(array), dtype).numpy(), array)


def make_ndarray(tf, data):
    """What TensorFlow's own reader of TensorProtos in Python makes of some bytes."""
    from tensorflow.core.framework import tensor_pb2

    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(data))


# Kinds that TensorFlow's Python has only half: content is read, but no empty tensor is, and
# make_tensor_proto makes no scalar of them.
HALF_KNOWN = ("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz")


@given(array=arrays())
def test_make_ndarray_reads_ours(tf, array):
    """tf.make_ndarray reads every dtype, those without a serialize_tensor kernel included."""
    assume(array.size or dtypes.from_numpy(array.dtype).name not in HALF_KNOWN)

    assert same(make_ndarray(tf, ferry.dumps(array)), array)


@given(array=arrays())
def test_reads_make_tensor_proto(tf, array):
    """The layout of tf.make_tensor_proto is read too: content and repeated fields."""
    row = dtypes.from_numpy(array.dtype)
    assume(array.size > 1 or row.name not in HALF_KNOWN)
    native = array.astype(row.numpy)
    proto = tf.make_tensor_proto(native, dtype=tf.dtypes.as_dtype(row.enum), shape=native.shape)

    assert same(ferry.loads(proto.SerializeToString()), native)


FIELD_NAMES = {
    5: "float_val",
    6: "double_val",
    7: "int_val",
    9: "scomplex_val",
    10: "int64_val",
    11: "bool_val",
    12: "dcomplex_val",
    13: "half_val",
    16: "uint32_val",
    17: "uint64_val",
    18: "float8_val",
}


def as_field_values(array, field):
    """The numbers that a repeated field holds for an array."""
    if field == 18:
        return array.tobytes()
    if field == 13:
        return array.view(np.uint16).tolist()
    if field in (9, 12):
        return array.view(array.real.dtype).tolist()
    if array.dtype.names:
        array = array[array.dtype.names[0]]
    return array.astype(np.int64).tolist() if array.dtype.kind == "V" else array.tolist()


@given(
    row=st.sampled_from(NUMERIC),
    filled=st.integers(0, 6),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, max_side=3),
    data=st.data(),
)
def test_repeated_fields(tf, row, filled, shape, data):
    """A short repeated field repeats its last value, an empty one is zeros, a long one is cut."""
    from tensorflow.core.framework import tensor_pb2

    size = filled * row.numpy.itemsize
    values = from_bits(row, (filled,), data.draw(st.binary(min_size=size, max_size=size)))
    field = tensorproto.TYPED_FIELDS[row.name][0].field
    if row.name == "float32":  # a signalling NaN may turn quiet on the way through Python floats
        values = np.nan_to_num(values)
    proto = tensor_pb2.TensorProto(dtype=row.enum)
    for side in shape:
        proto.tensor_shape.dim.add(size=side)
    if field == 18:
        proto.float8_val = as_field_values(values, field)
    else:
        getattr(proto, FIELD_NAMES[field]).extend(as_field_values(values, field))
    elements = int(np.prod(shape))
    if filled:
        expected = np.concatenate([values, np.repeat(values[-1:], elements)])[:elements]
    else:
        expected = np.zeros(elements, row.numpy)

    result = ferry.loads(proto.SerializeToString())

    assert same(result, expected.reshape(shape))
    if filled <= elements and row.name not in HALF_KNOWN:  # TensorFlow cannot cut a long field
        assert same(make_ndarray(tf, proto.SerializeToString()), expected.reshape(shape))


def test_unpacked_and_mixed_lists():
    """Packed runs, single values and both in one message are one list."""
    single = b"\x3d\x00\x00\x80\x3f".replace(b"\x3d", b"\x2d")
    packed = b"\x2a\x08\x00\x00\x00\x40\x00\x00\x40\x40"
    data = b"\x08\x01\x12\x04\x12\x02\x08\x04" + single + packed + single

    assert ferry.loads(data).tolist() == [1.0, 2.0, 3.0, 1.0]


def test_old_bfloat16():
    """Bit patterns of bfloat16 in int_val, where old versions put them."""
    data = b"\x08\x0e\x12\x04\x12\x02\x08\x02\x3a\x05\x80\x7f\xc0\xff\x03"

    assert ferry.loads(data).view(np.uint16).tolist() == [0x3F80, 0xFFC0]


def test_string_fill(tf):
    """A string tensor with one value repeats it; with none it holds empty strings."""
    proto = tf.make_tensor_proto(b"x", shape=[2, 2]).SerializeToString()

    assert ferry.loads(proto).tolist() == [[b"x", b"x"], [b"x", b"x"]]
    assert ferry.loads(b"\x08\x07\x12\x04\x12\x02\x08\x02").tolist() == [b"", b""]


@given(array=string_arrays())
def test_strings_in_content(tf, array):
    """Strings in tensor_content, which parse_tensor reads and make_ndarray does not."""
    data = ferry.dumps(array, format="tensorproto", string_content=True)

    assert same(ferry.loads(data), array)
    assert same(np.array(tf.io.parse_tensor(data, tf.string).numpy(), object), array)


def test_reference_dtypes():
    """A dtype number of 100 more means a reference to the same."""
    assert same(ferry.loads(b"\x08\x65\x12\x00\x22\x04\x00\x00\xc0\x3f"), np.float32(1.5))


def test_ragged_variant(tf):
    """A variant tensor that holds a RaggedTensor is read as one."""
    ragged = tf.ragged.constant([[[1], [2, 3]], []])
    data = tf.io.serialize_tensor(ragged._to_variant()).numpy()

    result = ferry.loads(data)

    assert result.to_list() == ragged.to_list()
    assert result.dtype == np.int32


def test_no_copy():
    """The array lies in the bytes it was read from, and says that it is read-only."""
    data = bytearray(ferry.dumps(np.arange(8, dtype=np.float64)))
    array = ferry.loads(data)

    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable
    assert np.array(array).flags.writeable


def test_writes_without_copying(tmp_path):
    """dumps_buffers hands out the array's own memory, dumps_into writes the same bytes."""
    array = np.arange(1000, dtype=ml_dtypes.bfloat16).reshape(10, 100)

    buffers = ferry.dumps_buffers(array)
    with open(tmp_path / "tensor", "wb") as file:
        size = ferry.dumps_into(array, file)

    assert np.shares_memory(np.frombuffer(buffers[1], np.uint8), array.view(np.uint8))
    assert b"".join(buffers) == ferry.dumps(array) == (tmp_path / "tensor").read_bytes()
    assert size == len(ferry.dumps(array))


def test_python_values(tf):
    """Numbers, strings and lists get the dtype that TensorFlow gives them."""
    for value in (
        5,
        2**40,
        -(2**31) - 1,
        1.5,
        True,
        1j,
        "a",
        b"a\0",
        [1, 2.5],
        [1, True],
        [],
        [[]],
        ["a", b"b\0"],
        [2**40, 1],
        np.float64(2),
        [np.float64(2), 1],
        (1, 2),
        [np.array([1, 2]), np.array([3, 4])],
        np.array(["ab", "é"]),
        np.array([b"a"]),
    ):
        expected = tf.io.serialize_tensor(tf.convert_to_tensor(value)).numpy()
        assert ferry.dumps(value, format="tensorproto") == expected, value


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": 1},
        [1, "a"],
        [[1], [2, 3]],
        [None],
        2**70,
        1e300,
        np.longdouble(1),
        np.datetime64("2020-01-01"),
        np.ma.masked_array([1, 2], [True, False]),
        np.zeros(2, [("x", "f4"), ("y", "f4")]),
        np.array([object()]),
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refuses_what_is_no_tensor(value):
    """What TensorFlow has no dense tensor for is refused, never changed into one."""
    with pytest.raises(ferry.UnsupportedError):
        ferry.dumps(value, format="tensorproto")


def test_refuses_two_gibibytes():
    """A TensorProto of 2 GiB or more is refused before anything is written or allocated."""
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**31,), (0,))

    with pytest.raises(ferry.UnsupportedError, match="2 GiB"):
        ferry.dumps(huge)
