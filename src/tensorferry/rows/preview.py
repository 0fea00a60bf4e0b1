"""A preview of rows: their columns, and the first values of each, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import display
from tensorferry.cards import ROWS, Card, Grid, Tone, pairs
from tensorferry.errors import FerryError
from tensorferry.tensors.values import RaggedTensor, SparseTensor

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.rows.rows import Rows
    from tensorferry.tensors.infos import TensorInfo

# How many rows are shown, how many values of each list, and how many characters of a string.
HEAD = 3
VALUES = 4
CHARACTERS = 40
# A string is taken for text if so many of its bytes are.
LONGEST = 1 << 16


def card(rows: Rows, *, values: bool) -> Card:
    """What is shown of rows. Of a stream, and of a damaged file, only what needs no reading.

    Args:
        rows: The rows.
        values: Read the schema and the first rows, if that can be done twice.
    """
    files = [place.shown for place in rows.places]
    name = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    parts = [rows.format]
    lines: list[tuple[Tone, str]] = []
    grids: list[Grid] = []
    # A table of one file has read its schema already; of others, `repr` must not read anything.
    is_known = not rows.facts.records and len(files) == 1
    try:
        if not rows.is_stream and (values or is_known):
            count = rows.known_count()
            if count is not None:
                parts.append(display.plural(count, "row"))
            parts.append(display.plural(len(rows.columns), "column"))
            grids = [_columns(rows)] if values else []
        lines += [("note", note) for note in rows.notes]
    except (FerryError, OSError, ValueError) as error:
        lines.append(("bad", str(error).splitlines()[0]))
    fields = [("metadata", pairs(rows.metadata))] if values and not lines else []
    kind = type(rows).__name__
    return Card(kind, name, ", ".join(parts), fields=fields, grids=grids, lines=lines)


def _columns(rows: Rows) -> Grid:
    """The columns, each with the first values."""
    infos = rows.infos()
    shown = list(infos)[:ROWS]
    own = {} if rows.facts.records else _in_arrow(rows, infos)
    others = [name for name in shown if name not in own]
    optional = rows.optional if others else frozenset()
    head = list(_head(rows, others, optional))
    count = max([len(head), *(len(values) for _, values in own.values())])
    cells = []
    for name in shown:
        info = infos[name]
        if name in own:
            kind, values = own[name]
            first = [cell(value) for value in values]
            cells.append((name, kind, "", *first, *[""] * (count - len(first)), info.unreadable))
            continue
        sizes = info.shape[2:] if name in optional else info.shape[1:]
        shape = display.shape(sizes) if sizes else ""
        first = [cell(row[name]) for row in head]
        cells.append((name, info.dtype, shape, *first, *[""] * (count - len(first)), None))
    numbers = tuple(f"row {number}" for number in range(count))
    headers = ("column", "dtype", "shape", *numbers, "cannot be read")
    return Grid(headers, cells, total=len(infos), noun="column")


def _in_arrow(rows: Rows, infos: Mapping[str, TensorInfo]) -> dict[str, tuple[str, list[Any]]]:
    """The columns whose types tensors lack, such as times: Arrow's name for each, and values."""
    import pyarrow as pa

    kinds = {
        field.name: str(field.type)
        for field in rows.arrow_schema
        if field.name in infos
        and (infos[field.name].unreadable is not None or pa.types.is_temporal(field.type))
    }
    first = None
    if kinds and not any(place.is_url for place in rows.places):
        try:
            first = next(iter(rows.arrow_batches()), None)
        except (FerryError, OSError):
            first = None
    if first is None:
        return {name: (kind, []) for name, kind in kinds.items()}
    head = first.slice(0, HEAD)
    return {name: (kind, _plain(head.column(name))) for name, kind in kinds.items()}


def _plain(column: pa.Array) -> list[Any]:
    """The values of a column as texts; a type that Arrow cannot print stays without."""
    import pyarrow as pa

    try:
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException:
        return [None if value is None else str(value)[:CHARACTERS] for value in column.to_pylist()]


def _head(rows: Rows, columns: list[str], optional: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """The first rows, unless they are far away, or damaged."""
    if not columns or any(place.is_url for place in rows.places):
        return
    try:
        batch = next(iter(rows.batches(HEAD, columns=columns)), None)
    except (FerryError, OSError):
        return
    if not isinstance(batch, dict):
        return
    values = {name: _listed(batch[name], name in optional) for name in columns}
    for number in range(min(map(len, values.values()), default=0)):
        yield {name: column[number] for name, column in values.items()}


def _listed(column: Any, optional: bool) -> list[Any]:
    if isinstance(column, SparseTensor):
        return list(column.rows())
    found = list(column)
    if optional and isinstance(column, RaggedTensor):
        return [row[0] if len(row) else None for row in found]
    return found


def cell(value: Any) -> str:
    """A value on one line."""
    if value is None:
        return "–"  # noqa: RUF001
    if isinstance(value, RaggedTensor):
        return f"{_dtype(value)}{display.shape(value.shape)}"
    if isinstance(value, SparseTensor):
        return f"sparse {_dtype(value)}{display.shape(value.shape)}"
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return f"{_dtype(value)}{display.shape(value.shape)}"
    if isinstance(value, np.ndarray) and value.ndim:
        more = ", …" if len(value) > VALUES else ""
        return f"[{', '.join(_scalar(one) for one in value[:VALUES])}{more}]"
    return _scalar(value)


def _dtype(value: Any) -> str:
    return "string" if value.dtype == object else str(value.dtype)


def _text(data: bytes) -> str:
    """A string that is text, or how long it is."""
    try:
        return display.cut(display.clean(data[:LONGEST].decode()), CHARACTERS, end=True)
    except UnicodeDecodeError:
        return f"<{display.size(len(data))}>"


def _scalar(value: Any) -> str:
    item = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(item, bytes):
        return _text(item)
    return f"{item:.6g}" if isinstance(item, float) else str(item)
