"""Writing tables: rows one by one and batches, into one file or shards, and nothing is lost."""

from __future__ import annotations

import datetime
import io
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from strategies import same

import tensorferry as ferry
from tensorferry.errors import OptionError, UnsupportedError
from tensorferry.formats.parquet import groups
from tensorferry.formats.table import to_write
from tensorferry.formats.tables import gather
from tensorferry.formats.tables.table import Table
from tensorferry.formats.tables.writer import TableWriter, write_table
from tensorferry.storage.place import Target
from tensorferry.tensors.values import RaggedTensor, SparseTensor

FORMATS = ("arrow", "arrows", "parquet")


def opened(path: Any, *, shards: int | None = None, metadata: Any = None, **options: Any) -> Any:
    """A writer, by the ending of the name."""
    name = str(path).rpartition(".")[2].replace("arrows", "arrow")
    writes = to_write(name).writes_rows
    assert writes is not None
    target = Target(str(path), durable=False)
    return writes.writer(target, writes.options(**options), shards=shards, metadata=metadata or {})


ROWS: list[dict[str, Any]] = [
    {"id": 1, "score": 0.1, "name": "a", "raw": b"\xff", "flag": True, "tokens": [1, 2],
     "image": np.ones((2, 2), np.float32), "words": ["x", "yz"]},
    {"id": 2**40, "score": 2, "name": "ä", "raw": b"", "flag": False, "tokens": [],
     "image": np.zeros((2, 2), np.float32), "words": []},
    {"id": 3, "score": None, "name": None, "raw": b"\0", "flag": True, "tokens": (3,),
     "image": np.eye(2, dtype=np.float32), "words": ["w"]},
]  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_rows(kind, tmp_path):
    """Rows come back as they were written: numbers exactly, None as null, lists of any length."""
    path = tmp_path / f"x.{kind}"
    with opened(path, metadata={"model": "en-de", "number": 7}) as out:
        assert isinstance(out, TableWriter)
        assert out.paths == [str(path)]
        for row in ROWS:
            out.write(row)
        assert out.count == 3
        assert not path.exists()
    with Table(path) as table:
        assert table.metadata == {"model": "en-de", "number": 7}
        assert [row["id"] for row in table] == [1, 2**40, 3]
        assert [row["score"] for row in table] == [0.1, 2, None]
        assert [row["name"] for row in table] == [b"a", "ä".encode(), None]
        assert [row["raw"] for row in table] == [b"\xff", b"", b"\0"]
        assert [row["tokens"].tolist() for row in table] == [[1, 2], [], [3]]
        assert [row["words"].tolist() for row in table] == [[b"x", b"yz"], [], [b"w"]]
        assert same(np.stack([row["image"] for row in table]), np.stack([r["image"] for r in ROWS]))
        assert table.infos()["image"].dtype == "float32"
        assert table.infos()["score"].dtype == "float64"


@pytest.mark.parametrize("kind", FORMATS)
def test_official_reader(kind, tmp_path):
    """PyArrow reads what was written as its own types."""
    path = tmp_path / f"x.{kind}"
    with opened(path) as out:
        for row in ROWS:
            out.write(row)
    if kind == "parquet":
        table = pq.read_table(path)
    else:
        table = (ipc.open_stream if kind == "arrows" else ipc.open_file)(str(path)).read_all()
    table.validate(full=True)
    assert table["id"].type == pa.int64()
    assert table["score"].to_pylist() == [0.1, 2.0, None]
    assert table["tokens"].to_pylist() == [[1, 2], [], [3]]
    assert isinstance(table.schema.field("image").type, pa.FixedShapeTensorType)


@pytest.mark.parametrize("kind", FORMATS)
def test_batches_of_one_schema(kind, tmp_path):
    """Batches keep the metadata of the first, whether they bring the same, another or none."""
    path = tmp_path / f"x.{kind}"
    first = pa.schema([pa.field("x", pa.int64(), metadata={"a": "b"})], {"key": "value"})
    reader = pa.RecordBatchReader.from_batches(first, iter([]))
    with opened(path, metadata={"own": 1}) as out:
        out.write_batch(reader)  # of no batches: the schema counts all the same
        out.write_batch(pa.table({"x": [1, 2]}, schema=first))
        out.write_batch(pa.table({"x": [3]}))
    with Table(path) as table:
        assert [row["x"] for row in table] == [1, 2, 3]
        assert table.metadata["own"] == 1
        assert table.arrow_schema.field("x").metadata[b"a"] == b"b"
        assert table.arrow_schema.metadata[b"key"] == b"value"


