"""A Ray cluster of several nodes on this machine, for the tests of everything that uses one."""

from __future__ import annotations

import os
from pathlib import Path

# Before Ray is imported: what it would print, and what it would tell its makers.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

MEMORY = 200 << 20
"""Number of bytes of each node's object store."""


class RayCluster:
    """Nodes with a processor each, and this process as the driver.

    Workers inherit the environment: they import what the tests define, and find their servers.

    Attributes:
        cluster: Ray's own.
        nodes: The nodes that were added to the head.
    """

    def __init__(self, nodes: int = 2, *, environment: dict[str, str] | None = None) -> None:
        given = {"PYTHONPATH": str(Path(__file__).parent), **(environment or {})}
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            self._start(nodes)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _start(self, nodes: int) -> None:
        import ray
        from ray.cluster_utils import Cluster

        ray.shutdown()
        head = {"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add() for _ in range(nodes - 1)]
        ray.init(address=self.cluster.address, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    def add(self):
        """Adds a node with one processor."""
        return self.cluster.add_node(num_cpus=1, object_store_memory=MEMORY)

    def stop(self) -> None:
        """Ends all of it."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()
