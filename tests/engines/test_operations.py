"""Operations that engines run: the same report and the same bytes, whichever engine ran them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import engines
from tensorferry.engines import Local
from tensorferry.operations.reshard import repair_file

TASK = 20_000


@pytest.fixture(params=["local", "ray"])
def engine(request):
    """Engines that get the same tasks."""
    if request.param == "local":
        return Local(workers=3, task_size=TASK)
    return request.getfixturevalue("cluster")


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """Tensors of several sizes, one with a NaN."""
    path = tmp_path_factory.mktemp("bundle") / "model.safetensors"
    random = np.random.default_rng(1)
    tensors = {f"layer{n}/w": random.normal(size=(40, n + 1, 9)).astype("f4") for n in range(6)}
    tensors["layer1/w"][0, 0, 0] = np.nan
    ferry.save(tensors, path)
    return str(path)


def bytes_of(folder, pattern):
    """The bytes of files, by name; nothing else is in the folder."""
    found = {path.name: path.read_bytes() for path in sorted(Path(folder).glob(pattern))}
    assert sorted(path.name for path in Path(folder).iterdir()) == sorted(found)
    return found


def test_reports(records, engine):
    """Counting, verifying, hashing and comparing rows tell what they tell without an engine."""
    assert ferry.count(records, engine=engine) == ferry.count(records)
    wanted = {"nan": True, "duplicates": True}
    assert ferry.verify(records, **wanted, engine=engine) == ferry.verify(records, **wanted)
    assert ferry.hash(records, engine=engine) == ferry.hash(records)
    assert ferry.diff(records, records, engine=engine) == ferry.diff(records, records)


def test_statistics(records, engine):
    """Statistics of rows are those of one thread, but for the last digits of means."""
    found, known = ferry.stats(records, engine=engine), ferry.stats(records)

    assert found == ferry.stats(records, engine=Local(workers=1, task_size=TASK))
    assert (found.rows, found.notes, len(found.columns)) == (known.rows, known.notes, 5)
    for one, other in zip(found.columns, known.columns, strict=True):
        assert one.values.mean == pytest.approx(other.values.mean, rel=1e-12)
        assert one.values.deviation == pytest.approx(other.values.deviation, rel=1e-12)
        exact = {"mean": 0, "deviation": 0}
        assert dataclasses.replace(one.values, **exact) == dataclasses.replace(
            other.values, **exact
        )
        assert (one.name, one.missing, one.shape) == (other.name, other.missing, other.shape)


def test_bundles(bundle, engine):
    """Tensors are verified, measured, hashed and compared some at a time, with the same answers."""
    assert ferry.count(bundle, engine=engine) == 6
    assert ferry.verify(bundle, nan=True, engine=engine) == ferry.verify(bundle, nan=True)
    assert ferry.stats(bundle, engine=engine) == ferry.stats(bundle)
    assert ferry.hash(bundle, engine=engine) == ferry.hash(bundle)
    assert ferry.diff(bundle, bundle, engine=engine) == ferry.diff(bundle, bundle)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out.tfrecord", {"shards": 5}),
        ("out.tfrecord", {"shards": 3, "select": ["id", "x"], "dtype": "float32"}),
        ("out@4.parquet", {}),
        ("out.arrow", {}),
        ("out.npz", {"select": ["id", "x"]}),
    ],
    ids=["copies", "changed", "tables", "one table", "tensors"],
)
def test_convert(records, engine, tmp_path, name, options):
    """A conversion has the same report and the same bytes by every engine, and leaves nothing."""
    reports = []
    for number, one in enumerate((Local(workers=1, task_size=TASK), engine)):
        folder = tmp_path / str(number)
        report = ferry.convert(records, folder / name, engine=one, verify=True, **options)
        reports.append(report)
        assert report.verified
        assert report.count == 3000 or name == "out.npz"

    found = [bytes_of(tmp_path / str(number), "out*") for number in (0, 1)]
    assert found[0] == found[1]
    assert len(found[0]) == len(reports[0].files)
    known = ferry.convert(records, tmp_path / "2" / name, **options)
    assert (known.count, known.nbytes, known.notes) == (
        reports[1].count,
        reports[1].nbytes,
        reports[1].notes,
    )


def test_same_bytes_without_engine(records, tmp_path):
    """Shards of TFRecords are byte for byte those of one thread."""
    ferry.convert(records, tmp_path / "a" / "x.tfrecord", shards=7)
    ferry.convert(records, tmp_path / "b" / "x.tfrecord", shards=7, engine="local")

    assert bytes_of(tmp_path / "a", "x*") == bytes_of(tmp_path / "b", "x*")


def test_more_shards_than_rows(tmp_path):
    """Shards without rows are whole files all the same."""
    with ferry.writer(tmp_path / "in.tfrecord") as out:
        out.write({"x": 1})
        out.write({"x": 2})

    for name in ("out@5.tfrecord", "out@5.parquet"):
        ferry.convert(tmp_path / "in.tfrecord", tmp_path / name, engine="local")
        assert ferry.load(tmp_path / name)["x"].tolist() == [1, 2]


def test_damage(tmp_path, engine):
    """Damage is told with the numbers and offsets that it has in the whole file."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as out:
        for number in range(1000):
            out.write({"x": np.full(20, number, "f4")})
    data = bytearray(path.read_bytes())
    for place in (len(data) // 5, len(data) // 2, len(data) - 40):
        data[place] ^= 255
    path.write_bytes(data)
    found, known = ferry.verify(path, engine=engine), ferry.verify(path)

    assert found == known
    assert len(found.problems) == 3
    repaired = repair_file(str(path), str(tmp_path / "a"), engine=engine)
    assert repaired == dataclasses.replace(
        repair_file(str(path), str(tmp_path / "b")), target=str(tmp_path / "a")
    )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_late_kinds(tmp_path, engine):
    """A feature that comes late is found, and one that changes its kind is told."""
    for name, value in (("a", 1), ("b", 2.5)):
        with ferry.writer(tmp_path / f"{name}.tfrecord") as out:
            for number in range(1200):  # the first thousand are looked at when it is opened
                late = {"late": 1} if number == 1199 else {}
                out.write({"x": value, name: b"text" * 10, **late})
    both = [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]

    names = [one.name for one in ferry.stats(both[:1], engine=engine).columns]
    assert names == [one.name for one in ferry.stats(both[:1]).columns]
    assert "late" in names
    found = ferry.verify(both, engine=engine)
    assert "kind" in found.problems[0].problem
    assert len(found.problems) == len(ferry.verify(both).problems) == 1


def test_failure_leaves_nothing(records, engine, tmp_path):
    """A conversion that fails changes nothing and leaves nothing beside the target."""
    (tmp_path / "out.tfrecord-00000-of-00003").write_bytes(b"old")
    with pytest.raises(ferry.UnsupportedError, match="fit"):
        ferry.convert(
            records, tmp_path / "out.tfrecord", shards=3, dtype="int8", force=True, engine=engine
        )

    assert bytes_of(tmp_path, "*") == {"out.tfrecord-00000-of-00003": b"old"}


def test_existing_target(records, tmp_path):
    """What is there is not replaced unless that is asked for."""
    (tmp_path / "out.parquet").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        ferry.convert(records, tmp_path / "out.parquet", engine="local")
    ferry.convert(records, tmp_path / "out.parquet", force=True, engine="local")

    assert len(ferry.open(tmp_path / "out.parquet")) == 3000


def test_plan_is_of_the_data():
    """Plans say nothing about workers: engines of different sizes get the same tasks."""
    assert Local(workers=1).task_size == Local(workers=9).task_size == engines.Ray().task_size
