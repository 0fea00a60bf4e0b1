"""Jobs: what people time, each beside whoever else does it, at three sizes.

    @job("a tensor to bytes", {"small": 64, "large": 1 << 24}, "floats")
    def tensor_to_bytes(folder: Path, count: int) -> Work: ...

A module of this folder is a subject, and registers its jobs when it is imported; a new module needs
a name in `SUBJECTS`. `bench_everything.py` compares the answers, times all and makes the table. A
peer that is not installed is left out, and the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import tensorferry as ferry

SUBJECTS = ("tensors", "files", "records", "tables", "models", "messages")
# Packages of peers that are not among those that the tests need.
OPTIONAL = ("orjson", "array_record", "tfrecord", "tfx_bsl", "tensorflow_serving")


def itself(result: Any) -> Any:
    """The result of a way, as it is."""
    return result


@dataclass(frozen=True)
class Way:
    """One way to do a job.

    Attributes:
        run: Does it, and is timed.
        answer: Makes of a result what is compared; it is not timed.
    """

    run: Callable[[], Any]
    answer: Callable[[Any], Any] = itself


@dataclass(frozen=True)
class Limit:
    """What the machine itself takes for the bytes of a job: nobody can be faster.

    Attributes:
        name: As the table has it: "memcpy", "disk".
        run: Does that and nothing else.
    """

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """A job at one size.

    Attributes:
        ours: How tensorferry does it.
        peers: How others do it, by their names.
        limit: Where the machine sets the limit: memory, or the disk.
    """

    ours: Way
    peers: Mapping[str, Way]
    limit: Limit | None = None


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        name: What is done.
        sizes: What `make` is given, by "small", "medium" and "large".
        unit: What a size counts.
        make: Prepares the job in an empty folder.
    """

    name: str
    sizes: Mapping[str, int]
    unit: str
    make: Callable[[Path, int], Work]

    def label(self, size: str) -> str:
        """The size, as the table has it."""
        count = self.sizes[size]
        return f"{count:,} {self.unit}"


@dataclass
class Registry:
    """All jobs, in the order of the table."""

    jobs: list[Job] = field(default_factory=list)

    def job(
        self, name: str, sizes: Mapping[str, int], unit: str
    ) -> Callable[[Callable[[Path, int], Work]], Callable[[Path, int], Work]]:
        """Registers the function that prepares a job."""

        def register(make: Callable[[Path, int], Work]) -> Callable[[Path, int], Work]:
            self.jobs.append(Job(name, sizes, unit, make))
            return make

        return register


REGISTRY = Registry()
job = REGISTRY.job


def jobs() -> list[Job]:
    """The jobs of all subjects."""
    for subject in SUBJECTS:
        import_module(f"jobs.{subject}")
    return REGISTRY.jobs


def installed(package: str) -> bool:
    """Whether a peer can be measured."""
    return find_spec(package) is not None


def missing() -> list[str]:
    """The peers that are not measured."""
    return [package for package in OPTIONAL if not installed(package)]


def equal(one: Any, other: Any) -> bool:
    """Whether two answers are the same: structures of arrays, texts and numbers."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, ferry.RaggedTensor):
        return one.equals(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, bytes | str | int | float | bool | None):
        return bool(one == other)
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype.kind == "f":
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(np.array_equal(first, second))
