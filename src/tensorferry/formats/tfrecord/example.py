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
    quantized              the floats that the tensors stand for; a RaggedTensor for shape (None,)

Decoding runs in `tensorferry._native` without the GIL. Framing is
`tensorferry.formats.tfrecord.frames`, writing is `tensorferry.formats.tfrecord.encoder`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, limits
from tensorferry.budget import RATIO
from tensorferry.codecs.quantization import dequantize
from tensorferry.errors import FormatError, LimitError, UnsupportedError
from tensorferry.formats.tfrecord import tensors as serialized
from tensorferry.formats.tfrecord.frames import Segment, Status
from tensorferry.rows.columns import Batch
from tensorferry.rows.rows import Damage
from tensorferry.rows.schema import Feature, Kind, Schema
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

# The numbers are the fields of the message.
KIND_NUMBERS: dict[str, int] = {"bytes": 1, "float32": 2, "int64": 3}
KIND_NAMES: dict[int, Kind] = {1: "bytes", 2: "float32", 3: "int64"}

# The dtype of each kind; looking up a dtype by its name takes longer than making an array.
NUMPY_DTYPES = {"bytes": np.dtype(object), "float32": np.dtype("f4"), "int64": np.dtype("i8")}

# About how many bytes a column has for each row, also for a row that lacks the feature.
PLACE = 32

# A column of this many numbers takes over the decoder's memory; a smaller one is copied, which is
# faster.
LARGE = 1 << 12

_HINT = (
    "pass a schema= that fits, infer='all' to look at all records first, or on_error='skip'; "
    "raw=True gives the records' bytes"
)


class _MisfitsError(Exception):
    """Values do not fit the schema: what is wrong with each row."""

    def __init__(self, problems: dict[int, str]) -> None:
        self.problems = problems


