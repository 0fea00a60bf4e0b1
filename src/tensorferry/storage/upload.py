"""Uploads: an object appears as a whole when all of its parts have arrived, or not at all.

Parts are uploaded by a thread while the next one is gathered. Which store takes them is left to
`tensorferry.storage.store`.
"""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from threading import Thread
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.storage.faults import translated
from tensorferry.storage.sink import FileSink
from tensorferry.storage.source import byte_view
from tensorferry.storage.store import settings

# Stores take no more parts than this for one object.
MOST_PARTS = 10_000
# Number of parts that wait for their upload, and of parts that are uploaded at once.
WAITING_PARTS = 1
UPLOADS = 4


class _AbortedError(Exception):
    pass


class ObjectSink(FileSink):
    """An upload in parts by a thread; an object of less than one part is sent by one request."""

    def __init__(self, url: str, store: Any, name: str) -> None:
        import obstore

        self.position = 0
        self.path = url
        self._obstore: Any = obstore
        self._store = store
        self._name = name
        self._size = settings.part_size
        self._part = bytearray()
        self._count = 0
        # None ends the upload, an exception aborts it.
        self._parts: Queue[bytearray | Exception | None] = Queue(WAITING_PARTS)
        self._thread: Thread | None = None
        self._failure: BaseException | None = None
        self._ended = False

    def write(self, buffer: Any, /) -> int:
        """Copies all bytes of a contiguous buffer into parts."""
        view = byte_view(buffer)
        size = view.nbytes
        while view:
            room = self._size - len(self._part)
            self._part += view[:room]
            view = view[room:]
            if len(self._part) == self._size:
                self._send()
        self.position += size
        return size

    def _send(self) -> None:
        """Hands a part to the thread; raises if the upload has failed by now."""
        self._check()
        self._count += 1
        if self._count > MOST_PARTS:
            raise UnsupportedError(
                f"more than {MOST_PARTS} parts of {self._size} bytes",
                path=self.path,
                hint="raise tensorferry.storage.remote.settings.part_size",
            )
        if self._thread is None:
            self._thread = Thread(target=self._upload, name="tensorferry-upload", daemon=True)
            self._thread.start()
        self._parts.put(self._part)
        self._part = bytearray()

    def _upload(self) -> None:
        try:
            with translated(self.path):
                self._obstore.put(
                    self._store,
                    self._name,
                    self._each_part(),
                    use_multipart=True,
                    chunk_size=self._size,
                    max_concurrency=UPLOADS,
                )
        except BaseException as error:
            self._failure = error
            # The writer must not wait for room in the queue.
            while not self._ended:
                self._next_part()

    def _next_part(self) -> bytearray | Exception | None:
        part = self._parts.get()
        self._ended = not isinstance(part, bytearray)
        return part

    def _each_part(self) -> Iterator[bytearray]:
        while (part := self._next_part()) is not None:
            if isinstance(part, Exception):
                raise part
            yield part

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def prepare(self) -> None:
        """Hands the last part to the thread."""
        if self._thread is not None and self._part:
            self._send()
        self._check()

    def commit(self) -> None:
        """Completes the upload, and waits for it."""
        if self._thread is None:
            with translated(self.path):
                self._obstore.put(self._store, self._name, bytes(self._part), use_multipart=False)
            return
        self._finish(None)
        self._check()

    def abort(self) -> None:
        """Cancels the upload; the store drops its parts."""
        self._finish(_AbortedError())

    def _finish(self, end: Exception | None) -> None:
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._parts.put(end)
            thread.join()
