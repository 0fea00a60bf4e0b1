"""Freight: rows on their way from files into files, as they are stored.

    with carried("train.tfrecord", ["some.tfrecord"], how) as (freight, outputs):
        for part in freight.parts():            # some rows that follow each other
            outputs.add(freight.taken(part, numbers))

Records that go into TFRecords are bytes, which nobody decodes. All other rows are Arrow's record
batches, which every table is read as and every writer takes: no type changes on the way. Only one
part of the rows is in memory.
"""

from __future__ import annotations

import errno
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from tensorferry import storage
from tensorferry.cards import Card, Shown
from tensorferry.classes import dataclass
from tensorferry.codecs.compression import split_suffix
from tensorferry.display import plural
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import format_named
from tensorferry.files.writer import open_writer
from tensorferry.formats import table
from tensorferry.formats.contract import Facts, RowWriter
from tensorferry.formats.tfrecord.columns import RECORD
from tensorferry.operations.convert import Reading, opening_of, tables
from tensorferry.operations.convert.transfer import Changes, metadata_kept
from tensorferry.operations.nulls import rows_of
from tensorferry.operations.shares import records_in
from tensorferry.operations.subject import Subject, open_one
from tensorferry.rows.rows import Rows
from tensorferry.storage import STANDARD_STREAM, Replacement, temporary
from tensorferry.storage.place import Target
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

# How many records are one part, and of how many bytes about.
MOST_ROWS = 1 << 12
TOGETHER = 4 << 20


@dataclass(frozen=True, repr=False)
class RowsReport(Shown):
    """The result of `sample`, `shuffle` or `split`.

    Attributes:
        source: The source as it was given.
        target: The file.
        count: Number of rows in it.
    """

    source: str
    target: str
    count: int

    def _card(self) -> Card:
        return Card("RowsReport", f"{self.source} → {self.target}", plural(self.count, "row"))


