"""Surveys: the schema of Examples, found by looking at them.

Examples do not say what they hold: a survey counts the kinds and lengths of each feature's lists in
`tensorferry._native`, and looks which strings are serialized tensors. What follows from the counts
is `tensorferry.rows.schema.infer`.

Nor do records say that they are Examples. Other messages often parse as Examples without features,
because protobuf passes over fields that it does not know. A record is an Example if it has
features, or if it is empty; `survey` refuses all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.budget import Budget
from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError
from tensorferry.formats.tfrecord.example import KIND_NAMES, KIND_NUMBERS
from tensorferry.formats.tfrecord.frames import Segment, Status
from tensorferry.formats.tfrecord.tensors import parse
from tensorferry.rows.schema import FeatureStatistics, Kind, Schema, infer
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

# The number of records that are decoded together to see which strings are serialized tensors.
PROBED_ROWS = 1000
# The number of places that columns have, for all features and records, when records are decoded to
# look at them: records may each have features of their own.
PROBED_PLACES = 1 << 20

PART = 1 << 14
"""Number of bytes that a feature counts for: records of a few bytes may each have another one."""

BYTES = KIND_NUMBERS["bytes"]

# The bytes of an Example or a SequenceExample without features.
EMPTY = frozenset({b"", b"\n\0", b"\x12\0", b"\n\0\x12\0"})

NO_FEATURES = "it has no features, and it is not empty"

Shape = tuple[int | None, ...]
Row = tuple[bytes, bool, int, bool, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found of some records; those of several parts make one of the whole.

    Attributes:
        features: The statistics of each feature.
        rows: Number of records.
        tensors: The dtype and shape that all serialized tensors of a feature have in common; None
            if its values are not all tensors of one kind.
    """

    features: tuple[FeatureStatistics, ...] = ()
    rows: int = 0
    tensors: Mapping[str, tuple[str, Shape] | None] = field(default_factory=dict)

    def schema(self) -> Schema:
        """The schema that the records follow.

        Raises:
            FormatError: A feature has one kind in some records and another in others.
        """
        common = {name: tensor for name, tensor in self.tensors.items() if tensor is not None}
        return infer(self.features, self.rows, common)

    def __add__(self, later: Survey) -> Survey:
        """The survey of these records and those behind them."""
        found = {(one.name, one.sequence): one for one in self.features}
        for one in later.features:
            before = found.get((one.name, one.sequence))
            found[one.name, one.sequence] = one if before is None else _sum(before, one)
        tensors = dict(self.tensors)
        for name, tensor in later.tensors.items():
            known = tensors.get(name, tensor)
            tensors[name] = None if known is None or tensor is None else _shared(known, tensor)
        return Survey(tuple(found.values()), self.rows + later.rows, tensors)


def _sum(one: FeatureStatistics, other: FeatureStatistics) -> FeatureStatistics:
    kinds = {one.kind, other.kind} - {None}
    lengths = [each for each in (one, other) if each.lists]
    return FeatureStatistics(
        one.name,
        one.sequence,
        one.kind or other.kind,
        one.mixed or other.mixed or len(kinds) > 1,
        one.rows + other.rows,
        one.lists + other.lists,
        min((each.shortest for each in lengths), default=one.shortest),
        max((each.longest for each in lengths), default=one.longest),
    )


