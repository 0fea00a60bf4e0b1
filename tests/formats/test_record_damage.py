"""Damaged records: found, told, skipped and repaired."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from formats.records import rows_of, write

import tensorferry as ferry


def test_errors_come_behind_the_batches_before(tmp_path):
    """One thread or two: the batches before damage are given, then the error."""
    path = write(tmp_path / "a.tfrecord", rows_of(5000))
    data = bytearray(Path(path).read_bytes())
    with ferry.open(path) as records:
        place = records._access.indexes()[0][4000, 0] - 12
    data[place] ^= 1
    Path(path).write_bytes(data)

    for threads in (1, 2):
        batches = ferry.open(path, threads=threads).batches(100)
        assert sum(len(next(batches)["id"]) for _ in range(40)) == 4000
        with pytest.raises(ferry.ChecksumError, match="record 4000 is corrupt"):
            next(batches)


def test_skip_and_repair(path, tmp_path):
    """Damages are told once however often the file is read; repair writes the others."""
    with ferry.open(path) as records:
        places = records._access.indexes()[0][:, 0].tolist()
    data = bytearray(Path(path).read_bytes())
    data[places[10]] ^= 1
    data[places[50] - 12] ^= 1
    Path(path).write_bytes(data)
    expected = [number for number in range(100) if number not in (10, 50)]

    with ferry.open(path, on_error="skip") as records:
        for _ in range(2):
            assert [row["id"] for row in records] == expected
        assert len(records) == 98
        assert records[10]["id"] == 11
        assert records[-1]["id"] == 99
        assert [(one.record, one.offset) for one in records.damages] == [
            (10, places[10] - 12),
            (50, places[50] - 12),
        ]
    with pytest.raises(ferry.ChecksumError, match="record 10 is corrupt"):
        next(ferry.open(path).batches(20))
    with pytest.raises(ferry.ChecksumError, match="record 50 is corrupt"):
        len(ferry.open(path))

    target = tmp_path / "repaired.tfrecord"
    count, damages = ferry.repair(path, target)
    assert (count, len(damages)) == (98, 2)
    assert [row["id"] for row in ferry.open(target)] == expected
    assert ferry.repair(target, target) == (98, [])
    with ferry.open(path, on_error="keep", raw=True) as records:
        assert len(records) == len(list(records)) == 99
        assert records[10] == list(records)[10]


def test_nothing_to_repair(tmp_path):
    """A file without a whole record leaves no target."""
    (tmp_path / "a").write_bytes(b"nothing of ours")
    with pytest.raises(ferry.FormatError, match="no whole record"):
        ferry.repair(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


def test_verify(tmp_path):
    """Every checksum is checked, in all files; a damaged one is an error that names it."""
    with ferry.writer(tmp_path / "data@3") as out:
        for number in range(100):
            out.write(b"record %d" % number)

    assert ferry.open(tmp_path / "data@3").verify() == 100
    damaged = tmp_path / "data-00001-of-00003"
    content = bytearray(damaged.read_bytes())
    content[-6] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ferry.ChecksumError) as caught:
        ferry.open(tmp_path / "data@3").verify()
    assert caught.value.path == str(damaged)
