"""A Ray cluster of several nodes on this machine, for the tests of everything that uses one."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

# Before Ray is imported: what it would print, and what it would tell its makers.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

MEMORY = 200 << 20
"""Number of bytes of each node's object store."""
# A node that was killed is missed after a second, and not after half a minute.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 250,
    "health_check_failure_threshold": 4,
}


class RayCluster:
    """Nodes with a processor each, and this process as the driver.

    Workers inherit the environment: they import what the tests define, and find their servers.

    Attributes:
        cluster: Ray's own.
        nodes: The nodes that were added to the head.
    """

    def __init__(self, nodes: int = 2, *, environment: dict[str, str] | None = None) -> None:
        here = Path(__file__).parent
        path = os.pathsep.join([str(here), str(here.parent)])  # wherever the tests were started
        self._given = {"PYTHONPATH": path, **(environment or {})}
        with self._environment():
            self._start(nodes)

    @contextmanager
    def _environment(self):
        """The variables that nodes are started with."""
        before = {name: os.environ.get(name) for name in self._given}
        os.environ.update(self._given)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _start(self, nodes: int) -> None:
        import ray
        from ray.cluster_utils import Cluster

        ray.shutdown()
        head = {
            "num_cpus": 1,
            "object_store_memory": MEMORY,
            "include_dashboard": False,
            "_system_config": QUICK,
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add() for _ in range(nodes - 1)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    def add(self):
        """Adds a node with one processor."""
        with self._environment():
            return self.cluster.add_node(num_cpus=1, object_store_memory=MEMORY)

    def lose(self, node) -> None:
        """Ends a node with all that runs on it."""
        self.cluster.remove_node(node, allow_graceful=False)

    @staticmethod
    def kill_worker(title: str) -> bool:
        """Kills one worker that runs a task of some name; False if there is none."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    is_meant = (entry / "cmdline").read_bytes().startswith(f"ray::{title}".encode())
                    # Other programs on this machine may have clusters of their own.
                    if is_meant and _parent(_parent(int(entry.name))) == os.getpid():
                        os.kill(int(entry.name), signal.SIGKILL)
                        return True
                except OSError:
                    continue
        return False

    def stop(self) -> None:
        """Ends all of it."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()


def _parent(process: int) -> int:
    """The process that started another one."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("PPid:")[2].split(maxsplit=1)[0])


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
