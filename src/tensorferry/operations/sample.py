"""Sampling: some rows at random, in the order in which they are stored.

    sample("train.tfrecord", "some.tfrecord", 1000, seed=7)
    sample("train-*.parquet", "tenth.parquet", 0.1)

The sample is what comes first if the rows are shuffled with the same seed. Nothing but one part of
the rows is in memory, and of uncompressed TFRecords only the chosen records are read.
"""

from __future__ import annotations

import os
from typing import Any, Unpack

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations.freight import (
    Carried,
    Freight,
    Outputs,
    RowsReport,
    carried,
    numbered,
)
from tensorferry.progress import Progress, following
from tensorferry.rows.permutation import Permutation

# How many records are looked up at a time.
TOGETHER = 256


@keywords.shown(Carried)
def sample(
    source: Any,
    target: str | os.PathLike[str],
    size: int | float,
    *,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **how: Unpack[Carried],
) -> RowsReport:
    """Writes a random sample of the rows to a new file, in their original order.

        ferry.sample("train-*.tfrecord", "some.tfrecord", 1000, seed=7)

    Every row is equally likely, and none is chosen twice. The same seed chooses the same rows,
    whatever the format and compression.

    Args:
        source: Rows of any format, as `tensorferry.open` takes them.
        target: A path or URL, or "-" for the standard output.
        size: How many rows, or which part of them: a float from 0.0 to 1.0.
        seed: Chooses the sample.
        progress: True shows a bar; a function is told how many rows are done, and how many there
            are.
        **how: How rows are read and written: see `tensorferry.operations.freight.Carried`.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
        UnsupportedError: The source has no rows, or the size is negative or a float above 1.0.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(100)})
        >>> ferry.sample("train.tfrecord", "some.tfrecord", 5).count
        5
    """
    _check(size)
    path = os.fspath(target)
    with (
        carried(source, [path], how) as (freight, outputs),
        following(progress, path, "rows") as tell,
    ):
        total = freight.count()
        wanted = round(size * total) if isinstance(size, float) else min(size, total)
        order = Permutation(total, (seed,))
        _write(freight, outputs, order, wanted, tell)
    return outputs.reports()[0]


def _check(size: int | float) -> None:
    if isinstance(size, float) and not 0.0 <= size <= 1.0:
        raise UnsupportedError(
            f"the sample is {size} of the rows, expected 0.0 to 1.0",
            hint="a number of rows is an integer",
        )
    if size < 0:
        raise UnsupportedError(f"the sample has {size} rows, expected 0 or more")


def _write(
    freight: Freight, outputs: Outputs, order: Permutation, wanted: int, tell: Progress | None
) -> None:
    """Writes the rows whose places in an order are the first ones."""
    if freight.is_seekable:
        chosen = np.sort(order.at(np.arange(wanted)))
        for start in range(0, wanted, TOGETHER):
            outputs.add(freight.at(chosen[start : start + TOGETHER]))
            if tell is not None:
                tell(min(start + TOGETHER, wanted), wanted)
        return
    for first, part in numbered(freight.parts(), freight):
        length = freight.length(part)
        places = order.places(np.arange(first, first + length))
        outputs.add(freight.taken(part, np.flatnonzero(places < wanted)))
        if tell is not None:
            tell(first + length, order.size)
