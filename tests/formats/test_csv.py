"""CSV files: rows of numbers and texts, in blocks of whole lines."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import pickle
import random
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import csv as arrow_csv

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import FormatError, LimitError, UnknownFeatureError, UnsupportedError
from tensorferry.formats import csv as csv_format
from tensorferry.formats.contract import WriteOptions
from tensorferry.formats.tables import text
from tensorferry.formats.tables.table import Table
from tensorferry.storage.place import Target

SAMPLE = 'id,text,score,flag\n1,"a, ""b""\nc",0.5,true\n2,ä,,false\n3,,2,true\n'


def read(given: str | bytes, **options: Any) -> Table:
    data = given.encode() if isinstance(given, str) else given
    table = ferry.open(io.BytesIO(data), format="csv", **options)
    assert isinstance(table, Table)
    return table


def rows_of(given: str | bytes, **options: Any) -> list[dict[str, Any]]:
    with read(given, **options) as table:
        return list(table)


def test_rows():
    """Numbers, bools and texts; a missing number is None, a missing text empty."""
    with read(SAMPLE) as table:
        assert len(table) == 3
        assert list(table) == [
            {"id": 1, "text": b'a, "b"\nc', "score": 0.5, "flag": True},
            {"id": 2, "text": "ä".encode(), "score": None, "flag": False},
            {"id": 3, "text": b"", "score": 2, "flag": True},
        ]
        assert {name: info.dtype for name, info in table.infos().items()} == {
            "id": "int64", "text": "string", "score": "float64", "flag": "bool",
        }  # fmt: skip
        assert table.optional == {"score"}
        assert table["score"].to_list() == [[0.5], [], [2]]
        assert table[[2, 0]][0]["id"] == 3
        assert table.select(["id"])[1] == {"id": 2}
        assert table.schema["score"].optional


values = {
    "number": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "float": st.floats(allow_nan=False),
    "flag": st.booleans(),
}


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=8), st.integers(1, 200))
def test_roundtrip(rows, block):
    """What is written is what is read, in blocks of any size; Python's csv reads it, too."""
    first = {"number": 5, "text": "a", "float": 0.5, "flag": True}
    rows = [first, *rows]
    schema = {"number": "int64", "text": "string", "float": "float64", "flag": "bool"}
    sink = io.BytesIO()
    with csv_format.Writes().writer(
        Target("<bytes>", into=sink), WriteOptions(), shards=None, metadata={}
    ) as out:
        for row in rows:
            out.write(row)
    was, text.BLOCK = text.BLOCK, block
    try:
        found = rows_of(sink.getvalue(), schema=schema)
    finally:
        text.BLOCK = was
    assert found == [{**row, "text": row["text"].encode()} for row in rows]
    official = list(csv.reader(io.StringIO(sink.getvalue().decode(), newline="")))
    assert [line[1] for line in official[1:]] == [row["text"] for row in rows]


def test_bytes():
    """Bytes in memory are those of a file: PyArrow's memory is used again, and was copied."""
    columns = {"id": np.arange(3), "x": np.arange(3) / 2}
    assert ferry.dumps(columns, format="csv") == b'"id","x"\n0,0\n1,0.5\n2,1\n'


