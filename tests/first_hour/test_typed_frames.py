"""Frames in formats that have fewer types than they: text is text again, a time a time."""

from __future__ import annotations

import datetime
import io
import json
import math
import pickle
import zoneinfo
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pandas.testing import assert_frame_equal
from pyarrow import csv

import tensorferry as ferry
from tensorferry.errors import FormatError, UnknownFeatureError, UnsupportedError

NAMES = ("x.tfrecord", "x.csv", "x.jsonl", "x.tfrecord.gz", "x.csv.gz")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def pandas_frame() -> pd.DataFrame:
    """What people have in a frame, with holes."""
    return pd.DataFrame(
        {
            "text": ["1", None, "née"],
            "id": [3, 1, 2],
            "when": pd.to_datetime(["2024-01-02 03:04:05.000006", None, "1969-01-01 00:00:00.5"]),
            "zoned": pd.to_datetime(["2024-01-02", "2024-07-02", None]).tz_localize(BERLIN),
            "score": [0.1, np.nan, -1.0],
            "count": pd.array([1, None, 3], dtype="Int32"),
            "flag": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "kind": pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"], ordered=True),
            "size": pd.Categorical([7, 5, 7]),
        },
        index=pd.Index([10, 20, 30], name=None),
    )


def polars_frame() -> pl.DataFrame:
    """The types that pandas lacks."""
    return pl.DataFrame(
        {
            "zone": pl.Series(["ja", None, ""]),
            "id": pl.Series([1, 2, 3], dtype=pl.UInt16),
            "when": pl.Series([0, None, 7], dtype=pl.Datetime("ns", "Asia/Tokyo")),
            "day": [datetime.date(2024, 1, 2), None, datetime.date(1900, 1, 1)],
            "clock": [datetime.time(1, 2, 3, 4), None, datetime.time(23, 59)],
            "price": pl.Series([Decimal("12.50"), None, Decimal("-0.01")], dtype=pl.Decimal(10, 2)),
            "kind": pl.Series(["b", "a", None], dtype=pl.Categorical),
            "fixed": pl.Series(["b", "a", None], dtype=pl.Enum(["a", "b", "c"])),
            "small": pl.Series([1.5, None, 0.1], dtype=pl.Float32),
        }
    )


def arrow_table() -> pa.Table:
    """Units, and the kinds of text."""
    return pa.table(
        {
            "text": pa.array(["ja", "nein", None], pa.large_string()),
            "view": pa.array(["ja", "nein", None], pa.string_view()),
            "id": pa.array([1, 2, None], pa.int8()),
            "large": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "second": pa.array([1, None, 3], pa.timestamp("s")),
            "milli": pa.array([1, None, 3], pa.timestamp("ms", "UTC")),
            "clock": pa.array([1, None, 3], pa.time32("s")),
            "date": pa.array([0, None, 86_400_000], pa.date64()),
            "price": pa.array([Decimal("1.25"), None, Decimal("3.00")], pa.decimal128(9, 2)),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "nothing": pa.nulls(3),
        }
    )


@pytest.mark.parametrize("name", NAMES)
def test_pandas(name, tmp_path, monkeypatch):
    """`save(df, "x.csv")`: `to_pandas` gives the frame, with its index and its categories."""
    monkeypatch.chdir(tmp_path)
    df = pandas_frame()

    ferry.save(df, name)

    assert_frame_equal(ferry.open(name).to_pandas(), df)
    some = ferry.open(name, columns=["when", "text"]).to_arrow()
    assert some.column_names == ["when", "text"]
    assert some["text"].to_pylist() == ["1", None, "née"]
    if name != "x.csv.gz":  # which is bytes in memory
        assert_frame_equal(pickle.loads(pickle.dumps(ferry.open(name))).to_pandas(), df)


@pytest.mark.parametrize("name", NAMES)
def test_polars(name, tmp_path, monkeypatch):
    """`save(df, "x.csv")`: `to_polars` gives the frame, with every type."""
    monkeypatch.chdir(tmp_path)
    df = polars_frame()

    ferry.save(df, name)

    found = ferry.open(name).to_polars()
    assert found.schema == df.schema
    assert found.equals(df)


@pytest.mark.parametrize("name", NAMES)
def test_arrow(name, tmp_path, monkeypatch):
    """Tables, record batches and readers of Arrow keep every column, its place and its type."""
    monkeypatch.chdir(tmp_path)
    table = arrow_table()

    for frame in (table, table.to_batches()[0], table.to_reader(), iter([table])):
        ferry.save(frame, name)
        rows = ferry.open(name)
        assert rows.to_arrow().equals(table)
        assert pa.table(rows).equals(table)
        assert rows.arrow_schema.equals(table.schema)


