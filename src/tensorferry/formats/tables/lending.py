"""Memory that is lent to PyArrow: its threads give it back before Python ends.

PyArrow decodes columns in threads of its own. When the thread that lets go of a Python object last
is one of those, it needs the GIL for it; if Python is ending just then, the thread is stopped
inside of C++ code, and the process is aborted ("terminate called without an active exception").
So whatever readers lend is noted here. At the end of the process, readers let go of their files,
and the process waits for the threads, which takes them next to no time.
"""

from __future__ import annotations

import atexit
import time
import weakref
from typing import Any, Protocol

PATIENCE = 0.5
"""Number of seconds to wait: arrays that users hold may keep what was lent, too."""


class Borrower(Protocol):
    """A reader that hands its file to PyArrow."""

    def release(self) -> None:
        """Lets go of everything that PyArrow made of the file."""


_lent: dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]] = {}


def lend(thing: Any, borrower: Borrower) -> None:
    """Notes that a reader lends a memoryview or a file object to PyArrow."""
    if not _lent:
        atexit.unregister(settle)
        atexit.register(settle)
    number = id(thing)
    _lent[number] = (
        weakref.ref(thing, lambda _: _lent.pop(number, None)),
        weakref.ref(borrower),
    )


def settle() -> None:
    """Takes back what was lent: called when Python ends."""
    waiting = []
    for thing, borrower in list(_lent.values()):
        reader = borrower()
        if reader is not None:
            reader.release()
        del reader
        waiting.append(thing)
    until = time.monotonic() + PATIENCE
    while any(thing() is not None for thing in waiting) and time.monotonic() < until:
        time.sleep(0.001)