@settings(max_examples=50)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "int": st.integers(-(2**63), 2**63 - 1),
                "float": st.one_of(st.none(), st.floats(allow_nan=False)),
                "text": st.one_of(st.none(), st.text(max_size=4)),
                "bytes": st.binary(max_size=4),
                "list": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
            }
        ),
        min_size=1,
        max_size=7,
    ),
    st.sampled_from(["arrow", "parquet"]),
    st.integers(1, 4),
)
def test_any_rows(rows, kind, together):
    """Whatever is written is read, however many rows are written together."""
    first = {"int": 0, "float": 0.5, "text": "a", "bytes": b"a", "list": [1]}
    rows = [first, *rows]
    sink = io.BytesIO()
    writes = to_write(kind).writes_rows
    assert writes is not None
    with writes.writer(
        Target("<bytes>", into=sink), writes.options(), shards=None, metadata={}
    ) as out:
        for number, row in enumerate(rows):
            out.write(row)
            if number % together == 0:
                out.flush()
    with Table(sink.getvalue()) as table:
        found = [{**row, "list": row["list"].tolist()} for row in table]
    for row in rows:
        row["text"] = None if row["text"] is None else row["text"].encode()
    assert found == rows


@pytest.mark.parametrize("kind", FORMATS)
def test_batches(kind, tmp_path):
    """Batches of columns, of lists, and PyArrow's own go into one file."""
    path = tmp_path / f"x.{kind}"
    with opened(path) as out:
        out.write_batch({"x": np.arange(3), "t": RaggedTensor.from_rows([[1], [], [2, 3]])})
        out.write_batch({"x": np.arange(2), "t": RaggedTensor.from_rows([[4], [5]])})
        assert out.count == 5
    with Table(path) as table:
        assert table["x"].tolist() == [0, 1, 2, 0, 1]
        assert table["t"].to_list() == [[1], [], [2, 3], [4], [5]]
    with opened(path) as out:
        out.write_batch({"id": [2, 3], "text": ["nein", "doch"], "list": [[1], []]})
        out.write({"id": 4, "text": "ja", "list": [7]})
        out.write_batch({"id": [5], "text": [None], "list": [[2]]})
    with Table(path) as table:
        assert table["id"].tolist() == [2, 3, 4, 5]
        assert [row["text"] for row in table] == [b"nein", b"doch", b"ja", None]
        assert table["list"].to_list() == [[1], [], [7], [2]]
    foreign = pa.table({"x": [1, None], "when": pa.array([0, 1], pa.timestamp("us"))})
    with opened(path) as out:
        out.write_batch(foreign)
        out.write_batch(foreign.to_batches()[0])
    with Table(path) as table:
        assert table.to_arrow()["when"].type == pa.timestamp("us")
        assert [row["x"] for row in table] == [1, None, 1, None]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_shards(kind, tmp_path, monkeypatch):
    """Rows go to shards in turn, a batch is divided among them, and all files appear together."""
    monkeypatch.setattr(gather, "GATHERED_ROWS", 2)
    with opened(tmp_path / f"x@3.{kind}") as out:
        for number in range(10):
            out.write({"id": number})
        assert os.listdir(tmp_path) == [] or all(n.startswith(".") for n in os.listdir(tmp_path))
    names = [f"x-{number:05}-of-00003.{kind}" for number in range(3)]
    assert sorted(os.listdir(tmp_path)) == names
    ids = [Table(tmp_path / name)["id"].tolist() for name in names]
    assert ids == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    with opened(tmp_path / f"y.{kind}", shards=2) as out:
        out.write_batch({"id": np.arange(5)})
        out.write({"id": np.int64(5)})
    assert out.paths == [str(tmp_path / f"y.{kind}-{number:05}-of-00002") for number in range(2)]
    assert [Table(path)["id"].tolist() for path in out.paths] == [[0, 1, 2, 5], [3, 4]]
    with opened(tmp_path / f"z@4.{kind}") as out:
        out.write({"id": 1})
    with Table(out.paths) as table:
        assert list(table) == [{"id": 1}]


def test_nothing_appears_after_an_error(tmp_path):
    """A row that does not fit, or an error of the caller's, leaves no file."""
    for kind in ("arrow", "parquet"):
        with pytest.raises(RuntimeError), opened(tmp_path / f"x@2.{kind}") as out:
            out.write({"id": 1})
            out.flush()
            raise RuntimeError
        with pytest.raises(UnsupportedError, match="'id'"), opened(tmp_path / f"x.{kind}") as out:
            out.write({"id": 1})
            out.write({"id": {}})
        with pytest.raises(UnsupportedError, match="no rows"), opened(tmp_path / f"x.{kind}"):
            pass
        assert os.listdir(tmp_path) == []
        with pytest.raises(ValueError, match="the writer is closed"):
            out.write({"id": 1})


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"x": 1}, {"x": 1.5}, "values are double, and int64 in the rows before"),
        ({"x": 1}, {"x": "a"}, "values are string, and int64"),
        ({"x": 1}, {"x": 1, "y": 2}, "have a column that the rows before do not have"),
        ({"x": np.zeros(2)}, {"x": np.zeros(3)}, "given as lists"),
        ({"x": None}, {"x": 1}, "all values are None"),
        ({"x": []}, {"x": [1]}, "all lists are empty"),
        ({"x": 2**70}, {"x": 1}, "expected numbers or strings"),
        ({"x": SparseTensor([[0]], [1.0], [2])}, {"x": 1}, ""),
    ],
)
def test_rows_that_do_not_fit(first, second, message, tmp_path):
    """A value of another kind than in the rows before is refused; the rows and column are named."""
    with pytest.raises(UnsupportedError) as caught, opened(tmp_path / "x.parquet") as out:
        for row in (first, second):
            out.write(row)
            out.flush()
    assert message in str(caught.value)
    assert caught.value.tensor in ("x", "y")