class Freight(ABC):
    """The rows of something that was opened, part by part.

    Attributes:
        subject: The opened file.
        rows: Its rows.
    """

    def __init__(self, subject: Subject, rows: Rows) -> None:
        self.subject = subject
        self.rows = rows

    @abstractmethod
    def parts(self) -> Iterator[Any]:
        """Yields the rows in consecutive parts; a table yields an empty part first."""

    @abstractmethod
    def length(self, part: Any) -> int:
        """Number of rows of a part."""

    @abstractmethod
    def nbytes(self, part: Any) -> int:
        """About how much memory a part takes."""

    @abstractmethod
    def taken(self, part: Any, numbers: Array) -> Any:
        """Some rows of a part, in the given order."""

    @abstractmethod
    def joined(self, parts: Sequence[Any]) -> Any:
        """Parts as one."""

    @abstractmethod
    def write(self, out: RowWriter, part: Any) -> None:
        """Writes a part."""

    @property
    def is_seekable(self) -> bool:
        """Whether `at` works: rows are found without those before them."""
        return False

    def at(self, numbers: Array) -> Any:
        """Rows by their numbers, in the given order."""
        raise NotImplementedError

    def count(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def with_columns(self, names: Sequence[str]) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
        """Parts, and some columns of their rows as values.

        Raises:
            UnsupportedError: There is no such column.
        """
        self.subject.check_names(names)
        self.subject.check_readable(names)
        rows: Iterator[dict[str, Any]] = rows_of(self.subject, names) if names else repeat({})
        for part in self.parts():
            yield part, list(islice(rows, self.length(part)))


class Bytes(Freight):
    """Records as their bytes; a part is a list of them."""

    def parts(self) -> Iterator[list[bytes]]:
        """The records, in lists."""
        records = self.rows.bytes_of_records()
        part: list[bytes] = []
        size = 0
        for record in records:
            part.append(record)
            size += len(record)
            if len(part) == MOST_ROWS or size >= TOGETHER:
                yield part
                part, size = [], 0
        if part:
            yield part

    def length(self, part: list[bytes]) -> int:
        """Number of records."""
        return len(part)

    def nbytes(self, part: list[bytes]) -> int:
        """The bytes, and what Python adds to each object."""
        return sum(map(len, part)) + 64 * len(part)

    def taken(self, part: list[bytes], numbers: Array) -> list[bytes]:
        """Some of the records."""
        return [part[number] for number in numbers.tolist()]

    def joined(self, parts: Sequence[list[bytes]]) -> list[bytes]:
        """One list."""
        return list(chain.from_iterable(parts))

    def write(self, out: RowWriter, part: list[bytes]) -> None:
        """Writes the records as they are."""
        for record in part:
            out.write(record)

    @property
    def is_seekable(self) -> bool:
        """Whether the files are local and uncompressed."""
        return self.rows.is_seekable

    def at(self, numbers: Array) -> list[bytes]:
        """Records by their numbers."""
        found = self.rows.take(numbers)
        return [row if isinstance(row, bytes) else row[RECORD] for row in found]


class Batches(Freight):
    """Rows as Arrow's record batches."""

    def parts(self) -> Iterator[pa.RecordBatch]:
        """The batches; the first is empty, and says what the columns are."""
        if tables.is_table(self.subject):
            names = Changes().names(self.subject, as_tensors=False)
            yield from tables.batches(self.subject, names)
            return
        yield from self.rows.arrow_schema.empty_table().to_batches()[:1] or [self._empty()]
        yield from self.rows.arrow_batches()

    def _empty(self) -> pa.RecordBatch:
        import pyarrow as pa

        schema = self.rows.arrow_schema
        arrays = [pa.array([], kind) for kind in schema.types]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def length(self, part: pa.RecordBatch) -> int:
        """Number of rows."""
        return int(part.num_rows)

    def nbytes(self, part: pa.RecordBatch) -> int:
        """The bytes of the columns; a slice of a batch counts as a slice."""
        return int(part.nbytes)

    def taken(self, part: pa.RecordBatch, numbers: Array) -> pa.RecordBatch:
        """Some of the rows."""
        if len(numbers) == part.num_rows and bool((np.diff(numbers) == 1).all()):
            return part
        return part.take(numbers)

    def joined(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """One batch."""
        import pyarrow as pa

        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def write(self, out: RowWriter, part: pa.RecordBatch) -> None:
        """Writes the batch in its types."""
        out.write_batch(part)


class Carried(TypedDict, total=False):
    """Keywords of everything that writes rows as they are stored: how they are read and written.

    Attributes:
        format: Format of the targets; by default that of their endings, or that of the source.
        compression: As in `tensorferry.writer`.
        force: Replace targets that exist.
        durable: Wait until the disk has the bytes; the default.
        options: How the source is opened: its format, and options of that format.
        storage_options: For the stores of URLs.
    """

    format: str | None
    compression: str | None
    force: bool
    durable: bool
    options: Reading | None
    storage_options: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Carrying:
    """The same, with their defaults."""

    format: str | None = None
    compression: str | None = None
    force: bool = False
    durable: bool = True
    options: Reading | None = None
    storage_options: Mapping[str, Any] | None = None


@contextmanager
def carried(
    source: Any, targets: Sequence[str], given: Carried, *, again: bool = True
) -> Iterator[tuple[Freight, Outputs]]:
    """Opens rows, and the files that they are written into.

    Args:
        source: Anything that `tensorferry.open` takes.
        targets: The files.
        given: The options.
        again: Whether the rows are read more than once: a stream is copied into a file for that.

    Raises:
        UnsupportedError: There are tensors in it, not rows, or a format is not written in rows.
        FileExistsError: A target exists, and `force` is not set.
    """
    how = Carrying(**keywords.given(given))
    for path in targets:
        check_free(path, force=how.force, storage_options=how.storage_options)
    with ExitStack() as stack:
        opening = opening_of(source, how.options, how.storage_options)
        subject = stack.enter_context(opening.open())
        kinds = [format_of(path, subject.format, how.format) for path in targets]
        freight = _freight(subject, kinds)
        if again and subject.is_stream:
            folder = stack.enter_context(scratch(targets[0]))
            subject = stack.enter_context(open_one(_copied(freight, folder), thorough=True))
            freight = _freight(subject, kinds)
        outputs = stack.enter_context(Outputs(freight, targets, kinds, how))
        yield freight, outputs


def check_free(path: str, *, force: bool, storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuses an existing target.

    Raises:
        FileExistsError: It is.
    """
    if not force and path != STANDARD_STREAM and storage.exists(path, options=storage_options):
        raise FileExistsError(
            errno.EEXIST, "it exists already; --force (force=True) replaces it", path
        )


def _freight(subject: Subject, targets: Sequence[Facts]) -> Freight:
    opened = subject.opened
    if not isinstance(opened, Rows):
        raise UnsupportedError(
            f"expected rows, found tensors ({subject.format})",
            path=subject.name,
            hint="`ferry convert` makes rows of tensors of one length",
        )
    records = records_in(opened)
    if records is not None and all(facts.records for facts in targets):
        return Bytes(subject, records.as_bytes())
    return Batches(subject, opened)


def _copied(freight: Freight, folder: str) -> str:
    """A file with the rows of a stream."""
    kind = _RECORDS if isinstance(freight, Bytes) else _ARROW
    path = os.path.join(folder, f"stream{kind.suffixes[0]}")
    with open_writer(kind.name, Target(path, durable=False), {}, shards=None, metadata={}) as out:
        for part in freight.parts():
            freight.write(out, part)
    return path


_RECORDS = next(facts for facts in table.TABLE.values() if facts.records)
_ARROW = table.facts_of("arrow")


def scratch(beside: str) -> AbstractContextManager[str]:
    """A folder for a while: beside a local target, where there is room for it, or the system's."""
    if beside == STANDARD_STREAM or "://" in beside:
        return tempfile.TemporaryDirectory(prefix="ferry-")
    return temporary.directory(os.path.abspath(beside))


def format_of(path: str, source: str | None, format: str | None = None) -> Facts:
    """The format in which rows are written: as the user says, the name says, or as they were.

    Raises:
        UnsupportedError: It is not written row by row.
    """
    name = format or format_named(path) or source or _RECORDS.name
    table.to_write(name)
    facts = table.facts_of(name)
    if not facts.streams_rows:
        raise UnsupportedError(
            f"{facts.name} is not written row by row",
            path=path,
            hint=f"name it as one of {', '.join(table.streamable())}",
        )
    return facts


class Outputs:
    """Files that rows are written into, and that appear together.

    Args:
        freight: The rows.
        paths: The files.
        kinds: The format of each.
        how: The options.
    """

    def __init__(
        self, freight: Freight, paths: Sequence[str], kinds: Sequence[Facts], how: Carrying
    ) -> None:
        self._freight = freight
        self._paths = paths
        self._stack = ExitStack()
        self._writers: list[RowWriter] = []
        try:
            within = None
            if len(paths) > 1:
                within = self._stack.enter_context(
                    Replacement(durable=how.durable, options=how.storage_options)
                )
            for path, facts in zip(paths, kinds, strict=True):
                out = self._open(path, facts, how, within)
                self._writers.append(self._stack.enter_context(out))
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    def _open(
        self, path: str, facts: Facts, how: Carrying, within: Replacement | None
    ) -> RowWriter:
        target = Target(path, options=how.storage_options, durable=how.durable, within=within)
        in_arrow = isinstance(self._freight, Batches)
        metadata = metadata_kept(self._freight.subject, facts, in_arrow=in_arrow)
        given = _compression(path, facts, how.compression)
        return open_writer(facts.name, target, given, shards=None, metadata=metadata)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stack.__exit__(kind, error, trace)

    def add(self, part: Any, place: int = 0) -> None:
        """Writes rows into one of the files."""
        self._freight.write(self._writers[place], part)

    def reports(self) -> list[RowsReport]:
        """The result."""
        return [
            RowsReport(self._freight.subject.name, path, out.count)
            for path, out in zip(self._paths, self._writers, strict=True)
        ]


def _compression(path: str, facts: Facts, given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    if given == "none" and split_suffix(path)[1] is None and not facts.compressions:
        return {}
    return {"compression": None if given == "none" else given}


def numbered(parts: Iterable[Any], freight: Freight) -> Iterator[tuple[int, Any]]:
    """Parts, each with the number of its first row."""
    start = 0
    for part in parts:
        yield start, part
        start += freight.length(part)
