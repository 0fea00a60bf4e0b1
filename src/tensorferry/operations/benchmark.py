"""Benchmark: how fast a file is read here, or a tensor written and read in every format.

The best of some runs, in this process: files are in the system's cache, so this is about formats
and decoding, not about disks. What is read is compared with what was written.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorferry import dtypes, formats
from tensorferry.errors import FerryError, MissingExtraError
from tensorferry.operations.digests import hash_content
from tensorferry.operations.files import sizes_of
from tensorferry.operations.opened import open_input
from tensorferry.operations.opening import load
from tensorferry.operations.saving import save
from tensorferry.operations.verification import arrays_in, verify
from tensorferry.tensors import Array

RUNS = 3
PAGE = 4096


# Files of models, which hold no tensor that is none of a model's.
MODELS = ("keras", "savedmodel")


@dataclass(frozen=True)
class Timing:
    """How long something took.

    Attributes:
        format: Of the file.
        action: "open", "read", "verify", "hash", "write".
        seconds: The best of some runs.
        nbytes: The size of the file; None where only a header was looked at.
        problem: Why it could not be done.
    """

    format: str
    action: str
    seconds: float | None
    nbytes: int | None = None
    problem: str | None = None

    @property
    def rate(self) -> float | None:
        """Bytes a second."""
        return self.nbytes / self.seconds if self.nbytes and self.seconds else None


def time_file(path: Any, *, runs: int = RUNS) -> list[Timing]:
    """How long it takes to open a file, to read, to verify and to hash all of it."""
    with open_input(path) as opened:
        name, size = opened.format, sizes_of(opened.files)

    def open_only() -> None:
        with open_input(path) as opened:
            opened.infos()

    def read() -> None:
        with open_input(path) as opened:
            for batch in opened.batches():
                for column in batch.values():
                    _touch(column)

    actions: dict[str, Callable[[], Any]] = {
        "open": open_only,
        "read": read,
        "verify": lambda: verify(path),
        "hash": lambda: hash_content(path),
    }
    return [
        Timing(name, action, _best(work, runs), None if action == "open" else size)
        for action, work in actions.items()
    ]


def time_formats(shape: Sequence[int], dtype: str, *, runs: int = RUNS) -> list[Timing]:
    """How long it takes to write a tensor of random numbers, and to read it, in every format.

    Raises:
        AssertionError: What was read is not what was written.
    """
    row = dtypes.as_dtype(dtype)
    generator = np.random.default_rng(0)
    array: Array = (generator.standard_normal(tuple(shape)) * 50).astype(row.numpy)
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, about in formats.TABLE.items():
            if about.holds == "records" or name in MODELS:
                continue
            path = os.path.join(folder, f"bench{about.suffixes[0]}")
            value = {"tensor": array} if about.carries == "tensors" else array
            try:
                write = _best(lambda p=path, v=value: save(v, p, durable=False), runs)  # type: ignore[misc]
                read = _best(lambda p=path: _touch(load(p)), runs)  # type: ignore[misc]
            except (FerryError, MissingExtraError) as error:
                timings.append(Timing(name, "write", None, problem=error.message))
                continue
            found = load(path)
            found = found["tensor"] if isinstance(found, dict) else found
            if found.dtype != array.dtype or found.tobytes() != array.tobytes():
                raise AssertionError(f"{name} gave back other numbers than were written")
            size = save(value, path, durable=False).nbytes
            timings += [Timing(name, "write", write, size), Timing(name, "read", read, size)]
    return timings


def _best(work: Callable[[], Any], runs: int) -> float:
    best = float("inf")
    for _ in range(max(runs, 1)):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def _touch(value: Any) -> None:
    """Reads every page of what may be a view of a mapped file."""
    for column in value.values() if isinstance(value, dict) else [value]:
        for array in arrays_in(column):
            if array.size:
                array.reshape(-1).view(np.uint8)[::PAGE].max()
