from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import NUMERIC, from_bits, numeric_arrays, same

import tensorferry as ferry
from tensorferry import dtypes, frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks import memory
from tensorferry.tensors.values import SparseTensor

jax = pytest.importorskip("jax")

ROWS = tuple(row for row in NUMERIC if not row.numpy.names)
WIDE = ("int64", "uint64", "float64", "complex128")
SMALL_FLOATS = ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz")


@pytest.fixture
def wide():
    """64-bit dtypes switched on."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@given(numeric_arrays(ROWS))
def test_accepts_what_jax_made(wide, value):
    """An array of JAX comes with its dtype, shape and every bit."""
    assert same(
        frameworks.accept(jax.numpy.array(value.astype(value.dtype.newbyteorder("=")))), value
    )


@given(numeric_arrays(tuple(row for row in ROWS if row.name not in WIDE)))
def test_round_trip_without_64_bits(value):
    """With 64-bit dtypes off, all others pass through bytes and JAX unchanged."""
    array = ferry.loads(ferry.dumps(value), to="jax")

    assert isinstance(array, jax.Array)
    assert array.dtype == value.dtype.newbyteorder("=")
    assert same(frameworks.accept(array), value)


@pytest.mark.parametrize("name", WIDE)
def test_never_narrows(name, request):
    """With 64-bit dtypes off, a 64-bit array is refused; what the hint says makes it pass."""
    value = np.array([1, 2], dtypes.BY_NAME[name].numpy)

    with pytest.raises(
        UnsupportedError, match=f"would narrow {name}\nhint: jax.config.update"
    ) as caught:
        frameworks.give(value, "jax")

    assert caught.value.hint == 'jax.config.update("jax_enable_x64", True)'
    request.getfixturevalue("wide")
    assert same(frameworks.accept(frameworks.give(value, "jax")), value)


@pytest.mark.parametrize("row", [row for row in ROWS if row.bits >= 8], ids=lambda row: row.name)
def test_no_copy(wide, row):
    """The array of a JAX array is its memory, and read-only."""
    array = jax.numpy.array(from_bits(row, (64,), bytes(64 * row.numpy.itemsize)))

    value = frameworks.accept(array)

    assert value.__array_interface__["data"][0] == array.unsafe_buffer_pointer()
    assert not value.flags.writeable


@pytest.mark.parametrize("size", [1000, memory.LARGE])
def test_given_array_is_constant(size):
    """An array we gave does not change with the one it was made from."""
    value = memory.aligned_copy(np.zeros(size, np.float32))

    array = frameworks.give(value, "jax")
    value[:] = 1

    assert not np.asarray(array).any()


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_floats_from_torch(name):
    """Every bit pattern of bfloat16 and float8 passes from PyTorch over bytes to JAX and back."""
    torch = pytest.importorskip("torch")
    row = dtypes.BY_NAME[name]
    bits = np.arange(1 << row.bits, dtype=f"u{row.numpy.itemsize}")
    tensor = torch.from_numpy(bits).view(getattr(torch, name))

    array = ferry.loads(ferry.dumps(tensor), to="jax")
    again = ferry.loads(ferry.dumps(array), to="torch")

    assert array.dtype == name
    assert np.array_equal(jax.lax.bitcast_convert_type(array, bits.dtype), bits)
    assert again.dtype == tensor.dtype
    assert np.array_equal(again.view(torch.from_numpy(bits).dtype).numpy(), bits)


def test_traced():
    """A traced array is refused, and the hint says where it has values."""

    def function(array):
        with pytest.raises(
            UnsupportedError, match=r"float32\[3\] is traced: .*\nhint: call it outside"
        ):
            frameworks.accept(array)
        return array.sum()

    jax.jit(function)(jax.numpy.ones(3))
    jax.grad(function)(jax.numpy.ones(3))


def test_given_inside_a_function():
    """A value becomes a constant of the function that asks for it."""
    value = np.arange(4, dtype=np.float32)

    assert jax.jit(lambda: frameworks.give(value, "jax") * 2)().tolist() == [0, 2, 4, 6]


def test_random_key():
    """A random key is refused; the hint's data is accepted."""
    key = jax.random.key(7)

    with pytest.raises(
        UnsupportedError, match=r"random key .*\nhint: pass jax.random.key_data\(key\)"
    ):
        frameworks.accept(key)
    assert frameworks.accept(jax.random.key_data(key)).tolist() == [0, 7]


def test_deleted():
    """An array whose memory JAX has given away is refused."""
    array = jax.numpy.ones(3)
    array.delete()

    with pytest.raises(UnsupportedError, match="Array has been deleted"):
        frameworks.accept(array)


def test_dtype_without_counterpart():
    """A dtype that TensorFlow's table lacks is refused by name."""
    with pytest.raises(UnsupportedError, match=r"^dtype float8_e3m4 has no TensorFlow counterpart"):
        frameworks.accept(jax.numpy.ones(3, "float8_e3m4"))


@pytest.mark.parametrize("kind", ["BCOO", "BCSR"])
def test_sparse(kind):
    """Sparse arrays come as their entries, without those that JAX fills up with."""
    from jax.experimental import sparse

    dense = jax.numpy.array([[0, 1, 0], [2, 0, 3]], "float32")

    value = frameworks.accept(getattr(sparse, kind).fromdense(dense, nse=5))

    assert value.values.tolist() == [1, 2, 3]
    assert same(value.to_dense(), np.asarray(dense))


def test_sparse_is_computed_with():
    """A sparse tensor becomes a BCOO array with the same dense form."""
    value = SparseTensor([[1, 2], [0, 0]], np.array([5, 6], np.float32), [2, 3])

    assert same(np.asarray(frameworks.give(value, "jax").todense()), value.to_dense())


def test_sparse_with_batches():
    """Sparse arrays with batch or dense dimensions are refused; the hint's layout is accepted."""
    from jax.experimental import sparse

    array = sparse.BCOO.fromdense(jax.numpy.eye(3), n_batch=1)

    with pytest.raises(
        UnsupportedError, match=r"1 batch and 0 dense dimensions.*\nhint: update_layout"
    ):
        frameworks.accept(array)
    assert same(frameworks.accept(array.update_layout(n_batch=0)).to_dense(), np.eye(3, dtype="f4"))


def test_sparse_wide_shape():
    """Without 64-bit dtypes, a shape that needs 64-bit indices is refused."""
    value = SparseTensor([[2**40]], np.ones(1, np.float32), [2**41])

    with pytest.raises(UnsupportedError, match=r"switched off\nhint: jax\.config\.update"):
        frameworks.give(value, "jax")
