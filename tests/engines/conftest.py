"""What the tests of engines share; the Ray cluster is that of all tests (`clusters`)."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry

# Small tasks, so that small files make many of them.
TASK = 20_000
ROWS = 3000


@pytest.fixture(scope="session")
def machines(ray_cluster):
    """The cluster of the session, to which machines are added and of which some are lost."""
    return ray_cluster


@pytest.fixture
def cluster(machines):
    """An engine on the cluster."""
    return ferry.engines.Ray(task_size=TASK)


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """TFRecords in twelve files: ids, numbers, texts, and features that some rows lack."""
    folder = tmp_path_factory.mktemp("engines")
    random = np.random.default_rng(7)
    with ferry.writer(folder / "in@12.tfrecord", durable=False) as out:
        for number in range(ROWS):
            row = {
                "id": number,
                "x": random.normal(size=3).astype("f4"),
                "text": f"row {number % 70}",
                "list": list(range(number % 5)),
            }
            if number % 3 == 0:
                row["some"] = float(number)
            out.write(row)
    return str(folder / "in-*.tfrecord")
