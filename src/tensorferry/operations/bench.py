"""Benchmark: a tensor, or what is in a file, written and read in every format and compression.

    report = time_formats({"x": array})
    report.timings              # size, time to write and time to read of each
    report.recommendations      # which of them to choose for what

The best of some runs, in this process: files are in the system's cache, so this is about formats
and decoding, not about disks. Everything that is read is compared with what was written.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass, replace
from tensorferry.codecs.compression import SUFFIXES
from tensorferry.errors import FerryError
from tensorferry.files.open import load, open as open_file
from tensorferry.files.save import OUTER, save
from tensorferry.files.writer import writer
from tensorferry.formats import table
from tensorferry.formats.contract import Facts
from tensorferry.formats.table import TABLE
from tensorferry.operations.hash import TensorHasher
from tensorferry.operations.oddities import arrays_in
from tensorferry.operations.subject import Subject, open_one
from tensorferry.rows.rows import ROWS, Rows
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import Array

RUNS = 3
SPLIT = "byte_stream_split"
PAGE = 4096

SAMPLE = 64 << 20
"""How much of a file is written and read, at most."""

SLACK = 0.02
"""How much larger than the smallest file one may be that is quicker to read."""

BANDWIDTH = 100e6
"""Bytes a second of a network, to weigh sizes against times."""

WHOLE: dict[str, str] = {kind: suffix for suffix, kind in SUFFIXES.items() if kind in OUTER}
"""Compressions of whole files, where a format has none of its own."""


@dataclass(frozen=True)
class Timing:
    """How a format did.

    Attributes:
        format: Its name.
        compression: Its own compression, or that of the whole file; None without.
        nbytes: The size of the file.
        write: Seconds to write it: the best of some runs.
        read: Seconds to read it, and to touch every page.
        problem: Why it could not be done.
        encoding: The encoding of floats, if it is not the usual one.
    """

    format: str
    compression: str | None = None
    nbytes: int | None = None
    write: float | None = None
    read: float | None = None
    problem: str | None = None
    encoding: str | None = None

    @property
    def name(self) -> str:
        """The format with its compression."""
        return self.format if self.compression is None else f"{self.format} with {self.packing}"

    @property
    def packing(self) -> str | None:
        """The compression, and the encoding."""
        return ", ".join(filter(None, (self.compression, self.encoding))) or None


@dataclass(frozen=True)
class Recommendation:
    """A recommendation.

    Attributes:
        purpose: "storage", "transfer", "interop" or "tensorflow".
        format: The format.
        compression: Its compression.
        reason: Why.
        encoding: The encoding of floats, where that is not the usual one.
    """

    purpose: str
    format: str
    compression: str | None
    reason: str
    encoding: str | None = None


@dataclass(frozen=True)
class BenchReport:
    """How all formats did with some tensors.

    Attributes:
        about: The subject: a path, or dtype and shape.
        tensors: Number of tensors or columns.
        nbytes: Number of bytes they take in memory.
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
"""Is told how many formats are done, and how many there are."""


def time_file(path: Any, *, runs: int = RUNS, progress: Progress | None = None) -> BenchReport:
    """How long what is in a file, or its first part, takes in every format and compression."""
    with open_one(path) as subject:
        value, complete = _sample(subject)
        own = Timing(subject.format, subject.opened.packed, subject.nbytes())
        report = time_value(value, about=subject.name, runs=runs, progress=progress)
        again = tuple(recommend(report.timings, own.nbytes if complete else None))
        return replace(report, given=own, complete=complete, recommendations=again)


def time_shape(
    shape: Sequence[int], dtype: str, *, runs: int = RUNS, progress: Progress | None = None
) -> BenchReport:
    """How long a tensor of random numbers takes in every format and compression."""
    row = dtypes.as_dtype(dtype)
    generator = np.random.default_rng(0)
    array: Array = (generator.standard_normal(tuple(shape)) * 50).astype(row.numpy)
    about = f"{dtype} {list(shape)}, random"
    return time_value({"tensor": array}, about=about, runs=runs, progress=progress)


def _sample(subject: Subject) -> tuple[dict[str, Any], bool]:
    """The tensors of a file, or the columns of its first rows, up to a size; whether it is all."""
    found: dict[str, Any] = {}
    names = [name for name in subject.infos if name not in subject.unreadable]
    if subject.holds != "tensors":
        rows = ROWS
        total, size = subject.count(), subject.nbytes()
        if total and size:
            rows = max(1, min(total, int(SAMPLE / (size / total))))
        for batch in subject.batches(names, rows=rows):
            return dict(batch), total == rows
        return found, True
    size = 0
    for name in names:
        nbytes = subject.infos[name].nbytes or 0
        if found and size + nbytes > SAMPLE:
            return found, False
        found[name] = subject.tensor(name)
        size += nbytes
    return found, True


def time_value(
    value: Mapping[str, Any], *, about: str, runs: int = RUNS, progress: Progress | None = None
) -> BenchReport:
    """How long tensors take in every format and compression.

    Args:
        value: The tensors by name.
        about: Their description.
        runs: How many times; the best counts.
        progress: See `Progress`.

    Raises:
        AssertionError: A value that was read differs from the one that was written.
    """
    candidates = [
        (TABLE[name], compression, encoding)
        for name in table.TABLE
        if _can_hold(TABLE[name], len(value))
        for compression in (None, *_compressions(TABLE[name]))
        for encoding in _encodings(name, compression, value)
    ]
    timings = []
    with tempfile.TemporaryDirectory() as folder:
        for place, (facts, compression, encoding) in enumerate(candidates):
            inside = os.path.join(folder, str(place))
            os.mkdir(inside)
            timings.append(_time(value, facts, compression, encoding, inside, runs))
            shutil.rmtree(inside)
            if progress is not None:
                progress(place + 1, len(candidates))
    nbytes = sum(_nbytes(tensor) for tensor in value.values())
    return BenchReport(about, len(value), nbytes, tuple(timings), tuple(recommend(timings)))


