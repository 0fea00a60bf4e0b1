"""Weights and models, and the command, beside Keras and TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from bench_command import COMMAND, VARIABLES
from tensorflow.python.saved_model import loader_impl

import tensorferry as ferry
from jobs import Way, Work, job
from jobs.files import tensors

UNITS = {"small": 8, "medium": 256, "large": 2_048}


def network(units: int) -> Any:
    """A model of three layers."""
    layers = [keras.layers.Dense(units, name=f"dense_{number}") for number in range(3)]
    return keras.Sequential([keras.Input((units,)), *layers])


@job("a Keras model's weights to a file", UNITS, "units in three layers")
def save_weights(folder: Path, units: int) -> Work:
    model, other = network(units), network(units)
    ours, theirs = str(folder / "a.weights.h5"), str(folder / "b.weights.h5")

    def loaded(path: str) -> Any:
        other.load_weights(path)
        return other.get_weights()

    return Work(
        Way(partial(ferry.save_weights, model, ours, durable=False), lambda _: loaded(ours)),
        {"Keras": Way(partial(model.save_weights, theirs), lambda _: loaded(theirs))},
    )


@job("a file's weights into a Keras model", UNITS, "units in three layers")
def load_weights(folder: Path, units: int) -> Work:
    path = str(folder / "x.weights.h5")
    network(units).save_weights(path)
    one, other = network(units), network(units)
    return Work(
        Way(partial(ferry.load_weights, one, path), lambda _: one.get_weights()),
        {"Keras": Way(partial(other.load_weights, path), lambda _: other.get_weights())},
    )


@job("a Keras model from a .keras file", {"small": 8, "large": 1_024}, "units in three layers")
def load_model(folder: Path, units: int) -> Work:
    path = str(folder / "x.keras")
    network(units).save(path)
    x = np.ones((1, units), np.float32)

    def answer(model: Any) -> Any:
        return np.round(np.asarray(model(x)), 4)

    return Work(
        Way(partial(ferry.load_model, path), answer),
        {"Keras": Way(partial(keras.saving.load_model, path), answer)},
    )


@job("a SavedModel inspected", {"small": 3, "large": 300}, "layers")
def inspect_model(folder: Path, layers: int) -> Work:
    path = str(folder / "model")
    stacked = [keras.layers.Dense(4) for _ in range(layers)]
    keras.Sequential([keras.Input((4,)), *stacked]).export(path, verbose=False)

    def ours(info: Any) -> list[str]:
        return sorted(s.name for graph in info.model.graphs for s in graph.signatures)

    def theirs(parsed: Any) -> list[str]:
        return sorted(name for graph in parsed.meta_graphs for name in graph.signature_def)

    def with_variables() -> tuple[Any, Any]:
        # Which `inspect` lists, too.
        prefix = os.path.join(path, "variables", "variables")
        return loader_impl.parse_saved_model(path), tf.train.list_variables(prefix)

    return Work(
        Way(partial(ferry.inspect, path), ours),
        {
            "TensorFlow's parser alone": Way(partial(loader_impl.parse_saved_model, path), theirs),
            "TensorFlow's parser, and list_variables": Way(
                with_variables, lambda found: theirs(found[0])
            ),
        },
    )


@job("tensors to a SavedModel", {"small": 3, "medium": 100}, "tensors")
def save_savedmodel(folder: Path, count: int) -> Work:
    value = {f"tensor_{number}": np.full(64, number, np.float32) for number in range(count)}
    ours, theirs = str(folder / "a"), str(folder / "b")

    def by_tensorflow() -> None:
        module = tf.Module()
        for name, array in value.items():
            setattr(module, name, tf.Variable(array))
        tf.saved_model.save(module, theirs)

    def loaded(path: str) -> dict[str, Any]:
        model = tf.saved_model.load(path)
        return {name: getattr(model, name).numpy() for name in value}

    return Work(
        Way(
            partial(ferry.save, value, ours, format="savedmodel", durable=False),
            lambda _: loaded(ours),
        ),
        {"TensorFlow": Way(by_tensorflow, lambda _: loaded(theirs))},
    )


def process(command: list[str]) -> Way:
    """A process from its start to its end."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run() -> str:
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout

    return Way(run)


@job("the command lists a checkpoint", {"medium": 64}, "variables")
def command_lists(folder: Path, count: int) -> Work:
    path = str(folder / "x.ckpt")
    ferry.save(tensors(count), path, durable=False)
    ours = process([*COMMAND, "ls", "-1", path])
    theirs = process([sys.executable, "-c", VARIABLES, path])
    return Work(
        Way(ours.run, lambda text: sorted(text.split())),
        {
            "a program with TensorFlow": Way(
                theirs.run, lambda text: sorted(line.split()[0] for line in text.splitlines())
            )
        },
    )


@job("predictions of a model, kept in a file", {"small": 8, "large": 10_000}, "rows")
def save_predictions(folder: Path, rows: int) -> Work:
    model, inputs = network(16), np.random.default_rng(0).random((rows, 16), np.float32)
    ours, theirs = str(folder / "a.npz"), str(folder / "b.npz")

    def by_hand() -> None:
        np.savez(theirs, output=model.predict(inputs, batch_size=1024, verbose=0))

    def first(path: str) -> Any:
        return np.round(next(iter(ferry.load(path).values())), 4)

    def save() -> None:
        predictions = ferry.predict(model, inputs, batch_size=1024)
        ferry.save(predictions, ours, durable=False)

    return Work(
        Way(save, lambda _: first(ours)),
        {"Keras and NumPy": Way(by_hand, lambda _: first(theirs))},
    )
