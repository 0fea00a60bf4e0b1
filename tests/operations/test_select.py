"""Rows of files as dicts: the first, the last, or all of them."""

from __future__ import annotations

import json

import pytest

from tensorferry.formats import csv, jsonlines
from tensorferry.formats.tables import text
from tensorferry.operations.select import select


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_few_rows_are_read_from_few_blocks(tmp_path, monkeypatch, format, last):
    """A few rows of text take the block they stand in and the first, not all of the file.

    Whether a column is null in some other row makes no difference to them.
    """
    rows = [{"a": n, "b": None if n % 7 == 6 else f"t{n}"} for n in range(100)]
    path = tmp_path / f"rows.{format}"
    if format == "csv":
        path.write_text("a,b\n" + "".join(f"{row['a']},{row['b'] or ''}\n" for row in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(text, "BLOCK", 64)
    expected = list(select(path))
    kind = csv.Reader if format == "csv" else jsonlines.Reader
    parse = kind._parse
    calls = []
    monkeypatch.setattr(kind, "_parse", lambda *given: calls.append(given) or parse(*given))

    found = list(select(path, limit=3, last=last))

    assert found == (expected[-3:] if last else expected[:3])
    assert len(calls) < 8
