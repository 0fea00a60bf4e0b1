"""Statistics in one pass, beside NumPy's own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from tensorferry.operations.measures import FEW, QUANTILES, SAMPLE, Measure


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, np.float16]),
        st.integers(1, 60),
    ),
    st.integers(1, 7),
)
def test_like_numpy(array, pieces):
    """Whatever the pieces, the numbers are NumPy's."""
    measure = Measure()
    for piece in np.array_split(array, pieces):
        measure.add(piece)
    found = measure.summary()
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]

    assert found.count == array.size
    assert found.nan == np.isnan(wide).sum()
    assert found.infinite == np.isinf(wide).sum()
    assert found.zeros == (wide == 0).sum()
    largest = np.abs(finite).max(initial=0)
    if finite.size and largest < 1e100:
        close = {"rel": 1e-6, "abs": 1e-6 * largest}
        assert found.minimum == finite.min() or array.dtype == np.int64
        assert found.mean == pytest.approx(finite.mean(), **close)
        assert found.deviation == pytest.approx(finite.std(), **close)
        assert found.quantiles["0.5"] == pytest.approx(np.median(finite), **close)
        assert not found.approximate


def test_integers_are_exact():
    """The least and largest of 64-bit integers are not rounded."""
    measure = Measure()
    measure.add(np.array([2**63 - 1, -(2**63)]))

    assert measure.summary().maximum == 2**63 - 1


def test_many():
    """Beyond the sample, quantiles and the number of strings are close, and said to be so."""
    measure = Measure()
    for start in range(0, 20 * SAMPLE, SAMPLE):
        measure.add(np.arange(start, start + SAMPLE))
    found = measure.summary()
    strings = Measure()
    strings.add(np.array([str(number % 50_000).encode() for number in range(120_000)], object))

    assert found.approximate
    assert found.quantiles["0.25"] == pytest.approx(5 * SAMPLE, rel=0.05)
    assert strings.summary().distinct == pytest.approx(50_000, rel=0.03)


def test_small_dtypes():
    """bfloat16, int4, strings and magnitudes of complex numbers."""
    for array, highest in (
        (np.array([1, 2], ml_dtypes.bfloat16), 2),
        (np.array([1, -3], ml_dtypes.int4), 1),
        (np.array([b"abc", b""], object), 3),
        (np.array([3 + 4j]), 5),
    ):
        measure = Measure()
        measure.add(array)
        assert measure.summary().maximum == highest


@given(
    st.lists(st.floats(-1e300, 1e300) | st.integers(-3, 3).map(float), min_size=1, max_size=2 * FEW)
)
def test_quantiles_are_those_of_numpy(values):
    """Few values or many, each quantile has every bit of NumPy's."""
    array = np.array(values)
    measure = Measure()
    measure.add(array)

    expected = np.quantile(array, QUANTILES)
    assert list(measure.summary().quantiles.values()) == expected.tolist()


def test_random_numbers_only_for_many_values(monkeypatch):
    """Small tensors cost no random numbers, and pieces of a large one give the same sample."""
    made = []
    make = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: made.append(seed) or make(seed))
    small = Measure()
    small.add(np.arange(10.0))
    small.add(np.array([np.nan, 4.0, np.inf]))

    assert small.summary().quantiles["0.5"] == 4.0
    assert not made

    values = np.random.RandomState(1).normal(size=SAMPLE + 5000)
    whole, pieces = Measure(), Measure()
    whole.add(values)
    for piece in np.array_split(values, 7):
        pieces.add(piece)
    assert whole.summary().quantiles == pieces.summary().quantiles
    assert made == [0, 0]
