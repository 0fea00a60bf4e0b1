"""The index of a file of records: written beside the file, or kept from the last scan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.records import rows_of, write

import tensorferry as ferry
from tensorferry.formats.tfrecord import index as indexes


def test_index_files(path, monkeypatch):
    """An index is written beside each file and used instead of a scan; a stale one is not."""
    with ferry.open(path) as records:
        assert records.write_index() == [path + ".idx"]
    first = Path(path + ".idx").read_text().splitlines()[0].split()
    assert first[0] == "0"

    with monkeypatch.context() as patch:
        patch.setattr(indexes, "build", None)
        with ferry.open(path) as records:
            assert len(records) == 100
            assert records[42]["id"] == 42
    write(path, rows_of(50))
    os.utime(path + ".idx")
    assert len(ferry.open(path)) == 50
    assert ferry.open(os.path.dirname(path)).paths == [path]


def test_index_by_the_definition(path):
    """Each line of an index is the offset and length of a frame, as DALI's script writes."""
    with ferry.open(path, raw=True) as records:
        records.write_index()
        expected = list(records)
    with open(path, "rb") as file:
        for line, record in zip(
            Path(path + ".idx").read_text().splitlines(), expected, strict=True
        ):
            offset, length = map(int, line.split())
            file.seek(offset)
            assert ferry.loads(file.read(length), format="tfrecord") == [record]


# Kept from the last scan


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the indexes of files are kept, which are all large ones here."""
    monkeypatch.setattr(indexes, "REMEMBERED", 1)
    monkeypatch.delenv("TENSORFERRY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tensorferry/indexes"


def write_numbers(path: Path, first: int) -> None:
    with ferry.writer(path, durable=False) as out:
        out.write_batch({"id": np.arange(first, first + 500)})


def test_a_large_file_is_scanned_once(
    tmp_path: Path, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a scan found is used by the next process, as long as the file is the same."""
    path = tmp_path / "a.tfrecord"
    write_numbers(path, 100)
    with ferry.open(path) as records:
        assert records[7]["id"] == 107
        known = records._access.indexes()[0].tolist()
    (kept,) = remembered.iterdir()
    assert kept.stat().st_size == 500 * 8

    scan = indexes.build
    scans: list[Any] = []
    monkeypatch.setattr(indexes, "build", lambda frames: scans.append(frames) or scan(frames))
    with ferry.open(path) as records:
        assert records[[499, 3]] == [{"id": 599}, {"id": 103}]
        assert records._access.indexes()[0].tolist() == known
    assert not scans
    write_numbers(path, 90_000)
    with ferry.open(path) as records:
        assert records[499]["id"] == 90_499
    assert len(scans) == 1


def test_kept_indexes_are_bounded(
    tmp_path: Path, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes take no more than `limits.cache`, and none are kept where the cache is off."""
    monkeypatch.setattr(ferry.limits, "cache", 9_000)  # room for two of them
    for number in range(4):
        write_numbers(tmp_path / f"{number}.tfrecord", number)
        with ferry.open(tmp_path / f"{number}.tfrecord") as records:
            assert records[7]["id"] == number + 7
    assert len(list(remembered.iterdir())) == 2
    assert remembered.stat().st_mode & 0o777 == 0o700

    monkeypatch.setenv("TENSORFERRY_CACHE", "")
    write_numbers(tmp_path / "x.tfrecord", 0)
    with ferry.open(tmp_path / "x.tfrecord") as records:
        assert records[7]["id"] == 7
    assert len(list(remembered.iterdir())) == 2


@pytest.mark.parametrize("harm", ["cut", "noise", "other", "link", "folder"])
def test_what_stands_in_the_place_of_a_kept_index_is_passed_over(
    tmp_path: Path, remembered: Path, harm: str
) -> None:
    path = tmp_path / "a.tfrecord"
    write_numbers(path, 100)
    with ferry.open(path) as records:
        records[0]
    (kept,) = remembered.iterdir()
    lengths = np.frombuffer(kept.read_bytes(), "<i8")
    kept.unlink()
    if harm == "link":
        (tmp_path / "elsewhere").write_bytes(lengths[::-1].tobytes())
        kept.symlink_to(tmp_path / "elsewhere")
    elif harm == "folder":
        kept.mkdir()
    elif harm == "cut":
        kept.write_bytes(lengths.tobytes()[:-3])
    elif harm == "noise":
        kept.write_bytes(np.random.default_rng(0).bytes(4000))
    else:
        kept.write_bytes(np.concatenate([lengths[250:] + 1, lengths[:250] - 1]).tobytes())
    with ferry.open(path) as records:
        assert [row["id"] for row in records[::50]] == list(range(100, 600, 50))
