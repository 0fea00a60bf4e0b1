"""How fast is `ferry convert`, beside copying the bytes, and beside TensorFlow with PyArrow?

A checkpoint of 1 GB into a safetensors file, against `cp` and `sync` of the same bytes: each in a
process of its own, with the most memory that it took. 200,000 records of five features into a
Parquet file, against two ways to do it with TensorFlow: record by record, as most recipes do, and
by batches, as fast as it gets. The same rows of a Parquet file in batches, beside PyArrow, and the
same records compressed, beside the libraries themselves. The answers are compared before anything
is reported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
from measure import Report, best, duration

import tensorferry as ferry
from tensorferry.codecs import compression

# Before TensorFlow, which exports a libzstd without threads to all that are imported behind it.
ZSTD = compression._zstd()

TENSORS, SIDE = 64, 2048
MIB = 1 << 20
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


def digest_of(batches: Any) -> tuple[int, int, float]:
    """What is in the columns of all batches, whoever read them."""
    rows, numbers, floats = 0, 0, 0.0
    for batch in batches:
        id_, tokens, embedding = (batch[name] for name in ("id", "tokens", "embedding"))
        rows += len(id_)
        if not isinstance(id_, np.ndarray):
            id_, tokens, embedding = id_.to_numpy(), tokens.flatten(), embedding.storage.flatten()
            tokens, embedding = tokens.to_numpy(), embedding.to_numpy()
        elif not isinstance(tokens, np.ndarray):
            tokens = tokens.flat_values
        numbers += int(id_.sum()) + int(tokens.sum())
        floats += float(np.float64(np.asarray(embedding, np.float64).sum()))
    return rows, numbers, round(floats, 3)


def arrays_of(batch: Any) -> dict[str, Any]:
    """A record batch of PyArrow's as arrays of NumPy, without a Python object for each row."""
    found: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "tokens":
            found[name] = column.flatten().to_numpy()
        elif name == "embedding":
            found[name] = column.storage.flatten().to_numpy()
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def bench_batches(report: Report, folder: Path) -> None:
    """Batches of 1,024 rows of a Parquet file, as Arrow has them and as arrays."""
    from bench_tfrecord import BATCH, RECORDS, columns
    from pyarrow import parquet

    path = folder / "data.parquet"
    with ferry.writer(path, durable=False) as out:
        out.write_batch(columns())

    def theirs(verify: bool) -> Any:
        file = parquet.ParquetFile(path, memory_map=True, page_checksum_verification=verify)
        return file.iter_batches(BATCH)

    def drain(make: Callable[[], Any]) -> None:
        for _ in make():
            pass

    works: dict[str, dict[str, Callable[[], Any]]] = {
        "to Arrow": {
            "tensorferry": lambda: ferry.Table(path).batches(BATCH, to="arrow"),
            "tensorferry, verify=False": lambda: ferry.Table(path, verify=False).batches(
                BATCH, to="arrow"
            ),
            "PyArrow": lambda: theirs(False),
            "PyArrow, checksums": lambda: theirs(True),
        },
        "to arrays": {
            "tensorferry": lambda: ferry.Table(path).batches(BATCH),
            "tensorferry, verify=False": lambda: ferry.Table(path, verify=False).batches(BATCH),
            "PyArrow": lambda: map(arrays_of, theirs(False)),
            "PyArrow, checksums": lambda: map(arrays_of, theirs(True)),
        },
    }
    for work, ways in works.items():
        answers = {digest_of(make()) for make in ways.values()}
        assert len(answers) == 1, answers
        times = best({name: partial(drain, make) for name, make in ways.items()}, seconds=3)
        for name, seconds in times.items():
            report.add(
                work=f"{RECORDS:,} rows of Parquet in batches, {work}",
                by=name,
                time=duration(seconds),
                ratio=seconds / times["tensorferry"],
                memory="",
            )


def bench_compressing(report: Report, folder: Path) -> None:
    """The bytes of 200,000 records, compressed: on all cores, beside one stream of the library."""
    import gzip
    import zlib

    from bench_tfrecord import columns
    from isal import isal_zlib

    path = folder / "plain.tfrecord"
    with ferry.writer(path, durable=False) as out:
        out.write_batch(columns())
    data = path.read_bytes()

    def ours(kind: compression.Kind, level: int | None = None) -> bytes:
        stream = compression.compressor(kind, level)
        parts = [stream.compress(data[at : at + MIB]) for at in range(0, len(data), MIB)]
        return b"".join([*parts, stream.finish()])

    groups: dict[str, dict[str, Callable[[], bytes]]] = {
        "gzip": {
            "tensorferry, level 2": lambda: ours("gzip"),
            "tensorferry, level 1": lambda: ours("gzip", 1),
            "tensorferry, level 6": lambda: ours("gzip", 6),
            "isal, level 2": lambda: _stream(isal_zlib.compressobj(2, zlib.DEFLATED, 31, 9), data),
            "zlib, level 6": lambda: _stream(zlib.compressobj(6, zlib.DEFLATED, 31, 9), data),
        },
        "zstd": {
            "tensorferry, level 1": lambda: ours("zstd"),
            "tensorferry, level 3": lambda: ours("zstd", 3),
            "libzstd, level 1": lambda: ZSTD.compress(data, 1),
            "libzstd, level 3": lambda: ZSTD.compress(data, 3),
        },
    }
    for kind, ways in groups.items():
        sizes = {name: len(way()) for name, way in ways.items()}
        undo = gzip.decompress if kind == "gzip" else ZSTD.decompress
        assert all(undo(way()) == data for way in ways.values())
        times = best(ways, seconds=2)
        first = next(iter(times.values()))
        for name, seconds in times.items():
            report.add(
                work=f"{kind} of {len(data) / 1e6:.0f} MB of records",
                by=name,
                time=duration(seconds),
                ratio=seconds / first,
                memory=f"{sizes[name] / len(data):.0%} of the size",
            )


def _stream(compressor: Any, data: bytes) -> bytes:
    return compressor.compress(data) + compressor.flush()  # type: ignore[no-any-return]


def main() -> None:
    report = Report("Converting files: the shortest of several runs, taking turns")
    with tempfile.TemporaryDirectory() as folder:
        bench_records(report, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        bench_batches(report, Path(folder))
        bench_compressing(report, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        bench_checkpoint(report, Path(folder))
    report.notes += [
        "`ferry convert` of the checkpoint is a whole process, which also checks every checksum; "
        "`cp` copies its data file.",
        "Ways that take a minute or more ran once.",
        "Records are converted in a process that has TensorFlow and PyArrow loaded already.",
        "zstd is loaded before TensorFlow, as it has to be to have threads: TensorFlow exports a "
        "libzstd without.",
    ]
    report.finish("convert")


if __name__ == "__main__":
    main()
