"""Tables of pandas, polars and Arrow into files and back, typed as people type it."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import tensorferry as ferry
from tensorferry.errors import UnsupportedError


def pandas_frame() -> pd.DataFrame:
    """A frame as people have them: texts, times, categories, and holes in all of them."""
    return pd.DataFrame(
        {
            "id": [1, 2, 3],
            "text": ["ja", None, "née"],
            "when": pd.to_datetime(["2024-01-02 03:04:05.000006", None, "1969-01-01 00:00:00.5"]),
            "zoned": pd.to_datetime(["2024-01-02", "2024-07-02", None]).tz_localize(
                "Europe/Berlin"
            ),
            "score": [0.5, np.nan, -1.0],
            "count": pd.array([1, None, 3], dtype="Int32"),
            "flag": [True, False, True],
            "kind": pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"]),
        },
        index=[10, 20, 30],
    )


def polars_frame() -> pl.DataFrame:
    """The same for polars, with the types that pandas lacks."""
    return pl.DataFrame(
        {
            "id": pl.Series([1, 2, 3], dtype=pl.UInt16),
            "text": ["ja", None, "née"],
            "when": [
                datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
                None,
                datetime.datetime(1969, 1, 1),
            ],
            "day": [datetime.date(2024, 1, 2), None, datetime.date(1900, 1, 1)],
            "price": pl.Series([Decimal("12.50"), None, Decimal("-0.01")], dtype=pl.Decimal(10, 2)),
            "kind": pl.Series(["b", "a", None], dtype=pl.Categorical),
            "list": [[1, None], None, []],
            "struct": [{"x": 1.5, "y": "u"}, None, {"x": None, "y": "v"}],
        }
    )


def arrow_table() -> pa.Table:
    """A table of Arrow."""
    return pa.table(
        {
            "id": pa.array([1, 2, None], pa.int8()),
            "text": ["ja", "nein", None],
            "bytes": [b"\xff", b"", None],
            "when": pa.array([1, None, 3], pa.timestamp("ns", "UTC")),
            "took": pa.array([1, None, 3], pa.duration("ms")),
            "price": pa.array([Decimal("1.25"), None, Decimal("3.00")], pa.decimal128(9, 2)),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "lists": [["a", None], None, []],
        }
    )


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_pandas(name, tmp_path, monkeypatch):
    """`save(df, "x.parquet")`: pandas reads its own frame again, and so does `to_pandas`."""
    monkeypatch.chdir(tmp_path)
    df = pandas_frame()

    ferry.save(df, name)
    rows = ferry.open(name)

    assert_frame_equal(rows.to_pandas(), df)
    if name == "x.parquet":
        assert_frame_equal(pd.read_parquet(name), df)
    if name == "x.arrow":
        assert_frame_equal(pd.read_feather(name), df)
    assert rows[1]["text"] is None
    assert rows[2]["text"] == "née".encode()


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_polars(name, tmp_path, monkeypatch):
    """`save(frame, "x.parquet")`: polars reads its own frame again, and so does `to_polars`."""
    monkeypatch.chdir(tmp_path)
    df = polars_frame()

    ferry.save(df, name)
    rows = ferry.open(name)

    assert rows.to_polars().equals(df)
    assert rows.to_polars().schema == df.schema
    read = pl.read_parquet if name == "x.parquet" else pl.read_ipc
    assert read(name).equals(df)
    ferry.save(df.lazy(), name)
    assert ferry.open(name).to_polars().equals(df)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_arrow(name, tmp_path, monkeypatch):
    """Tables, record batches and readers of Arrow keep every column and type."""
    monkeypatch.chdir(tmp_path)
    table = arrow_table()

    for given in (table, table.to_batches()[0], table.to_reader(), iter([table])):
        ferry.save(given, name)
        assert ferry.open(name).to_arrow().equals(table)
    if name == "x.parquet":
        assert pq.read_table(name).equals(table)


def test_csv(tmp_path, monkeypatch):
    """`save(df, "x.csv")`: pandas, polars and duckdb read what `df.to_csv` would have told them."""
    monkeypatch.chdir(tmp_path)
    df = pandas_frame()
    df.to_csv("theirs.csv", index=False)

    ferry.save(df, "x.csv")
    ferry.save(df, "x.csv.gz")

    def read(name: str) -> pd.DataFrame:
        found = pd.read_csv(name, parse_dates=["when"])
        return found.assign(zoned=pd.to_datetime(found["zoned"], utc=True))

    theirs = read("theirs.csv")
    assert_frame_equal(read("x.csv")[list(theirs)], theirs)
    assert_frame_equal(read("x.csv.gz")[list(theirs)], theirs)
    assert pl.read_csv("x.csv")["text"].to_list() == ["ja", None, "née"]
    assert duckdb.sql("select text from 'x.csv'").fetchall() == [("ja",), (None,), ("née",)]
    assert ferry.open("x.csv")["id"].tolist() == [1, 2, 3]
    ferry.save(polars_frame().drop("list", "struct"), "x.csv")
    assert pl.read_csv("x.csv", try_parse_dates=True)["when"].equals(polars_frame()["when"])
    with pytest.raises(UnsupportedError, match="no place in CSV"):
        ferry.save(polars_frame(), "x.csv")


def test_json_lines(tmp_path, monkeypatch):
    """`save(frame, "x.jsonl")`: lists, structs and nulls as polars and pandas read them."""
    monkeypatch.chdir(tmp_path)
    df = polars_frame()

    ferry.save(df, "x.jsonl")

    read = pl.read_ndjson("x.jsonl")
    for name in ("id", "text", "list", "struct"):
        assert read[name].to_list() == df[name].to_list()
    assert read["kind"].to_list() == df["kind"].to_list()
    assert read["price"].to_list() == ["12.50", None, "-0.01"]
    assert read["day"].str.to_date().to_list() == df["day"].to_list()
    assert pd.read_json("x.jsonl", lines=True)["text"][0] == "ja"


def test_tfrecord(tf, tmp_path, monkeypatch):
    """`save(df, "x.tfrecord")`: TensorFlow reads each column; a null is a feature that lacks."""
    monkeypatch.chdir(tmp_path)
    df = pandas_frame()

    ferry.save(df, "x.tfrecord")

    spec = {
        "id": tf.io.FixedLenFeature((), tf.int64),
        "text": tf.io.FixedLenFeature((), tf.string, default_value="missing"),
        "kind": tf.io.FixedLenFeature((), tf.string),
        "when": tf.io.FixedLenFeature((), tf.int64, default_value=0),
    }
    data = tf.data.TFRecordDataset("x.tfrecord").map(
        lambda one: tf.io.parse_single_example(one, spec)
    )
    found = list(data.as_numpy_iterator())
    assert [row["id"] for row in found] == [1, 2, 3]
    assert [row["text"].decode() for row in found] == ["ja", "missing", "née"]
    assert [row["kind"] for row in found] == [b"b", b"a", b"b"]
    ferry.save(polars_frame().drop("list"), "x.tfrecord")
    rows = list(ferry.open("x.tfrecord", infer="all"))
    assert [row["price"] for row in rows] == [b"12.50", None, b"-0.01"]
    with pytest.raises(UnsupportedError, match="list"):
        ferry.save(polars_frame(), "x.tfrecord")


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.tfrecord", "x.csv", "x.jsonl"])
def test_write_batch(name, tmp_path, monkeypatch):
    """`write_batch` takes tables of all three, one after the other, and dicts among them."""
    monkeypatch.chdir(tmp_path)
    columns = {"id": [1, 2], "text": ["a", "b"]}
    with ferry.writer(name) as out:
        out.write_batch(pd.DataFrame(columns))
        out.write_batch(pl.DataFrame(columns))
        out.write_batch(pa.table(columns))
        out.write_batch({"id": np.array([1, 2]), "text": ["a", "b"]})
        with pytest.raises(UnsupportedError, match="a batch is str"):
            out.write_batch("no table")

    rows = ferry.open(name)
    assert [row["id"] for row in rows] == [1, 2] * 4
    assert [row["text"] for row in rows] == [b"a", b"b"] * 4
    assert out.count == 8


def test_text_stays_text(tmp_path, monkeypatch):
    """What was `str` is text in pandas, polars and Arrow, and what was bytes is bytes."""
    monkeypatch.chdir(tmp_path)
    for name in ("x.parquet", "x.arrow"):
        with ferry.writer(name) as out:
            out.write({"text": "ja", "bytes": b"ja", "words": ["a", "b"]})
            out.write({"text": "né", "bytes": b"\xff", "words": []})
        rows = ferry.open(name)
        assert rows.to_pandas()["text"].tolist() == ["ja", "né"]
        assert rows.to_polars()["text"].dtype == pl.String
        assert rows.to_polars()["words"].to_list() == [["a", "b"], []]
        assert rows.to_arrow()["bytes"].type == pa.binary()
        ferry.save({"text": np.array(["ja", "né"]), "bytes": np.array([b"a", b"b"], object)}, name)
        assert ferry.open(name).to_pandas()["text"].tolist() == ["ja", "né"]
        assert ferry.open(name).to_pandas()["bytes"].tolist() == [b"a", b"b"]
        loaded = ferry.load(name)
        ferry.save(loaded, name)
        assert ferry.open(name).to_arrow()["text"].type == pa.string()
        assert loaded["text"].tolist() == [b"ja", "né".encode()]


def test_readers_of_arrow(tmp_path, monkeypatch):
    """Whatever reads Arrow's interface reads rows: PyArrow, polars, pandas, duckdb."""
    monkeypatch.chdir(tmp_path)
    table = arrow_table()
    ferry.save(table, "x.parquet")
    rows = ferry.open("x.parquet")

    assert pa.table(rows).equals(table)
    assert pl.DataFrame(rows)["text"].to_list() == ["ja", "nein", None]
    assert pd.DataFrame.from_arrow(rows)["text"][1] == "nein"
    assert duckdb.sql("select id, text from rows where id > 1").fetchall() == [(2, "nein")]
    with ferry.open("x.parquet", columns=["text", "id"]) as some:
        assert pa.table(some).equals(table.select(["text", "id"]))


