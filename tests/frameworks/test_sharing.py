"""Tensors of frameworks share the memory of mapped files, where their framework can use it."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import frameworks

LARGE = 1 << 19  # floats: beyond what is copied anyway


def addresses(path: os.PathLike[str]) -> list[range]:
    """Where this process has mapped a file."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if line.rstrip().endswith(str(path))]
    spans = [line[0].split("-") for line in lines]
    return [range(int(start, 16), int(stop, 16)) for start, stop in spans]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="looks into /proc")
class TestSharing:
    def test_torch(self, tmp_path):
        """PyTorch's tensors lie in the private map, and writing into them leaves the file."""
        pytest.importorskip("torch")
        path = tmp_path / "x.safetensors"
        ferry.save({"x": np.zeros(1 << 15, np.float32), "n": np.ones(3, np.int64)}, path)
        data = path.read_bytes()
        loaded = ferry.load(path, to="torch")

        assert any(loaded["x"].data_ptr() in span for span in addresses(path))
        loaded["x"] += 5
        assert loaded["x"].sum() == 5 << 15
        assert path.read_bytes() == data

    def test_tensorflow(self, tmp_path):
        """A large, aligned array becomes a tensor without a copy; a caller's array does not."""
        tf = pytest.importorskip("tensorflow")
        path = tmp_path / "x.npy"
        ferry.save(np.arange(LARGE, dtype=np.float32), path)
        tensor = ferry.load(path, to="tensorflow")

        assert any(tensor.__array__().ctypes.data in span for span in addresses(path))
        assert tensor[-1] == LARGE - 1
        array = ferry.load(path)
        copy = frameworks.give(array, "tensorflow")
        array[0] = 7
        assert (copy[0], tensor[0]) == (0, 0)
        assert isinstance(copy, tf.Tensor)

    def test_jax(self, tmp_path):
        """A large, aligned array becomes JAX's without a copy."""
        pytest.importorskip("jax")
        path = tmp_path / "x.npy"
        ferry.save(np.arange(LARGE, dtype=np.float32), path)
        loaded = ferry.load(path, to="jax")

        assert any(loaded.unsafe_buffer_pointer() in span for span in addresses(path))
        assert loaded[-1] == LARGE - 1
