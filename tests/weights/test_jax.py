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


def test_random_keys(tmp_path):
    """The key of a dropout layer is no weight: it is left out, and stays as it is."""
    jax = pytest.importorskip("jax")

    class Layer:
        def __init__(self, seed):
            self.kernel = jax.numpy.full((2, 3), float(seed))
            self.key = jax.random.key(seed)
            self.old = {"key": jax.random.PRNGKey(seed)}  # which is an array of integers

    layer, fresh = Layer(7), Layer(8)
    key = jax.random.key_data(fresh.key).tolist()
    ferry.save_weights(layer, tmp_path / "x.safetensors")

    assert list(ferry.open(tmp_path / "x.safetensors")) == ["kernel", "old/key"]
    assert ferry.load_weights(fresh, tmp_path / "x.safetensors").ok
    assert fresh.kernel.tolist() == layer.kernel.tolist()
    assert fresh.old["key"].tolist() == layer.old["key"].tolist()
    assert jax.random.key_data(fresh.key).tolist() == key
