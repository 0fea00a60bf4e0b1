"""Dividing record files: parts that can be read alone, cut where a record ends.

Only uncompressed local files are cut, by walking over the lengths of their records: the data is not
looked at. Compressed and remote files are parts as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tensorferry import _native
from tensorferry.classes import replace
from tensorferry.formats.tfrecord.frames import HEADER, MANY, PIECE, Status, detect_compression
from tensorferry.rows.splits import Part
from tensorferry.storage import listing
from tensorferry.storage.pages import release
from tensorferry.storage.place import OPEN_AT_ONCE

# No cut is as close to the start or end of a file as this part of a split.
NEAR = 10
# Number of objects that are opened at a time, to ask for their sizes.
REQUESTS = 32
# Of files up to this size the records are counted first, so that no split is without any.
COUNTED = 64 << 20


def divide(parts: Sequence[Part], count: int, *, counted: bool) -> list[Part]:
    """Parts of files, cut so that so many splits of about one size can be made of them.

    Args:
        parts: Files, or parts of them.
        count: Number of splits wanted.
        counted: Whether each record is a row, so that the parts know their number of rows.

    Raises:
        ValueError: The count is less than 1.
    """
    if count < 1:
        raise ValueError(f"{count} splits, expected 1 or more")
    sized = _with_sizes(parts)
    total = sum(part.nbytes or 0 for part in sized)
    near = total // count // NEAR
    divided: list[Part] = []
    before = 0
    for part in sized:
        size = part.nbytes or 0
        ends = []
        if size:
            # The ends of splits that fall into this part, from its start.
            numbers = range(before * count // total + 1, (before + size) * count // total + 1)
            ends = [number * total // count - before for number in numbers]
            ends = [end for end in ends if near < end < size - near]
        divided += _cut(part, ends, counted) if ends else [part]
        before += size
    return divided


def _with_sizes(parts: Sequence[Part]) -> list[Part]:
    """Parts that know how many bytes of their files they take, from listings where there are any.

    Files that no listing shows are opened, many at a time.
    """
    listing.learn(part.place for part in parts if part.nbytes is None)
    size = partial(_with_size, close=len(parts) > OPEN_AT_ONCE)
    asked = sum(
        part.nbytes is None and part.place.is_url and not part.place.is_known for part in parts
    )
    if asked < 2:
        return list(map(size, parts))
    with ThreadPoolExecutor(min(asked, REQUESTS)) as pool:
        return list(pool.map(size, parts))


def _with_size(part: Part, *, close: bool) -> Part:
    """A part that knows how many bytes of its file it takes."""
    if part.nbytes is not None:
        return part
    was_open = part.place.is_open
    size = part.place.size() if part.stop is None else part.stop
    if close and not was_open and part.place.is_named:
        part.place.close()
    return replace(part, nbytes=None if size is None else size - (part.start or 0))


def _walk(window: memoryview, position: int, most: int) -> tuple[int, int, int]:
    """Goes over frames piece by piece, and gives back the pages of each.

    Args:
        window: Whose end is the end of the way.
        position: Where a frame starts.
        most: The most frames.

    Returns:
        Number of whole frames, where the last of them ends, and what is there: see `Status`.
    """
    count = 0
    while True:
        piece = window[: position + PIECE]
        found, stop, status = _native.tfrecord_scan(piece, position, most - count, False)
        if not found and len(piece) < len(window):  # a frame that is longer than a piece
            found, stop, status = _native.tfrecord_scan(window, position, 1, False)
        release(window[position:stop])
        count, position = count + found, stop
        if not found or count == most or stop == len(window):
            return count, position, status


def _cut(part: Part, ends: Sequence[int], counted: bool) -> Iterator[Part]:
    """A part, cut behind the last record before each of the ends, or behind a longer one."""
    if part.place.is_url:
        yield part
        return
    source = part.place.open()
    if source.buffer is None:
        yield part
        return
    if part.start is None and detect_compression(bytes(source.buffer[:HEADER])) is not None:
        yield part
        return
    window = source.buffer[: part.stop]
    start = position = part.start or 0
    number = part.first
    records = MANY
    if len(window) - start <= COUNTED:
        records = _walk(window, start, MANY)[0]
    for index, end in enumerate(ends):
        # One record at least is left for each of the parts behind.
        most = records - (len(ends) - index)
        if most < 1:
            continue
        found, stop, _ = _walk(window[: max(start + end, position)], position, most)
        if not found:
            found, stop, _ = _native.tfrecord_scan(window, position, 1, False)
        if not found:  # the end, or damage: whoever reads the rest is told
            break
        yield Part(
            part.place,
            part.start if number == part.first else position,
            stop,
            number,
            found if counted else None,
            stop - position,
        )
        position, number, records = stop, number + found, records - found
    if position == start:
        yield part
    elif position < len(window):
        found, _, status = _walk(window, position, MANY)
        rows = found if counted and status == Status.END else None
        yield Part(part.place, position, part.stop, number, rows, len(window) - position)


def alone(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts that one reader gets: those that follow each other in a file are one part of it.

    Files that have a name are opened anew, so that each reader closes its own.
    """
    joined: list[Part] = []
    for part in parts:
        if joined and _follows(part, joined[-1]):
            joined[-1] = _sum(joined[-1], part)
        else:
            joined.append(part)
    return tuple(
        replace(part, place=part.place.at(part.place.path)) if part.place.is_named else part
        for part in joined
    )


def _follows(part: Part, before: Part) -> bool:
    same = part.place is before.place
    return same and before.stop is not None and before.stop == part.start


def _sum(one: Part, other: Part) -> Part:
    known = one.rows is not None and other.rows is not None
    return replace(
        one,
        stop=other.stop,
        rows=(one.rows or 0) + (other.rows or 0) if known else None,
        nbytes=(one.nbytes or 0) + (other.nbytes or 0),
    )
