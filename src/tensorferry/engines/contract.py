"""The contract between jobs and engines.

A job knows what to do, but not where. Its plan depends only on the data and the options, never on
the engine or the number of workers, so every engine gives the same result and writes the same
bytes.

    tasks = job.plan(size)                                  # on the driver
    partials = [job.run(task, held) for task in tasks]      # anywhere; held = job.start()
    result = job.merge(partials)                            # on the driver, in order
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

TASK_SIZE = 64 << 20
"""About how many bytes of the inputs one task gets, unless the engine says it."""


class Job(ABC, Generic[T, P, R]):
    """Work that can be done in parts. Jobs, tasks and partial results can be pickled.

    A task may run several times, because a machine was lost, or twice at once: `run` must leave the
    same behind however often it is called.

    Attributes:
        on_driver: Attributes that only `plan` and `merge` need, and that are not sent to workers.
    """

    on_driver: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in self.on_driver}

    @abstractmethod
    def plan(self, size: int) -> Sequence[T]:
        """The tasks, each of about so many bytes of the inputs; called once, on the driver."""

    def start(self) -> Any:
        """Makes what a worker holds while it runs tasks, such as a model; called once a worker."""
        return None

    @abstractmethod
    def run(self, task: T, held: Any) -> P:
        """Runs one task, in any process, and returns its partial result."""

    @abstractmethod
    def merge(self, partials: Iterable[P]) -> R:
        """Joins all partial results, in the order of the plan; called on the driver."""


@runtime_checkable
class Engine(Protocol):
    """Runs tasks.

    Attributes:
        task_size: Approximate number of input bytes per task.
    """

    @property
    def task_size(self) -> int:
        """About how many bytes of the inputs one task gets."""

    def map(self, job: Job[T, P, Any], tasks: Sequence[T]) -> Generator[P]:
        """Runs tasks, and gives their partial results in order.

        If a task fails, its error is raised after the other tasks have ended.
        """
