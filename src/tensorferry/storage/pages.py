"""Pages: memory of mapped files that a process gives back after reading it.

The pages of a mapped file count as memory of the process once they were touched, though the system
can take them away at any time. A reader that goes through a large file once gives back the pages it
has read: arrays stay valid, and reading them again brings the pages back.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from tensorferry.storage import system

# Giving pages back is a system call, which is not worth it for fewer bytes.
LEAST = 1 << 20


def release(value: Any) -> None:
    """Gives back the pages that an array or a view takes, if it lies in a mapped file."""
    if not isinstance(value, memoryview | np.ndarray) or value.nbytes < LEAST:
        return
    mapped = _map_of(value)
    if mapped is None:
        return
    flat: Any = np.frombuffer(value, np.uint8) if isinstance(value, memoryview) else value
    if not flat.flags.forc:  # the bytes between may belong to another array
        return
    begin = flat.ctypes.data - np.frombuffer(mapped, np.uint8, 1).ctypes.data
    # Only whole pages: the rest of the first and last page belongs to others.
    start = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (begin + flat.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop > start:
        system.release_pages(mapped, start, stop - start)


def _map_of(view: Any) -> mmap.mmap | None:
    """The mapped file that an array or a view lies in."""
    base = view
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    # Only read-only maps: pages of others may hold what no file has.
    is_mapped = isinstance(base, mmap.mmap) and memoryview(base).readonly
    return base if is_mapped else None


def is_mapped(value: Any) -> bool:
    """Whether an array is a view of a mapped file, which takes no memory of its own."""
    base = value
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def release_file(value: Any) -> None:
    """Gives back all pages of the mapped file that an array lies in, if it lies in one."""
    mapped = _map_of(value)
    if mapped is not None:
        system.release_pages(mapped, 0, len(mapped))
