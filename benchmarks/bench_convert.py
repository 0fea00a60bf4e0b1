"""How fast is `ferry convert`, beside copying the bytes, and beside TensorFlow with PyArrow?

A checkpoint of 1 GB into a safetensors file, against `cp` and `sync` of the same bytes: each in a
process of its own, with the most memory that it took. 200,000 records of five features into a
Parquet file, against two ways to do it with TensorFlow: record by record, as most recipes do, and
by batches, as fast as it gets. The answers are compared before anything is reported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
from measure import Report, duration

import tensorferry as ferry

TENSORS, SIDE = 64, 2048
ROUNDS = 4

PROGRAM = """
import sys
from tensorferry.cli import main
code = main(sys.argv[1:])
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")], file=sys.stderr)
sys.exit(code)
"""


def convert(source: Path, target: Path) -> tuple[float, int]:
    """Seconds of the whole process, and the most bytes of memory it took."""
    command = [sys.executable, "-c", PROGRAM, "convert", str(source), str(target)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    (peak,) = re.findall(r"VmHWM:\\t *(\d+) kB", done.stderr)
    return seconds, int(peak) * 1024


def copy(source: Path, target: Path) -> float:
    start = time.perf_counter()
    subprocess.run(["cp", source, target], check=True)
    subprocess.run(["sync", "-d", target], check=True)
    return time.perf_counter() - start


def bench_checkpoint(report: Report, folder: Path) -> None:
    generator = np.random.default_rng(0)
    value = {
        f"layer/{n}/kernel": generator.standard_normal((SIDE, SIDE), dtype=np.float32)
        for n in range(TENSORS)
    }
    prefix, target, copied = folder / "x.ckpt", folder / "x.safetensors", folder / "copy"
    ferry.save(value, prefix)
    (data,) = folder.glob("x.ckpt.data-*")
    times: dict[str, list[float]] = {"ferry convert": [], "cp and sync": []}
    peaks = []
    for _ in range(ROUNDS):
        for path in (target, copied):
            path.unlink(missing_ok=True)
        os.sync()
        seconds, peak = convert(prefix, target)
        times["ferry convert"].append(seconds)
        peaks.append(peak)
        os.sync()
        times["cp and sync"].append(copy(data, copied))
    assert ferry.diff(prefix, target).equal
    least = min(times["cp and sync"])
    for name, found in times.items():
        memory = f"{max(peaks) / 1e6:.0f} MB" if name == "ferry convert" else ""
        report.add(
            work="checkpoint of 1 GB to safetensors",
            by=name,
            time=duration(min(found)),
            ratio=min(found) / least,
            memory=memory,
        )


def by_record(path: Path, target: Path) -> None:
    """The usual recipe: each record parsed, its values put into lists, all of them a table."""
    import pyarrow as pa
    import tensorflow as tf
    from bench_tfrecord import SPEC
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {name: [] for name in SPEC}
    for record in tf.data.TFRecordDataset(str(path)):
        for name, value in tf.io.parse_single_example(record, SPEC).items():
            columns[name].append(value.numpy())
    parquet.write_table(pa.table(columns), target, compression="zstd")


def by_mapped_record(path: Path, target: Path) -> None:
    """The same, parsed by the threads of tf.data."""
    import pyarrow as pa
    import tensorflow as tf
    from bench_tfrecord import SPEC
    from pyarrow import parquet

    dataset = tf.data.TFRecordDataset(str(path))
    dataset = dataset.map(lambda record: tf.io.parse_single_example(record, SPEC), tf.data.AUTOTUNE)
    columns: dict[str, list[Any]] = {name: [] for name in SPEC}
    for row in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        for name, value in row.items():
            columns[name].append(value)
    parquet.write_table(pa.table(columns), target, compression="zstd")


def by_batch(path: Path, target: Path) -> None:
    """As fast as it gets: batches parsed by the threads of tf.data, columns without Python."""
    import pyarrow as pa
    from bench_tfrecord import read_tensorflow
    from pyarrow import parquet

    writer = None
    for batch in read_tensorflow(str(path), parallel=True):
        tokens = batch["tokens"]
        arrays = {
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array(batch["embedding"].numpy().reshape(-1)), 16
            ),
            "id": pa.array(batch["id"].numpy()),
            "label": pa.array(batch["label"].numpy()),
            "text": pa.array(batch["text"].numpy(), pa.binary()),
            "tokens": pa.ListArray.from_arrays(
                pa.array(tokens.row_splits.numpy().astype(np.int32)),
                pa.array(tokens.flat_values.numpy()),
            ),
        }
        table = pa.table(arrays)
        writer = writer or parquet.ParquetWriter(target, table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def bench_records(report: Report, folder: Path) -> None:
    from bench_tfrecord import RECORDS, columns

    source = folder / "data.tfrecord"
    with ferry.writer(source, durable=False) as out:
        out.write_batch(columns())
    ways: dict[str, Callable[[Path, Path], Any]] = {
        "ferry.convert": lambda path, target: ferry.convert(
            path, target, durable=False, force=True
        ),
        "tf.data, parse_single_example, pyarrow": by_record,
        "tf.data.map(parse_single_example), pyarrow": by_mapped_record,
        "tf.data.batch, parse_example, pyarrow": by_batch,
    }
    once = ("tf.data, parse_single_example, pyarrow", "tf.data.map(parse_single_example), pyarrow")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(ROUNDS):
        for number, (name, work) in enumerate(ways.items()):
            if name in once and round_number:  # minutes each
                continue
            start = time.perf_counter()
            work(source, folder / f"{number}.parquet")
            times[name].append(time.perf_counter() - start)
    for number in range(len(ways)):
        found = ferry.diff(source, folder / f"{number}.parquet")
        assert found.equal, found
    own = min(times["ferry.convert"])
    for name, found_times in times.items():
        seconds = min(found_times)
        report.add(
            work=f"{RECORDS:,} records to Parquet",
            by=name,
            time=duration(seconds),
            ratio=seconds / own,
            memory="",
        )


def main() -> None:
    report = Report("Converting files: the shortest of several runs, taking turns")
    with tempfile.TemporaryDirectory() as folder:
        bench_records(report, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        bench_checkpoint(report, Path(folder))
    report.notes += [
        "`ferry convert` of the checkpoint is a whole process, which also checks every checksum; "
        "`cp` copies its data file.",
        "Ways that take a minute or more ran once.",
        "Records are converted in a process that has TensorFlow and PyArrow loaded already.",
    ]
    report.finish("convert")


if __name__ == "__main__":
    main()
