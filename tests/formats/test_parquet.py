"""Parquet files: everything comes back, PyArrow reads ours, and we read anybody's."""

from __future__ import annotations

import contextlib
import io
import random
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import strategies
from hypothesis import given, settings, strategies as st
from strategies import same
from tables import read as read_table

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import (
    FormatError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.formats.detect import detect_bytes
from tensorferry.formats.parquet import (
    encoding,
    footer as parquet_footer,
)
from tensorferry.storage import Buffers
from tensorferry.tensors.values import RaggedTensor, SparseTensor

SAMPLE: dict[str, Any] = {
    "id": np.arange(3),
    "embedding": np.arange(6, dtype=np.float32).reshape(3, 2),
    "tokens": RaggedTensor.from_rows([[1, 2], [], [3]]),
    "name": np.array([b"a", b"", b"\xff\0"], object),
    "half": np.array([1, 2, 3], ml_dtypes.bfloat16),
    "sparse": SparseTensor([[2, 1], [0, 0]], np.array([1.5, 2.5]), [3, 4]),
    "images": [np.ones((1, 2)), np.zeros((2, 2)), np.ones((0, 1))],
}


def read(data: bytes | memoryview, **options: Any) -> Any:
    return read_table(data, "parquet", **options)


def dumps(leaves: dict[str, Any], **options: Any) -> bytes:
    buffers = Buffers()
    encoding.write(leaves, buffers, **options)
    return b"".join(buffers)


def written(table: pa.Table, **options: Any) -> bytes:
    """What PyArrow writes."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(strategies.arrays(), strategies.ragged_tensors(), strategies.sparse_tensors())


@settings(max_examples=60)
@given(
    st.dictionaries(st.text(max_size=5), leaves(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.sampled_from([None, "zstd", "snappy", "gzip", "lz4", "brotli"]),
)
def test_roundtrip(value, metadata, compression):
    """What is written is what is read: names, order, dtype, shape, every bit, and the metadata."""
    data = dumps(value, metadata=metadata, compression=compression)

    found, noted = read(data)

    assert same(found, value)
    assert noted == metadata
    assert detect_bytes(data) == "parquet"


@settings(max_examples=60)
@given(leaves(), st.sampled_from([None, 1, 2]))
def test_rows_in_groups(value, batch_rows):
    """A column of rows comes back whole, however many row groups it stands in."""
    rows = value.shape[0] if value.shape else 1
    data = dumps({"x": value}, batch_rows=batch_rows if rows < 100 else None)

    assert same(read(data)[0], {"x": value})


def test_types_in_pyarrow():
    """PyArrow reads each column as the type that its values have in Arrow."""
    data = dumps(SAMPLE, batch_rows=2)
    table = pq.read_table(pa.BufferReader(data))

    assert same(read(data)[0], SAMPLE)
    embedding = pa.concat_arrays(table["embedding"].chunks)
    assert isinstance(embedding, pa.FixedShapeTensorArray)
    assert np.array_equal(embedding.to_numpy_ndarray(), SAMPLE["embedding"])
    assert table["tokens"].to_pylist() == [[1, 2], [], [3]]
    assert table["name"].to_pylist() == [b"a", b"", b"\xff\0"]
    assert table.schema.field("half").metadata[b"tensorferry.dtype"] == b"bfloat16"
    assert pq.ParquetFile(pa.BufferReader(data)).metadata.num_row_groups == 2


def test_foreign_file():
    """What PyArrow writes of any type that has a counterpart, with nulls and without."""
    table = pa.table(
        {
            "int": pa.array([1, 2, 3], pa.uint16()),
            "text": ["a", "ä", ""],
            "list": [[1.5], [], [2.5, 3.5]],
            "dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
            "when": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
            "point": [{"x": 1, "y": [1]}, {"x": None, "y": []}, None],
            "missing": [1, None, 3],
            "a.b": [1, 2, 3],
            "a": [{"b": 1}, {"b": 2}, {"b": 3}],
        }
    )
    for options in ({}, {"row_group_size": 1}, {"store_schema": False, "write_statistics": False}):
        found, metadata = read(written(table, **options))
        assert metadata == {"tensorferry.type.when": "timestamp[us, tz=UTC]"}
        assert same(found["int"], np.array([1, 2, 3], np.uint16))
        assert found["text"].tolist() == [b"a", "ä".encode(), b""]
        assert found["list"].to_list() == [[1.5], [], [2.5, 3.5]]
        assert found["dictionary"].tolist() == [b"b", b"a", b"b"]
        assert found["when"].tolist() == [0, 1, 2]
        assert found["point/x"].to_list() == [[1], [], []]
        assert found["point/y"].to_list() == [[1], [], []]
        assert found["missing"].to_list() == [[1], [], [3]]
        assert found["a.b"].tolist() == found["a/b"].tolist() == [1, 2, 3]
        assert list(read(written(table, **options), columns=["a.b"])[0]) == ["a.b"]
        assert read(written(table), columns=[])[0] == {}


def read_all(data: bytes) -> None:
    with contextlib.suppress(FormatError, UnsupportedError):
        repr(read(data))


SMALL = {name: SAMPLE[name] for name in ("id", "tokens")}


def test_cut_at_every_offset():
    """Cut anywhere, the bytes are refused."""
    data = dumps(SMALL)
    for end in range(len(data)):
        with pytest.raises(FormatError):
            read(data[:end])
    with pytest.raises(TruncatedError, match="does not end with PAR1"):
        read(data[:-1])


def test_bytes_changed():
    """Flipped bits and changed bytes give other values or a typed error."""
    data = dumps(SMALL)
    for position in range(0, len(data) * 8, 3):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        read_all(bytes(flipped))
    generator = random.Random(7)
    samples = [dumps(SAMPLE), dumps(SAMPLE, compression=None), dumps(SAMPLE, batch_rows=1)]
    for number in range(600):
        changed = bytearray(samples[number % len(samples)])
        for _ in range(generator.randint(1, 8)):
            changed[generator.randrange(len(changed))] = generator.choice([0, 1, 127, 128, 255])
        read_all(bytes(changed))


def test_checksums():
    """A changed value is found by its page's checksum, unless nobody asks."""
    data = dumps({"x": np.full(1000, 77.0)[:1]}, compression=None)
    place = data.index(np.float64(77).tobytes())
    changed = data[:place] + b"\x01" + data[place + 1 :]

    with pytest.raises(FormatError, match=r"(?i)crc|checksum"):
        read(changed)
    assert read(changed, verify=False)[0]["x"] != 77


def test_budget(monkeypatch):
    """A constant takes few bytes in the file, and is held against limits.memory before reading."""
    data = written(pa.table({"x": np.zeros(1 << 20)}), use_dictionary=False, compression="zstd")
    assert len(data) < 10_000
    assert len(read(data)[0]["x"]) == 1 << 20
    monkeypatch.setattr(limits, "memory", 1 << 20)
    with pytest.raises(LimitError, match=r"limits\.memory"):
        read(data)
    for column in (
        pa.nulls(1 << 20, pa.int64()),
        pa.nulls(1 << 20, pa.string()),
        np.zeros(1 << 20),
    ):
        data = written(pa.table({"x": column}))
        with pytest.raises(LimitError, match=r"limits\.memory"):
            read(data)


@pytest.mark.parametrize("encoding", ["dictionary", "DELTA_BYTE_ARRAY"])
def test_repeated_strings(encoding, monkeypatch):
    """Long strings that are repeated in few bytes are read in steps, up to limits.memory."""
    table = pa.table({"x": [b"x" * 10_000] * 1000, "y": range(1000)})
    options: Any = {"store_schema": False}
    if encoding != "dictionary":
        options |= {"use_dictionary": False, "column_encoding": {"x": encoding, "y": "PLAIN"}}
    data = written(table, **options)
    assert len(data) < 20_000

    monkeypatch.setattr(limits, "memory", 11 << 20)
    assert read(data)[0]["x"].tolist() == table["x"].to_pylist()
    monkeypatch.setattr(limits, "memory", 5 << 20)
    before = pa.total_allocated_bytes()
    with pytest.raises(LimitError, match=r"limits\.memory"):
        read(data)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_footer_is_what_pyarrow_sees():
    """Our reading of the footer agrees with PyArrow's, for good files of many kinds."""
    table = pa.table({"a": [1, None, 3], "b": [["x"], [], None], "c": [{"d": 1.5}] * 3})
    for options in ({}, {"row_group_size": 2}, {"write_statistics": False, "compression": "gzip"}):
        data = written(table, **options)
        metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
        start = len(data) - 8 - metadata.serialized_size
        groups = parquet_footer.read_footer(data[start:-8], offset=start).groups
        assert len(groups) == metadata.num_row_groups
        for index, group in enumerate(groups):
            expected = metadata.row_group(index)
            assert group.rows == expected.num_rows
            for chunk, column in zip(group.chunks, map(expected.column, range(3)), strict=True):
                assert ".".join(chunk.path) == column.path_in_schema
                assert chunk.values == column.num_values
                assert chunk.unpacked == column.total_uncompressed_size
                assert chunk.start == (column.dictionary_page_offset or column.data_page_offset)
                known = column.statistics
                assert chunk.nulls == (known.null_count if known else None)


def test_refused():
    """Encrypted files and footers beyond the file."""
    with pytest.raises(UnsupportedError, match="encrypted"):
        read(b"PARE" + bytes(20) + b"PARE")
    with pytest.raises(FormatError, match="footer takes 4294967295 bytes"):
        read(b"PAR1" + b"\xff" * 4 + b"PAR1")
    with pytest.raises(UnsupportedError, match="compression is 'lzo'"):
        dumps(SMALL, compression="lzo")


@pytest.mark.parametrize("statistics", [True, False])
def test_what_cannot_be_read_stays_alone(tmp_path, statistics):
    """Null maps, columns of only null, decimals: the other columns and members are read."""
    one, two = Decimal("1.5"), [("k", None)]
    entries = pa.map_(pa.string(), pa.int64())
    member = pa.struct(
        [
            ("size", pa.int64()),
            ("price", pa.decimal128(5, 1)),
            ("tags", entries),
            ("none", pa.null()),
        ]
    )
    rows = [{"size": 3, "price": one, "tags": two, "none": None}, None, {"size": 5}]
    table = pa.table(
        {
            "id": pa.array([1, 2, 3]),
            "map": pa.array([[("a", 1)], None, []], entries),
            "none": pa.nulls(3),
            "price": pa.array([one, None, one], pa.decimal128(5, 1)),
            "missing": pa.nulls(3, pa.int64()),
            "add": pa.array(rows, member),
        }
    )
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, write_statistics=statistics)

    refused = {"none", "price", "add/price", "add/none", "add/tags/value"}
    with ferry.open(path) as opened:
        names = list(opened.infos())
        first = next(iter(opened))
    assert set(names) - set(first) == refused
    for name in names:
        if name in refused:
            with (
                pytest.raises(ferry.UnsupportedError) as caught,
                ferry.open(path, columns=[name]) as only,
            ):
                list(only)
            assert caught.value.tensor == name
        else:
            with ferry.open(path, columns=[name]) as only:
                assert [list(row) for row in only] == [[name]] * 3
    with ferry.open(path, columns=["add/size", "id"]) as only:
        assert [row["add/size"] for row in only] == [3, None, 5]
    value = ferry.load(path)
    assert value["missing"].row_lengths.tolist() == [0, 0, 0]
    assert value["map/key"].row_lengths.tolist() == [1, 0, 0]
