"""A cluster that loses workers and machines: the same bytes, nothing missing, twice or left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clusters import meanwhile
from engines.conftest import ROWS, TASK

import tensorferry as ferry
from tensorferry.engines import Local, Ray


@pytest.fixture
def stored(records, s3):
    """The records in a store, by their pattern."""
    for path in sorted(Path(records).parent.glob("in-*")):
        s3.put(f"in/{path.name}", path.read_bytes())
    return s3.url("in/in-*.tfrecord")


def staged(s3, count):
    """Whether so many files are gathered in the store."""
    return sum(".ferry-parts/" in key and key.endswith(".json") for key in list(s3.keys())) > count


def ids_in(path):
    """The ids of all rows."""
    with ferry.open(path) as rows:
        return rows.column("id").reshape(-1).tolist()


def test_convert(stored, s3, machines, cluster):
    """A worker is killed and a machine lost while shards are written into a store."""
    ferry.convert(stored, s3.url("local/x.tfrecord"), shards=40, engine=Local(task_size=TASK))
    node = machines.add()
    lost = [
        lambda: machines.kill_worker("ShardsJob"),
        lambda: machines.lose(node),
    ]
    with (
        meanwhile(lambda: staged(s3, 2), lost[0]) as killed,
        meanwhile(lambda: staged(s3, 6), lost[1]) as removed,
    ):
        report = ferry.convert(stored, s3.url("ray/x.tfrecord"), shards=40, engine=cluster)

    assert killed
    assert removed
    assert report.count == ROWS
    assert sorted(ids_in(s3.url("ray/x.tfrecord@40"))) == list(range(ROWS))
    for number in range(40):
        name = f"x.tfrecord-{number:05}-of-00040"
        assert s3.get(f"ray/{name}") == s3.get(f"local/{name}")
    assert len(s3.keys()) == 12 + 2 * 40
    assert s3.uploads() == 0


def test_predict(stored, s3, machines, cluster, tmp_path):
    """A worker with a model is killed and a machine lost; ids are kept, each of them once."""
    node = machines.add()
    node_id = node.node_id
    marker = str(tmp_path / "killed")

    def model(x):
        import os
        import signal
        import time

        import ray

        time.sleep(0.02)
        if ray.get_runtime_context().get_node_id() == node_id:
            with open(marker + "-node", "w"):
                pass
        elif not os.path.exists(marker):
            with open(marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        else:  # the machine that is lost has work to lose
            last = os.path.getmtime(marker) + 60
            while not os.path.exists(marker + "-node") and time.time() < last:
                time.sleep(0.02)
        return {"y": x.sum(1), "z": 2 * x}

    with meanwhile(
        lambda: os.path.exists(marker + "-node"), lambda: machines.lose(node)
    ) as removed:
        report = ferry.save_predictions(
            model,
            stored,
            s3.url("out/pred.parquet"),
            keep=("id",),
            engine=Ray(task_size=10_000),
            batch_size=64,
        )

    assert removed
    assert os.path.exists(marker)
    assert (report.rows, report.resumed, report.failures) == (ROWS, 0, ())
    assert report.rate > 0
    assert sorted(ids_in(s3.url("out/pred.parquet@*"))) == list(range(ROWS))
    assert len(s3.keys()) == 12 + len(report.files)

    def simple(x):
        return {"y": x.sum(1), "z": 2 * x}

    local = ferry.save_predictions(
        simple,
        stored,
        s3.url("local/pred.parquet"),
        keep=("id",),
        engine=Local(task_size=10_000),
        batch_size=64,
    )
    assert len(local.files) == len(report.files) == 12
    for one, other in zip(local.files, report.files, strict=True):
        key = one.removeprefix(s3.url(""))
        assert s3.get(key) == s3.get(other.removeprefix(s3.url("")))


def test_transient_errors(records, tmp_path, cluster):
    """An error that may pass is tried again, and another one is raised as it is."""
    marker = str(tmp_path / "tried")

    def model(x):
        import os

        if not os.path.exists(marker):
            with open(marker, "w"):
                raise ConnectionResetError("the first time")
        return x.sum(1)

    def broken(x):
        raise KeyError("what")

    assert ferry.predict(model, records, engine=cluster)["output"].shape == (ROWS,)
    with pytest.raises(KeyError, match="what"):
        ferry.save_predictions(broken, records, tmp_path / "x.parquet", engine=cluster)
    assert not list(tmp_path.glob("x*"))


def test_relative_paths(records, tmp_path, cluster, monkeypatch):
    """A relative path means to a worker what it means to the driver."""
    monkeypatch.chdir(Path(records).parent)
    os.makedirs(tmp_path / "out")
    target = os.path.relpath(tmp_path / "out" / "x.tfrecord")
    report = ferry.convert("in-*.tfrecord", target, shards=3, engine=cluster)

    assert report.source == "in-*.tfrecord"
    assert len(os.listdir(tmp_path / "out")) == 3
