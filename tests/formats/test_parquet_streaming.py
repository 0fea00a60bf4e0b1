"""Row groups that are decoded part by part: the same rows, with less memory."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import FormatError, LimitError
from tensorferry.formats.tables import lending

COUNT = 300_000


@pytest.fixture(scope="module")
def data() -> bytes:
    """One row group of texts and numbers, many times as large as what is decoded at once."""
    table = pa.table(
        {
            "id": np.arange(COUNT),
            "text": [f"number {row}" for row in range(COUNT)],
            "maybe": [None if row % 7 == 0 else row for row in range(COUNT)],
        }
    )
    return written(table)


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=COUNT, write_page_checksum=True, **options)
    return out.getvalue()


@pytest.mark.parametrize("rows", [1, 1000, 1024, 100_001])
@pytest.mark.parametrize("to", ["numpy", "arrow"])
def test_same_rows(data, rows, to):
    """Batches of any size are the rows of the file, in order."""
    with ferry.Table(data) as table:
        found = 0
        for number, batch in enumerate(table.batches(rows, to=to)):
            if rows == 1 and number == 3000:
                return
            size = min(rows, COUNT - found)
            ids = batch["id"].to_numpy() if to == "arrow" else batch["id"]
            assert np.array_equal(ids, np.arange(found, found + size))
            text = batch["text"][size - 1].as_py() if to == "arrow" else batch["text"][-1].decode()
            assert text == f"number {found + size - 1}"
            found += size
        assert found == COUNT


def test_same_rows_one_by_one(data):
    """Rows, those of a range, and optional values are the same as everywhere."""
    with ferry.Table(data) as table:
        part = list(table.portion(COUNT - 3, COUNT))
        first = next(iter(table))
    assert [row["text"] for row in part] == [f"number {COUNT - 3 + i}".encode() for i in range(3)]
    assert first == {"id": 0, "text": b"number 0", "maybe": None}


def test_memory():
    """Of a row group, no more is in memory than a page of each column and some parts."""
    data = written(pa.table({"a": ["x" * 128] * COUNT}), use_dictionary=False)
    with ferry.Table(data) as table:
        before, most = pa.total_allocated_bytes(), 0
        for _ in table.batches(1024):
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < COUNT * 128 / 4


def test_several_readers_at_once(data):
    """Two readers of one table take turns, and each gets all rows."""
    with ferry.Table(data) as table:
        one, other = table.batches(1024), table.batches(4096)
        first = [next(one)["id"][0] for _ in range(50)]
        second = [next(other)["id"][0] for _ in range(50)]
        first += [batch["id"][0] for batch in one]
        second += [batch["id"][0] for batch in other]
    assert first == list(range(0, COUNT, 1024))
    assert second == list(range(0, COUNT, 4096))


def test_damage(data):
    """A page that is damaged is an error that names the file; what came before it was right."""
    changed = bytearray(data)
    changed[len(data) // 2] ^= 255
    with ferry.Table(bytes(changed)) as table, pytest.raises(FormatError) as raised:
        for batch in table.batches(1024):
            assert batch["text"][0] == b"number %d" % batch["id"][0]
    assert raised.value.path == "<bytes>"
    with ferry.Table(bytes(changed), on_error="skip") as table:
        assert list(table.batches(1024)) == []
        assert len(table.damages) == 1


def test_number_of_rows():
    """A row group of fewer rows than the footer says is refused, when that is known."""
    table = pa.table({"a": np.random.default_rng(0).integers(0, 1 << 60, COUNT)})
    data = written(table, use_dictionary=False, compression="none", write_statistics=False)
    count = COUNT << 1
    varint = bytes(
        (count >> shift & 127 | (128 if count >> shift + 7 else 0)) for shift in (0, 7, 14)
    )
    place = data.rindex(varint)  # the number of rows of the row group stands behind all others
    other = COUNT + 1 << 1
    changed = bytearray(data)
    changed[place : place + 3] = bytes(
        (other >> shift & 127 | (128 if other >> shift + 7 else 0)) for shift in (0, 7, 14)
    )
    with ferry.Table(bytes(changed)) as table, pytest.raises(FormatError, match=r"rows, expected"):
        list(table.batches(1024))


def test_repeated_strings(monkeypatch):
    """Few bytes that stand for too much text are refused, though each part would fit."""
    monkeypatch.setattr(limits, "memory", 1 << 24)
    data = written(pa.table({"a": ["x" * 100_000] * 20_000, "b": np.arange(20_000)}))
    with ferry.Table(data) as table, pytest.raises(LimitError):
        list(table.batches(10))


def test_end_of_the_process(data):
    """Whoever stopped in the middle does not hold what was lent to PyArrow when Python ends."""
    table = ferry.Table(data)
    batches = table.batches(1024)
    next(batches)
    reader = table._files.reader(0)
    assert reader in [borrower() for _, borrower in lending._lent.values()]
    lending.settle()
    assert reader not in [borrower() for _, borrower in lending._lent.values()]
