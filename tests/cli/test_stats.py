"""`ferry stats`."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import NAMES, columns, run, run_on_terminal

import tensorferry as ferry


@pytest.mark.parametrize("name", NAMES)
def test_every_format(files, call, name):
    """The numbers are NumPy's, from every format."""
    ran = call("stats", files / name, "--json")
    (report,) = json.loads(ran.out)["files"]
    found = {column["name"]: column for column in report["columns"]}
    expected = columns()["score"].astype(np.float64)
    values = found["tensor" if name.startswith("array") else "score"]["values"]

    assert ran.code == 0
    assert values["count"] == 120
    assert values["minimum"] == pytest.approx(expected.min())
    assert values["mean"] == pytest.approx(expected.mean())
    assert values["deviation"] == pytest.approx(expected.std())
    assert values["quantiles"]["0.5"] == pytest.approx(np.median(expected))
    if not name.startswith("array"):
        assert found["name"]["values"]["distinct"] == 40
        assert found["label"]["values"]["zeros"] == 8


def test_what_is_missing(call, tmp_path):
    """Missing values, NaN, empty strings and the lengths of ragged rows."""
    path = tmp_path / "odd.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for number in range(6):
            out.write(
                {
                    "tokens": np.arange(number, dtype=np.int64),
                    "value": float("nan") if number == 2 else 1.5,
                    "text": b"" if number == 3 else b"ab",
                    **({"tag": 7} if number % 2 else {}),
                }
            )
    ran = call("stats", path)
    found = {
        column["name"]: column
        for column in json.loads(call("stats", path, "--json").out)["files"][0]["columns"]
    }

    assert "0-5, mean 2.5" in ran.out
    head, *lines = ran.out.splitlines()
    by_name = {line.split()[0]: line for line in lines}

    def cell(row: str, header: str) -> str:
        end = head.index(header) + len(header)
        return by_name[row][:end].split()[-1] if by_name[row][end - 1 : end].strip() else ""

    assert cell("value", "NaN") == "1"
    assert [cell("text", name) for name in ("distinct", "bytes", "empty")] == ["2", "0-2", "1"]
    assert (cell("tag", "missing"), cell("text", "missing")) == ("3", "")
    assert (found["tag"]["missing"], found["tag"]["values"]["count"]) == (3, 3)
    assert call("stats", path, "--match", "t*").out.count("\n") == 5


def test_terminals(files):
    """A narrow terminal has the deviation and the median rather than the count, and says so."""
    narrow = run_on_terminal("stats", files / "rows.tfrecord", columns=80, NO_COLOR="1").out
    wide = run_on_terminal("stats", files / "rows.tfrecord", columns=200, NO_COLOR="1").out
    head = narrow.splitlines()[0].split()

    assert {"min", "50%", "max", "std"} < set(head)
    assert "count" not in head
    assert "; -x shows all" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert {"count", "dtype", "5%"} < set(wide.splitlines()[0].split())
    assert "not shown" not in wide


def test_estimates_and_what_is_no_number(call, tmp_path):
    """Quantiles of many values are marked as estimates; NaN and infinity are red."""
    array = np.arange(40_000, dtype=np.float32)
    array[0] = np.nan
    ferry.save({"many": array, "few": np.array([1.0, np.inf])}, tmp_path / "x.npz", durable=False)
    ran = run("stats", tmp_path / "x.npz", FORCE_COLOR="1")
    many, few = ran.out.splitlines()[1:3]

    assert many.count("~") == 3
    assert few.count("~") == 0
    assert "\x1b[31m1\x1b[0m" in many
    assert "\x1b[31m1\x1b[0m" in few


def test_times_are_dates(call, tmp_path):
    """The range of a column of times is told in dates, and so are the rows."""
    when = [datetime(2024, 2, 29, 12, 30), datetime(2025, 1, 1)]
    table = pa.table({"when": pa.array(when, pa.timestamp("us")), "n": [1, 123_456_789]})
    pq.write_table(table, tmp_path / "t.parquet")
    out = call("stats", tmp_path / "t.parquet").out
    assert "2024-02-29T12:30:00" in out
    assert "2025-01-01T00:00:00" in out
    assert " 123456789 " in out
    first, second = map(json.loads, call("cat", tmp_path / "t.parquet").out.splitlines())
    assert [first["when"], second["when"]] == [each.isoformat() for each in when]


def test_standard_input(files):
    """Records come through a pipe."""
    ran = run("stats", "-", stdin=(files / "rows.tfrecord").read_bytes())

    assert ran.code == 0
    assert "40 records" in ran.out
