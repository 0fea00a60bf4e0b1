"""Feeds in Keras on its other backends, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry

pytest.importorskip("keras")

FIT = """
import json, sys, keras
from tensorferry import feeds

keras.utils.set_random_seed(0)
data = feeds.keras.dataset(sys.argv[1], batch=50, shuffle=True, seed=1, targets="y")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
losses = model.fit(data, epochs=3, verbose=0).history["loss"]
print(json.dumps([keras.backend.backend(), data.feed.epoch, losses]))
"""


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_model_is_fitted_on_every_backend(tmp_path: Path, backend: str) -> None:
    """TensorFlow's is in tests/feeds."""
    pytest.importorskip(backend)
    x = np.random.default_rng(0).random((530, 4), dtype=np.float32)
    with ferry.writer(tmp_path / "a.tfrecord") as out:
        out.write_batch({"x": x, "y": x.sum(1)})
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(tmp_path / "a.tfrecord")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, epoch, losses = json.loads(done.stdout.splitlines()[-1])
    assert found == backend
    assert epoch >= 3
    assert losses[-1] < losses[0]
