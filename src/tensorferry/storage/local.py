"""Local files that are read instead of mapped: what `mmap=False` gives.

A mapped file that another process cuts ends this one (SIGBUS) as soon as a byte behind the new end
is touched. Here every range is read (`pread`) into memory of its own when it is asked for, and a
file that has become shorter is an error.
"""

from __future__ import annotations

import os
import stat
from typing import Any

import numpy as np

from tensorferry.errors import FormatError
from tensorferry.storage import system
from tensorferry.storage.ranged import RangedSource
from tensorferry.storage.source import Source, shorter
from tensorferry.storage.temporary import identity


def open_unmapped(path: str) -> Source:
    """A source of a local file that maps nothing; a pipe is a stream, as ever.

    Raises:
        FormatError: The path is a directory.
        OSError: The system's own error, such as FileNotFoundError.
    """
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115
    except IsADirectoryError:
        raise FormatError("is a directory, expected a file", path=path) from None
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or not found.st_size:  # files of /proc have no size
        return Source(path, file=file, owned=True)
    source = ReadSource(path, file, found.st_size)
    source.identity = identity(found)
    return source


class ReadSource(RangedSource):
    """A local file of which ranges are read."""

    def __init__(self, path: str, file: Any, size: int) -> None:
        super().__init__(path, size)
        self._opened = file

    def fetch(self, start: int, stop: int) -> memoryview:
        """Reads a range; fewer bytes if the file has become shorter."""
        target = np.empty(stop - start, np.uint8)
        count = self._read_into(start, target)
        return target.data[:count].toreadonly()

    def _fill(self, start: int, target: np.ndarray[Any, Any]) -> memoryview:
        count = self._read_into(start, target)
        if count < len(target):
            raise shorter(self.path, start + count, start + len(target))
        return target.data

    def _exactly(self, start: int, stop: int) -> memoryview:
        data = self.fetch(start, stop)
        if len(data) < stop - start:
            raise shorter(self.path, start + len(data), stop)
        return data

    def _read_into(self, start: int, target: np.ndarray[Any, Any]) -> int:
        position = 0
        while position < len(target):
            view = target[position:].data
            count = system.read_into(self._opened.fileno(), view, start + position)
            if not count:
                break
            position += count
        return position

    def _another(self) -> ReadSource:
        # A descriptor of its own: closing one of the two leaves the other open.
        file = open(os.dup(self._opened.fileno()), "rb", buffering=0)  # noqa: SIM115
        return ReadSource(self.path, file, self.size)

    def close(self) -> None:
        """Closes the file; arrays stay valid."""
        super().close()
        self._opened.close()
