"""How fast do rows reach a training loop, in order and shuffled, beside tf.data and others?

The 200,000 records of bench_tfrecord.py, in batches of 256 with the tokens padded. Every reader's
rows are counted and their ids summed before anything is timed. Peers that are not installed (torch,
grain, tfrecord) are left out: `make frameworks` installs the first two.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from bench_tfrecord import RECORDS, SPEC, columns, drain, report_rates, write_ours
from measure import Report, best

from tensorferry import feeds

BATCH = 256
BUFFER = 10_000


def main() -> None:
    report = Report("How fast do rows reach a training loop, beside tf.data and others")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "data.tfrecord"))
        write_ours(path, columns())
        for shuffle in (False, True):
            readers: dict[str, Callable[[], Any]] = {
                "tensorferry": partial(feed, path, shuffle),
                "tf.data + parse_example": partial(tensorflow, path, shuffle),
                "tf.data from our feed": partial(
                    feeds.tensorflow.dataset, path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0}
                ),
                **torch_readers(path, shuffle),
                **grain_readers(path, shuffle),
            }
            for name, make in readers.items():
                check(name, make())
            work = "an epoch, shuffled" if shuffle else "an epoch, in order"
            times = best({name: drain(make) for name, make in readers.items()}, seconds=3)
            report_rates(report, work, times, RECORDS)
    report.notes.append(
        f"shuffled: ours is a permutation of all rows; tf.data has a buffer of {BUFFER:,} rows"
    )
    report.finish("feeds")


def check(name: str, batches: Iterable[Any]) -> None:
    """Refuses a reader that loses rows, or gives some twice."""
    ids = np.concatenate([np.asarray(batch["id"]).ravel() for batch in batches])
    assert len(ids) == RECORDS, (name, len(ids))
    assert np.array_equal(np.sort(ids), np.arange(RECORDS)), name


def feed(path: str, shuffle: bool) -> Any:
    return feeds.Feed(path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0})


def tensorflow(path: str, shuffle: bool) -> Any:
    dataset = tf.data.TFRecordDataset(path)
    if shuffle:
        dataset = dataset.shuffle(BUFFER)
    spec = {**SPEC, "tokens": tf.io.VarLenFeature(tf.int64)}

    def parse(records: Any) -> Any:
        found = tf.io.parse_example(records, spec)
        return {**found, "tokens": tf.sparse.to_dense(found["tokens"])}

    dataset = dataset.batch(BATCH).map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return dataset.as_numpy_iterator()


def torch_readers(path: str, shuffle: bool) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    readers: dict[str, Callable[[], Any]] = {
        "torch from our feed": lambda: feeds.torch.loader(
            path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0}
        ),
    }
    try:
        from tfrecord.torch.dataset import TFRecordDataset
    except ImportError:
        return readers
    kinds = {"id": "int", "label": "int", "embedding": "float", "tokens": "int", "text": "byte"}

    def collate(rows: list[Any]) -> Any:
        return {"id": torch.as_tensor(np.concatenate([row["id"] for row in rows]))}

    readers["vahidk/tfrecord in a DataLoader"] = lambda: torch.utils.data.DataLoader(
        TFRecordDataset(path, None, kinds, shuffle_queue_size=BUFFER if shuffle else None),
        batch_size=BATCH,
        collate_fn=collate,
    )
    return readers


def grain_readers(path: str, shuffle: bool) -> dict[str, Callable[[], Any]]:
    try:
        import grain
    except ImportError:
        return {}
    del grain
    return {
        "grain from our feed": lambda: feeds.grain.dataset(
            path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0}
        )
    }


if __name__ == "__main__":
    main()
