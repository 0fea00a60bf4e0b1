"""Writing records with quantized columns: floats as small tensors, their scale in a schema beside.

    with ferry.writer("vectors.tfrecord", quantize={"embedding": "int8"}) as out:
        out.write({"id": 7, "embedding": vector})

A quantized feature is one bytes value: a serialized tensor of the small dtype, as
`tf.io.parse_tensor` reads it. All rows of a column have one scale, which is known when the last row
is there. Until then rows wait in temporary files without a name: the floats in one file a column,
everything else as records. `<file>.schema.json` beside each file has the scale, and appears
together with it.
"""

from __future__ import annotations

import difflib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, frameworks
from tensorferry.classes import NamedTuple, replace
from tensorferry.codecs import protobuf, quantization
from tensorferry.codecs.quantization import Recipe, Spec
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.frameworks import frames
from tensorferry.rows import schema as schemas
from tensorferry.rows.schema import Feature, Schema, Shape
from tensorferry.storage import FileSink
from tensorferry.storage.place import Target
from tensorferry.tensors.values import Array, RaggedTensor

CHUNK = 1 << 18
"""Number of floats, about, that are quantized at a time."""

EMPTY = b"\n\0"
"""An Example without features."""


class Floats(NamedTuple):
    """Rows of a column that is quantized.

    Attributes:
        values: Those of all rows, one behind the other: float32.
        shapes: The shape of each row's value; None for a row without one.
    """

    values: Array
    shapes: Sequence[tuple[int, ...] | None]


def specs_of(given: Any) -> dict[str, Spec]:
    """What each column is to become.

    Args:
        given: A dict from names of columns to what `tensorferry.codecs.quantization.parse` takes.

    Raises:
        UnsupportedError: It is something else, or a column would have several scales.
    """
    if not isinstance(given, Mapping) or not given:
        raise UnsupportedError(
            f"quantize is {given!r:.60}, expected the columns of records",
            hint='as in quantize={"embedding": "int8"}',
        )
    specs = {str(name): quantization.parse(spec) for name, spec in given.items()}
    for name, spec in specs.items():
        if spec.axis is not None:
            raise UnsupportedError(
                f"axis of {name!r} is {spec.axis}, expected none: a column has one scale"
            )
    return specs


