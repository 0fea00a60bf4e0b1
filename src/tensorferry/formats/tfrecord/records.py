"""Records: TFRecord files opened as an ordered stream of rows, columns or bytes.

    with ferry.open("train-*.tfrecord") as records:
        for batch in records.batches(1024):     # a dict of columns
            ...

Files are walked frame by frame (`tensorferry.formats.tfrecord.frames`); the records of a batch,
which may lie in several files, are decoded together (`tensorferry.formats.tfrecord.example`),
several batches at once in threads. Nothing larger than the batches under way is in memory.
"""

from __future__ import annotations

import operator
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

import numpy as np

from tensorferry import frameworks
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tfrecord import example, frames as tfrecord
from tensorferry.formats.tfrecord.frames import Damage, Frames, OnError, Segment, Trail
from tensorferry.rows import schema as schemas
from tensorferry.rows.schema import Schema
from tensorferry.storage import STANDARD_STREAM, Source, open_sink, open_source, shards
from tensorferry.tensors.values import Array

# How much is looked at to infer a schema: so many records, or so many bytes of them.
INFER = 1000
INFER_BYTES = 16 << 20
ROWS = 1024
# Small batches are decoded several at a time, up to so many rows or bytes: handing work to a thread
# costs more.
TASK_ROWS = 1024
TASK_BYTES = 8 << 20
TASK_BATCHES = 16
# How many records are verified at a time.
VERIFY = 1 << 14

To = Literal["numpy", "tensorflow", "torch", "jax", "arrow"]


class _Damages(list[Damage]):
    """Damages, each of them once, however often the files are read."""

    def __init__(self) -> None:
        self._known: set[Damage] = set()

    def append(self, damage: Damage) -> None:
        if damage not in self._known:
            self._known.add(damage)
            super().append(damage)


