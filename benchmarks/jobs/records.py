"""TFRecords: rows one by one, columns, and records as bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from bench_rows import (
    Row,
    from_example,
    make_rows,
    read_ours as read_rows,
    read_theirs as read_examples,
    to_example,
    write_ours as write_rows,
    write_theirs as write_examples,
)
from bench_tfrecord import (
    BATCH,
    SPEC,
    columns,
    digest,
    drain,
    read_ours as read_columns,
    read_tensorflow,
    tfx_bsl_decoder,
    write_ours as write_columns,
    write_records,
)

import tensorferry as ferry
from jobs import Limit, Way, Work, apart, installed, job
from tensorferry import tfio

ROWS = {"small": 100, "medium": 2_000, "large": 20_000}
COLUMNS = {"small": 100, "medium": 10_000, "large": 200_000}


def rows_of(path: str) -> list[Any]:
    """The rows of a file: what every reader and writer has to come to."""
    return list(ferry.open(path))


@job("rows to a TFRecord file, one by one", ROWS, "rows")
def rows_to_file(folder: Path, count: int) -> Work:
    rows = make_rows(count)
    ours, theirs, other = (str(folder / f"{name}.tfrecord") for name in ("a", "b", "c"))
    peers = {
        "tf.train.Example + TFRecordWriter": Way(
            partial(write_examples, theirs, rows), lambda _: rows_of(theirs)
        )
    }
    if installed("tfrecord"):
        apart.run(apart.keep, rows)
        peers["tfrecord"] = Way(partial(apart.run, apart.write, other), lambda _: rows_of(other))
    return Work(Way(partial(write_rows, ours, rows), lambda _: rows_of(ours)), peers)


@job("a TFRecord file to rows, one by one", ROWS, "rows")
def file_to_rows(folder: Path, count: int) -> Work:
    path = str(folder / "x.tfrecord")
    write_rows(path, make_rows(count))

    def examples(_: Any) -> list[Row]:
        return [from_example(one) for one in tf.compat.v1.io.tf_record_iterator(path)]

    peers = {"tf_record_iterator + Example": Way(partial(read_examples, path), examples)}
    if installed("tfrecord"):
        peers["tfrecord"] = Way(
            partial(apart.run, apart.count, path), lambda _: apart.run(apart.read, path)
        )
    return Work(Way(partial(read_rows, path), lambda _: rows_of(path)), peers)


@job("rows of a TFRecord file, 64 at random", ROWS, "rows in it")
def random_rows(folder: Path, count: int) -> Work:
    path, other = str(folder / "x.tfrecord"), str(folder / "x.array_record")
    rows = make_rows(count)
    write_rows(path, rows)
    opened = ferry.open(path)
    numbers = np.random.default_rng(1).integers(0, count, 64).tolist()
    peers: dict[str, Way] = {}
    if installed("array_record"):
        from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

        writer = ArrayRecordWriter(other, "group_size:1")
        for row in rows:
            writer.write(to_example(row))
        writer.close()
        reader = ArrayRecordReader(other)
        peers["array_record + Example"] = Way(
            lambda: [from_example(record) for record in reader.read(numbers)]
        )
    return Work(Way(lambda: opened[numbers]), peers)


@job("a TFRecord file to columns", COLUMNS, "records")
def file_to_columns(folder: Path, count: int) -> Work:
    path = str(folder / "x.tfrecord")
    write_columns(path, columns(count))

    def read(make: Callable[[], Any]) -> Way:
        return Way(drain(make), lambda _: digest(make()))

    peers = {
        "tf.data + parse_example, AUTOTUNE": read(partial(read_tensorflow, path, parallel=True))
    }
    if installed("tfx_bsl"):
        records = list(ferry.open(path, raw=True))
        for name, decode in tfx_bsl_decoder(records).items():
            peers[name] = Way(decode, lambda _: digest(read_columns(path)))
    return Work(read(partial(read_columns, path)), peers)


@job("a gzip TFRecord file to columns", {"medium": 10_000, "large": 100_000}, "records")
def gzip_to_columns(folder: Path, count: int) -> Work:
    path = str(folder / "x.tfrecord.gz")
    write_columns(path, columns(count))

    def read(make: Callable[[], Any]) -> Way:
        return Way(drain(make), lambda _: digest(make()))

    theirs = partial(read_tensorflow, path, parallel=True, compression="GZIP")
    return Work(
        read(partial(read_columns, path)),
        {"tf.data + parse_example, AUTOTUNE": read(theirs)},
    )


SHAPES = {"wide": 2_000, "long": 500}


def shaped(folder: Path, data: dict[str, Any]) -> Work:
    """Records of other shapes, to columns."""
    path = str(folder / "x.tfrecord")
    write_columns(path, data)
    spec = {
        name: tf.io.FixedLenFeature(array.shape[1:], tf.dtypes.as_dtype(array.dtype))
        for name, array in data.items()
    }

    def theirs() -> Any:
        dataset = tf.data.TFRecordDataset(path).batch(BATCH)
        parsed = dataset.map(lambda batch: tf.io.parse_example(batch, spec), tf.data.AUTOTUNE)
        return parsed.prefetch(tf.data.AUTOTUNE)

    def joined(make: Callable[[], Any]) -> Way:
        def answer(_: Any) -> Any:
            batches = list(make())
            return {n: np.concatenate([np.asarray(b[n]) for b in batches]) for n in data}

        return Way(drain(make), answer)

    return Work(
        joined(partial(read_columns, path)), {"tf.data + parse_example, AUTOTUNE": joined(theirs)}
    )


@job("records of 200 features to columns", {"medium": 2_000}, "records")
def wide(folder: Path, count: int) -> Work:
    values = np.random.default_rng(0).random(count, np.float32)
    return shaped(folder, {f"feature_{number:03}": values for number in range(200)})


@job("records of 100 kB to columns", {"medium": 500}, "records")
def long(folder: Path, count: int) -> Work:
    return shaped(folder, {"image": np.ones((count, 25_000), np.float32)})


@job("a TFRecord file scanned, every checksum verified", COLUMNS, "records")
def scan(folder: Path, count: int) -> Work:
    path = str(folder / "x.tfrecord")
    write_columns(path, columns(count))

    def counted(make: Callable[[], Any]) -> Way:
        return Way(lambda: sum(1 for _ in make()))

    return Work(
        Way(lambda: ferry.Records(path).verify()),
        {"tf_record_iterator": counted(lambda: tf.compat.v1.io.tf_record_iterator(path))},
    )


@job("records of bytes to a file", COLUMNS, "records")
def records_to_file(folder: Path, count: int) -> Work:
    source, ours, theirs = (str(folder / f"{name}.tfrecord") for name in ("x", "a", "b"))
    write_columns(source, columns(count))
    records = list(ferry.open(source, raw=True))

    def read(path: str) -> list[bytes]:
        return list(tfio.tf_record_iterator(path))

    def write() -> None:
        with ferry.writer(ours, durable=False) as out:
            for record in records:
                out.write(record)

    peers = {
        "tf.io.TFRecordWriter": Way(
            write_records(partial(tf.io.TFRecordWriter, theirs), records), lambda _: read(theirs)
        )
    }
    if installed("array_record"):
        peers["array_record"] = array_record(folder, records)
    limit = Limit("write", lambda: Path(folder / "raw").write_bytes(b"".join(records)))
    return Work(Way(write, lambda _: read(ours)), peers, limit)


def array_record(folder: Path, records: list[bytes]) -> Way:
    """The same records into an ArrayRecord file."""
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

    path = str(folder / "x.array_record")

    def write() -> None:
        writer = ArrayRecordWriter(path, "group_size:1024")
        for record in records:
            writer.write(record)
        writer.close()

    def read(_: Any) -> list[bytes]:
        reader = ArrayRecordReader(path)
        return list(reader.read_all())

    return Way(write, read)


@job("a batch of Examples parsed", {"small": 1, "medium": 128, "large": 10_000}, "Examples")
def parse_examples(folder: Path, count: int) -> Work:
    path = str(folder / "x.tfrecord")
    write_columns(path, columns(count))
    records = list(ferry.open(path, raw=True))
    spec = {name: feature for name, feature in SPEC.items() if name != "tokens"}
    own = {
        name: tfio.FixedLenFeature(list(feature.shape), feature.dtype.name)
        for name, feature in spec.items()
    }

    def plain(parsed: Any) -> dict[str, Any]:
        return {name: np.asarray(value) for name, value in parsed.items()}

    return Work(
        Way(partial(tfio.parse_example, records, own), plain),
        {"TensorFlow": Way(partial(tf.io.parse_example, records, spec), plain)},
    )
