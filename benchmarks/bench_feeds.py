"""How fast do rows reach a training loop, in order and shuffled, beside tf.data and others?

The 200,000 records of bench_tfrecord.py, in batches of 256 with the tokens padded; each epoch
begins with the opening of the file. The columns of every reader are compared before anything is
timed. Peers that parse row by row in Python read the first 20,000 records. Peers that are not
installed (torch, grain, array_record, webdataset, tfrecord) are left out: `make frameworks`
installs all but the last. Peers that give bytes parse them by `tf.train.Example`, as their users
do. An epoch of a file of 2 GB, or of FEEDS_GB, tells how much memory a loop takes. MosaicML's
streaming is not beside them: it needs a NumPy below 2.2.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
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
from tensorferry.feeds.tensorflow import LARGE

BATCH = 256
BUFFER = 10_000
PART = 20_000
"""Number of records of peers that parse row by row in Python."""

TENSORFLOW, TENSORFLOW_FEED = "tf.data + parse_example", "tf.data from our feed"
TORCH, TORCH_PEER = "torch from our feed", "vahidk/tfrecord in a DataLoader"
GRAIN, GRAIN_PEER = "grain from our feed", "grain's TFRecords + tf.train.Example"
ONCE = ", made once"
FLOOR = "tf.data repeating one ready batch"

Readers = dict[str, Callable[[], Any]]


def main() -> None:
    report = Report("How fast do rows reach a training loop, beside tf.data and others")
    with tempfile.TemporaryDirectory() as folder:
        path, part = str(Path(folder, "data.tfrecord")), str(Path(folder, "part.tfrecord"))
        data = columns()
        write_ours(path, data)
        write_ours(part, {name: column[:PART] for name, column in data.items()})
        for shuffle in (False, True):
            bench_epochs(report, path, part, shuffle)
        bench_tensorflow(report, path)
        bench_rows(report, path)
    report.notes.append(
        f"shuffled: ours is a permutation of all rows; tf.data has a buffer of {BUFFER:,} rows"
    )
    report.notes.append(f"peers that parse rows in Python read the first {PART:,} records")
    bench_memory(report)
    report.finish("feeds")


def bench_epochs(report: Report, path: str, part: str, shuffle: bool) -> None:
    """Epochs of all readers, and how many times faster ours are."""
    fast: Readers = {
        "tensorferry": partial(feed, path, shuffle),
        TENSORFLOW: partial(tensorflow, path, shuffle),
        TENSORFLOW_FEED: partial(tensorflow_feed, path, shuffle),
        **torch_readers(path, shuffle),
        **grain_readers(path, shuffle),
    }
    slow: Readers = {
        **torch_peers(part, shuffle),
        **({} if shuffle else {**grain_peers(part), **file_peers(part)}),
    }
    expected = summaries([columns()])
    for name, make in fast.items():
        check(name, make(), expected)
    for name, make in slow.items():
        check(name, make(), {name: column[:PART] for name, column in expected.items()})
    for name in (TENSORFLOW, TENSORFLOW_FEED):  # a loop of many epochs makes its dataset once
        fast[name + ONCE] = partial(iter, fast[name]())
    fast[FLOOR] = partial(one_batch, path)
    times = best({name: drain(make) for name, make in fast.items()}, seconds=3)
    for name, seconds in best({name: drain(make) for name, make in slow.items()}).items():
        times[name] = seconds * RECORDS / PART
    work = "an epoch, shuffled" if shuffle else "an epoch, in order"
    report_rates(report, work, times, RECORDS)
    pairs = [(TORCH, TENSORFLOW), (TORCH, TORCH_PEER), (GRAIN, GRAIN_PEER)]
    pairs += [(TENSORFLOW_FEED + how, TENSORFLOW + how) for how in ("", ONCE)]
    for ours, peer in pairs:
        if ours in times and peer in times:
            report.notes.append(f"{work}: {ours} is {times[peer] / times[ours]:.3g} times {peer}")


def bench_tensorflow(report: Report, path: str) -> None:
    """What the epoch of a tf.data feed is made of, so that it is known what limits it."""
    large = feeds.Feed(path, batch=LARGE, pad={"tokens": 0})
    batches = [list(batch.values()) for batch in large]
    dtypes = [tf.string if array.dtype == object else array.dtype for array in batches[0]]

    def fetch(number: Any) -> Any:
        return tuple(tf.numpy_function(lambda place: batches[place], [number], dtypes))

    ready = tf.data.Dataset.range(len(batches)).map(fetch)
    steps: Readers = {
        "making the dataset": partial(tensorflow_feed, path, False),
        "TensorFlow's loop over as many ready batches": drain(partial(one_batch, path)),
        f"handing over ready arrays of {LARGE:,} rows": drain(lambda: ready),
        "our feed": drain(lambda: large),
        "the epoch": drain(partial(tensorflow_feed, path, False)),
    }
    parts = [f"{name} {seconds * 1e3:.0f} ms" for name, seconds in best(steps).items()]
    report.notes.append("tf.data from our feed, in order: " + ", ".join(parts))


def bench_rows(report: Report, path: str) -> None:
    """Single rows and lists of rows, anywhere in the file."""
    with ferry.open(path) as rows:
        assert isinstance(rows, ferry.Rows)
        numbers = np.random.default_rng(1).integers(0, RECORDS, 64).tolist()
        assert [int(row["id"]) for row in rows[numbers]] == numbers
        times = best({"one": lambda: rows[numbers[7]], "many": lambda: rows[numbers]})
    report.notes.append(
        f"rows[i] takes {times['one'] * 1e6:.2g} us, rows[[64 numbers]] "
        f"{times['many'] / 64 * 1e6:.2g} us a row"
    )


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
            if number % 4 == 3:
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


def summaries(batches: Iterable[Any]) -> dict[str, Any]:
    """What batches hold, by the ids of the rows: the sum of the tokens, and all other columns."""
    parts: dict[str, list[Any]] = {}
    for batch in batches:
        for name, column in batch.items():
            found = column if name != "tokens" else token_sums(column)
            parts.setdefault(name, []).append(np.asarray(found))
    joined = {name: np.concatenate(found) for name, found in parts.items()}
    order = np.argsort(joined["id"].ravel(), kind="stable")
    return {name: found[order] for name, found in joined.items()}


def token_sums(column: Any) -> Any:
    """The sum of the tokens of each row, padded or not."""
    if isinstance(column, ferry.RaggedTensor):
        return np.add.reduceat(column.flat_values, column.nested_row_splits[0][:-1])
    return np.asarray(column).sum(axis=1)


def check(name: str, batches: Iterable[Any], expected: dict[str, Any]) -> None:
    """Refuses a reader that loses or changes rows, or gives some twice."""
    for column, found in summaries(batches).items():
        wanted = expected[column]
        assert len(found) == len(wanted), (name, column, len(found))
        assert np.array_equal(found.reshape(wanted.shape), wanted), (name, column)


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

    return dataset.batch(BATCH).map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def tensorflow_feed(path: str, shuffle: bool) -> Any:
    return feeds.tensorflow.dataset(path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0})


def one_batch(path: str) -> Any:
    """As many batches as an epoch has, without reading anything: what TensorFlow's loop costs."""
    first = feeds.Feed(path, batch=BATCH, pad={"tokens": 0}).first()
    tensors = {name: tf.constant(column) for name, column in first.items()}
    return tf.data.Dataset.from_tensors(tensors).repeat(-(-RECORDS // BATCH))


def torch_readers(path: str, shuffle: bool) -> Readers:
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        return {}
    how: Any = {"batch": BATCH, "shuffle": shuffle, "pad": {"tokens": 0}}
    return {
        TORCH: lambda: feeds.torch.loader(path, **how),
        "torch from our dataset in a DataLoader": lambda: DataLoader(
            feeds.torch.dataset(path, **how), batch_size=None
        ),
    }


def torch_peers(path: str, shuffle: bool) -> Readers:
    # Its own copies of the messages cannot be registered beside TensorFlow's, which are the same.
    messages = ModuleType("tfrecord.example_pb2")
    vars(messages).update({**vars(feature_pb2), **vars(example_pb2)})
    sys.modules["tfrecord.example_pb2"] = messages
    try:
        import torch
        from tfrecord.torch.dataset import TFRecordDataset
    except ImportError:
        return {}
    kinds = {"id": "int", "label": "int", "embedding": "float", "tokens": "int", "text": "byte"}

    def collate(rows: list[Any]) -> Any:
        return {"id": torch.as_tensor(np.concatenate([row["id"] for row in rows]))}

    return {
        TORCH_PEER: lambda: torch.utils.data.DataLoader(
            TFRecordDataset(path, None, kinds, shuffle_queue_size=BUFFER if shuffle else None),
            batch_size=BATCH,
            collate_fn=collate,
        )
    }


def grain_readers(path: str, shuffle: bool) -> Readers:
    if find_spec("grain") is None:
        return {}
    return {
        GRAIN: lambda: feeds.grain.dataset(path, batch=BATCH, shuffle=shuffle, pad={"tokens": 0})
    }


def grain_peers(path: str) -> Readers:
    """Grain's own way, which reads in order only."""
    try:
        import grain
    except ImportError:
        return {}
    records = grain.experimental.TFRecordIterDataset(path)
    return {GRAIN_PEER: lambda: records.map(parsed).batch(BATCH, batch_fn=stacked)}


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


def file_peers(path: str) -> Readers:
    """Peers with files of their own, made of the same records."""
    readers: Readers = {}
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