def survey(segments: Iterable[Segment], *, skip: bool = False) -> Survey:
    """What the records in some segments hold.

    Args:
        segments: The frames of one file or several.
        skip: Pass over records that are no Examples.

    Raises:
        FormatError: A record is no Example, or its features cannot be columns.
    """
    statistics = _native.ExampleSurvey()
    tensors: dict[str, tuple[str, Shape] | None] = {}
    rows: list[Row] = []
    size = 0
    for segment in segments:
        for run in _examples_of(segment) if skip else [segment]:
            before, seen = statistics.rows, rows
            try:
                _, end, status = statistics.add(run.buffer, run.start, run.count, run.verify)
            except FormatError as error:
                raise _not_an_example(error, run, statistics.rows - before - 1) from None
            if status != Status.RECORD:
                raise run.corrupt(statistics.rows - before, end)
            rows = statistics.features()
            size += run.end - run.start
            Budget(size).take(
                len(rows) * PART, what=f"what stands for {len(rows)} features", path=run.path
            )
            # New features stand behind the others. Those that the records lack were looked at.
            here = [(row, was) for row, was in zip_longest(rows, seen) if row != was]
            counts = [row[4] - (was[4] if was else 0) for row, was in here]
            stranger = next(_strangers(run, [row for row, _ in here], counts), None)
            if stranger is not None:
                raise _not_an_example(FormatError(NO_FEATURES), run, stranger)
            if len(rows) == len(seen) and not any(row[2] == BYTES or row[3] for row, _ in here):
                continue  # the same names, and nothing but numbers
            found = [_statistics(row, run.path) for row, _ in here]
            for one, (_, was) in zip(found, here, strict=True):
                if one.mixed:
                    raise _mixed(one, KIND_NAMES.get(was[2]) if was else None, run)
            _probe(found, run, tensors)
    found = [_statistics(row, "") for row in rows]
    return Survey(tuple(found), statistics.rows, tensors)


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
                yield from _with_features(good, trial.features())
            _, segment = rest.split(1)
        else:
            yield from _with_features(segment, trial.features())
            return


def _with_features(segment: Segment, features: list[Row]) -> Iterator[Segment]:
    """The parts of a segment without the records that only parse as Examples."""
    done = 0
    for stranger in _strangers(segment, features, [row[4] for row in features]):
        good, rest = segment.split(stranger - done)
        if good.count:
            yield good
        _, segment = rest.split(1)
        done = stranger + 1
    if segment.count:
        yield segment


def _strangers(segment: Segment, features: Sequence[Row], counts: Sequence[int]) -> Iterator[int]:
    """The places of records that parse as Examples but have no features, and are not empty.

    Args:
        segment: Frames of records that parse.
        features: Those in the segment.
        counts: How many of its records have each of them.
    """
    if segment.count in counts:
        return  # every record has this feature
    records = segment.records()
    for place in _without_values(segment, features):
        if records[place] not in EMPTY:
            alone = _native.ExampleSurvey()
            alone.add_record(records[place])
            if not alone.features():
                yield place


def _without_values(segment: Segment, features: Sequence[Row]) -> list[int]:
    """The places of records that have none of some features, or only some without values."""
    names = {row[0]: row[2] for row in features if not row[1] and row[2] and not row[3]}
    if len(names) * segment.count > PROBED_PLACES:
        return list(range(segment.count))
    try:
        decoder = _native.ExampleDecoder(
            [(name.decode(), kind, False, True, None) for name, kind in names.items()]
        )
        decoder.decode(segment.buffer, segment.start, segment.count, False)
    except (FormatError, UnicodeDecodeError):
        return list(range(segment.count))
    has_none: Array = np.ones(segment.count, bool)
    for index, (_, _, missing) in enumerate(decoder.sizes()):
        absent = np.empty(missing, np.int64)
        decoder.copy_missing(index, absent)
        lacks: Array = np.zeros(segment.count, bool)
        lacks[absent] = True
        has_none &= lacks
    return np.flatnonzero(has_none).tolist()


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


def _statistics(row: Row, path: str) -> FeatureStatistics:
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
        most = max(1, min(PROBED_ROWS, PROBED_PLACES // len(names)))
        step, segment = segment.split(min(most, segment.count))
        decoder = _native.ExampleDecoder([(name, 1, False, True, None) for name in names])
        decoder.decode(step.buffer, step.start, step.count, False)
        for column, (values, _, _) in enumerate(decoder.sizes()):
            texts = np.empty(values, object)
            decoder.copy_texts(column, texts)
            name = names[column]
            for text in texts.tolist():
                tensors[name] = _in_common(tensors.get(name), parse(text))
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
    return (dtype, shape) if before is None else _shared(before, (dtype, shape))


def _shared(one: tuple[str, Shape], other: tuple[str, Shape]) -> tuple[str, Shape] | None:
    """What two kinds of tensors have in common; None if it is nothing."""
    if one[0] != other[0] or len(one[1]) != len(other[1]):
        return None
    return one[0], tuple(a if a == b else None for a, b in zip(one[1], other[1], strict=True))
