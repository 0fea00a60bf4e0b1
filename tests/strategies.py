"""Hypothesis strategies for values, and what it means for two of them to be the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorferry import dtypes
from tensorferry.tensors.values import RaggedTensor, SparseTensor

NUMERIC = tuple(row for row in dtypes.TABLE if row.numpy is not None and row is not dtypes.STRING)

# What TensorFlow 2.21 has a SerializeTensor kernel for, beside strings.
SERIALIZABLE = tuple(
    row for row in NUMERIC if row.bits >= 8 and not row.name.startswith(("q", "float8"))
)

SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)


def from_bits(row: dtypes.DType, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    """An array of exactly these bits, with bool and narrow kinds cut to what they can hold."""
    assert row.numpy is not None
    raw = np.frombuffer(data, np.uint8)
    if row.name == "bool":
        raw = raw & 1
    elif row.bits < 8:
        raw = raw & ((1 << row.bits) - 1)
    return np.ascontiguousarray(raw).view(row.numpy).reshape(shape)


LAYOUTS = ("C", "F", "strided", "reversed", "big-endian")


def lay_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values, lying in memory in another way."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided" and array.ndim:
        wide = np.repeat(array, 2, axis=-1)
        return wide[..., ::2]
    if layout == "reversed" and array.ndim:
        return np.ascontiguousarray(array[::-1])[::-1]
    if layout == "big-endian" and array.dtype.kind in "iufc" and array.dtype.isbuiltin == 1:
        return array.astype(array.dtype.newbyteorder(">"))
    return array


@st.composite
def numeric_arrays(draw: Any, rows: tuple[dtypes.DType, ...] = NUMERIC) -> np.ndarray:
    """Arrays of any dtype, shape and layout; any bits: NaN payloads, -0.0, subnormals."""
    row = draw(st.sampled_from(rows))
    shape = draw(SHAPES)
    size = int(np.prod(shape, dtype=np.int64)) * row.numpy.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    return lay_out(from_bits(row, shape, data), draw(st.sampled_from(LAYOUTS)))


@st.composite
def string_arrays(draw: Any) -> np.ndarray:
    """String tensors: any bytes, zero bytes and empty strings included."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    size = int(np.prod(shape, dtype=np.int64))
    array = np.empty(size, dtype=object)
    array[:] = draw(st.lists(st.binary(max_size=200), min_size=size, max_size=size))
    return array.reshape(shape)


def arrays() -> st.SearchStrategy[np.ndarray]:
    """Any dense tensor."""
    return st.one_of(numeric_arrays(), string_arrays())


@st.composite
def ragged_tensors(draw: Any) -> RaggedTensor:
    """One to three ragged dimensions, up to two uniform ones behind them."""
    nested = []
    rows = draw(st.integers(0, 4))
    for _ in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
        nested.append(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
        rows = int(nested[-1][-1])
    row = draw(st.sampled_from(NUMERIC))
    shape = (rows, *draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2)))
    size = int(np.prod(shape, dtype=np.int64)) * row.numpy.itemsize
    return RaggedTensor(
        from_bits(row, shape, draw(st.binary(min_size=size, max_size=size))), tuple(nested)
    )


@st.composite
def sparse_tensors(draw: Any) -> SparseTensor:
    """Entries in any order, repeated places included."""
    shape = draw(st.lists(st.integers(1, 2**40), min_size=1, max_size=4))
    count = draw(st.integers(0, 5))
    indices = [[draw(st.integers(0, size - 1)) for size in shape] for _ in range(count)]
    row = draw(st.sampled_from(NUMERIC))
    size = count * row.numpy.itemsize
    values = from_bits(row, (count,), draw(st.binary(min_size=size, max_size=size)))
    return SparseTensor(np.array(indices, np.int64).reshape(count, len(shape)), values, shape)


def with_arrays(value: Any) -> Any:
    """What a file of tensors gives back: numbers, lists of numbers and dicts of those as arrays."""

    def numbers(part: Any) -> bool:
        if type(part) in (list, tuple):
            return len(part) > 0 and all(numbers(element) for element in part)
        return type(part) in (bool, int, float, complex)

    if isinstance(value, dict):
        arrays = {
            key: with_arrays(entry) for key, entry in value.items() if not isinstance(entry, dict)
        }
        flat = len(arrays) == len(value) and all(
            isinstance(entry, np.ndarray | RaggedTensor | SparseTensor) for entry in arrays.values()
        )
        return arrays if flat else value
    if not numbers(value):
        return value
    try:
        array = np.array(value)
    except ValueError:
        return value
    return value if array.dtype == object else array


def same(left: Any, right: Any) -> bool:
    """Whether two values agree in type, dtype, shape and every bit."""
    if isinstance(left, np.ndarray | np.generic) and isinstance(right, np.ndarray | np.generic):
        if left.dtype == object:
            return (
                right.dtype == object
                and left.shape == right.shape
                and left.tolist() == right.tolist()
            )
        return (
            left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=")
            and left.shape == right.shape
            and np.asarray(left, left.dtype.newbyteorder("=")).tobytes()
            == np.asarray(right, right.dtype.newbyteorder("=")).tobytes()
        )
    if type(left).__name__ != type(right).__name__:
        return False
    if isinstance(left, RaggedTensor):
        return same(left.flat_values, right.flat_values) and same(
            list(left.nested_row_splits), list(right.nested_row_splits)
        )
    if isinstance(left, SparseTensor):
        return all(
            same(getattr(left, part), getattr(right, part))
            for part in ("indices", "values", "dense_shape")
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)
    return bool(left == right)
