"""CSV of the usual form: what is parsed natively is what PyArrow makes of it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import tensorferry as ferry
from tensorferry import _native
from tensorferry.errors import FerryError
from tensorferry.formats import csv

USUAL = {
    "integers": "a,b\n1,-2\n0,30\n",
    "floats": "a,b\n1.5,-0.0\n2,1e-7\n",
    "long floats": "a\n0.12573022058372545\n-1234.5678912345678912345\n1.7976931348623157e308\n",
    "whole floats": "a,b\n1,x\n2.5,y\n123456789012345678,z\n",
    "texts": "a,b\nx,y\nyes,NA\n,\n",
    "quotes": 'a,b\n"x","one, two"\n"y","a\nb"\n"z",""\n',
    "doubled quotes": 'a,b\n"x""y",1\n"say """,2\n"""",3\n',
    "carriage returns": 'a,b\r\n1,x\r\n2,"y\r\nz"\r\n',
    "no last newline": "a,b\n1,x\n2,y",
    "no last newline, an empty text": "a,b\n1,x\n2,",
    "one column": 'a\nx\n""\ny\n',
    "umlauts": "a,b\nä,1\n日本,2\n",
    "text later": "a,b\n,1\n5,2\nhello,3\n",
    "text behind floats": "a,b\n1,1\n2.5,2\nhello,3\n",
    "minus zero before a float": "a,b\n-0,1\n7,2\n0.5,3\n",
}
UNUSUAL = {
    "nothing": "a,b\n1,\n2,3\n",
    "null": "a,b\n1,NA\n2,3\n",
    "truth": "a\ntrue\nfalse\n",
    "days": "a\n2024-01-31\n2024-02-01\n",
    "times": "a\n12:30\n13:00\n",
    "quoted numbers": 'a\n"1"\n"2"\n',
    "zeros before": "a\n007\n008\n",
    "plus": "a\n+1\n2\n",
    "long integers": "a\n9223372036854775807\n1\n",
    "longer integers": "a\n92233720368547758070\n1\n",
    "beyond floats": "a\n1e400\n0.5\n",
    "next to nothing": "a\n1e-400\n0.5\n",
    "words": "a\nnan\ninf\n",
    "spaces": "a,b\n 1,2 \n3,4\n",
    "blank lines": "a\nx\n\ny\n",
    "blank lines of several columns": "a,b\n1,x\n\n2,y\n",
    "spaces alone": "a\nx\n  \ny\n",
    "fewer cells": "a,b\nx,y\nx\n",
    "more cells": "a,b\nx,y\nx,y,z\n",
    "a quote inside": 'a\nx"y"\nz\n',
    "text behind a quote": 'a\n"x"y\nz\n',
    "a carriage return inside": "a,b\nx\ry,1\nz,2\n",
    "a carriage return too many": "a,b\nx,y\r\r\nz,w\r\n",
    "bytes": "a\nx\xff\ny\n",
}


def parsed(data: bytes, schema=None):
    """The table in a CSV file, or what is wrong with it."""
    try:
        return ferry.open(data, format="csv", schema=schema).to_arrow()
    except FerryError as error:
        return type(error), str(error)


@pytest.fixture
def by_pyarrow(monkeypatch):
    """Parses without the native parser."""

    def parse(data: bytes, schema=None):
        with monkeypatch.context() as patched:
            patched.setattr(csv.Reader, "_parse_usual", lambda *_: None)
            return parsed(data, schema)

    return parse


def same(found, expected) -> bool:
    """Whether two tables are equal to the last bit, or two errors."""
    if not isinstance(expected, pa.Table) or not isinstance(found, pa.Table):
        return found == expected
    found.validate(full=True)
    if not found.schema.equals(expected.schema, check_metadata=True):
        return False
    # As values of Python's: equal floats may still be 0.0 and -0.0.
    return repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("text", USUAL.values(), ids=USUAL)
def test_usual(text, by_pyarrow, monkeypatch):
    """Numbers and texts are what PyArrow reads, and it is not asked."""
    data = text.encode()
    expected = by_pyarrow(data)
    monkeypatch.setattr("pyarrow.csv.read_csv", None)

    assert isinstance(expected, pa.Table)
    assert same(parsed(data), expected)


@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual(text, by_pyarrow):
    """Everything else is left to PyArrow, with its values and its errors."""
    data = text.encode("latin-1")
    lines = data.split(b"\n", 1)
    rows = _native.cut_lines(lines[1], 0, 1 << 20, 1 << 20, True)[0][0][2]
    kinds = "?" * (lines[0].count(b",") + 1)

    assert _native.csv_columns(lines[1], kinds, rows, pa.allocate_buffer) is None
    assert same(parsed(data), by_pyarrow(data))


def test_memory():
    """Texts take as many bytes as they have: no memory that was not written to is handed out."""
    (chunk,) = parsed(b'a\n"x"\n"say ""no"""\n')["a"].chunks

    assert bytes(chunk.buffers()[2]) == b'xsay "no"'


