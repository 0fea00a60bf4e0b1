"""Sweeping: what killed writers left in a folder is removed by the next writer into it.

Sets that were decided get their names first (`tensorferry.storage.journal`). Then temporary files
and directories whose writer is dead are removed, and nothing else. Files of other systems, which
may share the folder without sharing locks, are removed when they are a day old. Sweeping never
waits for anybody, and never fails.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from tensorferry.storage import journal, temporary

DAY = 24 * 3600
# No more than this share of a process's time goes into looking for what others left.
SHARE = 0.01

_swept: dict[str, tuple[float, float]] = {}


def sweep(folder: str) -> None:
    """Removes what killed writers left in a folder, unless that was looked for just now."""
    last, took = _swept.get(folder, (0.0, 0.0))
    started = time.monotonic()
    if last and started - last < took / SHARE:
        return
    with suppress(OSError):
        names = os.listdir(folder)
        needed = journal.recover(folder, names)
        for name in names:
            found = temporary.NAME.fullmatch(name)
            path = os.path.join(folder, name)
            if found is not None and name not in needed and path not in temporary.live:
                _sweep(path, is_ours=found[1] == temporary.system())
    ended = time.monotonic()
    if len(_swept) > 1000:
        _swept.clear()
    _swept[folder] = ended, ended - started


def _sweep(path: str, *, is_ours: bool) -> None:
    """Removes a temporary file or directory, unless its writer is alive."""
    with temporary.opened(path) as descriptor:
        if descriptor is None:
            return
        if not is_ours and time.time() - os.fstat(descriptor).st_mtime < DAY:
            return
        is_dead = temporary.is_free(descriptor) and temporary.is_at(os.fstat(descriptor), path)
        if is_dead and temporary.give_back(path):
            temporary.remove(path)
