"""Object stores and web servers: objects are read, written, listed and removed by URL.

An object is opened by the request that brings its start. All later requests name the version that
this request found, so that a source never mixes two versions.

`tensorferry.storage.store` makes the stores and says how patient they are,
`tensorferry.storage.faults` has the errors, `tensorferry.storage.upload` the writing.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import TruncatedError, UnsupportedError
from tensorferry.storage.backend import Measured, Options
from tensorferry.storage.faults import NoRangesError, changed, translated
from tensorferry.storage.plan import Span
from tensorferry.storage.ranged import HEAD, PIECE, RangedSource
from tensorferry.storage.store import (
    STORES,
    Settings,
    address_of,
    import_obstore,
    locate,
    settings,
)
from tensorferry.storage.upload import ObjectSink
from tensorferry.storage.url import folder_named, shown, split

__all__ = [
    "STORES",
    "ObjectSource",
    "Settings",
    "address",
    "copy",
    "exists",
    "list_files",
    "measure",
    "open_sink",
    "open_source",
    "remove",
    "settings",
]


def open_source(url: str, options: Options) -> ObjectSource:
    """Opens an object for reading."""
    store, name = locate(url, options)
    address = shown(url)
    with translated(address):
        found, start = _look(address, store, name)
    source = ObjectSource(address, found, start)
    if start:
        source.count(len(start))
    return source


@dataclass(frozen=True, slots=True)
class _Object:
    """One version of an object.

    Attributes:
        store: The store of obstore that has the object.
        name: The name in the store.
        version: The size, the tag, and the time of the last change where there is no tag.
        ranged: Whether the server gives parts of the object.
    """

    store: Any
    name: str
    version: tuple[int, str | None, Any]
    ranged: bool


def _look(url: str, store: Any, name: str) -> tuple[_Object, memoryview]:
    """The current version of an object, and its start if the server gives ranges.

    One request tells both. HEAD is only asked where that request cannot be answered: signed URLs
    do not allow HEAD.
    """
    obstore = import_obstore(url)
    ranged = True
    try:
        with translated(url):
            result = obstore.get(store, name, options={"range": (0, HEAD)})
            start = memoryview(result.bytes())
            return _Object(store, name, _version(result.meta), ranged), start
    except NoRangesError:
        ranged = False
    except OSError as error:
        if error.errno != errno.ESTALE:  # an empty object has no range at all
            raise
    meta = obstore.get(store, name).meta if _is_web(url) else obstore.head(store, name)
    return _Object(store, name, _version(meta), ranged), memoryview(b"")


class ObjectSource(RangedSource):
    """An object; all bytes are of the version that was there when the object was opened."""

    def __init__(self, url: str, found: _Object, start: memoryview) -> None:
        super().__init__(url, found.version[0], start=start)
        self._obstore = import_obstore(url)
        self._found = found
        self._holding = Lock()
        size, tag, time = found.version
        self.version = tag or f"{size} {time}"

    def _another(self) -> ObjectSource:
        return ObjectSource(self.path, self._found, self._start)

    def fetch(self, start: int, stop: int) -> memoryview:
        """Makes one request, for bytes of the version that was opened."""
        wanted: dict[str, Any] = {"range": (start, stop)}
        tag = self._found.version[1]
        if tag is not None and not tag.startswith("W/"):  # a weak tag never matches
            wanted["if_match"] = tag
        try:
            with translated(self.path):
                result = self._obstore.get(self._found.store, self._found.name, options=wanted)
                self._check_version(result.meta)
                return memoryview(result.bytes())
        except TruncatedError as error:
            error.offset = start
            raise

    def _check_version(self, meta: Any) -> None:
        if _version(meta) != self._found.version:
            raise changed(self.path)

    def pieces(self) -> Iterator[memoryview]:
        """The bytes in order; a server without ranges sends them in one answer."""
        if self._found.ranged:
            yield from super().pieces()
            return
        received = 0
        with translated(self.path):
            result = self._obstore.get(self._found.store, self._found.name)
            self._check_version(result.meta)
        # obstore asks for the rest of an answer that broke off, which is a range.
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
        """The first bytes, fewer if the object is shorter."""
        self._hold()
        return super().head(size)

    def ranges(self, pairs: Iterable[Span]) -> list[bytes | memoryview]:
        """Several ranges at once; those that lie close together come in one request."""
        self._hold()
        return super().ranges(pairs)

    def expect(self, spans: Iterable[Span]) -> None:
        """Plans few requests for what will be read next, if the server gives ranges."""
        if self._found.ranged:
            super().expect(spans)

    def _hold(self) -> None:
        """Reads the whole object into memory if its server gives no ranges."""
        if self._found.ranged:
            return
        with self._holding:
            if self.buffer is not None or not self._is_open:
                return
            target, position = self._allocate(self.size), 0
            for piece in self.pieces():
                target[position : position + len(piece)] = np.frombuffer(piece, np.uint8)
                position += len(piece)
            self.buffer = target.data.toreadonly()


def _version(meta: Any) -> tuple[int, str | None, Any]:
    tag = meta["e_tag"]
    return meta["size"], tag, None if tag is not None else meta["last_modified"]


def open_sink(url: str, options: Options) -> ObjectSink:
    """Opens an object for writing."""
    _refuse_web(url, "written")
    if not split(url).name:
        raise folder_named(url)
    return ObjectSink(url, *locate(url, options))


def _is_web(url: str) -> bool:
    return split(url).scheme in ("http", "https")


def _refuse_web(url: str, what: str) -> None:
    if _is_web(url):
        raise UnsupportedError(
            f"a web server's files cannot be {what}",
            path=shown(url),
            hint="name its store: s3://...",
        )


def address(url: str, options: Options) -> str:
    """The address of the store, where it is not the usual one."""
    return address_of(url, options)


def exists(url: str, options: Options) -> bool:
    """Whether there is an object of this name."""
    try:
        if _is_web(url):
            open_source(url, options).close()
        else:
            store, name = locate(url, options)
            with translated(url):
                import_obstore(url).head(store, name)
    except FileNotFoundError:
        return False
    return True


def remove(url: str, options: Options) -> None:
    """Removes an object, if there is one."""
    _refuse_web(url, "removed")
    store, name = locate(url, options)
    with translated(url):
        try:
            import_obstore(url).delete(store, name)
        except FileNotFoundError:
            return


def copy(url: str, target: str, options: Options) -> None:
    """Copies an object inside its store; the bytes stay there."""
    _refuse_web(target, "written")
    store, name = locate(url, options)
    with translated(url):
        import_obstore(url).copy(store, name, locate(target, options)[1])


def list_files(url: str, options: Options, *, deep: bool) -> Iterator[str]:
    """The URLs of the objects in a directory; with `deep`, also those further down."""
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


def measure(first: str, last: str, options: Options) -> Iterator[Measured]:
    """The objects between two names of one store, both included."""
    _refuse_web(first, "listed")
    store, start = locate(first, options)
    stop, root = locate(last, options)[1], split(first).root
    folder = posixpath.commonpath([posixpath.dirname(start), posixpath.dirname(stop)])
    with translated(first):
        # A listing begins behind the name that it is given.
        pages = import_obstore(first).list(
            store, folder or None, offset=start[:-1] or None, chunk_size=1000
        )
        for meta in (meta for page in pages for meta in page):
            if meta["path"] > stop:
                return
            yield Measured(f"{root}/{meta['path']}", meta["size"], meta["e_tag"])
