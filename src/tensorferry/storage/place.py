"""Places: where bytes live, passed on whole and opened once.

    place = Place("s3://bucket/model.npz", options={"region": "eu-central-1"})
    place.open()                    # the source; the same one at every call
    place.reader()                  # a source of its own, for a second pass
    place.beside("model.npz.json")  # another file in the same folder, with the same options

A place is a path or URL with the options of its store, a file object, bytes, or a source. Whoever
has a place needs nothing else to read from it: the options reach every file, and a file that is
looked at twice is opened once. A place that has a name is pickled by its name, and opened anew by
the process that unpickles it.

A `Target` is the same for writing: a name, its options, and the sink that takes the bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from tensorferry import storage
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.storage import url as urls
from tensorferry.storage.sink import FileSink, Sink
from tensorferry.storage.source import STANDARD_STREAM, Source, byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

OPEN_AT_ONCE = 64
"""Readers of a set of more files than this close each place when they have read it."""


class Place:
    """Where the bytes of one file live.

    `open` can be called from several threads, and gives all of them the same source.

    Before Python 3.13 an open local file holds a descriptor, also after `close` as long as arrays
    view its map, and 1,024 descriptors is the usual limit of a process. A reader of a set of more
    than `OPEN_AT_ONCE` files therefore closes each place when it is done with the file; the place
    of a path opens again when it is asked for next:

        for place in places:
            yield from rows_of(place.open())
            if len(places) > OPEN_AT_ONCE:
                place.close()

    Args:
        given: A local path, a URL, "-" for the standard input, a binary file object, bytes, or a
            `Source` that is open already.
        options: The storage options of a URL: see `docs/storage.md`.

    Attributes:
        path: The path or URL; the name of a file object; "<bytes>" for bytes.
        options: The storage options of a URL.
        is_url: Whether the bytes are in a store, on a web server or in another file system.
    """

    MEMORY = "<bytes>"

    __slots__ = (
        "_given",
        "_lock",
        "_once",
        "_pipe",
        "_source",
        "_spent",
        "is_url",
        "options",
        "path",
    )

    def __init__(
        self,
        given: str | os.PathLike[str] | Buffer | BinaryIO | Source,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options
        self._lock = Lock()
        self._once = self._spent = False
        self._pipe: bool | None = None  # until the system was asked
        self._source: Source | None = None
        self._given: Buffer | BinaryIO | Source | None = None
        if isinstance(given, str | os.PathLike):
            self.path = storage.localize(given)
        else:
            self._given = given
            self._source = given if isinstance(given, Source) else storage.open_source(given)
            self.path = self._source.path
            # Nobody knows how a given source was opened.
            self._once = self._source.size is None or isinstance(given, Source)
        self.is_url = storage.is_url(self.path)

    @property
    def is_named(self) -> bool:
        """Whether the path names these bytes, so that anybody can open them again."""
        return self._given is None and self.path != STANDARD_STREAM and not self._is_pipe()

    @property
    def is_stream(self) -> bool:
        """Whether the bytes come once and in order: a pipe, or the standard input."""
        if self._source is not None:
            return self._source.size is None
        return self.path == STANDARD_STREAM or self._is_pipe()

    def _is_pipe(self) -> bool:
        if self._pipe is not None:
            return self._pipe
        if self._given is not None or self.is_url or self.path == STANDARD_STREAM:
            return False
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError):
            return False  # it may come into being
        self._pipe = not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
        return self._pipe

    def open(self) -> Source:
        """The source: opened by the first call, and the same one until the place is closed.

        Raises:
            FormatError: The path is a directory.
            ValueError: The place was closed, and its bytes cannot be read twice.
            OSError: The system's own error, such as FileNotFoundError.
        """
        with self._lock:
            if self._source is None:
                if self._spent:
                    raise ValueError(f"{self.shown} is closed, and cannot be read twice")
                given = self.path if self._given is None else self._given
                assert not isinstance(given, Source)  # a closed source makes a place spent
                self._source = storage.open_source(given, options=self.options)
                self._once = self._source.size is None
            return self._source

    def reader(self) -> Source:
        """Another source of the same bytes, which reads from the first byte; the caller closes it.

        A stream has one reader: this is the source itself.
        """
        return self.open().again()

    @property
    def is_open(self) -> bool:
        """Whether the source is open."""
        return self._source is not None

    def close(self) -> None:
        """Closes the source. Arrays stay valid, and the place of a path or of bytes opens again."""
        with self._lock:
            source, self._source = self._source, None
            if source is None:
                return
            self._spent = self._once
            source.close()

    def exists(self) -> bool:
        """Whether there is a file or an object; a local directory is something, too."""
        if self._source is not None or self._given is not None or self.path == STANDARD_STREAM:
            return True
        return storage.exists(self.path, options=self.options)

    def size(self) -> int | None:
        """Number of bytes; None for a stream.

        Raises:
            FormatError: The path is a directory.
            OSError: The system's own error, such as FileNotFoundError.
        """
        if self.is_stream:
            return None
        if self._source is None and self._given is None and not self.is_url:
            found = os.stat(self.path)
            if stat.S_ISDIR(found.st_mode):
                raise FormatError("is a directory, expected a file", path=self.path)
            if found.st_size:  # files of /proc have bytes, though their size is 0
                return found.st_size
        return self.open().size

    def at(self, path: str) -> Place:
        """The place of another path or URL, with the same options."""
        return Place(path, options=self.options)

    def beside(self, name: str) -> Place:
        """The place of another file in the same folder, with the same options.

        Raises:
            UnsupportedError: This is no file with a name: nothing lies beside bytes or a stream.
        """
        if self.path == STANDARD_STREAM or (self._given is not None and self.path[:1] == "<"):
            raise UnsupportedError(
                f"{name} is expected beside it, but only files with a name have others beside them",
                path=self.path,
                hint="give the path of the file",
            )
        return self.at(urls.beside(self.path, name))

    @property
    def shown(self) -> str:
        """The path as errors show it: without passwords and signatures."""
        return urls.shown(self.path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        if isinstance(self._given, bytes) and isinstance(other._given, bytes):
            return self._given == other._given
        same = self.path == other.path and (self.options or {}) == (other.options or {})
        return same and self._given is other._given

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Place({self.shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_named:
            return _place, (self.path, self.options)
        if self._given is not None and not isinstance(self._given, Source):
            with suppress(TypeError):  # a file object is no buffer
                return Place, (bytes(byte_view(self._given)),)
        raise TypeError(f"{self.shown} has no name to open it by, and cannot be pickled")


class Recent:
    """The places of a large set that were read last: `OPEN_AT_ONCE` of them stay open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[int, Place] = {}  # by identity: parts of a file have each their own

    def read(self, place: Place, start: int, stop: int) -> bytes:
        """A copy of some bytes of a place, which is opened if it is not."""
        with self._lock:
            self._places.pop(id(place), None)
            self._places[id(place)] = place
            if len(self._places) > OPEN_AT_ONCE:
                self._places.pop(next(iter(self._places))).close()
            return bytes(place.open().range(start, stop))

    def __reduce__(self) -> tuple[Any, ...]:
        return Recent, ()


