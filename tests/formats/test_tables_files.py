"""Tables of several files: one schema, splits, damage, remote files, and bundles."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from strategies import same

import tensorferry as ferry
from tensorferry.errors import FormatError, OptionError, UnknownFeatureError, UnsupportedError
from tensorferry.formats.table import TABLE, to_read
from tensorferry.formats.tables import files as table_files
from tensorferry.formats.tables.reads import TableOptions
from tensorferry.formats.tables.table import Table
from tensorferry.rows.rows import Rows
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.values import RaggedTensor, SparseTensor

FORMATS = ("arrow", "parquet")


def write(path: Path, table: pa.Table, rows: int = 2) -> Path:
    """What PyArrow writes, in pieces of so many rows."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows, compression="none", use_dictionary=False)
    else:
        make = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
        with make(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int64()))])


def numbered(first: int, count: int) -> pa.Table:
    """Rows that know their number."""
    ids = range(first, first + count)
    rows = [{"id": i, "text": f"row {i}", "list": [i] * (i % 3)} for i in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture(params=FORMATS)
def paths(request, tmp_path) -> list[Path]:
    """Three files of 5, 0 and 6 rows."""
    return [
        write(tmp_path / f"{number}.{request.param}", numbered(first, count))
        for number, (first, count) in enumerate([(0, 5), (5, 0), (5, 6)])
    ]


def test_verbs_over_files(paths):
    """Several files are one ordered set of rows, whatever is asked of them."""
    with Table(paths) as table:
        assert isinstance(table, Rows)
        assert len(table) == table.count() == 11
        assert [row["id"] for row in table] == list(range(11))
        assert table[7]["text"] == b"row 7"
        assert [row["id"] for row in table[[9, 0, 4, 5]]] == [9, 0, 4, 5]
        assert [row["id"] for row in table[3:7]] == [3, 4, 5, 6]
        assert table["id"].tolist() == list(range(11))
        assert table.value()["list"].to_list() == [[i] * (i % 3) for i in range(11)]
        sizes = [len(batch["id"]) for batch in table.batches(4)]
        assert sizes == [4, 4, 3]
        assert [len(b["id"]) for b in table.batches(4, drop_remainder=True)] == [4, 4]
        assert [b.num_rows for b in table.batches(4, to="arrow")] == [4, 4, 3]
        assert table.infos()["id"].shape == (11,)
        assert table.files == [str(path) for path in paths]
        assert table.part("id", (slice(3, 5),)).tolist() == [3, 4]
        assert table.to_arrow()["id"].to_pylist() == list(range(11))
        assert next(table.batches(2, columns=["text"])).keys() == {"text"}


def test_ferry_open(paths):
    """`tensorferry.open` opens a list and a glob of files, which pickle."""
    folder, suffix = paths[0].parent, paths[0].suffix
    for given in ([str(path) for path in paths], str(folder / f"*{suffix}")):
        with ferry.open(given, columns=["id"]) as table, pickle.loads(pickle.dumps(table)) as again:
            assert isinstance(again, Table)
            assert list(again) == list(table) == [{"id": number} for number in range(11)]


def test_nulls_in_a_later_file(tmp_path):
    """A column that is null in any file is ragged in every batch, and in every split."""
    for kind in FORMATS:
        first = write(tmp_path / f"a.{kind}", pa.table({"x": [1, 2, 3]}))
        second = write(tmp_path / f"b.{kind}", pa.table({"x": pa.array([4, None], pa.int64())}))
        with Table([first, second]) as table:
            assert table.optional == {"x"}
            assert [b["x"].to_list() for b in table.batches(2)] == [[[1], [2]], [[3], [4]], [[]]]
            assert table[4] == {"x": None}
            assert table.schema["x"].optional
            for split in table.splits(5):
                with split.open() as part:
                    assert isinstance(part.value()["x"], RaggedTensor)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "text": [1]}, "column 'text' is int64, and string in {}"),
        ({"id": [1], "other": ["a"]}, "column 1 is called 'other', and 'text' in {}"),
        ({"text": ["a"], "id": [1]}, "column 0 is called 'text', and 'id' in {}"),
        ({"id": [1]}, "column 'text' of {} is missing"),
        ({"id": [1], "text": ["a"], "more": [1]}, "column 'more' is missing in {}"),
    ],
)
def test_other_schemas(kind, columns, message, tmp_path):
    """A file of another schema is refused; both files and the column are named."""
    first = write(tmp_path / f"a.{kind}", pa.table({"id": [1], "text": ["a"]}))
    second = write(tmp_path / f"b.{kind}", pa.table(columns))
    with Table([first, second]) as table:
        assert table.columns == ["id", "text"]
        with pytest.raises(FormatError) as caught:
            len(table)
    assert message.format(first) in caught.value.message
    assert caught.value.path == str(second)
    assert caught.value.tensor


