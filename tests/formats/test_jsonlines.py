"""JSON Lines: an object a line, in blocks of whole lines."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import FormatError, LimitError, UnsupportedError
from tensorferry.formats import jsonlines
from tensorferry.formats.contract import WriteOptions
from tensorferry.formats.tables import text
from tensorferry.formats.tables.table import Table
from tensorferry.storage.place import Target
from tensorferry.tensors.values import RaggedTensor

ROWS: list[dict[str, Any]] = [
    {"id": 1, "text": 'a\n"b"', "score": 0.5, "tokens": [1, 2], "deep": [[1], []], "at": {"x": 1}},
    {"id": 2, "text": None, "score": 2, "tokens": [], "deep": [], "at": {"x": 2}},
    {"id": 3, "text": "ä", "tokens": [3], "deep": [[2, 3]], "at": {"x": 3}},
]
SAMPLE = "".join(json.dumps(row) + "\n" for row in ROWS)


def read(given: str | bytes, **options: Any) -> Table:
    data = given.encode() if isinstance(given, str) else given
    table = ferry.open(io.BytesIO(data), format="jsonlines", **options)
    assert isinstance(table, Table)
    return table


def rows_of(given: str | bytes, **options: Any) -> list[dict[str, Any]]:
    with read(given, **options) as table:
        return list(table)


def plain(value: Any) -> Any:
    """A value as json has it."""
    if isinstance(value, RaggedTensor):
        return [plain(row) for row in value]
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()]
    return value.decode() if isinstance(value, bytes) else value


def test_rows():
    """Numbers, texts, lists in lists and objects; what is missing is None."""
    with read(SAMPLE) as table:
        assert table.columns == ["id", "text", "score", "tokens", "deep", "at/x"]
        found = [{name: plain(value) for name, value in row.items()} for row in table]
        for row, expected in zip(found, ROWS, strict=True):
            assert row.pop("at/x") == expected["id"]
            assert row == {name: expected.get(name) for name in row}
        assert table.optional == {"text", "score"}
        assert table["tokens"].to_list() == [[1, 2], [], [3]]
        assert table.infos()["deep"].shape == (3, None, None)
        assert table[-1]["id"] == 3


numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=60)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "number": st.one_of(st.none(), numbers),
                "text": st.one_of(st.none(), texts),
                "float": st.floats(allow_nan=False, allow_infinity=False),
                "list": st.lists(numbers, max_size=3),
                "texts": st.lists(texts, max_size=2),
            }
        ),
        max_size=8,
    ),
    st.integers(1, 300),
)
def test_roundtrip(rows, block):
    """What is written is what is read, in blocks of any size; Python's json reads it, too."""
    rows = [{"number": 1, "text": "a", "float": 0.5, "list": [1], "texts": ["a"]}, *rows]
    sink = io.BytesIO()
    with jsonlines.Writes().writer(
        Target("<bytes>", into=sink), WriteOptions(), shards=None, metadata={}
    ) as out:
        for row in rows:
            out.write(row)
    data = sink.getvalue()
    assert [json.loads(line) for line in data.decode().split("\n")[:-1]] == rows
    was, text.BLOCK = text.BLOCK, block
    try:
        found = [{name: plain(value) for name, value in row.items()} for row in rows_of(data)]
    finally:
        text.BLOCK = was
    assert found == rows


def test_tensors(tmp_path):
    """Arrays become lists; a float32 is the number that it is."""
    path = tmp_path / "x.jsonl"
    with ferry.writer(path) as out:
        out.write_batch({"x": np.eye(2, dtype=np.float32), "n": np.array([1, 2], np.int8)})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"x": [1.0, 0.0], "n": 1},
        {"x": [0.0, 1.0], "n": 2},
    ]
    assert ferry.load(path)["x"].to_list() == [[1, 0], [0, 1]]
    for row in ({"x": b"\xff"}, {"x": float("nan")}, {"x": np.float32(1).astype("bfloat16")}):
        with pytest.raises(UnsupportedError), ferry.writer(tmp_path / "y.ndjson") as out:
            out.write(row)
    assert not (tmp_path / "y.ndjson").exists()


def test_files_and_splits(tmp_path, monkeypatch):
    """Several files have the types of the first, also where a column is missing; splits fit."""
    monkeypatch.setattr(text, "BLOCK", 40)
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {n}.5, "y": "{n}"}}\n' for n in range(9)))
    (tmp_path / "b.jsonl").write_text("".join(f'{{"y": "{n}"}}\n' for n in range(9)))
    with ferry.open(str(tmp_path / "*.jsonl")) as table:
        assert isinstance(table, Table)
        rows = list(table)
        assert [row["x"] for row in rows] == [n + 0.5 for n in range(9)] + [None] * 9
        splits = table.splits(5)
    parts = [split.open() for split in map(pickle.loads, map(pickle.dumps, splits))]
    assert [row for part in parts for row in part] == rows
    assert [split.rows for split in splits] == [len(part) for part in parts]