def _place(path: str, options: Mapping[str, Any] | None) -> Place:
    return Place(path, options=options)


class Target:
    """Where something is written.

    Args:
        path: The path or URL; the name of a file object; "<bytes>" for memory.
        options: The storage options of a URL.
        durable: Whether to wait until the disk has the bytes.
        into: Takes the bytes, if the caller has opened it already: memory, a file object, or a
            compressor in front of a file.
    """

    __slots__ = ("_into", "durable", "options", "path")

    def __init__(
        self,
        path: str,
        *,
        options: Mapping[str, Any] | None = None,
        durable: bool = True,
        into: Sink | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.durable = durable
        self._into = into

    @property
    def is_path(self) -> bool:
        """Whether the path names a file, so that others can be written beside it."""
        return self._into is None and self.path != STANDARD_STREAM

    @contextmanager
    def sink(self) -> Iterator[Any]:
        """The sink of the one file, which appears as a whole when the block ends well."""
        if self._into is not None:
            yield self._into
            return
        with storage.open_sink(self.path, durable=self.durable, options=self.options) as sink:
            yield sink

    def files(self) -> storage.Replacement:
        """Several files that appear together: see `tensorferry.storage.Replacement`."""
        return storage.Replacement(durable=self.durable, options=self.options)

    def place(self) -> Place:
        """The place where the written file is read."""
        return Place(self.path, options=self.options)


def size_of(sink: Sink) -> int | None:
    """Number of bytes written to a sink so far, if it counts them."""
    return sink.position if isinstance(sink, FileSink) else None