def test_records_are_read_by_all(tf, tmp_path, monkeypatch):
    """TFRecords that TensorFlow wrote are a table for pandas, polars and duckdb."""
    monkeypatch.chdir(tmp_path)
    with tf.io.TFRecordWriter("x.tfrecord") as out:
        for number in range(5):
            feature = {
                "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                "many": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * number)),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            out.write(example.SerializeToString())
    rows = ferry.open("x.tfrecord")

    assert rows.to_pandas()["id"].tolist() == list(range(5))
    assert rows.to_polars()["many"].list.len().to_list() == list(range(5))
    assert duckdb.sql("select sum(id), sum(len(many)) from rows").fetchall() == [(10, 10)]
    assert pa.table(rows).column_names == ["id", "many"]
    images = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    ferry.save({"image": images}, "y.tfrecord")
    rows = ferry.open("y.tfrecord")
    assert np.array_equal(np.stack(rows.to_pandas()["image"]), images)
    assert np.array_equal(rows.to_polars()["image"].to_numpy(), images)


def test_streamed(tmp_path, monkeypatch):
    """Arrow's readers get rows piece by piece, and rows are saved without holding all of them."""
    monkeypatch.chdir(tmp_path)
    number = 200
    batch = {"x": np.zeros((1000, 128), np.float32)}
    with ferry.writer("x.parquet", batch_rows=1000, compression="none") as out:
        for _ in range(number):
            out.write_batch(batch)
    program = f"""
import resource, sys
import pyarrow as pa, duckdb
import tensorferry as ferry
rows = ferry.open("x.parquet")
reader = pa.RecordBatchReader.from_stream(rows)
next(reader)
started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert 1000 + sum(batch.num_rows for batch in reader) == {number * 1000}
ferry.save(ferry.open("x.parquet"), "y.arrow")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - started)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert int(told.stdout) < 60_000  # of 100 MB; the unit is kB


def test_tensors_of_a_frame(tmp_path, monkeypatch):
    """Formats of tensors take the columns of a frame by name; NaN where a float is null."""
    monkeypatch.chdir(tmp_path)
    df = pd.DataFrame({"id": [1, 2], "x": [0.5, None], "text": ["a", "b"]})
    for name in ("x.npz", "x.safetensors"):
        ferry.save(df, name)
        loaded = ferry.load(name)
        np.testing.assert_array_equal(loaded["x"], [0.5, np.nan])
        assert loaded["text"].tolist() == [b"a", b"b"]
    with pytest.raises(UnsupportedError, match=r"'text'.*null"):
        ferry.save(pd.DataFrame({"text": ["a", None]}), "x.npz")


def test_what_arrow_lacks(tmp_path, monkeypatch):
    """A frame that Arrow cannot take is refused by the name of its column, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match="mixed"):
        ferry.save(pd.DataFrame({"mixed": [1, "a"]}), "x.parquet")
    with pytest.raises(UnsupportedError, match="Duplicate column names"):
        ferry.save(pd.DataFrame([[1, 2]], columns=["a", "a"]), "x.parquet")
    assert list(tmp_path.iterdir()) == []
    empty = pd.DataFrame({"a": pd.Series([], dtype="int64"), "b": pd.Series([], dtype="str")})
    ferry.save(empty, "x.parquet")
    assert_frame_equal(ferry.open("x.parquet").to_pandas(), empty)


