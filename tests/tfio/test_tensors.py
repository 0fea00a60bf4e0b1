"""tfio against tf.io, name by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp
from strategies import SERIALIZABLE, numeric_arrays, same, string_arrays

import tensorferry as ferry
from tensorferry import SparseTensor, dtypes, tfio
from tensorferry.tfio import tensors

SPARSE_ROWS = tuple(row for row in SERIALIZABLE)


def test_signatures(tf):
    """The arguments are those of tf.io, in its order; only dtypes became optional."""
    for name in tensors.__all__:
        ours = list(inspect.signature(getattr(tfio, name)).parameters)
        theirs = getattr(tf.io, name, None) or tf.raw_ops.DeserializeSparse
        assert ours == list(inspect.signature(theirs).parameters), name


@given(array=numeric_arrays(SERIALIZABLE))
def test_tensors(tf, array):
    """serialize_tensor and parse_tensor, each read by the other."""
    dtype = tf.dtypes.as_dtype(dtypes.from_numpy(array.dtype).enum)
    theirs = tf.io.serialize_tensor(tf.constant(np.array(array)))

    assert tfio.serialize_tensor(array) == theirs.numpy()
    assert same(tfio.parse_tensor(theirs, dtype), array)
    assert same(tfio.parse_tensor(theirs.numpy()), array)


def test_parse_tensor_checks():
    """A dtype that differs, or more than one string, is refused."""
    with pytest.raises(ferry.FormatError, match="int32, expected float32"):
        tfio.parse_tensor(tfio.serialize_tensor([1, 2]), np.float32)
    with pytest.raises(ferry.FormatError, match="expected one string"):
        tfio.parse_tensor([b"a", b"b"])


@st.composite
def batches(draw, ordered=True):
    """Sparse tensors of rank 2 or more, in canonical order, of any dtype."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=3, max_side=3))
    mask = draw(hnp.arrays(np.bool_, shape))
    if draw(st.integers(0, 3)) == 0:
        values = draw(hnp.arrays(object, shape, elements=st.binary(max_size=5)))
    else:
        row = draw(st.sampled_from(SPARSE_ROWS))
        size = int(np.prod(shape)) * row.numpy.itemsize
        raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
        raw = raw & 1 if row.name == "bool" else raw
        values = np.ascontiguousarray(raw).view(row.numpy).reshape(shape)
    return SparseTensor(np.argwhere(mask), values[mask], shape)


def to_tf(tf, sparse):
    """The same for TensorFlow."""
    kind = tf.dtypes.as_dtype(dtypes.from_numpy(sparse.dtype).enum)
    return tf.SparseTensor(sparse.indices, tf.constant(sparse.values, kind), sparse.dense_shape)


def same_sparse(theirs, ours):
    """Whether a tf.SparseTensor and ours agree."""
    values = theirs.values.numpy()
    return (
        same(theirs.indices.numpy(), ours.indices)
        and same(values.astype(object) if values.dtype.kind == "S" else values, ours.values)
        and same(theirs.dense_shape.numpy(), ours.dense_shape)
    )


@given(sparse=batches())
def test_sparse_bytes(tf, sparse):
    """serialize_sparse and serialize_many_sparse give TensorFlow's bytes."""
    theirs = to_tf(tf, sparse)

    assert same(tfio.serialize_sparse(sparse), tf.io.serialize_sparse(theirs).numpy())
    assert same(tfio.serialize_sparse(theirs), tf.io.serialize_sparse(theirs).numpy())
    assert same(tfio.serialize_many_sparse(sparse), tf.io.serialize_many_sparse(theirs).numpy())


@pytest.mark.parametrize(
    "dtype", ["bool", "int32", "int64", "uint64", "float32", "bfloat16", "qint8"]
)
@pytest.mark.parametrize("shape", [[], [4], [3, 4], [2, 0, 5]])
def test_sparse_bytes_of_dtypes(tf, dtype, shape):
    """Also of tensors whose parts come from TensorFlow itself, the second time as the first."""
    count = 0 if 0 in shape else 1
    values = tf.bitcast(tf.zeros(count, tf.int8), dtype) if dtype == "qint8" else tf.ones(count)
    values = values if dtype == "qint8" else tf.cast(values, dtype)
    theirs = tf.SparseTensor(tf.zeros((count, len(shape)), tf.int64), values, shape)

    for _ in range(2):
        assert same(tfio.serialize_sparse(theirs), tf.io.serialize_sparse(theirs).numpy())


@pytest.mark.parametrize("index", [[3, 0], [0, -1]])
def test_unsound_sparse_tensors(tf, index):
    """An index outside, which TensorFlow lets in, is refused every time."""
    theirs = tf.SparseTensor([index], [1.0], [3, 4])

    tfio.serialize_sparse(tf.sparse.eye(3))
    for _ in range(2):
        with pytest.raises(ferry.FormatError):
            tfio.serialize_sparse(theirs)


def test_sparse_parts_in_pieces():
    """Arrays that are not contiguous give the bytes of those that are."""
    whole = SparseTensor(np.arange(12).reshape(6, 2)[::2], np.arange(6.0)[::2], [20, 20])
    copied = SparseTensor(whole.indices.copy(), whole.values.copy(), whole.dense_shape)

    assert same(tfio.serialize_sparse(whole), tfio.serialize_sparse(copied))


