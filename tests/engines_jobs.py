"""Jobs for tests, in a module that spawned processes can import."""

from __future__ import annotations

from dataclasses import dataclass

import tensorferry as ferry
from tensorferry.engines import Job


@dataclass(frozen=True)
class Doubling(Job[int, int, list[int]]):
    """Doubles numbers; one of them may be bad."""

    on_driver = ("large",)
    count: int
    bad: int | None = None
    large: bytes = b""

    def plan(self, size):
        """All numbers."""
        return range(self.count)

    def run(self, task, held):
        """Doubles one."""
        if task == self.bad:
            raise ferry.FormatError("it is bad", path="task", offset=task)
        return 2 * task

    def merge(self, partials):
        """All of them."""
        return list(partials)
