"""The model itself: saved, loaded without its classes, and called from its file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from model import Decoder, Encoder, Service, Translator
from recipes import Recipe

import tensorferry as ferry

# Runs in a process that has none of our classes and knows only the directory.
ELSEWHERE = """
import sys
import tensorferry as ferry

folder, name = sys.argv[1:]
model = ferry.load_model(f"{folder}/{name}")
sentences = ferry.load(f"{folder}/predictions.safetensors")["source"]
outputs = ferry.predict(model, sentences, batch_size=16, lengths={"ids": "lengths"})
assert "model" not in sys.modules and "train" not in sys.modules
ferry.save(outputs, f"{folder}/elsewhere.safetensors")
"""


def saved_model(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """Custom layers, a loop and lookup tables, in one directory."""
    report = ferry.save_model(service, folder / "service", signatures=service.translate)
    assert report.format == "savedmodel"
    command = [sys.executable, "-c", ELSEWHERE, str(folder), "service"]
    subprocess.run(command, check=True, cwd=folder)
    found = ferry.load(folder / "elsewhere.safetensors")
    assert found["ids"].to_list() == predictions["ids"].to_list()
    assert found["text"].tolist() == predictions["text"].numpy().tolist()
    np.testing.assert_allclose(found["scores"], predictions["scores"], rtol=1e-4, atol=1e-5)


def looked_into(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """The content of the directory, without TensorFlow: `ferry info FOLDER/service`."""
    with ferry.open(folder / "service") as variables:
        name = next(name for name in variables if name.endswith("query/_kernel"))
        np.testing.assert_array_equal(variables[name], service.model.decoder.query.kernel)


def asked_from_its_file(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """A signature is called batch by batch, and its outputs are the rows of a table."""
    sentences = predictions["source"]
    ferry.save_predictions(
        folder / "service",
        {"sentences": sentences},
        folder / "answers.parquet",
        batch_size=16,
        lengths={"ids": "lengths"},
        keep=("sentences",),
    )
    with ferry.open(folder / "answers.parquet") as table:
        assert isinstance(table, ferry.Rows)
        rows = next(table.batches(1000))
    assert rows["ids"].to_list() == predictions["ids"].to_list()


def keras_file(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """A .keras file needs the classes; the error names those that are missing."""
    ferry.save_model(service.model, folder / "translator.keras")
    try:
        ferry.load_model(folder / "translator.keras")
    except ferry.UnsupportedError as error:
        assert "Translator" in str(error)
    classes = {kind.__name__: kind for kind in (Translator, Encoder, Decoder)}
    loaded = ferry.load_model(folder / "translator.keras", custom_objects=classes)
    inputs = tf.constant([[5, 6, 0]]), tf.constant([[1, 7]])
    np.testing.assert_allclose(loaded(inputs), service.model(inputs), rtol=1e-5, atol=1e-6)


def training_state(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """Model, optimizer and step in one checkpoint, to continue training."""
    optimizer: keras.optimizers.Optimizer = service.model.optimizer
    state = {"model": service.model, "optimizer": optimizer, "step": tf.Variable(900)}
    ferry.save_model(state, folder / "training.ckpt")
    with ferry.open(folder / "training.ckpt") as bundle:
        assert bundle["step"] == 900
    state["step"].assign(0)
    assert ferry.load_weights(state, folder / "training.ckpt", optimizer=True).ok
    assert state["step"].numpy() == 900


def diagnosed(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    """Why the model cannot be pickled, and what works instead."""
    report = ferry.diagnose(service)
    assert any("table" in str(trouble) for trouble in report.troubles)


MODELS: dict[str, Recipe] = {
    "Why it cannot be pickled: the attribute at fault, and the way that works": diagnosed,
    "A SavedModel, loaded where its classes do not exist: the same predictions": saved_model,
    "Its variables, read from there without TensorFlow": looked_into,
    "Asked from its file: a signature's outputs as rows of a Parquet file": asked_from_its_file,
    "A .keras file with custom layers": keras_file,
    "Training state: model, optimizer and step in one checkpoint": training_state,
}
