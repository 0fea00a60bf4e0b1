"""Splitting: the rows of files dealt out to several new ones, at random.

    split("all.parquet", ["train.parquet", "test.parquet"], ratio=[0.9, 0.1], by="user", seed=7)

Without a key, the files get as many rows as the ratio says, exactly. With a key, a digest of it
decides: all rows of a key go into one file, the file of a key depends on nothing but the key, the
ratio and the seed, and the numbers of rows are about what the ratio says, if there are many keys.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from tensorferry.display import plural
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations.convert import ConvertReport, convert
from tensorferry.operations.freight import (
    Carried,
    Freight,
    RowsReport,
    carried,
    format_of,
)
from tensorferry.operations.plain import plain
from tensorferry.operations.subject import open_one
from tensorferry.progress import Progress, following
from tensorferry.rows.permutation import Permutation
from tensorferry.storage.shards import parse_size
from tensorferry.tensors.values import Array


@keywords.shown(Carried)
def split(
    source: Any,
    targets: Sequence[str | os.PathLike[str]],
    *,
    ratio: Sequence[float],
    by: str | Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **how: Unpack[Carried],
) -> list[RowsReport]:
    """Distributes the rows of files at random to several new files, each in the original order.

        ferry.split("all.parquet", ["train.parquet", "test.parquet"], ratio=[0.9, 0.1], by="user")

    The same seed gives the same distribution, whatever the format and compression. All files appear
    together, or none.

    Args:
        source: Rows of any format, as `tensorferry.open` takes them.
        targets: Paths or URLs, one for each part.
        ratio: How large the parts are: [0.9, 0.1], or [9, 1].
        by: The column, or the columns, that belong together: all rows with the same values in them
            go into one file.
        seed: Chooses who goes where.
        progress: True shows a bar; a function is told how many rows are done, and how many there
            are.
        **how: How rows are read and written: see `tensorferry.operations.freight.Carried`.

    Raises:
        FileExistsError: A target exists, and `force` is not set.
        UnsupportedError: The source has no rows or no such column, or the number of targets is not
            that of `ratio`.

    Examples:
        >>> with ferry.writer("all.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(100)})
        >>> parts = ferry.split("all.tfrecord", ["a.tfrecord", "b.tfrecord"], ratio=[0.9, 0.1])
        >>> [part.count for part in parts]
        [90, 10]
    """
    paths = [os.fspath(target) for target in targets]
    ends = _ends(ratio, paths)
    keys = [by] if isinstance(by, str) else list(by or ())
    with (
        carried(source, paths, how) as (freight, outputs),
        following(progress, freight.subject.name, "rows") as tell,
    ):
        done, total = 0, freight.subject.count()
        dealt = _by_key(freight, keys, ends, seed) if keys else _by_number(freight, ends, seed)
        for part, places in dealt:
            for place in range(len(paths)):
                chosen = np.flatnonzero(places == place)
                if len(chosen) or not done:  # a table without rows has columns, too
                    outputs.add(freight.taken(part, chosen), place)
            done += len(places)
            if tell is not None:
                tell(done, total)
    return outputs.reports()


def _ends(ratio: Sequence[float], paths: Sequence[str]) -> Array:
    """Where the parts end, between 0 and 1.

    Raises:
        UnsupportedError: The ratio is none, or names and parts are not as many.
    """
    parts = [float(part) for part in ratio]
    if not parts or not all(math.isfinite(part) and part > 0 for part in parts):
        raise UnsupportedError(
            f"the ratio is {list(ratio)}, expected positive numbers", hint="as in 0.9,0.1"
        )
    if len(parts) != len(paths):
        raise UnsupportedError(
            f"the ratio has {plural(len(parts), 'part')} for {plural(len(paths), 'file')} to write",
            hint="name one file for each part, as in 0.9,0.1 for two",
        )
    if len(set(map(os.path.abspath, paths))) != len(paths):
        raise UnsupportedError("two parts would be written into one file", path=paths[0])
    ends: Array = np.cumsum(parts) / sum(parts)
    return ends


def _by_number(freight: Freight, ends: Array, seed: int) -> Iterator[tuple[Any, Array]]:
    """Parts, and the file of each row: so many rows each, in a shuffled order."""
    order = Permutation(freight.count(), (seed,))
    stops = np.round(ends * order.size).astype(np.int64)
    first = 0
    for part in freight.parts():
        length = freight.length(part)
        places = order.places(np.arange(first, first + length))
        yield part, np.searchsorted(stops, places, side="right")
        first += length


def _by_key(
    freight: Freight, keys: Sequence[str], ends: Array, seed: int
) -> Iterator[tuple[Any, Array]]:
    """Parts, and the file of each row, which its key decides."""
    salt = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    for part, rows in freight.with_columns(keys):
        drawn = [_drawn([row[key] for key in keys], salt) for row in rows]
        found = np.searchsorted(ends, np.array(drawn), side="right")
        yield part, np.minimum(found, len(ends) - 1)


def _drawn(values: Sequence[Any], salt: bytes) -> float:
    """A number from 0 to 1 that depends on the values of a key alone, whatever their dtypes."""
    digest = hashlib.blake2b(key=salt, digest_size=8)
    for value in values:
        data = value if isinstance(value, bytes) else repr(plain(value)).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(digest.digest(), "little") / 2**64


def divide(
    source: Any,
    target: str,
    *,
    shards: int | None = None,
    rows: int | None = None,
    shard_size: int | str | None = None,
    format: str | None = None,
    compression: str | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> ConvertReport:
    """Writes rows into a set of shards, in their order: "OUT-00000-of-00010" and so on.

    Args:
        source: Rows of any format, as `tensorferry.open` takes them.
        target: The name of the set.
        shards: The number of files.
        rows: The maximum number of rows per file.
        shard_size: Into files of about this size, as the source is stored.
        format: By default that of the target's ending, or that of the source.
        compression: As in `tensorferry.writer`.
        force: Replace existing files.
        progress: As in `tensorferry.convert`.

    Raises:
        UnsupportedError: The source has no rows, or a stream does not say how many.
    """
    with open_one(source) as subject:
        facts = format_of(target, subject.format, format)
        if rows is not None:
            count = subject.count()
            if count is None:
                raise UnsupportedError(
                    "a stream or a remote file does not tell how many rows there are",
                    path=subject.name,
                    hint="copy it into a local file first",
                )
            shards = max(1, -(-count // rows))
        if shard_size is not None:
            shards = max(1, -(-(subject.nbytes() or 0) // parse_size(shard_size)))
    return convert(
        source,
        target,
        format=facts.name,
        shards=shards,
        compression=compression,
        force=force,
        progress=progress,
    )
