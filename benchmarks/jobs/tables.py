"""Tables: Parquet, Arrow and CSV, beside PyArrow and pandas, and TFRecords into them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from bench_convert import by_batch
from bench_tfrecord import columns, write_ours
from pyarrow import csv, parquet

import tensorferry as ferry
from jobs import Way, Work, job

ROWS = {"small": 100, "medium": 10_000, "large": 200_000}
BATCH = 1024


def table(rows: int) -> pa.Table:
    """Two columns of numbers, one of vectors, one of texts."""
    generator = np.random.default_rng(0)
    vectors = pa.array(generator.standard_normal(rows * 16, dtype=np.float32))
    return pa.table(
        {
            "id": np.arange(rows),
            "score": generator.standard_normal(rows),
            "embedding": pa.FixedSizeListArray.from_arrays(vectors, 16),
            "text": [f"sentence number {row} of the set" for row in range(rows)],
        }
    )


@job("an Arrow table to a Parquet file", ROWS, "rows")
def save_parquet(folder: Path, rows: int) -> Work:
    value = table(rows)
    ours, theirs = str(folder / "a.parquet"), str(folder / "b.parquet")
    return Work(
        Way(partial(ferry.save, value, ours, durable=False), lambda _: plain(ours)),
        {
            "PyArrow": Way(
                partial(parquet.write_table, value, theirs, compression="zstd"),
                lambda _: plain(theirs),
            )
        },
    )


def plain(path: str) -> list[Any]:
    """What is in a Parquet file, as Python's values."""
    return list(parquet.read_table(path).slice(0, 10_000).to_pylist())


@job("a Parquet file to batches of columns", ROWS, "rows")
def parquet_batches(folder: Path, rows: int) -> Work:
    path = str(folder / "x.parquet")
    parquet.write_table(table(rows), path)

    def ours() -> int:
        with ferry.Table(path) as opened:
            return sum(len(batch["id"]) for batch in opened.batches(BATCH))

    def theirs() -> int:
        with parquet.ParquetFile(path) as file:
            return sum(len(batch.column(0)) for batch in file.iter_batches(BATCH))

    return Work(Way(ours), {"PyArrow, its own arrays": Way(theirs)})


@job("a Parquet file to Arrow's batches", ROWS, "rows")
def parquet_to_arrow(folder: Path, rows: int) -> Work:
    path = str(folder / "x.parquet")
    parquet.write_table(table(rows), path)

    def ours() -> pa.Table:
        with ferry.Table(path) as opened:
            return pa.Table.from_batches(opened.batches(BATCH, to="arrow"))

    def theirs() -> pa.Table:
        with parquet.ParquetFile(path) as file:
            return pa.Table.from_batches(file.iter_batches(BATCH))

    def columns_of(found: pa.Table) -> Any:
        return [found["id"].to_numpy(), found["score"].to_numpy()]

    return Work(Way(ours, columns_of), {"PyArrow": Way(theirs, columns_of)})


@job("a Parquet file to pandas", ROWS, "rows")
def parquet_to_pandas(folder: Path, rows: int) -> Work:
    path = str(folder / "x.parquet")
    parquet.write_table(table(rows), path)
    return Work(
        Way(lambda: ferry.Table(path).to_pandas(), frame),
        {"pandas": Way(partial(pd.read_parquet, path), frame)},
    )


def frame(found: Any) -> dict[str, Any]:
    """The columns of a frame."""
    return {
        "id": found["id"].to_numpy(),
        "score": found["score"].to_numpy(),
        "text": found["text"].tolist(),
    }


@job("a CSV file to pandas", {"small": 100, "medium": 10_000, "large": 100_000}, "rows")
def csv_to_pandas(folder: Path, rows: int) -> Work:
    path = str(folder / "x.csv")
    csv.write_csv(table(rows).drop_columns(["embedding"]), path)
    return Work(
        Way(lambda: ferry.Table(path).to_pandas(), frame),
        {
            "pandas": Way(partial(pd.read_csv, path), frame),
            "PyArrow": Way(lambda: csv.read_csv(path).to_pandas(), frame),
        },
    )


@job("tensors to an Arrow file", ROWS, "rows")
def save_arrow(folder: Path, rows: int) -> Work:
    value = {"id": np.arange(rows), "score": np.random.default_rng(0).standard_normal(rows)}
    ours, theirs = str(folder / "a.arrow"), str(folder / "b.arrow")

    def write() -> None:
        found = pa.table(value)
        with pa.OSFile(theirs, "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)

    return Work(
        Way(partial(ferry.save, value, ours, durable=False), lambda _: ferry.load(ours)),
        {"PyArrow": Way(write, lambda _: ferry.load(theirs))},
    )


@job("an Arrow file to tensors", ROWS, "rows")
def load_arrow(folder: Path, rows: int) -> Work:
    value = {"id": np.arange(rows), "score": np.random.default_rng(0).standard_normal(rows)}
    path = str(folder / "x.arrow")
    ferry.save(value, path, durable=False)

    def theirs() -> dict[str, Any]:
        with pa.memory_map(path) as source:
            found = pa.ipc.open_file(source).read_all()
        return {name: found[name].to_numpy() for name in found.column_names}

    return Work(Way(partial(ferry.load, path)), {"PyArrow, mapped": Way(theirs)})


@job("a TFRecord file to Parquet", {"medium": 10_000, "large": 200_000}, "records")
def records_to_parquet(folder: Path, rows: int) -> Work:
    source = folder / "x.tfrecord"
    write_ours(str(source), columns(rows))
    ours, theirs = folder / "a.parquet", folder / "b.parquet"

    def equals(target: Path) -> Callable[[Any], bool]:
        return lambda _: ferry.diff(source, target).equal

    return Work(
        Way(partial(ferry.convert, source, ours, durable=False, force=True), equals(ours)),
        {
            "tf.data.batch, parse_example, PyArrow": Way(
                partial(by_batch, source, theirs), equals(theirs)
            )
        },
    )
