from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import (
    NUMERIC,
    arrays,
    from_bits,
    ragged_tensors,
    same,
    sparse_tensors,
    string_arrays,
)

import tensorferry as ferry
from tensorferry import dtypes, frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks import memory
from tensorferry.tensors.values import RaggedTensor


@given(arrays())
def test_accepts_what_tensorflow_made(tf, value):
    """A constant of TensorFlow comes with its dtype, shape and every bit."""
    assert same(frameworks.accept(tf.constant(value)), value)


@given(arrays())
def test_gives_what_tensorflow_makes(tf, value):
    """A tensor we give is the one that tf.constant makes of the same array, bit for bit."""
    ours = frameworks.give(value, "tensorflow")
    theirs = tf.constant(value, dtypes.from_numpy(value.dtype).name)

    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert same(np.asarray(ours.numpy()), np.asarray(theirs.numpy()))


@given(ragged_tensors())
def test_ragged_round_trip(tf, value):
    """Ragged tensors keep their values and row splits."""
    tensor = frameworks.give(value, "tensorflow")

    assert isinstance(tensor, tf.RaggedTensor)
    assert same(frameworks.accept(tensor), value)


@given(string_arrays())
def test_strings_are_computed_with(tf, value):
    """TensorFlow sees the strings, not their addresses."""
    lengths = tf.strings.length(frameworks.give(value, "tensorflow")).numpy()

    assert np.asarray(lengths).ravel().tolist() == [len(string) for string in value.ravel()]


@given(sparse_tensors())
def test_sparse_is_tensorflows(tf, value):
    """Sparse tensors have TensorFlow's parts."""
    tensor = frameworks.give(value, "tensorflow")

    assert isinstance(tensor, tf.SparseTensor)
    assert tensor.dense_shape.numpy().tolist() == value.dense_shape.tolist()
    assert tensor.indices.numpy().tolist() == value.indices.tolist()


def test_sparse_strings(tf):
    """A sparse tensor of strings passes both ways."""
    tensor = tf.SparseTensor([[0, 1], [2, 0]], [b"a\0", b""], [3, 2])

    value = frameworks.accept(tensor)

    assert value.values.tolist() == [b"a\0", b""]
    assert same(frameworks.accept(frameworks.give(value, "tensorflow")), value)


