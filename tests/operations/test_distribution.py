"""Distributions: exact histograms in one pass, whatever the pieces."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry.operations.distribution import BINS, SHOWN, Spread, distribution, pieces_of
from tensorferry.operations.subject import open_one


def spread_of(*pieces):
    spread = Spread()
    for piece in pieces:
        spread.add(np.asarray(piece))
    return spread.result()


def check_histogram(found, numbers):
    """The counts are those that NumPy finds between the same edges."""
    histogram = found.histogram
    edges = np.array(histogram.edges)
    assert len(histogram.counts) <= max(SHOWN, 1)
    # A bin ends before its upper edge; NumPy's last one includes it.
    expected, _ = np.histogram(numbers, np.append(edges[:-1], np.inf))
    assert list(histogram.counts) == expected.tolist()
    assert edges[0] <= numbers.min()
    assert numbers.max() < edges[-1]


finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=60)
@given(st.lists(st.lists(finite, min_size=1, max_size=20), min_size=1, max_size=5))
def test_pieces_of_floats(pieces):
    """The histogram of pieces is the histogram of all of them, wherever later ones lie."""
    arrays = [np.array(piece, np.float32) for piece in pieces]
    found = spread_of(*arrays)

    check_histogram(found, np.concatenate(arrays).astype(np.float64))
    assert found.looked == found.total == sum(map(len, pieces))


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=1), min_size=1, max_size=4))
def test_pieces_of_integers(pieces):
    """Of integers, no bin is narrower than 1."""
    arrays = [np.array(piece, np.int64) for piece in pieces]
    found = spread_of(*arrays)

    check_histogram(found, np.concatenate(arrays).astype(np.float64))
    widths = np.diff(found.histogram.edges)
    assert widths.min() >= 1


def test_labels():
    """Ten labels are ten bins, one for each."""
    labels = np.random.default_rng(1).integers(0, 10, 5000)
    histogram = spread_of(labels).histogram

    assert histogram.counts == tuple(np.bincount(labels).tolist())
    assert histogram.edges == tuple(range(11))


def test_extremes():
    """The largest and the least doubles are one histogram; a constant is one bin."""
    huge = np.array([-1.7e308, 1.7e308, 0, 5e-324])
    check_histogram(spread_of(huge), huge)
    assert spread_of(np.full(100, 1e300)).histogram.counts == (100,)
    assert spread_of(np.zeros(7)).histogram.counts == (7,)
    assert spread_of(np.zeros(0)).histogram is None


def test_outlier_in_a_later_piece():
    """A number far outside widens the bins, and none is lost."""
    first = np.random.default_rng(2).standard_normal(5000)
    found = spread_of(first, [1e6], [-3.0])

    assert sum(found.histogram.counts) == 5002
    assert len(found.histogram.counts) <= SHOWN < BINS


def test_magnitudes():
    """Each number is counted by its exponent, negative and positive ones apart."""
    found = spread_of([0, 0, 1.5, 15.0, -0.02, -0.02]).magnitudes

    assert found.zeros == 2
    assert sum(found.positive) == 2
    assert found.negative[-17 - found.start] == 2  # 10**-1.7 is just below 0.02
    assert found.positive[1 - found.start] == 1  # 10**0.1 is just below 1.5
    assert found.positive[11 - found.start] == 1


def test_where_the_first_are(tmp_path):
    """The index of the first NaN and of the first infinite number."""
    array = np.ones((300, 70, 100), np.float32)
    array[200, 3, 4] = np.nan
    array[250:, 0, 0] = np.nan
    array[17, 69, 99] = -np.inf
    ferry.save({"x": array}, tmp_path / "x.safetensors")
    with open_one(tmp_path / "x.safetensors") as subject:
        found = distribution(subject, "x")

    assert found.first_nan == (200, 3, 4)
    assert found.first_infinite == (17, 69, 99)
    assert (found.summary.nan, found.summary.infinite) == (51, 1)


def test_sample(tmp_path):
    """Of a large tensor a part can be looked at, and the result says how much."""
    array = np.random.default_rng(3).standard_normal(1 << 20).astype(np.float32)
    ferry.save({"x": array}, tmp_path / "x.npz")
    told = []
    with open_one(tmp_path / "x.npz") as subject:
        some = distribution(subject, "x", most=1 << 16)
        everything = distribution(subject, "x", progress=lambda *now: told.append(now))

    assert (some.looked, some.total) == (1 << 16, 1 << 20)
    assert some.summary.deviation == pytest.approx(everything.summary.deviation, rel=0.05)
    assert everything.summary.mean == pytest.approx(float(array.mean(dtype=np.float64)))
    assert told[-1] == (1 << 20, 1 << 20)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (np.arange(12).reshape(3, 4).T, 12),
        (np.arange(6, dtype=ml_dtypes.bfloat16), 6),
        (np.array([True, False, True]), 3),
        (np.array([1 + 2j, 3j]), 2),
        (np.array([b"abc", b""], object), 2),
        (ferry.RaggedTensor.from_rows([[1, 2], [], [3]]), 3),
        (ferry.SparseTensor(np.array([[0], [5]]), np.array([1.0, 2.0]), np.array([9])), 2),
        ([np.ones(3), None, np.ones((2, 2))], 7),
        (b"alone", 1),
    ],
)
def test_every_kind(value, count):
    """Tensors of every kind have a distribution: strings by their length."""
    spread = Spread()
    for piece in pieces_of(value, most=2):
        spread.add(piece)

    assert spread.result().summary.count == count
    assert sum(spread.result().histogram.counts) == count
