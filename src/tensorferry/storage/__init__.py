"""Sources and sinks: where bytes come from and go to.

    with open_source("train.tfrecord") as source:
        source.head(12)             # look at the start
        source.range(64, 128)       # any part; a mapped file gives a view of itself
        source.read(1 << 20)        # or one piece behind the other

    with open_sink("out.bin") as sink:
        sink.write(array)           # the file appears, whole, when the block ends well

    with Replacement() as files:    # several files that appear in the order they were opened
        data, index = files.open("model.data"), files.open("model.index")

A name is a local path, "-" or a URL: `url` knows their parts, `source` and `sink` are local,
`remote` has the object stores and web servers (on `store`, `faults`, `upload`), `filesystem` all
other URLs, and `ranged` what these have in common. What the bytes mean is for the formats,
compression for `tensorferry.codecs.compression`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from tensorferry.errors import UnsupportedError
from tensorferry.storage import url as urls
from tensorferry.storage.sink import Buffers, FileSink, Sink, append_local, open_local_sink
from tensorferry.storage.source import STANDARD_STREAM, Source, as_source, byte_view, open_local
from tensorferry.storage.url import is_url, localize

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "STANDARD_STREAM",
    "Buffers",
    "FileSink",
    "Replacement",
    "Sink",
    "Source",
    "append_sink",
    "as_source",
    "byte_view",
    "exists",
    "is_url",
    "list_directory",
    "localize",
    "match",
    "open_sink",
    "open_source",
    "remove",
]

Path = str | os.PathLike[str]
Options = Mapping[str, Any] | None


def open_source(given: Path | Buffer | BinaryIO, *, options: Options = None) -> Source:
    """Opens what a user names for reading.

    Args:
        given: The path of a local file, a URL, "-" for the standard input, a binary file object
            (read from where it stands, and left open), or the bytes themselves.
        options: For the store of a URL: see `docs/storage.md`.

    Raises:
        FormatError: It is a directory.
        UnsupportedError: It is a text file, or a URL of a kind that nothing here reads.
        OSError: The system's own error, such as FileNotFoundError.
    """
    if not isinstance(given, str | os.PathLike):
        return open_local(given)
    path = localize(given)
    return _backend(path).open_source(path, options) if is_url(path) else open_local(path)


def _backend(path: str) -> Any:
    """The module that serves a URL; neither it nor what it needs is imported before."""
    from tensorferry.storage import remote

    if urls.split(path).scheme in remote.STORES:
        return remote
    from tensorferry.storage import filesystem

    return filesystem


class Replacement:
    """Several files that appear together: all are written and synced first, then they appear.

    They appear in the order in which they were opened: data first, then the index that refers to
    it. If anything fails before that, nothing is changed and nothing is left behind. Between two of
    them a process can still be killed: readers see that the last one is the old one.

    Args:
        durable: Waits until the disk has the bytes, and then their names, one after the other.
        options: For the stores of URLs: see `docs/storage.md`.
    """

    def __init__(self, *, durable: bool = True, options: Options = None) -> None:
        self._durable = durable
        self._options = options
        self._sinks: list[FileSink] = []

    def open(self, path: Path) -> FileSink:
        """Opens one more file: see `open_sink`."""
        path = localize(path)
        sink: FileSink
        if is_url(path):
            sink = _backend(path).open_sink(path, self._options)
        else:
            sink = open_local_sink(path, durable=self._durable)
        self._sinks.append(sink)
        return sink

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sinks, self._sinks = self._sinks, []
        try:
            if kind is None:
                for sink in sinks:
                    sink.prepare()
                while sinks:
                    sinks[0].commit()
                    del sinks[0]
        finally:
            for sink in sinks:
                sink.abort()


@contextmanager
def open_sink(path: Path, *, durable: bool = True, options: Options = None) -> Iterator[FileSink]:
    """Opens a file for writing; it replaces its target when the `with` block ends well.

    If the block raises, the target stays as it was and nothing is left beside it. A local target
    that is replaced hands on its permission bits, and a link stays a link. Devices and pipes are
    written directly, as is the standard output ("-").

    Args:
        path: The target: a local path, a URL, or "-".
        durable: Waits until the disk has the bytes, and then their name.
        options: For the store of a URL: see `docs/storage.md`.

    Raises:
        UnsupportedError: It is a URL of a kind that nothing here writes.
        OSError: The system's own error.
    """
    with Replacement(durable=durable, options=options) as replacement:
        yield replacement.open(path)


def append_sink(
    path: Path, offset: int, *, durable: bool = True
) -> AbstractContextManager[FileSink]:
    """Opens an existing local file to write from `offset` on, in place.

    The first write cuts off what lies behind `offset`. If the block raises, what was written is cut
    off again. A process that is killed leaves a part of it: the format must be able to tell.

    Args:
        path: A regular file.
        offset: The end of what is good in it.
        durable: Waits until the disk has the bytes.

    Raises:
        FormatError: It is no regular file, or ends before `offset`.
        UnsupportedError: It is remote.
        OSError: The system's own error, such as FileNotFoundError.
    """
    path = localize(path)
    if is_url(path):
        raise UnsupportedError(
            "nothing can be appended to a remote file", path=path, hint="write a new one"
        )
    return append_local(path, offset, durable=durable)


def exists(path: Path, *, options: Options = None) -> bool:
    """Whether there is something of that name: locally of any kind, remotely an object."""
    path = localize(path)
    return _backend(path).exists(path, options) if is_url(path) else os.path.exists(path)


def remove(path: Path, *, options: Options = None) -> None:
    """Removes a file; that there is none is fine."""
    path = localize(path)
    if is_url(path):
        _backend(path).remove(path, options)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def list_directory(path: Path, *, options: Options = None) -> list[str]:
    """The files directly in a directory, with the directory before their names, sorted.

    An object store has no directories: one that is not there has no files in it.

    Raises:
        UnsupportedError: It is on a web server.
        OSError: The system's own error, such as FileNotFoundError.
    """
    path = localize(path)
    if is_url(path):
        return sorted(_backend(path).list_files(path, options, deep=False))
    names = (os.path.join(path, name) for name in os.listdir(path))
    return sorted(filter(os.path.isfile, names))


def match(pattern: Path, *, options: Options = None) -> list[str]:
    """The files that a pattern means: `*`, `?`, `[a-z]`, and `**/` for any directories; sorted.

    Raises:
        UnsupportedError: It is on a web server.
    """
    pattern = localize(pattern)
    if not is_url(pattern):
        return sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    directory, deep = urls.split_pattern(pattern)
    wanted = urls.matcher(pattern).fullmatch
    return sorted(filter(wanted, _backend(pattern).list_files(directory, options, deep=deep)))
