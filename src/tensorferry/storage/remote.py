"""Object stores and web servers: objects are read, written, listed and removed by URL.

All ranges of a source are of one and the same object: each request asks for the version that was
there when the source was opened. `store` has the stores and how patient they are, `faults` the
errors, `upload` the writing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from tensorferry.errors import TruncatedError, UnsupportedError
from tensorferry.storage.faults import NoRangesError, changed, translated
from tensorferry.storage.ranged import HEAD, PIECE, RangedSource
from tensorferry.storage.store import STORES, Settings, import_obstore, locate, settings
from tensorferry.storage.upload import ObjectSink
from tensorferry.storage.url import shown, split

__all__ = [
    "STORES",
    "ObjectSource",
    "Settings",
    "exists",
    "list_files",
    "open_sink",
    "open_source",
    "remove",
    "settings",
]


def open_source(url: str, options: Mapping[str, Any] | None) -> ObjectSource:
    """Opens an object for reading."""
    store, name = locate(url, options)
    return ObjectSource(shown(url), store, name)


class ObjectSource(RangedSource):
    """An object, all parts of which are of the version that was there when it was opened."""

    def __init__(self, url: str, store: Any, name: str) -> None:
        import obstore

        self._obstore: Any = obstore
        self._store = store
        self._name = name
        self._ranged = True
        start = memoryview(b"")
        with translated(url):
            # Signed URLs allow no HEAD, and not every web server gives ranges.
            if split(url).scheme in ("http", "https"):
                meta, start = self._look(url)
            else:
                meta = obstore.head(store, name)
        super().__init__(url, meta["size"])
        self._version = _version(meta)
        self._start = start
        if start:
            self.count(len(start))

    def _look(self, url: str) -> tuple[Any, memoryview]:
        """What there is, and the start of it if the server gives ranges."""
        try:
            with translated(url):
                result = self._obstore.get(self._store, self._name, options={"range": (0, HEAD)})
                return result.meta, memoryview(result.bytes())
        except NoRangesError:
            self._ranged = False
        except OSError as error:
            if error.errno != errno.ESTALE:  # an empty file has no range at all
                raise
        return self._obstore.get(self._store, self._name).meta, memoryview(b"")

    def fetch(self, start: int, stop: int) -> memoryview:
        """These bytes, of the version that was opened."""
        wanted: dict[str, Any] = {"range": (start, stop)}
        tag = self._version[1]
        if tag is not None and not tag.startswith("W/"):  # a weak one never matches
            wanted["if_match"] = tag
        try:
            with translated(self.path):
                result = self._obstore.get(self._store, self._name, options=wanted)
                self._check_version(result.meta)
                return memoryview(result.bytes())
        except TruncatedError as error:
            error.offset = start
            raise

    def _check_version(self, meta: Any) -> None:
        if _version(meta) != self._version:
            raise changed(self.path)

    def pieces(self) -> Iterator[memoryview]:
        """The bytes in order: of a server without ranges they come as they come."""
        if self._ranged:
            yield from super().pieces()
            return
        received = 0
        with translated(self.path):
            result = self._obstore.get(self._store, self._name)
            self._check_version(result.meta)
        # An answer that breaks off is asked for again from there on, which is a range.
        with suppress(NoRangesError), translated(self.path):
            for piece in result.stream(min_chunk_size=PIECE):
                self.count(len(piece))
                received += len(piece)
                yield memoryview(piece)
        if received != self.size:
            raise TruncatedError(
                f"{received} bytes came of {self.size} that were announced",
                path=self.path,
                offset=received,
            )

    def head(self, size: int) -> bytes:
        """The first bytes, fewer at the end of a short file."""
        self._hold()
        return super().head(size)

    def ranges(self, pairs: Any) -> list[bytes | memoryview]:
        """Several ranges at once; those that lie close together come in one request."""
        self._hold()
        return super().ranges(pairs)

    def _hold(self) -> None:
        """Takes all of a file into memory if its server gives no ranges."""
        if self._ranged or self.buffer is not None or not self._is_open:
            return
        target, position = self._allocate(self.size), 0
        for piece in self.pieces():
            target[position : position + len(piece)] = np.frombuffer(piece, np.uint8)
            position += len(piece)
        self.buffer = target.data.toreadonly()


def _version(meta: Any) -> tuple[int, str | None, Any]:
    tag = meta["e_tag"]
    return meta["size"], tag, None if tag is not None else meta["last_modified"]


def open_sink(url: str, options: Mapping[str, Any] | None) -> ObjectSink:
    """Opens an object for writing."""
    _refuse_web(url, "written")
    return ObjectSink(url, *locate(url, options))


def _refuse_web(url: str, what: str) -> None:
    if split(url).scheme in ("http", "https"):
        raise UnsupportedError(
            f"a web server's files cannot be {what}",
            path=shown(url),
            hint="name its store: s3://...",
        )


def exists(url: str, options: Mapping[str, Any] | None) -> bool:
    """Whether there is such an object."""
    try:
        open_source(url, options).close()
    except FileNotFoundError:
        return False
    return True


def remove(url: str, options: Mapping[str, Any] | None) -> None:
    """Removes an object, if there is one."""
    _refuse_web(url, "removed")
    store, name = locate(url, options)
    with translated(url):
        try:
            import_obstore(url).delete(store, name)
        except FileNotFoundError:
            return


def list_files(url: str, options: Mapping[str, Any] | None, *, deep: bool) -> Iterator[str]:
    """The URLs of the objects in a directory, with those in directories in it if `deep`."""
    _refuse_web(url, "listed")
    store, name = locate(url, options)
    obstore, root = import_obstore(url), split(url).root
    prefix = name.rstrip("/") or None
    with translated(url):
        if deep:
            found = (meta for some in obstore.list(store, prefix, chunk_size=1000) for meta in some)
        else:
            found = iter(obstore.list_with_delimiter(store, prefix)["objects"])
        for meta in found:
            yield f"{root}/{meta['path']}"
