"""Transfer: the values of something opened into files of another format, changed on the way.

Which files, and whether they may be written, is `tensorferry.operations.convert`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass, field
from tensorferry.codecs import compression as codecs
from tensorferry.dtypes import DType
from tensorferry.errors import UnsupportedError
from tensorferry.files.save import Saved, save
from tensorferry.files.writer import open_writer
from tensorferry.formats.contract import Facts, RowWriter
from tensorferry.operations import hash as digests
from tensorferry.operations.convert import casting, tables
from tensorferry.operations.names import Renaming, is_match
from tensorferry.operations.subject import Subject, rows_in
from tensorferry.progress import Progress
from tensorferry.rows.columns import batches_of, length_of, rows_between
from tensorferry.rows.rows import ROWS, Rows
from tensorferry.storage import Replacement
from tensorferry.storage.place import Target
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.content import Content
from tensorferry.tensors.infos import ROOT
from tensorferry.tensors.note import Note

if TYPE_CHECKING:
    import pyarrow as pa

# The rows that are read at a time take about this number of bytes, and are at most this many.
TOGETHER = 4 << 20
MOST_ROWS = 1 << 14


@dataclass(frozen=True)
class Changes:
    """How tensors are changed on the way.

    Attributes:
        select: Patterns of names; others are left out.
        drop: Patterns of names that are left out.
        rename: New names.
        dtype: The new dtype of floats, or of integers.
        casts: Patterns of names and the dtypes of those; the first pattern that fits counts.
        added: Tensors by their new names: they replace those of these names, or come behind all.
        metadata: Metadata to add to that of the source; None removes an entry.
    """

    select: tuple[str, ...] = ()
    rename: Renaming = field(default_factory=Renaming)
    dtype: DType | None = None
    drop: tuple[str, ...] = ()
    casts: tuple[tuple[str, DType], ...] = ()
    added: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def names(self, subject: Subject, *, as_tensors: bool = True) -> dict[str, str]:
        """New names of the tensors wanted, by their old ones.

        Args:
            subject: What was opened.
            as_tensors: Whether all of them must be readable as tensors.

        Raises:
            UnsupportedError: A pattern fits no name, or a tensor that is wanted cannot be read.
        """
        matching = subject.matching(self.select)
        subject.matching(self.drop)
        subject.renaming(dict(self.rename.rules))
        wanted = [name for name in matching if not (self.drop and is_match(name, self.drop))]
        if not wanted and matching and not self.added:
            raise UnsupportedError("nothing would be left of it", path=subject.name)
        if as_tensors:
            subject.check_readable(name for name in wanted if self.rename(name) not in self.added)
        return self.rename.apply(wanted)

    def cast(self, tensor: Any, name: str) -> Any:
        """A tensor in its new dtype."""
        dtype = next((dtype for pattern, dtype in self.casts if is_match(name, [pattern])), None)
        dtype = dtype or self.dtype
        return tensor if dtype is None else casting.cast(tensor, dtype, name=name)

    @property
    def are_in_place(self) -> bool:
        """Whether every tensor stays where it is, under its name."""
        return not self.select and not self.rename and not self.drop

    def __bool__(self) -> bool:
        """Whether values change; records are copied as they are if they do not."""
        return bool(
            self.select or self.rename or self.dtype or self.drop or self.casts or self.added
        )


def metadata_kept(subject: Subject, target: Facts, *, in_arrow: bool) -> dict[str, Any]:
    """What the user kept with something, and a file of its rows or tensors keeps, too.

    Args:
        subject: What was opened.
        target: The format of the file.
        in_arrow: Whether columns go over in Arrow's types: they say their types themselves.
    """
    if target.metadata == "nowhere":
        return {}
    return {
        name: value
        for name, value in subject.metadata.items()
        if name != digests.KEY
        and not (in_arrow and (name.startswith("tensorferry.type.") or name == "pandas"))
    }


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How the target is written.

    Attributes:
        compression: As in `tensorferry.save` and `tensorferry.writer`.
        quantize: As in `tensorferry.save`.
        shard_size: For safetensors: the approximate size of a file.
        digest: Keep the digest of the content in the metadata.
        durable: Wait until the disk has the bytes.
        storage_options: For the store of a URL.
        options: Options of the target's format.
    """

    compression: str | None = None
    quantize: Any = None
    shard_size: int | str | None = None
    digest: bool = False
    durable: bool = True
    storage_options: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


