"""Engines run a job over many parts of the data, in this process or on a Ray cluster.

    ferry.verify("train-*.tfrecord", engine="local")
    ferry.convert("s3://b/in-*.tfrecord", "s3://b/out.tfrecord", shards=64, engine="ray")
    ferry.count("s3://b/train-*.tfrecord", engine=ferry.engines.Ray(address="auto"))

A job (`contract`) is planned on the driver, run in tasks wherever the engine has a worker, and
merged on the driver. `local` runs tasks in this thread, in threads or in processes; `ray` runs them
on a cluster, and leaves scheduling, retries and autoscaling to Ray. The operations define which of
them are jobs and how they are divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Literal, TypeVar

from tensorferry.engines.contract import TASK_SIZE, Engine, Job
from tensorferry.engines.local import Local
from tensorferry.engines.ray import Ray
from tensorferry.progress import Progress

__all__ = ["TASK_SIZE", "Engine", "Job", "Local", "Ray"]

Choice = Engine | Literal["local", "ray"]
"""What a user passes as `engine=`."""

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


def choose(engine: Choice) -> Engine:
    """The engine that a user means.

    Raises:
        ValueError: There is no engine of that name, or it is none.
    """
    if engine == "local":
        return Local()
    if engine == "ray":
        return Ray()
    if not isinstance(engine, Engine):
        raise ValueError(
            f"engine is {engine!r}, expected 'local', 'ray' or an engine, such as "
            "tensorferry.engines.Local(workers=4)"
        )
    return engine


def run(job: Job[T, P, R], engine: Engine, progress: Progress | None = None) -> R:
    """Plans a job, runs it, and merges its results.

    Args:
        job: The work.
        engine: The engine that runs the tasks.
        progress: Called with the number of finished tasks, and of all tasks.
    """
    tasks = job.plan(engine.task_size)
    with closing(engine.map(job, tasks)) as partials:
        return job.merge(_told(partials, len(tasks), progress))


def _told(partials: Iterable[P], total: int, progress: Progress | None) -> Iterator[P]:
    for done, partial in enumerate(partials, 1):
        if progress is not None:
            progress(done, total)
        yield partial