def test_notes_of_fields_are_compared(tmp_path):
    """Bytes that stand for other values are another schema; other metadata is the same one."""
    ferry.save({"x": np.zeros(2, "bfloat16")}, tmp_path / "a.arrow", metadata={"a": "1"})
    ferry.save({"x": np.ones(2, "bfloat16")}, tmp_path / "b.arrow", metadata={"a": "2"})
    with Table([tmp_path / "a.arrow", tmp_path / "b.arrow"]) as table:
        assert table["x"].astype(float).tolist() == [0, 0, 1, 1]
        assert table.metadata == {"a": "1"}
    raw = pa.table({"x": pa.array([b"ab"], pa.binary(2))})
    write(tmp_path / "c.arrow", raw)
    table = Table([tmp_path / "a.arrow", tmp_path / "c.arrow"])
    with table, pytest.raises(FormatError, match="has the note"):
        len(table)


def test_files_are_opened_as_they_are_needed(tmp_path, monkeypatch):
    """Reading our own files opens one after the other; only so many stay open."""
    monkeypatch.setattr(table_files, "OPEN_AT_ONCE", 2)
    paths = [tmp_path / f"{number}.parquet" for number in range(5)]
    for number, path in enumerate(paths):
        ferry.save({"x": np.arange(3) + 3 * number}, path)
    with Table(paths) as table:
        rows = iter(table.batches(3))
        assert next(rows)["x"].tolist() == [0, 1, 2]
        assert [place.is_open for place in table.places] == [True] + [False] * 4
        assert [x for batch in rows for x in batch["x"].tolist()] == list(range(3, 15))
        assert sum(place.is_open for place in table.places) == 2
        assert table[1]["x"] == 1
        places = table.places
    assert not any(place.is_open for place in places)


def test_selection_shares_the_files(paths):
    """A selection has the same rows and files; closing either closes both."""
    with Table(paths) as table:
        part = table.select(["text", "id"])
        assert part.columns == ["text", "id"]
        assert part._files is table._files
        assert part[10] == {"text": b"row 10", "id": 10}
        assert part.select(["id"])[2] == {"id": 2}
        with pytest.raises(UnknownFeatureError, match="'list'"):
            part.select(["list"])
        with pytest.raises(UnknownFeatureError, match="did you mean 'text'"):
            table.select(["texd"])
    with pytest.raises(ValueError, match="closed"):
        part[0]


# Splits


@pytest.mark.parametrize("count", [1, 2, 3, 6, 100])
def test_splits(paths, count):
    """Splits, pickled and in their order, are exactly the rows; rows and bytes are known."""
    with Table(paths, columns=["id", "list"]) as table:
        splits = table.splits(count)
        assert len(splits) == min(count, 6)
        with pytest.raises(ValueError, match="0 splits"):
            table.splits(0)
    found = []
    for split in map(pickle.loads, map(pickle.dumps, splits)):
        with split.open() as rows:
            part = [row["id"] for row in rows]
            assert split.rows == len(rows) == len(part) > 0
            assert split.nbytes > 0
            assert rows[0]["id"] == part[0]
            assert len(rows.splits(100)) >= 1
            found += part
    assert found == list(range(11))


