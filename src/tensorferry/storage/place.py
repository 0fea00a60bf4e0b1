"""Places: where bytes live, passed on whole and opened once.

    place = Place("s3://bucket/model.npz", options={"region": "eu-central-1"})
    place.open()                    # the source; the same one at every call
    place.reader()                  # a source of its own, for a second pass
    place.beside("x-00001.npz")     # a file in the same folder that this one names

A place is a path or URL with the options of its store, a file object, bytes, or a source. Whoever
has a place needs nothing else to read from it: the options reach every file, and a file that is
looked at twice is opened once. A place that has a name is pickled by its name, and opened anew by
the process that unpickles it.

A `Target` is the same for writing: a name, its options, and the sink that takes the bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from tensorferry import storage
from tensorferry.classes import NamedTuple
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.storage import names, temporary, url as urls
from tensorferry.storage.backend import Measured
from tensorferry.storage.source import STANDARD_STREAM, Source, byte_view, open_local
from tensorferry.storage.temporary import Identity, identity_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.storage.sink import Sink


class ReplacedError(FormatError):
    """A file is not the one that belongs to the files that were opened with it."""


class Expected(NamedTuple):
    """The file that a place must have.

    Attributes:
        path: Where it is, or was.
        identity: By which it is known.
        system: On which it is known so: other machines have other inodes.
    """

    path: str
    identity: Identity
    system: str


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
        "_companion",
        "_expected",
        "_found",
        "_given",
        "_lends",
        "_lock",
        "_measured",
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
        self._companion = self._lends = False
        self._expected: Expected | None = None
        self._found: Identity | None = None
        self._measured: Measured | None = None
        self._given: Buffer | BinaryIO | Source | None = None
        if given.__class__ is str and "://" not in given:  # nearly all
            self.path = given
        elif isinstance(given, str | os.PathLike):
            self.path = storage.localize(given)
        else:
            self._given = given
            self._source = given if isinstance(given, Source) else storage.open_source(given)
            self.path = self._source.path
            # Nobody knows how a given source was opened.
            self._once = self._source.size is None or isinstance(given, Source)
        self.is_url = "://" in self.path and storage.is_url(self.path)

    @classmethod
    def opened(cls, path: str, source: Source, *, lends: bool) -> Place:
        """The place of a regular file that was opened by its path.

        Args:
            path: A local path.
            source: The file, which knows its identity.
            lends: Whether its views are writable: see `lend`.
        """
        place = cls(path)
        place._lends = lends
        place.adopt(source)
        return place

    def adopt(self, source: Source) -> None:
        """Takes a regular file that was opened by the path of this place."""
        self._source, self._found, self._pipe = source, source.identity, False
        if self._lends:
            source.lend()

    @property
    def is_named(self) -> bool:
        """Whether the path names these bytes, so that anybody can open them again."""
        return self._given is None and self.path != STANDARD_STREAM and not self._is_pipe()

    def is_nothing_but(self, path: str) -> bool:
        """Whether it is a local path, and whoever opens the path gets what this place opens."""
        is_path = self.path == path and self._given is None and not self.is_url
        return is_path and not self.options and self._source is None and self._expected is None

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
        if self._found is not None:  # of regular files alone
            return False
        self.mode()
        return bool(self._pipe)

    def mode(self) -> int:
        """What a local path is now, as `stat` says it.

        Returns:
            0 if there is nothing: it is a prefix, or a file that is to be written.
        """
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError):
            mode = 0
        self._pipe = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and mode != 0
        return mode

    def open(self) -> Source:
        """The source: opened by the first call, and the same one until the place is closed.

        Raises:
            FormatError: The path is a directory.
            ReplacedError: It is not the file that `expect` has named.
            ValueError: The place was closed, and its bytes cannot be read twice.
            OSError: The system's own error, such as FileNotFoundError.
        """
        with self._lock:
            if self._source is None:
                if self._spent:
                    raise ValueError(f"{self.shown} is closed, and cannot be read twice")
                self._source = self._open()
                self._once = self._source.size is None
                if self._lends:
                    self._source.lend()
            return self._source

    def _open(self) -> Source:
        if self._given is not None:
            assert not isinstance(self._given, Source)  # a closed source makes a place spent
            return storage.open_source(self._given, options=self.options)
        if self._expected is not None:
            return self._open_expected(self._expected)
        # Before it is opened: a pipe would wait for somebody who writes into it.
        if self._companion and not self.is_url and names.is_special(self.path):
            raise FormatError("it is no regular file, and nobody named it", path=self.path)
        if self.is_url or self.options:
            source = storage.open_source(self.path, options=self.options)
        else:
            source = open_local(self.path)
        self._found = None if self.is_url else source.identity
        return source

    def _open_expected(self, expected: Expected) -> Source:
        for path in dict.fromkeys((expected.path, self.path)):
            # Before it is opened, too: it could have become a pipe.
            if identity_of(path) == expected.identity:
                with suppress(FileNotFoundError):
                    source = storage.open_source(path)
                    if source.identity == expected.identity:
                        source.path = self.path
                        self._found = expected.identity
                        return source
                    source.close()
        raise ReplacedError(
            "it was replaced or changed since the files beside it were opened",
            path=self.path,
            hint="open all of them again",
        )

    def lend(self) -> None:
        """Makes views of mapped files writable, of this file and of those beside it.

        See `Source.lend`. Memory that the caller gave stays read-only.
        """
        if self._given is None:
            self._lends = True
            with self._lock:
                if self._source is not None:
                    self._source.lend()

    def expect(self, path: str, identity: Identity) -> None:
        """Says which file the place must have whenever it is opened.

        Args:
            path: Where the file is, if its own name is not that of the place yet.
            identity: Of the file.
        """
        if self._source is not None and self._found != identity:
            self.close()
        self._expected = Expected(path, identity, temporary.system())

    def open_unchecked(self) -> None:
        """Opens the path, though nobody knows yet that it has the file that is expected."""
        assert self._expected is not None
        with self._lock:
            if self._source is None:
                self._source = storage.open_source(self.path)
                self._found = self._source.identity

    def is_there(self) -> bool:
        """Whether the file that is expected is there, by whichever name."""
        assert self._expected is not None
        return identity_of(self._where) == self._expected.identity

    def is_current(self) -> bool:
        """Whether the file that was opened, or is expected, still has the name of the place."""
        known = self._found if self._expected is None else self._expected.identity
        return known == identity_of(self.path)

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
        if not self.is_url and self._expected is None:
            return self.mode() != 0
        return storage.exists(self._where, options=self.options)

    @property
    def _where(self) -> str:
        """The path to look at."""
        expected = self._expected
        if expected is not None and identity_of(expected.path) == expected.identity:
            return expected.path
        return self.path

    @property
    def is_known(self) -> bool:
        """Whether the size of the bytes is known without asking anybody."""
        return self._source is not None or self._measured is not None

    def learn(self, measured: Measured) -> None:
        """Takes what a listing tells; it counts as long as nobody has opened the place."""
        self._measured = measured

    def size(self) -> int | None:
        """Number of bytes; None for a stream.

        Raises:
            FormatError: The path is a directory.
            OSError: The system's own error, such as FileNotFoundError.
        """
        is_unopened = self._source is None and self._given is None and not self.is_url
        if is_unopened and self.path != STANDARD_STREAM:
            found = os.stat(self._where)
            if stat.S_ISDIR(found.st_mode):
                raise FormatError("is a directory, expected a file", path=self.path)
            self._pipe = not stat.S_ISREG(found.st_mode)
            if found.st_size and not self._pipe:  # files of /proc have bytes, but a size of 0
                return found.st_size
        if self.is_stream:
            return None
        if self._source is None and self._measured is not None:
            return self._measured.size
        return self.open().size

    def version(self) -> str:
        """What changes when other bytes take the place: a store's tag, or size and time.

        Raises:
            OSError: The system's own error, such as FileNotFoundError.
        """
        if self.is_url:
            known = None if self._source is not None else self._measured
            if known is not None and known.version is not None:
                return f"{known.size} {known.version}"
            source = self.open()
            return f"{source.size} {source.version or ''}"
        found = os.stat(self._where)
        return f"{found.st_size} {found.st_mtime_ns}"

    def at(self, path: str) -> Place:
        """The place of another path or URL, with the same options."""
        place = Place(path, options=self.options)
        place._lends = self._lends
        return place

    def companion(self, path: str) -> Place:
        """The place of a file that the caller did not name: nothing but a regular file is opened.

        Args:
            path: Made of names that we know, or that were checked: see `beside`.
        """
        place = self.at(path)
        if path == STANDARD_STREAM:
            place.path = os.path.join(os.curdir, path)
        place._companion = True
        return place

    def beside(self, name: str) -> Place:
        """The place of a file in the same folder that this file names, with the same options.

        Raises:
            FormatError: The name leads elsewhere: see `tensorferry.storage.names`.
            UnsupportedError: This is no file with a name: nothing lies beside bytes or a stream.
        """
        problem = names.problem_with(name)
        if problem is None and self.is_url:
            problem = names.problem_in_url(name)
        if problem is not None:
            raise FormatError(
                f"it names the file {str(name)[:60]!r}, expected a name beside it: {problem}",
                path=self.path,
            )
        if self.path == STANDARD_STREAM or (self._given is not None and self.path[:1] == "<"):
            raise UnsupportedError(
                f"{name} is expected beside it, but only files with a name have others beside them",
                path=self.path,
                hint="give the path of the file",
            )
        return self.companion(urls.beside(self.path, name))

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
            return _place, (self.path, self.options, self._expected)
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


def _place(path: str, options: Mapping[str, Any] | None, expected: Expected | None = None) -> Place:
    place = Place(path, options=options)
    if expected is not None and expected.system == temporary.system():
        place.expect(expected.path, expected.identity)
    return place


class Target:
    """Where something is written.

    Args:
        path: The path or URL; the name of a file object; "<bytes>" for memory.
        options: The storage options of a URL.
        durable: Whether to wait until the disk has the bytes.
        into: Takes the bytes, if the caller has opened it already: memory, a file object, or a
            compressor in front of a file.
        within: The files with which this one appears; by default it appears alone.
        beside: Opens a file that appears beside the one that `into` writes, by the ending of its
            name; None where nothing can stand beside it.

    Attributes:
        has_beside: Whether `beside` was called.
    """

    __slots__ = ("_into", "_within", "beside", "durable", "has_beside", "options", "path")

    def __init__(
        self,
        path: str,
        *,
        options: Mapping[str, Any] | None = None,
        durable: bool = True,
        into: Sink | None = None,
        within: storage.Replacement | None = None,
        beside: Callable[[str], Sink] | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.durable = durable
        self._into = into
        self._within = within
        self.beside = beside
        self.has_beside = False

    @property
    def is_path(self) -> bool:
        """Whether the path names a file, so that others can be written beside it."""
        return self._into is None and self.path != STANDARD_STREAM

    @property
    def has_neighbours(self) -> bool:
        """Whether files can stand beside it: nothing does beside a pipe or a device."""
        return self.is_path and self.place().is_named

    def sink(self) -> AbstractContextManager[Any]:
        """The sink of the one file, which appears as a whole when the block ends well."""
        if self._into is not None:
            return nullcontext(self._into)
        if self._within is not None:
            return nullcontext(self._within.open(self.path))
        return storage.open_sink(self.path, durable=self.durable, options=self.options)

    def opened(self, paths: Sequence[str]) -> AbstractContextManager[storage.Replacement]:
        """The files of a set, or the one file, to be opened with what appears together with them.

        Args:
            paths: All of them count as one.
        """
        if self._within is not None:
            return nullcontext(self._within)
        return self.files(together=paths if len(paths) > 1 else ())

    def files(
        self, *, together: Sequence[str] = (), main: str | None = None
    ) -> storage.Replacement:
        """Several files that appear together: see `tensorferry.storage.Replacement`."""
        return storage.Replacement(
            durable=self.durable, options=self.options, together=together, main=main
        )

    def place(self) -> Place:
        """The place where the written file is read."""
        return Place(self.path, options=self.options)


def size_of(sink: Sink) -> int | None:
    """Number of bytes written to a sink so far, if it counts them."""
    from tensorferry.storage.sink import FileSink

    return sink.position if isinstance(sink, FileSink) else None
