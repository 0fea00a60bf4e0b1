"""The local engine: tasks in this thread, in threads, or in processes of this machine."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from copy import deepcopy
from typing import Any, TypeVar

from tensorferry.classes import dataclass
from tensorferry.engines.contract import TASK_SIZE, Job

T = TypeVar("T")
P = TypeVar("P")

# The number of tasks for each worker that are handed out, and not yet taken by the caller.
AHEAD = 4


@dataclass(frozen=True, kw_only=True)
class Local:
    """Runs tasks on this machine.

        ferry.convert("a-*.tfrecord", "b.tfrecord", shards=8, engine=ferry.engines.Local(workers=4))

    Threads share memory, and decoding, compression and checksums run without the GIL. Processes are
    spawned; they help if a job is mostly Python code, and functions must then be importable.

    Attributes:
        workers: Number of tasks at once; by default one per processor.
        processes: Use processes instead of threads.
        task_size: Approximate number of input bytes per task.
    """

    workers: int | None = None
    processes: bool = False
    task_size: int = TASK_SIZE

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"{self.workers} workers, expected 1 or more")
        if self.task_size < 1:
            raise ValueError(f"task_size is {self.task_size}, expected 1 or more")

    def map(self, job: Job[T, P, Any], tasks: Sequence[T]) -> Generator[P]:
        """The partial results of some tasks, in their order."""
        workers = min(self.workers or os.cpu_count() or 1, len(tasks))
        if self.processes and tasks:
            return _in_processes(job, tasks, workers)
        if workers > 1:
            return _in_threads(job, tasks, workers)
        return _here(job, tasks)


def _here(job: Job[T, P, Any], tasks: Sequence[T]) -> Generator[P]:
    held = job.start() if tasks else None
    for task in tasks:
        yield job.run(task, held)


def _in_threads(job: Job[T, P, Any], tasks: Sequence[T], workers: int) -> Generator[P]:
    own = threading.local()

    def work(task: T) -> P:
        if not vars(own):  # here, because the error of an initializer would only be logged
            own.held = job.start()
        # A copy opens its own files: tasks may name the same ones, and each closes them.
        return job.run(deepcopy(task), own.held)

    return _in_order(ThreadPoolExecutor(workers, "tensorferry-engine"), work, tasks, workers)


def _in_processes(job: Job[T, P, Any], tasks: Sequence[T], workers: int) -> Generator[P]:
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(job,)
    )
    return _in_order(pool, _work, tasks, workers)


# What a process of the pool has: its job, and what the job holds once the first task has come.
_process: list[Any] = []


def _begin(job: Job[Any, Any, Any]) -> None:
    _process[:] = [job]


def _work(task: Any) -> Any:
    if len(_process) == 1:
        _process.append(_process[0].start())
    job, held = _process
    return job.run(task, held)


def _in_order(
    pool: Executor, work: Callable[[T], P], tasks: Sequence[T], workers: int
) -> Generator[P]:
    running: deque[Future[P]] = deque()
    try:
        for task in tasks:
            if len(running) >= AHEAD * workers:
                yield running.popleft().result()
            running.append(pool.submit(work, task))
        while running:
            yield running.popleft().result()
    finally:
        # No task may still write when a failed job is cleaned up.
        pool.shutdown(wait=True, cancel_futures=True)