def test_splits_of_splits(paths):
    """A split can be divided again, and its parts are counted from the start of their file."""
    with Table(paths) as table:
        (_, second) = table.splits(2)
    with second.open() as rows:
        ids = [row["id"] for row in rows]
        parts = [part for split in rows.splits(10) for part in split.parts]
        assert [row["id"] for split in rows.splits(10) for row in split.open()] == ids
    starts = [part.first for part in parts]
    assert starts == [0 if number == 5 else number for number in starts]


def test_splits_of_nothing(tmp_path):
    """A table without rows is one split without rows, whose columns are known."""
    path = write(tmp_path / "a.parquet", numbered(0, 0))
    with Table(path) as table:
        (split,) = table.splits(3)
    assert split.rows == 0
    with split.open() as rows:
        assert rows.columns == ["id", "text", "list"]
        assert list(rows) == []


# Damage


def damaged(path: Path, index: int, value: int) -> None:
    """Changes a text in one piece of a file: Parquet has a checksum of it, Arrow only its UTF-8."""
    with Table(path) as table:
        ((start, stop),) = table._files.reader(0).spans(index, ["text"])
    data = path.read_bytes()
    place = data.rindex(f"row {value}".encode(), start, stop)  # before it are statistics
    path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])


@pytest.fixture(params=FORMATS)
def broken(request, tmp_path) -> list[Path]:
    """Two files of three pieces, of which the second piece of the second file is damaged."""
    paths = [tmp_path / f"{number}.{request.param}" for number in range(2)]
    for number, path in enumerate(paths):
        table = numbered(1000 + 6 * number, 6)
        if path.suffix == ".parquet":
            pq.write_table(
                table, path, row_group_size=2, compression="none", use_dictionary=False,
                write_page_checksum=True,
            )  # fmt: skip
        else:
            write(path, table)
    damaged(paths[1], 1, 1008)
    return paths


def test_skip(broken):
    """Damaged pieces are left out and noted once; without that they are errors."""
    rest = [*range(1000, 1008), 1010, 1011]
    with Table(broken, on_error="skip") as table:
        assert [row["id"] for row in table] == rest
        assert [x for batch in table.batches(3) for x in batch["id"].tolist()] == rest
        assert table["id"].tolist() == [*range(1000, 1012)]  # another column is damaged
        (damage,) = {damage.record: damage for damage in table.damages}.values()
        assert damage.path == str(broken[1])
        assert damage.record == 2
        assert damage.size > 0
        assert damage.problem
        assert len(table) == 12
        with pytest.raises(FormatError):
            table[8]
        assert table[11]["id"] == 1011
    with Table(broken) as table:
        with pytest.raises(FormatError) as caught:
            list(table)
        assert caught.value.path == str(broken[1])
        assert table.damages == []
    for split in Table(broken, on_error="skip").splits(6):
        with split.open() as rows:
            assert len(list(rows)) == (0 if rows.damages else 2)


def test_problems(broken):
    """Everything is read, and each damaged column of each piece is told."""
    told: list[Any] = []
    with Table(broken) as table:
        (problem,) = table.problems(lambda done, total: told.append((done, total)))
    assert problem.path == str(broken[1])
    assert problem.record == 2
    assert problem.tensor == "text"
    assert problem.offset is not None
    assert [done for done, _ in told] == [2, 4, 6, 8, 10, 12]


def test_skip_a_whole_file(paths):
    """A file that cannot be opened at all is left out, too; alone, it is an error."""
    paths[0].write_bytes(paths[0].read_bytes()[:-3])
    with Table(paths, format=paths[0].suffix[1:], on_error="skip") as table:
        assert [row["id"] for row in table] == list(range(5, 11))
        assert len(table) == 6
        assert [damage.path for damage in table.damages] == [str(paths[0])]
    with pytest.raises(FormatError):
        Table(paths[0], format=paths[0].suffix[1:], on_error="skip")
    with Table(paths[1:]) as table:
        assert list(table.problems()) == []
    with Table([paths[2], paths[0]]) as table:
        (problem,) = table.problems()
        assert problem.path == str(paths[0])