class BatchDecoder:
    """Turns segments into batches of columns; its memory is reused from batch to batch.

    Args:
        schema: The schema of the file.
        columns: The features wanted; all by default. The others are skipped without decoding.
    """

    def __init__(self, schema: Schema, columns: Sequence[str] | None = None) -> None:
        wanted = list(schema if columns is None else columns)
        self.schema = schema if columns is None else schema.select(wanted)
        self.names = wanted
        for feature in self.schema.values():
            if feature.sequence and feature.encoding == "tensor":
                raise UnsupportedError(
                    f"feature {feature.name!r} is a sequence of serialized tensors",
                    hint="make it one of strings in schema=, and use tensorferry.loads on each",
                )
        indexes = {name: index for index, name in enumerate(schema)}
        self._plan = [(schema[name], indexes[name]) for name in wanted]
        self._row_bytes = PLACE * len(wanted)
        self.native = _native.ExampleDecoder(native_columns(schema, wanted))

    def check_room(self, rows: int, size: int) -> None:
        """Refuses records whose columns would take far more memory than the records do.

        A column has a place for each row, also for rows that lack the feature.

        Args:
            rows: Number of records that are decoded together.
            size: Number of bytes that they take.

        Raises:
            LimitError: They have too many features that most of them lack.
        """
        needed = rows * self._row_bytes
        if needed > limits.memory and needed > RATIO * size:
            raise LimitError(
                f"{len(self.schema)} columns of {rows} rows take about {needed} bytes, and the "
                f"records {size}",
                hint="read fewer columns or smaller batches, or raise tensorferry.limits.memory if "
                "the file is to be trusted",
            )

    def decode(self, segments: Sequence[Segment], *, damages: list[Damage] | None = None) -> Batch:
        """The columns of the records in some segments.

        Args:
            segments: In their order.
            damages: Takes a note of records that do not fit the schema, which are left out;
                without it they raise.

        Raises:
            FormatError: A record is no Example, or does not fit the schema.
        """
        while True:
            segments = self._fill(segments, damages)
            columns, problems = self.columns()
            if not problems:
                return columns
            segments = _without(segments, problems, damages)

    def columns(self) -> tuple[Batch, dict[int, str]]:
        """The columns of the decoded rows, and what is wrong with each row that has a problem."""
        sizes, rows = self.native.sizes(), self.native.rows
        problems = self._misfits(sizes)
        columns = {}
        for feature, index in [] if problems else self._plan:
            try:
                columns[feature.name] = self._column(feature, index, rows, sizes)
            except _MisfitsError as misfits:
                problems |= misfits.problems
        return columns, problems

    def finish(self, columns: Batch) -> Any:
        """A batch made of its columns."""
        return columns

    def _fill(self, segments: Sequence[Segment], damages: list[Damage] | None) -> Sequence[Segment]:
        """Decodes the records; returns the segments of those that became rows."""
        native = self.native
        native.clear()
        self.check_room(*room_of(segments))
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
        """Rows that lack a required feature, or have a list of the wrong length."""
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
                self.native.copy_list_splits(index, splits)
                for place in np.flatnonzero(np.diff(splits) % size).tolist():
                    row = self._row_of_list(index, place) if feature.sequence else place
                    problems[row] = (
                        f"feature {name!r} has {splits[place + 1] - splits[place]} values, "
                        f"expected a multiple of {size} for shape {list(feature.shape)}"
                    )
        return problems

    def _row_of_list(self, index: int, place: int) -> int:
        splits = np.empty(self.native.rows + 1, np.int64)
        self.native.copy_row_splits(index, splits)
        return int(np.searchsorted(splits, place, side="right")) - 1

    def _absent(self, index: int, missing: int) -> Array:
        absent = np.empty(missing, np.int64)
        self.native.copy_missing(index, absent)
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
            self.native.copy_list_splits(index, splits)
            return _ragged(values, splits, feature)
        if feature.encoding == "plain" and not feature.optional:
            return values.reshape(rows, *feature.shape)
        present = np.ones(rows, bool)
        present[self._absent(index, missing)] = False
        if stacked is not None:
            column: Any = stacked
        elif feature.encoding == "tensor":
            column = _tensors(feature, values, np.flatnonzero(present))
            if feature.is_ragged:
                return _joined(column, present)
        else:
            column = values.reshape(rows - missing, *feature.shape)
        return _optional(feature, column, present) if feature.optional else column

    def _stacked(self, feature: Feature, index: int, count: int) -> Array | None:
        """Serialized tensors of the shape in the schema, taken apart together where possible."""
        if feature.encoding != "tensor" or None in feature.shape:
            return None
        data = np.empty(self.native.text_bytes(index), np.uint8)
        offsets = np.empty(count + 1, np.int64)
        self.native.join_texts(index, data, offsets)
        shape: Any = feature.shape
        stacked = serialized.from_strings(data, offsets, feature.stored, shape)
        return None if stacked is None else _restored(stacked, feature)

    def _values(self, feature: Feature, index: int, count: int) -> Array:
        if feature.kind != "bytes" and count >= LARGE:
            return self.native.take_values(index)  # type: ignore[no-any-return]
        values: Array = np.empty(count, NUMPY_DTYPES[feature.kind])
        if feature.kind == "bytes":
            self.native.copy_texts(index, values)
        else:
            self.native.copy_values(index, values)
        return values

    def _sequence(
        self, feature: Feature, index: int, values: Array, rows: int, lists: int
    ) -> RaggedTensor:
        row_splits = np.empty(rows + 1, np.int64)
        self.native.copy_row_splits(index, row_splits)
        if feature.shape[:1] == (None,):
            splits = np.empty(lists + 1, np.int64)
            self.native.copy_list_splits(index, splits)
            inner = _ragged(values, splits, feature)
            return RaggedTensor.trusted(inner.flat_values, (row_splits, *inner.nested_row_splits))
        return RaggedTensor.trusted(values.reshape(lists, *feature.shape), (row_splits,))


def room_of(segments: Sequence[Segment]) -> tuple[int, int]:
    """Number of records in some segments, and of their bytes."""
    rows = size = 0
    for segment in segments:
        rows += segment.count
        size += segment.end - segment.start
    return rows, size


