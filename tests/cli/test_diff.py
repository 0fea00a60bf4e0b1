"""`ferry diff` and `ferry hash`, across formats."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import NAMES, columns, run

import tensorferry as ferry

SAME = [name for name in NAMES if not name.startswith("array")]
ARRAYS = [name for name in NAMES if name.startswith("array")]


@pytest.mark.parametrize("name", NAMES)
def test_equal_across_formats(files, call, name):
    """The same tensors are equal in every format, and have one digest."""
    first = SAME[0] if name in SAME else ARRAYS[0]
    ran = call("diff", files / first, files / name)
    digests = [call("hash", files / path).out.split()[0] for path in (first, name)]

    assert ran.code == 0, ran.out
    assert ran.out.startswith("equal")
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", ["values.npz", "rows.parquet", "rows.tfrecord"])
def test_one_value(files, call, tmp_path, name):
    """One value that differs is found in every pair: where, how far, and another digest."""
    changed = columns()
    changed["score"][17, 1] += 0.5
    path = tmp_path / name
    if name.endswith("tfrecord"):
        with ferry.writer(path, durable=False) as out:
            out.write_batch(changed)
    else:
        ferry.save(changed, path, durable=False)
    for other in SAME:
        ran = call("diff", files / other, path, "--json")
        report = json.loads(ran.out)
        found = {one["name"]: one for one in report["tensors"]}

        assert ran.code == 1
        assert not report["equal"]
        assert found["label"]["equal"]
        assert (found["score"]["differing"], found["score"]["first"]) == (1, [17, 1])
        assert found["score"]["largest"] == pytest.approx(0.5, rel=1e-5)
        assert 0.9 < found["score"]["cosine"] < 1
    assert call("diff", files / "values.npz", path, "--atol", 0.6).code == 0
    assert call("hash", path).out.split()[0] != call("hash", files / "values.npz").out.split()[0]


def test_names(call, tmp_path):
    """Other names by --map, and names that only one of the files has."""
    array = np.arange(4, dtype=np.float32)
    ferry.save({"enc/a": array, "enc/b": array, "x": array}, tmp_path / "a.npz", durable=False)
    ferry.save({"m.enc.a": array, "m.enc.b": array}, tmp_path / "b.safetensors", durable=False)
    paths = (tmp_path / "a.npz", tmp_path / "b.safetensors")

    alone = call("diff", *paths).out
    assert "only in A: x\n" in alone
    assert alone.count("renamed: ") == 2  # found by their content
    mapped = call("diff", *paths, "--map", "enc/*=m.enc.*")
    assert mapped.code == 1
    assert mapped.out.count("only in A: ") == 1
    assert call("diff", *paths, "--map", "enc/*=m.enc.*", "--match", "enc/*").code == 0


def test_rows_by_key(call, tmp_path):
    """Rows in another order are the same by their key; those without a counterpart count."""
    ids = np.arange(30)
    values = {"id": ids, "x": ids * 2.5}
    order = np.random.default_rng(0).permutation(30)[:28]
    shuffled = {"id": ids[order], "x": values["x"][order]}
    ferry.save(values, tmp_path / "a.parquet", rows=True, durable=False)
    with ferry.writer(tmp_path / "b.tfrecord", durable=False) as out:
        out.write_batch(shuffled)
    with ferry.writer(tmp_path / "c.tfrecord.gz", durable=False) as out:
        out.write_batch(shuffled)
    for other in ("b.tfrecord", "c.tfrecord.gz"):
        ran = call("diff", tmp_path / "a.parquet", tmp_path / other, "--key", "id", "--json")
        report = json.loads(ran.out)
        assert all(found["equal"] for found in report["tensors"])
        assert (report["rows_a"], report["rows_b"]) == (2, 0)


def test_kinds(call, tmp_path):
    """Sparse, ragged and small dtypes; shapes, dtypes and lengths of rows that differ."""
    ragged = ferry.RaggedTensor.from_rows([[1, 2], [], [3]], dtype="int64")
    value = {
        "ragged": ragged,
        "sparse": ferry.SparseTensor.from_dense([[0.0, 1.0], [2.0, 0.0]]),
        "nan": np.array([np.nan, 1.0], np.float32),
    }
    other = {
        "ragged": ferry.RaggedTensor.from_rows([[1], [2], [3]], dtype="int64"),
        "sparse": ferry.SparseTensor.from_dense([[0.0, 1.0], [0.0, 2.0]]),
        "nan": np.array([np.nan, 1.0], np.float16),
    }
    ferry.save(value, tmp_path / "a.npz", durable=False)
    ferry.save(value, tmp_path / "b.structure", durable=False)
    ferry.save(other, tmp_path / "c.npz", durable=False)

    assert call("diff", tmp_path / "a.npz", tmp_path / "b.structure").code == 0
    assert len({call("hash", tmp_path / f).out.split()[0] for f in ("a.npz", "b.structure")}) == 1
    report = json.loads(call("diff", tmp_path / "a.npz", tmp_path / "c.npz", "--json").out)
    assert {one["name"]: one["reason"] for one in report["tensors"]} == {
        "ragged": "rows",
        "sparse": "entries",
        "nan": "dtype",
    }
    function = ferry.diff(tmp_path / "a.npz", tmp_path / "c.npz", ignore_dtype=True)
    assert [found.name for found in function.tensors if found.equal] == ["nan"]


@pytest.mark.parametrize("shape", [(2,), (2, 3), (0,)])
def test_a_scalar_beside_an_array(tmp_path, shape):
    """They differ in their shape, whichever comes first."""
    ferry.save({"x": np.ones(shape)}, tmp_path / "a.npz", durable=False)
    ferry.save({"x": np.float64(1)}, tmp_path / "b.npz", durable=False)
    for pair in (("a", "b"), ("b", "a")):
        (found,) = ferry.diff(*(tmp_path / f"{name}.npz" for name in pair)).tensors
        assert found.reason == "shape"


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("became", [np.nan, -np.inf])
def test_not_finite(call, tmp_path, dtype, became):
    """A value that became NaN or infinite is no small change."""
    before = np.ones(100, dtype)
    after = before.copy()
    after[7] = became
    ferry.save({"x": before, "same": np.array([np.nan])}, tmp_path / "a.npz")
    ferry.save({"x": after, "same": np.array([np.nan])}, tmp_path / "b.npz")

    ran = call("diff", tmp_path / "a.npz", tmp_path / "b.npz")
    assert ran.code == 1
    assert "not finite" in ran.out
    (found,) = [
        one for one in ferry.diff(tmp_path / "a.npz", tmp_path / "b.npz").tensors if not one.equal
    ]
    assert (found.differing, found.nonfinite, found.relative) == (1, 1, None)


def test_rows_too_many(files, call, tmp_path):
    """Rows that only one of two files has are counted."""
    path = tmp_path / "more.tfrecord"
    with ferry.writer(path, durable=False) as out:
        out.write_batch(columns())
        out.write_batch({name: column[:3] for name, column in columns().items()})
    ran = call("diff", files / "rows.tfrecord", path)

    assert ran.code == 1
    assert "only in B: 3 rows" in ran.out


def test_hash_of_parts(files, call):
    """Shards, compression and order change nothing; --tensors has the digest of each."""
    ran = call("hash", files / "rows.tfrecord", files / "rows.tfrecord.gz", "--tensors")
    lines = ran.out.splitlines()

    assert len(lines) == 8
    assert [line.split()[0] for line in lines[:4]] == [line.split()[0] for line in lines[4:]]


def test_as_a_process(files):
    """Exit codes of a process: 0 if equal, 1 if not, 2 if one is missing."""
    assert run("diff", files / "values.npz", files / "rows.arrow").code == 0
    assert run("diff", files / "values.npz", files / "array.npy").code == 1
    assert run("diff", files / "values.npz", files / "missing.npy").code == 2
    assert run("hash", "-", stdin=(files / "array.npy").read_bytes()).out.startswith("sha256:")