def test_keep_is_refused(paths):
    """Tables have nothing to keep."""
    with pytest.raises(OptionError, match="on_error is 'keep'"):
        ferry.open(str(paths[0]), on_error="keep")


# Remote files


@pytest.fixture(scope="module")
def wide() -> bytes:
    """Ten columns of a megabyte each, in two row groups."""
    generator = np.random.default_rng(7)
    columns = {f"c{number}": generator.random(1 << 17) for number in range(10)}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=1 << 16, compression="none")
    return sink.getvalue()


def test_remote_columns(s3, wide):
    """One of ten columns is a tenth of the bytes, in a few requests."""
    url = s3.put("wide.parquet", wide)
    expected = pq.read_table(pa.BufferReader(wide))["c3"].to_numpy()
    s3.clear()
    with ferry.open(url) as table:
        assert len(table) == 1 << 17
        assert table.infos()["c3"].shape == (1 << 17,)
        opening = list(s3.requests)
        assert np.array_equal(table["c3"], expected)
    fetched = sum(request.sent for request in s3.requests if request.method == "GET")
    assert fetched < len(wide) / 7
    assert sum(request.sent for request in opening if request.method == "GET") < 200_000
    assert len(opening) <= 4
    assert len(s3.requests) - len(opening) <= 4


def test_remote_row_groups(s3, wide):
    """A row reads its row group only; a batch of two columns is one plan of each row group."""
    url = s3.put("wide.parquet", wide)
    with ferry.open(url, columns=["c1", "c2"]) as table:
        s3.clear()
        assert len(table[1 << 16]) == 2
        fetched = sum(request.sent for request in s3.requests)
        assert fetched < 1.5 * len(wide) / 10
        # Neighbours come together, in pieces.
        assert len(s3.requests) <= 2
        assert len(list(table.batches(1 << 16))) == 2
        assert sum(request.sent for request in s3.requests) < 4 * len(wide) / 10
    with ferry.open(url) as table:
        s3.clear()
        assert len(table[3]) == 10
        assert sum(request.sent for request in s3.requests) < 1.1 * len(wide) / 2
        assert len(s3.requests) <= 3
        split = table.select(["c0"]).splits(2)[1]
        s3.clear()
        with pickle.loads(pickle.dumps(split)).open() as rows:
            assert len(next(rows.batches(1 << 17))["c0"]) == 1 << 16
        assert sum(request.sent for request in s3.requests) < 1.5 * len(wide) / 20 + 200_000


def test_remote_large_footer(s3):
    """A footer larger than what is fetched at first is fetched by a second request."""
    columns = {f"column_{number:05}": [number] for number in range(1500)}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    url = s3.put("many.parquet", sink.getvalue())
    with ferry.open(url, columns=["column_00007"]) as table:
        assert list(table) == [{"column_00007": 7}]


def test_remote_arrow(s3, tmp_path):
    """An Arrow file is read whole."""
    data = write(tmp_path / "a.arrow", numbered(0, 5)).read_bytes()
    with ferry.open(s3.put("a.arrow", data)) as table:
        assert [row["id"] for row in table] == list(range(5))


# Bundles


VALUES: list[Any] = [
    {"kernel": np.eye(3), "step": np.array(7), "lists": RaggedTensor.from_rows([[1], []])},
    [np.arange(3), {"a": np.ones(2)}],
    {"x": SparseTensor([[0, 1]], [1.5], [2, 7]), "y": np.zeros(3)},
    np.arange(4.0),
]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_bundles(kind, value, tmp_path):
    """What holds whole tensors or a structure opens as a bundle, and is read as it was saved."""
    path = tmp_path / f"x.{kind}"
    ferry.save(value, path, metadata={"a": 1})
    with ferry.open(path) as bundle:
        assert isinstance(bundle, Bundle)
        assert same(bundle.value(), value)
        assert bundle.metadata == {"a": 1}
        again = pickle.loads(pickle.dumps(bundle))
        assert list(bundle.problems()) == []
    assert same(again.value(), value)
    assert same(ferry.load(path), value)


