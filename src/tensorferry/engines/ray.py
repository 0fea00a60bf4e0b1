"""The Ray engine: tasks on the machines of a cluster.

Pickled jobs and tasks are sent to workers, which send small partial results back. Ray schedules,
retries tasks whose worker or machine was lost, and lets the cluster grow while tasks wait. A worker
process makes what its job holds, such as a model, once, and Ray keeps the process for the next
tasks. Actors would hold a model as well, but a task for an actor on a lost machine waits until
there is room for that actor again, while other workers are idle.

Workers need this package and the files: URLs, or a folder that all machines share. A relative path
means what it means to the driver.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tensorferry.classes import dataclass, field
from tensorferry.engines.contract import TASK_SIZE, Job
from tensorferry.errors import MissingExtraError

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.exceptions import RayTaskError

T = TypeVar("T")
P = TypeVar("P")

TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
"""The errors for which a task is retried: a store or a machine that does not answer."""

# Number of tasks handed to Ray for each processor of the cluster: tasks that wait make the
# autoscaler add machines.
WAITING = 2
# Number of finished results, for each such task, that may wait for an earlier one.
AHEAD = 4
# Number of seconds that running tasks get to end after another task has failed.
LAST = 60.0


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Runs tasks on a Ray cluster.

        ferry.verify("s3://b/train-*.tfrecord", engine=ferry.engines.Ray(address="auto"))

    If the program is already connected to Ray, that connection is used. Otherwise Ray connects to
    `address`, to the cluster named by RAY_ADDRESS, or to one on this machine; if there is none, Ray
    starts one, which ends with the program.

    Attributes:
        address: The address of the cluster, as `ray.init` takes it.
        num_cpus: Number of processors per task.
        num_gpus: Number of GPUs per task. A process that has loaded a model keeps its GPU memory
            until the program ends.
        resources: Other resources per task, by their names in the cluster.
        runtime_env: The environment of workers: see Ray's documentation. `{"env_vars": {...}}`
            passes credentials.
        max_retries: How often a task is retried if its worker is lost or its store does not
            respond.
        task_size: Approximate number of input bytes per task.
    """

    address: str | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] | None = None
    max_retries: int = 3
    task_size: int = TASK_SIZE

    def __post_init__(self) -> None:
        if self.task_size < 1:
            raise ValueError(f"task_size is {self.task_size}, expected 1 or more")

    def map(self, job: Job[T, P, Any], tasks: Sequence[T]) -> Generator[P]:
        """The partial results of some tasks, in their order.

        Raises:
            MissingExtraError: Ray is not installed.
        """
        ray = require_ray()
        self._connect(ray)
        return self._tasks(ray, job, tasks)

    def _connect(self, ray: ModuleType) -> None:
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")

    def _takes(self) -> dict[str, Any]:
        taken: dict[str, Any] = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
        if self.resources:
            taken["resources"] = dict(self.resources)
        if self.runtime_env is not None:
            taken["runtime_env"] = dict(self.runtime_env)
        return taken

    def _room(self, ray: ModuleType) -> int:
        """How many tasks the cluster has room for now."""
        every = ray.cluster_resources()
        wanted = {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.resources}
        rooms = [every.get(name, 0) / amount for name, amount in wanted.items() if amount]
        return max(1, int(min(rooms, default=1)))

    def _tasks(self, ray: ModuleType, job: Job[T, P, Any], tasks: Sequence[T]) -> Generator[P]:
        # GPU tasks would get a new process each, by default, and each would load the model again.
        work = ray.remote(max_calls=0)(_work).options(
            max_retries=self.max_retries,
            retry_exceptions=list(TRANSIENT),
            name=type(job).__name__,
            **self._takes(),
        )
        # In a list, so that a worker fetches the job once, and not for every task.
        shared, folder = [ray.put(job)], os.getcwd()

        def submit(task: T) -> ObjectRef[P]:
            return work.remote(shared, task, folder)

        return _in_order(ray, submit, tasks, lambda: WAITING * self._room(ray))


# The job that this process works on, and what it holds, by the reference to the job.
_current: dict[str, tuple[Job[Any, Any, Any], Any]] = {}


def _work(shared: list[ObjectRef[Job[Any, Any, Any]]], task: Any, folder: str) -> Any:
    """Runs one task in a worker. What a job holds is made for the first task of a process."""
    import ray

    _enter(folder)
    key = shared[0].hex()
    if key not in _current:
        _current.clear()
        job = ray.get(shared[0])
        _current[key] = job, job.start()
    job, held = _current[key]
    return job.run(task, held)


def _enter(folder: str) -> None:
    """Goes to the driver's folder, for relative paths, if this machine has it."""
    with suppress(OSError):
        os.chdir(folder)


def _in_order(
    ray: ModuleType,
    submit: Callable[[T], ObjectRef[P]],
    tasks: Sequence[T],
    limit: Callable[[], int],
) -> Generator[P]:
    """The results of tasks, of which Ray gets a few at a time."""
    waiting = iter(tasks)
    left = len(tasks)
    running: set[ObjectRef[P]] = set()
    order: deque[ObjectRef[P]] = deque()
    try:
        while left or order:
            most = limit()
            while left and len(running) < most and len(order) < AHEAD * most:
                order.append(submit(next(waiting)))
                running.add(order[-1])
                left -= 1
            running.difference_update(_done(ray, list(running)))
            while order and order[0] not in running:
                try:
                    partial = ray.get(order.popleft())
                except ray.exceptions.RayTaskError as error:
                    raise _cause(error) from None
                yield partial
    finally:
        # No task may still write when a failed job is cleaned up.
        for ref in running:
            with suppress(Exception):
                ray.cancel(ref)
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=LAST)


def _done(ray: ModuleType, running: list[ObjectRef[P]]) -> list[ObjectRef[P]]:
    """The tasks that have ended, one at least, and all at once: there may be thousands."""
    ray.wait(running, num_returns=1)
    done: list[ObjectRef[P]] = ray.wait(running, num_returns=len(running), timeout=0)[0]
    return done


def _cause(error: RayTaskError) -> Exception:
    """The error of a task as it was raised in the worker; Ray's own is its text."""
    cause = error.cause
    return cause if isinstance(cause, Exception) else error


def require_ray() -> ModuleType:
    """Ray.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError(
            "the engine 'ray' needs Ray, which is not installed",
            hint="pip install 'tensorferry[ray]'",
        ) from None
    module: ModuleType = ray
    return module
