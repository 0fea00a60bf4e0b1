"""Records: TFRecord files opened as an ordered set of rows, columns or bytes.

    with ferry.open("train-*.tfrecord") as records:
        for batch in records.batches(1024):     # a dict of columns
            ...

Files are walked frame by frame (`tensorferry.formats.tfrecord.files`); the records of a batch,
which may lie in several files, are decoded together (`tensorferry.formats.tfrecord.example`),
several batches at once in threads. Nothing larger than the batches under way is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from tensorferry.classes import replace
from tensorferry.errors import (
    FormatError,
    Problem,
    UnsupportedError,
)
from tensorferry.formats.contract import Facts, RowOptions
from tensorferry.formats.table import TABLE
from tensorferry.formats.tfrecord import (
    columns as columns_of,
    decoding,
    example,
    frames as tfrecord,
    problems as finding,
    splits as dividing,
)
from tensorferry.formats.tfrecord.access import Access
from tensorferry.formats.tfrecord.columns import RECORD
from tensorferry.formats.tfrecord.contents import Contents
from tensorferry.formats.tfrecord.files import RecordFiles, places_of
from tensorferry.formats.tfrecord.frames import OnError, Segment, Trail, within
from tensorferry.formats.tfrecord.gathering import Gathering
from tensorferry.formats.tfrecord.options import RecordOptions
from tensorferry.formats.tfrecord.picking import RowPicker
from tensorferry.formats.tfrecord.survey import Survey
from tensorferry.progress import Progress, following
from tensorferry.rows.rows import (
    ROWS,
    Batch,
    Damages,
    Gathered,
    Indices,
    Rows,
    To,
    check_rows,
    hand,
)
from tensorferry.rows.schema import Schema
from tensorferry.rows.splits import Part, Split, deal
from tensorferry.storage import sets
from tensorferry.tensors.infos import TensorInfo
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

# Asking for it takes as long as opening a file.
THREADS = os.cpu_count() or 1
# Files of fewer bytes are counted to be shown.
COUNTED = 16 << 20
# The number of records that are verified at a time.
VERIFY = 1 << 14
# The number of records that are counted between two tellings of it.
WALKED = 1 << 18


class Records(Rows):
    """The rows of TFRecord files, as `tensorferry.open` returns them.

    Iterating yields rows (dicts), and `batches(n)` yields dicts of columns. `records[7]`,
    `records[2:5]` and `records[[3, 1, 4]]` work on uncompressed local files. Records can be
    pickled; workers open the files again. Pipes can be read once.

    Args:
        path: A file, a glob, "name@10" for a set of shards, a list of those, "-" for the standard
            input, a binary file object, bytes, or places.
        columns: The features to read; the others are not decoded.
        schema: The schema of the records: see `tensorferry.rows.schema.as_schema`. By default it
            comes from a file beside the data, or else is inferred.
        infer: Infer the schema from the "first" records or from "all"; for a stream always from the
            first.
        on_error: "raise" on damage, "skip" it, or "keep" records with a wrong data checksum.
            `damages` lists what was skipped or kept.
        verify: Verify the checksums of the data; those of the lengths are always verified.
        raw: Return the bytes of each record, for files whose records are not Examples.
        threads: Number of decoding threads; by default one per processor.

    Attributes:
        damages: The damage that was skipped or kept so far, if `on_error` is not "raise".
    """

    _how: RecordOptions

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
        how = RecordOptions(
            columns=columns,
            schema=schema,
            infer=infer,
            on_error=on_error,
            verify=verify,
            raw=raw,
            threads=threads,
        )
        places = places_of(path)
        sets.settle(places)
        self._begin([Part(place) for place in places], how, TABLE[tfrecord.NAME])

    @classmethod
    def of_parts(cls, parts: Sequence[Part], how: RowOptions, *, facts: Facts) -> Records:
        """The records of some parts of files, in their order."""
        assert isinstance(how, RecordOptions)
        records = cls.__new__(cls)
        records._begin(parts, how, facts)
        return records

    def _begin(self, parts: Sequence[Part], how: RecordOptions, facts: Facts) -> None:
        columns = [how.columns] if isinstance(how.columns, str) else how.columns
        how = replace(how, columns=None if columns is None else list(columns))
        super().__init__([part.place for part in parts], how, facts=facts)
        self.raw = how.raw and not how.fallback
        self._files = RecordFiles(parts)
        self._threads = how.threads or THREADS
        self._contents = Contents(self._files, how, self.damages, self.notes)
        self._access = Access(self._files, how, self.damages)
        self._picker: RowPicker | None = None
        counts = [part.rows for part in parts]
        self._length = None if None in counts else sum(filter(None, counts))
        self._checked: int | None = None
        self._window: tuple[int, int] | None = None

    def close(self) -> None:
        """Closes the files; values that were returned stay valid."""
        self._files.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.is_stream:
            raise TypeError("records of a stream cannot be pickled: there is one reader")
        return self.__dict__

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [place.path for place in self.places]

    @property
    def is_stream(self) -> bool:
        """Whether the records can be read only once, in order."""
        return self._files.is_stream

    # What the records hold

    @property
    def is_raw(self) -> bool:
        """Whether the records are given as bytes: as asked for, or because they are no Examples.

        The latter is looked at with the option `fallback` only.
        """
        return self._contents.is_raw

    @property
    def schema(self) -> Schema:
        """What the columns are: given, found beside the data, or inferred."""
        if self.is_raw:
            return columns_of.RAW
        columns = self._how.columns
        return self._features if columns is None else self._features.select(columns)

    @property
    def _features(self) -> Schema:
        """All features of the records, whichever columns are wanted."""
        return self._contents.schema

    # What all records hold, found in parts

    def survey(self, on_error: OnError | None = None) -> Survey:
        """What all records hold: surveys of parts, in their order, add up to that of the whole.

        Args:
            on_error: By default what the records were opened with.

        Raises:
            FormatError: A record is no Example, or damaged.
        """
        return self._contents.survey(on_error)

    @property
    def is_surveyed(self) -> bool:
        """Whether nobody has to look at all records to know their columns."""
        return self._contents.is_surveyed

    def settle(self, found: Survey | FormatError) -> None:
        """Takes what a survey in parts has found, or the first error in it.

        Raises:
            FormatError: The error, unless the records are then given as bytes.
        """
        self._contents.settle(found)

    def as_bytes(self) -> Records:
        """The same records, given as their bytes, whatever they hold; the files stay open."""
        records = self._again(replace(self._how, raw=True, columns=None))
        records._contents = Contents(self._files, records._how, self.damages, self.notes)
        return records

    def _again(self, how: RecordOptions) -> Records:
        """The same records, read in another way; the files stay open."""
        records = type(self).__new__(type(self))
        records.__dict__.update(self.__dict__)
        records._how, records._picker = how, None
        return records

    @property
    def columns(self) -> list[str]:
        """The names of the columns; records of bytes have one, "record"."""
        if self.is_raw:
            return [RECORD]
        return list(self._features if self._how.columns is None else self._how.columns)

    def infos(self) -> Mapping[str, TensorInfo]:
        """What is known of each column; the first dimension, that of the rows, is open."""
        return columns_of.infos(self.schema)

    @property
    def optional(self) -> frozenset[str]:
        """The features that records may lack, and that hold one value or tensor otherwise."""
        return columns_of.optional(self.schema)

    def select(self, columns: Sequence[str]) -> Records:
        """Returns the same records with some of their columns, over the same open files."""
        names = [columns] if isinstance(columns, str) else list(columns)
        self.check_names(names)
        return self._again(replace(self._how, columns=names))

    # Batches and rows

    def _segments(self, limit: Callable[[], int]) -> Iterator[Segment]:
        segments = self._files.segments(
            limit, verify=self._how.verify, on_error=self._how.on_error, damages=self.damages
        )
        return segments if self._window is None else within(segments, *self._window)

    def batches(
        self,
        rows: int = ROWS,
        *,
        columns: Sequence[str] | None = None,
        to: To = "numpy",
        drop_remainder: bool = False,
    ) -> Iterator[Any]:
        """Yields batches of `rows` rows, across file boundaries; the last batch may be shorter.

        Args:
            rows: Number of rows; a record that is skipped because it does not fit the schema leaves
                its batch shorter.
            columns: The columns to read; by default those the records were opened with.
            to: The framework of the columns; "arrow" returns a `pyarrow.RecordBatch`.
            drop_remainder: Leave out a shorter last batch.
        """
        rows = check_rows(rows)
        records = self if columns is None else self.select(columns)
        tasks = decoding.batch_tasks(self._segments, rows)
        yield from records._decoded(tasks, to, least=rows if drop_remainder else 0)

    def __iter__(self) -> Iterator[Any]:
        if self.is_raw:
            records = self.bytes_of_records()
            return ({RECORD: record} for record in records) if self._how.fallback else records
        if not self.columns:
            segments = chain.from_iterable(decoding.row_tasks(self._segments))
            return ({} for segment in segments for _ in range(segment.count))
        first = decoding.GROWTH**2 if self._files.is_small else 1
        tasks = decoding.row_tasks(self._segments, len(self.columns), first=first)
        batches = self._decoded(tasks, "numpy")
        return chain.from_iterable(example.rows_of(batch, self._features) for batch in batches)

    def bytes_of_records(self) -> Iterator[bytes]:
        """The bytes of each record, whatever it holds; of a stream all that were not read yet."""
        return chain.from_iterable(decoding.bytes_of(decoding.row_tasks(self._segments)))

    def value(self, *, to: To = "numpy") -> Batch:
        """Reads all columns."""
        batch: Batch | None
        if self.is_raw:
            batch = columns_of.of_bytes(list(self.bytes_of_records()), to)
        else:
            batch = next(self.batches(tfrecord.MANY, to=to), None)
        if batch is None:
            decoder = decoding.make_decoder(self._features, self._how.columns, to)
            batch = hand(decoder.decode([]), to)
        return batch

    @property
    def arrow_schema(self) -> pa.Schema:
        """The `pyarrow.Schema` of the columns: of the frame, if one was written.

        Otherwise it is that of `Schema.to_arrow`.
        """
        if self._contents.has_frame:
            from tensorferry.formats.tfrecord.arrow import typed_columns

            typed = typed_columns(self._features, self._how.columns)
            assert typed is not None
            return typed.schema
        arrow = self.schema.to_arrow()
        return arrow if self.is_raw else columns_of.arranged(arrow, self.columns)

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, in the types that the schema has in Arrow."""
        if self.is_raw and not self._how.fallback:
            return (columns_of.of_bytes(one, "arrow") for one in self.batches())
        if self._contents.has_frame:
            return self._frame_batches()
        return self.batches(to="arrow")

    def _frame_batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches of a frame; of one without rows the one that has its categories."""
        batches = self.batches(to="arrow")
        yield next(batches, None) or self.value(to="arrow")
        yield from batches

    def _decoded(
        self,
        tasks: Iterator[list[Segment]],
        to: To,
        *,
        in_order: bool = True,
        least: int = 0,
    ) -> Iterator[Any]:
        """The batches of tasks, in their order; an error comes behind the batches before it."""
        how = self._how
        if self.is_raw:
            records = (batch for batch in decoding.bytes_of(tasks) if len(batch) >= least)
            return (columns_of.of_bytes(one, to) for one in records) if how.fallback else records
        damages = None if how.on_error == "raise" else self.damages
        schema, threads = self._features, self._threads
        return decoding.decoded(
            tasks,
            schema,
            how.columns,
            to=to,
            threads=threads,
            damages=damages,
            in_order=in_order,
            least=least,
        )

    # Checking

    def verify(self, *, progress: Progress | bool | None = None) -> int:
        """Checks every checksum of every file, and gives the number of records.

        Args:
            progress: True shows a bar; a function receives the number of records checked.

        Raises:
            FormatError: A file is damaged.
        """
        if self._how.on_error != "raise" and self._how.verify:
            return self.walk(progress)  # which checks them, to pass over those that are wrong
        with following(progress, self.place.shown, "records") as tell:
            return finding.check(self._segments(lambda: VERIFY), self._threads, tell)

    def walk(self, progress: Progress | bool | None = None) -> int:
        """Goes from frame to frame without decoding, and gives the number of records.

        Args:
            progress: True shows a bar; a function receives the number of records passed.
        """
        with following(progress, self.place.shown, "records") as tell:
            limit = tfrecord.MANY if tell is None else WALKED
            count = 0
            for segment in Trail().follow(self._segments(lambda: limit)):
                count += segment.count
                if tell is not None:
                    tell(count, None)
            return count

    def problems(self, progress: Progress | bool | None = None) -> Iterator[Problem]:
        """Reads everything, and tells what is damaged; `count()` is known from then on.

        Told are damaged frames, indexes beside the files that do not fit them, and records that are
        no Examples among others that are. With `verify=False` only the frames are looked at.
        """
        sound = True
        for problem in chain(self.damaged(progress), self.misfitting_indexes()):
            sound = False
            yield problem
        if sound and not self.is_stream and self._how.verify and not self.is_raw:
            try:
                self._contents.find("all", "raise")
            except FormatError as error:
                yield Problem.of(error, self.place.path)

    def damaged(self, progress: Progress | bool | None = None) -> Iterator[Problem]:
        """Walks over all frames, and tells which are damaged; `count()` is known from then on."""
        with following(progress, self.place.shown, "records") as tell:
            yield from self._damaged(tell)

    def _damaged(self, progress: Progress | None) -> Iterator[Problem]:
        damages = Damages()
        segments = self._files.segments(
            lambda: VERIFY, verify=self._how.verify, on_error="skip", damages=damages
        )
        self._checked = 0
        for whole, problem in finding.in_frames(segments, damages):
            self._checked += whole
            if progress is not None:
                progress(self._checked, None)
            if problem is not None:
                yield problem

    def misfitting_indexes(self) -> Iterator[Problem]:
        """Tells of indexes beside the files that do not fit them."""
        return iter(()) if self.is_stream else finding.in_indexes(self._files)

    # Parts of it

    def splits(self, count: int) -> list[Split]:
        """Divides the records into up to `count` parts that can be read independently.

        Records are divided by file, and between records inside uncompressed local files.

        Raises:
            UnsupportedError: A stream cannot be divided.
        """
        if self.is_stream:
            raise UnsupportedError(
                "a stream cannot be divided: it has one reader",
                path=self.place.path,
                hint="copy the stream into a file",
            )
        how = replace(self._how, raw=self.is_raw)
        if not self.is_raw:
            how = replace(how, schema=self._features)
        parts = dividing.divide(self._files.parts, count, counted=how.on_error == "raise")
        return [
            Split(number, dividing.alone(group), type(self), how, self.facts)
            for number, group in enumerate(deal(parts, count))
        ]

    # Random access

    def __len__(self) -> int:
        if self.is_stream:
            raise TypeError("a stream has no length that is known before its end")
        if self._length is None and self._access.is_quick:
            # Compressed, only reading can tell.
            with suppress(UnsupportedError):
                self._length = sum(map(len, self._access.indexes()))
        if self._length is None:
            self._length = self.walk()
        return self._length

    def count(self, progress: Progress | bool | None = None) -> int | None:
        """Number of records; None for streams and remote files, until `problems` has read them.

        Args:
            progress: True shows a bar; a function receives the number of records counted.
        """
        if self._checked is not None:
            return self._checked
        if self.is_stream or any(place.is_url for place in self.places):
            return self._length
        if self._length is None and progress is not None and not self._access.is_quick:
            self._length = self.walk(progress)
        return len(self)

    def known_count(self) -> int | None:
        """Number of records, if it was counted before, or if the files are small."""
        if self._checked is not None or self._length is not None:
            return self.count()
        if self.is_stream or any(place.is_url for place in self.places):
            return None
        size = sum(place.size() or 0 for place in self.places)
        return self.count() if size < COUNTED else None

    def __getitem__(self, where: Any) -> Any:
        """A row by its number, a list of rows for a slice or a list, a whole column by its name."""
        if where.__class__ is int and self._picker is not None:
            found = self._access.find(where)
            if found is not None:
                row = self._picker.row(*found, verify=self._access.verify)
                if row is not None:
                    return row
        return super().__getitem__(where)

    def __getitems__(self, where: Indices) -> list[Any]:
        """Several records, in the order asked for."""
        if self._picker is None and not self.is_raw and self.columns:
            self._picker = RowPicker(self._features, self._how.columns)
        if self._picker is not None:
            found = self._access.find_all(where)
            rows = None if found is None else self._picker.rows(*found, verify=self._access.verify)
            if rows is not None:
                return rows
        segments = self._access.segments(where)
        if self.is_raw:
            records = [record for segment in segments for record in segment.records()]
            return [{RECORD: record} for record in records] if self._how.fallback else records
        if not self.columns:
            return [{} for segment in segments for _ in range(segment.count)]
        decoder = example.BatchDecoder(self._features, self._how.columns)
        return list(example.rows_of(decoder.decode(segments), self._features)) if segments else []

    @property
    def is_seekable(self) -> bool:
        """Whether the files are local and uncompressed; looking for the records walks over them."""
        try:
            self._access.indexes()
        except UnsupportedError:
            return False
        return True

    def between(self, start: int, stop: int) -> Records:
        """Some records that follow each other; the files stay open."""
        how = replace(self._how, schema=None if self.is_raw else self._features, raw=self.is_raw)
        parts = self._access.parts_between(start, stop)
        return type(self).of_parts(parts, how, facts=self.facts)

    def portion(self, start: int, stop: int) -> Records:
        """Some records that follow each other: those before them are passed over, undecoded."""
        records = self._again(self._how)
        records._window, records._length = (start, stop), stop - start
        return records

    def gathered(self, wanted: Iterable[Array], *, to: To = "numpy") -> Iterator[Any]:
        """A batch for each list of record numbers, decoded in several threads."""
        if to != "arrow":
            return super().gathered(wanted, to=to)
        tasks = (self._access.segments(numbers) for numbers in wanted)
        return self._decoded(tasks, to, in_order=False)

    @property
    def reads_ahead(self) -> bool:
        """Whether the files are few enough to be open at the same time."""
        return not self.is_raw and bool(self.columns) and self._access.is_held

    def gathered_together(self, wanted: Iterable[Array], *, ahead: int = 0) -> Iterator[Gathered]:
        """Batches of records by their numbers, decoded in several threads."""
        how = self._how
        if self.reads_ahead:
            damages = None if how.on_error == "raise" else self.damages
            team = Gathering(
                self._access,
                lambda: example.BatchDecoder(self._features, how.columns),
                self._threads,
                damages,
                ahead,
            )
            return team.groups(wanted)
        tasks = (self._access.segments(numbers) for numbers in wanted)
        batches = self._decoded(tasks, "numpy", in_order=False)
        return ((batch, [columns_of.length_of(batch)]) for batch in batches)

    def write_index(self, *, progress: Progress | bool | None = None) -> list[str]:
        """Writes an index beside each file, as text, and gives their names.

        Each line is the offset and the length of a record's frame, which DALI and other readers
        take. An index that fits its file is used instead of a scan.

        Args:
            progress: True shows a bar; a function receives the number of files done and the total.
        """
        with following(progress, self.place.shown, "files") as tell:
            return self._access.write_indexes(tell)
