"""Mapped files that another program cuts: an error, in a program that owns its process.

    with cuts.raised():
        ...

Whoever touches a byte behind the new end of a mapped file ends the process (SIGBUS). In this block
the bytes that are gone read as zeros instead, and `TruncatedError` is raised in the main thread
before it does anything else. Bytes in the last page of what is left read as zeros without a signal,
so the sizes of all files are looked at before a file is written, and at the end of the block. The
command works like that. The library does not: a signal belongs to the program.
"""

from __future__ import annotations

import errno
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from tensorferry import _native
from tensorferry.errors import TruncatedError
from tensorferry.storage import source

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_SIGNAL = vars(signal).get("SIGBUS")


@contextmanager
def raised() -> Iterator[None]:
    """Raises an error in the block when a mapped file turns out to be cut.

    Raises:
        TruncatedError: One was.
    """
    if _SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    found, watch = pages(), _Watch()
    before = signal.signal(_SIGNAL, watch.on_signal)
    hook, sys.unraisablehook = sys.unraisablehook, watch.on_unraisable
    _native.watch_cuts()
    source.watch = source.Watch()
    try:
        yield
        watch.end()
    except OSError as error:
        if error.errno == errno.EFAULT:  # the system found it first, in a call of its own
            _name()
        raise
    finally:
        source.watch = None
        sys.unraisablehook = hook
        if pages() == found:
            _native.unwatch_cuts()
            signal.signal(_SIGNAL, before)
        else:
            watch.is_quiet = True  # other threads may still read what is gone, until the end


@contextmanager
def noted() -> Iterator[None]:
    """Raises nothing in a part of the block, which looks with `check` itself: see `ferry view`."""
    handler = None if _SIGNAL is None else signal.getsignal(_SIGNAL)
    watch = getattr(handler, "__self__", None)
    if not isinstance(watch, _Watch):
        yield
        return
    watch.is_quiet, source.watch = True, source.Watch()
    try:
        yield
    finally:
        watch.go_on()


class _Watch:
    """What Python calls when pages were gone.

    Each file is told of once. Other threads still read it, and each page of it is a signal, while
    the error is made and everything is closed on its way out.
    """

    def __init__(self) -> None:
        self.is_quiet = False
        self._known: int | None = pages()  # None once the error was raised
        self._told: set[tuple[int, int] | None] = set()
        self._is_telling = False
        self._dropped: TruncatedError | None = None
        self._hook = sys.unraisablehook

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raises the error: other threads may still go on with zeros."""
        if self.is_quiet or self._is_telling:
            return
        self._is_telling = True
        try:
            self._known = None
            self._tell()
        finally:
            self._is_telling = False

    def _tell(self) -> None:
        """Raises the error of a file that was not told of."""
        for found, error in _cut_files():
            if found not in self._told:
                self._told.add(found)
                raise error
        if not self._told:
            self._told.add(None)
            raise _unnamed()

    def on_unraisable(self, dropped: UnraisableHookArgs) -> None:
        """Keeps an error that was raised where Python drops errors, as in `__del__`."""
        if isinstance(dropped.exc_value, TruncatedError):
            self._dropped = dropped.exc_value
        else:
            self._hook(dropped)

    def go_on(self) -> None:
        """Raises errors again, about what comes now."""
        self.is_quiet, self._known = False, pages()
        source.watch = source.Watch()

    def end(self) -> None:
        """Raises the error, if it was not raised before, or was dropped."""
        if self._dropped is not None:
            raise self._dropped
        if self._known is not None:
            check(self._known)
            assert source.watch is not None
            source.watch.check()


def pages() -> int:
    """Number of pages that were gone when they were read, since the process started."""
    return _native.cut_pages()


def check(before: int) -> None:
    """Looks whether pages were gone since there were `before`.

    Raises:
        TruncatedError: So it is; it names the file, if that is still open.
    """
    if pages() != before:
        _name()
        raise _unnamed()


def _unnamed() -> TruncatedError:
    return TruncatedError("a file was truncated while it was read")


def _name() -> None:
    """Raises the error of an open file that was cut, if there is one."""
    for _, error in _cut_files():
        raise error


def _cut_files() -> Iterator[tuple[tuple[int, int], TruncatedError]]:
    """The open files that were cut: they are looked for only now."""
    for found in gc.get_objects():
        if type(found) is source.Mapped:
            try:
                found.check_all()
            except TruncatedError as error:
                yield found.identity, error
