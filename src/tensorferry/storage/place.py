"""Places: where bytes live, passed on whole and opened once.

    place = Place("s3://bucket/model.npz", options={"region": "eu-central-1"})
    place.open()                    # the source; asked again, the same one
    place.beside("model.npz.json")  # another file in the same folder, with the same options

A place is a path or URL with the options of its store, a file object, or bytes. Whoever holds a
place needs nothing else to read from it: options reach every file, and a file that is looked at
twice is opened once. A place that has a name can be pickled, and is opened anew elsewhere.

A `Target` is the same for writing: a name, its options, and the sink that takes the bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from tensorferry import storage
from tensorferry.storage.sink import FileSink, Sink
from tensorferry.storage.source import STANDARD_STREAM, Source

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Place:
    """Where the bytes of one thing live.

    Args:
        given: A local path, a URL, "-" for the standard input, a binary file object, bytes, or a
            `Source` that is open already.
        options: For the store of a URL: see `docs/storage.md`.

    Attributes:
        path: The path or URL; of a file object its name, of bytes "<bytes>".
        options: For the store of a URL.
    """

    MEMORY = "<bytes>"

    __slots__ = ("_given", "_source", "options", "path")

    def __init__(
        self,
        given: str | os.PathLike[str] | Buffer | BinaryIO | Source,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options
        self._source: Source | None = None
        self._given: Buffer | BinaryIO | None = None
        if isinstance(given, str | os.PathLike):
            self.path = storage.localize(given)
        elif isinstance(given, Source):
            self.path, self._source = given.path, given
        else:
            self._given = given
            self._source = storage.open_source(given)
            self.path = self._source.path

    @property
    def is_named(self) -> bool:
        """Whether the path can be opened again, by anybody."""
        return self._given is None and self.path != STANDARD_STREAM and not self._is_pipe()

    @property
    def is_url(self) -> bool:
        """Whether the bytes are in a store, on a web server or in another file system."""
        return storage.is_url(self.path)

    @property
    def is_stream(self) -> bool:
        """Whether the bytes come once and in order: a pipe, or the standard input."""
        if self._source is not None:
            return self._source.size is None
        return self.path == STANDARD_STREAM or self._is_pipe()

    def _is_pipe(self) -> bool:
        if self.is_url or self.path == STANDARD_STREAM:
            return False
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError):
            return False
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    def open(self) -> Source:
        """The source: opened on the first call, and the same one until the place is closed."""
        if self._source is None:
            self._source = storage.open_source(self.path, options=self.options)
        return self._source

    def reader(self) -> Source:
        """A source of its own that reads from the first byte on, however often it is asked for.

        Of a stream, which has one reader, it is the source itself.
        """
        return self.open().again()

    @property
    def is_open(self) -> bool:
        """Whether the source is open."""
        return self._source is not None

    def close(self) -> None:
        """Closes the source; arrays that were made of it stay valid."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def exists(self) -> bool:
        """Whether there is a file or an object."""
        return self._source is not None or storage.exists(self.path, options=self.options)

    def size(self) -> int | None:
        """Number of bytes; None for a stream."""
        if self._source is None and not self.is_url and self.is_named:
            return os.path.getsize(self.path)
        return self.open().size

    def at(self, path: str) -> Place:
        """The place of another path or URL, with the same options."""
        return Place(path, options=self.options)

    def beside(self, name: str) -> Place:
        """The place of another file in the same folder."""
        return self.at(os.path.join(os.path.dirname(self.path), name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        same = self.path == other.path and self.options == other.options
        return same and self._given is other._given

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Place({self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._given, bytes):
            return Place, (self._given,)
        if not self.is_named:
            raise TypeError(f"{self.path} is a stream: it has one reader, and cannot be pickled")
        return _place, (self.path, self.options)


def _place(path: str, options: Mapping[str, Any] | None) -> Place:
    return Place(path, options=options)


class Target:
    """Where something is written.

    Args:
        path: The path or URL; of a file object its name, of memory "<bytes>".
        options: For the store of a URL.
        durable: Whether to wait until the disk has the bytes.
        into: Takes the bytes, where the caller opened it already: memory, a file object, or a
            compressor before a file.
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
        """Whether files can be made by this name, and others beside it."""
        return self._into is None and self.path != STANDARD_STREAM

    @contextmanager
    def sink(self) -> Iterator[Any]:
        """The one file that is written: it appears, whole, when the block ends well."""
        if self._into is not None:
            yield self._into
            return
        with storage.open_sink(self.path, durable=self.durable, options=self.options) as sink:
            yield sink

    def files(self) -> storage.Replacement:
        """Several files that appear together."""
        return storage.Replacement(durable=self.durable, options=self.options)

    def place(self) -> Place:
        """Where it can be read."""
        return Place(self.path, options=self.options)


def size_of(sink: Sink) -> int | None:
    """Number of bytes written to a sink so far, if it counts them."""
    return sink.position if isinstance(sink, FileSink) else None
