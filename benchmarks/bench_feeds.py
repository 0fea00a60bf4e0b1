"""How fast do rows reach a training loop, in order and shuffled, beside tf.data and others?

The 200,000 records of bench_tfrecord.py, in batches of 256 with the tokens padded. Every reader's
rows are counted and their ids compared before anything is timed. Peers that are not installed
(torch, grain, array_record, webdataset, tfrecord) are left out: `make frameworks` installs all but
the last. Peers that give bytes parse them by `tf.train.Example`, as their users do. An epoch of a
file of 2 GB, or of FEEDS_GB, tells how much memory a loop takes.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from bench_tfrecord import RECORDS, SPEC, columns, drain, report_rates, write_ours
from measure import Report, best
from tensorflow.core.example import example_pb2, feature_pb2

import tensorferry as ferry
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
                **({} if shuffle else in_order_readers(path)),
            }
            for name, make in readers.items():
                check(name, make())
            work = "an epoch, shuffled" if shuffle else "an epoch, in order"
            times = best({name: drain(make) for name, make in readers.items()}, seconds=3)
            report_rates(report, work, times, RECORDS)
    report.notes.append(
        f"shuffled: ours is a permutation of all rows; tf.data has a buffer of {BUFFER:,} rows"
    )
    bench_memory(report)
    report.finish("feeds")


def bench_memory(report: Report) -> None:
    """Memory of the process over a shuffled epoch of a large file: it must not grow."""
    gigabytes = float(os.environ.get("FEEDS_GB", "2"))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "large.tfrecord"))
        rows = np.zeros((1024, 1 << 12), np.float32)  # 16 kB each
        with ferry.writer(path, durable=False) as out:
            for _ in range(int(gigabytes * (1 << 30) / rows.nbytes)):
                out.write_batch({"x": rows})
        taken = []
        loop = feeds.Feed(path, batch=BATCH, shuffle=True, prefetch=16 << 20)
        for number, _ in enumerate(loop):
            if number % 16 == 8:
                taken.append(held_bytes())
        early, late = max(taken[: len(taken) // 4]), max(taken[len(taken) // 4 :])
        assert late < early + (64 << 20), (early, late)
        report.notes.append(
            f"memory of an epoch of {gigabytes:g} GB, shuffled: {early >> 20} MB in its first "
            f"quarter, {late >> 20} MB at most afterwards"
        )


def held_bytes() -> int:
    """Number of bytes that the process holds, without those of mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


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
    # Its own copies of the messages cannot be registered beside TensorFlow's, which are the same.
    messages = ModuleType("tfrecord.example_pb2")
    vars(messages).update({**vars(feature_pb2), **vars(example_pb2)})
    sys.modules["tfrecord.example_pb2"] = messages
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
    readers: dict[str, Callable[[], Any]] = {
        "grain from our feed": lambda: feeds.grain.dataset(
            path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0}
        )
    }
    if not shuffle:  # it reads in order only
        records = grain.experimental.TFRecordIterDataset(path)
        readers["grain's TFRecords + tf.train.Example"] = lambda: records.map(parsed).batch(
            BATCH, batch_fn=stacked
        )
    return readers


def parsed(record: bytes) -> dict[str, Any]:
    """An Example as a dict of arrays, in Python."""
    features = tf.train.Example.FromString(record).features.feature
    return {
        name: np.asarray(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in features.items()
    }


def stacked(rows: Any) -> dict[str, Any]:
    """A batch of rows; the tokens are padded."""
    tokens = [row["tokens"] for row in rows]
    padded = np.zeros((len(rows), max(map(len, tokens))), np.int64)
    for place, values in enumerate(tokens):
        padded[place, : len(values)] = values
    others = {name: np.stack([row[name] for row in rows]) for name in rows[0] if name != "tokens"}
    return {**others, "tokens": padded}


def in_batches(rows: Iterable[Any]) -> Iterator[Any]:
    found = iter(rows)
    while part := list(itertools.islice(found, BATCH)):
        yield stacked(part)


def in_order_readers(path: str) -> dict[str, Callable[[], Any]]:
    """Peers with files of their own, made of the same records."""
    readers: dict[str, Callable[[], Any]] = {}
    try:
        from array_record.python import array_record_module
    except ImportError:
        pass
    else:
        name = f"{path}.array_record"
        writer = array_record_module.ArrayRecordWriter(name, "group_size:1024,uncompressed")
        for record in ferry.Records(path, raw=True):
            writer.write(record)
        writer.close()

        def read() -> Iterator[Any]:
            reader = array_record_module.ArrayRecordReader(name)
            while True:
                try:
                    yield parsed(reader.read())
                except IndexError:
                    return

        readers["array_record + tf.train.Example"] = lambda: in_batches(read())
    try:
        import webdataset
    except ImportError:
        pass
    else:
        with webdataset.TarWriter(f"{path}.tar") as out:
            for number, record in enumerate(ferry.Records(path, raw=True)):
                out.write({"__key__": f"{number:09}", "bin": record})
        readers["webdataset + tf.train.Example"] = lambda: in_batches(
            parsed(sample["bin"])
            for sample in webdataset.WebDataset(f"{path}.tar", shardshuffle=False)
        )
    return readers


if __name__ == "__main__":
    main()
