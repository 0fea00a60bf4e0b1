"""Benchmark: a tensor, or what is in a file, written and read in every format and compression.

    report = time_formats({"x": array})
    report.timings              # size, time to write and time to read of each
    report.recommendations      # which of them to choose for what

The best of some runs, in this process: files are in the system's cache, so this is about formats
and decoding, not about disks. What is read is compared with what was written.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorferry import dtypes, formats
from tensorferry.errors import FerryError
from tensorferry.files.open import load, open as open_file
from tensorferry.files.save import save
from tensorferry.files.sizes import compression_of, sizes_of
from tensorferry.formats.tfrecord.writer import writer
from tensorferry.operations.convert.transfer import SINGLE
from tensorferry.operations.hash import TensorHasher
from tensorferry.operations.opened import ROWS, Opened, open_input
from tensorferry.operations.verify import arrays_in
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import Array

RUNS = 3
PAGE = 4096

SAMPLE = 64 << 20
"""How much of a file is written and read, at most."""

BANDWIDTH = 100e6
"""Bytes a second of a network, to weigh sizes against times."""

# Files of models, which hold no tensor that is none of a model's.
MODELS = ("keras", "savedmodel")

WHOLE = {"gzip": ".gz", "zstd": ".zst"}
"""Compressions of whole files, where a format has none of its own."""

PORTABLE = ("npy", "npz", "safetensors", "arrow", "parquet")
"""Formats that other tools read without any of ours."""

TENSORFLOW = ("tensorproto", "checkpoint", "tfrecord")
"""Formats that TensorFlow reads itself."""


@dataclass(frozen=True)
class Timing:
    """How a format did.

    Attributes:
        format: Its name.
        compression: Of its own, or of the whole file; None without.
        nbytes: The size of the file.
        write: Seconds to write it: the best of some runs.
        read: Seconds to read it, and to touch every page.
        problem: Why it could not be done.
    """

    format: str
    compression: str | None = None
    nbytes: int | None = None
    write: float | None = None
    read: float | None = None
    problem: str | None = None

    @property
    def name(self) -> str:
        """The format with its compression."""
        return self.format if self.compression is None else f"{self.format} with {self.compression}"


@dataclass(frozen=True)
class Recommendation:
    """What to choose.

    Attributes:
        purpose: "storage", "transfer", "interop" or "tensorflow".
        format: The format.
        compression: Its compression.
        reason: Why.
    """

    purpose: str
    format: str
    compression: str | None
    reason: str


@dataclass(frozen=True)
class BenchReport:
    """How all formats did with some tensors.

    Attributes:
        about: What was written: a path, or dtype and shape.
        tensors: How many tensors or columns.
        nbytes: How much they take in memory.
        timings: One for each format and compression.
        recommendations: One for each purpose.
        given: The file as it is, whose writer may have done it otherwise.
        complete: Whether it was all of the file, not only a part.
    """

    about: str
    tensors: int
    nbytes: int
    timings: tuple[Timing, ...]
    recommendations: tuple[Recommendation, ...]
    given: Timing | None = None
    complete: bool = True


Progress = Callable[[int, int | None], None]
"""Is told how many formats are done, and of how many."""


def time_file(path: Any, *, runs: int = RUNS, progress: Progress | None = None) -> BenchReport:
    """How long what is in a file, or its first part, takes in every format and compression."""
    with open_input(path) as opened:
        value, complete = _sample(opened)
        own = Timing(
            opened.format,
            compression_of(opened.files[0]) if opened.files else None,
            sizes_of(opened.files),
        )
        report = time_value(value, about=opened.name, runs=runs, progress=progress)
        return replace(report, given=own, complete=complete)


def time_shape(
    shape: Sequence[int], dtype: str, *, runs: int = RUNS, progress: Progress | None = None
) -> BenchReport:
    """How long a tensor of random numbers takes in every format and compression."""
    row = dtypes.as_dtype(dtype)
    generator = np.random.default_rng(0)
    array: Array = (generator.standard_normal(tuple(shape)) * 50).astype(row.numpy)
    about = f"{dtype} {list(shape)}, random"
    return time_value({"tensor": array}, about=about, runs=runs, progress=progress)


def _sample(opened: Opened) -> tuple[dict[str, Any], bool]:
    """The tensors of a file, or the columns of its first rows, up to a size; whether it is all."""
    found: dict[str, Any] = {}
    if opened.holds != "tensors":
        rows = ROWS
        total, size = opened.count(), sizes_of(opened.files)
        if total and size:
            rows = max(1, min(total, int(SAMPLE / (size / total))))
        for batch in opened.batches(rows):
            return dict(batch), total == rows
        return found, True
    size = 0
    for name, info in opened.infos().items():
        if found and size + (info.nbytes or 0) > SAMPLE:
            return found, False
        found[name] = opened.tensor(name)
        size += info.nbytes or 0
    return found, True


def time_value(
    value: Mapping[str, Any], *, about: str, runs: int = RUNS, progress: Progress | None = None
) -> BenchReport:
    """How long tensors take in every format and compression.

    Args:
        value: The tensors by name.
        about: What they are.
        runs: How many times; the best counts.
        progress: See `Progress`.

    Raises:
        AssertionError: What was read is not what was written.
    """
    candidates = [
        (name, compression)
        for name in formats.writable()
        if name not in MODELS and (name not in SINGLE or len(value) == 1)
        for compression in (None, *_compressions(name))
    ]
    timings = []
    with tempfile.TemporaryDirectory() as folder:
        for place, (name, compression) in enumerate(candidates):
            inside = os.path.join(folder, str(place))
            os.mkdir(inside)
            timings.append(_time(value, name, compression, inside, runs))
            for entry in os.listdir(inside):
                os.unlink(os.path.join(inside, entry))
            if progress is not None:
                progress(place + 1, len(candidates))
    nbytes = sum(_nbytes(tensor) for tensor in value.values())
    return BenchReport(about, len(value), nbytes, tuple(timings), tuple(recommend(timings)))


def _compressions(name: str) -> Sequence[str]:
    row = formats.TABLE[name]
    if row.compressions:
        return row.compressions
    return () if row.carries == "files" else tuple(WHOLE)


def _time(
    value: Mapping[str, Any], name: str, compression: str | None, folder: str, runs: int
) -> Timing:
    row = formats.TABLE[name]
    own = compression in row.compressions or (compression is None and bool(row.compressions))
    ending = row.suffixes[0] + ("" if own or compression is None else WHOLE[compression])
    path = os.path.join(folder, f"bench{ending}")
    options: dict[str, Any] = {"compression": compression or "none"} if own else {}
    content: Any = next(iter(value.values())) if name in SINGLE else dict(value)

    def write() -> None:
        if row.holds == "records":
            with writer(path, durable=False) as out:
                out.write(content)
        else:
            save(content, path, durable=False, **options)

    def read() -> dict[str, Any]:
        if row.holds == "records":
            with open_file(path) as records:
                found = dict(next(iter(records)))
        else:
            loaded = load(path)
            found = loaded if isinstance(loaded, dict) else dict.fromkeys(value, loaded)
        for column in found.values():
            _touch(column)
        return found

    try:
        written = _best(write, runs)
        opened = _best(read, runs)
        found = read()
    except FerryError as error:
        return Timing(name, compression, problem=error.message)
    for key, tensor in value.items():
        given = found[key]
        if row.holds == "records" and isinstance(tensor, np.ndarray):
            given = np.asarray(given).reshape(tensor.shape)  # a list of one value is a value there
        if _digest(given) != _digest(tensor):
            raise AssertionError(f"{name} gave back another {key} than was written")
    size = sum(entry.stat().st_size for entry in os.scandir(folder))
    return Timing(name, compression, size, written, opened)


def recommend(timings: Sequence[Timing]) -> Iterator[Recommendation]:
    """What to choose for what, by size and times."""
    done = [timing for timing in timings if timing.nbytes is not None]

    def together(timing: Timing) -> float:
        return (timing.write or 0.0) + (timing.read or 0.0)

    def sent(timing: Timing) -> float:
        return together(timing) + (timing.nbytes or 0) / BANDWIDTH

    least = min((timing.nbytes or 0 for timing in done), default=0)
    # A little more is no reason to wait longer.
    small = [timing for timing in done if (timing.nbytes or 0) <= least * 1.02]
    choices: list[tuple[str, list[Timing], Callable[[Timing], Any], str]] = [
        ("storage", small, lambda timing: timing.read, "the smallest, and quick to read"),
        ("transfer", done, sent, "written, sent (100 MB/s) and read the fastest"),
        (
            "interop",
            [t for t in done if t.format in PORTABLE],
            together,
            "the fastest that other tools read",
        ),
        (
            "tensorflow",
            [t for t in done if t.format in TENSORFLOW and t.compression in (None, "gzip")],
            together,
            "the fastest that TensorFlow reads itself",
        ),
    ]
    for purpose, among, key, reason in choices:
        if among:
            best = min(among, key=key)
            yield Recommendation(purpose, best.format, best.compression, reason)


def _best(work: Callable[[], Any], runs: int) -> float:
    best = float("inf")
    for _ in range(max(runs, 1)):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def _digest(tensor: Any) -> str:
    hasher = TensorHasher()
    hasher.add(tensor)
    return hasher.hexdigest()


def _nbytes(tensor: Any) -> int:
    if isinstance(tensor, list):
        return sum(_nbytes(part) for part in tensor if part is not None)
    array = np.asarray(values_of(tensor))
    return sum(map(len, array.ravel().tolist())) if array.dtype == object else array.nbytes


def _touch(value: Any) -> None:
    """Reads every page of what may be a view of a mapped file."""
    for array in arrays_in(value):
        if array.size and array.dtype != object:
            array.reshape(-1).view(np.uint8)[::PAGE].max()