@given(sparse=batches())
def test_sparse_readers(tf, sparse):
    """Each reads what the other wrote: one tensor, a batch, a batch of batches."""
    dtype = tf.dtypes.as_dtype(dtypes.from_numpy(sparse.dtype).enum)
    one, many = tfio.serialize_sparse(sparse), tfio.serialize_many_sparse(sparse)

    assert same(tfio.deserialize_sparse(one, dtype), sparse)
    assert same(tfio.deserialize_many_sparse(many), sparse)
    assert same_sparse(tf.io.deserialize_many_sparse(many, dtype), sparse)
    stack = np.stack([many, many])
    theirs = tf.SparseTensor(*tf.raw_ops.DeserializeSparse(serialized_sparse=stack, dtype=dtype))
    assert same_sparse(theirs, tfio.deserialize_sparse(stack))


def test_many_sparse_in_any_order(tf):
    """Entries out of order, which TensorFlow refuses, are sorted to their rows."""
    sparse = SparseTensor([[2, 0], [0, 1]], [5, 6], [3, 4])
    ordered = to_tf(tf, SparseTensor([[0, 1], [2, 0]], [6, 5], [3, 4]))

    assert same(tfio.serialize_many_sparse(sparse), tf.io.serialize_many_sparse(ordered).numpy())


def test_different_shapes_together(tf):
    """The dense shape of a batch is the largest of all."""
    parts = np.stack(
        [
            tfio.serialize_sparse(SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 4])),
            tfio.serialize_sparse(SparseTensor([[1, 1]], [7], [2, 9])),
        ]
    )
    theirs = tf.io.deserialize_many_sparse(parts, tf.int32)

    assert same_sparse(theirs, tfio.deserialize_many_sparse(parts))
    assert tfio.deserialize_many_sparse(parts, rank=3).shape == (2, 3, 9)


@pytest.mark.parametrize(
    "call",
    [
        lambda one: tfio.deserialize_sparse(one[:2]),
        lambda one: tfio.deserialize_sparse(np.stack([one])[:0]),
        lambda one: tfio.deserialize_sparse(one, "float64"),
        lambda one: tfio.deserialize_sparse(one[[1, 0, 2]]),
        lambda one: tfio.deserialize_many_sparse(one, rank=5),
        lambda one: tfio.deserialize_sparse([b"a", b"b", b"c"]),
        lambda one: tfio.deserialize_sparse(
            np.stack([one, tfio.serialize_sparse(SparseTensor([[0]], [1], [1]))])
        ),
    ],
)
def test_sparse_checks(call):
    """Parts that are no sparse tensor, of another dtype or of mixed ranks are refused."""
    with pytest.raises(ferry.FormatError):
        call(tfio.serialize_sparse(SparseTensor([[0, 1]], [5], [3, 4])))


@given(array=string_arrays(), pad=st.booleans())
def test_base64(tf, array, pad):
    """encode_base64 gives TensorFlow's text; decode_base64 gives the strings back."""
    text = tfio.encode_base64(array, pad=pad)
    theirs = tf.io.encode_base64(tf.constant(array, tf.string), pad=pad).numpy()

    assert same(np.array(text, object), np.array(theirs, object))
    assert same(np.array(tfio.decode_base64(text), object), array)


@given(text=st.text(alphabet="Aab0-_+/= \n", max_size=9))
def test_base64_refuses_what_tensorflow_refuses(tf, text):
    """Any text is decoded as TensorFlow decodes it, or refused where it refuses it."""
    try:
        theirs = tf.io.decode_base64(text).numpy()
    except tf.errors.InvalidArgumentError:
        with pytest.raises(ferry.FormatError):
            tfio.decode_base64(text)
    else:
        assert tfio.decode_base64(text) == theirs


PADDED_TYPES = ("float32", "float64", "int32", "uint16", "uint8", "int16", "int8", "int64")
RAW_TYPES = (*PADDED_TYPES, "float16", "bfloat16", "complex64", "complex128", "bool")


@given(
    strings=hnp.arrays(
        object,
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
        elements=st.binary(max_size=20),
    ),
    dtype=st.sampled_from(RAW_TYPES),
    little=st.booleans(),
    length=st.one_of(st.none(), st.integers(1, 24)),
)
def test_decode_raw(tf, strings, dtype, little, length):
    """decode_raw gives TensorFlow's values for both byte orders, or refuses as it does."""
    assume(length is None or dtype in PADDED_TYPES)  # TensorFlow has no kernels for the others
    try:
        theirs = tf.io.decode_raw(tf.constant(strings, tf.string), dtype, little, length).numpy()
    except tf.errors.InvalidArgumentError:
        with pytest.raises(ferry.FormatError):
            tfio.decode_raw(strings, dtype, little, length)
    else:
        ours = tfio.decode_raw(strings, dtype, little, length)
        # TensorFlow leaves other bytes than 0 and 1 in a bool tensor.
        assert same(ours, theirs.view(np.uint8) != 0 if dtype == "bool" else theirs)


def test_decode_raw_has_no_strings():
    """Strings have no fixed size to cut the bytes by."""
    with pytest.raises(ferry.UnsupportedError):
        tfio.decode_raw(b"abc", "string")
