"""Checkpoints of the first version: one table with everything, as TensorFlow wrote until 2016.

The table (`tensorferry.codecs.leveldb`) is one file, or several that hold different slices. Its
values are SavedTensorSlices: the one under the empty key lists the tensors, the one under the key
of a slice (`tensorferry.formats.checkpoint.slices`) has its values:

    1 meta: 1 tensor: 1 name | 2 shape | 3 type | 4 slice ...
            2 versions
    2 data: 1 name | 2 slice | 3 data: a TensorProto without dtype and shape

Such files are read, not written. The checksum of a block is verified when something of the block is
read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorferry import _native, dtypes
from tensorferry.classes import dataclass
from tensorferry.codecs.leveldb import SNAPPY_RATIO, Table
from tensorferry.codecs.protobuf import BYTES, Span
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, TruncatedError
from tensorferry.formats.checkpoint import entries, slices, state as states
from tensorferry.formats.checkpoint.entries import Kind
from tensorferry.formats.checkpoint.extents import Extents, parse as parse_extents
from tensorferry.formats.checkpoint.messages import Reader
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.storage.place import Place
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, Kind as TensorKind

WIDEST = 8
"""Number of bytes in memory that one byte of a table can be: an int64 that is a short varint."""


def open_tables(prefix: Place) -> tuple[dict[str, Stored], list[Place]]:
    """The tensors of a checkpoint, by name, and its files; no value is read.

    Args:
        prefix: The one file, or what the names of several start with.

    Raises:
        FormatError: It is damaged.
    """
    places = states.v1_tables(prefix)
    found: dict[str, tuple[Kind, list[tuple[Extents, Table]]]] = {}
    try:
        for place in places:
            try:
                _survey(Table(place.open()), found)
            except FormatError as error:
                raise error.located(path=place.path) from None
        _check_size(found.values(), sum(place.size() or 0 for place in places), prefix.path)
        tensors = {name: _make(name, *found[name]) for name in sorted(found)}
    except BaseException:
        for place in places:
            place.close()
        raise
    return tensors, places


def _check_size(
    found: Iterable[tuple[Kind, list[tuple[Extents, Table]]]], held: int, path: str
) -> None:
    """Refuses tensors that the tables cannot hold: of each element there is at least a byte."""
    total = sum(kind.nbytes or kind.elements for kind, _ in found)
    if total > WIDEST * SNAPPY_RATIO * held:
        raise TruncatedError(
            f"the tensors have {total} bytes, which tables of {held} cannot hold", path=path
        )


def _survey(table: Table, found: dict[str, tuple[Kind, list[tuple[Extents, Table]]]]) -> None:
    """Adds what a table has."""
    data = table.find(b"")
    if data is None:
        raise FormatError("a table without the empty key, which says what it has", offset=0)
    reader = Reader(data)
    for meta in reader.each("SavedTensorSlices", "meta", (0, len(data))):
        for span in reader.each("SavedTensorSliceMeta", "tensor", meta):
            name, described, extents = _parse_meta(reader, span)
            known, pieces = found.setdefault(name, (described, []))
            if known != described:
                raise FormatError("a tensor has two shapes or dtypes", tensor=name[:200])
            pieces += ((extent, table) for extent in extents)


def _parse_meta(reader: Reader, span: Span) -> tuple[str, Kind, list[Extents]]:
    fields = reader.read("SavedSliceMeta", span)
    shape = entries.parse_shape(reader, fields["shape"]) if "shape" in fields else ()
    kind = entries.make_kind(fields.get("type", 0), shape, span.start)
    places = [parse_extents(reader, place) for place in fields.get("slice", ())]
    return fields.get("name", ""), kind, places


def _make(name: str, kind: Kind, pieces: list[tuple[Extents, Table]]) -> Stored:
    try:
        if kind.row.numpy is None:
            raise FormatError(f"a tensor of {kind.row.name}, which this version has not")
        places = [slices.place(kind.shape, extents) for extents, _ in pieces]
        slices.check_cover(kind.shape, places)
    except FormatError as error:
        raise error.located(tensor=name[:200]) from None
    made = [
        (starts, StoredSlice(name, extents, entries.make_kind(kind.row.enum, sizes, 0), table))
        for (starts, sizes), (extents, table) in zip(places, pieces, strict=True)
    ]
    return made[0][1] if len(made) == 1 else slices.StoredSlices(kind.row, kind.shape, tuple(made))


@dataclass(frozen=True, slots=True)
class StoredSlice(Stored):
    """A tensor in a table, or a piece of one: a value among others in a block of the table."""

    name: str
    region: Extents
    described: Kind
    table: Table

    @property
    def kind(self) -> TensorKind:
        """How it is made."""
        return "string" if self.dtype is dtypes.STRING else "dense"

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        return self.described.row

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self.described.shape

    @property
    def nbytes(self) -> int:
        """The size of its numbers in memory; the size in the file is known when it was read."""
        return self.described.nbytes or 0

    def read(self) -> Array:
        """The values."""
        key = slices.key(self.name.encode(), self.region)
        try:
            data = self.table.find(key)
            if data is None:
                raise FormatError("the table lacks the values of a slice")
            return self._parse(data)
        except FormatError as error:
            raise error.located(path=self.table.source.path, tensor=self.name[:200]) from None

    def read_part(self, index: Any) -> Array:
        """Some of the values."""
        return np.asarray(self.read()[index])

    def _parse(self, data: Any) -> Array:
        reader = Reader(data)
        saved = reader.part(reader.whole("SavedTensorSlices"), "data", "SavedSlice")
        if "data" not in saved:
            raise FormatError("0 values for a slice, expected one")
        span: Span = saved["data"]
        row, elements = self.dtype, self.described.elements
        count = _count(data, *span, row)
        if count != elements:
            raise FormatError(
                f"{count} values, expected {elements} for {row.name} of shape {list(self.shape)}"
            )
        header = _native.tensorproto_header(row.enum, self.shape, 0)
        array: Array = tensorproto.read(header + reader.bytes(span))
        array.flags.writeable = False
        return array


def _count(data: Any, start: int, end: int, row: DType) -> int:
    """How many elements a TensorProto has, none of which may be left out here."""
    values = tensorproto.TYPED_FIELDS.get(row.name, (None,))[0]
    count = 0
    # Not through the table, which would make a list of all values.
    for number, wire, first, last in _native.MessageFields(data, start, end):
        if number == 4:  # the content
            assert row.numpy is not None
            count += (last - first) // row.numpy.itemsize
        elif 5 <= number <= 18 and (wire != BYTES or values is None):
            count += 1
        elif 5 <= number <= 18 and values is not None and row.name.startswith("float8"):
            count += last - first
        elif 5 <= number <= 18 and values is not None:
            packed = np.frombuffer(data[first:last], np.uint8)
            is_fixed = values.kind == "fixed"
            count += len(packed) // values.width if is_fixed else int((packed < 0x80).sum())
    return count // (1 if values is None else values.group)
