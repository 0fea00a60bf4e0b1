"""One file of a writer, and the gate that its threads go through one by one.

Two locks hold a writer together: one around its methods, and inside of it one around its sinks,
which the thread that compresses and writes rows takes, too. Records of bytes are gathered without
the first one, by `_native.Framer`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tensorferry.codecs import compression as codecs
from tensorferry.storage import Sink
from tensorferry.storage.place import size_of


class Gate:
    """Lets one thread in at a time; a thread that is in already is refused.

    Args:
        inner: Another gate: who is inside of that one is refused, too.
    """

    def __init__(self, inner: Gate | None = None) -> None:
        self._inner = inner
        # A lock of C in a `with` statement is released whenever Ctrl-C comes.
        self._lock = threading.RLock()
        self._thread: int | None = None

    def run(self, work: Callable[..., None], *arguments: Any) -> None:
        """Calls `work` when no other thread is inside."""
        thread = threading.get_ident()
        if self._inner is not None and self._inner._thread == thread:
            raise _busy()
        with self._lock:
            if self._thread is not None:  # this one, as it has the lock
                raise _busy()
            try:
                self._thread = thread
                work(*arguments)
            finally:
                self._thread = None


def _busy() -> RuntimeError:
    return RuntimeError("the writer is busy: what it writes to must not use it")


class Shard:
    """One file: a sink, with a compressor in front if one was asked for.

    A sink that failed once has a hole: it gets nothing more, and the file never appears.
    """

    def __init__(
        self, sink: Sink, kind: str | None, level: int | None, gate: Gate, *, streams: int
    ) -> None:
        self._sink = sink
        self._compressor: codecs.Compressor | None = None
        if kind is not None:
            self._compressor = codecs.compressor(kind, level, streams=streams)  # type: ignore[arg-type]
        self._gate = gate
        self._failure: BaseException | None = None

    def write(self, data: Any) -> None:
        """Takes framed records, when no other thread writes."""
        self._gate.run(self._write, data)

    def _write(self, data: Any) -> None:
        self.check()
        try:
            self._sink.write(data if self._compressor is None else self._compressor.compress(data))
        except BaseException as failure:
            self._failure = failure
            raise

    def check(self) -> None:
        """Raises what a write before has raised."""
        if self._failure is not None:
            raise self._failure

    @property
    def size(self) -> int | None:
        """Number of bytes so far; None where nobody counts them."""
        return size_of(self._sink)

    def finish(self) -> None:
        """Writes what the compressor still has."""
        self.check()
        if self._compressor is not None:
            self._sink.write(self._compressor.finish())