def test_official_writer(tmp_path):
    """What PyArrow and Python write is read, and what we write PyArrow reads."""
    table = pa.table({"id": [1, 2], "text": ["a\nb", 'c"'], "x": [0.1, 1e300]})
    arrow_csv.write_csv(table, tmp_path / "a.csv")
    assert [row["text"] for row in ferry.open(tmp_path / "a.csv")] == [b"a\nb", b'c"']
    with open(tmp_path / "b.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], [1, "x\r\ny"], [2, "z"]])
    assert [row["text"] for row in ferry.open(tmp_path / "b.csv")] == [b"x\r\ny", b"z"]
    with ferry.writer(tmp_path / "c.csv") as out:
        out.write_batch({"id": np.arange(2), "text": np.array([b"a,b", b""], object)})
    found = arrow_csv.read_csv(tmp_path / "c.csv")
    assert found.to_pydict() == {"id": [0, 1], "text": ["a,b", ""]}


def test_files_and_splits(tmp_path, monkeypatch):
    """Several files have the types of the first; splits are exactly the rows."""
    monkeypatch.setattr(text, "BLOCK", 16)
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{n}.5,a{n}\n" for n in range(10)))
    (tmp_path / "b.csv").write_text("x,y\n" + "".join(f"{n},b{n}\n" for n in range(10)))
    with ferry.open(str(tmp_path / "*.csv")) as table:
        assert isinstance(table, Table)
        rows = list(table)
        assert [row["x"] for row in rows] == [n + 0.5 for n in range(10)] + list(range(10))
        splits = table.splits(4)
    assert len(splits) == 4
    found = []
    for split in map(pickle.loads, map(pickle.dumps, splits)):
        with split.open() as part:
            assert split.rows == len(part)
            found += list(part)
    assert found == rows


def test_record_batches_are_parsed_once(monkeypatch):
    """Record batches have nulls of their own: nobody looks for nulls in all of the text first."""
    monkeypatch.setattr(text, "BLOCK", 64)
    data = "a,b\n" + "".join(f"{row},x{row}\n" for row in range(100))
    parsed: list[int] = []
    batches = text.TextReader.batches
    monkeypatch.setattr(
        text.TextReader,
        "batches",
        lambda self, index, columns: parsed.append(index) or batches(self, index, columns),
    )

    with Table(data.encode(), format="csv") as table:
        found = list(table.batches(30, to="arrow"))
        whole = list(table.batches(30, to="arrow", drop_remainder=True))
        blocks = sum(1 for _ in table.arrow_batches())

    assert [batch.num_rows for batch in found] == [30, 30, 30, 10]
    assert [batch.num_rows for batch in whole] == [30, 30, 30]
    assert sorted(parsed) == sorted(3 * list(range(blocks)))
    assert pa.Table.from_batches(found)["a"].to_pylist() == list(range(100))


def test_schema():
    """Types are given for columns whose first rows tell others."""
    given = "zip,n\n01234,1\n"
    assert rows_of(given) == [{"zip": 1234, "n": 1}]
    assert rows_of(given, schema={"zip": "string"}) == [{"zip": b"01234", "n": 1}]
    with pytest.raises(UnknownFeatureError, match="'zap'"):
        read(given, schema={"zap": "string"})


def test_times_and_numbers():
    """Times and dates are what PyArrow finds; NaN is a number."""
    given = "day,x\n2020-01-01,nan\n2020-01-02,1\n"
    with read(given) as table:
        assert table.to_arrow()["day"].to_pylist() == [
            datetime.date(2020, 1, 1),
            datetime.date(2020, 1, 2),
        ]
    assert np.isnan(rows_of(given)[0]["x"])


@pytest.mark.parametrize(
    "header", ["a,,b", "a,", ",a", '"",a', '"a",""', " ,a", "\u00e9,b", '"a,b",']
)
def test_names_as_pyarrow_reads_them(header):
    """Names may be empty, in quotes, or hold anything."""
    expected = arrow_csv.read_csv(pa.BufferReader(f"{header}\n".encode())).column_names

    with read(f"{header}\n") as table:
        assert table.columns == expected


def test_blank_lines_and_ends():
    """Blank lines are no rows; the last line needs no end; a header alone is a table."""
    assert [row["a"] for row in rows_of("\n\na,b\r\n\r\n1,2\r\n\n3,4")] == [1, 3]
    with read("a,b\n") as table:
        assert len(table) == 0
        assert table.columns == ["a", "b"]
    assert rows_of("\ufeffa\n1\n") == [{"a": 1}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "no line, expected one with the names"),
        (b"\n\n", "no line"),
        (b"a,b\n1,2\n1\n", "row 1: Expected 2 columns, got 1"),
        (b"a,a\n1,2\n", "several columns 'a'"),
        (b"a\n\xff\xfe\n", "UTF8"),
        (b'a,b\n1,"open\n', ""),
        ("a,b\n1,2\n".encode("utf-16"), ""),
        (b"a,b\r1,2\r", ""),
    ],
)
def test_refused(given, message):
    """What is no CSV is refused with the row, where that is known."""
    with pytest.raises(FormatError) as caught:
        rows_of(given)
    assert message in str(caught.value)


def test_types_that_change(monkeypatch):
    """A value of another type behind the first block is refused, with its row and a hint."""
    monkeypatch.setattr(text, "BLOCK", 8)
    table = read("x,y\n" + "1,2\n" * 10 + "word,2\n")
    with table, pytest.raises(FormatError, match="invalid value 'word'") as caught:
        list(table)
    assert "schema=" in (caught.value.hint or "")
    assert "10" in caught.value.message
    with read("x,y\n" + "1,2\n" * 10 + "word,2\n1,2\n", on_error="skip", optional=[]) as table:
        assert len(list(table)) < 12
        assert len(table.damages) == 1


def test_long_line(monkeypatch):
    """A line longer than limits.memory is refused before it is parsed."""
    monkeypatch.setattr(limits, "memory", 8 << 20)
    with pytest.raises(LimitError, match="a line of more than"):
        rows_of(b"a\n" + b"x" * (20 << 20))


def test_no_place(tmp_path):
    """What CSV cannot carry is refused, and leaves no file."""
    for row, message in [
        ({"x": [1, 2]}, "has no place in CSV"),
        ({"x": np.ones(2)}, "has no place in CSV"),
        ({"x": b"\xff", "y": 1}, "no text"),
        ({"x": np.float32(1).astype("bfloat16")}, "has no place in CSV"),
    ]:
        with (
            pytest.raises(UnsupportedError, match=message),
            ferry.writer(tmp_path / "x.csv") as out,
        ):
            out.write(row)
    with pytest.raises(UnsupportedError, match="null"), ferry.writer(tmp_path / "x.csv") as out:
        out.write({"x": "a"})
        out.write({"x": None})
    assert not list(tmp_path.iterdir())
    with pytest.raises(UnsupportedError, match="metadata"):
        ferry.writer(tmp_path / "x.csv", metadata={"a": "b"})


def test_nulls(tmp_path):
    """A null is nothing between commas, and an empty text two quotes."""
    with ferry.writer(tmp_path / "x.csv") as out:
        out.write({"x": "a", "y": 1})
        out.write({"x": None, "y": None})
        out.write({"x": "", "y": 3})
    assert (tmp_path / "x.csv").read_text() == '"x","y"\n"a",1\n,\n"",3\n'
    assert [row["y"] for row in ferry.open(tmp_path / "x.csv")] == [1, None, 3]


def test_changed_bytes():
    """Cut anywhere and changed anywhere, the bytes give rows or a typed error."""
    data = SAMPLE.encode()
    generator = random.Random(7)
    samples = [data[:end] for end in range(len(data))]
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            changed[generator.randrange(len(changed))] = generator.choice(b'\0\n\r",\xff1a')
        samples.append(bytes(changed))
    for sample in samples:
        with contextlib.suppress(FormatError, UnsupportedError):
            rows_of(sample)


def test_blank_lines_alone():
    """A file of nothing but blank lines is refused at once, however many they are."""
    start = time.process_time()
    with pytest.raises(ferry.TruncatedError, match="names of columns"):
        ferry.loads(b"\n" * 4_000_000, format="csv")

    assert time.process_time() - start < 3
