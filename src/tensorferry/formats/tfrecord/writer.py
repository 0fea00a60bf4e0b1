"""Writing records: rows, columns or bytes into TFRecord files, one or a set of shards.

Files appear when the writer is closed, whole, or not at all. The same input gives the same bytes.
How rows become Examples is `tensorferry.formats.tfrecord.encoder`.

Threads may share a writer: every record is written once, and those of a thread in their order. A
sink that uses the writer it belongs to gets an error.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import _native, frameworks
from tensorferry.codecs import compression as codecs, json_text
from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord import index
from tensorferry.formats.tfrecord.encoder import ExampleWriter
from tensorferry.formats.tfrecord.frames import FOOTER, HEADER, Frames, Segment
from tensorferry.formats.tfrecord.shard import Gate, Shard
from tensorferry.frameworks import as_record, frames
from tensorferry.rows import schema as schemas
from tensorferry.rows.schema import Schema
from tensorferry.storage import (
    Replacement,
    Sink,
    append_sink,
    is_url,
    open_sink,
    open_source,
    shards,
)
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.values import RaggedTensor, SparseTensor

if TYPE_CHECKING:
    from tensorferry.formats.tfrecord.framed import Framed

# Records are collected and written together: at most so many, or so many bytes of them.
PENDING_ROWS = 512
PENDING_BYTES = 4 << 20
FRAMED_BYTES = 1 << 20
# The number of those that may wait to be written.
RUNNING = 2
# The number of rows that are encoded in Python, at most, before the native way is tried again.
DETOUR = 1 << 16


def writer(
    path: str | os.PathLike[str],
    *,
    shards: int | None = None,
    compression: str | None = None,
    level: int | None = None,
    schema: Any = None,
    append: bool = False,
    durable: bool = True,
) -> RecordWriter:
    """Opens a TFRecord file, or a set of shards, for writing.

    Args:
        path: The file; "name@10" for ten shards; "-" for the standard output.
        shards: Write so many files, "name-00000-of-00010" and so on. Rows go to them in turn, a
            batch of columns is divided among them.
        compression: "gzip" or "zlib", which TensorFlow reads, or "zstd", which it does not; by
            default what the suffix says (.gz, .zlib, .zst), and none.
        level: The level of the compression.
        schema: How features are written, where their types do not say it.
        append: Continue an existing, uncompressed file, whose frames are checked first.
        durable: Wait until the disk has the bytes before the file appears.
    """
    return RecordWriter(
        path,
        shards=shards,
        compression=compression,
        level=level,
        schema=schema,
        append=append,
        durable=durable,
    )


class RecordWriter:
    """Writes records; use it in a `with` block, or call `close`. See `tensorferry.writer`.

    Several threads may write to it at the same time.

    Args:
        path: As in `tensorferry.writer`; or a target, which says `durable` and the options of its
            store itself, and is compressed only if that is asked for where it takes the bytes.

    Attributes:
        paths: The files.
        add: Writes one record of bytes, as `write` does but without a Python call: for those who
            write no rows.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Target,
        *,
        shards: int | None = None,
        compression: str | None = None,
        level: int | None = None,
        schema: Any = None,
        append: bool = False,
        durable: bool = True,
    ) -> None:
        target = path if isinstance(path, Target) else Target(os.fspath(path), durable=durable)
        self.paths = _names(target.path, shards) if target.is_path else [target.path]
        self._written = 0
        self._files: Replacement | None = None  # with which a schema can appear
        self._has_neighbours = False  # which a schema can be one of
        self._before: Schema | None = None  # that of a file that is appended to
        self._durable = target.durable
        self._beside = b""
        self._framed: Framed | None = None
        self._examples = ExampleWriter(None if schema is None else schemas.as_schema(schema))
        self._plan = self._examples.plan
        self._rows = 0  # that are pending in `_examples`
        self._direct = True  # the short way: open, and no rows are pending
        self._detour = 0  # rows until the short way is tried again
        self._next_detour = 1
        self._straight = 0  # records that went the short way before the last detour
        self._size = 0
        self._turn = 0
        self._worker: ThreadPoolExecutor | None = None
        self._running: deque[Future[None]] = deque()
        self._stack: ExitStack | None = ExitStack()
        self._sinks = Gate()
        self._gate = Gate(self._sinks)
        kind = _compression(self.paths[0] if target.is_path else "", compression)
        try:
            sinks = self._open_all(target, kind, append)
            self._shards = [
                Shard(sink, kind, level, self._sinks, streams=len(sinks)) for sink in sinks
            ]
            self._framers = [_native.Framer(shard.write, FRAMED_BYTES) for shard in self._shards]
            self.add = self._framers[0].add if len(self._shards) == 1 else self._add_in_turn
        except BaseException as error:
            # Not close(), which would let files appear that are open already, empty.
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    @property
    def count(self) -> int:
        """Number of records it was given."""
        return self._written + self._rows + sum(framer.count for framer in self._framers)

    @property
    def nbytes(self) -> int | None:
        """Number of bytes of the files so far; None where nobody counts them."""
        sizes = [shard.size for shard in self._shards]
        return None if None in sizes else sum(filter(None, sizes))

    def _open_all(self, target: Target, kind: str | None, append: bool) -> list[Sink]:
        assert self._stack is not None
        self._has_neighbours = target.has_neighbours
        if append:
            if any(map(_has_records, self.paths)):
                self._before = schemas.find_own(Place(self.paths[0]))
                typed = self._before is not None and self._before.frame is not None
                self._has_neighbours = self._has_neighbours and typed
            return [self._appended(target, name, kind) for name in self.paths]
        if not target.is_path:
            return [self._stack.enter_context(target.sink())]
        self._files = self._stack.enter_context(target.opened(self.paths))
        return [self._files.open(name) for name in self.paths]

    def keep_beside(self, schema: Schema) -> None:
        """Takes the schema that appears beside each file, together with it."""
        self._beside = json_text.to_text(schema.to_json())

    def _appended(self, target: Target, name: str, kind: str | None) -> Sink:
        assert self._stack is not None
        if is_url(name):
            raise UnsupportedError(
                "a remote file cannot be appended to", path=name, hint="write a new shard"
            )
        if target.is_path and os.path.exists(name):
            if kind is not None:
                raise UnsupportedError(
                    "a compressed file cannot be appended to", path=name, hint="write a new shard"
                )
            end = _end_of(name)
            return self._stack.enter_context(append_sink(name, end, durable=target.durable))
        if name != target.path:
            target = Target(name, options=target.options, durable=target.durable)
        sink: Sink = self._stack.enter_context(target.sink())
        return sink

    def write(self, record: Any) -> None:
        """Writes one record: a dict from feature names to values, or the bytes of any message.

        A tensor of one string counts as its bytes, and a `tf.train.Example` as its own.

        Raises:
            FormatError: The row does not fit the rows before it, or the schema. It is left out, and
                others can be written.
            UnsupportedError: An Example cannot carry it.
        """
        if self._direct:
            kind = record.__class__
            if kind is dict and self._framers[self._turn].add_row(self._plan, record):
                if len(self._framers) > 1:
                    self._turn_on()
                return
            if kind is bytes:
                self.add(record)
                return
        self._gate.run(self._write_other, record)

    def _add_in_turn(self, record: bytes) -> None:
        turn = self._turn
        self._turn_on()
        self._framers[turn].add(record)

    def _write_other(self, record: Any) -> None:
        self._check_open()
        if isinstance(record, bytes | bytearray | memoryview):
            self._go_straight()
            self.add(bytes(record))
        elif isinstance(record, Mapping):
            self._write_row({name: _accept(value) for name, value in record.items()})
        elif (data := as_record(record)) is not None:
            self._write_other(data)
        else:
            raise frames.no_row(record, "a dict of features, or bytes")

    def _write_row(self, row: Mapping[str, Any]) -> None:
        """Takes a row that is not encoded natively.

        Those that follow it take the same way for a while, twice as long each time, so that rows
        of a kind that the native way never takes are encoded together.
        """
        if self._direct:
            self._flush()
            straight = sum(framer.count for framer in self._framers)
            if straight - self._straight > PENDING_ROWS:
                self._next_detour = 1
            self._straight = straight
            self._detour, self._next_detour = self._next_detour, min(2 * self._next_detour, DETOUR)
        self._direct = False
        self._examples.add(row)
        self._rows += 1
        self._detour -= 1
        self._size += sum(map(_size_of, row.values()))
        if self._size >= PENDING_BYTES or self._rows >= PENDING_ROWS:
            self._flush()
        if self._detour <= 0 and not self._examples.is_undecided:
            self._go_straight()

    def _go_straight(self) -> None:
        """Writes what is pending, and lets the next records take the short way."""
        self._settle()
        self._plan = self._examples.plan
        self._direct = True

    def write_batch(self, columns: Any) -> None:
        """Writes many records.

        Args:
            columns: A dict from feature names to columns of one length, or a frame: a DataFrame of
                pandas or polars, a table of Arrow, rows that were opened, and whatever else has
                `__arrow_c_stream__`. A row lacks the features that are null in it.

        Raises:
            FormatError: The rows do not fit the rows before, or the schema.
            UnsupportedError: An Example cannot carry a column.
            RuntimeError: Another thread changed a column meanwhile; some of it may be written.
        """
        if isinstance(columns, Mapping):
            self._write_some(columns)
            return
        if not frames.is_frame(columns):
            raise UnsupportedError(
                f"a batch is {type(columns).__name__}, expected a dict of columns or a table"
            )
        from tensorferry.formats.tfrecord.framed import Framed

        if self._framed is None:
            self._framed = Framed(self._before)
        batches = frames.reader(columns, index=self._keeps_types)
        self._framed.begin(batches.schema)
        for batch in batches:
            self._write_some(self._framed.columns(batch))

    @property
    def _keeps_types(self) -> bool:
        """Whether a schema beside can say what the columns of frames were: all rows are theirs."""
        framed = self._framed
        return self._has_neighbours and framed is not None and self.count == framed.rows

    def _write_some(self, columns: Mapping[str, Any]) -> None:
        accepted = {
            # The encoder checks arrays itself; for arrays of many strings, once is enough.
            name: column if column.__class__ is np.ndarray else frameworks.accept(column)
            for name, column in columns.items()
        }
        self._gate.run(self._write_columns, accepted)

    def _write_columns(self, accepted: Mapping[str, Any]) -> None:
        self._check_open()
        self._flush()
        rows = self._examples.prepare_columns(accepted)
        self._plan = self._examples.plan
        block = -(-rows // len(self._shards)) or 1
        self._wait()
        for first in range(0, rows, block):
            self._examples.encode(first, min(first + block, rows), self._write_piece)
            self._written += min(block, rows - first)
            self._turn_on()

    def flush(self) -> None:
        """Encodes and writes pending rows; a new file still appears only on closing."""
        self._gate.run(self._flush_and_wait)

    def _flush_and_wait(self) -> None:
        self._check_open()
        self._settle()

    def _check_open(self) -> None:
        if self._stack is None:
            raise ValueError("the writer is closed")

    def _flush(self, *, at_once: bool = False) -> None:
        self._size = 0
        for framer in self._framers:
            framer.flush()
        if self._rows:
            rows, self._rows = self._rows, 0
            self._written += rows
            data = self._examples.flush()
            if at_once and not self._running:
                self._deal(data, rows)
            else:
                self._submit(self._deal, data, rows)

    def _settle(self) -> None:
        """Writes everything that is pending; a thread would only be waited for."""
        self._flush(at_once=True)
        self._wait()

    # Encoded rows are compressed and written in their own thread while the next are encoded; it
    # is one thread, so that everything stays in order. Records of bytes are framed and written at
    # once, because handing them to the thread would take longer.

    def _submit(self, work: Callable[..., None], *arguments: Any) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1)
        while len(self._running) >= RUNNING:
            self._running.popleft().result()
        self._running.append(self._worker.submit(work, *arguments))

    def _wait(self) -> None:
        while self._running:
            self._running.popleft().result()

    def _deal(self, data: bytes | memoryview, count: int) -> None:
        """Gives framed records to the shards in turn."""
        if len(self._shards) == 1:
            self._write_piece(data)
            return
        view, start = memoryview(data), 0
        for _ in range(count):
            _, end, _ = _native.tfrecord_scan(view, start, 1, False)
            self._write_piece(view[start:end])
            self._turn_on()
            start = end

    def _write_piece(self, data: bytes | memoryview) -> None:
        self._shards[self._turn].write(data)

    def _turn_on(self) -> None:
        self._turn = (self._turn + 1) % len(self._shards)

    def close(self) -> None:
        """Finishes the files and lets them appear."""
        self.__exit__(None, None, None)

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._gate.run(self._end, kind, error, traceback)

    def _end(self, kind: type[BaseException] | None, *details: Any) -> None:
        stack = self._stack
        if stack is None:
            return
        for framer in self._framers:
            framer.close()  # other threads are refused now; what they gave is written
        try:
            if kind is None:
                self._finish()
        except BaseException as failure:
            self._stop(stack, type(failure), failure, failure.__traceback__)
            raise
        self._stop(stack, kind, *details)

    def _finish(self) -> None:
        for shard in self._shards:
            shard.check()
        self._settle()
        for shard in self._shards:
            shard.finish()
        if self._framed is not None and self._keeps_types and not self._beside:
            self.keep_beside(self._framed.schema(self._examples.schema))
        for name in self.paths if self._beside else ():
            if self._files is not None:
                self._files.join(name, schemas.SUFFIX).write(self._beside)
            else:
                with open_sink(f"{name}{schemas.SUFFIX}", durable=self._durable) as sink:
                    sink.write(self._beside)

    def _stop(self, stack: ExitStack, *exception: Any) -> None:
        """Ends the thread, then closes the files: they appear unless there is an exception."""
        self._stack = None
        self._direct = False
        if self._worker is not None:
            self._worker.shutdown(cancel_futures=True)
        stack.__exit__(*exception)
        is_new = self._files is not None and self._has_neighbours
        if exception[0] is None and is_new and not self._beside:
            schemas.remove_own(self.paths)


