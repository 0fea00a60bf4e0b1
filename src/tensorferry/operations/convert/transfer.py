"""Transfer: the values of something opened into files of another format, changed on the way.

Which files, and whether they may be written, is `tensorferry.operations.convert`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tensorferry import formats, storage
from tensorferry.codecs import compression as codecs
from tensorferry.dtypes import DType
from tensorferry.errors import UnsupportedError
from tensorferry.files.save import Saved, save
from tensorferry.files.sizes import sizes_of
from tensorferry.formats.tables.writer import write_table
from tensorferry.formats.tfrecord.writer import RecordWriter, writer
from tensorferry.operations import hash as digests
from tensorferry.operations.convert import casting
from tensorferry.operations.list import is_match
from tensorferry.operations.names import Renaming
from tensorferry.operations.opened import (
    ROWS,
    Opened,
    OpenedRecords,
    OpenedTable,
    OpenedTensors,
    rows_in,
)
from tensorferry.rows.columns import batches_of, length_of, rows_between
from tensorferry.storage.pages import release
from tensorferry.tensors.bundle import Bundle

Progress = Callable[[int, int | None], None]
"""Is told how many bytes or rows are done, and of how many, if that is known."""

KERAS = "keras"

# Of what is read at a time: bytes, and rows at most.
TOGETHER = 4 << 20
MOST_ROWS = 1 << 14

SINGLE = ("npy", "tensorproto", "raw")
"""Formats of one tensor that has no name."""


def has_place_for_metadata(format: str) -> bool:
    """Whether what a user kept with a file can go into one of that format, or beside it."""
    return formats.TABLE[format].holds != "records" and format != KERAS


@dataclass(frozen=True)
class Changes:
    """What becomes of tensors on the way.

    Attributes:
        select: Patterns of names; others are left out.
        rename: New names.
        dtype: Of floats, or of integers.
    """

    select: tuple[str, ...] = ()
    rename: Renaming = field(default_factory=Renaming)
    dtype: DType | None = None

    def names(self, opened: Opened) -> dict[str, str]:
        """New names of the tensors wanted, by their old ones."""
        infos = opened.infos()
        wanted = [name for name in infos if is_match(name, self.select)]
        if not wanted and infos:
            raise UnsupportedError(
                f"no name fits {', '.join(self.select)}", path=opened.name,
                hint=f"there are {', '.join(list(infos)[:5])}",
            )  # fmt: skip
        return self.rename.apply(wanted)

    def cast(self, tensor: Any, name: str) -> Any:
        """A tensor in its new dtype."""
        return tensor if self.dtype is None else casting.cast(tensor, self.dtype, name=name)

    def __bool__(self) -> bool:
        return bool(self.select or self.rename or self.dtype)


class _Watched(Bundle):
    """A bundle that changes the tensors of another on the way, and tells of each."""

    def __init__(
        self, bundle: Bundle, metadata: dict[str, Any], change: Any, tell: Callable[[str], None]
    ) -> None:
        self.path, self.format, self.metadata = bundle.path, bundle.format, metadata
        self._bundle, self._change, self._tell = bundle, change, tell

    @property
    def layout(self) -> Any:
        """That of the other."""
        return self._bundle.layout

    @property
    def origins(self) -> Mapping[str, Any]:
        """Those of the other."""
        return self._bundle.origins

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """Names and tensors, one by one."""
        for name, tensor in self._bundle.tensors():
            yield name, self._change(tensor, name)
            release(tensor)
            self._tell(name)


@dataclass
class Transfer:
    """One conversion: from what was opened into files."""

    opened: Opened
    names: dict[str, str]
    changes: Changes
    path: str
    format: str
    files: tuple[str, ...]
    compression: str | None
    durable: bool
    progress: Progress | None
    digest: bool = False
    _done: int = 0
    _total: int = 0
    _metadata: dict[str, Any] = field(default_factory=dict)

    def run(self, quantize: Any, shard_size: Any) -> tuple[int | None, Saved | None]:
        """Writes; gives how many tensors or rows went over, and what `save` said."""
        if has_place_for_metadata(self.format):
            self._metadata = {k: v for k, v in self.opened.metadata.items() if k != digests.KEY}
        if self.digest:
            self._metadata[digests.KEY] = self._digest(quantize)
        count, saved = self._write(quantize, shard_size)
        return (len(self.names) if self.opened.holds == "tensors" else count), saved

    def _write(self, quantize: Any, shard_size: Any) -> tuple[int | None, Saved | None]:
        holds = formats.TABLE[self.format].holds
        if holds == "records":
            if quantize is not None:
                raise UnsupportedError(
                    "records are not quantized", hint="dtype= makes them smaller"
                )
            return self._write_records(), None
        whole = codecs.split_suffix(self.path)[1] is not None or quantize is not None
        if holds == "table" and self.opened.holds != "tensors" and not whole:
            return self._write_table(), None
        return self.opened.count(), self._save(quantize, shard_size)

    def _digest(self, quantize: Any) -> str:
        """The digest of what will be written: the values are read once more for it."""
        records = not has_place_for_metadata(self.format)
        stream = isinstance(self.opened, OpenedRecords) and self.opened.is_stream
        if quantize is not None or records or stream:
            reason = "quantized" if quantize is not None else self.format if records else "a stream"
            raise UnsupportedError(f"the digest of {reason} is not kept with it")
        found = {}
        for old, new in self.names.items():
            hasher = digests.TensorHasher()
            for batch in self.opened.batches(columns=[old]):
                hasher.add(self.changes.cast(batch[old], old))
            found["tensor" if self.format in SINGLE else new] = hasher.hexdigest()
        return digests.combine(found)

    # Into a bundle

    def _save(self, quantize: Any, shard_size: Any) -> Saved:
        value, given = self._value()
        if shard_size is not None:
            given["shard_size"] = shard_size
        if self.format == KERAS:
            given |= self._keras_places()
        return save(
            value,
            self.path,
            format=self.format,
            compression=self.compression,
            quantize=quantize,
            durable=self.durable,
            **given,
        )

    def _keras_places(self) -> dict[str, Any]:
        """Where variables that come from a file of Keras are in the next one: where they were."""
        weights = getattr(getattr(self.opened, "bundle", None), "details", None)
        if self.opened.format != KERAS or weights is None or weights.layout != "keras3":
            return {}
        places = {new: weights.paths[old] for old, new in self.names.items() if old == new}
        return {"paths": places, "layers": weights.layers}

    def _value(self) -> tuple[Any, dict[str, Any]]:
        """What `save` takes, with the metadata where that does not bring it along."""
        metadata = {"metadata": self._metadata or None}
        if self.format in SINGLE and len(self.names) == 1:
            (name,) = self.names
            return self._tensor(name), metadata
        if self.format in SINGLE:
            raise UnsupportedError(
                f"{self.format} holds one tensor, and there are {len(self.names)}",
                path=self.opened.name,
                hint="choose one with --select, or convert to npz or safetensors",
            )
        renamed = self.changes.select or self.changes.rename
        bundle = self.opened.bundle if isinstance(self.opened, OpenedTensors) else None
        if isinstance(bundle, Bundle) and not renamed:
            return _Watched(bundle, self._metadata, self.changes.cast, self._tell_tensor), {}
        if isinstance(self.opened, OpenedRecords) and self.opened.is_stream:
            batch: dict[str, Any] = next(self.opened.batches(1 << 62), {})
            chosen = {new: self.changes.cast(batch[old], old) for old, new in self.names.items()}
            return iter(chosen.items()), metadata
        return self._tensors(), metadata

    def _tensors(self) -> Iterator[tuple[str, Any]]:
        for old, new in self.names.items():
            tensor = self.opened.tensor(old)
            yield new, self.changes.cast(tensor, old)
            release(tensor)
            self._tell_tensor(old)

    def _tensor(self, name: str) -> Any:
        tensor = self.changes.cast(self.opened.tensor(name), name)
        self._tell_tensor(name)
        return tensor

    def _tell_tensor(self, name: str) -> None:
        if self.progress is not None:
            infos = self.opened.infos()
            self._total = self._total or sum(infos[old].nbytes or 1 for old in self.names)
            self._done += infos[name].nbytes or 1
            self.progress(self._done, self._total)

    # Into rows

    def _batches(self) -> Iterator[dict[str, Any]]:
        """Batches of columns, changed."""
        if isinstance(self.opened, OpenedTensors):
            total: int | None = rows_in(self.opened.infos(), list(self.names), self.opened.name)
            columns = {old: self.opened.tensor(old) for old in self.names}
            batches: Iterator[Any] = batches_of(columns, ROWS)
        else:
            total = self.opened.count()
            batches = self.opened.batches(self._rows_together(total), columns=list(self.names))
        for batch in batches:
            changed = {new: self.changes.cast(batch[old], old) for old, new in self.names.items()}
            yield changed
            self._tell_rows(length_of(next(iter(changed.values()))) if changed else 0, total)

    def _rows_together(self, total: int | None) -> int:
        """How many rows are read at a time: more of small ones, few of large ones."""
        if not total or not isinstance(self.opened, OpenedRecords):
            return ROWS
        each = (sizes_of(self.opened.files) or 0) / total
        return max(1, min(MOST_ROWS, round(TOGETHER / max(each, 1))))

    def _tell_rows(self, rows: int, total: int | None) -> None:
        self._done += rows
        if self.progress is not None:
            self.progress(self._done, total)

    def _write_table(self) -> int:
        batches: Iterator[Any] = self._batches()
        if self.opened.optional() and self.changes.dtype is None:
            batches = self._arrow_batches()
        with storage.open_sink(self.path, durable=self.durable) as sink:
            return write_table(
                batches,
                sink,
                format=self.format,
                metadata=self._metadata,
                compression=self.compression,
                stream=self.path.endswith(".arrows"),
            )

    def _arrow_batches(self) -> Iterator[Any]:
        """The same as Arrow has them, where a null is a null."""
        opened = self.opened
        rows: Any = opened.table if isinstance(opened, OpenedTable) else opened.records  # type: ignore[attr-defined]
        total = opened.count()
        for batch in rows.batches(ROWS, to="arrow"):
            yield batch.select(list(self.names)).rename_columns(list(self.names.values()))
            self._tell_rows(batch.num_rows, total)

    def _write_records(self) -> int:
        copied = isinstance(self.opened, OpenedRecords) and not self.changes
        count = self._count_rows() if len(self.files) > 1 else None
        with ExitStack() as stack:
            outs = [
                stack.enter_context(
                    writer(name, compression=self.compression, durable=self.durable)
                )
                for name in self.files
            ]
            targets = _Shards(outs, count)
            if copied:
                self._copy_records(targets)
            elif self.opened.optional():
                for row in self._rows():
                    targets.write({name: value for name, value in row.items() if value is not None})
            else:
                for batch in self._batches():
                    targets.write_batch(batch)
            return targets.written

    def _count_rows(self) -> int:
        if isinstance(self.opened, OpenedTensors):
            return rows_in(self.opened.infos(), list(self.names), self.opened.name)
        count = self.opened.count()
        if count is None:
            raise UnsupportedError(
                "a stream or a remote file does not tell how many records each shard gets",
                path=self.opened.name,
                hint="copy it into a local file first",
            )
        return count

    def _copy_records(self, targets: _Shards) -> None:
        """Records as they are: nothing is decoded."""
        assert isinstance(self.opened, OpenedRecords)
        total = self.opened.count() if self.progress is not None else None
        for number, record in enumerate(self.opened.bytes_of_records()):
            targets.write(record)
            if number % ROWS == ROWS - 1:
                self._tell_rows(ROWS, total)

    def _rows(self) -> Iterator[dict[str, Any]]:
        total = self.opened.count()
        for number, row in enumerate(self.opened.rows(columns=list(self.names))):
            yield {new: self.changes.cast(row[old], old) for old, new in self.names.items()}
            if number % ROWS == ROWS - 1:
                self._tell_rows(ROWS, total)


class _Shards:
    """Writers that each get the rows that follow each other."""

    def __init__(self, writers: Sequence[RecordWriter], count: int | None) -> None:
        self._writers = writers
        self._each = None if count is None else max(1, -(-count // len(writers)))
        self.written = 0

    def _room(self) -> tuple[RecordWriter, int]:
        """The writer of the next row, and how many rows go there."""
        if self._each is None:
            return self._writers[0], 1 << 62
        place = min(self.written // self._each, len(self._writers) - 1)
        return self._writers[place], (place + 1) * self._each - self.written

    def write(self, record: Any) -> None:
        self._room()[0].write(record)
        self.written += 1

    def write_batch(self, batch: Mapping[str, Any]) -> None:
        length = length_of(next(iter(batch.values()))) if batch else 0
        start = 0
        while start < length:
            out, room = self._room()
            stop = min(length, start + max(room, 1))
            if (start, stop) == (0, length):
                out.write_batch(batch)
            else:
                out.write_batch({n: rows_between(c, start, stop) for n, c in batch.items()})
            self.written += stop - start
            start = stop
