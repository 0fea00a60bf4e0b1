"""Sources and sinks: where bytes come from and go to.

    with open_source("train.tfrecord") as source:
        source.head(12)             # look at the start
        source.range(64, 128)       # any part; a mapped file gives a view of itself
        source.read(1 << 20)        # or one piece after the other

    with open_sink("out.bin") as sink:
        sink.write(array)           # the file appears, whole, when the block ends well

    with Replacement() as files:    # several files that appear in the order they were opened
        data, index = files.open("model.data"), files.open("model.index")

A name is a local path, "-" or a URL. `url` takes names apart; `source` and `sink` read and write
local files, `replacement` writes several that appear together (with `temporary`, `attributes` and
`journal`); `remote` serves object stores and web servers (with `store`, `faults` and `upload`) and
`filesystem` all other URLs, both by way of `backend`, and with `ranged` and `plan` for reading;
`place` keeps a name, its options and its source together. What the bytes mean is left to the
formats, compression to `tensorferry.codecs.compression`. What writes is imported when it is first
used: most programs that look into a file write none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from tensorferry.errors import UnsupportedError
from tensorferry.storage import url as urls
from tensorferry.storage.backend import Options, of_store
from tensorferry.storage.serving import backend_of
from tensorferry.storage.source import STANDARD_STREAM, Source, as_source, byte_view, open_local
from tensorferry.storage.url import is_url, localize

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.storage.replacement import Replacement, only_writer
    from tensorferry.storage.sink import Buffers, FileSink, Sink
else:

    def __getattr__(name: str) -> object:
        """What writes files, and is exported here."""
        if name not in ("Buffers", "FileSink", "Replacement", "Sink", "only_writer"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tensorferry.storage.replacement import Replacement, only_writer
        from tensorferry.storage.sink import Buffers, FileSink, Sink

        found = {each.__name__: each for each in (FileSink, Replacement, Sink, only_writer)}
        globals().update(found, Buffers=Buffers)
        return globals()[name]


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
    "only_writer",
    "open_sink",
    "open_source",
    "remove",
]

Path = str | os.PathLike[str]


def open_source(given: Path | Buffer | BinaryIO, *, options: Options = None) -> Source:
    """Opens a file, a stream or bytes for reading.

    Args:
        given: The path of a local file, a URL, "-" for the standard input, a binary file object
            (read from its current position, and left open), or the bytes themselves.
        options: The storage options of a URL: see `docs/storage.md`. For a local file, `mmap`
            says whether it is mapped.

    Raises:
        FormatError: The path is a directory.
        UnsupportedError: The file object is opened as text, or nothing here reads such URLs.
        OSError: The system's own error, such as FileNotFoundError.
    """
    if not isinstance(given, str | os.PathLike):
        return open_local(given)
    path = localize(given)
    if is_url(path):
        source = backend_of(path).open_source(path, of_store(options))
        return _cached(source, path, options) if options and options.get("cache") else source
    if options and options.get("mmap") is False and path != STANDARD_STREAM:
        from tensorferry.storage.local import open_unmapped

        return open_unmapped(path)
    return open_local(path)


def _cached(source: Source, url: str, options: Options) -> Source:
    """The local copy of an object, mapped; the source itself if the object is not cached."""
    from tensorferry.storage import cache

    with cache.held(source, url, backend_of(url).address(url, of_store(options))) as path:
        if path is None:
            return source
        copy = open_local(path)
    copy.path = source.path
    source.close()
    return copy


@contextmanager
def open_sink(path: Path, *, durable: bool = True, options: Options = None) -> Iterator[FileSink]:
    """Opens a file for writing; it replaces its target when the `with` block ends well.

    If the block raises, the target stays as it was and nothing is left beside it. A local target
    that is replaced passes its permission bits on, and a link stays a link. Devices and pipes are
    written directly, as is the standard output ("-").

    Args:
        path: The target: a local path, a URL, or "-".
        durable: Whether to wait until the disk has the bytes, and then the name.
        options: The storage options of a URL: see `docs/storage.md`.

    Raises:
        UnsupportedError: Nothing here writes such URLs.
        OSError: The system's own error.
    """
    from tensorferry.storage.replacement import Replacement

    with Replacement(durable=durable, options=options) as replacement:
        yield replacement.open(path)


def append_sink(
    path: Path, offset: int, *, durable: bool = True
) -> AbstractContextManager[FileSink]:
    """Opens an existing local file to write from `offset` on, in place.

    The first write cuts the file at `offset`. If the block raises, the file is cut there again. A
    process that is killed leaves a part of what it wrote: the format must be able to tell.

    Args:
        path: A regular file.
        offset: Where the good part of the file ends.
        durable: Whether to wait until the disk has the bytes.

    Raises:
        FormatError: The path is no regular file, or the file ends before `offset`.
        UnsupportedError: The file is remote.
        OSError: The system's own error, such as FileNotFoundError.
    """
    path = localize(path)
    if is_url(path):
        raise UnsupportedError(
            "nothing can be appended to a remote file", path=path, hint="write a new one"
        )
    from tensorferry.storage.sink import append_local

    return append_local(path, offset, durable=durable)


def exists(path: Path, *, options: Options = None) -> bool:
    """Whether the path exists: locally as anything, in a store as an object."""
    path = localize(path)
    return (
        backend_of(path).exists(path, of_store(options)) if is_url(path) else os.path.exists(path)
    )


def remove(path: Path, *, options: Options = None) -> None:
    """Removes a file, if it exists."""
    path = localize(path)
    if is_url(path):
        backend_of(path).remove(path, of_store(options))
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def list_directory(path: Path, *, start: str = "", options: Options = None) -> list[str]:
    """The paths of the files directly in a directory, sorted.

    An object store has no directories: a directory that does not exist there is an empty one.

    Args:
        path: The directory.
        start: What the names of the files start with.
        options: The storage options of a URL.

    Raises:
        UnsupportedError: The directory is on a web server.
        OSError: The system's own error, such as FileNotFoundError.
    """
    path = localize(path)
    if is_url(path):
        found = backend_of(path).list_files(path, of_store(options), deep=False)
        return sorted(each for each in found if os.path.basename(each).startswith(start))
    # Nearly always the directory itself says what is a file, and the system is not asked again.
    with os.scandir(path) as entries:
        names = [each.name for each in entries if each.name.startswith(start) and _is_file(each)]
    return [os.path.join(path, name) for name in sorted(names)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a directory is a file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:  # a link that leads nowhere one may look
        return False


def match(pattern: Path, *, options: Options = None) -> list[str]:
    """The paths that match a pattern of `*`, `?`, `[a-z]` and `**/` (any directories), sorted.

    Raises:
        UnsupportedError: The pattern names a web server.
    """
    pattern = localize(pattern)
    if not is_url(pattern):
        import glob  # imported late: most names are no patterns

        return sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    directory, deep = urls.split_pattern(pattern)
    wanted = urls.matcher(pattern).fullmatch
    found = backend_of(pattern).list_files(directory, of_store(options), deep=deep)
    return sorted(filter(wanted, found))
