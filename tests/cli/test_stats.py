"""`ferry stats`."""

from __future__ import annotations

import json

import numpy as np
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

    assert "0-5 a row (mean 2.5)" in ran.out
    assert "1 NaN" in ran.out
    assert "2 distinct, 0-2 bytes, 1 empty" in ran.out
    assert "3 missing" in ran.out
    assert (found["tag"]["missing"], found["tag"]["values"]["count"]) == (3, 3)
    assert call("stats", path, "--match", "t*").out.count("\n") == 5


def test_terminals(files):
    """A wide terminal shows quantiles, a narrow one does not."""
    narrow = run_on_terminal("stats", files / "rows.tfrecord", columns=80)
    wide = run_on_terminal("stats", files / "rows.tfrecord", columns=200)

    assert "50%" not in narrow.out.split("\n")[0]
    assert " 50%" in wide.out
    assert max(len(line) for line in narrow.out.split("\n")[-4:]) <= 90


def test_standard_input(files):
    """Records come through a pipe."""
    ran = run("stats", "-", stdin=(files / "rows.tfrecord").read_bytes())

    assert ran.code == 0
    assert "40 records" in ran.out
