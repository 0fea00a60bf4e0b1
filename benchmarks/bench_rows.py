"""How fast are rows written and read one by one, beside TensorFlow's own Example?

Rows of five features (two integers, 16 floats, 5 to 24 integers, a string), as plain Python values
and as NumPy's. The peer fills a `tf.train.Example` and writes it with `tf.io.TFRecordWriter`, and
reads it with `tf_record_iterator`, `Example.FromString` and NumPy: what the tutorials show. Both
checksums are checked by both. The bytes written, and the rows read, are compared before anything is
timed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from measure import Report, best, duration

import tensorferry as ferry

ROWS = 20_000
PICKED = 64

Row = dict[str, Any]


def make_rows(count: int = ROWS) -> list[Row]:
    """The data, as plain Python values: every run the same."""
    generator = np.random.default_rng(0)
    return [
        {
            "id": number,
            "label": int(generator.integers(0, 10)),
            "embedding": generator.standard_normal(16, dtype=np.float32).tolist(),
            "tokens": generator.integers(0, 30_000, generator.integers(5, 25)).tolist(),
            "text": b"sentence number %d of the set" % number,
        }
        for number in range(count)
    ]


def as_arrays(row: Row) -> Row:
    """The same row with NumPy's arrays."""
    embedding = np.array(row["embedding"], np.float32)
    return {**row, "embedding": embedding, "tokens": np.array(row["tokens"])}


def write_ours(path: str, rows: list[Row]) -> None:
    with ferry.writer(path, durable=False) as out:
        for row in rows:
            out.write(row)


def to_example(row: Row) -> bytes:
    features = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["id"]])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["label"]])),
        "embedding": tf.train.Feature(float_list=tf.train.FloatList(value=row["embedding"])),
        "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=row["tokens"])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["text"]])),
    }
    message = tf.train.Example(features=tf.train.Features(feature=features))
    return message.SerializeToString()  # type: ignore[no-any-return]


def write_theirs(path: str, rows: list[Row]) -> None:
    with tf.io.TFRecordWriter(path) as out:
        for row in rows:
            out.write(to_example(row))


def read_ours(path: str) -> int:
    count = 0
    for _ in ferry.open(path):
        count += 1
    return count


def from_example(record: bytes) -> Row:
    feature = tf.train.Example.FromString(record).features.feature
    return {
        "embedding": np.array(feature["embedding"].float_list.value, np.float32),
        "id": feature["id"].int64_list.value[0],
        "label": feature["label"].int64_list.value[0],
        "text": feature["text"].bytes_list.value[0],
        "tokens": np.array(feature["tokens"].int64_list.value, np.int64),
    }


def read_theirs(path: str) -> int:
    count = 0
    for record in tf.compat.v1.io.tf_record_iterator(path):
        from_example(record)
        count += 1
    return count


def check(path: str, rows: list[Row]) -> None:
    """Both read what both wrote."""
    records = list(tf.compat.v1.io.tf_record_iterator(path))
    for record, ours, row in zip(records, ferry.open(path), rows, strict=True):
        theirs = from_example(record)
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            assert np.array_equal(ours[name], value), name
            assert np.array_equal(
                np.float32(row[name]) if name == "embedding" else row[name], value
            )


def report_times(report: Report, work: str, times: dict[str, float], rows: int) -> None:
    for name, seconds in times.items():
        a_row = duration(seconds / rows)
        report.add(work=work, by=name, time=f"{a_row} a row", ratio=seconds / times["tensorferry"])


def bench_writing(report: Report, folder: Path, rows: list[Row]) -> None:
    ours, theirs = str(folder / "ours.tfrecord"), str(folder / "theirs.tfrecord")
    for work, given in (
        ("write, Python's values", rows),
        ("write, NumPy's arrays", list(map(as_arrays, rows))),
    ):
        write_ours(ours, given)
        write_theirs(theirs, given)
        check(ours, rows)
        check(theirs, rows)
        peers: dict[str, Callable[[], Any]] = {
            "tensorferry": partial(write_ours, ours, given),
            "tf.train.Example + TFRecordWriter": partial(write_theirs, theirs, given),
        }
        report_times(report, work, best(peers, seconds=2), len(rows))


def bench_reading(report: Report, folder: Path, rows: list[Row]) -> None:
    path = str(folder / "ours.tfrecord")
    peers: dict[str, Callable[[], Any]] = {
        "tensorferry": lambda: read_ours(path),
        "tf_record_iterator + Example": lambda: read_theirs(path),
    }
    report_times(report, "read", best(peers, seconds=2), len(rows))

    records = ferry.open(path)
    generator = np.random.default_rng(1)
    numbers = generator.integers(0, len(rows), 2000).tolist()
    lists = [numbers[i : i + PICKED] for i in range(0, len(numbers), PICKED)]
    for number, row in zip(numbers, records[numbers], strict=True):
        assert row["id"] == records[number]["id"] == number

    def one_by_one() -> None:
        for number in numbers:
            records[number]

    def many() -> None:
        for some in lists:
            records[some]

    times = best({"one": one_by_one, "many": many}, seconds=1)
    report_times(report, "rows[i]", {"tensorferry": times["one"]}, len(numbers))
    report_times(report, f"rows[[... {PICKED}]]", {"tensorferry": times["many"]}, len(numbers))


def main() -> None:
    report = Report("Rows one by one: time a row, and how many times longer the others take")
    rows = make_rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_writing(report, folder, rows)
        bench_reading(report, folder, rows)
    report.notes.append("Files in the page cache, written without fsync.")
    report.finish("rows")


if __name__ == "__main__":
    main()