def test_nothing_is_imported(tmp_path):
    """Frames are recognised without importing a package that the program did not import."""
    program = """
import sys, tensorferry as ferry
ferry.save({"a": [1.0]}, sys.argv[1])
ferry.save([{"a": 1.0}], sys.argv[1])
assert not {"pandas", "polars", "duckdb", "pyarrow", "tensorflow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.tfrecord")], check=True)


def test_convert_keeps_types(tmp_path, monkeypatch):
    """Parquet into Parquet or Arrow, and back: times, decimals, structs, null lists stay."""
    monkeypatch.chdir(tmp_path)
    struct = pa.array([{"x": 1, "y": [None, "u"]}, None, {"x": None, "y": None}])
    table = arrow_table().append_column("struct", struct)
    table = table.append_column("day", pa.array([1, None, 3], pa.date32()))
    table = table.append_column("nothing", pa.nulls(3))
    pq.write_table(table, "x.parquet")

    for source, target in [
        ("x.parquet", "y.parquet"),
        ("x.parquet", "y.arrow"),
        ("y.arrow", "z.parquet"),
    ]:
        report = ferry.convert(source, target, verify=True)
        assert report.verified
        assert report.notes == ()
        assert ferry.open(target).to_arrow().equals(table)
    assert pq.read_table("z.parquet").equals(table)
    ferry.convert(
        "x.parquet", "some.parquet", select=["price", "struct*"], rename={"price": "cost"}
    )
    assert pq.read_table("some.parquet").equals(
        table.select(["price", "struct"]).rename_columns(["cost", "struct"])
    )
    ferry.convert("x.parquet", "member.parquet", select=["struct/x"])
    assert pq.read_table("member.parquet")["struct/x"].to_pylist() == [1, None, None]
    df = pandas_frame()
    df.to_parquet("df.parquet")
    ferry.convert("df.parquet", "df.arrow")
    assert_frame_equal(pd.read_feather("df.arrow"), df)
    pq.write_table(table.slice(0, 0), "empty.parquet")
    assert ferry.convert("empty.parquet", "empty.arrow", verify=True).verified
    assert ferry.open("empty.arrow").to_arrow().schema.equals(table.schema)


def test_convert_says_what_changed(tmp_path, monkeypatch):
    """A type that the target lacks is in a note, and the conversion is not called verified."""
    monkeypatch.chdir(tmp_path)
    table = pa.table({"id": [1, 2], "when": pa.array([1, 2], pa.timestamp("us"))})
    pq.write_table(table, "x.parquet")
    for name in ("y.csv", "y.jsonl"):  # a schema beside them keeps the types
        report = ferry.convert("x.parquet", name, verify=True)
        assert report.verified
        assert report.notes == ()
        assert ferry.open(name).to_arrow().equals(table)
    for name in ("y.tfrecord", "y.npz"):
        report = ferry.convert("x.parquet", name, verify=True)
        assert report.verified is False
        assert any("'when' is timestamp[us]" in note for note in report.notes), name
    assert pd.read_csv("y.csv", parse_dates=["when"])["when"].tolist() == table["when"].to_pylist()
    seconds = pa.table({"when": pa.array([1, 2], pa.timestamp("s"))})
    ferry.save(seconds, "s.arrow")
    report = ferry.convert("s.arrow", "s.parquet", verify=True)
    kept = pq.read_table("s.parquet").schema.equals(seconds.schema)
    assert report.verified is kept
    assert bool(report.notes) is not kept
    plain = pa.table({"id": [1, 2], "text": ["a", "b"], "x": [0.5, float("nan")]})
    pq.write_table(plain, "p.parquet")
    for name in ("p.tfrecord", "p.csv", "p.jsonl", "p.npz", "p.arrow"):
        if name != "p.jsonl":
            assert ferry.convert("p.parquet", name, verify=True).verified, name


def test_convert_says_that_structs_are_taken_apart(tmp_path, monkeypatch):
    """TFRecords have no structs: a note names the columns that their fields become."""
    monkeypatch.chdir(tmp_path)
    ferry.save(pa.table({"id": [1, 2], "point": [{"x": 1.5}, {"x": 2.5}]}), "x.parquet")
    report = ferry.convert("x.parquet", "x.tfrecord", verify=True)
    assert report.notes == ("column 'point' is a struct: its fields are columns as 'point/x'",)
    assert not report.verified
    assert ferry.open("x.tfrecord").columns == ["id", "point/x"]


def test_what_parquet_lacks(tmp_path, monkeypatch):
    """A type that PyArrow cannot write is refused by name, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    interval = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    with pytest.raises(UnsupportedError, match="interval"):
        ferry.save(pa.table({"x": interval}), "x.parquet")
    assert list(tmp_path.iterdir()) == []