def test_what_only_some_have(tmp_path, monkeypatch):
    """TFRecords have bytes, durations, lists, structs and tensors; CSV has durations."""
    monkeypatch.chdir(tmp_path)
    struct = [{"x": 1, "y": ["u"]}, None, {"x": None, "y": []}]
    table = pa.table(
        {
            "took": pa.array([1, None, 3], pa.duration("ms")),
            "bytes": pa.array([b"\xff", b"", None], pa.large_binary()),
            "half": pa.array([1.5, None, 0.5], pa.float16()),
            "days": pa.array([[1], None, []], pa.list_(pa.date32())),
            "doubles": pa.array([[0.1], None, []], pa.list_(pa.float64())),
            "words": pa.array([["a", "b"], None, []], pa.large_list(pa.string())),
            "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
            "point": pa.array(struct),
            "matrix": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((3, 2, 2), np.float32)),
            "key": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        }
    )

    ferry.save(table, "x.tfrecord")
    assert ferry.open("x.tfrecord").to_arrow().equals(table)
    some = table.select(["took", "half", "key"])
    ferry.save(some, "x.csv")
    assert ferry.open("x.csv").to_arrow().equals(some)
    with pytest.raises(UnsupportedError, match=r"'took'.*no schema beside tells"):
        ferry.save(some, io.BytesIO(), format="csv")
    hollow = pa.table({"point": pa.array([{"x": None}], pa.struct([("x", pa.int64())]))})
    with pytest.raises(UnsupportedError, match=r"'point'.*a struct of nulls alone"):
        ferry.save(hollow, "x.tfrecord")
    with pytest.raises(UnsupportedError, match="null"):
        ferry.save(pa.table({"list": [[1, None]]}), "x.tfrecord")


@pytest.mark.parametrize("name", ["x.tfrecord", "x.csv", "x.jsonl", "x@3.tfrecord", "x@3.csv"])
def test_write_batch(name, tmp_path, monkeypatch):
    """`write_batch(table)`: types stay over batches, categories add up; of shards, too."""
    monkeypatch.chdir(tmp_path)
    days = pd.to_datetime(["2024-01-02", None])
    with ferry.writer(name) as out:
        out.write_batch(pd.DataFrame({"day": days, "kind": pd.Categorical(["b", "a"])}))
        out.write_batch(pd.DataFrame({"day": days, "kind": pd.Categorical(["c", None])}))
        with pytest.raises(UnsupportedError, match="day"):
            out.write_batch(pd.DataFrame({"day": [1, 2], "kind": pd.Categorical(["c", None])}))

    found = ferry.open(name).to_pandas()
    order = np.argsort(found["kind"].astype(object).fillna("z").to_numpy())
    assert found["kind"].cat.categories.tolist() == ["a", "b", "c"]
    assert found["kind"].iloc[order].tolist()[:3] == ["a", "b", "c"]
    assert found["day"].dtype == days.dtype
    assert found["day"].isna().sum() == 2


def test_tensorflow_reads_it(tf, tmp_path, monkeypatch):
    """Texts are strings for `tf.io.parse_example`, integers and bools int64, times counts."""
    monkeypatch.chdir(tmp_path)
    ferry.save(pandas_frame().drop(columns="score"), "x.tfrecord")

    spec = {
        "text": tf.io.FixedLenFeature((), tf.string, default_value="missing"),
        "id": tf.io.FixedLenFeature((), tf.int64),
        "when": tf.io.FixedLenFeature((), tf.int64, default_value=-1),
        "flag": tf.io.FixedLenFeature((), tf.int64),
        "kind": tf.io.FixedLenFeature((), tf.string),
    }
    records = list(tf.data.TFRecordDataset("x.tfrecord").as_numpy_iterator())
    found = tf.io.parse_example(records, spec)
    assert found["text"].numpy().tolist() == [b"1", b"missing", "née".encode()]
    assert found["id"].numpy().tolist() == [3, 1, 2]
    first = datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert found["when"].numpy()[0] == (first - epoch) // datetime.timedelta(microseconds=1)
    assert found["flag"].numpy().tolist() == [1, 0, 1]
    assert found["kind"].numpy().tolist() == [b"b", b"a", b"b"]
    assert ferry.load("x.tfrecord")["id"].tolist() == [3, 1, 2]


def test_a_null_far_behind(tmp_path, monkeypatch):
    """The first null may stand behind all records that inferring a schema looks at."""
    monkeypatch.chdir(tmp_path)
    values = pd.array([1] * 5000 + [None], dtype="Int64")
    df = pd.DataFrame({"x": values, "text": ["a"] * 5000 + [None]})
    for name in ("x.tfrecord", "x.csv"):
        ferry.save(df, name)
        assert_frame_equal(ferry.open(name).to_pandas(), df)


