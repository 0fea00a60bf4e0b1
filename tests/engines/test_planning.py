"""Plans over many shards: few requests, little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.files.splitting import splits_of
from tensorferry.rows.splits import Part
from tensorferry.storage.backend import Measured
from tensorferry.storage.place import Place


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """The bytes of a TFRecord file, with as many records as tell the schema."""
    path = tmp_path_factory.mktemp("shard") / "x.tfrecord"
    ferry.save({"id": np.arange(1000)}, path)
    return path.read_bytes()


def put(s3, shard, count):
    """A set of so many shards, by its pattern."""
    for number in range(count):
        s3.put(f"in/x-{number:05}-of-{count:05}.tfrecord", shard)
    s3.clear()
    return s3.url("in/x-*.tfrecord")


class PlannedError(Exception):
    """The plan is made."""


class Planning:
    """An engine that runs nothing."""

    task_size = 30_000

    def map(self, job, tasks):
        """Says that there is something to run."""
        assert len(tasks) > 1
        raise PlannedError


def plan_tasks(pattern):
    """The read tasks of a dataset of Ray."""
    pytest.importorskip("ray")
    from tensorferry import ray

    source = ray.Source(pattern)
    assert source.estimate_inmemory_data_size() > 0
    assert len(source.get_read_tasks(4)) == 4


def plan_predictions(pattern):
    """Predictions, whose plan also knows the version of every file."""
    with pytest.raises(PlannedError):
        ferry.save_predictions(abs, pattern, "s3://bucket/out.parquet", engine=Planning())


def plan_count(pattern):
    """A job of an engine."""
    with pytest.raises(PlannedError):
        ferry.count(pattern, engine=Planning())


@pytest.mark.parametrize("plan", [plan_count, plan_predictions, plan_tasks])
def test_requests_of_a_plan(s3, shard, plan):
    """As many requests are made to plan over forty shards as over four: none for each of them."""
    counted = []
    for count in (4, 40):
        s3.empty()
        pattern = put(s3, shard, count)
        plan(pattern)
        counted.append(len(s3.requests))

    assert counted[0] == counted[1] < 20


def test_memory(shard, tmp_path):
    """A plan takes as much memory for each of many shards as for each of few: about a kilobyte."""
    (tmp_path / "x.tfrecord").write_bytes(shard)
    (split,) = ferry.open(tmp_path / "x.tfrecord").splits(1)
    taken = []
    for count in (500, 5000):
        tracemalloc.start()
        places = [Place(f"s3://bucket/x-{n:06}-of-{count:06}.tfrecord") for n in range(count)]
        for place in places:
            place.learn(Measured(place.path, 100 << 20, "tag"))
        rows = split.kind.of_parts([Part(place) for place in places], split.how, facts=split.facts)
        splits = splits_of(rows, 1 << 30)
        taken.append(tracemalloc.get_traced_memory()[1] / count)
        tracemalloc.stop()
        assert len(splits) > count // 12

    assert taken[1] < 1.2 * taken[0]
    assert taken[1] < 3000
