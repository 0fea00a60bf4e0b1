"""Signals that end the command, which then leaves nothing behind.

SIGTERM (`kill`, a container that stops) and SIGHUP (a terminal that closes) end a program at once,
with its temporary files left where they are. Here they are raised like Ctrl-C, so that everything
is closed on the way out. A library does not do that: signals belong to the program, and what a
killed program leaves is removed by the next writer into the folder.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

ENDS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]


class Ended(BaseException):  # as KeyboardInterrupt, it is no error
    """The system or the user wants the command to end.

    Attributes:
        code: The exit code: 128 and the number of the signal, as shells have it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


@contextmanager
def raised() -> Iterator[None]:
    """Raises `Ended` in the block when a signal asks for the end; the next signal is not held up.

    A signal that is ignored, as SIGHUP is below `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Ended(number)

    held = [number for number in ENDS if signal.getsignal(number) == signal.SIG_DFL]
    for number in held:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, signal.SIG_DFL)


def cuts_raised() -> AbstractContextManager[None]:
    """Raises an error in the block when another program cuts a mapped file that is read."""
    from tensorferry.storage import cuts  # imported late: `ferry --help` reads no file

    return cuts.raised()
