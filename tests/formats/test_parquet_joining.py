"""Parquet files whose row groups were encoded apart, and byte-stream-split."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import tensorferry as ferry

ROWS, GROUP = 1000, 130


@pytest.fixture(scope="module")
def columns():
    """Columns of every layout: numbers, floats, tensors, lists and strings."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 5, ROWS)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return {
        "id": np.arange(ROWS),
        "smooth": np.sin(np.arange(ROWS) / 50).astype(np.float32),
        "vector": generator.standard_normal((ROWS, 4)),
        "tokens": ferry.RaggedTensor(generator.integers(0, 9, splits[-1]), (splits,)),
        "text": np.array([b"t%d" % (n % 7) for n in range(ROWS)], object),
    }


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "split"])
def path(request, columns, tmp_path_factory):
    """A file of many row groups, and whether its floats are byte-stream-split."""
    path = str(tmp_path_factory.mktemp("joined") / "x.parquet")
    options = {"byte_stream_split": True} if request.param else {}
    with ferry.writer(path, batch_rows=GROUP, **options) as out:
        for start in range(0, ROWS, 100):
            stop = start + 100
            out.write_batch(
                {
                    name: column[start:stop]
                    if isinstance(column, np.ndarray)
                    else column[np.arange(start, stop)]
                    for name, column in columns.items()
                }
            )
    return path, request.param


def test_footer(path):
    """Row groups have their rows, statistics and places in the file, one behind the other."""
    found = parquet.ParquetFile(path[0], page_checksum_verification=True)
    metadata = found.metadata

    assert metadata.num_rows == ROWS
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [
        *[GROUP] * (ROWS // GROUP),
        ROWS % GROUP,
    ]
    before = 4
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        assert group.column(0).statistics.min == number * GROUP
        for place in range(group.num_columns):
            chunk = group.column(place)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            assert start == before
            before = start + chunk.total_compressed_size
    assert found.read().num_rows == ROWS


def test_encodings(path):
    """Floats are byte-stream-split on request, and only they."""
    group = parquet.ParquetFile(path[0]).metadata.row_group(0)
    for place in range(group.num_columns):
        chunk = group.column(place)
        is_float = chunk.physical_type in ("FLOAT", "DOUBLE")
        assert ("BYTE_STREAM_SPLIT" in chunk.encodings) == (path[1] and is_float)


def test_readers(path, columns):
    """PyArrow, polars, duckdb and we ourselves read what was written."""
    table = parquet.read_table(path[0])
    frame = pl.read_parquet(path[0], columns=["id", "smooth", "text"])
    (asked,) = duckdb.sql(f"select sum(id), sum(smooth), count(text) from '{path[0]}'").fetchall()
    loaded = ferry.load(path[0])

    assert table["smooth"].to_numpy().tolist() == columns["smooth"].tolist()
    assert table["tokens"].to_pylist() == columns["tokens"].to_list()
    assert frame["id"].to_list() == list(range(ROWS))
    assert frame["smooth"].to_numpy().tolist() == columns["smooth"].tolist()
    assert asked == (ROWS * (ROWS - 1) // 2, pytest.approx(columns["smooth"].sum()), ROWS)
    assert (loaded["vector"] == columns["vector"]).all()
    assert loaded["tokens"].equals(columns["tokens"])
    assert not ferry.verify(path[0]).problems


def test_smaller(tmp_path):
    """Byte-stream-split makes floats that change slowly smaller; `save` and `convert` have it."""
    smooth = np.sin(np.arange(50_000) / 500).astype(np.float32)
    plain = ferry.save({"x": smooth}, tmp_path / "plain.parquet").nbytes
    split = ferry.save({"x": smooth}, tmp_path / "split.parquet", byte_stream_split=True).nbytes
    ferry.convert(
        tmp_path / "plain.parquet", tmp_path / "again.parquet", byte_stream_split=True, verify=True
    )

    assert split < 0.9 * plain
    group = parquet.ParquetFile(tmp_path / "again.parquet").metadata.row_group(0)
    assert "BYTE_STREAM_SPLIT" in group.column(0).encodings


def test_no_rows(tmp_path):
    """A table without rows has its columns, in a file of no row groups."""
    path = tmp_path / "x.parquet"
    with ferry.writer(path) as out:
        out.write_batch(pa.table({"x": pa.array([], pa.float32())}))

    found = parquet.ParquetFile(path)
    assert found.metadata.num_rows == 0
    assert found.schema_arrow.names == ["x"]
