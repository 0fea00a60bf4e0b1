"""Keras with each of its backends: a trained model is kept, and read by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tensorferry as ferry

TRAIN = """
import sys
import keras, numpy as np
import tensorferry as ferry

layers = keras.layers
parts = [keras.Input((5, 3)), layers.LSTM(4), layers.Dropout(0.1), layers.Dense(2)]
model = keras.Sequential(parts)
model.compile(sys.argv[2], "mse")
given = np.linspace(0, 1, 30, dtype=np.float32).reshape(2, 5, 3)
model.fit(given, np.zeros((2, 2)), verbose=0)
ferry.save_model(model, f"{sys.argv[1]}/model.keras", durable=False)
ferry.save_weights(model, f"{sys.argv[1]}/model.safetensors", optimizer=True, durable=False)
assert ferry.diagnose(model).ways["keras"].verdict == "keeps"
ferry.save({"given": given, "result": model.predict(given, verbose=0)}, f"{sys.argv[1]}/x.npz")
"""

READ = """
import sys
import numpy as np
import tensorferry as ferry

expected = ferry.load(f"{sys.argv[1]}/x.npz")
loaded = ferry.load_model(f"{sys.argv[1]}/model.keras")
np.testing.assert_allclose(loaded(expected["given"]), expected["result"], rtol=1e-5)
report = ferry.load_weights(loaded.model, f"{sys.argv[1]}/model.safetensors", optimizer=True)
assert report.ok, report
np.testing.assert_allclose(loaded(expected["given"]), expected["result"], rtol=1e-5)
"""


def run(program, backend, *arguments):
    """Runs a program with a backend of Keras."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("backend", "optimizer"),
    [("tensorflow", "adam"), ("torch", "adam"), ("torch", "muon"), ("jax", "rmsprop")],
)
def test_a_trained_model(tmp_path, backend, optimizer):
    """Keras for PyTorch has optimizers of its own, which it names by where they are."""
    pytest.importorskip(backend)

    for program in (TRAIN, READ):
        done = run(program, backend, tmp_path, optimizer)
        assert done.returncode == 0, done.stderr[-2000:]
    assert ferry.inspect(tmp_path / "model.keras").problems == ()
    assert np.isfinite(ferry.load(tmp_path / "x.npz")["result"]).all()


def test_optimizers_of_another_backend(tmp_path):
    """A model that names them is not loaded where they would be imported: that is said."""
    pytest.importorskip("torch")
    assert run(TRAIN, "torch", tmp_path, "adam").returncode == 0

    done = run(READ, "tensorflow", tmp_path)

    assert done.returncode == 1
    assert "imports 'keras.src.backend.torch.optimizers.torch_adam' for 'Adam'" in done.stderr
    assert "allow=('module',)" in done.stderr
