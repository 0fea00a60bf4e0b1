"""Answers that were wrong once: repeated inputs, empty columns, numbers of rows, nulls, sizes."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run_on_terminal

import tensorferry as ferry
from tensorferry.operations import bench, measures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, a damaged copy of them, and tables with nulls."""
    folder = tmp_path_factory.mktemp("answers")
    for name, first in (("a", 0), ("b", 100)):
        with ferry.writer(folder / f"{name}.tfrecord", durable=False) as out:
            for row in range(10):
                out.write({"id": first + row, "x": [float(row)] * 3, "name": b"row %d" % row})
    data = bytearray((folder / "a.tfrecord").read_bytes())
    size = len(data) // 10
    for record in (4, 7):
        data[record * size + 30] ^= 1
    (folder / "damaged.tfrecord").write_bytes(data[:-5])
    lists = pa.list_(pa.int64())
    for name, rows in (("null", [[1], None, []]), ("empty", [[1], [], []])):
        pq.write_table(
            pa.table({"id": [1, 2, 3], "l": pa.array(rows, lists)}), folder / f"{name}.parquet"
        )
    return folder


def ids(path):
    """The ids of some rows."""
    with ferry.open(path) as rows:
        return [int(row["id"]) for row in rows]


def test_repeated_inputs(folder, call, tmp_path):
    """An input that is named twice is written twice, in its place."""
    a, b = folder / "a.tfrecord", folder / "b.tfrecord"
    first, second = list(range(10)), list(range(100, 110))

    assert call("merge", a, b, a, tmp_path / "m.tfrecord").code == 0
    assert ids(tmp_path / "m.tfrecord") == first + second + first
    assert call("convert", a, a, tmp_path / "c.parquet", "--verify").code == 0
    assert ids(tmp_path / "c.parquet") == first + first
    ferry.convert([a, a], tmp_path / "d.parquet")
    assert ids(tmp_path / "d.parquet") == first + first


def test_empty_columns_are_shown(tmp_path):
    """A column whose cells are all empty is there, named or not, and an empty text is visible."""
    table = {"id": [1, 2], "e": ["", ""], "n": pa.array([None, None], pa.int64())}
    pq.write_table(pa.table(table), tmp_path / "e.parquet")
    for arguments in ([], ["-s", "id,e,n"]):
        shown = run_on_terminal("head", tmp_path / "e.parquet", *arguments, NO_COLOR="1").out
        assert shown.splitlines() == ["id  e   n", ' 1  ""  -', ' 2  ""  -']


def test_distinct_strings(call, tmp_path, monkeypatch):
    """Different strings are counted exactly up to a bound; beyond, the number is marked."""
    texts = np.array([b"%d" % number for number in range(50_000)] * 2, object)
    ferry.save({"s": texts}, tmp_path / "s.npz", durable=False)
    assert "distinct 50,000" in call("show", tmp_path / "s.npz", "s").out
    monkeypatch.setattr(measures, "DISTINCT", measures.SAMPLE)
    assert re.search(r"distinct ~[45]\d,\d{3}", call("show", tmp_path / "s.npz", "s").out)
    assert "~" in call("stats", tmp_path / "s.npz").out
    alone = {"s": texts[:50_000]}
    ferry.save(alone, tmp_path / "s.npz", durable=False)
    (found,) = json.loads(call("stats", tmp_path / "s.npz", "--json").out)["files"]
    assert found["columns"][0]["values"]["distinct"] <= 50_000


def test_numbers_of_records(folder, call, tmp_path):
    """Every command gives a damaged record its number in the file, whatever is damaged before."""
    path = folder / "damaged.tfrecord"
    (info,) = json.loads(call("info", path, "--json").out)["files"]
    (verified,) = json.loads(call("verify", path, "--json").out)["files"]
    repaired = json.loads(call("repair", path, tmp_path / "good.tfrecord", "--json").out)

    assert [problem["record"] for problem in info["problems"]] == [9]
    assert [problem["record"] for problem in verified["problems"]] == [4, 7, 9]
    assert [damage["record"] for damage in repaired["damages"]] == [4, 7, 9]
    assert (verified["count"], repaired["count"]) == (7, 7)


