"""What holds for every framework, and for objects of none.

`test_tensorflow.py`, `test_torch.py` and `test_jax.py` hold what is special to each.
"""

from __future__ import annotations

import array
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from strategies import NUMERIC, arrays, from_bits, numeric_arrays, same, sparse_tensors

import tensorferry as ferry
from tensorferry import dtypes, frameworks
from tensorferry.errors import MissingExtraError, UnsupportedError
from tensorferry.frameworks import contract, memory, table
from tensorferry.tensors.values import RaggedTensor, SparseTensor

QUANTIZED = {"qint8", "quint8", "qint16", "quint16", "qint32"}
NARROW = {"int4", "uint4", "int2", "uint2", "float4_e2m1fn"}
LACKED = {
    "tensorflow": set(),
    "torch": {"string", "float8_e4m3b11fnuz", *QUANTIZED, *NARROW},
    "jax": {"string", *QUANTIZED},
}


SMALL_FLOATS = [row for row in NUMERIC if row.name.startswith(("bfloat", "float8"))]


def pairs(rows):
    """Each framework with each of the dtypes that it has."""
    return [
        pytest.param(name, row, id=f"{name}-{row.name}")
        for name in frameworks.NAMES
        for row in rows
        if row.name not in LACKED[name]
    ]


@pytest.fixture(params=frameworks.NAMES)
def framework(request):
    """The name of each framework that is here, with 64-bit dtypes."""
    module = pytest.importorskip(request.param)
    if request.param != "jax":
        yield request.param
        return
    before = module.config.jax_enable_x64
    module.config.update("jax_enable_x64", True)
    yield request.param
    module.config.update("jax_enable_x64", before)


def unaligned(source: np.ndarray) -> np.ndarray:
    """The same values, at an odd address and read-only."""
    return (
        np.frombuffer(b"x" + source.tobytes(), np.uint8)[1:]
        .view(source.dtype)
        .reshape(source.shape)
    )


@given(arrays())
def test_dense_round_trip(framework, value):
    """What is given and accepted again has the same dtype, shape and bits, or is refused."""
    name = dtypes.from_numpy(value.dtype).name
    if name in LACKED[framework]:
        with pytest.raises(UnsupportedError, match=f"has no {name} tensors\nhint: to="):
            frameworks.give(value, framework)
        return

    tensor = frameworks.give(value, framework)

    assert tuple(tensor.shape) == value.shape
    assert same(frameworks.accept(tensor), value)


@given(numeric_arrays())
def test_unaligned_and_read_only(framework, value):
    """Where an array lies and whether it may be written does not matter."""
    value = unaligned(value.astype(value.dtype.newbyteorder("=")))
    if dtypes.from_numpy(value.dtype).name not in LACKED[framework]:
        assert same(frameworks.accept(frameworks.give(value, framework)), value)