class Records:
    """An ordered stream of records: what `tensorferry.open` gives for TFRecords.

    Iterating gives rows (dicts), `batches(n)` dicts of columns; `len`, `records[7]`,
    `records[2:5]` and `records[[3, 1, 4]]` work on uncompressed files. It can be pickled: workers
    open the files anew. Pipes and file objects are read once.

    Args:
        path: A file, a glob, a directory, "name@10" for a set of shards, a list of those, "-" for
            the standard input, or a binary file object.
        columns: The features wanted; the others are skipped without decoding them.
        schema: Of the records: see `tensorferry.rows.schema.as_schema`. By default that of a
            file beside the data, or else inferred.
        infer: Whether the first records tell the schema, or all have to be looked at.
        on_error: "raise" on damage, "skip" it, or "keep" records whose data checksum is wrong.
            What was skipped or kept is in `damages`.
        verify: Check the checksums of the data; those of the lengths always are.
        raw: Give the records' bytes, for files that hold other messages than Examples.
        threads: How many decode; by default one for each processor.

    Attributes:
        paths: The files, in order.
        damages: What was skipped or kept since it was opened, if `on_error` is not "raise".
    """

    def __init__(
        self,
        path: Any,
        *,
        columns: Sequence[str] | None = None,
        schema: Any = None,
        infer: Literal["first", "all"] = "first",
        on_error: OnError = "raise",
        verify: bool = True,
        raw: bool = False,
        threads: int | None = None,
    ) -> None:
        if on_error not in ("raise", "skip", "keep"):
            raise ValueError(f"on_error is {on_error!r}, expected raise, skip or keep")
        if infer not in ("first", "all"):
            raise ValueError(f"infer is {infer!r}, expected first or all")
        self.paths: list[Any] = [path] if hasattr(path, "read") else shards.expand(path)
        self.damages: list[Damage] = _Damages()
        self._columns = None if columns is None else list(columns)
        self._schema = None if schema is None else schemas.as_schema(schema)
        self._infer = infer
        self._on_error: OnError = on_error
        self._verify = verify
        self._raw = raw
        self._threads = threads or os.cpu_count() or 1
        self._is_stream = any(map(_is_stream, self.paths))
        # Of streams, which cannot be opened again: the files that were not read to their end, the
        # first of them, and what was read of it to infer the schema.
        self._unread = list(self.paths)
        self._current: tuple[Source, Frames] | None = None
        self._pending: list[Segment] = []
        self._index: list[Array] | None = None
        self._sources: list[Source] = []
        self._length: int | None = None

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files; values that were given out stay valid."""
        for source in self._sources:
            source.close()
        if self._current is not None:
            self._current[0].close()
        self._sources, self._index, self._current = [], None, None
        self._unread, self._pending = [], []

    def __getstate__(self) -> dict[str, Any]:
        if self._is_stream:
            raise TypeError("records of a stream cannot be pickled: there is one reader")
        return {**self.__dict__, "_sources": [], "damages": _Damages()}

    def __repr__(self) -> str:
        names = ", ".join(str(path) for path in self.paths[:3])
        more = f" and {len(self.paths) - 3} more" if len(self.paths) > 3 else ""
        return f"Records({names}{more})"

    # Going through the files

    def _each_frames(self, damages: list[Damage]) -> Iterator[Frames]:
        options: dict[str, Any] = {"verify": self._verify, "on_error": self._on_error}
        if not self._is_stream:
            for path in self.paths:
                with open_source(path) as source:
                    yield Frames(source, damages=damages, **options)
            return
        while self._unread:
            if self._current is None:
                source = open_source(self._unread[0])
                self._current = source, Frames(source, damages=damages, **options)
            yield self._current[1]
            self._current[0].close()
            self._current = None
            del self._unread[0]

    def _segments(
        self, limit: Callable[[], int], *, damages: list[Damage] | None = None
    ) -> Iterator[Segment]:
        """All frames, in segments of as many as `limit` says at that time."""
        pending, self._pending = self._pending, []
        while pending:
            segment = pending.pop(0)
            if segment.count > limit():
                segment, rest = segment.split(limit())
                pending.insert(0, rest)
            yield segment
        for frames in self._each_frames(self.damages if damages is None else damages):
            while (taken := frames.take(limit())) is not None:
                yield taken

    def _tasks(self, rows: int) -> Iterator[list[Segment]]:
        """The frames of batches of so many rows."""
        task: list[Segment] = []
        left = rows
        segments = self._segments(lambda: left)
        for segment in segments:
            task.append(segment)
            left -= segment.count
            if left == 0:
                yield task
                task, left = [], rows
        if task:
            yield task

    def _row_tasks(self) -> Iterator[list[Segment]]:
        """The frames of some rows, fewer of them the larger they are."""
        rows = 1
        segments = self._segments(lambda: rows)
        for segment in segments:
            yield [segment]
            size = (segment.end - segment.start) // segment.count
            rows = max(1, min(2 * rows, ROWS, TASK_BYTES // size))

    # The schema

    @property
    def schema(self) -> Schema:
        """What the records hold: given, found beside the data, or inferred."""
        if self._schema is None:
            self._schema = self._find_schema()
        return self._schema

    @property
    def _names(self) -> Sequence[str]:
        """The columns; of records without any, a batch does not say how many there are."""
        return list(self.schema) if self._columns is None else self._columns

    def _find_schema(self) -> Schema:
        if not self._is_stream:
            beside = schemas.find_beside(str(self.paths[0]))
            if beside is not None:
                return beside
        skip = self._on_error != "raise"
        if self._infer == "first":
            return example.survey(self._first_segments(), skip=skip)
        if self._is_stream:
            raise UnsupportedError(
                "infer='all' reads the records twice, and a stream can be read once",
                hint="pass a schema=, or copy the stream into a file",
            )
        segments = self._segments(lambda: INFER, damages=[])
        return example.survey(Trail().follow(segments), skip=skip)

    def _first_segments(self) -> Iterator[Segment]:
        first: list[Segment] = []
        rows = size = 0
        # A stream's damages are met once, those of files again when they are read.
        damages = self.damages if self._is_stream else []
        # Few at first: they may be large.
        segments = self._segments(lambda: min(max(16, rows), INFER - rows), damages=damages)
        for segment in segments:
            yield segment
            if self._is_stream:
                first.append(segment)
            rows += segment.count
            size += segment.end - segment.start
            if rows >= INFER or size >= INFER_BYTES:
                break
        self._pending = first

    # Batches and rows

    def batches(
        self, rows: int = ROWS, *, to: To = "numpy", drop_remainder: bool = False
    ) -> Iterator[Any]:
        """Batches of so many rows, over the boundaries of files; the last may be shorter.

        Args:
            rows: How many; a record that is skipped because it does not fit the schema leaves its
                batch shorter.
            to: Whose tensors the columns are; "arrow" gives `pyarrow.RecordBatch`.
            drop_remainder: Leave out batches that are shorter.
        """
        rows = operator.index(rows)
        if rows < 1:
            raise ValueError(f"batches of {rows} rows, expected 1 or more")
        for batch in self._decoded(self._tasks(rows), to):
            if not drop_remainder or _length(batch) == rows:
                yield batch

    def __iter__(self) -> Iterator[Any]:
        batches = self._decoded(self._row_tasks(), "numpy")
        if self._raw:
            return chain.from_iterable(batches)
        if not self._names:
            segments = chain.from_iterable(self._row_tasks())
            return ({} for segment in segments for _ in range(segment.count))
        return chain.from_iterable(example.rows_of(batch, self.schema) for batch in batches)

    def _decoded(self, tasks: Iterator[list[Segment]], to: To) -> Iterator[Any]:
        """The batches of tasks, in their order; an error comes behind the batches before it."""
        if self._raw:
            trail = Trail()
            for task in tasks:
                yield _raw_batch(task)
                for segment in task:
                    trail.add(segment)
            return
        schema = self.schema
        damages = None if self._on_error == "raise" else self.damages
        team = example.DecodingTeam(
            lambda: _decoder(schema, self._columns, to), self._threads, damages
        )
        # One thread decodes what is asked for; several have work while this one makes columns.
        ahead = self._threads + 2 if self._threads > 1 else 1
        failures: list[Exception] = []
        for group in _groups(tasks, failures):
            team.begin(group)
            if len(team) == ahead:
                yield from (_give(batch, to) for batch in team.finish())
        while len(team):
            yield from (_give(batch, to) for batch in team.finish())
        if failures:
            raise failures[0]

    def verify(self) -> int:
        """Checks every checksum of every file, and gives the number of records.

        Raises:
            FormatError: A file is damaged.
        """
        count = 0
        with ThreadPoolExecutor(self._threads) as workers:
            trail = Trail()
            running: deque[tuple[Segment, Future[int]]] = deque()
            for segment in self._segments(lambda: VERIFY):
                running.append((segment, workers.submit(segment.check)))
                if len(running) > self._threads:
                    done, future = running.popleft()
                    count += future.result()
                    trail.add(done)
            return count + sum(future.result() for _, future in running)

    def walk(self) -> int:
        """Goes from frame to frame without a look at the data, and gives the number of records."""
        segments = Trail().follow(self._segments(lambda: tfrecord.MANY))
        return sum(segment.count for segment in segments)

    # Random access

    def _indexes(self) -> list[Array]:
        if self._is_stream:
            raise UnsupportedError("the records of a stream can only be read in order")
        if not self._sources:
            self._sources = [open_source(path) for path in self.paths]
        if self._index is None:
            self._index = [self._index_of(source) for source in self._sources]
        return self._index

    def _index_of(self, source: Source) -> Array:
        passing = self._on_error != "raise"
        if not passing and source.buffer is not None:
            index = tfrecord.read_index(source.path, source.buffer)
            if index is not None:
                return index
        return tfrecord.build_index(
            source,
            verify=self._verify and passing,
            on_error=self._on_error,
            damages=self.damages,
        )

    def __len__(self) -> int:
        if self._is_stream:
            raise TypeError("a stream has no length that is known before its end")
        if self._length is None and (self._index is not None or self._has_indexes()):
            # Compressed, only reading can tell.
            with suppress(UnsupportedError):
                self._length = sum(map(len, self._indexes()))
        if self._length is None:
            self._length = self.walk()
        return self._length

    def _has_indexes(self) -> bool:
        """Whether there are files beside that tell where records are: else walking is quicker."""
        return all(
            isinstance(path, str | os.PathLike)
            and any(os.path.exists(f"{path}{suffix}") for suffix in tfrecord.INDEX_SUFFIXES)
            for path in self.paths
        )

    def __getitem__(self, where: Any) -> Any:
        """One record, or a list of them for a slice or a list of numbers."""
        if isinstance(where, slice):
            return self.__getitems__(range(*where.indices(len(self))))
        if isinstance(where, Sequence | np.ndarray):
            return self.__getitems__(where)
        return self.__getitems__([where])[0]

    def __getitems__(self, where: Any) -> list[Any]:
        """Several records, in the order asked for."""
        indexes = self._indexes()
        starts = np.cumsum([0, *map(len, indexes)])
        segments = []
        for number in where:
            record = operator.index(number)
            if not -starts[-1] <= record < starts[-1]:
                raise IndexError(f"record {number} of {starts[-1]}")
            record %= int(starts[-1])
            file = int(np.searchsorted(starts, record, side="right")) - 1
            segments.append(self._segment_at(file, record - int(starts[file])))
        if self._raw:
            return [segment.records()[0] for segment in segments]
        if not self._names:
            return [{} for _ in segments]
        decoder = example.BatchDecoder(self.schema, self._columns)
        return list(example.rows_of(decoder.decode(segments), self.schema)) if segments else []

    def _segment_at(self, file: int, record: int) -> Segment:
        buffer = self._sources[file].buffer
        assert buffer is not None
        assert self._index is not None
        offset, length = self._index[file][record].tolist()
        start, end = offset - tfrecord.HEADER, offset + length + tfrecord.FOOTER
        # Otherwise it was checked for the index, or is to be kept as it is.
        verify = self._verify and self._on_error == "raise"
        return Segment(buffer, start, 1, end, 0, record, str(self.paths[file]), verify)

    def write_index(self) -> list[str]:
        """Writes an index beside each file, as text, and gives their names.

        Each line is the offset and the length of a record's frame, which DALI and other readers
        take. An index that fits its file is used instead of a scan.
        """
        names = []
        for path, index in zip(self.paths, self._indexes(), strict=True):
            name = f"{path}{tfrecord.INDEX_SUFFIXES[0]}"
            with open_sink(name) as sink:
                tfrecord.write_index(index, sink)
            names.append(name)
        return names


def _is_stream(path: Any) -> bool:
    """Whether it can be read once: the standard input, a file object, a pipe."""
    if hasattr(path, "read") or path == STANDARD_STREAM:
        return True
    return os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)


def _groups(
    tasks: Iterator[list[Segment]], failures: list[Exception]
) -> Iterator[list[list[Segment]]]:
    """Tasks that are done together; an error ends them and goes into `failures`."""
    group: list[list[Segment]] = []
    rows = size = 0
    try:
        for task in tasks:
            group.append(task)
            rows += sum(segment.count for segment in task)
            size += sum(segment.end - segment.start for segment in task)
            if rows >= TASK_ROWS or size >= TASK_BYTES or len(group) >= TASK_BATCHES:
                yield group
                group, rows, size = [], 0, 0
    except (FormatError, OSError) as error:
        failures.append(error)
    if group:
        yield group


def _raw_batch(task: list[Segment]) -> list[bytes]:
    return [record for segment in task for record in segment.records()]


def _length(batch: Any) -> int:
    if isinstance(batch, list):
        return len(batch)
    if isinstance(batch, dict):
        return next((len(column) for column in batch.values()), 0)
    return int(batch.num_rows)


def _decoder(schema: Schema, columns: Sequence[str] | None, to: To) -> example.BatchDecoder:
    if to == "arrow":
        from tensorferry.formats.tfrecord.arrow import ArrowDecoder

        return ArrowDecoder(schema, columns)
    return example.BatchDecoder(schema, columns)


def _give(batch: Any, to: To) -> Any:
    return batch if to == "arrow" else frameworks.give(batch, to)


def repair(
    path: str | os.PathLike[str], target: str | os.PathLike[str], *, durable: bool = True
) -> tuple[int, list[Damage]]:
    """Writes every whole record of a damaged TFRecord file into a new one, uncompressed.

    Returns:
        How many records there are in it, and what was lost.

    Raises:
        FormatError: There is no whole record in it.
    """
    with open_source(path) as source, open_sink(target, durable=durable) as sink:
        count, damages = tfrecord.repair(source, sink)
        if count == 0 and damages:
            raise FormatError("no whole record in it", path=os.fspath(path))
        return count, damages


__all__ = ["Records", "open", "repair"]