CELLS = [
    "1", "-7", "0", "0.5", "-0.0", "1e5", "2.50", "123456789012345678", "x", "ja", "true", "NA", "",
    '""', '"x"', '"1"', '"a,b"', '"a\nb"', '"a""b"', 'a"b', " ", " 1", "1 ", "2024-01-31", "12:30",
    "nan", "inf", "1.", ".5", "+1", "00", "0x1f", "ä", "\r", "-", "e5", "1e", "#N/A", '"',
]  # fmt: skip
FORMS = {
    "all": CELLS,
    "numbers": ["1", "-7", "0", "0.5", "-0.0", "1e5", "2.50", "1e400", "007"],
    "texts": ["x", "ja", '"x"', '"a,b"', '"a\nb"', '"a""b"', "", "ä", "1", "NA"],
}


def made(chance: random.Random) -> bytes:
    """Some rows of cells, usual ones more often than not."""
    columns = [FORMS[chance.choice(list(FORMS))] for _ in range(chance.randint(1, 3))]
    end = chance.choice(["\n", "\n", "\n", "\r\n"])
    lines = [",".join(f"c{place}" for place in range(len(columns)))]
    for _ in range(chance.randint(1, 5)):
        cells = [chance.choice(column) for column in columns]
        if chance.random() < 0.02:
            cells.append("x")
        lines.append(",".join(cells))
    return (end.join(lines) + chance.choice(["", end])).encode()


def test_any_cells(by_pyarrow):
    """Whatever stands in cells, the answer is PyArrow's."""
    chance = random.Random(11)
    usual = 0
    for _ in range(1500):
        data = made(chance)
        expected = by_pyarrow(data)
        assert same(parsed(data), expected), data
        usual += isinstance(expected, pa.Table)
    assert usual > 500


@pytest.mark.parametrize("schema", [
    {"a": "float64", "b": "string"},
    {"a": "string", "b": "string"},
    {"a": "int64"},
    {"a": "int32"},
], ids=str)  # fmt: skip
def test_schema(schema, by_pyarrow):
    """The types of a schema are those of the columns, whoever parses them."""
    texts = ["a,b\n1,2\n3,4\n", "a,b\n1.5,x\n2,y\n", 'a,b\n"1",x\n"2",y\n', "a,b\n,1\n,2\n"]
    for data in map(str.encode, texts):
        assert same(parsed(data, schema), by_pyarrow(data, schema))


def test_changed_bytes(by_pyarrow):
    """Cut at every byte, and with every bit flipped, a text is what PyArrow says."""
    data = 'id,text\r\n12,"one, ""two"""\r\n-3,"a\nb"\n0.5,ä\n'.encode()
    samples = [data[:end] for end in range(len(data))]
    samples += [
        data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        for place in range(len(data))
        for bit in range(8)
    ]
    for sample in samples:
        assert same(parsed(sample), by_pyarrow(sample)), sample


def test_several_blocks(tmp_path, by_pyarrow, monkeypatch):
    """A block that is unusual is read by PyArrow alone, in the types that the first block told."""
    monkeypatch.setattr("tensorferry.formats.tables.text.BLOCK", 1 << 10)
    rows = [f'{row},{row / 7},"text {row}"' for row in range(1000)]
    rows[500] = '500,NA,"text 500"'
    data = ("id,ratio,text\n" + "\n".join(rows)).encode()

    found = parsed(data)

    assert found.num_rows == 1000
    assert found["ratio"].null_count == 1
    assert same(found, by_pyarrow(data))


def test_wrong_block(by_pyarrow, monkeypatch):
    """A value of another type is an error, once the rows before it were given."""
    monkeypatch.setattr("tensorferry.formats.tables.text.BLOCK", 1 << 10)
    rows = [f"{row},x" for row in range(1000)]
    rows[700] = "seven,x"
    data = ("id,text\n" + "\n".join(rows)).encode()

    assert parsed(data) == by_pyarrow(data)
    count = 0
    with pytest.raises(FerryError, match="row 700"):
        for batch in ferry.open(data, format="csv").arrow_batches():
            count += batch.num_rows
    assert 0 < count <= 700


@pytest.mark.parametrize(("arguments", "error"), [
    ((b"1\n", "x", 1, bytearray), ValueError),
    ((b"1\n", "i", 1, lambda size: bytearray(size - 1)), ValueError),
    ((b"1\n", "i", 1, bytes), BufferError),
    ((b"1\n", "i", 1, lambda size: 1 / 0), ZeroDivisionError),
    ((b"1\n", "i", -1, bytearray), TypeError),
    (("1\n", "i", 1, bytearray), TypeError),
])  # fmt: skip
def test_wrong_arguments(arguments, error):
    """A wrong call is an exception of Python's."""
    with pytest.raises(error):
        _native.csv_columns(*arguments)


@pytest.mark.parametrize("rows", [0, 2, 1 << 40, 2**64 - 1])
def test_other_rows(rows):
    """Another number of rows than there is takes no memory."""
    assert _native.csv_columns(b"1,x\n", "it", rows, bytearray) is None