def native_columns(
    schema: Schema, wanted: Sequence[str]
) -> list[tuple[str, int, bool, bool, int | None]]:
    """The features of records, as the native decoders take them."""
    names = frozenset(wanted)
    return [
        (
            feature.name,
            KIND_NUMBERS[feature.kind],
            feature.sequence,
            feature.name in names,
            _list_length(feature),
        )
        for feature in schema.values()
    ]


def _list_length(feature: Feature) -> int | None:
    """Number of values that each list must have; None for any number."""
    if feature.encoding == "tensor":
        return 1
    return None if None in feature.shape else math.prod(feature.shape)  # type: ignore[arg-type]


def _without(
    segments: Sequence[Segment], problems: dict[int, str], damages: list[Damage] | None
) -> list[Segment]:
    """The segments without the rows that have problems; these are noted, or the first is raised."""
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
    """A column that some rows lack: filled with the default, or with none or one value a row."""
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
    """Serialized tensors as one array if the schema knows their shape, or else as a list."""
    tensors, problems = [], {}
    for row, text in zip(rows.tolist(), texts.tolist(), strict=True):
        tensor = serialized.parse(text)
        if tensor is None or not _is_of(tensor, feature):
            found = "some other string" if tensor is None else _describe(tensor)
            problems[row] = (
                f"feature {feature.name!r} holds {found}, "
                f"expected a tensor of {feature.stored} and shape {list(feature.shape)}"
            )
        else:
            tensors.append(tensor)
    if problems:
        raise _MisfitsError(problems)
    if None in feature.shape:
        return [_restored(tensor, feature) for tensor in tensors]
    stacked: Array = np.empty((len(tensors), *feature.shape), dtypes.BY_NAME[feature.stored].numpy)
    for place, tensor in enumerate(tensors):
        stacked[place] = tensor
    return _restored(stacked, feature)


def _restored(tensor: Any, feature: Feature) -> Any:
    """A tensor in the dtype of the column."""
    return tensor if feature.quantized is None else dequantize(tensor, feature.quantized)


def _joined(lists: Sequence[Array], present: Array) -> RaggedTensor:
    """Rows of any number of values; a row that lacks the feature has none."""
    lengths = np.zeros(len(present), np.int64)
    lengths[present] = [len(values) for values in lists]
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.concatenate(lists) if lists else np.empty(0, np.float32)
    return RaggedTensor.trusted(values, (splits,))


def _is_of(tensor: Array | SparseTensor | RaggedTensor, feature: Feature) -> bool:
    """Whether a tensor has a feature's dtype and shape; only dense tensors have a fixed shape."""
    if dtypes.from_numpy(tensor.dtype).name != feature.stored:
        return False
    shape = tensor.shape
    if not isinstance(tensor, np.ndarray) and feature.quantized is not None:
        return False
    if not isinstance(tensor, np.ndarray):
        return len(shape) == len(feature.shape) and None in feature.shape
    return len(shape) == len(feature.shape) and all(
        expected in (None, size) for size, expected in zip(shape, feature.shape, strict=True)
    )


def _describe(tensor: Array | SparseTensor | RaggedTensor) -> str:
    kind = {SparseTensor: "a sparse tensor", RaggedTensor: "a ragged tensor"}.get(type(tensor))
    dtype = dtypes.from_numpy(tensor.dtype).name
    return f"{kind or 'a tensor'} of {dtype} and shape {list(tensor.shape)}"


def rows_of(batch: Batch, schema: Schema) -> list[dict[str, Any]]:
    """The rows of a batch of columns: arrays, NumPy scalars, bytes; None where one is missing."""
    columns = [_cells(column, schema[name]) for name, column in batch.items()]
    return _native.zip_rows(tuple(batch), columns)


def _cells(column: Any, feature: Feature) -> list[Any]:
    """The value of each row of a column."""
    if not isinstance(column, RaggedTensor) or len(column.nested_row_splits) > 1:
        return list(column)
    values, splits = column.flat_values, column.nested_row_splits[0]
    if feature.sequence or feature.is_ragged:
        return _native.slice_rows(values, splits.astype(np.int64, copy=False))
    present = iter(list(values))
    pairs = itertools.pairwise(splits.tolist())
    return [next(present) if start < end else None for start, end in pairs]
