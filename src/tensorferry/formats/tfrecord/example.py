"""Examples: the features of tf.train.Example and SequenceExample messages as columns.

    Example         { 1 features { entry { 1 key  2 feature } } }
    SequenceExample { 1 context  2 feature lists, each { 1 feature, one a step } }
    feature         { 1 bytes list | 2 float list | 3 int64 list }

A schema (`tensorferry.rows.schema`) says what column each feature becomes:

    shape ()               array [rows]
    shape (4, 8)           array [rows, 4, 8]
    shape (None,)          RaggedTensor [rows, any]
    shape (None, 3)        RaggedTensor [rows, any, 3]
    optional, no default   RaggedTensor of none or one value a row
    sequence               RaggedTensor with the steps as its first ragged dimension
    encoding "tensor"      the tensors, stacked where the schema knows their shape

Decoding runs in `tensorferry._native` without the GIL. Framing is
`tensorferry.formats.tfrecord.frames`, writing is `tensorferry.formats.tfrecord.encoder`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats import signatures, structure, tensorproto
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.tfrecord import tensors as example_tensors
from tensorferry.formats.tfrecord.frames import Damage, Segment, Status, Trail
from tensorferry.rows.schema import Feature, FeatureStatistics, Kind, Schema, infer
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

# The numbers are the fields of the message.
KIND_NUMBERS: dict[str, int] = {"bytes": 1, "float32": 2, "int64": 3}
KIND_NAMES: dict[int, Kind] = {1: "bytes", 2: "float32", 3: "int64"}

# Of the values; to look a dtype up by its name takes longer than to make an array.
NUMPY_DTYPES = {"bytes": np.dtype(object), "float32": np.dtype("f4"), "int64": np.dtype("i8")}

# Columns of so many numbers get the decoder's own memory; smaller ones are copied out of it, which
# takes less time.
LARGE = 1 << 12

# How many records are decoded together to see which strings are serialized tensors.
PROBED_ROWS = 1000

Shape = tuple[int | None, ...]

_HINT = (
    "pass a schema= that fits, infer='all' to look at all records first, or on_error='skip'; "
    "raw=True gives the records' bytes"
)


def survey(segments: Iterable[Segment], *, skip: bool = False) -> Schema:
    """The schema of the records in some segments.

    Args:
        segments: Of one file or several.
        skip: Pass over records that are no Examples.

    Raises:
        FormatError: A record is no Example, or its features cannot be columns.
    """
    statistics = _native.ExampleSurvey()
    tensors: dict[str, tuple[str, Shape] | None] = {}
    found: list[FeatureStatistics] = []
    for segment in segments:
        for run in _examples_of(segment) if skip else [segment]:
            before = statistics.rows
            try:
                _, end, status = statistics.add(run.buffer, run.start, run.count, run.verify)
            except FormatError as error:
                raise _not_an_example(error, run, statistics.rows - before - 1) from None
            if status != Status.RECORD:
                raise run.corrupt(statistics.rows - before, end)
            earlier = {one.name: one.kind for one in found}
            found = [_statistics(row, run.path) for row in statistics.features()]
            for one in found:
                if one.mixed:
                    raise _mixed(one, earlier.get(one.name), run)
            _probe(found, run, tensors)
    common = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return infer(found, statistics.rows, common)


def _examples_of(segment: Segment) -> Iterator[Segment]:
    """The parts of a segment whose records are Examples."""
    while segment.count:
        # One of its own: a survey keeps what it saw of a record before that turned out broken.
        trial = _native.ExampleSurvey()
        try:
            trial.add(segment.buffer, segment.start, segment.count, False)
        except FormatError:
            good, rest = segment.split(trial.rows - 1)
            if good.count:
                yield good
            _, segment = rest.split(1)
        else:
            yield segment
            return


def _mixed(feature: FeatureStatistics, kind: Kind | None, segment: Segment) -> FormatError:
    """The error for a feature that changes its kind in a segment, with the record that does so."""
    record, name = segment, feature.name
    while segment.count:
        record, segment = segment.split(1)
        alone = _native.ExampleSurvey()
        alone.add(record.buffer, record.start, 1, False)
        kinds = {KIND_NAMES.get(row[2]) for row in alone.features() if row[0] == name.encode()}
        if None not in (kind, *kinds) and kinds and kinds != {kind}:
            break
        kind = kind or next(iter(kinds), None)
    return FormatError(
        f"record {record.first}: feature {name!r} holds another kind of values than before, "
        f"expected {kind}",
        path=record.path,
        offset=record.base + record.start,
        hint="say what it holds in schema=; raw=True gives the records' bytes",
    )


def _not_an_example(error: FormatError, segment: Segment, done: int) -> FormatError:
    """The error of the parser, with the record it was about."""
    return FormatError(
        f"record {segment.first + done} is no Example: {error.message}",
        path=segment.path,
        offset=None if error.offset is None else segment.base + error.offset,
        hint="raw=True gives the records' bytes, for files that hold other messages",
    )


def _statistics(row: tuple[bytes, bool, int, bool, int, int, int, int], path: str) -> Any:
    name, sequence, kind, mixed, *counts = row
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise FormatError(
            f"a feature is called {name[:60]!r}, expected UTF-8",
            path=path,
            hint="a schema= of the others leaves it out; raw=True gives the records' bytes",
        ) from None
    return FeatureStatistics(text, sequence, KIND_NAMES.get(kind), mixed, *counts)


def _probe(
    found: list[FeatureStatistics],
    segment: Segment,
    tensors: dict[str, tuple[str, Shape] | None],
) -> None:
    """Looks which features hold one serialized tensor a row; None in `tensors` if one does not."""
    names = [
        one.name
        for one in found
        if one.kind == "bytes" and not one.sequence and one.longest == 1
        if tensors.get(one.name, ()) is not None
    ]
    while names and segment.count:
        step, segment = segment.split(min(PROBED_ROWS, segment.count))
        decoder = _native.ExampleDecoder([(name, 1, False, True, None) for name in names])
        decoder.decode(step.buffer, step.start, step.count, False)
        for column, (values, _, _) in enumerate(decoder.sizes()):
            texts = np.empty(values, object)
            decoder.copy_texts(column, texts)
            name = names[column]
            for text in texts.tolist():
                tensors[name] = _in_common(tensors.get(name), parse_tensor(text))
                if tensors[name] is None:
                    break
        names = [name for name in names if tensors.get(name, ()) is not None]


def _in_common(
    before: tuple[str, Shape] | None, tensor: Array | SparseTensor | RaggedTensor | None
) -> tuple[str, Shape] | None:
    """The dtype and shape that a tensor and those before it have in common; None if they differ."""
    if tensor is None or (isinstance(tensor, SparseTensor) and tensor.shape == ()):
        return None
    dtype = dtypes.from_numpy(tensor.dtype).name
    if isinstance(tensor, np.ndarray):
        shape: Shape = tensor.shape
    else:
        shape = (None,) * len(tensor.shape)
    if before is None:
        return dtype, shape
    if before[0] != dtype or len(before[1]) != len(shape):
        return None
    return dtype, tuple(a if a == b else None for a, b in zip(before[1], shape, strict=True))


def parse_tensor(text: bytes) -> Array | SparseTensor | RaggedTensor | None:
    """The tensor that a string is the serialized form of; None if it is some other string."""
    try:
        if text[:1] == tensorproto.START:
            tensor = tensorproto.read(text)
            # Strings of one's own rarely parse as a message; a message of nothing but a dtype does.
            return tensor if len(text) > 2 else None
        if signatures.structure(Glimpse("", text[:64])) == "perhaps":
            value = structure.read(text)
            return value if isinstance(value, SparseTensor | RaggedTensor) else None
    except FerryError:
        pass
    return None


class _MisfitsError(Exception):
    """Values that do not fit the schema: what is wrong, by row."""

    def __init__(self, problems: dict[int, str]) -> None:
        self.problems = problems


class BatchDecoder:
    """Turns segments into batches of columns; its memory is reused from batch to batch.

    Args:
        schema: Of the file.
        columns: The features wanted; all by default. The others are skipped without decoding.
    """

    def __init__(self, schema: Schema, columns: Sequence[str] | None = None) -> None:
        wanted = list(schema if columns is None else columns)
        self.schema = schema.select(wanted)
        self.names = wanted
        for feature in self.schema.values():
            if feature.sequence and feature.encoding == "tensor":
                raise UnsupportedError(
                    f"feature {feature.name!r} is a sequence of serialized tensors",
                    hint="make it one of strings in schema=, and use tensorferry.loads on each",
                )
        indexes = {name: index for index, name in enumerate(schema)}
        self._plan = [(schema[name], indexes[name]) for name in wanted]
        self._native = _native.ExampleDecoder(
            [
                (
                    feature.name,
                    KIND_NUMBERS[feature.kind],
                    feature.sequence,
                    feature.name in self.schema,
                    _list_length(feature),
                )
                for feature in schema.values()
            ]
        )

    def decode(
        self, segments: Sequence[Segment], *, damages: list[Damage] | None = None
    ) -> dict[str, Any]:
        """The columns of the records in some segments.

        Args:
            segments: One behind the other.
            damages: Takes a note of records that do not fit the schema, which are left out;
                without it they raise.

        Raises:
            FormatError: A record is no Example, or does not fit the schema.
        """
        while True:
            segments = self._fill(segments, damages)
            columns, problems = self._columns()
            if not problems:
                return columns
            segments = _without(segments, problems, damages)

    def _columns(self) -> tuple[dict[str, Any], dict[int, str]]:
        """The columns of what is decoded, and what is wrong with its rows, if anything is."""
        sizes, rows = self._native.sizes(), self._native.rows
        problems = self._misfits(sizes)
        columns = {}
        for feature, index in [] if problems else self._plan:
            try:
                columns[feature.name] = self._column(feature, index, rows, sizes)
            except _MisfitsError as misfits:
                problems |= misfits.problems
        return columns, problems

    def _finish(self, columns: dict[str, Any]) -> Any:
        """A batch of its columns."""
        return columns

    def _fill(self, segments: Sequence[Segment], damages: list[Damage] | None) -> Sequence[Segment]:
        """Decodes the records; gives the segments of those that are rows now."""
        native = self._native
        native.clear()
        filled = []
        for segment in segments:
            while segment.count:
                before = native.rows
                try:
                    count, end, status = native.decode(
                        segment.buffer, segment.start, segment.count, segment.verify
                    )
                except FormatError as error:
                    good, rest = segment.split(native.rows - before)
                    bad, segment = rest.split(1)
                    if damages is None:
                        raise _misfit(bad, error) from None
                    damages.append(_damage(bad, error.message))
                    filled.append(good)
                    continue
                if status != Status.RECORD:
                    raise segment.corrupt(count, end)
                filled.append(segment)
                break
        return filled

    def _misfits(self, sizes: list[tuple[int, int, int]]) -> dict[int, str]:
        """Rows without a feature that they must have, or with a list of no fitting length."""
        problems = {}
        for feature, index in self._plan:
            name = feature.name
            _, lists, missing = sizes[index]
            if missing and not feature.optional and not feature.sequence:
                for row in self._absent(index, missing).tolist():
                    problems[row] = f"no feature {name!r}, which the schema requires"
            if feature.encoding == "plain" and feature.shape[:1] == (None,) and feature.shape[1:]:
                size = math.prod(feature.shape[1:])  # type: ignore[arg-type]
                splits = np.empty(lists + 1, np.int64)
                self._native.copy_list_splits(index, splits)
                for place in np.flatnonzero(np.diff(splits) % size).tolist():
                    row = self._row_of_list(index, place) if feature.sequence else place
                    problems[row] = (
                        f"feature {name!r} has {splits[place + 1] - splits[place]} values, "
                        f"expected a multiple of {size} for shape {list(feature.shape)}"
                    )
        return problems

    def _row_of_list(self, index: int, place: int) -> int:
        splits = np.empty(self._native.rows + 1, np.int64)
        self._native.copy_row_splits(index, splits)
        return int(np.searchsorted(splits, place, side="right")) - 1

    def _absent(self, index: int, missing: int) -> Array:
        absent = np.empty(missing, np.int64)
        self._native.copy_missing(index, absent)
        return absent

    def _column(
        self, feature: Feature, index: int, rows: int, sizes: list[tuple[int, int, int]]
    ) -> Any:
        count, lists, missing = sizes[index]
        stacked = self._stacked(feature, index, count)
        values = self._values(feature, index, count) if stacked is None else stacked
        if feature.sequence:
            return self._sequence(feature, index, values, rows, lists)
        if feature.encoding == "plain" and feature.shape[:1] == (None,):
            splits = np.empty(lists + 1, np.int64)
            self._native.copy_list_splits(index, splits)
            return _ragged(values, splits, feature)
        if feature.encoding == "plain" and not feature.optional:
            return values.reshape(rows, *feature.shape)
        present = np.ones(rows, bool)
        present[self._absent(index, missing)] = False
        if stacked is not None:
            column: Any = stacked
        elif feature.encoding == "tensor":
            column = _tensors(feature, values, np.flatnonzero(present))
        else:
            column = values.reshape(rows - missing, *feature.shape)
        return _optional(feature, column, present) if feature.optional else column

    def _stacked(self, feature: Feature, index: int, count: int) -> Array | None:
        """Serialized tensors of the shape in the schema, taken apart together where possible."""
        if feature.encoding != "tensor" or None in feature.shape:
            return None
        data = np.empty(self._native.text_bytes(index), np.uint8)
        offsets = np.empty(count + 1, np.int64)
        self._native.join_texts(index, data, offsets)
        shape: Any = feature.shape
        return example_tensors.from_strings(data, offsets, feature.dtype, shape)

    def _values(self, feature: Feature, index: int, count: int) -> Array:
        if feature.kind != "bytes" and count >= LARGE:
            return self._native.take_values(index)  # type: ignore[no-any-return]
        values: Array = np.empty(count, NUMPY_DTYPES[feature.kind])
        if feature.kind == "bytes":
            self._native.copy_texts(index, values)
        else:
            self._native.copy_values(index, values)
        return values

    def _sequence(
        self, feature: Feature, index: int, values: Array, rows: int, lists: int
    ) -> RaggedTensor:
        row_splits = np.empty(rows + 1, np.int64)
        self._native.copy_row_splits(index, row_splits)
        if feature.shape[:1] == (None,):
            splits = np.empty(lists + 1, np.int64)
            self._native.copy_list_splits(index, splits)
            inner = _ragged(values, splits, feature)
            return RaggedTensor.trusted(inner.flat_values, (row_splits, *inner.nested_row_splits))
        return RaggedTensor.trusted(values.reshape(lists, *feature.shape), (row_splits,))


class DecodingTeam:
    """Decodes groups of batches ahead, in the caller's thread and in others.

    The others run natively from end to end: they decode while this thread, with the GIL, makes
    columns of what is done.

    Args:
        make: Gives one more decoder.
        threads: How many decode, the caller's among them.
        damages: As in `BatchDecoder.decode`.
    """

    def __init__(
        self, make: Callable[[], BatchDecoder], threads: int, damages: list[Damage] | None
    ) -> None:
        self._make = make
        self._damages = damages
        self._team = _native.ExampleTeam(threads - 1)
        self._trail = Trail()
        self._idle: list[BatchDecoder] = []
        self._running: deque[list[tuple[BatchDecoder, Sequence[Segment]]]] = deque()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, group: Sequence[Sequence[Segment]]) -> None:
        """Takes the segments of one batch or more, which are then decoded together."""
        batches = [(self._idle.pop() if self._idle else self._make(), task) for task in group]
        work = []
        for decoder, task in batches:
            decoder._native.clear()
            for part in task:
                work.append((decoder._native, part.buffer, part.start, part.count, part.verify))
        self._team.submit(work)
        self._running.append(batches)

    def finish(self) -> Iterator[Any]:
        """The batches of the group that was begun first.

        Raises:
            FormatError: As in `BatchDecoder.decode`.
        """
        whole = self._team.wait()
        for decoder, task in self._running.popleft():
            columns, problems = decoder._columns() if whole else ({}, {0: ""})
            if problems:
                yield decoder.decode(task, damages=self._damages)
            else:
                yield decoder._finish(columns)
            self._idle.append(decoder)
            for segment in task:
                self._trail.add(segment)


def _list_length(feature: Feature) -> int | None:
    """How many values each list must have."""
    if feature.encoding == "tensor":
        return 1
    return None if None in feature.shape else math.prod(feature.shape)  # type: ignore[arg-type]


def _without(
    segments: Sequence[Segment], problems: dict[int, str], damages: list[Damage] | None
) -> list[Segment]:
    """The segments without the rows that have problems, which are noted, or raised for."""
    kept = []
    row = 0
    places = iter(sorted(problems))
    place = next(places)
    for segment in segments:
        rest = segment
        while row <= place < row + rest.count:
            good, rest = rest.split(place - row)
            bad, rest = rest.split(1)
            if damages is None:
                raise _misfit(bad, FormatError(problems[place]))
            damages.append(_damage(bad, problems[place]))
            kept.append(good)
            row, place = place + 1, next(places, -1)
        kept.append(rest)
        row += rest.count
    return kept


def _misfit(record: Segment, error: FormatError) -> FormatError:
    """The error, with the record it is about."""
    return type(error)(
        f"record {record.first}: {error.message}",
        path=record.path,
        offset=record.base + (record.start if error.offset is None else error.offset),
        hint=_HINT,
    )


def _damage(record: Segment, problem: str) -> Damage:
    size = record.end - record.start
    return Damage(record.path, record.first, record.base + record.start, size, problem)


def _ragged(values: Array, splits: Array, feature: Feature) -> RaggedTensor:
    inner = feature.shape[1:]
    size = math.prod(inner)  # type: ignore[arg-type]
    if size != 1:
        splits = splits // size
    return RaggedTensor.trusted(values.reshape(-1, *inner), (splits,))


def _optional(feature: Feature, column: Any, present: Array) -> Any:
    """A column with rows that lack it: filled with the default, or of none or one value a row."""
    if feature.default is not None:
        filled: Array = np.empty((len(present), *column.shape[1:]), column.dtype)
        # An object array of its own: NumPy cuts the zeros at the end of strings.
        filled[:] = (
            np.array(feature.default, object) if feature.kind == "bytes" else feature.default
        )
        filled[present] = column
        return filled
    if isinstance(column, list):
        values = iter(column)
        return [next(values) if there else None for there in present.tolist()]
    splits = np.concatenate([[0], np.cumsum(present)]).astype(np.int64)
    return RaggedTensor.trusted(column, (splits,))


def _tensors(feature: Feature, texts: Array, rows: Array) -> Any:
    """Serialized tensors as one array if the schema knows their shape, and else as a list."""
    tensors, problems = [], {}
    for row, text in zip(rows.tolist(), texts.tolist(), strict=True):
        tensor = parse_tensor(text)
        if tensor is None or not _is_of(tensor, feature):
            found = "some other string" if tensor is None else _describe(tensor)
            problems[row] = (
                f"feature {feature.name!r} holds {found}, "
                f"expected a tensor of {feature.dtype} and shape {list(feature.shape)}"
            )
        else:
            tensors.append(tensor)
    if problems:
        raise _MisfitsError(problems)
    if None in feature.shape:
        return tensors
    stacked: Array = np.empty((len(tensors), *feature.shape), dtypes.BY_NAME[feature.dtype].numpy)
    for place, tensor in enumerate(tensors):
        stacked[place] = tensor
    return stacked


def _is_of(tensor: Array | SparseTensor | RaggedTensor, feature: Feature) -> bool:
    """Whether a tensor is of a feature's dtype and shape; only dense ones have a fixed shape."""
    if dtypes.from_numpy(tensor.dtype).name != feature.dtype:
        return False
    shape = tensor.shape
    if not isinstance(tensor, np.ndarray):
        return len(shape) == len(feature.shape) and None in feature.shape
    return len(shape) == len(feature.shape) and all(
        expected in (None, size) for size, expected in zip(shape, feature.shape, strict=True)
    )


def _describe(tensor: Array | SparseTensor | RaggedTensor) -> str:
    kind = {SparseTensor: "a sparse tensor", RaggedTensor: "a ragged tensor"}.get(type(tensor))
    dtype = dtypes.from_numpy(tensor.dtype).name
    return f"{kind or 'a tensor'} of {dtype} and shape {list(tensor.shape)}"


def rows_of(batch: dict[str, Any], schema: Schema) -> Iterator[dict[str, Any]]:
    """The rows of a batch of columns: arrays, NumPy scalars, bytes; None where one is missing."""
    columns = []
    for name, column in batch.items():
        feature = schema[name]
        values = list(column)
        none_or_one = feature.encoding == "tensor" or feature.shape[:1] != (None,)
        if isinstance(column, RaggedTensor) and none_or_one and not feature.sequence:
            values = [row[0] if len(row) else None for row in values]
        columns.append(values)
    for row in zip(*columns, strict=True):
        yield dict(zip(batch, row, strict=True))
