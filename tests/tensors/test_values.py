"""SparseTensor, RaggedTensor and structures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import numeric_arrays, ragged_tensors, same

import tensorferry as ferry
from tensorferry import RaggedTensor, SparseTensor
from tensorferry.tensors.values import map_structure


@given(array=numeric_arrays())
def test_sparse_from_dense(array):
    """A dense tensor is the same after a way through its entries, but for the sign of zeros."""
    if array.dtype.names or array.ndim == 0 or array.dtype.kind in "fcV":
        return
    assert same(SparseTensor.from_dense(array).to_dense(), array)


def test_sparse_strings():
    """Strings have entries too: all that are not empty."""
    sparse = SparseTensor.from_dense([["a", ""], ["", "b"]])

    assert sparse.indices.tolist() == [[0, 0], [1, 1]]
    assert sparse.to_dense().tolist() == [[b"a", b""], [b"", b"b"]]


@pytest.mark.parametrize(
    "parts",
    [
        ([[0, 5]], [1], [1, 5]),
        ([[-1, 0]], [1], [1, 5]),
        ([[0]], [1], [1, 5]),
        ([[0, 0]], [1, 2], [1, 5]),
        ([0, 0], [1], [1, 5]),
        ([[0, 0]], [[1]], [1, 5]),
        ([[0, 0]], [1], [[1, 5]]),
        ([[0, 0]], [1], [1, -5]),
        ([[0.0, 0.0]], [1], [1, 5]),
    ],
)
def test_sparse_parts_must_fit(parts):
    """Indices outside the shape, and parts of other ranks or counts, are refused."""
    with pytest.raises(ferry.FormatError):
        SparseTensor(*parts)


@pytest.mark.parametrize(("entries", "rank"), [(1, 1), (3, 2), (300, 1), (700, 3), (5, 300)])
@pytest.mark.parametrize("wrong", [-1, 10, 2**63 - 1, -(2**63)])
def test_each_index_of_a_sparse_tensor_is_checked(entries, rank, wrong):
    """One index outside the shape is found wherever it stands."""
    rng = np.random.default_rng(0)
    shape = np.full(rank, 10)
    indices = rng.integers(0, 10, (entries, rank))
    indices.flat[0], indices.flat[-1] = 0, 9
    SparseTensor(indices, np.ones(entries), shape)
    for place in {0, indices.size - 1, *rng.integers(0, indices.size, 20).tolist()}:
        changed = indices.copy()
        changed.flat[place] = wrong
        with pytest.raises(ferry.FormatError, match="outside the dense shape"):
            SparseTensor(changed, np.ones(entries), shape)
    with pytest.raises(ferry.FormatError, match="outside the dense shape"):
        SparseTensor(indices, np.ones(entries), np.zeros(rank, np.int64))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", ">i8", ">i4"])
@pytest.mark.parametrize("count", [1, 2, 3, 40, 1000])
def test_each_row_split_is_checked(dtype, count):
    """Row splits of any dtype and stride start at 0, never fall, and end with the values."""
    splits = np.sort(np.random.default_rng(0).integers(0, 100, count)).astype(dtype)
    splits[0] = 0
    end = int(splits[-1])
    for one in (splits, np.repeat(splits, 2)[::2]):
        kept = RaggedTensor(np.zeros(end), (one,)).nested_row_splits[0]
        assert kept.dtype == ("int32" if dtype == "int32" else "int64")
        assert kept.tolist() == splits.tolist()
    for place in {0, count // 2, count - 1}:
        changed = splits.astype("int64")
        changed[place] += 1000 if place != count - 1 or count == 1 else -1000
        with pytest.raises(ferry.FormatError, match="never falls"):
            RaggedTensor(np.zeros(end), (changed.astype("int32") if dtype == "int32" else changed,))
    with pytest.raises(ferry.FormatError, match=f"end at {end}, expected {end + 1}"):
        RaggedTensor(np.zeros(end + 1), (splits,))
    for wrong in (splits[:0], splits[None], np.zeros((), dtype)):
        for nested in ((wrong,), (np.array([0, 1]), wrong), (wrong, splits)):
            with pytest.raises(ferry.FormatError, match="never falls"):
                RaggedTensor(np.zeros(end), nested)


def test_sparse_dense_form_has_a_budget():
    """A sparse tensor may be larger than memory; its dense form may not."""
    sparse = SparseTensor([[0, 0]], [1.0], [2**40, 2**40])
    with pytest.raises(ferry.LimitError):
        sparse.to_dense()


@given(ragged=ragged_tensors())
def test_ragged_rows(tf, ragged):
    """Rows, lengths, shape and lists are those of tf.RaggedTensor."""
    theirs = tf.RaggedTensor.from_nested_row_splits(
        np.zeros(ragged.flat_values.shape), list(ragged.nested_row_splits)
    )
    ours = RaggedTensor(np.zeros(ragged.flat_values.shape), ragged.nested_row_splits)

    assert ours.to_list() == theirs.to_list()
    assert ours.row_lengths.tolist() == theirs.row_lengths().numpy().tolist()
    assert ours.shape == tuple(theirs.shape)
    for row in range(-len(ours), len(ours)):
        part = ours[row].to_list() if ours.ragged_rank > 1 else ours[row].tolist()
        assert part == ours.to_list()[row]
    assert len(list(ours)) == len(ours)


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2], [], [3]],
        [[[1], [2, 3]], [], [[]]],
        [["a"], ["b", "c"]],
        [[1.5], [True]],
        [[]],
        [[2**40], []],
    ],
)
def test_ragged_from_rows(tf, rows):
    """Nested lists become what tf.ragged.constant makes of them."""
    ours, theirs = RaggedTensor.from_rows(rows), tf.ragged.constant(rows)

    assert ours.to_list() == theirs.to_list()
    if ours.flat_values.size:
        assert ours.dtype == np.dtype(theirs.dtype.as_numpy_dtype)
    if isinstance(theirs, tf.RaggedTensor):
        assert ours.ragged_rank == theirs.ragged_rank


def test_ragged_from_arrays():
    """Arrays that differ in their first dimension are the rows; the others are uniform."""
    ragged = RaggedTensor.from_rows([np.zeros((2, 3), np.float16), np.ones((0, 3), np.float16)])

    assert ragged.shape == (2, None, 3)
    assert ragged.dtype == np.float16
    assert RaggedTensor.from_rows([[1], [2]], dtype="int8").dtype == np.int8
    with pytest.raises(IndexError):
        ragged[2]


@pytest.mark.parametrize(
    ("values", "splits"),
    [
        ([1, 2], ([0, 1],)),
        ([1, 2], ([1, 2],)),
        ([1, 2], ([0, 2, 1, 2],)),
        ([1, 2], ()),
        ([1, 2], ([],)),
        ([1, 2], ([[0, 2]],)),
        (5, ([0, 1],)),
        ([1, 2], ([0, 1], [0, 1, 2, 2])),
        ([1, 2], ([0.0, 2.0],)),
    ],
)
def test_ragged_parts_must_fit(values, splits):
    """Row splits that fall, or do not end where the next level does, are refused."""
    with pytest.raises(ferry.FormatError):
        RaggedTensor(values, splits)


def test_map_structure():
    """Leaves are mapped in place, containers keep their kinds."""
    value = {"a": [1, (2, None)], "b": {}}

    assert map_structure(lambda leaf: [leaf], value) == {"a": [[1], ([2], [None])], "b": {}}