class QuantizingWriter:
    """Writes records of which some columns are quantized; see `tensorferry.writer`.

    Args:
        target: The file, or the name of a set of shards.
        specs: What each column is to become.
        shards: Number of files, where it is a set.
        compression: As in `RecordWriter`.
        level: The level of the compression.
        schema: How the other features are written, where their types do not say it.

    Attributes:
        paths: The files.

    Raises:
        UnsupportedError: The target has no place for a schema beside it.
    """

    def __init__(
        self,
        target: Target,
        specs: Mapping[str, Spec],
        *,
        shards: int | None,
        compression: str | None,
        level: int | None,
        schema: Any,
    ) -> None:
        if not target.is_path:
            raise UnsupportedError(
                "the scale of quantized columns is kept in a file beside, and a stream has none",
                hint="write to a path",
            )
        given = Schema() if schema is None else schemas.as_schema(schema)
        self._given = Schema(tuple(one for one in given.features if one.name not in specs))
        self._out = RecordWriter(target, shards=shards, compression=compression, level=level)
        self.paths = self._out.paths
        folder = None if target.place().is_url else os.path.dirname(os.path.abspath(target.path))
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the writer
        self._columns = {name: _Column(name, spec, folder) for name, spec in specs.items()}
        waiting = Target("<rows>", into=FileSink(self._file))
        self._rest = RecordWriter(waiting, schema=self._given)
        self._lock = Lock()
        self._open = True
        self._given_names: set[str] = set()

    @property
    def count(self) -> int:
        """Number of rows it was given."""
        return self._rest.count

    def write(self, row: Any) -> None:
        """Writes one row: a dict from feature names to values.

        Raises:
            FormatError: The row does not fit the rows before it, or the schema.
            UnsupportedError: A column that is to be quantized holds no floats.
        """
        if not isinstance(row, Mapping):
            raise UnsupportedError(
                f"a record is {type(row).__name__}, expected a dict of features: records of bytes "
                "have no columns to quantize"
            )
        values = {name: column.row(row.get(name)) for name, column in self._columns.items()}
        rest = {name: value for name, value in row.items() if name not in values}
        with self._lock:
            self._check_open()
            self._given_names.update(row)
            self._rest.write(rest or EMPTY)
            for name, floats in values.items():
                self._columns[name].add(floats)

    def write_batch(self, columns: Any) -> None:
        """Writes many rows: a dict of columns of one length, or a frame, as `RecordWriter` does."""
        if isinstance(columns, Mapping):
            self._write_some(columns)
            return
        if not frames.is_frame(columns):
            raise UnsupportedError(
                f"a batch is {type(columns).__name__}, expected a dict of columns or a table"
            )
        from tensorferry.formats.tables.frames import to_columns

        for batch in frames.reader(columns, index=False):
            self._write_some(to_columns(batch))

    def _write_some(self, columns: Mapping[str, Any]) -> None:
        given = {name: frameworks.accept(column) for name, column in columns.items()}
        counts = {name: len(column) for name, column in given.items()}
        if len(set(counts.values())) > 1:
            raise FormatError(f"the columns have {counts} rows, expected as many in each")
        count = next(iter(counts.values()), 0)
        values = {
            name: column.rows(given.get(name, [None] * count))
            for name, column in self._columns.items()
        }
        rest = {name: column for name, column in given.items() if name not in values}
        with self._lock:
            self._check_open()
            self._given_names.update(given)
            if rest:
                self._rest.write_batch(rest)
            for _ in range(0 if rest else count):
                self._rest.write(EMPTY)
            for name, floats in values.items():
                self._columns[name].add(floats)

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError("the writer is closed")

    def close(self) -> None:
        """Quantizes the rows, finishes the files and lets them appear."""
        self.__exit__(None, None, None)

    def __enter__(self) -> QuantizingWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if not self._open:
                return
            self._open = False
            try:
                if error is None:
                    with self._out:
                        self._finish()
                else:
                    self._out.__exit__(kind, error, traceback)
            finally:
                self._file.close()
                for column in self._columns.values():
                    column.close()

    def _finish(self) -> None:
        for name in self._columns:
            if self.count and name not in self._given_names:
                near = difflib.get_close_matches(name, self._given_names, n=1)
                raise UnsupportedError(
                    f"no row has the column {name!r}, which is to be quantized",
                    hint=f"did you mean {near[0]!r}?" if near else None,
                )
        self._rest.close()
        self._file.seek(0)
        columns = list(self._columns.values())
        additions = [column.entries() for column in columns]
        rest = Records(self._file, infer="all")
        for record in rest.bytes_of_records():
            entries = b"".join([next(entries) for entries in additions])
            self._out.add(_extended(record, entries))
        for column in columns:
            column.check()
        found = rest.schema.features if self.count else ()
        others = {one.name: one for one in (*found, *self._given.features)}
        schema = Schema((*others.values(), *(column.feature() for column in columns)))
        self._out.keep_beside(schema)


