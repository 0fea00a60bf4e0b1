"""Recipes that people look for, all of which run: a tensor to bytes and back.

`translation.py` runs them on the trained model and its predictions. Each function is complete in
itself: copy the one you need.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from model import Service, Translator

import tensorferry as ferry

Recipe = Callable[[Path, Service, dict[str, Any]], None]

RECIPES: dict[str, Recipe] = {}


def recipe(title: str) -> Callable[[Recipe], Recipe]:
    """Adds a function to the recipes."""

    def add(function: Recipe) -> Recipe:
        RECIPES[title] = function
        return function

    return add


@recipe("EagerTensor to .npy, with name, device and metadata")
def npy_with_metadata(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    scores = tf.Variable(predictions["scores"], name="scores")
    ferry.save(scores, folder / "scores.npy", metadata={"model": "en-de"})
    np.testing.assert_array_equal(np.load(folder / "scores.npy"), scores)  # NumPy reads it
    with ferry.open(folder / "scores.npy") as bundle:
        assert bundle.metadata == {"model": "en-de"}
    restored = ferry.load(folder / "scores.npy", to="tensorflow", placed=True)
    assert isinstance(restored, tf.Variable)
    assert (restored.name, restored.device) == (scores.name, scores.device)


@recipe("EagerTensor to Protocol Buffers")
def protocol_buffers(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    attention = predictions["attention"]
    data = ferry.dumps(attention)  # a TensorProto, byte for byte TensorFlow's
    assert data == tf.io.serialize_tensor(attention).numpy()
    np.testing.assert_array_equal(ferry.loads(data), attention)


@recipe("EagerTensor to Apache Arrow")
def arrow(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    import pyarrow

    rows = {"ids": predictions["ids"], "scores": predictions["scores"], "text": predictions["text"]}
    ferry.save(rows, folder / "rows.arrow", rows=True)
    table = pyarrow.ipc.open_file(folder / "rows.arrow").read_all()
    assert table["ids"].to_pylist() == predictions["ids"].to_list()
    back = ferry.load(folder / "rows.arrow", to="tensorflow")
    assert back["ids"].to_list() == predictions["ids"].to_list()


@recipe("Tensors to one raw byte string, and back without asking for the dtype")
def byte_string(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    data = tf.io.serialize_tensor(predictions["scores"]).numpy()  # TensorFlow's bytes
    np.testing.assert_array_equal(ferry.loads(data), predictions["scores"])
    several = ferry.dumps({"scores": predictions["scores"], "beam": 4}, format="structure")
    assert ferry.loads(several)["beam"] == 4


@recipe("Sparse tensors")
def sparse(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    attention = predictions["attention"]
    strong = tf.sparse.from_dense(tf.where(attention > 0.5, attention, 0.0))
    ferry.save({"strong": strong}, folder / "strong.safetensors")
    back = ferry.load(folder / "strong.safetensors", to="tensorflow")["strong"]
    tf.debugging.assert_equal(tf.sparse.to_dense(back), tf.sparse.to_dense(strong))


@recipe("Tensors of varying shape")
def varying_shapes(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    ids: tf.RaggedTensor = predictions["ids"]
    data = ferry.dumps(ids, format="structure")
    assert ferry.loads(data, to="tensorflow").to_list() == ids.to_list()
    ferry.save(ids, folder / "ids.npz")  # values and row_splits, as NumPy reads them
    assert ferry.load(folder / "ids.npz").to_list() == ids.to_list()


@recipe("TFRecord of floats, strings and several features, compressed")
def tfrecord(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    path = str(folder / "predictions.tfrecord.gz")
    shape = predictions["attention"].shape
    flat = tf.reshape(predictions["attention"], [shape[0], -1])
    with ferry.writer(path) as out:
        out.write_batch(
            {
                "text": predictions["text"],
                "score": predictions["scores"],
                "ids": predictions["ids"],
                "attention": flat,  # a list of an Example has no shape
            }
        )
    # As TensorFlow reads it; `ferry schema PATH --as tf` prints the features.
    features = {
        "text": tf.io.FixedLenFeature([], tf.string),
        "score": tf.io.FixedLenFeature([], tf.float32),
        "ids": tf.io.RaggedFeature(tf.int64),
        "attention": tf.io.FixedLenFeature(shape[1:], tf.float32),
    }
    dataset = tf.data.TFRecordDataset(path, "GZIP").batch(64)
    batch = next(iter(dataset.map(lambda records: tf.io.parse_example(records, features))))
    assert batch["ids"].to_list() == predictions["ids"].to_list()
    tf.debugging.assert_equal(batch["attention"], predictions["attention"])
    with ferry.open(path, columns=["ids"]) as records:  # the same without TensorFlow
        assert isinstance(records, ferry.Rows)
        assert next(records.batches(64))["ids"].to_list() == predictions["ids"].to_list()


@recipe("A quarter of the size: quantized, with the error known")
def quantized(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    attention = predictions["attention"]
    saved = ferry.save(attention, folder / "attention.npy", quantize=("int8", 0.01))
    assert saved.quantized["tensor"].largest_error <= 0.01
    assert np.abs(ferry.load(folder / "attention.npy") - attention).max() <= 0.01


@recipe("Plain bytes for systems that know no TensorFlow: struct, byte order, tobytes")
def plain_bytes(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    scores = predictions["scores"][:3]
    data = ferry.dumps(scores, format="raw", byteorder="big")
    assert data == scores.numpy().astype(">f4").tobytes()
    assert ferry.struct_format(scores, byteorder="big") == ">3f"
    np.testing.assert_array_equal(struct.unpack(">3f", data), scores)
    back = ferry.loads(data, format="raw", dtype="float32", shape=(3,), byteorder="big")
    np.testing.assert_array_equal(back, scores)


@recipe("Weights only, into any of the formats and back")
def weights_only(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    for name in ("model.weights.h5", "model.safetensors", "model.ckpt", "model.npz"):
        ferry.save_weights(service.model, folder / name)
        fresh = Translator.from_config(service.model.get_config())
        fresh((tf.zeros([1, 2], tf.int32), tf.zeros([1, 2], tf.int32)))  # builds its variables
        assert ferry.load_weights(fresh, folder / name).ok
        for left, right in zip(fresh.weights, service.model.weights, strict=True):
            np.testing.assert_array_equal(left, right)


@recipe("Explicit variables, as tf.train.Saver had them")
def explicit_variables(folder: Path, service: Service, predictions: dict[str, Any]) -> None:
    kernel, step = service.model.decoder.query.kernel, tf.Variable(900, dtype=tf.int64)
    saver = ferry.Saver({"query": kernel, "step": step})
    saver.save(folder / "explicit.ckpt")
    step.assign(0)
    saver.restore(folder / "explicit.ckpt")
    assert step.numpy() == 900
    assert tf.train.load_checkpoint(str(folder / "explicit.ckpt")).get_tensor("step") == 900