def test_texts_that_look_like_others(tmp_path, monkeypatch):
    """Texts of digits, of nothing, and of what means nothing stay what they are."""
    monkeypatch.chdir(tmp_path)
    df = pd.DataFrame(
        {"id": range(7), "text": ["1", "", "NA", "null", "2024-01-01", 'a,\n"b', None]}
    )
    for name in NAMES:
        ferry.save(df, name)
        assert_frame_equal(ferry.open(name).to_pandas(), df)


def test_no_rows(tmp_path, monkeypatch):
    """A frame without rows has its columns all the same."""
    monkeypatch.chdir(tmp_path)
    df = pandas_frame().iloc[:0]
    for name in ("x.tfrecord", "x.csv", "x.jsonl"):
        ferry.save(df, name)
        assert_frame_equal(ferry.open(name).to_pandas(), df)


def test_files_of_others(tmp_path, monkeypatch):
    """Without a schema, a CSV file has the types that PyArrow's reader finds, and text is text."""
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(
        "id,x,text,when,day,flag\n1,0.5,ja,2024-01-02 03:04:05,2024-01-02,true\n2,,,,,\n"
    )

    found, theirs = ferry.open("x.csv").to_arrow(), csv.read_csv("x.csv")

    assert found.schema.types == theirs.schema.types
    assert [column.to_pylist() for column in found] == [one.to_pylist() for one in theirs]
    assert ferry.open("x.csv").to_pandas()["text"].tolist() == ["ja", ""]


