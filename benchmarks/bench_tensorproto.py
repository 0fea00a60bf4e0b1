"""How long does a dense tensor take to bytes and back, beside TensorFlow and others?

All peers work on the same float32 array in one process and take turns. Each result is read back
and compared before anything is timed. `copy` is the limit for writing: one `tobytes`.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import pyarrow as pa
import safetensors.numpy
import tensorflow as tf
from measure import Report, best, duration

import tensorferry as ferry

SIZES = {"64 floats": 64, "1 MB": 1 << 18, "256 MB": 1 << 26}


class Peer(NamedTuple):
    """Two functions: an array to bytes, and those bytes back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def save_npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_arrow(array: Any) -> Any:
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(array), sink)
    return sink.getvalue()


def write_arrow_bytes(array: Any) -> bytes:
    made: bytes = write_arrow(array).to_pybytes()
    return made


def read_arrow(data: Any) -> Any:
    return pa.ipc.read_tensor(pa.BufferReader(data)).to_numpy()


def copy(array: Any) -> bytes:
    return array.tobytes()  # type: ignore[no-any-return]


PEERS = {
    "tensorferry": Peer(ferry.dumps, ferry.loads),
    "TensorFlow": Peer(
        lambda array: tf.io.serialize_tensor(array).numpy(),
        lambda data: tf.io.parse_tensor(data, tf.float32),
    ),
    "pickle": Peer(pickle.dumps, pickle.loads),
    "np.save": Peer(save_npy, lambda data: np.load(io.BytesIO(data))),
    "safetensors": Peer(
        lambda array: safetensors.numpy.save({"t": array}),
        lambda data: safetensors.numpy.load(data)["t"],
    ),
    "Arrow": Peer(write_arrow_bytes, read_arrow),
    "copy": Peer(copy, lambda data: np.frombuffer(data, np.float32)),
}


def main() -> None:
    report = Report("A float32 tensor to bytes and back, and how many times longer the others take")
    for label, size in SIZES.items():
        array = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
        data = {name: peer.write(array) for name, peer in PEERS.items()}
        for name, peer in PEERS.items():
            assert np.array_equal(np.asarray(peer.read(data[name])), array), name
        assert data["tensorferry"] == data["TensorFlow"]
        del data
        written = best({name: partial(peer.write, array) for name, peer in PEERS.items()})
        read: dict[str, float] = {}
        for name, peer in PEERS.items():
            read |= best({name: partial(peer.read, peer.write(array))})
        for name in PEERS:
            report.add(
                size=label,
                by=name,
                write=duration(written[name]),
                write_ratio=written[name] / written["tensorferry"],
                read=duration(read[name]),
                read_ratio=read[name] / read["tensorferry"],
            )
    report.notes.append(
        "TensorFlow starts from a NumPy array and ends with Python bytes, as the others do."
    )
    report.notes.append(
        "Reading is not timed to the first touch of the values: zero-copy readers defer it."
    )
    report.finish("tensorproto")


if __name__ == "__main__":
    main()
