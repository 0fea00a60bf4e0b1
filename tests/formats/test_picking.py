"""Rows by their numbers: the rows of the columns, one or several, natively or not."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import ChecksumError, FormatError
from tensorferry.rows.schema import Feature, Schema

ROWS = 300
SIGNALLING = np.array([0x7F800001], np.uint32).view(np.float32)


def make_rows() -> list[dict[str, Any]]:
    """Rows with features of all sorts."""
    generator = np.random.default_rng(3)
    rows = []
    for number in range(ROWS):
        row: dict[str, Any] = {
            "id": number - 5,
            "score": np.float32(generator.standard_normal()) if number % 9 else SIGNALLING[0],
            "text": f"row {number}",
            "vector": generator.standard_normal(4, dtype=np.float32),
            "tokens": generator.integers(-(2**63), 2**63 - 1, number % 5),
            "tags": [b"t"] * (number % 3),
            "maybe": number if number % 4 else None,
            "name": b"n" if number % 5 else None,
            "matrix": np.full((2, 3), number, np.float64),
        }
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


SCHEMA = Schema(
    (
        Feature("id", "int64", (), "int64"),
        Feature("score", "float32", (), "float32"),
        Feature("text", "bytes", (), "string"),
        Feature("vector", "float32", (2, 2), "float32"),
        Feature("tokens", "int64", (None,), "int64", optional=True),
        Feature("tags", "bytes", (None,), "string"),
        Feature("maybe", "int64", (), "int64", optional=True),
        Feature("name", "bytes", (), "string", optional=True, default=b"none"),
        Feature("matrix", "bytes", (2, 3), "float64", encoding="tensor"),
    )
)
SIMPLE = ["id", "score", "text", "vector", "tokens", "tags", "maybe", "name"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Rows in three files, one of them empty, and all of them in one."""
    folder = tmp_path_factory.mktemp("picking")
    rows = make_rows()
    parts = {"a": rows[:100], "b": [], "c": rows[100:], "whole": rows}
    for name, part in parts.items():
        with ferry.writer(folder / f"{name}.tfrecord", durable=False, schema=SCHEMA) as out:
            for row in part:
                out.write(row)
    return {
        "one": f"{folder}/whole.tfrecord",
        "several": [f"{folder}/{name}.tfrecord" for name in "abc"],
    }


def expected_rows(records: Any) -> list[dict[str, Any]]:
    """The rows as they stand in the columns of all records."""
    columns = records.value()
    rows = []
    for number in range(ROWS):
        row = {}
        for name, column in columns.items():
            value = column[number]
            if name in records.optional:
                value = value[0] if len(value) else None
            row[name] = value
        rows.append(row)
    return rows


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        other = found[name]
        assert type(other) is type(value), name
        if isinstance(value, np.ndarray | np.generic):
            assert other.dtype == value.dtype
            assert other.shape == value.shape
            assert other.tobytes() == value.tobytes() or value.dtype == object
            if isinstance(value, np.ndarray):
                assert other.tolist() == value.tolist() or value.dtype.kind == "f"
                assert other.flags.writeable
        else:
            assert other == value


@pytest.mark.parametrize("where", ["one", "several"])
@pytest.mark.parametrize("columns", [SIMPLE, [*SIMPLE, "matrix"], ["tokens", "id"]])
@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_every_way_gives_the_same_rows(paths, where, columns, schema):
    """`rows[i]`, `rows[[...]]`, slices and iterating give the values of the columns."""
    with ferry.Records(paths[where], columns=columns, schema=schema) as records:
        expected = expected_rows(records)
        numbers = [7, 299, 100, 7, 99, 0, *range(50, 150)]
        for _ in range(2):
            for number, row in enumerate(records):
                assert_same(row, expected[number])
            for number in (*range(ROWS), *range(-ROWS, 0)):
                assert_same(records[number], expected[number])
            for number, row in zip(numbers, records[numbers], strict=True):
                assert_same(row, expected[number])
            for number, row in enumerate(records[10:290]):
                assert_same(row, expected[10 + number])
        assert records[[]] == []
        for beyond in (ROWS, -ROWS - 1):
            with pytest.raises(IndexError, match=f"record {beyond} of {ROWS}"):
                records[beyond]
            with pytest.raises(IndexError, match=f"record {beyond} of {ROWS}"):
                records[[1, beyond]]


def test_columns_and_processes_do_not_mix(paths):
    """Selected columns and unpickled records have rows of their own."""
    records = ferry.Records(paths["one"], schema=SCHEMA)
    whole = records[3], records[3]
    some = records.select(["id"])
    again = pickle.loads(pickle.dumps(records))

    assert list(some[3]) == list(some[3]) == ["id"]
    assert list(records[3]) == list(SCHEMA)
    for row in (whole[1], again[3], again[3]):
        assert_same(row, whole[0])


def test_threads_share_records(paths):
    """Several threads read rows of the same records at the same time."""
    records = ferry.Records(paths["several"], columns=SIMPLE, schema=SCHEMA)
    expected = expected_rows(records)

    def read(seed: int) -> None:
        for number in np.random.default_rng(seed).integers(0, ROWS, 300).tolist():
            assert_same(records[number], expected[number])
            assert_same(records[[number, 5]][0], expected[number])

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(read, range(4)))


def test_damage_is_told_as_ever(paths, tmp_path):
    """A flipped bit, and a record that does not fit the schema, are errors that name the record."""
    data = bytearray(Path(paths["one"]).read_bytes())
    with ferry.Records(paths["one"], schema=SCHEMA) as records:
        start, size = records._access.indexes()[0][20].tolist()
    data[start + size // 2] ^= 4
    damaged = tmp_path / "damaged.tfrecord"
    damaged.write_bytes(data)
    with ferry.Records(damaged, columns=SIMPLE, schema=SCHEMA) as records:
        assert records[19]["id"] == records[19]["id"] == 14
        for where in (20, [3, 20], slice(18, 22)):
            with pytest.raises(ChecksumError, match="record 20 is corrupt"):
                records[where]
        assert records[21]["id"] == 16

    misfit = Schema((Feature("id", "int64", (), "int64"), Feature("maybe", "int64", (), "int64")))
    with ferry.Records(paths["one"], schema=misfit) as records:
        assert records[1]["maybe"] == records[1]["maybe"] == 1
        for where in (8, [1, 8], slice(5, 9)):
            with pytest.raises(FormatError, match="record 8: no feature 'maybe'"):
                records[where]


def test_rows_outlive_their_file(paths, tmp_path):
    """Rows stay valid when records are closed, which can be read again."""
    path = tmp_path / "copy.tfrecord"
    path.write_bytes(Path(paths["one"]).read_bytes())
    records = ferry.Records(path, schema=SCHEMA, columns=SIMPLE)
    row = [records[5], records[5]][1]
    records.close()

    assert_same(row, records[5])
