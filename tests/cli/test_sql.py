"""`ferry sql`: queries over files, and over nothing else."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from commands import run

import tensorferry as ferry
from tensorferry.operations.sql import tables_in

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set of shards and a table, and a file that nobody names."""
    folder = tmp_path_factory.mktemp("sql")
    for shard in range(2):
        with ferry.writer(folder / f"train-{shard}.tfrecord", durable=False) as out:
            for number in range(50):
                out.write({"id": shard * 50 + number, "label": number % 5})
    names = {"label": np.arange(5), "name": np.array([b"n%d" % n for n in range(5)], object)}
    ferry.save(names, folder / "names.parquet", rows=True, durable=False)
    (folder / "secret.csv").write_text("a\n1\n")
    return folder


@pytest.fixture
def query(folder, call, monkeypatch):
    """Runs a query in the folder."""
    monkeypatch.chdir(folder)
    return lambda *arguments: call("sql", *arguments)


def test_queries(query):
    """Shards, tables and both together are queried by their paths."""
    ran = query(
        'select label, count(*) as n, sum(id) as s from "train-*.tfrecord" group by 1 order by 1'
    )
    assert [json.loads(line) for line in ran.out.splitlines()][1] == {"label": 1, "n": 20, "s": 970}

    joined = """select a.id, b.name from "train-*.tfrecord" a join 'names.parquet' b using (label)
                where a.id < 3 order by 1 -- a comment, "nothing.csv" """
    assert query(joined, "--to", "csv").out == "id,name\n0,n0\n1,n1\n2,n2\n"
    twice = 'select count(*) as n from "names.parquet" a, "names.parquet" b'
    assert json.loads(query(twice, "--json").out)["rows"] == [{"n": 25}]
    part = 'with c as (select 4 as label) select max(label) as m from c, "names.parquet" n'
    assert json.loads(query(part.replace("(label)", "(c.label)")).out) == {"m": 4}
    assert query("select 1 as a, 2 as a", "--to", "csv").out == "a,a_2\n1,2\n"


def test_tables():
    """Tables are the names in quotes behind `from` and `join`, and in their lists."""
    sql = """select "a", 'b' from "c.csv" x, 'd.csv' join "e""f" on x.g = 'h' where i in ('j', "k")
             union select 1 from (select * from "l") -- from "m"
             /* from "n" */"""
    assert tables_in(sql) == ["c.csv", "d.csv", 'e"f', "l"]
    sql = """select $$ from "a" $$, 'ä', e'\\' from "b"' /* /* */ from "c" */ from "ö ü.csv" """
    assert tables_in(sql) == ["ö ü.csv"]


def test_names_in_two_cases(query, folder):
    """Two files whose names differ in case alone are two tables; DuckDB would take one for both."""
    for name, first in (("T.parquet", 1), ("t.parquet", 5)):
        ferry.save({"id": np.array([first])}, folder / name, durable=False)
    both = 'select * from "T.parquet" union all select * from "t.parquet"'

    assert "differ in upper and lower case alone" in query(both).err
    assert query(both.replace('"t', '"./t')).out == '{"id": 1}\n{"id": 5}\n'


def test_no_temporary_files(query):
    """What does not fit into memory is an error, and lies in no file."""
    ran = query("select current_setting('temp_directory') as folder")
    assert json.loads(ran.out) == {"folder": ""}


def test_into_a_file(query, folder, tmp_path):
    """With -o the result is a file of rows; one without rows has its columns."""
    sql = 'select id, label from "train-*.tfrecord" where id % 10 = 0'
    for name in ("out.parquet", "out.tfrecord", "out.csv"):
        assert query(sql, "-o", tmp_path / name).code == 0
        assert ferry.count(tmp_path / name) == 10
        assert "exists already" in query(sql, "-o", tmp_path / name).err
    assert query(f"{sql} and id < 0", "-o", tmp_path / "none.parquet").code == 0
    assert ferry.open(tmp_path / "none.parquet").columns == ["id", "label"]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('secret.csv')",
        "select * from read_csv_auto('secret.csv')",
        "select * from read_text('secret.csv')",
        "select * from read_blob('secret.csv')",
        "select * from read_parquet('names.parquet')",
        "select * from read_json('secret.csv')",
        "select * from sniff_csv('secret.csv')",
        "select * from glob('*')",
        "select * from parquet_metadata('names.parquet')",
        "select * from secret.csv",
        "copy (select 1) to 'written.csv'",
        "copy \"names.parquet\" to 'written.csv'",
        "export database 'written'",
        "attach 'written.db'",
        "install httpfs",
        "load 'httpfs'",
        "set enable_external_access = true",
        "pragma enable_profiling = 'json'",
        "select 1; copy (select 1) to 'written.csv'",
        "create table t as select 1",
        "select * from 'https://127.0.0.1:1/x.csv'",
        "select getenv('HOME')",
    ],
)
def test_nothing_else_is_read_or_written(query, folder, sql):
    """The text of a query neither reads nor writes what it does not name as a table."""
    before = sorted(os.listdir(folder))
    ran = query(sql)

    assert ran.code == 2, ran.out
    assert ran.out == ""
    assert sorted(os.listdir(folder)) == before


def test_wrong_queries(query, folder):
    """An error says what is wrong with the query, or with the file."""
    assert "nothing.csv: no such file" in query('select * from "nothing.csv"').err
    assert 'from "train.parquet"' in query("select * from names.parquet").err
    assert 'column "nope"' in query('select nope from "names.parquet"').err
    assert "syntax error" in query("selec 1").err
    data = bytearray((folder / "train-0.tfrecord").read_bytes())
    data[60] ^= 1
    (folder / "bad.tfrecord").write_bytes(data)
    try:
        ran = query('select sum(id) from "bad.tfrecord"')
    finally:
        os.unlink(folder / "bad.tfrecord")
    assert ran.code == 2
    assert "bad.tfrecord" in ran.err
    assert "record" in ran.err


def test_without_duckdb(folder):
    """Without DuckDB, the error names the extra, and the exit code is 3."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "duckdb.py").write_text('raise ImportError("no", name="duckdb")')
    from commands import SOURCE

    ran = run("sql", "select 1", PYTHONPATH=f"{hidden}{os.pathsep}{SOURCE}")
    assert ran.code == 3
    assert "tensorferry[sql]" in ran.err