@pytest.mark.parametrize("splits", [("int32", "int32"), ("int64", "int64"), ("int32", "int64")])
def test_row_splits_dtype(tf, splits):
    """Row splits keep their dtype; where levels differ, TensorFlow gets int64."""
    outer, inner = np.array([0, 2], splits[0]), np.array([0, 1, 3], splits[1])

    tensor = frameworks.give(RaggedTensor(np.zeros((3, 2)), (outer, inner)), "tensorflow")

    assert [part.dtype.name for part in tensor.nested_row_splits] == [max(splits)] * 2
    assert tensor.to_list() == [[[[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]]


def test_ragged_of_tensorflow(tf):
    """Ragged tensors of TensorFlow come with int32 splits, inner dimensions and uniform rows."""
    inner = tf.ragged.constant([[[1, 2]], []], ragged_rank=1, row_splits_dtype=tf.int32)
    uniform = tf.RaggedTensor.from_uniform_row_length(tf.ragged.constant([[1], [], [2, 3], []]), 2)

    assert same(
        frameworks.accept(inner),
        RaggedTensor(np.array([[1, 2]], np.int32), (np.array([0, 1, 1], np.int32),)),
    )
    assert frameworks.accept(uniform).to_list() == uniform.to_list()


@pytest.mark.parametrize("row", NUMERIC, ids=lambda row: row.name)
def test_no_copy(tf, row):
    """The array of an eager tensor is its memory, and read-only, for every dtype."""
    tensor = tf.constant(from_bits(row, (64,), bytes(64 * row.numpy.itemsize)))

    value = frameworks.accept(tensor)

    assert np.shares_memory(value, tensor.__array__())
    assert not value.flags.writeable


def test_array_outlives_tensor(tf):
    """The memory stays as long as the array."""
    value = frameworks.accept(tf.range(100000) + 1)

    for _ in range(10):
        tf.zeros(100000, tf.int32) + 7
    assert np.array_equal(value, np.arange(1, 100001))


@pytest.mark.parametrize("size", [1000, memory.LARGE])
def test_given_tensor_is_constant(tf, size):
    """A tensor we gave does not change with the array it was made from."""
    value = memory.aligned_copy(np.zeros(size, np.float32))

    tensor = frameworks.give(value, "tensorflow")
    value[:] = 1

    assert not tensor.numpy().any()


@pytest.mark.parametrize("change", ["assign", "assign_add", "scatter_nd_update"])
def test_variable(tf, change):
    """The array of a variable is its value at that time, whatever happens to it later."""
    variable = tf.Variable(tf.range(1000))
    ones = tf.ones(1000, tf.int32)

    value = frameworks.accept(variable)
    if change == "scatter_nd_update":
        variable.scatter_nd_update([[1], [2]], [-1, -1])
    else:
        getattr(variable, change)(ones)

    assert same(value, np.arange(1000, dtype=np.int32))


def test_distributed_variable(tf):
    """A variable of a distribution strategy comes as its value."""
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        variable = tf.Variable([1.0, 2.0])

    assert same(frameworks.accept(variable), np.array([1, 2], np.float32))


def test_keras_variable(tf):
    """A variable of Keras comes as its value, whatever its dtype."""
    variable = tf.keras.Variable([1.0, 2.0], dtype="bfloat16")

    assert same(frameworks.accept(variable), variable.numpy())


def test_given_inside_a_function(tf):
    """A value becomes a constant of the function that asks for it."""
    value = np.arange(4, dtype=np.float32)

    result = tf.function(lambda: frameworks.give(value, "tensorflow") * 2)()

    assert result.numpy().tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("kind", ["tensor", "variable", "sparse", "ragged"])
def test_symbolic(tf, kind):
    """A tensor without values is refused, and the hint says where it has some."""
    variable = tf.Variable(1.0)

    def function(tensor):
        value = {
            "tensor": lambda: tensor,
            "variable": lambda: variable,
            "sparse": lambda: tf.sparse.from_dense(tensor),
            "ragged": lambda: tf.RaggedTensor.from_tensor(tensor[None]),
        }[kind]()
        with pytest.raises(
            UnsupportedError, match=r"symbolic: .*\nhint: call it outside of tf\.func"
        ):
            frameworks.accept(value)
        return tensor

    tf.function(function)(tf.ones(3))


def test_keras_symbolic(tf):
    """A symbolic tensor of Keras is refused."""
    with pytest.raises(UnsupportedError, match="KerasTensor is symbolic"):
        frameworks.accept(tf.keras.Input((3,)))


def test_structures_of_tensors(tf):
    """A structure of eager tensors has the bytes of the structure of their arrays, handles none."""
    tensors = [tf.range(3), tf.constant([[0.5]]), tf.constant(b"x"), tf.constant(2, tf.bfloat16)]
    arrays = [frameworks.accept(tensor) for tensor in tensors]

    assert ferry.dumps([tensors, {"a": tensors[0]}]) == ferry.dumps([arrays, {"a": arrays[0]}])
    with pytest.raises(UnsupportedError, match="handle"):
        ferry.dumps({"a": [tf.Variable(1.0).handle]})


def test_handles(tf):
    """Resources and variants are refused: they hold no data."""
    with pytest.raises(UnsupportedError, match="a resource tensor is a handle, not data"):
        frameworks.accept(tf.Variable(1.0).handle)
    with pytest.raises(UnsupportedError, match="a variant tensor is a handle, not data"):
        frameworks.accept(tf.data.experimental.to_variant(tf.data.Dataset.range(3)))


def test_indexed_slices(tf):
    """Indexed slices are refused; the hint's tensor is accepted."""
    slices = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]), tf.constant([2, 2]))

    with pytest.raises(UnsupportedError, match=r"hint: tf\.convert_to_tensor\(slices\)"):
        frameworks.accept(slices)
    assert frameworks.accept(tf.convert_to_tensor(slices)).tolist() == [[0, 0], [1, 1]]


def test_dtype_of_a_later_version(tf, monkeypatch):
    """A dtype that an older TensorFlow lacks is refused by name."""
    as_dtype = tf.as_dtype

    def older(name):
        if name == "int2":
            raise TypeError(name)
        return as_dtype(name)

    monkeypatch.setattr(tf, "as_dtype", older)

    with pytest.raises(UnsupportedError, match="TensorFlow has no int2 tensors"):
        frameworks.give(np.zeros(2, dtypes.BY_NAME["int2"].numpy), "tensorflow")
