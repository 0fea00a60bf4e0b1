"""Sources and sinks: where bytes come from and go to.

    with open_source("train.tfrecord") as source:
        source.head(12)             # look at the start
        source.range(64, 128)       # any part; a mapped file gives a view of itself
        source.read(1 << 20)        # or one piece behind the other

    with open_sink("out.bin") as sink:
        sink.write(array)           # the file appears, whole, when the block ends well

    with Replacement() as files:    # several files that appear in the order they were opened
        data, index = files.open("model.data"), files.open("model.index")

A name is a local path, "-" or a URL. What the bytes mean is for the formats, compression for
`tensorferry.codecs.compression`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from tensorferry.errors import UnsupportedError
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
    "is_url",
    "open_sink",
    "open_source",
]

Path = str | os.PathLike[str]


def open_source(
    given: Path | Buffer | BinaryIO, *, options: Mapping[str, Any] | None = None
) -> Source:
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
    _refuse_url(path)
    return open_local(path)


def _refuse_url(path: str) -> None:
    if is_url(path):
        raise UnsupportedError(
            "URLs are not supported yet, expected a local path", path=path, hint="copy it first"
        )


class Replacement:
    """Several files that appear together: all are written and synced first, then they appear.

    They appear in the order in which they were opened: data first, then the index that refers to
    it. If anything fails before that, nothing is changed and nothing is left behind. Between two of
    them a process can still be killed: readers see that the last one is the old one.

    Args:
        durable: Waits until the disk has the bytes, and then their names, one after the other.
        options: For the stores of URLs: see `docs/storage.md`.
    """

    def __init__(self, *, durable: bool = True, options: Mapping[str, Any] | None = None) -> None:
        self._durable = durable
        self._options = options
        self._sinks: list[FileSink] = []

    def open(self, path: Path) -> FileSink:
        """Opens one more file: see `open_sink`."""
        path = localize(path)
        _refuse_url(path)
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
def open_sink(
    path: Path, *, durable: bool = True, options: Mapping[str, Any] | None = None
) -> Iterator[FileSink]:
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
