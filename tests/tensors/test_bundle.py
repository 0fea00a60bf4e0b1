"""Bundles: tensors that are read together are verified as those that are read one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import errors

TENSORS = {f"layer/{n}": np.full(1 << 14, n + 1, np.float32) for n in range(4)}


@pytest.fixture(params=["x.npz", "x.ckpt", "x.keras"])
def path(request, tmp_path):
    """A file with checksums that is mapped, not read."""
    path = tmp_path / request.param
    if path.suffix == ".keras":
        keras = pytest.importorskip("keras")
        model = keras.Sequential(
            [keras.Input((128,)), keras.layers.Dense(256), keras.layers.Dense(2)]
        )
        model.save(path)
    else:
        ferry.save(TENSORS, path)
    return path


def damage(path, array):
    """Flips a bit in the stored bytes of an array."""
    (file,) = [path] if path.is_file() else [f for f in path.parent.iterdir() if ".data-" in f.name]
    data = bytearray(file.read_bytes())
    assert data.count(array.tobytes()) == 1
    data[data.index(array.tobytes()) + array.nbytes // 2] ^= 1
    file.write_bytes(data)


def test_read_together(path):
    """What `read_many` gives is equal to what is read one by one."""
    with ferry.open(path) as bundle, ferry.open(path) as other:
        for name, tensor in bundle.read_many(list(bundle)):
            np.testing.assert_array_equal(tensor, other[name])


def test_a_damaged_tensor_of_many(path):
    """A flipped bit is an error where tensors are read together, too."""
    with ferry.open(path) as bundle:
        largest = max(bundle, key=lambda name: (bundle[name].nbytes, name))
        array = np.array(bundle[largest])
    damage(path, array)

    with ferry.open(path) as bundle, pytest.raises(errors.ChecksumError):
        list(bundle.read_many(list(bundle)))
