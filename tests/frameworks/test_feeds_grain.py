"""Feeds in grain and JAX: rows by number, batches with a state, arrays over devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


_DEVICES = """
import sys
import jax
import numpy as np
from tensorferry import feeds

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
(batch, *_) = feeds.Feed(sys.argv[1], batch=8)
found = feeds.jax.put(batch, sharding)["id"]
print([shard.data.tolist() for shard in found.addressable_shards])
"""


def test_each_device_holds_its_rows(path: Path) -> None:
    """Of eight rows on four devices, each has two."""
    flags = "--xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", _DEVICES, str(path)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_iterators_do_not_disturb_each_other(path: Path) -> None:
    """Each iterator has its own place, as grain's own do; the next loop is the next epoch."""
    data = feeds.grain.dataset(path, batch=8, shuffle=True, seed=2)
    one, other = iter(data), iter(data)
    wanted = [batch["id"].tolist() for batch in feeds.Feed(path, batch=8, shuffle=True, seed=2)]
    assert [next(one)["id"].tolist() for _ in range(3)] == wanted[:3]
    assert [batch["id"].tolist() for batch in other] == wanted
    assert [batch["id"].tolist() for batch in one] == wanted[3:]
    assert sorted(number for batch in data for number in batch["id"].tolist()) == list(range(ROWS))
    assert iter(data).get_state()["epoch"] == 2


def test_a_batch_is_divided_over_devices(path: Path) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    (batch, *_) = feeds.Feed(path, batch=8)
    found = feeds.jax.put(batch, sharding)
    assert found["x"].shape == (8, 3)
    assert np.asarray(found["id"]).tolist() == list(range(8))
    with pytest.raises(UnsupportedError, match="no array of numbers"):
        feeds.jax.put({"s": np.array([b"a"], object)}, sharding)


def test_options_beside_a_feed_are_refused(path: Path) -> None:
    """A Feed has its own options: others would be ignored."""
    with pytest.raises(UnsupportedError, match="a Feed has its options: batch cannot be given"):
        feeds.grain.dataset(feeds.Feed(path, batch=8), batch=16)
