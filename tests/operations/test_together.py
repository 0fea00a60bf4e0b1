"""Small tensors, which are compared by one call."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import kernels
from tensorferry.operations import diff

DTYPES = ("float32", "float64", "float16", "int8", "uint64", "bool", ml_dtypes.bfloat16)


def tensors(seed):
    """Tensors of all kinds; of another seed, some of them differ."""
    rng, other = np.random.default_rng(0), np.random.default_rng(seed)
    found = {}
    for number in range(60):
        array = (rng.standard_normal((number % 3, 5)) * 10).astype(DTYPES[number % len(DTYPES)])
        if seed and array.size and other.random() < 0.5:
            array.flat[other.integers(array.size)] = other.integers(2)
        found[f"x{number}"] = array.reshape(()) if array.size == 1 else array
    found["texts"] = np.array([b"a", b"b" if seed else b"c"], object)
    found["large"] = np.full(diff.SMALL, seed, np.float32)
    found["nan"] = np.float32([np.nan, np.inf, seed])
    return found


@pytest.mark.parametrize("together", [1, 7, 1 << 10])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"rtol": 0.5}, {"atol": 3.0, "ignore_dtype": True}])
def test_as_one_by_one(tmp_path, monkeypatch, together, seed, options):
    """The report does not depend on how many tensors are compared at a time."""
    ferry.save(tensors(0), tmp_path / "a.npz")
    ferry.save(tensors(seed), tmp_path / "b.npz")
    monkeypatch.setattr(diff, "TOGETHER", together)
    found = ferry.diff(tmp_path / "a.npz", tmp_path / "b.npz", **options)
    monkeypatch.setattr(diff, "SMALL", -1)
    expected = ferry.diff(tmp_path / "a.npz", tmp_path / "b.npz", **options)

    assert found == expected
    assert found.equal == (seed == 0)


def test_pairs():
    """A call for many pairs says the same as a call for each."""
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.integers(0, 3, (2, size)).astype("f4")) for size in (0, 1, 5, 300)]
    expected = [kernels.compare(*pair, rtol=0.1, atol=0.2) for pair in pairs]
    assert kernels.compare_pairs(pairs, rtol=0.1, atol=0.2) == expected
    assert kernels.compare_pairs([]) == []
    with pytest.raises(ValueError, match="different sizes"):
        kernels.compare_pairs([(np.zeros(3), np.zeros(4))])
