"""Weights in arrays of JAX."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry


def test_jax(tmp_path):
    """JAX's arrays, which never change, are replaced in what holds them."""
    jax = pytest.importorskip("jax")
    model = {"a": jax.numpy.zeros(2), "b": [jax.numpy.zeros(3, "bfloat16")]}

    ferry.load_weights(model, {"a": np.float32([1, 2]), "b/0": np.ones(3, "f4")})

    assert model["a"].tolist() == [1, 2]
    assert str(model["b"][0].dtype) == "bfloat16"
    with pytest.raises(ferry.UnsupportedError, match="never change"):
        ferry.load_weights({"a": (jax.numpy.zeros(2),)}, {"a/0": np.ones(2, "f4")})