def test_schema_and_types(monkeypatch):
    """Times stay texts; a name or type that comes later is refused, or known by `schema=`."""
    assert rows_of('{"t": "2020-01-01T00:00:00"}\n') == [{"t": b"2020-01-01T00:00:00"}]
    monkeypatch.setattr(text, "BLOCK", 8)
    later = '{"x": 1}\n' * 3 + '{"x": 1.5}\n'
    with pytest.raises(FormatError) as caught:
        rows_of(later)
    assert "rows 3 to 3" in caught.value.message
    assert "schema=" in (caught.value.hint or "")
    assert [row["x"] for row in rows_of(later, schema={"x": "float64"})] == [1, 1, 1, 1.5]
    with pytest.raises(FormatError, match="unexpected field"):
        rows_of('{"x": 1}\n{"x": 1, "y": 2}\n')


def test_blank_lines():
    """Blank lines are no rows, an empty file is a table of none."""
    assert [row["a"] for row in rows_of('\n{"a": 1}\r\n  \n\n{"a": 2}')] == [1, 2]
    with read("") as table:
        assert len(table) == 0
        assert table.columns == []


@pytest.mark.parametrize(
    "given",
    [
        b'{"a": 1}\n{"a": \n',
        b'{"a": 1',
        b"[1, 2]\n",
        b"1\n",
        b"\0\0\0\n",
        b'{"a": "\xff\xfe"}\n',
        b'{"a": 1}\n{"a": "x"}\n',
        b'{"a": 1, "a": 2}\n',
        '{"a": 1}\n'.encode("utf-16"),
        b'{"a": 1}{"a": 2}\n',
        b"nothing at all",
    ],
)
def test_refused(given):
    """What is no line of JSON is refused with a typed error."""
    with pytest.raises((FormatError, UnsupportedError)):
        rows_of(given)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("whole", [False, True])
def test_deep(opening, whole):
    """100,000 lists or objects in each other are refused, in a living process."""
    closing = {b"[": b"]", b'{"a":': b"}"}[opening]
    inner = opening * 100_000 + b"1" + closing * (100_000 if whole else 0)
    with pytest.raises(LimitError, match=r"limits\.depth"):
        rows_of(b'{"x": ' + inner + b"}\n")
    text = "[{" * 1000
    assert rows_of(json.dumps({"x": text})) == [{"x": text.encode()}]


def test_long_line(monkeypatch):
    """A line longer than limits.memory is refused before it is parsed."""
    monkeypatch.setattr(limits, "memory", 8 << 20)
    with pytest.raises(LimitError, match="a line of more than"):
        rows_of(b'{"a": "' + b"x" * (20 << 20))


def test_rows_of_ever_other_keys(tmp_path):
    """Each key counts in each row: 59 kB would be 25 million values that are missing."""
    (tmp_path / "x.jsonl").write_text("".join(f'{{"k{n}":1}}\n' for n in range(5000)))

    with pytest.raises(LimitError, match=r"each of at least \d+ keys in each of 5000 rows"):
        ferry.inspect(tmp_path / "x.jsonl")


def test_ever_other_keys_are_refused_early(tmp_path, monkeypatch):
    """Once there are too many keys, the rest of the rows is not parsed."""
    parse = jsonlines.Reader._parse
    parts = []
    monkeypatch.setattr(
        jsonlines.Reader,
        "_parse",
        lambda self, given, *others: parts.append(given) or parse(self, given, *others),
    )
    (tmp_path / "x.jsonl").write_text("".join(f'{{"k{n}":1}}\n' for n in range(30_000)))

    with pytest.raises(LimitError, match="30000 rows"):
        ferry.inspect(tmp_path / "x.jsonl")
    assert len(parts) == 1


def test_changed_bytes():
    """Cut anywhere and changed anywhere, the bytes give rows or a typed error."""
    data = SAMPLE.encode()
    generator = random.Random(7)
    samples = [data[:end] for end in range(len(data))]
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            changed[generator.randrange(len(changed))] = generator.choice(b'\0\n{}[]",:\xff1a\\')
        samples.append(bytes(changed))
    for sample in samples:
        with contextlib.suppress(FormatError, UnsupportedError):
            rows_of(sample)
