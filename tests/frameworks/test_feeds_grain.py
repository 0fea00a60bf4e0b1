"""Feeds in grain and JAX: rows by number, batches with a state, arrays over devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

grain = pytest.importorskip("grain")
jax = pytest.importorskip("jax")

import tensorferry as ferry  # noqa: E402
from tensorferry import feeds  # noqa: E402
from tensorferry.errors import UnsupportedError  # noqa: E402

ROWS = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("grain") / "x.tfrecord"
    with ferry.writer(found) as out:
        out.write_batch({"id": np.arange(ROWS), "x": np.ones((ROWS, 3), np.float32)})
    return found


def test_a_source_of_rows(path: Path) -> None:
    data = grain.MapDataset.source(feeds.grain.source(path)).shuffle(seed=3).batch(10)
    seen = [int(number) for batch in data for number in batch["id"]]
    assert sorted(seen) == list(range(ROWS))
    assert seen != list(range(ROWS))


def test_batches_go_on_from_a_state(path: Path) -> None:
    def make() -> Any:
        return feeds.grain.dataset(path, batch=8, shuffle=True, seed=2)

    whole = [batch["id"].tolist() for batch in make()]
    running = iter(make())
    before = [next(running)["id"].tolist() for _ in range(5)]
    state = json.loads(json.dumps(running.get_state()))
    resumed = iter(make())
    resumed.set_state(state)
    assert before + [batch["id"].tolist() for batch in resumed] == whole
    mapped = make().map(lambda batch: batch["id"] * 2)
    assert next(iter(mapped)).tolist() == [2 * number for number in whole[0]]


def test_a_batch_is_divided_over_devices(path: Path) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    (batch, *_) = feeds.Feed(path, batch=8)
    found = feeds.jax.put(batch, sharding)
    assert found["x"].shape == (8, 3)
    assert np.asarray(found["id"]).tolist() == list(range(8))
    with pytest.raises(UnsupportedError, match="no array of numbers"):
        feeds.jax.put({"s": np.array([b"a"], object)}, sharding)
