"""Tables of one file in the tests: written by a format's writer, read by its reader."""

from __future__ import annotations

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
