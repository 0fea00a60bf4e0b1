"""How fast are TFRecords read into columns, scanned and written, beside TensorFlow and others?

200,000 records of five features (two integers, 16 floats, 5 to 24 integers, a string), and shapes
that are harder: 200 features, long records, tiny ones. Both checksums are checked everywhere
except where a peer does not. The columns of all readers are compared before anything is timed.
Peers that are not installed (tfx-bsl, tfrecord) are left out; `make bench-peers` installs them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from measure import Report, best

import tensorferry as ferry
from tensorferry import tfio

RECORDS = 200_000
BATCH = 1024

SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
    "embedding": tf.io.FixedLenFeature([16], tf.float32),
    "tokens": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    "text": tf.io.FixedLenFeature([], tf.string),
}


def columns(rows: int = RECORDS) -> dict[str, Any]:
    """The data: every run the same."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 25, rows)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    texts = [b"sentence number %d of the set" % row for row in range(rows)]
    return {
        "id": np.arange(rows),
        "label": generator.integers(0, 10, rows),
        "embedding": generator.standard_normal((rows, 16), dtype=np.float32),
        "tokens": ferry.RaggedTensor(generator.integers(0, 30_000, splits[-1]), (splits,)),
        "text": np.array(texts, dtype=object),
    }


def digest(batches: Any) -> str:
    """What is in the columns of all batches, whoever read them."""
    total = hashlib.blake2b()
    for batch in batches:
        tokens = batch["tokens"]
        splits = getattr(tokens, "row_splits", None)
        if splits is None:
            splits = tokens.nested_row_splits[0]
        for part in (batch["id"], batch["label"], batch["embedding"], tokens.flat_values, splits):
            total.update(np.ascontiguousarray(part).tobytes())
        total.update(b"|".join(np.asarray(batch["text"]).tolist()))
    return total.hexdigest()


def read_tensorflow(path: str, parallel: bool, compression: str = "") -> Any:
    calls = tf.data.AUTOTUNE if parallel else None
    dataset = tf.data.TFRecordDataset(path, compression_type=compression).batch(BATCH)
    dataset = dataset.map(lambda records: tf.io.parse_example(records, SPEC), calls)
    return dataset.prefetch(tf.data.AUTOTUNE) if parallel else dataset


def read_ours(
    path: str, threads: int | None = None, to: Literal["numpy", "arrow"] = "numpy"
) -> Any:
    return ferry.Records(path, threads=threads).batches(BATCH, to=to)


def read_by(path: str, schema: Any) -> Any:
    return ferry.Records(path, schema=schema).batches(BATCH)


