"""Tables of one file in the tests: written by a format's writer, read by its reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tensorferry.formats.table import to_read
from tensorferry.formats.tables.reads import TableOptions
from tensorferry.storage.place import Place


def read(
    data: bytes | memoryview,
    format: str,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All columns of a file, those that cannot be read among them, and its metadata."""
    how = TableOptions(columns=columns, verify=verify)
    table = to_read(format).reads_rows.open_all([Place(data)], how)
    with table:
        if columns is None:
            table = table.select([leaf.column for leaf in table.leaves()])
        return table.value(), table.note[1]


def varint(number: int) -> bytes:
    """A number as Thrift writes it."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def element(name: bytes, children: int | None = None) -> bytes:
    """A group, or a number, of a Parquet schema, in Thrift's compact protocol."""
    text = b"\x18" + varint(len(name)) + name
    if children is None:
        return b"\x15\x02\x25\x00" + text + b"\0"
    return b"\x35\x00" + text + b"\x15" + varint(2 * children) + b"\0"


def parquet_of(elements: list[bytes]) -> bytes:
    """A Parquet file of a schema without rows."""
    head = b"\x15\x02\x19\xfc" + varint(len(elements))
    footer = head + b"".join(elements) + b"\x16\x00\x19\x0c\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