def test_differences_by_key(call, tmp_path):
    """A difference between rows of one key is told with the key, both rows and both values."""
    pq.write_table(pa.table({"id": [5, 4, 3], "v": [[1], [2, 2], [3]]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [3, 5, 9], "v": [[7], [1], [2]]}), tmp_path / "b.parquet")
    paths = (tmp_path / "a.parquet", tmp_path / "b.parquet", "--key", "id")
    found = json.loads(call("diff", *paths, "--json").out)["tensors"][1]

    assert (found["key"], found["first"], found["other_first"]) == (3, [2, 0], [0, 0])
    assert found["values"] == [3, 7]
    shown = call("diff", *paths).out
    assert "key 3, row 2 of A, 0 of B [0]" in shown
    assert shown.splitlines()[-1] == "1 differ, 1 same, 1 row only in A, 1 row only in B"


def test_places_in_ragged_and_sparse(call, tmp_path):
    """The first difference of ragged and sparse tensors is told by its row and place there."""
    one = {
        "r": ferry.RaggedTensor.from_rows([[1, 2], [], [3, 4, 5]], dtype="int64"),
        "s": ferry.SparseTensor.from_dense([[0.0, 1.0], [2.0, 0.0]]),
        "n": ferry.RaggedTensor.from_rows([[1], [2]], dtype="int64"),
    }
    two = {
        "r": ferry.RaggedTensor.from_rows([[1, 2], [], [3, 9, 5]], dtype="int64"),
        "s": ferry.SparseTensor.from_dense([[0.0, 1.0], [7.0, 0.0]]),
        "n": ferry.RaggedTensor.from_rows([[1], [2, 3]], dtype="int64"),
    }
    ferry.save(one, tmp_path / "a.npz", durable=False)
    ferry.save(two, tmp_path / "b.npz", durable=False)
    report = ferry.diff(tmp_path / "a.npz", tmp_path / "b.npz")
    found = {each.name: (each.first, each.values) for each in report.tensors}

    assert found == {"r": ((2, 1), (4, 9)), "s": ((1, 0), (2.0, 7.0)), "n": ((1,), ([2], [2, 3]))}


def test_missing_lists(folder, call, tmp_path):
    """A missing list is no empty one, in `diff`, by a key or not, and in `hash`."""
    null, empty = folder / "null.parquet", folder / "empty.parquet"
    for key in ([], ["--key", "id"]):
        ran = call("diff", null, empty, *key)
        assert ran.code == 1
        assert "null → []" in ran.out
        assert call("diff", null, null, *key).code == 0
    assert call("convert", null, tmp_path / "n.arrow", "--verify").code == 0
    assert call("convert", null, tmp_path / "n.tfrecord", "--verify").code == 1
    ran = call("hash", null, tmp_path / "n.arrow", empty)
    first, second, other = (line.split()[0] for line in ran.out.splitlines())
    assert first == second != other


@pytest.mark.parametrize("suffix", ["npz", "tfrecord", "arrow", "jsonl", "safetensors"])
def test_structs_with_nulls(call, tmp_path, suffix):
    """A column of structs of which some are missing goes into every format of columns."""
    kind = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.float32()))])
    rows = [None, {"x": 1, "l": [1.0]}, {"x": None, "l": []}]
    pq.write_table(pa.table({"s": pa.array(rows, kind)}), tmp_path / "s.parquet")
    ran = call("convert", tmp_path / "s.parquet", tmp_path / f"s.{suffix}")

    assert ran.code == 0, ran.err
    with ferry.open(tmp_path / f"s.{suffix}") as opened:
        assert len(opened) >= 1


def test_size_is_that_in_the_file(call, tmp_path):
    """`size` means bytes of the file in every command; what values take in memory stands apart."""
    zeros = np.zeros((1000, 100), np.float32)
    np.savez_compressed(tmp_path / "z.npz", z=zeros)
    ferry.save(zeros, tmp_path / "z.npy.gz", durable=False)
    ferry.save({"z": zeros}, tmp_path / "z.safetensors", durable=False)
    for command in ("info", "ls", "tree"):
        shown = call(command, tmp_path / "z.npz").out
        assert re.search(r"size +in memory\n", shown), shown
        assert re.search(r"\[1000, 100\] +\d{3} B +400 kB\n", shown), shown
        packed = call(command, tmp_path / "z.npy.gz").out
        assert re.search(r"shape +in memory\n", packed), packed
        assert "in memory" not in call(command, tmp_path / "z.safetensors").out