def _accept(value: Any) -> Any:
    """A framework's value as ours; plain Python values are passed as they are."""
    if value.__class__ in _PLAIN:
        return value
    if value.__class__ is list and _PLAIN.issuperset(map(type, value)):
        return value
    return frameworks.accept(value)


_PLAIN = frozenset((type(None), bool, int, float, str, bytes))


def _size_of(value: Any) -> int:
    """The approximate number of bytes of a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple):
        sized = value and isinstance(value[0], list | tuple | str | bytes | np.ndarray)
        return sum(map(_size_of, value)) if sized else 8 * len(value)
    if isinstance(value, SparseTensor):
        return value.values.nbytes + value.indices.nbytes
    return value.flat_values.nbytes if isinstance(value, RaggedTensor) else 8


def _names(path: str, count: int | None) -> list[str]:
    shorthand = re.search(r"@[0-9]{1,9}(\.[^@/]*)?$", path)
    return [path] if count is None and not shorthand else shards.shard_names(path, count)


def _compression(path: str, given: str | None) -> str | None:
    if given is not None:
        return given.lower() or None
    parsed = shards.parse_shard(path)
    names = (path,) if parsed is None else (path, parsed[0])
    return next((kind for name in names if (kind := codecs.split_suffix(name)[1])), None)


def _has_records(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _end_of(path: str) -> int:
    """Where the records of a file end: at its end, or it is damaged; the last one is verified."""
    with open_source(path) as source:
        found = index.build(Frames(source))
        if not len(found):
            return 0
        start, end = int(found[-1, 0]) - HEADER, int(found[-1].sum()) + FOOTER
        assert source.buffer is not None
        Segment(source.buffer, start, 1, end, 0, len(found) - 1, path, True).check()
        return end
