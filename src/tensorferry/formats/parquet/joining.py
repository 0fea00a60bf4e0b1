"""Row groups that were encoded apart become those of one Parquet file.

PyArrow encodes the row groups of a file one after the other. Here each is encoded as a file of its
own, in any thread, and `Joined` puts the pages of these files one behind the other. Their footers
become one: the row groups get the numbers and places that they have in the whole file, and what a
footer says of the schema is the same in all of them.

    FileMetaData     1 version, 2 schema, 3 rows, 4 row groups, 5 metadata, 6 writer, 7 orders
    RowGroup         1 column chunks, 3 rows, 5 place, 7 number
    ColumnChunk      2 place, 3 metadata, 4 and 6 places of indexes
    ColumnMetaData   9, 10, 11 places of the data, an index and the dictionary, 14 of a filter

The bytes are PyArrow's own, made a moment ago: they are not checked. Footers of files are read by
`tensorferry.formats.parquet.footer`, which also describes Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from typing import Any

from tensorferry.codecs.protobuf import read_varint, varint
from tensorferry.storage.sink import Sink

MAGIC = b"PAR1"

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
)  # fmt: skip
_INTEGERS = (_I16, _I32, _I64)
_WIDTHS = {_BYTE: 1, _DOUBLE: 8}

# A struct: the type and the value of each field, by number.
Struct = dict[int, tuple[int, Any]]

_ROWS, _GROUPS = 3, 4
_CHUNKS, _PLACE_OF_GROUP, _NUMBER = 1, 5, 7
_METADATA = 3
_PLACES_OF_CHUNK, _PLACES_OF_COLUMN = (2, 4, 6), (9, 10, 11, 14)


class Joined:
    """A file of row groups that come as files of one row group each.

    Args:
        sink: Takes the bytes of the file.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._position = len(MAGIC)
        self._footer: Struct = {}
        self._groups: list[Struct] = []
        self._rows = 0
        sink.write(MAGIC)

    def add(self, file: memoryview) -> None:
        """Takes a whole file; its row groups follow those before."""
        (length,) = struct.unpack_from("<I", file, len(file) - 8)
        start = len(file) - 8 - length
        footer, _ = _read(bytes(file[start : start + length]), 0, _STRUCT)
        self._sink.write(file[len(MAGIC) : start])
        shift = self._position - len(MAGIC)
        self._position += start - len(MAGIC)
        for group in footer[_GROUPS][1][1]:
            _move(group, shift, len(self._groups))
            self._groups.append(group)
        self._rows += footer[_ROWS][1]
        self._footer = self._footer or footer

    def close(self) -> None:
        """Writes the footer."""
        self._footer[_ROWS] = _I64, self._rows
        self._footer[_GROUPS] = _LIST, (_STRUCT, self._groups)
        footer = _written(_STRUCT, self._footer)
        self._sink.write(footer + struct.pack("<I", len(footer)) + MAGIC)


def _move(group: Struct, shift: int, number: int) -> None:
    """Gives a row group its place and number in a longer file."""
    _add(group, (_PLACE_OF_GROUP,), shift)
    if _NUMBER in group:
        group[_NUMBER] = _I16, number
        if number > 0x7FFF:  # what has no number may have one of them missing
            del group[_NUMBER]
    for chunk in group[_CHUNKS][1][1]:
        _add(chunk, _PLACES_OF_CHUNK, shift)
        _add(chunk[_METADATA][1], _PLACES_OF_COLUMN, shift)


def _add(fields: Struct, numbers: tuple[int, ...], shift: int) -> None:
    for number in numbers:
        kind, place = fields.get(number, (0, 0))
        if place > 0:  # 0 stands for none
            fields[number] = kind, place + shift


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """A value of Thrift's compact protocol, and where it ends."""
    if kind in _INTEGERS:
        number, at = read_varint(data, at, len(data))
        return number >> 1 ^ -(number & 1), at
    if kind == _BINARY:
        size, at = read_varint(data, at, len(data))
        return data[at : at + size], at + size
    if kind in (_LIST, _SET):
        head, at = data[at], at + 1
        count, inner = head >> 4, head & 15
        if count == 15:
            count, at = read_varint(data, at, len(data))
        if inner in (_TRUE, _FALSE):  # in a list, a bool is a byte
            inner = _BYTE
        values = []
        for _ in range(count):
            value, at = _read(data, at, inner)
            values.append(value)
        return (inner, values), at
    if kind == _STRUCT:
        return _read_struct(data, at)
    width = _WIDTHS[kind]
    return data[at : at + width], at + width


def _read_struct(data: bytes, at: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read(data, at, _I16)
        kind = head & 15
        if kind in (_TRUE, _FALSE):  # as a field, its type says it
            fields[number] = kind, None
        else:
            value, at = _read(data, at, kind)
            fields[number] = kind, value
    return fields, at + 1


def _written(kind: int, value: Any) -> bytes:
    """A value in Thrift's compact protocol."""
    if kind in _INTEGERS:
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == _BINARY:
        return varint(len(value)) + value  # type: ignore[no-any-return]
    if kind in (_LIST, _SET):
        inner, values = value
        size = len(values)
        head = bytes((size << 4 | inner,)) if size < 15 else bytes((0xF0 | inner,)) + varint(size)
        return head + b"".join(_written(inner, each) for each in values)
    if kind == _STRUCT:
        parts, before = [], 0
        for number, (inner, field) in sorted(value.items()):
            if 0 < number - before < 16:
                parts.append(bytes((number - before << 4 | inner,)))
            else:
                parts.append(bytes((inner,)) + _written(_I16, number))
            if inner not in (_TRUE, _FALSE):
                parts.append(_written(inner, field))
            before = number
        return b"".join(parts) + b"\0"
    return value  # type: ignore[no-any-return]