def test_the_schema_goes_with_the_file(tmp_path, monkeypatch):
    """Whoever writes other rows under the name takes the old schema away."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        beside = Path(f"{name}.schema.json")
        ferry.save(pandas_frame(), name)
        assert beside.exists()
        ferry.save({"a": np.arange(3)}, name)
        assert not beside.exists()
        assert ferry.open(name).columns == ["a"]
    with ferry.writer("y.csv") as out:
        out.write({"a": 1})
    assert not Path("y.csv.schema.json").exists()
    with pytest.raises(RuntimeError), ferry.writer("z.csv") as out:
        out.write_batch(pandas_frame())
        raise RuntimeError
    assert not list(Path().glob("z*"))


def test_another_file_of_the_name(tmp_path, monkeypatch):
    """A schema that is about another file is an error that says what to do."""
    monkeypatch.chdir(tmp_path)
    ferry.save(pandas_frame(), "x.csv")
    Path("x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnknownFeatureError, match="'text', which the file lacks"):
        ferry.open("x.csv")
    ferry.save(pd.DataFrame({"a": [1, 2], "kind": pd.Categorical(["x", "y"])}), "x.csv")
    Path("x.csv").write_text("a,kind\n1,x\n1.5,z\n")
    with pytest.raises(FormatError, match=r"invalid value '1\.5'"):
        ferry.open("x.csv").to_arrow()
    Path("x.csv").write_text("a,kind\n1,x\n2,z\n")
    with pytest.raises(FormatError, match="none of the categories"):
        ferry.open("x.csv").to_arrow()


@pytest.mark.parametrize(
    "columns",
    [
        *(7, [7], [{}], [{"name": "a"}], [{"name": 7, "type": "int8"}], [{"name": "a", "type": 7}]),
        *(
            [{"name": "a", "type": one}]
            for one in ("float", {}, [], {"timestamp": "h"}, {"list": 7})
        ),
        [{"name": "a", "type": {"timestamp": "s", "zone": 7}}],
        [{"name": "a", "type": {"decimal128": [99, 1]}}],
        [{"name": "a", "type": {"fixed_size_binary": -1}}],
        [{"name": "a", "type": {"fixed_size_binary": 2**40}}],
        [{"name": "a", "type": {"dictionary": "int8", "index": "string"}}],
        [{"name": "a", "type": {"dictionary": "int8", "index": "int8"}, "categories": ["x"]}],
        [{"name": "a", "type": {"dictionary": "null", "index": "int8"}, "categories": [7]}],
        [{"name": "a", "type": {"tensor": "int8", "shape": [-1, "x"]}}],
        [{"name": "a", "type": "int8", "metadata": 7}],
    ],
)
def test_hostile_schemas(columns, tmp_path):
    """A schema that has no types of Arrow is refused as such."""
    tree = {"version": 1, "features": [], "frame": {"columns": columns}}
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    Path(f"{path}.schema.json").write_text(json.dumps(tree))
    with pytest.raises(FormatError, match=r"x\.csv.*no types of Arrow"):
        ferry.open(path)


def test_appended(tmp_path, monkeypatch):
    """Frames that are appended keep the types, and must have them."""
    monkeypatch.chdir(tmp_path)
    df = pd.DataFrame({"text": ["a", "b"], "day": pd.to_datetime(["2024-01-02", "2024-01-03"])})
    more = pd.DataFrame({"text": ["c", None], "day": pd.to_datetime([None, "2024-01-03"])})
    ferry.save(df, "x.tfrecord")
    with ferry.writer("x.tfrecord", append=True) as out:
        out.write_batch(more)
    assert_frame_equal(
        ferry.open("x.tfrecord").to_pandas(), pd.concat([df, more], ignore_index=True)
    )
    with (
        pytest.raises(UnsupportedError, match="timestamp"),
        ferry.writer("x.tfrecord", append=True) as out,
    ):
        out.write_batch(pd.DataFrame({"text": ["c"], "day": [5]}))
    assert len(ferry.open("x.tfrecord")) == 4
    with ferry.writer("y.tfrecord") as out:
        out.write({"text": "a"})
    with ferry.writer("y.tfrecord", append=True) as out:
        out.write_batch(df)
    assert not Path("y.tfrecord.schema.json").exists()
    assert ferry.open("y.tfrecord", infer="all").to_arrow().num_rows == 3


def test_mixed_with_others(tmp_path, monkeypatch):
    """Frames behind other rows: their columns are those of the first rows, and nothing is added."""
    monkeypatch.chdir(tmp_path)
    df = pd.DataFrame({"id": [2, 3], "text": ["b", "c"]}, index=[7, 9])
    for name in ("x.tfrecord", "x.csv", "x.jsonl", "x.parquet"):
        with ferry.writer(name) as out:
            out.write({"id": 1, "text": "a"})
            out.write_batch(df if name != "x.parquet" else df.reset_index(drop=True))
        assert not Path(f"{name}.schema.json").exists()
        assert ferry.open(name).columns == ["id", "text"]
        assert [row["id"] for row in ferry.open(name)] == [1, 2, 3]


def test_remote(tmp_path):
    """A file in a store has its schema beside it, too."""
    folder = f"memory://{tmp_path.name}"
    for name in ("x.tfrecord", "x.csv"):
        ferry.save(pandas_frame(), f"{folder}/{name}")
        assert_frame_equal(ferry.open(f"{folder}/{name}").to_pandas(), pandas_frame())


def test_nothing_beside_a_device():
    """A device or a pipe gets the rows, and no schema is left beside it."""
    ferry.save(pandas_frame(), "/dev/null", format="csv")
    ferry.save(pandas_frame(), "/dev/null", format="tfrecord")
    assert not Path("/dev/null.schema.json").exists()


COLUMNS = st.sampled_from(
    [
        (pa.int8(), st.integers(-128, 127)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float32(), st.floats(width=32)),
        (pa.float64(), st.floats()),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text()),
        (pa.large_string(), st.text(max_size=3)),
        (pa.timestamp("s"), st.integers(-(2**32), 2**32)),
        (pa.timestamp("ns", "UTC"), st.integers(-(2**60), 2**60)),
        (pa.timestamp("us", "America/New_York"), st.integers(-(2**50), 2**50)),
        (pa.date32(), st.integers(-(2**16), 2**16)),
        (pa.time64("us"), st.integers(0, 86_399_999_999)),
        (pa.decimal128(9, 3), st.decimals(-(10**5), 10**5, places=3)),
        (pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["a", "b", ""])),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of several columns, with nulls."""
    rows = draw(st.integers(0, 6))
    columns: dict[str, pa.Array] = {"number": pa.array(range(rows), pa.int32())}
    for place in range(draw(st.integers(1, 4))):
        kind, values = draw(COLUMNS)
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        if pa.types.is_dictionary(kind):
            columns[f"c{place}"] = pa.array(drawn, pa.string()).dictionary_encode().cast(kind)
        else:
            columns[f"c{place}"] = pa.array(drawn, kind)
    return pa.table(columns)


def plain(table: pa.Table) -> str:
    """All values, with NaN as itself."""
    return repr({name: table[name].to_pylist() for name in table.column_names})


@settings(max_examples=12, deadline=None)
@given(tables())
def test_generated(tmp_path_factory, table):
    """Whatever the columns hold: the table that was saved is the table that is read."""
    folder = tmp_path_factory.mktemp("frames")
    for name in ("x.tfrecord", "x.csv", "x.jsonl"):
        numbers = [
            n for column in table.columns for n in column.to_pylist() if isinstance(n, float)
        ]
        if name == "x.jsonl" and not all(map(math.isfinite, numbers)):
            continue
        ferry.save(table, folder / name, durable=False)
        found = ferry.open(folder / name).to_arrow()
        assert found.schema.equals(table.schema)
        assert plain(found) == plain(table)
        if table.num_rows:
            polars = ferry.open(folder / name).to_polars()
            assert polars.equals(pl.DataFrame(table), null_equal=True)