class _Column:
    """The floats of one column, in a file without a name."""

    def __init__(self, name: str, spec: Spec, folder: str | None) -> None:
        self.name = name
        self._spec = spec
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the writer
        self._shapes: list[tuple[int, ...] | None] = []
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._low = self._high = 0.0
        self._largest_error = 0.0

    def close(self) -> None:
        self._file.close()

    def row(self, value: Any) -> Floats:
        """The floats of one row."""
        if value is None:
            return Floats(np.empty(0, np.float32), [None])
        array = self._floats(np.asarray(frameworks.accept(value)))
        return Floats(array.reshape(-1), [array.shape])

    def rows(self, column: Any) -> Floats:
        """The floats of many rows; None is a row without a value."""
        if isinstance(column, RaggedTensor) and column.ragged_rank == 1:
            values = self._floats(column.flat_values)
            inner = values.shape[1:]
            shapes = [(length, *inner) for length in column.row_lengths.tolist()]
            return Floats(values.reshape(-1), shapes)
        if isinstance(column, np.ndarray) and column.dtype != object:
            values = self._floats(column)
            return Floats(values.reshape(-1), [values.shape[1:]] * len(values))
        each = [self.row(value) for value in column]
        values = np.concatenate([np.empty(0, np.float32), *(one.values for one in each)])
        return Floats(values, [one.shapes[0] for one in each])

    def _floats(self, array: Array) -> Array:
        if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
            raise UnsupportedError(
                f"{self.name!r} is of {array.dtype}, expected floats to quantize"
            )
        with np.errstate(over="ignore"):
            floats = np.asarray(array, np.float32, order="C")
        lost = ~np.isfinite(floats)
        if self._spec.scheme == "cast" and lost.any():  # which have NaN and infinities
            lost &= np.isfinite(array.astype(np.float64))
        if lost.any() and not self._spec.clip:
            raise UnsupportedError(
                f"{self.name!r} has values that are NaN, infinite or beyond float32, which "
                f"{self._spec.kind} has no place for",
                hint='"float16" and "bfloat16" keep NaN and infinities',
            )
        return floats

    def add(self, floats: Floats) -> None:
        """Takes more rows."""
        self._file.write(np.ascontiguousarray(floats.values).data)
        for shape in floats.shapes:
            self._shapes.append(None if shape is None else self._known.setdefault(shape, shape))
        finite = floats.values[np.isfinite(floats.values)] if self._spec.clip else floats.values
        self._low = min(self._low, float(finite.min(initial=0)))
        self._high = max(self._high, float(finite.max(initial=0)))

    @property
    def _recipe(self) -> Recipe:
        """What is done to all rows: it depends on the smallest and the largest value alone."""
        ends = np.array([self._low, self._high], np.float32)
        return quantization.quantize(ends, replace(self._spec, max_error=None)).recipe

    def entries(self) -> Iterator[bytes]:
        """The entry of each row in the map of an Example's features; empty without a value."""
        recipe = self._recipe
        heads = {shape: _head(self.name, recipe.kind, shape) for shape in self._known}
        width = dtypes.BY_NAME[recipe.kind].bits // 8
        self._file.seek(0)
        for shapes in self._pieces():
            size = sum(math.prod(shape) for shape in shapes if shape is not None)
            floats = np.frombuffer(self._file.read(4 * size), np.float32)
            done = quantization.quantize_by(floats, recipe, clip=self._spec.clip)
            self._largest_error = max(self._largest_error, done.report.largest_error)
            content, place = done.values.tobytes(), 0
            for shape in shapes:
                if shape is None:
                    yield b""
                else:
                    end = place + math.prod(shape) * width
                    yield heads[shape] + content[place:end]
                    place = end

    def _pieces(self) -> Iterator[list[tuple[int, ...] | None]]:
        """The shapes of rows that are quantized together."""
        start = size = 0
        for number, shape in enumerate(self._shapes, 1):
            size += 0 if shape is None else math.prod(shape)
            if size >= CHUNK or number == len(self._shapes):
                yield self._shapes[start:number]
                start, size = number, 0

    def check(self) -> None:
        """Refuses an error that is larger than the one that is accepted.

        Raises:
            UnsupportedError: It is larger.
        """
        bound = self._spec.max_error
        if bound is not None and self._largest_error > bound:
            raise UnsupportedError(
                f"the largest error of {self._spec.kind} in {self.name!r} is "
                f"{self._largest_error:.6g}, at most {bound:g} is wanted",
                hint="choose a kind of more bits",
            )

    def feature(self) -> Feature:
        """What the schema says of the column."""
        shapes = list(self._known) or [(0,)]
        ranks = sorted({len(shape) for shape in shapes})
        if len(ranks) > 1:
            raise FormatError(
                f"the rows of {self.name!r} have {' and '.join(map(str, ranks))} dimensions, "
                "expected as many in each"
            )
        sizes = [set(sizes) for sizes in zip(*shapes, strict=True)]
        shape: Shape = tuple(None if len(found) > 1 else found.pop() for found in sizes)
        return Feature(
            *(self.name, "bytes", shape, "float32", "tensor"),
            optional=None in self._shapes,
            quantized=self._recipe,
        )


def _head(name: str, kind: str, shape: tuple[int, ...]) -> bytes:
    """The entry of a tensor in the map of features, up to the content of the tensor."""
    row = dtypes.of_tensorflow(dtypes.BY_NAME[kind])
    size = math.prod(shape) * row.bits // 8
    start = _native.tensorproto_header(row.enum, shape, size)
    for tag in (b"\n", b"\n", b"\x12"):  # the value of a bytes list, of a feature, of an entry
        start = tag + protobuf.varint(len(start) + size) + start
    key = name.encode()
    start = b"\n" + protobuf.varint(len(key)) + key + start
    return b"\n" + protobuf.varint(len(start) + size) + start


def _extended(record: bytes, entries: bytes) -> bytes:
    """An Example with more entries in its map of features."""
    record = record or EMPTY
    size, place = protobuf.read_varint(record, 1, len(record))
    end = place + size
    return b"".join(
        (b"\n", protobuf.varint(size + len(entries)), record[place:end], entries, record[end:])
    )
