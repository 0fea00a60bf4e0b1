"""A Ray cluster on this machine, for all tests of the folder."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry

# Small tasks, so that small files make many of them.
TASK = 20_000
ROWS = 3000
# A node that was killed is missed after a second, and not after half a minute.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 250,
    "health_check_failure_threshold": 4,
}


class Machines:
    """A cluster of two machines that are processes, to which others are added."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "object_store_memory": 80 << 20,
                "_system_config": QUICK,
            },
        )
        self.add()
        self.address = self._cluster.address

    def add(self):
        """One more machine."""
        return self._cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    def lose(self, node) -> None:
        """Ends a machine with all that runs on it."""
        self._cluster.remove_node(node, allow_graceful=False)

    def stop(self) -> None:
        """Ends all of them."""
        self._cluster.shutdown()

    @staticmethod
    def kill_worker(title: str) -> bool:
        """Kills one process that runs a task of some name; False if there is none."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if (entry / "cmdline").read_bytes().startswith(f"ray::{title}".encode()):
                        os.kill(int(entry.name), signal.SIGKILL)
                        return True
                except OSError:
                    continue
        return False


@pytest.fixture(scope="session")
def machines(s3_server):
    """The cluster, whose workers find the S3 of the tests."""
    ray = pytest.importorskip("ray")
    variables = {**s3_server.environment, "RAY_USAGE_STATS_ENABLED": "0"}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    found = Machines()
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    yield found
    ray.shutdown()
    found.stop()


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


@contextmanager
def meanwhile(condition, action):
    """Does something in a thread as soon as a condition holds, while the block runs."""
    stopped = threading.Event()
    done: list[bool] = []

    def watch():
        while not stopped.is_set():
            if condition() and action() is not False:
                done.append(True)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield done
    finally:
        stopped.set()
        thread.join()