Result = tuple[int | None, Saved | None]
"""The number of tensors or rows that went over, and what `save` said of a file of tensors."""


@dataclass(frozen=True)
class Plan:
    """What is written, and where; it can be pickled, for workers.

    Attributes:
        names: New names of the tensors wanted, by their old ones; none if records are copied.
        changes: How tensors are changed on the way.
        target: The format.
        path: As the user named the target.
        files: The files of rows that are written.
        how: How the target is written.
        in_arrow: Whether columns go over in Arrow's types.
    """

    names: Mapping[str, str]
    changes: Changes
    target: Facts
    path: str
    files: tuple[str, ...]
    how: Writing
    in_arrow: bool

    @property
    def new_names(self) -> set[str]:
        """The names of all tensors of the target."""
        return {*self.names.values(), *self.changes.added}


@dataclass
class Transfer:
    """One conversion: from what was opened into files.

    Attributes:
        subject: What was opened.
        plan: What is written.
        progress: See `Progress`.
    """

    subject: Subject
    plan: Plan
    progress: Progress | None = None
    _done: int = 0
    _total: int = 0
    _metadata: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Result:
        """Writes the target."""
        kept = metadata_kept(self.subject, self.plan.target, in_arrow=self.plan.in_arrow)
        changed = {**kept, **self.plan.changes.metadata}
        self._metadata = {name: value for name, value in changed.items() if value is not None}
        if self.plan.how.digest:
            self._metadata[digests.KEY] = self._digest()
        count, saved = self._write()
        if self.subject.holds == "tensors":
            return len(self.plan.new_names), saved
        return count, saved

    def _write(self) -> Result:
        only_rows = self.plan.target.takes == "rows"
        if self.plan.changes.added and (only_rows or self.subject.holds != "tensors"):
            raise UnsupportedError(
                "a tensor is set among tensors, not among rows", path=self.subject.name
            )
        if only_rows and self.plan.how.quantize is not None:
            raise UnsupportedError("rows are not quantized", hint="dtype= makes them smaller")
        is_whole = (
            codecs.split_suffix(self.plan.path)[1] is not None or self.plan.how.quantize is not None
        )
        in_rows = self.plan.target.streams_rows and self.subject.holds != "tensors" and not is_whole
        if only_rows or in_rows:
            return self._write_rows(), None
        return self.subject.count(), self._save()

    def _digest(self) -> str:
        """The digest of what will be written: the values are read once more for it."""
        nowhere = self.plan.target.metadata == "nowhere"
        if self.plan.how.quantize is not None or nowhere or self.subject.is_stream:
            reason = "a stream" if self.subject.is_stream else self.plan.target.name
            reason = "quantized" if self.plan.how.quantize is not None else reason
            raise UnsupportedError(f"the digest of {reason} is not kept with it")
        if self.plan.changes.added:
            raise UnsupportedError("the digest of what is set is not kept with it")
        hashers = {name: digests.TensorHasher() for name in self.plan.names}
        for batch in self.subject.batches(list(self.plan.names)):
            for name, column in batch.items():
                hashers[name].add(self.plan.changes.cast(column, name))
        single = self.plan.target.takes == "one array"
        return digests.combine(
            {
                ROOT if single else self.plan.names[old]: one.hexdigest()
                for old, one in hashers.items()
            }
        )

    # Into a file of tensors

    def _save(self) -> Saved:
        how = self.plan.how
        options: dict[str, Any] = {**how.options, **self._keras_places()}
        return save(
            self._value(),
            self.plan.path,
            format=self.plan.target.name,
            metadata=self._metadata or None,
            compression=how.compression,
            quantize=how.quantize,
            shard_size=how.shard_size,
            durable=how.durable,
            storage_options=how.storage_options,
            **options,
        )

    def _keras_places(self) -> dict[str, Any]:
        """Where variables that come from a file of Keras are in the next one: where they were."""
        opened = self.subject.opened
        if self.plan.target.takes != "arrays" or not isinstance(opened, Bundle):
            return {}
        from tensorferry.formats.keras.weights import Weights

        weights = opened.details
        if not isinstance(weights, Weights) or weights.layout != "keras3":
            return {}
        places = {new: weights.paths[old] for old, new in self.plan.names.items() if old == new}
        return {"paths": places, "layers": weights.layers}

    def _value(self) -> Any:
        """What `save` takes: a tensor, content with its layout, or names and tensors."""
        if self.plan.target.takes == "one array":
            count = len(self.plan.new_names)
            if count != 1:
                raise UnsupportedError(
                    f"{self.plan.target.name} holds one tensor, and there are {count}",
                    path=self.subject.name,
                    hint="choose one with --select, or convert to npz or safetensors",
                )
            ((_, tensor),) = self._tensors()
            return tensor
        opened = self.subject.opened
        known = set(self.plan.changes.added) <= set(self.plan.names)
        if isinstance(opened, Bundle) and self.plan.changes.are_in_place and known:
            note = Note(layout=opened.layout, origins=dict(opened.origins))
            return Content(self._tensors(), note=note)
        return self._tensors()

    def _tensors(self) -> Iterator[tuple[str, Any]]:
        """New names and changed tensors, one by one."""
        added = dict(self.plan.changes.added)
        stored = [old for old, new in self.plan.names.items() if new not in added]
        tensors = self.subject.tensors(stored)
        for old, new in self.plan.names.items():
            tensor = added.pop(new) if new in added else next(tensors)[1]
            yield (
                new,
                self.plan.changes.cast(tensor, new if new in self.plan.changes.added else old),
            )
            self._tell_tensor(old)
        yield from added.items()

    def _tell_tensor(self, name: str) -> None:
        if self.progress is not None:
            infos = self.subject.infos
            self._total = self._total or sum(infos[old].nbytes or 1 for old in self.plan.names)
            self._done += infos[name].nbytes or 1
            self.progress(self._done, self._total)

    # Into rows

    def _write_rows(self) -> int:
        count = self._count_rows() if len(self.plan.files) > 1 else None
        with ExitStack() as stack:
            files = None
            if len(self.plan.files) > 1:
                how = self.plan.how
                files = stack.enter_context(
                    Replacement(
                        durable=how.durable, options=how.storage_options, together=self.plan.files
                    )
                )
            outs = [stack.enter_context(self._open_writer(name, files)) for name in self.plan.files]
            targets = _Shards(outs, count)
            opened = self.subject.opened
            if self.plan.target.records and self.subject.facts.records and not self.plan.changes:
                self._copy_records(targets)
            elif self.plan.in_arrow:
                total = self.subject.count()
                for batch in tables.batches(self.subject, self.plan.names):
                    targets.write_arrow(batch)
                    self._tell_rows(batch.num_rows, total)
            elif self.subject.optional and self.plan.target.records:
                for row in self._rows():
                    targets.write({name: value for name, value in row.items() if value is not None})
            elif (
                self.subject.optional
                and self.plan.changes.dtype is None
                and isinstance(opened, Rows)
            ):
                for batch in self._arrow_batches(opened):
                    targets.write_arrow(batch)
            else:
                for columns in self._batches():
                    targets.write_batch(columns)
            if not self.plan.target.records and not self.plan.in_arrow and isinstance(opened, Rows):
                # A table without rows has columns all the same.
                for out in outs:
                    if not out.count:
                        out.write_batch(self._empty(opened))
            return targets.written

    def _empty(self, rows: Rows) -> dict[str, Any]:
        """The columns, changed, without any rows."""
        return self._changed(rows.portion(0, 0).select(list(self.plan.names)).value())

    def _open_writer(self, path: str, within: Replacement | None) -> RowWriter:
        how = self.plan.how
        given = dict(how.options)
        if how.compression == "none" and self.plan.target.compressions:
            given["compression"] = None
        elif how.compression is not None:
            given["compression"] = how.compression
        target = Target(path, options=how.storage_options, durable=how.durable, within=within)
        return open_writer(
            self.plan.target.name, target, given, shards=None, metadata=self._metadata
        )

    def _changed(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {
            new: self.plan.changes.cast(batch[old], old) for old, new in self.plan.names.items()
        }

    def _batches(self) -> Iterator[dict[str, Any]]:
        """Batches of columns, changed."""
        names = list(self.plan.names)
        total: int | None
        if self.subject.holds == "tensors":
            total = rows_in(self.subject, names)
            batches = batches_of(dict(self.subject.tensors(names)), ROWS)
        else:
            total = self.subject.count()
            batches = self.subject.batches(names, rows=self._rows_together(total))
        for batch in batches:
            changed = self._changed(batch)
            yield changed
            self._tell_rows(length_of(next(iter(changed.values()))) if changed else 0, total)

    def _rows_together(self, total: int | None) -> int:
        """How many rows are read at a time: many if they are small, few if they are large."""
        if not total or not self.subject.facts.records:
            return ROWS
        each = (self.subject.nbytes() or 0) / total
        return max(1, min(MOST_ROWS, round(TOGETHER / max(each, 1))))

    def _tell_rows(self, rows: int, total: int | None) -> None:
        self._done += rows
        if self.progress is not None:
            self.progress(self._done, total)

    def _arrow_batches(self, rows: Rows) -> Iterator[Any]:
        """The batches as Arrow has them, where a null is a null."""
        total = rows.count()
        for batch in rows.batches(ROWS, columns=list(self.plan.names), to="arrow"):
            yield batch.select(list(self.plan.names)).rename_columns(list(self.plan.names.values()))
            self._tell_rows(batch.num_rows, total)

    def _count_rows(self) -> int:
        if self.subject.holds == "tensors":
            return rows_in(self.subject, list(self.plan.names))
        count = self.subject.count()
        if count is None:
            raise UnsupportedError(
                "a stream or a remote file does not tell how many records each shard gets",
                path=self.subject.name,
                hint="copy it into a local file first",
            )
        return count

    def _copy_records(self, targets: _Shards) -> None:
        """Copies records as they are: nothing is decoded."""
        opened = self.subject.opened
        assert isinstance(opened, Rows)
        total = opened.count() if self.progress is not None else None
        for number, record in enumerate(opened.bytes_of_records()):
            targets.write(record)
            if number % ROWS == ROWS - 1:
                self._tell_rows(ROWS, total)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Rows, changed."""
        total = self.subject.count()
        for number, row in enumerate(self.subject.rows(list(self.plan.names))):
            yield self._changed(row)
            if number % ROWS == ROWS - 1:
                self._tell_rows(ROWS, total)


class _Shards:
    """Writers that each get rows that follow each other."""

    def __init__(self, writers: Sequence[RowWriter], count: int | None) -> None:
        self._writers = writers
        self._each = None if count is None else max(1, -(-count // len(writers)))
        self.written = 0

    def _room(self) -> tuple[RowWriter, int]:
        """The writer of the next row, and the number of rows that go there."""
        if self._each is None:
            return self._writers[0], 1 << 62
        place = min(self.written // self._each, len(self._writers) - 1)
        return self._writers[place], (place + 1) * self._each - self.written

    def write_arrow(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:  # which says what the columns are
            for out in self._writers:
                out.write_batch(batch)
        start = 0
        while start < batch.num_rows:
            out, room = self._room()
            part = batch.slice(start, max(room, 1))
            out.write_batch(part)
            self.written += part.num_rows
            start += part.num_rows

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
