"""Tables: Arrow and Parquet files opened piece by piece."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
import strategies
from conftest import CORPUS
from hypothesis import given, settings, strategies as st
from strategies import same

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import (
    FormatError,
    LimitError,
    UnknownFeatureError,
    UnknownFormatError,
    UnsupportedError,
)
from tensorferry.formats.arrow import file as arrow
from tensorferry.formats.parquet import encoding as parquet
from tensorferry.formats.tables.table import Table
from tensorferry.storage import open_source
from tensorferry.tensors.values import RaggedTensor, SparseTensor, TensorInfo

FORMATS: dict[str, Any] = {
    "file": (arrow, {}),
    "stream": (arrow, {"stream": True}),
    "compressed": (arrow, {"compression": "zstd"}),
    "parquet": (parquet, {}),
}

SAMPLE: dict[str, Any] = {
    "id": np.arange(5),
    "embedding": np.arange(10, dtype=np.float32).reshape(5, 2),
    "tokens": RaggedTensor.from_rows([[1, 2], [], [3], [4], [5, 6]]),
    "name": np.array([b"a", b"", b"\xff\0", b"c", b"d"], object),
    "half": np.arange(5).astype(ml_dtypes.bfloat16),
    "sparse": SparseTensor([[2, 1], [0, 0], [4, 3]], np.array([1.5, 2.5, 3.5]), [5, 4]),
    "images": [np.ones((1, 2)), np.zeros((2, 2)), np.ones((0, 1)), np.ones((1, 1)), np.eye(2)],
}


def described(table) -> dict[str, TensorInfo]:
    """What is known of columns, without the sizes that only Parquet tells."""
    return {name: replace(info, nbytes=None) for name, info in table.info.items()}


@pytest.fixture(params=FORMATS)
def path(request, tmp_path):
    """A file of five rows in pieces of two."""
    return save(tmp_path / "x", SAMPLE, request.param, batch_rows=2, metadata={"a": "b"})


def save(path: Any, leaves: dict[str, Any], kind: str = "file", **options: Any) -> Any:
    module, more = FORMATS[kind]
    with open(path, "wb") as file:
        module.write(leaves, file, **more, **options)
    return path


def row(number: int) -> dict[str, Any]:
    """What a row of the sample is."""
    found = {name: leaf[number] for name, leaf in SAMPLE.items() if name != "sparse"}
    return {**found, "sparse": list(SAMPLE["sparse"].rows())[number]}


def same_row(found: dict[str, Any], number: int) -> bool:
    expected = row(number)
    return set(found) == set(expected) and all(same(found[key], expected[key]) for key in found)


def test_rows(path):
    """Rows come one by one, by number, in slices and in any order, each as it was written."""
    with Table(path) as table:
        assert len(table) == 5
        for number, found in enumerate(table):
            assert same_row(found, number)
        assert same_row(table[3], 3)
        assert same_row(table[-5], 0)
        assert all(map(same_row, table[1:4], [1, 2, 3]))
        assert all(map(same_row, table[[4, 0, 4, 1]], [4, 0, 4, 1]))
        assert all(map(same_row, table[np.array([2, 1])], [2, 1]))
        assert table[5:] == table[[]] == []
        with pytest.raises(IndexError, match="row 5 of 5"):
            table[5]


def test_columns(path):
    """Columns come whole, by name, and each says what it is before it is read."""
    with Table(path) as table:
        assert table.columns == list(SAMPLE)
        for name, leaf in SAMPLE.items():
            assert same(table[name], leaf)
        assert described(table) == {
            "id": TensorInfo("id", "int64", (5,), kind="dense"),
            "embedding": TensorInfo("embedding", "float32", (5, 2), kind="dense"),
            "tokens": TensorInfo("tokens", "int32", (5, None), kind="ragged"),
            "name": TensorInfo("name", "string", (5,), kind="string"),
            "half": TensorInfo("half", "bfloat16", (5,), kind="dense"),
            "sparse": TensorInfo("sparse", "float64", (5, 4), kind="sparse"),
            "images": TensorInfo("images", "float64", (5, None, None), kind="list"),
        }
        assert table.metadata == {"a": "b"}
        assert table.arrow_schema.names == list(SAMPLE)
        assert list(table.schema) == sorted(SAMPLE)
        assert table.schema["embedding"].shape == (2,)
        assert table.schema["tokens"].shape == (None,)
        with pytest.raises(UnknownFeatureError, match="'other'"):
            table["other"]


def test_batches(path):
    """Batches cross the boundaries of pieces, and give the rows of the table in order."""
    with Table(path) as table:
        for rows in (1, 2, 3, 4, 5, 100):
            batches = list(table.batches(rows))
            sizes = [len(batch["id"]) for batch in batches]
            assert sizes == [min(rows, 5 - start) for start in range(0, 5, rows)]
            assert same(np.concatenate([batch["id"] for batch in batches]), SAMPLE["id"])
            lists = [row for batch in batches for row in batch["tokens"].to_list()]
            assert lists == SAMPLE["tokens"].to_list()
        assert [len(batch["id"]) for batch in table.batches(2, drop_remainder=True)] == [2, 2]
        with pytest.raises(ValueError, match="0 rows"):
            next(table.batches(0))


def test_arrow_batches(path):
    """Batches and the whole table as PyArrow's own."""
    with Table(path) as table:
        batches = list(table.batches(3, to="arrow"))
        assert [batch.num_rows for batch in batches] == [3, 2]
        whole = table.to_arrow()
    assert whole["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert pa.Table.from_batches(batches).equals(whole.combine_chunks())


def test_tensorflow_batches(tf, path):
    """Batches as TensorFlow's tensors."""
    columns = ["id", "embedding", "tokens", "name", "sparse"]
    with Table(path, columns=columns) as table:
        batch = next(table.batches(3, to="tensorflow"))
    assert batch["id"].numpy().tolist() == [0, 1, 2]
    assert batch["tokens"].to_list() == [[1, 2], [], [3]]
    assert isinstance(batch["sparse"], tf.SparseTensor)
    assert batch["name"].dtype == tf.string


def test_chosen_columns(path):
    """Only the columns asked for are there, in the order asked for."""
    with Table(path, columns=["tokens", "id"]) as table:
        assert table.columns == ["tokens", "id"]
        assert list(table[2]) == ["tokens", "id"]
        assert list(next(table.batches(2))) == ["tokens", "id"]
        assert table.to_arrow().column_names == ["tokens", "id"]
        with pytest.raises(UnknownFeatureError):
            table["name"]
    with Table(path, columns=[]) as table:
        assert list(table) == [{}] * 5
        assert table[1:3] == [{}, {}]
    with pytest.raises(UnknownFeatureError, match="'other'"):
        Table(path, columns=["other"])


def test_only_what_is_touched(path, monkeypatch):
    """A row reads its piece, and nothing else; asking again reads nothing."""
    with Table(path) as table:
        read = []
        reader = table._files.reader(0)
        batches = reader.batches
        monkeypatch.setattr(reader, "batches", lambda i, c: (read.append(i), batches(i, c))[1])
        table[4]
        table[-1]
        assert read == [2]
        table[[0, 3, 1]]
        assert read == [2, 0, 1]
        assert len(table) == 5
        assert table.info
        assert read == [2, 0, 1]
        list(table.batches(1))
        assert read == [2, 0, 1, 0, 1, 2]


def test_views_of_a_mapped_file(tmp_path):
    """Rows and batches of a file that is not compressed share its memory, and outlive it."""
    value = {"x": np.arange(12.0).reshape(4, 3)}
    path = save(tmp_path / "x", value, batch_rows=2)
    with open_source(path) as source:
        assert source.buffer is not None
        whole = np.frombuffer(source.buffer, np.uint8)
        with Table(source) as table:
            batch = next(table.batches(2))["x"]
            one = table[3]["x"]
            assert np.shares_memory(batch, whole)
            assert np.shares_memory(one, whole)
        assert source.buffer is None  # what was given is closed with the table
    os.unlink(path)
    assert batch.tolist() == value["x"][:2].tolist()
    assert one.tolist() == [9, 10, 11]


@pytest.mark.parametrize("kind", FORMATS)
def test_whole_tensors(kind, tmp_path):
    """A file of whole tensors gives each by its name, and all of them as its only row."""
    value = {"kernel": np.eye(3), "step": np.array(7), "lists": RaggedTensor.from_rows([[1], []])}
    with Table(save(tmp_path / "x", value, kind)) as table:
        assert len(table) == 1
        for name, leaf in value.items():
            assert same(table[name], leaf)
        assert described(table)["kernel"] == TensorInfo("kernel", "float64", (3, 3), kind="dense")
        assert described(table)["lists"] == TensorInfo(
            "lists", "int32", (None, None), kind="ragged"
        )
        (found,) = table
        assert found["kernel"].tolist() == np.eye(3).tolist()
        assert found["step"] == 7
        assert same(found["lists"], value["lists"])


FOREIGN = pa.table(
    {
        "point": [{"x": 1, "y": [1]}, {"x": 2, "y": None}, {"x": None, "y": [3]}, None],
        "number": [1, 2, 3, None],
        "text": ["a", "b", "c", "d"],
        "dictionary": pa.array(["a", "b", "a", None]).dictionary_encode(),
        "when": pa.array([0, 1, 2, 3], pa.timestamp("us")),
        "full": [1.5, 2.5, 3.5, 4.5],
    }
)


def written(table: pa.Table, kind: str) -> bytes:
    """What PyArrow writes, in pieces of two rows."""
    sink = io.BytesIO()
    if kind.startswith("parquet"):
        pq.write_table(table, sink, row_group_size=2, write_statistics=kind == "parquet")
        return sink.getvalue()
    make = ipc.new_stream if kind == "stream" else ipc.new_file
    with make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def foreign(kind: str) -> bytes:
    return written(FOREIGN, kind)


@pytest.mark.parametrize("kind", ["file", "stream", "parquet", "parquet without statistics"])
def test_foreign_tables(kind):
    """Null is None in a row; a column that is null anywhere is ragged in every batch."""
    with Table(foreign(kind)) as table:
        assert table.columns == [
            "point/x", "point/y", "number", "text", "dictionary", "when", "full",
        ]  # fmt: skip
        assert [row["number"] for row in table] == [1, 2, 3, None]
        assert [row["point/x"] for row in table] == [1, 2, None, None]
        assert [row["point/y"].tolist() for row in table] == [[1], [], [3], []]
        assert [row["dictionary"] for row in table] == [b"a", b"b", b"a", None]
        assert table[2] | {"point/y": 0} == {
            "point/x": None, "point/y": 0, "number": 3, "text": b"c",
            "dictionary": b"a", "when": 2, "full": 3.5,
        }  # fmt: skip
        for batch in table.batches(1):
            kinds = {name: type(leaf).__name__ for name, leaf in batch.items()}
            assert kinds == {
                "point/x": "RaggedTensor",
                "point/y": "RaggedTensor",
                "number": "RaggedTensor",
                "text": "ndarray",
                "dictionary": "RaggedTensor",
                "when": "ndarray",
                "full": "ndarray",
            }
        assert described(table)["number"] == TensorInfo("number", "int64", (4, None), kind="ragged")
        assert described(table)["text"] == TensorInfo("text", "string", (4,), kind="string")
        assert table["number"].to_list() == [[1], [2], [3], []]
        assert table["point/x"].to_list() == [[1], [2], [], []]
        assert table.metadata == {"tensorferry.type.when": "timestamp[us]"}


def test_stream_with_dictionaries_backwards():
    """Rows of a stream in any order, though its dictionaries can only be read forwards."""
    with Table(foreign("stream")) as table:
        assert [table[number]["dictionary"] for number in (3, 0, 2, 1)] == [None, b"a", b"a", b"b"]


def test_unknown_types_do_not_stand_in_the_way():
    """A column without a counterpart is listed with the reason, and only naming it is refused."""
    sink = io.BytesIO()
    table = pa.table({"bad": pa.array([1, 2], pa.decimal128(5)), "good": [1, 2]})
    pq.write_table(table, sink)
    with Table(sink.getvalue()) as opened:
        assert opened.info["bad"].dtype == "decimal128(5, 0)"
        assert opened.info["bad"].unreadable == "Arrow's type decimal128(5, 0) has no counterpart"
        assert opened.columns == ["good"]
        assert list(opened) == [{"good": 1}, {"good": 2}]
        assert list(opened.schema) == ["good"]
        assert "'bad' is left out" in opened.schema.notes[0]
        for use in (lambda: opened["bad"], lambda: list(opened.batches(2, columns=["bad"]))):
            with pytest.raises(UnsupportedError, match="decimal128") as caught:
                use()
            assert caught.value.tensor == "bad"
            assert caught.value.path == "<bytes>"
    with pytest.raises(UnsupportedError, match="decimal128"):
        Table(sink.getvalue(), columns=["good", "bad"])


@pytest.mark.parametrize("kind", ["file", "stream", "parquet"])
def test_nulls_in_lists_do_not_stand_in_the_way(kind):
    """A list with a null inside has no counterpart; the other columns and members have."""
    table = pa.table(
        {
            "lists": [[1, None], [2]],
            "struct": [{"a": 1, "b": [2, None]}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "good": [1, 2],
        }
    )
    with Table(written(table, kind)) as opened:
        assert [row["good"] for row in opened] == [1, 2]
        assert opened.columns == ["struct/a", "map/key", "map/value", "good"]
        assert opened["map/value"].to_list() == [[1], []]
        assert opened["struct/a"].to_list() == [[1], []]
        assert "nulls inside its lists" in (opened.info["lists"].unreadable or "")
        assert "nulls inside its lists" in (opened.info["struct/b"].unreadable or "")
        assert opened.notes[0].startswith("column 'lists' is left out")
        with pytest.raises(UnsupportedError, match="nulls inside") as caught:
            opened.select(["lists"])
        assert caught.value.tensor == "lists"
        for split in opened.splits(2):
            with split.open() as part:
                assert list(next(iter(part))) == opened.columns
    opened = Table(written(table, kind), columns=["lists"])
    with opened, pytest.raises(UnsupportedError, match="nulls inside"):
        list(opened)


def test_neighbours():
    """Files of other projects: every column is read, or listed with a reason."""
    folder = CORPUS / "neighbours"
    if not folder.exists():
        pytest.skip("no corpus")
    counts = {}
    for path in [*folder.glob("*.parquet"), *folder.glob("*.parq")]:
        with Table(path) as table:
            if path.name == "large_string_map.brotli.parquet":  # 4 kB that are 4 GB
                with pytest.raises(LimitError, match=r"limits\.memory"):
                    list(table)
                continue
            rows = list(table)
            expected = pq.ParquetFile(path).metadata.num_rows
            assert len(rows) == len(table) == expected
            assert all(list(row) == table.columns for row in rows)
            unreadable = [i for i in table.infos().values() if i.unreadable]
            counts[path.name] = len(table.columns), len(unreadable)
            assert len(table.schema) == len(table.columns)
    assert counts["decimals.parquet"] == (2, 1)
    assert counts["nested_maps.snappy.parquet"] == (5, 0)
    assert counts["map_array.parq"] == (8, 4)


@pytest.mark.parametrize("kind", FORMATS)
def test_empty(kind, tmp_path):
    """Tables without rows or columns."""
    with Table(save(tmp_path / "x", {"x": np.zeros((0, 3))}, kind)) as table:
        assert len(table) == 0
        assert list(table) == list(table.batches(3)) == table[:] == []
        assert table["x"].shape == (0, 3)
    with Table(save(tmp_path / "x", {}, kind)) as table:
        assert table.columns == []


def test_sources(tmp_path, path):
    """Paths, file objects, pipes and bytes."""
    data = path.read_bytes()
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(data)
    with open(path, "rb") as file, os.fdopen(read, "rb") as pipe:
        for source in (path, str(path), file, pipe, data, memoryview(data), bytearray(data)):
            with Table(source) as table:
                assert table["id"].tolist() == [0, 1, 2, 3, 4]


def test_pickle(path):
    """Other processes open the file anew; a stream has nothing to open."""
    with pickle.loads(pickle.dumps(Table(path, columns=["id"]))) as table:
        assert list(table[3]) == ["id"]
    with pickle.loads(pickle.dumps(ferry.open(path, format=Table(path).format))) as table:
        assert isinstance(table, Table)
        assert same_row(table[3], 3)
    with pytest.raises(TypeError, match="cannot be pickled"), open(path, "rb") as file:
        pickle.dumps(Table(file))


def test_closed(path):
    """A closed table says so."""
    table = Table(path)
    table.close()
    for use in (lambda: table[0], lambda: table["id"], lambda: next(table.batches(2))):
        with pytest.raises(ValueError, match="the table is closed"):
            use()


def test_errors_name_the_file(tmp_path, path, monkeypatch):
    """Errors say which file, whether they come on opening or later."""
    (tmp_path / "bad").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FormatError) as caught:
        list(Table(tmp_path / "bad"))
    assert caught.value.path == str(tmp_path / "bad")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(UnknownFormatError, match="neither Arrow nor Parquet") as caught:
        Table(tmp_path / "other")
    assert caught.value.path == str(tmp_path / "other")


@pytest.mark.parametrize("kind", ["compressed", "parquet"])
def test_budget_of_a_piece(kind, tmp_path, monkeypatch):
    """Pieces are held against limits.memory one by one, whole columns all together."""
    path = save(tmp_path / "x", {"x": np.zeros(1 << 20)}, kind, batch_rows=1 << 17)
    monkeypatch.setattr(limits, "memory", 2 << 20)
    with Table(path) as table:
        assert sum(len(batch["x"]) for batch in table.batches(1 << 17)) == 1 << 20
        with pytest.raises(LimitError, match=r"limits\.memory"):
            table["x"]


@settings(max_examples=40)
@given(
    st.one_of(strategies.arrays(), strategies.ragged_tensors(), strategies.sparse_tensors()),
    st.sampled_from(["file", "stream", "parquet"]),
    st.integers(1, 3),
)
def test_any_leaf(value, kind, batch_rows):
    """Any leaf comes back from a table, as a column and as the rows of batches."""
    rows = value.shape[0] if value.shape else 1
    if rows > 100:
        return
    module, options = FORMATS[kind]
    file = io.BytesIO()
    module.write({"x": value}, file, **options, batch_rows=batch_rows)
    with Table(file.getvalue()) as table:
        assert same(table["x"], value)
        if value.shape:
            assert sum(len(list(batch)) for batch in table) == rows
            (whole,) = list(table.batches(100)) or [{"x": table["x"]}]
            assert same(whole["x"], value)


def test_bytes_changed():
    """Changed bytes give other values or a typed error, whatever is asked of the table."""
    import random

    generator = random.Random(7)
    samples = [foreign(kind) for kind in ("file", "stream", "parquet")]
    for number in range(900):
        data = bytearray(samples[number % 3])
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.choice([0, 1, 127, 128, 255])
        with contextlib.suppress(FormatError, UnsupportedError), Table(bytes(data)) as table:
            repr(table.info)
            if len(table) < 1000:
                repr(list(table))