def test_integers_fit_floats(tmp_path):
    """An integer fits a column of floats; a missing value is null."""
    with opened(tmp_path / "x.parquet") as out:
        for row in ({"x": 0.5, "y": [0.5]}, {"x": 1, "y": [1]}, {"y": []}, {"x": 2}):
            out.write(row)
            out.flush()
    with Table(tmp_path / "x.parquet") as table:
        assert [row["x"] for row in table] == [0.5, 1, None, 2]
        assert [row["y"].tolist() for row in table] == [[0.5], [1], [], []]


def test_other_values(tmp_path):
    """Ragged, sparse and arrays of different shapes in rows."""
    rows: list[dict[str, Any]] = [
        {"r": RaggedTensor.from_rows([[1], [2, 3]]), "s": SparseTensor([[0]], [1.5], [3]),
         "v": np.ones((1, 2)), "n": [[1, 2], []]},
        {"r": RaggedTensor.from_rows([[4]]), "s": SparseTensor([[2]], [2.5], [3]),
         "v": np.ones((2, 1)), "n": [[3]]},
    ]  # fmt: skip
    with opened(tmp_path / "x.arrow") as out:
        for row in rows:
            out.write(row)
    with Table(tmp_path / "x.arrow") as table:
        assert table["r"].to_list() == [[[1], [2, 3]], [[4]]]
        assert table["n"].to_list() == [[[1, 2], []], [[3]]]
        assert table["s"].to_dense().tolist() == [[1.5, 0, 0], [0, 0, 2.5]]
        assert same(table["v"], [np.ones((1, 2)), np.ones((2, 1))])


def test_groups(tmp_path, monkeypatch):
    """Rows are gathered to row groups and record batches of the size asked for."""
    for kind in ("arrow", "parquet"):
        with opened(tmp_path / f"x.{kind}", batch_rows=3) as out:
            out.write_batch({"x": np.arange(8)})
            out.write_batch({"x": np.arange(8, 10)})
        with Table(tmp_path / f"x.{kind}") as table:
            sizes = table._files.rows(0)
            assert table["x"].tolist() == list(range(10))
        assert sizes == ([3, 3, 3, 1] if kind == "parquet" else [3, 3, 2, 2])
    monkeypatch.setattr(groups, "GROUP_BYTES", 8000)
    monkeypatch.setattr(groups, "SHARED_BYTES", 1)
    with opened(tmp_path / "y.parquet") as out:
        for _ in range(5):
            out.write_batch({"x": np.arange(1000)})
    assert pq.ParquetFile(tmp_path / "y.parquet").metadata.num_row_groups == 5


def test_ferry_writer(tmp_path):
    """`tensorferry.writer` writes the format that the name says, with its options."""
    with ferry.writer(tmp_path / "x.parquet", compression="gzip", metadata={"a": "b"}) as out:
        out.write({"id": 1, "text": "ja"})
    assert (
        pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(0).compression == "GZIP"
    )
    with Table(tmp_path / "x.parquet") as table:
        assert table.metadata == {"a": "b"}
        assert list(table) == [{"id": 1, "text": b"ja"}]
    with ferry.writer(tmp_path / "x.arrows") as out:
        out.write({"id": 1})
    assert ipc.open_stream((tmp_path / "x.arrows").read_bytes()).read_all().num_rows == 1
    with (
        pytest.raises(UnsupportedError, match="lzo"),
        ferry.writer(tmp_path / "x.parquet", compression="lzo") as out,
    ):
        out.write({"id": 1})
    with pytest.raises(OptionError, match="parquet has no option 'level'"):
        ferry.writer(tmp_path / "x.parquet", level=3)
    with pytest.raises(UnsupportedError), ferry.writer(tmp_path / "y.parquet") as out:
        out.write({"x": datetime.date(2020, 1, 1)})
    assert not (tmp_path / "y.parquet").exists()


def test_write_table():
    """Batches of one schema become a file; others are refused."""
    sink = io.BytesIO()
    count = write_table(
        ({"x": np.arange(2) + n} for n in range(3)), sink, format="parquet", metadata={"a": 1}
    )
    assert count == 6
    with Table(sink.getvalue()) as table:
        assert table["x"].tolist() == [0, 1, 1, 2, 2, 3]
        assert table.metadata == {"a": 1}
    with pytest.raises(UnsupportedError, match="row 2: the columns are x: double, and x: int64"):
        write_table([{"x": np.arange(2)}, {"x": np.zeros(1)}], io.BytesIO(), format="arrow")
    with pytest.raises(UnsupportedError, match="no rows"):
        write_table([], io.BytesIO(), format="arrow")
