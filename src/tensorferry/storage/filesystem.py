"""All other URLs, through fsspec where it is installed: hf://, sftp://, hdfs://, memory:// ...

A file is written under a temporary name beside its target and then moved onto the target; whether
that is atomic depends on the file system. fsspec has no versions: if a file is replaced between two
reads, at most the size tells.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any
from weakref import WeakKeyDictionary

from tensorferry.errors import FerryError, FormatError, MissingExtraError, UnsupportedError
from tensorferry.storage.backend import Measured, Options
from tensorferry.storage.ranged import RangedSource
from tensorferry.storage.sink import FileSink
from tensorferry.storage.source import Source
from tensorferry.storage.url import folder_named, scrub, shown, split


def _locate(url: str, options: Options) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    scheme = split(url).scheme
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError(
            f"{scheme}:// needs fsspec, which is not installed", path=url, hint="pip install fsspec"
        ) from error
    with translated(url):
        try:
            system, path = fsspec.core.url_to_fs(url, **(options or {}))
        except ImportError as error:
            raise MissingExtraError(
                f"{scheme}:// needs a package that is not installed: {scrub(str(error))}", path=url
            ) from None
        except ValueError as error:
            raise UnsupportedError(
                f"nothing here reads {scheme}:// URLs: {scrub(str(error))}",
                path=url,
                hint="s3, gs, az, http and https are built in, others are those of fsspec",
            ) from None
        return system, path


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Adds the URL to errors that do not name it, and takes secrets out of them."""
    url = shown(url)
    try:
        yield
    except FerryError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such file", url) from None
    except IsADirectoryError:
        raise FormatError("is a directory, expected a file", path=url) from None
    except OSError as error:
        text = scrub(str(error))
        if url in text and text == str(error):
            raise
        kind = type(error) if isinstance(error, PermissionError | ConnectionError) else OSError
        raise kind(text if url in text else f"{url}: {text}") from None


def open_source(url: str, options: Options) -> Source:
    """Opens a file for reading."""
    system, path = _locate(url, options)
    with translated(url):
        found = system.info(path)
        if found.get("type") == "directory":
            raise FormatError("is a directory, expected a file", path=url)
        if found.get("size") is None:
            return Source(shown(url), file=system.open(path, "rb"), owned=True)
        return FilesystemSource(shown(url), system, path, int(found["size"]))


_locks: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()


def _turn(system: Any) -> AbstractContextManager[Any]:
    """In which one thread at a time uses a file system, unless it serves several at once.

    fsspec's asynchronous file systems do. Others may share one connection or one open archive
    between all their files: threads that read a zip archive get each other's bytes with Python 3.12
    and 3.13.0.
    """
    if system.async_impl:
        return nullcontext()
    return _locks.setdefault(system, threading.Lock())


class FilesystemSource(RangedSource):
    """A file of an fsspec file system."""

    def __init__(self, url: str, system: Any, path: str, size: int) -> None:
        super().__init__(url, size)
        self._system = system
        self._path = path
        self._turn = _turn(system)

    def _another(self) -> FilesystemSource:
        return FilesystemSource(self.path, self._system, self._path, self.size)

    def fetch(self, start: int, stop: int) -> memoryview:
        """Makes one request."""
        with translated(self.path), self._turn:
            return memoryview(self._system.cat_file(self._path, start=start, end=stop))


def open_sink(url: str, options: Options) -> FilesystemSink:
    """Opens a file for writing."""
    return FilesystemSink(url, *_locate(url, options))


class FilesystemSink(FileSink):
    """A temporary file that is moved onto its target."""

    def __init__(self, url: str, system: Any, path: str) -> None:
        directory, slash, name = path.rpartition("/")
        self._system = system
        self._target = path
        # fsspec's own files can be discarded; others, such as those of libraries, only closed.
        self._opened: Any = None
        self._temporary = f"{directory}{slash}.{name[:50]}.{os.urandom(8).hex()}.tmp"
        with translated(url):
            is_folder = not name or system.isdir(path)
        if is_folder:  # it would be moved into the folder
            raise folder_named(url)
        with translated(url):
            self._opened = system.open(self._temporary, "wb")
        super().__init__(self._opened, path=url, owned=True)

    def prepare(self) -> None:
        """Finishes the temporary file."""
        with translated(self.path):
            self._file.close()

    def commit(self) -> None:
        """Moves the temporary file onto the target."""
        with translated(self.path):
            _move(self._system, self._temporary, self._target)

    def abort(self) -> None:
        """Removes the temporary file."""
        with suppress(Exception):
            self._opened.discard()
        with suppress(Exception):
            self._file.close()
        with suppress(Exception):
            self._system.rm_file(self._temporary)


def address(url: str, options: Options) -> str:
    """The address of the file system: nothing but the URL is known of it."""
    return ""


def exists(url: str, options: Options) -> bool:
    """Whether there is a file or directory of this name."""
    system, path = _locate(url, options)
    with translated(url):
        return bool(system.exists(path))


def remove(url: str, options: Options) -> None:
    """Removes a file, if there is one."""
    system, path = _locate(url, options)
    with translated(url), suppress(FileNotFoundError):
        system.rm_file(path)


def copy(url: str, target: str, options: Options) -> None:
    """Copies a file inside its file system, under a temporary name first."""
    system, path = _locate(url, options)
    goal = _locate(target, options)[1]
    directory, slash, name = goal.rpartition("/")
    hidden = f"{directory}{slash}.{name[:50]}.{os.urandom(8).hex()}.tmp"
    with translated(url):
        system.cp_file(path, hidden)
        _move(system, hidden, goal)


def _move(system: Any, path: str, target: str) -> None:
    """Moves a file onto another name.

    Where fsspec moves by copying, it takes a name with *, ? or [ for a pattern.
    """
    import fsspec

    if type(system).mv is fsspec.AbstractFileSystem.mv:
        system.cp_file(path, target)
        system.rm_file(path)
    else:
        system.mv(path, target)


def list_files(url: str, options: Options, *, deep: bool) -> Iterator[str]:
    """The URLs of the files in a directory; with `deep`, also those further down."""
    system, path = _locate(url, options)
    with translated(url):
        try:
            found = system.find(path, maxdepth=None if deep else 1)
        except FileNotFoundError:
            return
        # In "zip://inside::s3://bucket/archive", names go before the first pair of colons.
        directory, colons, outside = url.partition("::")
        directory = directory if directory.endswith("/") else f"{directory}/"
        for name in found:
            yield directory + name.removeprefix(path).lstrip("/") + colons + outside


def measure(first: str, last: str, options: Options) -> tuple[Measured, ...]:
    """Nothing: few file systems list files in order."""
    return ()
