"""Pages: memory of mapped files, which is given back after reading it, or lent to a program.

The pages of a mapped file count as memory of the process once they were touched, though the system
can take them away at any time. A reader that goes through a large file once gives back the pages it
has read: arrays stay valid, and reading them again brings the pages back.

Files are mapped privately (`system.map_file`), and a program may be given arrays that it can write
into: `lend`. The pages of such a map are not given back any more, because they may hold what the
program wrote.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from tensorferry.storage import system
from tensorferry.storage.system import Private

Array = np.ndarray[Any, Any]

# Giving pages back is a system call, which is not worth it for fewer bytes.
LEAST = 1 << 20


def release(value: Any) -> None:
    """Gives back the pages that an array or a view takes, if it lies in a mapped file."""
    if not isinstance(value, memoryview | np.ndarray) or value.nbytes < LEAST:
        return
    mapped = _clean_map_of(value)
    if mapped is None:
        return
    flat: Any = np.frombuffer(value, np.uint8) if isinstance(value, memoryview) else value
    if not flat.flags.forc:  # the bytes between may belong to another array
        return
    begin = flat.ctypes.data - address_of(mapped)
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
    return base if isinstance(base, mmap.mmap) else None


def _clean_map_of(view: Any) -> mmap.mmap | None:
    """The mapped file that an array or a view lies in, if all its pages are those of the file."""
    mapped = _map_of(view)
    if mapped is None or (mapped.lent if isinstance(mapped, Private) else not _is_readonly(mapped)):
        return None
    return mapped


def _is_readonly(mapped: mmap.mmap) -> bool:
    return memoryview(mapped).readonly


def lend(array: Array) -> Array:
    """The same array, writable where that changes neither a file nor what others hold.

    Views of a source that lends (`Source.lend`) are writable already. Others become so if their
    memory was made for them; bytes that a program gave stay read-only.
    """
    if array.flags.writeable or array.dtype.hasobject or not array.size:
        return array
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.base is None:  # memory of NumPy's own
        base.flags.writeable = array.flags.writeable = True
        return array
    owner: Any = base.base.obj if isinstance(base.base, memoryview) else base.base
    if isinstance(owner, Private):
        owner.lent = True
    elif isinstance(owner, np.ndarray):
        if not owner.flags.writeable:
            return array
    elif not isinstance(owner, bytearray):
        return array
    start = array.__array_interface__["data"][0] - address_of(owner)
    return np.ndarray(array.shape, array.dtype, owner, start, array.strides)


def is_constant(array: Array) -> bool:
    """Whether an array lies in a mapped file, and no program has an array to write into it."""
    mapped = None if array.flags.writeable else _map_of(array)
    return isinstance(mapped, Private) and not mapped.lent


def address_of(buffer: Any) -> int:
    """Where a buffer begins in memory."""
    return int(np.frombuffer(buffer, np.uint8, 1).__array_interface__["data"][0])


def is_mapped(value: Any) -> bool:
    """Whether an array is a view of a mapped file, which takes no memory of its own."""
    base = value
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def release_file(value: Any) -> None:
    """Gives back all pages of the mapped file that an array lies in, if it lies in one."""
    mapped = _clean_map_of(value)
    if mapped is not None:
        system.release_pages(mapped, 0, len(mapped))
