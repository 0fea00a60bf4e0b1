"""Tensors and structures to bytes and back."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import tensorflow as tf
import torch
from bench_eager import serialize_sparse, serialize_tensor
from bench_tensorproto import PEERS, read_arrow, write_arrow

import tensorferry as ferry
from jobs import Limit, Way, Work, installed, job
from tensorferry import tfio

FLOATS = {"small": 64, "medium": 1 << 18, "large": 1 << 24}
# Ways that are no formats: they keep neither dtype nor shape.
OTHERS = {name: peer for name, peer in PEERS.items() if name not in ("tensorferry", "copy")}


def floats(count: int) -> Any:
    """The same numbers in every run."""
    return np.random.default_rng(0).standard_normal(count, dtype=np.float32)


@job("a tensor to bytes", FLOATS, "floats")
def tensor_to_bytes(folder: Path, count: int) -> Work:
    array = floats(count)
    return Work(
        Way(partial(ferry.dumps, array), ferry.loads),
        {name: Way(partial(peer.write, array), peer.read) for name, peer in OTHERS.items()},
        Limit("memcpy", array.tobytes),
    )


@job("a tensor to buffers, for writev or a socket", FLOATS, "floats")
def tensor_to_buffers(folder: Path, count: int) -> Work:
    array = floats(count)

    def by_pickle() -> tuple[bytes, list[pickle.PickleBuffer]]:
        buffers: list[pickle.PickleBuffer] = []
        return pickle.dumps(array, protocol=5, buffer_callback=buffers.append), buffers

    return Work(
        Way(partial(ferry.dumps_buffers, array), lambda found: ferry.loads(b"".join(found))),
        {
            "Arrow": Way(partial(write_arrow, array), read_arrow),
            "pickle, out of band": Way(
                by_pickle, lambda found: pickle.loads(found[0], buffers=found[1])
            ),
        },
    )


@job("bytes to a tensor", FLOATS, "floats")
def bytes_to_tensor(folder: Path, count: int) -> Work:
    array = floats(count)
    return Work(
        Way(partial(ferry.loads, ferry.dumps(array))),
        {name: Way(partial(peer.read, peer.write(array))) for name, peer in OTHERS.items()},
    )


@job("an EagerTensor to bytes", FLOATS, "floats")
def eager_to_bytes(folder: Path, count: int) -> Work:
    tensor = tf.constant(floats(count))
    return Work(
        Way(partial(ferry.dumps, tensor)),
        {"TensorFlow": Way(partial(serialize_tensor, tensor))},
        Limit("memcpy", tensor.numpy().tobytes),
    )


@job("bytes to an EagerTensor", FLOATS, "floats")
def bytes_to_eager(folder: Path, count: int) -> Work:
    data = ferry.dumps(floats(count))
    return Work(
        Way(partial(ferry.loads, data, to="tensorflow")),
        {"TensorFlow": Way(partial(tf.io.parse_tensor, data, tf.float32))},
    )


@job("a torch tensor to bytes", FLOATS, "floats")
def torch_to_bytes(folder: Path, count: int) -> Work:
    tensor = torch.from_numpy(floats(count))
    return Work(
        Way(partial(ferry.dumps, tensor), ferry.loads),
        {
            "safetensors": Way(
                lambda: safetensors.torch.save({"t": tensor}),
                lambda data: safetensors.torch.load(data)["t"],
            ),
            "pickle": Way(partial(pickle.dumps, tensor), pickle.loads),
        },
        Limit("memcpy", floats(count).tobytes),
    )


@job("bytes to a torch tensor", FLOATS, "floats")
def bytes_to_torch(folder: Path, count: int) -> Work:
    tensor = torch.from_numpy(floats(count))
    data, theirs = ferry.dumps(tensor), safetensors.torch.save({"t": tensor})
    pickled = pickle.dumps(tensor)
    return Work(
        Way(partial(ferry.loads, data, to="torch")),
        {
            "safetensors": Way(lambda: safetensors.torch.load(theirs)["t"]),
            "pickle": Way(lambda: pickle.loads(pickled)),
        },
    )


ENTRIES = {"small": 10, "medium": 10_000, "large": 1_000_000}


def sparse(entries: int) -> Any:
    """A diagonal."""
    places = np.arange(entries)
    return tf.SparseTensor(np.stack([places, places], 1), floats(entries), [entries] * 2)


@job("a tf.SparseTensor to bytes", ENTRIES, "entries")
def sparse_to_bytes(folder: Path, entries: int) -> Work:
    value = sparse(entries)
    return Work(
        Way(partial(tfio.serialize_sparse, value), lambda parts: parts.tolist()),
        {"TensorFlow": Way(partial(serialize_sparse, value), lambda parts: parts.tolist())},
    )


@job("bytes to a sparse tensor", ENTRIES, "entries")
def bytes_to_sparse(folder: Path, entries: int) -> Work:
    parts = tf.io.serialize_sparse(sparse(entries)).numpy()[None]

    def plain(value: Any) -> list[Any]:
        return [np.asarray(value.indices), np.asarray(value.values)]

    return Work(
        Way(partial(tfio.deserialize_many_sparse, parts, "float32"), plain),
        {"TensorFlow": Way(partial(tf.io.deserialize_many_sparse, parts, tf.float32), plain)},
    )


TEXTS = {"small": 10, "medium": 10_000, "large": 1_000_000}


def texts(count: int) -> Any:
    """A tensor of strings."""
    return np.array([b"sentence number %d of the set" % row for row in range(count)], object)


@job("a tensor of strings to bytes", TEXTS, "strings")
def strings_to_bytes(folder: Path, count: int) -> Work:
    array = texts(count)
    return Work(
        Way(partial(ferry.dumps, array)),
        {"TensorFlow": Way(lambda: tf.io.serialize_tensor(array).numpy())},
    )


@job("bytes to a tensor of strings", TEXTS, "strings")
def bytes_to_strings(folder: Path, count: int) -> Work:
    data = ferry.dumps(texts(count))
    return Work(
        Way(partial(ferry.loads, data)),
        {"TensorFlow": Way(lambda: tf.io.parse_tensor(data, tf.string).numpy())},
    )


LISTS = {"small": 10, "medium": 1_000, "large": 50_000}


def small_tensors(count: int) -> list[Any]:
    """Tensors of four numbers."""
    return list(floats(4 * count).reshape(count, 4))


@job("a list of tensors to bytes", LISTS, "tensors")
def list_to_bytes(folder: Path, count: int) -> Work:
    value = small_tensors(count)
    return Work(
        Way(partial(ferry.dumps, value), ferry.loads),
        {"pickle": Way(partial(pickle.dumps, value), pickle.loads)},
    )


@job("bytes to a list of tensors", LISTS, "tensors")
def bytes_to_list(folder: Path, count: int) -> Work:
    value = small_tensors(count)
    data, pickled = ferry.dumps(value), pickle.dumps(value)
    return Work(Way(partial(ferry.loads, data)), {"pickle": Way(lambda: pickle.loads(pickled))})


PREDICTIONS = {"small": 16, "medium": 4_096, "large": 1 << 20}


@job("predictions to JSON", PREDICTIONS, "floats")
def predictions_to_json(folder: Path, count: int) -> Work:
    array = floats(count)

    def read(data: str | bytes) -> Any:
        return np.array(json.loads(data), np.float32)

    peers = {"json": Way(lambda: json.dumps(array.tolist()), read)}
    if installed("orjson"):
        import orjson

        def by_orjson() -> bytes:
            made: bytes = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
            return made

        peers["orjson"] = Way(by_orjson, read)
    return Work(
        Way(partial(ferry.dumps, array, format="json"), partial(ferry.loads, format="json")), peers
    )
