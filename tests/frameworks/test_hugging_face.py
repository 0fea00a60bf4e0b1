"""Rows as a `datasets.Dataset` of Hugging Face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

datasets = pytest.importorskip("datasets")

import tensorferry as ferry  # noqa: E402

COLUMNS = {
    "id": np.arange(20),
    "x": np.arange(60, dtype=np.float32).reshape(20, 3),
    "image": np.arange(20 * 6, dtype=np.uint8).reshape(20, 2, 3),
    "text": np.array([f"row {n}" for n in range(20)], object),
}


@pytest.fixture(params=["tfrecord", "parquet", "arrow"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> ferry.Rows:
    path = tmp_path / f"x.{request.param}"
    with ferry.writer(path) as out:
        out.write_batch({**COLUMNS, "tokens": [list(range(n % 4)) for n in range(20)]})
    found = ferry.open(path)
    assert isinstance(found, ferry.Rows)
    return found


def test_every_column_is_there(rows: ferry.Rows) -> None:
    """`rows.to_hf()` has the columns, and its formats, `map` and `filter` work on them."""
    dataset = rows.to_hf()

    assert dataset.num_rows == 20
    assert dataset[7]["id"] == 7
    assert dataset[7]["tokens"] == [0, 1, 2]
    assert dataset.with_format("numpy")["x"][:].tolist() == COLUMNS["x"].tolist()
    assert dataset[5]["image"] == COLUMNS["image"][5].tolist()
    assert str(dataset[3]["text"]) in ("row 3", "b'row 3'")
    assert dataset.filter(lambda row: row["id"] > 15)["id"][:] == [16, 17, 18, 19]
    assert dataset.select([4, 2]).map(lambda row: {"twice": 2 * row["id"]})["twice"][:] == [8, 4]


def test_nothing_is_copied(rows: ferry.Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset holds the very memory of the table that `to_arrow` gives."""
    table = rows.to_arrow()
    monkeypatch.setattr(type(rows), "to_arrow", lambda self, progress=None: table)
    dataset = rows.to_hf()

    for name in ("x", "image"):
        assert dataset.data.column(name).num_chunks == table.column(name).num_chunks
        held = [chunk.buffers()[-1].address for chunk in dataset.data.column(name).chunks]
        assert held == [
            getattr(chunk, "storage", chunk).buffers()[-1].address
            for chunk in table.column(name).chunks
        ]
