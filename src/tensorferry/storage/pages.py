"""Pages: what a process keeps of the files it has mapped, given back when it was read.

The pages of a mapped file count as memory of the process once they were touched, though the system
can take them away at any time. Who reads a large file once, from its start to its end, gives back
what lies behind: the arrays stay valid, and reading them again brings the pages back.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

# It costs a call into the system: not worth it for less.
LEAST = 1 << 20


def release(value: Any) -> None:
    """Gives back the pages of a mapped file that an array or a view of it lies in, if it does."""
    if not isinstance(value, memoryview | np.ndarray) or value.nbytes < LEAST:
        return
    mapped = _map_of(value)
    if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    flat: Any = np.frombuffer(value, np.uint8) if isinstance(value, memoryview) else value
    if not flat.flags.forc:  # what lies between may be another's
        return
    begin = flat.ctypes.data - np.frombuffer(mapped, np.uint8, 1).ctypes.data
    # Whole pages only: what lies beside belongs to others.
    start = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (begin + flat.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop > start:
        mapped.madvise(mmap.MADV_DONTNEED, start, stop - start)


def _map_of(view: Any) -> mmap.mmap | None:
    """The mapped file that something is a view of."""
    base = view
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    # Only what cannot be written: other pages are more than a copy of a file.
    is_mapped = isinstance(base, mmap.mmap) and memoryview(base).readonly
    return base if is_mapped else None
