"""Splitting: divides the rows of files into splits of about equal size, to read in parallel."""

from __future__ import annotations

from tensorferry.classes import replace
from tensorferry.errors import UnsupportedError
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split
from tensorferry.storage import listing


def splits_of(rows: Rows, size: int, *, least: int = 1) -> list[Split]:
    """Divides rows into splits of about this many bytes, each decoded by one thread.

    Args:
        rows: Of files.
        size: Number of bytes.
        least: The minimum number of splits, if the files allow it.

    Raises:
        UnsupportedError: A stream cannot be divided.
    """
    refuse_stream(rows)
    listing.learn(rows.places)
    total = sum(place.size() or 0 for place in rows.places)
    splits = rows.splits(max(least, -(-total // size), 1))
    if len(splits) == 1:
        return splits
    if not rows.facts.records:
        return splits
    from tensorferry.formats.tfrecord.options import RecordOptions

    hows = {id(split.how): split.how for split in splits}
    single = {
        key: replace(how, threads=1) for key, how in hows.items() if isinstance(how, RecordOptions)
    }
    return [replace(split, how=single[id(split.how)]) for split in splits]


def refuse_stream(rows: Rows) -> None:
    """Refuses what only this process can read.

    Raises:
        UnsupportedError: It is a stream.
    """
    if rows.is_stream:
        raise UnsupportedError(
            "a stream has one reader, and an engine has many",
            path=rows.place.path,
            hint="copy the stream into a file, or leave engine= out",
        )
