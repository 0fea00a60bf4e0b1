"""`ferry slice`, `sample`, `shuffle`, `split`, `merge` and `count`, on every format of rows."""

from __future__ import annotations

import json
import os
import resource

import numpy as np
import pytest
from commands import run

import tensorferry as ferry
from tensorferry.formats.table import TABLE
from tensorferry.operations import shuffle as shuffling

COUNT = 300
FORMATS = [facts.suffixes[0] for facts in TABLE.values() if facts.streams_rows]
ENDINGS = [*FORMATS, ".tfrecord.gz"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows in every format of rows."""
    folder = tmp_path_factory.mktemp("rows")
    columns = {
        "id": np.arange(COUNT),
        "user": np.array([b"u%d" % (number % 37) for number in range(COUNT)], object),
    }
    for ending in ENDINGS:
        with ferry.writer(folder / f"all{ending}", durable=False) as out:
            out.write_batch(columns)
    return folder


def ids(path):
    """The rows of a file, by their numbers."""
    return [int(row["id"]) for row in ferry.open(str(path))]


def users(path):
    """The keys in a file."""
    return {row["user"] for row in ferry.open(str(path))}


def test_formats_are_those_that_hold_rows():
    """TFRecord, Parquet, Arrow, CSV and JSON Lines are all there."""
    assert set(FORMATS) == {".tfrecord", ".parquet", ".arrow", ".csv", ".jsonl"}


def test_one_seed_one_result(folder, call, tmp_path):
    """The same seed gives the same sample, order and parts in every format; others do not."""
    results = []
    for ending in ENDINGS:
        source = folder / f"all{ending}"
        names = [f"{tmp_path}/{name}{ending}" for name in ("some", "mixed", "a", "b", "c", "d")]
        some, mixed, a, b, c, d = names
        for arguments in (
            ["sample", source, some, "-n", 7],
            ["shuffle", source, mixed],
            ["split", source, a, b, "--ratio", "0.9,0.1"],
            ["split", source, c, d, "--ratio", "2,1", "--by", "user"],
        ):
            assert call(*arguments, "--seed", 5).code == 0
        results.append([ids(name) for name in names])
        assert users(c) | users(d) == users(source)
        assert not users(c) & users(d)

    some, mixed, a, b, c, d = results[0]
    assert all(found == results[0] for found in results[1:])
    assert sorted(mixed) == list(range(COUNT)) != mixed
    assert some == sorted(mixed[:7])
    assert (sorted(a + b), len(a)) == (list(range(COUNT)), 270)
    assert a == sorted(a)
    assert sorted(c + d) == list(range(COUNT))
    other = ferry.shuffle(folder / "all.tfrecord", tmp_path / "other.tfrecord", seed=6)
    assert ids(other.target) != mixed


def test_slice_split_and_merge(folder, call, tmp_path):
    """`slice`, `split` and `merge` take every format of rows."""
    for ending in ENDINGS:
        source, names = folder / f"all{ending}", {}
        for name in ("last", "some", "shards", "whole"):
            names[name] = tmp_path / f"{name}{ending}"
        assert call("slice", source, names["last"], "-3:").code == 0
        where = ["--where", 'user = "u5" and id > 5']
        assert call("slice", source, names["some"], "-2:", *where).code == 0
        assert call("split", source, names["shards"], "--rows", 120).code == 0
        parts = sorted(tmp_path.glob(f"shards-*-of-00003{ending}")) or sorted(
            tmp_path.glob(f"shards{ending}-*-of-00003")
        )
        assert call("merge", *parts, names["whole"]).code == 0

        assert ids(names["last"]) == [297, 298, 299]
        assert ids(names["some"]) == [227, 264]
        assert [ferry.count(part, format=ferry.open(source).format) for part in parts] == [100] * 3
        assert ids(names["whole"]) == list(range(COUNT))


def test_from_one_format_into_another(folder, call, tmp_path):
    """The name of OUT, or --to, says the format; types stay what they were."""
    assert call("shuffle", folder / "all.parquet", tmp_path / "a.tfrecord").code == 0
    assert call("sample", folder / "all.tfrecord", tmp_path / "b.arrow", "--ratio", 0.5).code == 0
    assert call("slice", folder / "all.arrow", tmp_path / "c", "5:7", "--to", "csv").code == 0

    assert sorted(ids(tmp_path / "a.tfrecord")) == list(range(COUNT))
    assert len(ids(tmp_path / "b.arrow")) == COUNT // 2
    assert (tmp_path / "c").read_text().splitlines() == ['"id","user"', '5,"u5"', '6,"u6"']


def test_streams(folder, tmp_path):
    """Rows of the standard input are shuffled as those of a file are."""
    data = (folder / "all.tfrecord").read_bytes()
    ran = run("shuffle", "-", tmp_path / "mixed.tfrecord", "--seed", 3, stdin=data)

    assert ran.code == 0, ran.err
    ferry.shuffle(folder / "all.tfrecord", tmp_path / "same.tfrecord", seed=3)
    assert ids(tmp_path / "mixed.tfrecord") == ids(tmp_path / "same.tfrecord")
    assert sorted(os.listdir(tmp_path)) == ["mixed.tfrecord", "same.tfrecord"]


@pytest.mark.parametrize("ending", [".tfrecord.gz", ".parquet"])
def test_more_than_is_held(folder, tmp_path, monkeypatch, ending):
    """Rows that do not fit are scattered over temporary files, and the order is the same."""
    whole = ferry.shuffle(folder / f"all{ending}", tmp_path / f"whole{ending}", seed=3)
    monkeypatch.setattr(shuffling, "HELD", 64)
    monkeypatch.setattr(shuffling, "MOST_FILES", 7)
    again = ferry.shuffle(folder / f"all{ending}", tmp_path / f"again{ending}", seed=3)

    assert ids(again.target) == ids(whole.target)
    assert len(os.listdir(tmp_path)) == 2


def test_memory_is_bounded(tmp_path, monkeypatch):
    """Shuffling 100 MB of compressed records takes a fraction of that."""
    data = np.random.default_rng(0).bytes(100_000)
    with ferry.writer(tmp_path / "big.tfrecord.gz", level=0, durable=False) as out:
        for number in range(1000):
            out.write(number.to_bytes(4, "little") + data)
    del data
    monkeypatch.setattr(shuffling, "HELD", 8 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ferry.shuffle(tmp_path / "big.tfrecord.gz", tmp_path / "out.tfrecord", durable=False)

    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 60_000
    rows = ferry.open(tmp_path / "out.tfrecord", raw=True)
    numbers = [int.from_bytes(row[:4], "little") for row in rows]
    assert sorted(numbers) == list(range(1000)) != numbers


def test_records_that_are_no_examples(tmp_path):
    """Records of any bytes are dealt out as they are."""
    with ferry.writer(tmp_path / "raw.tfrecord", durable=False) as out:
        for number in range(20):
            out.write(b"%d" % number)
    ferry.sample(tmp_path / "raw.tfrecord", tmp_path / "some.tfrecord", 0.5)

    found = list(ferry.open(tmp_path / "some.tfrecord", raw=True))
    assert len(found) == 10
    assert found == sorted(found, key=int)


def test_nothing_appears_where_something_fails(folder, call, tmp_path):
    """All parts appear, or none; wrong use says what to type."""
    (tmp_path / "b.parquet").write_bytes(b"")
    source = folder / "all.parquet"
    a, b = tmp_path / "a.parquet", tmp_path / "b.parquet"
    assert "exists already" in call("split", source, a, b, "--ratio", "1,1").err
    assert "one file for each part" in call("split", source, a, "--ratio", "1,1").err
    assert (
        "no column is called 'usr'" in call("split", source, a, "--ratio", "1", "--by", "usr").err
    )
    assert "--ratio" in call("split", source, a, "--shards", 2, "--by", "user").err
    assert "expected one of -n and --ratio" in call("sample", source, a).err
    assert "beyond" not in call("sample", source, a, "--ratio", 2).err
    assert not a.exists()


def test_keep_going(folder, call, tmp_path):
    """`--keep-going` makes one file of what can be read, names the rest, and ends with 2."""
    data = (folder / "all.tfrecord").read_bytes()
    (tmp_path / "cut.tfrecord").write_bytes(data[:-7])
    (tmp_path / "none.tfrecord").write_bytes(b"<html>")
    inputs = [folder / "all.tfrecord", tmp_path / "cut.tfrecord", tmp_path / "none.tfrecord"]
    for command in ("merge", "convert"):
        out = tmp_path / f"{command}.tfrecord"
        assert call(command, *inputs, out).code == 2
        assert not out.exists()
        ran = call(command, *inputs, out, "--keep-going", "--json")

        assert ran.code == 2
        assert len(ids(out)) == 2 * COUNT - 1
        assert "none.tfrecord" in ran.err
        assert "left out" in ran.err


def test_count(folder, call):
    """`count` gives the number of rows or tensors, and of several files the sum."""
    for ending in ENDINGS:
        assert call("count", folder / f"all{ending}").out == f"{COUNT}\n"
    several = call("count", folder / "all.csv", folder / "all.tfrecord", folder / "no.csv")
    assert several.code == 2
    assert several.out.splitlines()[-1].split() == ["600", "total"]
    document = json.loads(call("count", folder / "all.csv", "--json").out)
    assert document["files"] == [{"path": str(folder / "all.csv"), "count": COUNT}]
    assert document["total"] == COUNT
    assert call("count", folder / "all.csv", "--where", 'user ~ "^u[12]$"').out == "18\n"
    assert ferry.count(folder / "all.parquet", where="id not in (1, 2)") == COUNT - 2


def test_forms(folder, call, tmp_path):
    """`--to` prints rows as CSV, JSON Lines or Markdown, whatever is in them."""
    rows = [{"a": 1, "b": 'x,"y"\nz|'}, {"a": 2, "b": None}]
    ferry.save(rows, tmp_path / "odd.parquet", durable=False)
    shown = {form: call("cat", tmp_path / "odd.parquet", "--to", form).out
             for form in ("csv", "jsonl", "markdown")}  # fmt: skip

    (tmp_path / "again.csv").write_text(shown["csv"])
    again = list(ferry.open(tmp_path / "again.csv"))
    assert again[0]["b"] == b'x,"y"\nz|'
    assert [json.loads(line) for line in shown["jsonl"].splitlines()] == rows
    assert shown["markdown"].splitlines() == [
        "| a | b |", "| --: | --- |", '| 1 | x,"y"\\\\nz\\| |', "| 2 | - |"
    ]  # fmt: skip
    assert "two forms" in call("cat", tmp_path / "odd.parquet", "--to", "csv", "--json").err