def _can_hold(facts: Facts, count: int) -> bool:
    """Whether a format can hold this many tensors of any name; text and models cannot."""
    if facts.takes == "one array":
        return count == 1
    return facts.typed and facts.takes != "arrays"


def _compressions(facts: Facts) -> Sequence[str]:
    if facts.compressions:
        return facts.compressions
    return () if facts.files == "several" else tuple(WHOLE)


def _encodings(name: str, compression: str | None, value: Mapping[str, Any]) -> list[str | None]:
    """The encodings that are tried: where a format can split the bytes of floats, both ways."""
    writes = table.to_write(name).writes
    has_floats = any(array.dtype.kind == "f" for array in arrays_in([*value.values()]))
    if compression is None or writes is None or not has_floats:
        return [None]
    known = {field.name for field in fields(writes.options)}
    return [None, SPLIT] if SPLIT in known else [None]


def _time(
    value: Mapping[str, Any],
    facts: Facts,
    compression: str | None,
    encoding: str | None,
    folder: str,
    runs: int,
) -> Timing:
    is_own = compression in facts.compressions or (compression is None and bool(facts.compressions))
    whole = "" if is_own or compression is None else WHOLE[compression]
    ending = next(iter(facts.suffixes), "") + whole
    path = os.path.join(folder, f"bench{ending}")
    chosen = (compression or "none") if is_own else None
    one_row = facts.takes == "rows"  # a row of tensors, as large as they are
    content: Any = next(iter(value.values())) if facts.takes == "one array" else dict(value)

    def write() -> None:
        if one_row:
            with writer(path, durable=False) as out:
                out.write(content)
        else:
            split = True if encoding == SPLIT else None
            save(
                content,
                path,
                format=facts.name,
                durable=False,
                compression=chosen,
                byte_stream_split=split,
            )

    def read() -> dict[str, Any]:
        if one_row:
            with open_file(path) as opened:
                assert isinstance(opened, Rows)
                found = dict(next(iter(opened)))
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
        return Timing(facts.name, compression, problem=error.message, encoding=encoding)
    for key, tensor in value.items():
        given = found[key]
        if one_row and isinstance(tensor, np.ndarray):
            # There a list of one value is a value, and integers of every width are of 64 bits.
            given = np.asarray(given).reshape(tensor.shape)
            if given.dtype == np.int64 and tensor.dtype.kind in "biu":
                given = given.astype(tensor.dtype)
        if _digest(given) != _digest(tensor):
            raise AssertionError(f"{facts.name} gave back another {key} than was written")
    files = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    size = sum(map(os.path.getsize, files))
    return Timing(facts.name, compression, size, written, opened, encoding=encoding)


def recommend(timings: Sequence[Timing], given: int | None = None) -> Iterator[Recommendation]:
    """Recommends formats, by size and times.

    Args:
        timings: The timings of the formats, which the reasons quote.
        given: The size of the file as it is, if all of it was written.
    """
    done = [timing for timing in timings if timing.nbytes is not None]

    def together(timing: Timing) -> float:
        return (timing.write or 0.0) + (timing.read or 0.0)

    def sent(timing: Timing) -> float:
        return together(timing) + (timing.nbytes or 0) / BANDWIDTH

    least = min((timing.nbytes or 0 for timing in done), default=0)
    # A slightly smaller file does not justify a longer wait.
    small = [timing for timing in done if (timing.nbytes or 0) <= least * (1 + SLACK)]
    choices: list[tuple[str, list[Timing], Callable[[Timing], float], str]] = [
        ("storage", small, lambda timing: timing.read or 0.0, ""),
        ("transfer", done, sent, "written, sent (100 MB/s) and read in {}, the least"),
        (
            "interop",
            [t for t in done if _is_widely_read(t)],
            together,
            "written and read in {}, the least of what other tools read",
        ),
        (
            "tensorflow",
            [t for t in done if _is_tensorflow(t)],
            together,
            "written and read in {}, the least of what TensorFlow reads itself",
        ),
    ]
    for purpose, among, key, reason in choices:
        if among:
            best = min(among, key=key)
            text = reason.format(brief(key(best))) or _smallest(best, least, len(small), given)
            yield Recommendation(purpose, best.format, best.compression, text, best.encoding)


def _smallest(best: Timing, least: int, similar: int, given: int | None) -> str:
    """Why a format is chosen for storage."""
    size = best.nbytes or 0
    if size == least:
        reason = "the smallest" + (", and the quickest to read of those like it" * (similar > 1))
    else:
        reason = f"{size / least - 1:.1%} larger than the smallest, and quicker to read"
    return reason + ("; the file as it is is smaller still" if given and given < size else "")


def brief(seconds: float) -> str:
    """A time in three digits: "12.3 ms"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _is_widely_read(timing: Timing) -> bool:
    """Whether other tools read it: in compressions of the format's own, not of the whole file."""
    facts = TABLE[timing.format]
    is_own = timing.compression is None or timing.compression in facts.compressions
    return facts.read_by == "many" and is_own


def _is_tensorflow(timing: Timing) -> bool:
    """Whether TensorFlow reads it without anything of ours."""
    return TABLE[timing.format].read_by == "tensorflow" and timing.compression in (None, "gzip")


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
