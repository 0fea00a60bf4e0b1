"""A peer that cannot be loaded beside TensorFlow: the package `tfrecord`, in a process of its own.

Both define the messages of `tf.train.Example`, and one process takes a definition once. A call goes
to that process and back in about 0.1 ms, which is part of the time that the table has.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

# What the package calls the types of the features of bench_rows.py.
KINDS = {"id": "int", "label": "int", "embedding": "float", "tokens": "int", "text": "byte"}
# The rows to write, in the other process.
_rows: list[dict[str, Any]] = []


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def run(function: Callable[..., Any], *given: Any) -> Any:
    """The result of a function of this module in the other process."""
    return _process().submit(function, *given).result()


def keep(rows: list[dict[str, Any]]) -> None:
    """Takes the rows that are to be written."""
    _rows[:] = rows


def write(path: str) -> None:
    """Writes the rows that were kept."""
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(path)
    for row in _rows:
        writer.write({name: (row[name], kind) for name, kind in KINDS.items()})
    writer.close()


def count(path: str) -> int:
    """Reads all rows, one by one."""
    from tfrecord.reader import tfrecord_loader

    return sum(1 for _ in tfrecord_loader(path, None, KINDS))


def read(path: str) -> list[dict[str, Any]]:
    """The rows, in the types of ours."""
    import numpy as np
    from tfrecord.reader import tfrecord_loader

    return [
        {
            "embedding": np.asarray(row["embedding"]),
            "id": int(np.asarray(row["id"]).item()),
            "label": int(np.asarray(row["label"]).item()),
            "text": bytes(row["text"]),
            "tokens": np.asarray(row["tokens"]),
        }
        for row in tfrecord_loader(path, None, KINDS)
    ]
