"""Indexes: text files beside TFRecord files that say where the records are.

    0 154
    154 171

Each line is the offset and the length of a frame: DALI and tfrecord (PyPI) read and write the same.
An index that does not fit its file is passed over, and the file is scanned instead.
"""

from __future__ import annotations

import os

import numpy as np

from tensorferry import _native
from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord.frames import FOOTER, HEADER, Frames, Status, locate
from tensorferry.storage import Sink
from tensorferry.tensors.values import Array

SUFFIXES = (".idx", ".index")
# The number of places of an index that are looked at to see whether it fits its file.
PROBES = 64


def build(frames: Frames) -> Array:
    """Offset and length of the data of every record of an uncompressed file: int64 [records, 2].

    Args:
        frames: The file, or a part of it, from its start.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: The file is compressed, remote or a stream: there is no way to its middle.
    """
    if not frames.mapped:
        kind, hint = frames.compression, "write the file without compression for random access"
        if kind is None and frames.size is not None:
            kind, hint = "remote file", "copy it into a local file"
        raise UnsupportedError(
            f"records of a {kind or 'stream'} can only be read in order",
            path=frames.path,
            hint=hint,
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
    lengths = frames[:, 1] - (HEADER + FOOTER)
    if ((lengths < 0) | (lengths > size)).any():
        return None
    starts = np.concatenate([[0], np.cumsum(frames[:, 1])])
    if starts[-1] != size or not np.array_equal(frames[:, 0], starts[:-1]):
        return None
    return np.stack([frames[:, 0] + HEADER, lengths], axis=1)


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