@pytest.mark.parametrize(("framework", "row"), pairs(NUMERIC), indirect=["framework"])
def test_large(framework, row):
    """Large arrays, which take another way, keep every bit as well."""
    shape = (2, memory.LARGE // row.numpy.itemsize)
    value = from_bits(row, shape, np.random.default_rng(7).bytes(2 * memory.LARGE)).T

    assert same(frameworks.accept(frameworks.give(value, framework)), value)


@given(sparse_tensors())
def test_sparse_round_trip(framework, value):
    """Entries keep their places, order and bits, repeated ones included."""
    if dtypes.from_numpy(value.dtype).name in LACKED[framework]:
        return
    if framework == "torch" and np.prod(value.shape, dtype=object) >= 2**63:
        with pytest.raises(UnsupportedError, match="cannot hold a sparse tensor of shape"):
            frameworks.give(value, framework)
        return

    assert same(frameworks.accept(frameworks.give(value, framework)), value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_sparse_without_entries(framework, shape):
    """No entries, no dimensions and empty dimensions survive."""
    value = SparseTensor(np.zeros((0, len(shape)), np.int64), np.zeros(0, np.float32), shape)

    assert same(frameworks.accept(frameworks.give(value, framework)), value)


@pytest.mark.parametrize(("framework", "row"), pairs(SMALL_FLOATS), indirect=["framework"])
def test_every_small_float_through_bytes(framework, row):
    """Each bit pattern of bfloat16 and float8 passes through bytes into a framework and back."""
    value = np.arange(1 << row.bits, dtype=f"u{row.numpy.itemsize}").view(row.numpy)

    tensor = ferry.loads(ferry.dumps(value), to=framework)

    assert row.name in str(tensor.dtype)
    assert same(ferry.loads(ferry.dumps(tensor)), value)


def test_structure(framework):
    """Tensors inside a structure are converted, plain values and the nesting stay."""
    value = {"a": [np.arange(3, dtype=np.int32), None], "b": (1, 2.5, "text", b"bytes", True)}

    given_back = frameworks.give(value, framework)

    assert given_back["b"] == value["b"]
    assert given_back["a"][1] is None
    assert not isinstance(given_back["a"][0], np.ndarray)
    assert same(frameworks.accept(given_back), value)


def test_gives_arrays_in_any_form(framework):
    """Other byte orders, subclasses and NumPy scalars are given as the tensors they stand for."""
    plain = np.arange(3, dtype=np.float32)

    for value in (plain.astype(">f4"), plain.view(np.memmap), plain[2]):
        assert same(frameworks.accept(frameworks.give(value, framework)), np.asarray(value))


def test_refusal_names_the_place():
    """An error in a structure says which tensor it is about."""
    with pytest.raises(UnsupportedError, match="tensor 'a/1': object is no tensor"):
        frameworks.accept({"a": [np.zeros(2), object()]})


def test_numpy_stays():
    """Asking for NumPy gives the value itself."""
    value = np.zeros(3)

    assert frameworks.give(value, "numpy") is value


def test_unknown_framework():
    """A framework that does not exist is refused with the names that do."""
    with pytest.raises(UnsupportedError, match="'mxnet'\nhint: expected numpy, tensorflow, torch"):
        frameworks.give(np.zeros(3), "mxnet")


@pytest.mark.parametrize("name", frameworks.NAMES)
def test_missing_framework(monkeypatch, name):
    """A framework that is not installed is named with the command that installs it."""
    home = table.HOMES[contract.Tensors][name]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"tensorferry.frameworks.{home}", raising=False)
    table.tensors.cache_clear()

    with pytest.raises(MissingExtraError, match=f"pip install 'tensorferry\\[{name}\\]'"):
        frameworks.give(np.zeros(3), name)
    assert same(frameworks.accept(Array(np.zeros(3))), np.zeros(3))


def test_accept_imports_no_framework():
    """Accepting a value imports no framework that the program has not imported."""
    program = """
import sys, array, numpy, tensorferry.frameworks as frameworks
frameworks.accept({"a": [numpy.zeros(2), array.array("f", [1])], "b": (None, 1, b"x")})
sys.exit(any(name in sys.modules for name in frameworks.NAMES))
"""
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


class Array:
    """Only `__array__`."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.values, Exception):
            raise self.values
        return self.values


class DLPack:
    """Only DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Both(DLPack, Array):
    """DLPack first, `__array__` where DLPack cannot."""


@given(arrays())
def test_array_protocol(value):
    """An object of any class with `__array__` is taken as its array."""
    assert same(frameworks.accept(Array(value)), value)


@pytest.mark.parametrize("kind", [DLPack, Both])
def test_dlpack_shares_memory(kind):
    """An object of any class with DLPack is taken without a copy."""
    value = np.arange(6, dtype=np.float32).reshape(2, 3).T

    result = frameworks.accept(kind(value))

    assert same(result, value)
    assert np.shares_memory(result, value)


def test_dlpack_falls_back():
    """What DLPack has no type for comes through `__array__`."""
    value = np.arange(4).astype(ml_dtypes.bfloat16)

    assert same(frameworks.accept(Both(value)), value)


def test_dlpack_fails():
    """Without `__array__` the refusal says what DLPack said."""
    with pytest.raises(UnsupportedError, match="NumPy cannot take DLPack over DLPack: "):
        frameworks.accept(DLPack(np.zeros(2, ml_dtypes.bfloat16)))


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError])
def test_array_protocol_fails(error):
    """An object that refuses to become an array is refused with its own words."""
    with pytest.raises(UnsupportedError, match="Array cannot be turned into an array: use get"):
        frameworks.accept(Array(error("use get")))


@pytest.mark.parametrize(
    "value", [np.zeros(2, "M8[s]"), np.array([1, None])], ids=["time", "object"]
)
def test_array_protocol_without_counterpart(value):
    """An array that is no tensor is refused also when an object gives it."""
    with pytest.raises(UnsupportedError, match="hint: "):
        frameworks.accept(Array(value))


def test_buffers():
    """Anything with a buffer is a tensor of its format."""
    assert same(frameworks.accept(array.array("d", [1, 2])), np.array([1.0, 2.0]))
    assert same(frameworks.accept(bytearray(b"ab")), np.array([97, 98], np.uint8))


@pytest.mark.parametrize("value", [object(), {1, 2}, np.float32, open])
def test_no_tensor(value):
    """What is no value at all is refused."""
    with pytest.raises(UnsupportedError):
        frameworks.accept(value)


@given(numeric_arrays())
def test_aligned_copy(value):
    """A copy for a framework has the same bits, lies where it must, and is nobody else's memory."""
    copy = memory.aligned_copy(value)

    assert same(copy, value)
    assert copy.flags.c_contiguous
    assert not copy.size or copy.__array_interface__["data"][0] % memory.ALIGNMENT == 0
    assert not np.shares_memory(copy, value)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_no_ragged_or_strings(framework):
    """A framework without ragged tensors or strings says what to do instead."""
    pytest.importorskip(framework)

    with pytest.raises(UnsupportedError, match=r'no ragged .*\nhint: load it with to="numpy"'):
        frameworks.give(RaggedTensor.from_rows([[1], [2, 3]]), framework)
    with pytest.raises(
        UnsupportedError, match=r'no string .*\nhint: to="numpy" gives an array of bytes'
    ):
        frameworks.give(np.array([b"a"], object), framework)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("qint16", 'to="numpy" and array.view("int16") give the plain integers'),
        ("quint8", 'to="numpy" and array.view("uint8") give the plain integers'),
        ("int2", 'to="numpy" and array.astype("int8") give a dtype that it has'),
        ("float4_e2m1fn", 'to="numpy" and array.astype("float32") give a dtype that it has'),
    ],
)
def test_way_out(name, way):
    """The error for a dtype that a framework lacks says what to do instead."""
    error = contract.lacks("PyTorch", dtypes.BY_NAME[name])

    assert str(error) == f"PyTorch has no {name} tensors\nhint: {way}"
