"""Indexes: text files beside TFRecord files that say where the records are.

    0 154
    154 171

Each line is the offset and the length of a frame: DALI and tfrecord (PyPI) read and write the same.
An index that does not fit its file is passed over, and the file is scanned instead. What the scan
of a large file found is kept in the user's cache, under the name, size and time of the file: the
lengths of its frames, 8 bytes each.
"""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np

from tensorferry import _native
from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord.frames import FOOTER, HEADER, Frames, Status, locate
from tensorferry.storage import Sink, cache, leftovers
from tensorferry.tensors.values import Array

SUFFIXES = (".idx", ".index")
# The number of places of an index that are looked at to see whether it fits its file.
PROBES = 64
# Files of fewer bytes are scanned each time they are opened, which takes a moment.
REMEMBERED = 256 << 20


def build(frames: Frames) -> Array:
    """Offset and length of the data of every record of an uncompressed file: int64 [records, 2].

    Args:
        frames: The file, or a part of it, from its start.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: The file is compressed, remote or a stream: there is no way to its middle.
    """
    if not frames.mapped:
        kind, hint = f"{frames.compression} file", "without compression there is random access"
        if frames.compression is None:
            kind, hint = "stream", "a local file has random access"
            if frames.size is not None:
                kind, hint = "remote file", "copy it into a local file for random access"
        raise UnsupportedError(
            f"records of a {kind} can only be read in order",
            path=frames.path,
            hint=f"next(rows.batches(5)) has the first ones; {hint}",
        )
    indexes = [np.empty((0, 2), np.int64)]
    for segment in frames:
        if segment.verify:
            segment.check()
        indexes.append(locate(segment.buffer, segment.start, segment.count, verify=False))
    return np.concatenate(indexes)


def read(path: str, buffer: memoryview) -> Array | None:
    """The index beside a file, if there is one and it fits the file's bytes."""
    for suffix in SUFFIXES:
        name = path + suffix
        if not os.path.isfile(name) or os.path.getmtime(name) < os.path.getmtime(path):
            continue
        index = _parse(name, buffer.nbytes)
        if index is not None and _fits(index, buffer):
            return index
    return None


def _parse(name: str, size: int) -> Array | None:
    """The index in a text file, if its frames follow each other to the end of a file's bytes."""
    with open(name, "rb") as file:
        # No line is longer than two numbers, and no frame shorter than its header and footer.
        text = file.read(size // (HEADER + FOOTER) * 42 + 1)
    try:
        frames = np.array(text.split(), np.int64).reshape(-1, 2)
    except (ValueError, OverflowError):
        return None
    index = _of_frames(frames[:, 1], size)
    fits = index is not None and np.array_equal(frames[:, 0], index[:, 0] - HEADER)
    return index if fits else None


def _of_frames(lengths: Array, size: int) -> Array | None:
    """The index of frames of some lengths, if they follow each other to the end of a file."""
    if ((lengths < HEADER + FOOTER) | (lengths > size)).any():
        return None
    ends = np.cumsum(lengths)
    if (int(ends[-1]) if len(ends) else 0) != size:
        return None
    return np.stack([ends - lengths + HEADER, lengths - (HEADER + FOOTER)], axis=1)


def recall(path: str, buffer: memoryview) -> Array | None:
    """The index of a large file that was scanned before, if it is still the same file."""
    file = _remembered(path, buffer.nbytes)
    if file is None:
        return None
    data = leftovers.read_bytes(file, buffer.nbytes // (HEADER + FOOTER) * 8)
    if data is None or len(data) % 8:
        return None
    index = _of_frames(np.frombuffer(data, "<i8"), buffer.nbytes)
    return index if index is not None and _fits(index, buffer) else None


def remember(path: str, size: int, index: Array) -> None:
    """Keeps the index of a large file for the next time; where that is not possible, nothing."""
    file = _remembered(path, size)
    if file is not None:
        lengths = (index[:, 1] + (HEADER + FOOTER)).astype("<i8")
        with suppress(OSError):
            cache.keep(lengths.tobytes(), os.path.dirname(file), file)


def _remembered(path: str, size: int) -> str | None:
    """Where the index of a file is kept; None if the file is small, or if there is no cache."""
    if size < REMEMBERED:
        return None
    with suppress(OSError):
        place = cache.folder("indexes")
        path = os.path.realpath(path)
        found = os.stat(path)
        version = f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
        return None if place is None else os.path.join(place, cache.name_of(path, "", version))
    return None


def _fits(index: Array, buffer: memoryview) -> bool:
    """Whether records stand where an index says, as far as a few of them tell."""
    if not len(index):
        return buffer.nbytes == 0
    for row in np.linspace(0, len(index) - 1, PROBES, dtype=np.int64):
        offset, length = index[row].tolist()
        found = _native.tfrecord_scan(buffer, offset - HEADER, 1, False)
        if found != (1, offset + length + FOOTER, Status.RECORD):
            return False
    return True


def write(index: Array, sink: Sink) -> None:
    """Writes an index as text."""
    frames = index + np.array([-HEADER, HEADER + FOOTER])
    lines = "".join(f"{offset} {length}\n" for offset, length in frames.tolist())
    sink.write(lines.encode())
