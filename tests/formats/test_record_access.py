"""Random access to records, also from other processes."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest
from formats.records import rows_of, write

import tensorferry as ferry


def test_random_access(path, tmp_path):
    """One record, from either end, slices, lists and arrays, over several files."""
    other = write(tmp_path / "b.tfrecord", rows_of(20, 100))
    with ferry.open([path, other]) as records:
        assert len(records) == 120
        for number in (0, 99, 100, 119):
            assert records[number]["id"] == records[number - 120]["id"] == number
        assert records[np.int32(7)]["id"] == 7
        assert [row["id"] for row in records[98:103]] == [98, 99, 100, 101, 102]
        assert [row["id"] for row in records[::-40]] == [119, 79, 39]
        assert [row["id"] for row in records[[3, 110, 3]]] == [3, 110, 3]
        assert [row["id"] for row in records.__getitems__(np.array([5, -1]))] == [5, 119]
        assert records[[]] == records[5:5] == []
        for number in (120, -121):
            with pytest.raises(IndexError, match="of 120"):
                records[number]
        assert records["id"].tolist() == list(range(120))
        with pytest.raises(ferry.FerryError, match="no column is called 'ids'"):
            records["ids"]
        value = records[5]["image"]
    assert value[0, 0] == 5


def test_random_access_verifies(path):
    """A record is checked when it is asked for, others are not."""
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    Path(path).write_bytes(data)
    with ferry.open(path, schema={"id": "int64"}) as records:
        assert records[0]["id"] == 0
        with pytest.raises(ferry.ChecksumError, match="record 99 is corrupt"):
            records[99]
    assert ferry.open(path, verify=False)[99]["id"] == 99


def test_no_random_access_to_compressed_files(tmp_path):
    """A compressed file has a length, and records in order only."""
    path = write(tmp_path / "a.tfrecord.gz", rows_of(10))
    with ferry.open(path) as records:
        assert len(records) == 10
        with pytest.raises(ferry.UnsupportedError, match="gzip file can only be read in order"):
            records[3]


def first_id(given):
    """Works in another process."""
    records, number = given
    return int(records[number]["id"])


def test_pickling(path):
    """Records go to workers, which open the files anew."""
    records = ferry.open(path)
    assert records[3]["id"] == 3
    copy = pickle.loads(pickle.dumps(records))
    assert copy[5]["id"] == 5
    assert len(copy) == 100
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(first_id, [(records, 7), (records, -1)]) == [7, 99]
