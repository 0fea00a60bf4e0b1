"""How long do TensorFlow's eager tensors take to bytes and back, beside TensorFlow itself?

All take turns in one process, and every result is compared before anything is timed.
`numpy + dumps` is what `dumps(t)` is measured by: the tensor's own `numpy()`, and `dumps` of that.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from measure import Report, best, duration

import tensorferry as ferry

SIZES = {"12 floats": (3, 4), "256 KB": (256, 256), "4 MB": (1024, 1024)}


def numpy_and_dumps(tensor: Any) -> bytes:
    return ferry.dumps(tensor.numpy())


def serialize_tensor(tensor: Any) -> Any:
    return tf.io.serialize_tensor(tensor).numpy()


def serialize_sparse(sparse: Any) -> Any:
    return tf.io.serialize_sparse(sparse).numpy()


def main() -> None:
    report = Report("Eager tensors to bytes and back, and how many times longer the other takes")
    for label, shape in SIZES.items():
        tensor = tf.random.uniform(shape)
        data = ferry.dumps(tensor)
        assert data == tf.io.serialize_tensor(tensor).numpy()
        back = ferry.loads(data, to="tensorflow")
        assert bool(tf.reduce_all(back == tf.io.parse_tensor(data, tf.float32)))
        times = best(
            {
                "dumps": partial(ferry.dumps, tensor),
                "numpy + dumps": partial(numpy_and_dumps, tensor),
                "serialize_tensor": partial(serialize_tensor, tensor),
                "loads": partial(ferry.loads, data, to="tensorflow"),
                "parse_tensor": partial(tf.io.parse_tensor, data, tf.float32),
            }
        )
        for ours, theirs in (
            ("dumps", "numpy + dumps"),
            ("dumps", "serialize_tensor"),
            ("loads", "parse_tensor"),
        ):
            add(report, label, ours, theirs, times)
    for entries in (10, 100_000):
        places = np.arange(entries)
        sparse = tf.SparseTensor(
            np.stack([places, places], 1), np.ones(entries, "f4"), [entries] * 2
        )
        ours_parts, theirs_parts = (
            ferry.tfio.serialize_sparse(sparse),
            tf.io.serialize_sparse(sparse),
        )
        assert ours_parts.tolist() == theirs_parts.numpy().tolist()
        times = best(
            {
                "serialize_sparse": partial(ferry.tfio.serialize_sparse, sparse),
                "tf.io.serialize_sparse": partial(serialize_sparse, sparse),
            }
        )
        label = f"{entries} entries"
        add(report, label, "serialize_sparse", "tf.io.serialize_sparse", times)
    report.finish("eager")


def add(report: Report, label: str, ours: str, theirs: str, times: dict[str, float]) -> None:
    report.add(
        size=label,
        call=ours,
        time=duration(times[ours]),
        beside=theirs,
        other=duration(times[theirs]),
        ratio=times[theirs] / times[ours],
    )


if __name__ == "__main__":
    main()
