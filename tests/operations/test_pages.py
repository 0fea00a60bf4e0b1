"""Pages: rows by their numbers in every format, search, and what is damaged."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import UnsupportedError
from tensorferry.operations.column_spread import column_distribution
from tensorferry.operations.pages import Pages, search
from tensorferry.operations.subject import open_one

ROWS = 3000
COLUMNS = {
    "id": np.arange(ROWS),
    "score": np.linspace(0, 1, ROWS).astype(np.float32),
    "text": np.array([f"Row {n}".encode() for n in range(ROWS)], object),
}
NAMES = ("x.tfrecord", "x.tfrecord.gz", "x.parquet", "x.arrow", "x.csv", "x.jsonl")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in NAMES:
        with ferry.writer(folder / name) as writer:
            writer.write_batch(COLUMNS)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_rows_by_number(files, name):
    """Forward, backward and in any order; behind the end there is nothing."""
    with open_one(files / name, lenient=True) as subject:
        pages = Pages(subject)
        for numbers in ([0, 1], [2000, 2001], [5], [2999, 3, 3], [2990, 3000, 5000], []):
            found = pages.take(numbers)
            assert [row.number for row in found] == [n for n in numbers if n < ROWS]
            for row in found:
                assert row.problem is None
                assert int(row.values["id"]) == row.number
                assert bytes(row.values["text"]).decode() == f"Row {row.number}"


def test_first_rows_of_a_large_file(tmp_path):
    """They are read before all others are found, and have the same numbers afterwards."""
    path = tmp_path / "x.tfrecord"
    blob = b"x" * (1 << 20)
    with ferry.writer(path, durable=False) as writer:
        for number in range(20):
            writer.write({"id": number, "blob": blob})
    with open_one(path, lenient=True) as subject:
        pages = Pages(subject)
        first = pages.take([2, 0])
        assert [int(row.values["id"]) for row in first] == [2, 0]
        assert subject.opened.known_count() is None
        assert pages.locate() == 20
        assert subject.opened.known_count() == 20
        assert [int(row.values["id"]) for row in pages.take([19, 2, 20])] == [19, 2]


def test_first_rows_with_one_that_does_not_fit(tmp_path):
    """A row that cannot be decoded counts from the start: numbers do not change later."""
    blob = np.array([b"x" * (1 << 20)], object)
    parts = [{"id": np.array([n]), "blob": blob} for n in range(20)]
    parts[3] = {"id": np.array([b"text"], object), "blob": blob}
    path = tmp_path / "x.tfrecord"
    for number, part in enumerate(parts):
        with ferry.writer(tmp_path / f"{number}.tfrecord", durable=False) as writer:
            writer.write_batch(part)
    path.write_bytes(b"".join((tmp_path / f"{n}.tfrecord").read_bytes() for n in range(20)))
    schema = ferry.open(tmp_path / "0.tfrecord").schema
    with open_one(path, lenient=True, options={"schema": schema}) as subject:
        found = Pages(subject).take(range(6))
    assert [row.number for row in found] == list(range(6))
    assert [row.problem is None for row in found] == [True, True, True, False, True, True]
    assert int(found[5].values["id"]) == 5


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet", "x.tfrecord.gz"])
def test_search(files, name):
    """Conditions as on the command line, text in any column, both together."""
    told = []
    with open_one(files / name) as subject:
        found = search(
            subject, where="id > 10 and id <= 12", progress=lambda *now: told.append(now)
        )
        assert list(found) == [11, 12]
        assert list(search(subject, text="row 299")) == [299, *range(2990, 3000)]
        assert list(search(subject, text="row 299", where="id < 1000")) == [299]
        assert list(search(subject, text="17")) == [
            n for n in range(ROWS) if n == 17 or "17" in str(n)
        ]
        with pytest.raises(UnsupportedError):
            list(search(subject, where="nothing == 1"))
        with pytest.raises(UnsupportedError):
            list(search(subject, where="id =="))
    assert told[-1][0] in (ROWS, 2048)


def test_damaged_record(tmp_path):
    """A record that is damaged is left out and told; one that is no Example has its reason."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as writer:
        writer.write_batch({"id": np.arange(100)})
    data = bytearray(path.read_bytes())
    size = len(data) // 100
    data[size * 40 + 14] ^= 1
    path.write_bytes(data)
    with open_one(path, lenient=True) as subject:
        found = Pages(subject).take(range(38, 42))
        assert [int(row.values["id"]) for row in found] == [38, 39, 41, 42]
        assert [damage.record for damage in subject.opened.damages] == [40]


def test_record_that_does_not_fit(tmp_path):
    """Neighbours of a record that cannot be decoded are given."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as writer:
        writer.write_batch({"id": np.arange(1500)})  # more than the schema is inferred from
    with ferry.writer(tmp_path / "y.tfrecord") as writer:
        writer.write_batch({"id": np.array([b"text"], object)})
    path.write_bytes(path.read_bytes() + (tmp_path / "y.tfrecord").read_bytes())
    with open_one(path, lenient=True) as subject:
        found = Pages(subject).take(range(1499, 1501))

    assert int(found[0].values["id"]) == 1499
    assert found[1].values == {}
    assert "id" in found[1].problem


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet"])
def test_column(files, name):
    """Counts, range and histogram of a column; frequent values where there are few."""
    told = []
    with open_one(files / name) as subject:
        found = column_distribution(subject, "id", progress=lambda *now: told.append(now))
        text = column_distribution(subject, "text")

    assert (found.rows, found.missing) == (ROWS, 0)
    assert (found.values.summary.minimum, found.values.summary.maximum) == (0, ROWS - 1)
    assert sum(found.values.histogram.counts) == ROWS
    assert told[-1] == (ROWS, ROWS)
    assert text.values.summary.distinct == ROWS
    assert text.frequent[0][1] == 1


def test_no_rows(tmp_path):
    """A bundle has no pages."""
    ferry.save({"x": np.ones(3)}, tmp_path / "x.npz")
    with open_one(tmp_path / "x.npz") as subject, pytest.raises(UnsupportedError):
        Pages(subject)