@pytest.mark.parametrize("kind", FORMATS)
def test_quantized(kind, tmp_path):
    """Quantized columns open as a bundle, of floats or of what is stored."""
    value = {"x": np.linspace(-1, 1, 100).astype(np.float32)}
    path = tmp_path / f"x.{kind}"
    ferry.save(value, path, quantize="int8")
    with ferry.open(path) as bundle:
        assert bundle.info["x"].quantized == "int8"
        assert np.allclose(bundle["x"], value["x"], atol=0.01)
    with ferry.open(path, dequantize=False) as bundle:
        assert bundle["x"].dtype == np.int8


def test_bundle_reads_its_own_columns(s3):
    """A tensor of a remote bundle fetches its own column."""
    value = {f"t{number}": np.random.default_rng(number).random(1 << 16) for number in range(10)}
    buffer = io.BytesIO()
    ferry.save(value, buffer, format="parquet", rows=False)
    data = buffer.getvalue()
    url = s3.put("x.parquet", data)
    with ferry.open(url) as bundle:
        assert isinstance(bundle, Bundle)
        assert bundle.info["t3"].shape == (1 << 16,)
        assert np.array_equal(bundle["t3"], value["t3"])
    assert sum(request.sent for request in s3.requests if request.method == "GET") < len(data) / 4


def test_unreadable_in_a_bundle(tmp_path):
    """A column that has no counterpart is listed in a bundle, too."""
    path = tmp_path / "x.parquet"
    write(path, pa.table({"bad": pa.array([1], pa.decimal128(3)), "good": [1]}))
    with ferry.open(path, parts=True) as bundle:
        assert isinstance(bundle, Bundle)
        assert "decimal128" in (bundle.info["bad"].unreadable or "")
        assert bundle["good"].tolist() == [1]
        with pytest.raises(UnsupportedError, match="decimal128"):
            bundle["bad"]


def test_whole_tensors_of_several_files(tmp_path):
    """Whole tensors are no rows: several files of them are not one thing."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        ferry.save({"a": np.zeros(2), "b": np.zeros(3)}, path)
    with pytest.raises(UnsupportedError, match="whole tensors"):
        ferry.open([str(path) for path in paths])


def test_options():
    """Tables have the options of rows and bundles, and refuse others by name."""
    assert to_read("parquet").reads.options is TableOptions
    with pytest.raises(OptionError, match="did you mean 'columns'"):
        ferry.open(io.BytesIO(b"PAR1"), colums=["a"])  # type: ignore[call-arg]
    assert TABLE["arrow"].opens == TABLE["parquet"].opens == "rows"
    assert Place(b"").path == "<bytes>"


# Structs


@pytest.mark.parametrize("kind", FORMATS)
def test_members_in_arrow(kind, tmp_path):
    """A struct is one column in Arrow; members that are named are columns of their own."""
    rows = [{"x": 1, "y": [1]}, None, {"x": None, "y": [2, 3]}]
    lists = [[{"a": 1, "b": "u"}], None, []]
    path = write(tmp_path / f"x.{kind}", pa.table({"point": rows, "lists": lists, "id": [1, 2, 3]}))
    with Table(path) as table:
        (batch,) = table.batches(3, to="arrow")
        assert batch.schema.names == ["point", "lists", "id"]
        (batch,) = table.batches(3, to="arrow", columns=table.columns)
        assert batch.schema.names == ["point/x", "point/y", "lists/a", "lists/b", "id"]
        assert batch["point/x"].to_pylist() == [1, None, None]
        assert batch["lists/a"].to_pylist() == [[1], [], []]
        assert batch["id"].to_pylist() == [1, 2, 3]
