"""Records of one layout, which are compared instead of read, among records of others."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import tfio

ROWS = 400


def rows(kind: str) -> list[dict]:
    """Rows whose layout is the same for a while, or never."""
    generator = np.random.default_rng(0)
    made = []
    for number in range(ROWS):
        row = {
            "a": np.float32(generator.standard_normal()),
            "b": generator.standard_normal(3).astype(np.float32),
            "id": number if kind != "negative" else -number,
            "label": int(generator.integers(0, 100)),
            "name": b"%04d" % number,
        }
        if kind == "changing" and number % 50 > 40:
            row["name"] = b"x" * (number % 7)
        if kind == "missing" and number % 9 == 8:
            del row["b"]
        if kind == "long":
            row["ids"] = generator.integers(128, 16384, 20)
        made.append(row)
    return made


@pytest.mark.parametrize("kind", ["same", "changing", "missing", "negative", "long"])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_come_back(tmp_path, kind, threads):
    """Every row has its values, whether its layout is that of the rows before or another one."""
    path = tmp_path / "x.tfrecord"
    given = rows(kind)
    with ferry.writer(path) as out:
        for row in given:
            out.write(row)

    with ferry.Records(path, threads=threads) as records:
        found = list(records)
        batches = list(records.batches(64))
    assert len(found) == ROWS
    for row, wanted in zip(found, given, strict=True):
        for name, value in wanted.items():
            assert np.array_equal(row[name], value)
        assert all(row[name] is None for name in row.keys() - wanted.keys())
    names = [name for batch in batches for name in batch["name"]]
    assert names == [row["name"] for row in given]
    ids = np.concatenate([np.asarray(batch["id"]) for batch in batches])
    assert ids.tolist() == [row["id"] for row in given]


def test_damage_among_records_of_one_layout(tmp_path):
    """A record that is broken in the middle of others of its size is found, and named."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as out:
        for row in rows("same"):
            out.write(row)
    schema = ferry.Records(path).schema
    records = list(tfio.tf_record_iterator(str(path)))
    size = len(records[300])
    place = next(n for n in range(300, ROWS) if len(records[n]) == size) + 1
    broken = bytearray(records[place])
    broken[1] ^= 1  # the length of the features
    records[place] = bytes(broken)
    with ferry.writer(path) as out:
        for record in records:
            out.write(record)

    with pytest.raises(ferry.FormatError, match=f"record {place}"):
        list(ferry.Records(path, schema=schema).batches(64))
    with ferry.Records(path, schema=schema, on_error="skip") as kept:
        assert sum(len(batch["id"]) for batch in kept.batches(64)) == ROWS - 1
