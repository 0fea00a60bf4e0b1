"""Sampling: how many bytes rows take in memory, before they are read.

The bytes of a file say little: records are compressed, numbers are varints, and some columns are
not wanted. A few rows are decoded from the first file, the last one and one in the middle, and what
they take in memory is compared with what they take in their files.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import islice

from tensorferry.classes import dataclass, replace
from tensorferry.formats.contract import RowOptions
from tensorferry.ray.blocks import Layout
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Part, Split

ROWS = 256
"""Number of rows that are decoded of each file in the sample."""


@dataclass(frozen=True)
class Sample:
    """What some rows take.

    Attributes:
        rows: Number of rows in the sample.
        memory: Number of bytes they take in memory, as Arrow's columns.
        stored: Number of bytes they take in their files, about.
    """

    rows: int = 0
    memory: int = 0
    stored: int = 0

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            self.rows + other.rows, self.memory + other.memory, self.stored + other.stored
        )

    @property
    def per_row(self) -> float:
        """Number of bytes of memory for a row."""
        return self.memory / self.rows if self.rows else 0.0

    def memory_of(self, split: Split) -> int | None:
        """Number of bytes that the rows of a split take in memory; None where nothing tells."""
        if split.rows is not None:
            return int(split.rows * self.per_row)
        if split.nbytes is None or not self.stored:
            return split.nbytes
        return int(split.nbytes * self.memory / self.stored)


def sample(whole: Split, layout: Layout, *, compressed: bool) -> Sample:
    """Decodes some rows of a few files.

    Args:
        whole: All rows.
        layout: How Ray gets the columns.
        compressed: Whether the files are compressed as a whole.
    """
    files = list({part.place.path: part for part in whole.parts}.values())
    chosen = {0, len(files) // 2, len(files) - 1} if files else set()
    total = Sample()
    for number in sorted(chosen):
        total += _of_file(whole, files[number], layout, compressed)
    return total


def _of_file(whole: Split, part: Part, layout: Layout, compressed: bool) -> Sample:
    with _opened(whole, part, whole.how) as rows:
        batch = next(iter(rows.batches(ROWS, to="arrow")), None)
        if not isinstance(batch, list) and batch is not None:
            count, memory = batch.num_rows, layout.apply(batch).nbytes
        else:  # records as bytes
            records = batch or []
            count, memory = len(records), sum(map(len, records)) + 4 * len(records)
    stored = 0
    if whole.facts.records and part.rows is None and count:
        with _opened(whole, part, whole.how) as rows:
            stored = _stored(list(islice(rows.bytes_of_records(), count)), compressed)
    return Sample(count, memory, stored)


def _opened(whole: Split, part: Part, how: RowOptions) -> Rows:
    fresh = replace(part, place=part.place.at(part.place.path)) if part.place.is_named else part
    return whole.kind.of_parts([fresh], how, facts=whole.facts)


def _stored(records: Sequence[bytes], compressed: bool) -> int:
    """Number of bytes that records take in a file: with their frames, and compressed as it is."""
    if compressed:
        return len(zlib.compress(b"".join(records), 1)) + 4 * len(records)
    return sum(map(len, records)) + 16 * len(records)