def test_bench_agrees_with_itself():
    """What is recommended is what the numbers of the table say, and so is the reason."""
    timings = [
        bench.Timing("npz", None, 1000, 0.002, 0.001),
        bench.Timing("npz", "deflate", 500, 0.9, 0.8),
        bench.Timing("safetensors", None, 1010, 0.001, 0.0005),
        bench.Timing("safetensors", "zstd", 505, 0.5, 0.004),
        bench.Timing("tfrecord", None, 1100, 0.003, 0.003),
    ]
    found = {each.purpose: each for each in bench.recommend(timings, given=300)}

    assert (found["storage"].format, found["storage"].compression) == ("safetensors", "zstd")
    assert found["storage"].reason == (
        "1.0% larger than the smallest, and quicker to read; the file as it is is smaller still"
    )
    assert found["transfer"].format == "safetensors"
    assert "1.51 ms" in found["transfer"].reason
    assert found["tensorflow"].reason.startswith("written and read in 6 ms")
    timings[3] = bench.Timing("safetensors", "zstd", 600, 0.5, 0.004)
    assert next(bench.recommend(timings)).reason == "the smallest"


def test_missing_lists_are_null(call, tmp_path):
    """A list that is missing is null in rows and conditions, and missing in statistics."""
    path = tmp_path / "a.parquet"
    lists = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "l": lists}), path, row_group_size=2)
    rows = [{"id": number, "l": value} for number, value in enumerate(lists.to_pylist())]

    assert [json.loads(line) for line in call("cat", path).out.splitlines()] == rows
    assert [json.loads(line) for line in call("tail", "-3", path).out.splitlines()] == rows[1:]
    assert call("count", path, "--where", "l is null").out == "1\n"
    for index, expected in (("", lists.to_pylist()), ("[1:]", [None, [], [3]]), ("[1]", None)):
        shown = json.loads(call("show", path, f"l{index}", "--json").out)["excerpt"]["values"]
        assert shown == expected
    call("slice", path, tmp_path / "b.parquet", "--where", "l is null")
    assert pq.read_table(tmp_path / "b.parquet").to_pylist() == rows[1:2]
    found = json.loads(call("stats", path, "--json").out)["files"][0]["columns"][1]
    assert (found["missing"], found["lengths"]["count"], found["lengths"]["zeros"]) == (1, 3, 1)


def test_columns_without_counterpart_are_shown(call, tmp_path):
    """Rows have the columns of a table that no tensor can hold; bundles say what they leave out."""
    path = tmp_path / "a.parquet"
    prices = [Decimal("1.50"), None]
    when = pa.array([1_577_934_245_000_000_001, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"price": pa.array(prices), "n": pa.nulls(2), "when": when}), path)
    rows = [json.loads(line) for line in call("head", path).out.splitlines()]
    assert rows == [
        {"price": "1.50", "n": None, "when": "2020-01-02T03:04:05.000000001"},
        {"price": None, "n": None, "when": None},
    ]
    assert call("head", path, "--to", "csv").out.startswith("price,n,when\n1.50,,2020-01-02T")

    np.savez(tmp_path / "a.npz", a=np.arange(2), o=np.array([{}, {}], object))
    ran = call("head", tmp_path / "a.npz")
    assert ran.out == '{"a": 0}\n{"a": 1}\n'
    assert ran.err.startswith("ferry: left out: o: ")


def test_large_integers_are_exact(call, tmp_path):
    """The range of integers is printed in full, beyond what a float holds."""
    ferry.save({"x": np.array([1, 2**63 + 5], np.uint64)}, tmp_path / "a.npz")
    assert f" {2**63 + 5} " in call("stats", tmp_path / "a.npz").out


def test_no_half_document(call, tmp_path):
    """A file that cannot be read leaves no beginning of a document behind."""
    assert call("head", "--json", tmp_path / "missing.parquet").out == ""


def test_lists_of_one_in_csv(call, tmp_path):
    """In CSV, a list of one value is a list, as it is among others."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"l": pa.array([[1], [2, 3], []])}), path)
    assert call("cat", path, "--to", "csv").out == 'l\n[1]\n"[2, 3]"\n[]\n'


def test_schema_names_what_it_leaves_out(call, tmp_path):
    """A column that records cannot have is named, and not only missing."""
    table = pa.table({"a": [1], "price": pa.array([1], pa.decimal128(38, 18))})
    pq.write_table(table, tmp_path / "x.parquet")

    ran = call("schema", tmp_path / "x.parquet")
    assert ran.code == 0
    assert "'a'" in ran.out
    assert "left out: price" in ran.err