def drain(make: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in make():
            pass

    return run


def write_ours(path: str, data: dict[str, Any], **options: Any) -> None:
    with ferry.writer(path, durable=False, **options) as out:
        out.write_batch(data)


def write_records(make: Callable[[], Any], records: list[bytes]) -> Callable[[], None]:
    def run() -> None:
        with make() as writer:
            for record in records:
                writer.write(record)

    return run


def report_rates(
    report: Report, work: str, times: dict[str, float], count: int, base: str = "tensorferry"
) -> None:
    for name, seconds in times.items():
        rate = count / seconds
        shown = f"{rate / 1e6:.2f} M/s" if rate > 1e5 else f"{rate / 1e3:.1f} k/s"
        report.add(work=work, by=name, records=shown, ratio=seconds / times[base])


def bench_reading(report: Report, folder: Path, data: dict[str, Any]) -> None:
    path = str(folder / "data.tfrecord")
    write_ours(path, data)
    expected = digest(read_ours(path))
    assert digest(read_tensorflow(path, parallel=True)) == expected
    assert digest(read_ours(path, threads=1)) == expected
    peers: dict[str, Callable[[], Any]] = {
        "tensorferry": drain(lambda: read_ours(path)),
        "tensorferry, one thread": drain(lambda: read_ours(path, threads=1)),
        "tensorferry, to Arrow": drain(lambda: read_ours(path, to="arrow")),
        "tf.data + parse_example": drain(lambda: read_tensorflow(path, parallel=False)),
        "tf.data + parse_example, AUTOTUNE": drain(lambda: read_tensorflow(path, parallel=True)),
    }
    records = list(ferry.open(path, raw=True))
    peers |= tfx_bsl_decoder(records)
    report_rates(report, "file to columns", best(peers, seconds=3), RECORDS)

    scans: dict[str, Callable[[], Any]] = {
        "tensorferry": lambda: ferry.Records(path).verify(),
        "tensorferry, records as bytes": drain(lambda: tfio.tf_record_iterator(path)),
        "tf_record_iterator": drain(lambda: tf.compat.v1.io.tf_record_iterator(path)),
        "tf.data, batch": drain(lambda: tf.data.TFRecordDataset(path).batch(BATCH)),
    }
    assert ferry.Records(path).verify() == RECORDS
    report_rates(report, "scan", best(scans, seconds=3), RECORDS)


def tfx_bsl_decoder(records: list[bytes]) -> dict[str, Callable[[], Any]]:
    try:
        from tfx_bsl.coders import example_coder
    except ImportError:
        return {}
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    parts = [records[i : i + BATCH] for i in range(0, len(records), BATCH)]
    return {"tfx-bsl (decode alone)": lambda: [decoder.DecodeBatch(part) for part in parts]}


def tfx_bsl_encoder(data: dict[str, Any], folder: Path) -> dict[str, Callable[[], Any]]:
    try:
        from tfx_bsl.coders import example_coder
    except ImportError:
        return {}
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    path = str(folder / "bsl.tfrecord")
    write_ours(path, data)
    batches = [decoder.DecodeBatch(batch) for batch in ferry.Records(path, raw=True).batches(BATCH)]
    encoder = example_coder.RecordBatchToExamplesEncoder()
    return {"tfx-bsl (writes no file)": lambda: [encoder.encode(batch) for batch in batches]}


def bench_writing(report: Report, folder: Path, data: dict[str, Any]) -> None:
    ours, theirs = str(folder / "ours.tfrecord"), str(folder / "theirs.tfrecord")
    write_ours(ours, data)
    records = list(ferry.open(ours, raw=True))
    peers: dict[str, Callable[[], Any]] = {"tensorferry": lambda: write_ours(ours, data)}
    peers |= tfx_bsl_encoder(data, folder)
    report_rates(report, "columns to file", best(peers, seconds=3), RECORDS)

    for kind in ("", "GZIP"):
        peers = {
            "tensorferry": write_records(partial(tfio.TFRecordWriter, ours, kind), records),
            "tf.io.TFRecordWriter": write_records(
                partial(tf.io.TFRecordWriter, theirs, kind), records
            ),
        }
        for write in peers.values():
            write()
        assert list(tfio.tf_record_iterator(ours)) == records
        assert list(tfio.tf_record_iterator(theirs)) == records
        report_rates(report, f"records to file {kind}".strip(), best(peers, seconds=3), RECORDS)
        if kind:
            sizes = Path(ours).stat().st_size, Path(theirs).stat().st_size
            report.notes.append(
                f"gzip: ours takes {sizes[0] / sizes[1]:.2f} times TensorFlow's size"
            )
            assert digest(read_ours(theirs)) == digest(read_tensorflow(theirs, True, kind))
            peers = {
                "tensorferry": drain(lambda: read_ours(theirs)),
                "tf.data, AUTOTUNE": drain(partial(read_tensorflow, theirs, True, kind)),
            }
            report_rates(report, "gzip file to columns", best(peers, seconds=3), RECORDS)


SHAPES: dict[str, tuple[int, dict[str, Any]]] = {
    "wide: 200 features": (2_000, {f"feature_{i:03}": np.float32 for i in range(200)}),
    "wide: 200 features, 20,000 records": (
        20_000,
        {f"feature_{i:03}": np.float32 for i in range(200)},
    ),
    "long: 100 kB": (500, {"image": 25_000}),
    "tiny: 20 B": (200_000, {"x": np.int64}),
}


def bench_shapes(report: Report, folder: Path) -> None:
    for name, (rows, features) in SHAPES.items():
        data = {}
        spec = {}
        for feature, kind in features.items():
            width = kind if isinstance(kind, int) else 0
            dtype = np.float32 if width else kind
            shape = (rows, width) if width else (rows,)
            data[feature] = np.ones(shape, dtype)
            spec[feature] = tf.io.FixedLenFeature(shape[1:], tf.dtypes.as_dtype(dtype))
        path = str(folder / "shape.tfrecord")
        write_ours(path, data)

        def read(path: str = path, spec: dict[str, Any] = spec) -> Any:
            dataset = tf.data.TFRecordDataset(path).batch(BATCH)
            parsed = dataset.map(lambda batch: tf.io.parse_example(batch, spec), tf.data.AUTOTUNE)
            return parsed.prefetch(tf.data.AUTOTUNE)

        for ours, theirs in zip(read_ours(path), read(), strict=True):
            for feature in data:
                assert np.array_equal(ours[feature], theirs[feature].numpy())
        schema = ferry.Records(path).schema

        def copy(path: str = path, data: dict[str, Any] = data, rows: int = rows) -> None:
            """What nobody can do without: both checksums, and one copy into fresh memory."""
            ferry.Records(path).verify()
            for start in range(0, rows, BATCH):
                for column in data.values():
                    column[start : start + BATCH].copy()

        peers = {
            "tensorferry": drain(partial(read_ours, path)),
            "tensorferry, schema known": drain(partial(read_by, path, schema)),
            "tf.data, AUTOTUNE": drain(read),
            "the limit: checksums, and one copy": copy,
        }
        report_rates(report, name, best(peers, seconds=2), rows)


def main() -> None:
    report = Report("TFRecords: records a second, and how many times longer the others take")
    data = columns()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_reading(report, folder, data)
        bench_writing(report, folder, data)
        bench_shapes(report, folder)
    report.notes.append(
        "Batches of 1024; files in the page cache. Columns are written without fsync; "
        "tfio.TFRecordWriter syncs its file before it appears, tf.io.TFRecordWriter does not. "
        "Each run opens the file and infers the schema from the first 1,000 records, except where "
        "it is known; a limit below 1 is how much of the time it would leave."
    )
    report.finish("tfrecord")


if __name__ == "__main__":
    main()
