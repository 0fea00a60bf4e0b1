"""Dealing: record batches of a file, cut into batches of as many rows as somebody asks for.

Batches that lie in one record batch come together, several at a time: what PyArrow does for a slice
of a column takes longer than NumPy takes to cut an array. A batch that reaches over the end of a
record batch comes alone, in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CONVERTED = 1 << 20
"""About so many bytes of columns become arrays at a time: of strings, all are objects then."""


def dealt(
    batches: Iterable[pa.RecordBatch], rows: int, *, most: int | None
) -> Iterator[tuple[list[pa.RecordBatch], int]]:
    """Slices of record batches, and how many rows they have together.

    That is a multiple of `rows`, except at the end; several slices make up one batch.

    Args:
        batches: The record batches.
        rows: Number of rows of a batch.
        most: About how many bytes come together; None for as many as there are.
    """
    parts: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        count, start = batch.num_rows, 0
        together = _together(batch, rows, most)
        while start < count:
            size = min(missing, count - start)
            if not parts and size == rows:
                size = min(together, (count - start) // rows * rows)
                yield [_slice(batch, start, size)], size
            else:
                parts.append(_slice(batch, start, size))
                missing -= size
                if not missing:
                    yield parts, rows
                    parts, missing = [], rows
            start += size
    if parts:
        yield parts, rows - missing


def _slice(batch: pa.RecordBatch, start: int, size: int) -> pa.RecordBatch:
    """Some rows of a record batch, which may be all of them."""
    return batch if size == batch.num_rows else batch.slice(start, size)


def _together(batch: pa.RecordBatch, rows: int, most: int | None) -> int:
    """How many rows of a record batch come together: a multiple of those of a batch."""
    count: int = batch.num_rows
    if most is None or count <= rows:
        return max(rows, count // rows * rows)
    each: int = max(1, batch.get_total_buffer_size() // count)
    return max(1, most // (each * rows)) * rows
