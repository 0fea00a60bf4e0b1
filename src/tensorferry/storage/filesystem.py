"""All other URLs, through fsspec where it is installed: hf://, sftp://, hdfs://, memory:// ...

A file is written under a temporary name beside its target and moved onto it, which is as atomic as
that file system makes it. fsspec knows no versions: a file that is replaced between two reads is
noticed by its size at most.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tensorferry.errors import FerryError, FormatError, MissingExtraError, UnsupportedError
from tensorferry.storage.ranged import RangedSource
from tensorferry.storage.sink import FileSink
from tensorferry.storage.source import Source
from tensorferry.storage.url import shown, split


def _locate(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
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
                f"{scheme}:// needs a package that is not installed: {error}", path=url
            ) from error
        except ValueError as error:
            raise UnsupportedError(
                f"nothing here reads {scheme}:// URLs: {error}",
                path=url,
                hint="s3, gs, az, http and https are built in, others are those of fsspec",
            ) from error
        return system, path


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Names the URL in errors that do not."""
    url = shown(url)
    try:
        yield
    except FerryError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "no such file", url) from error
    except IsADirectoryError:
        raise FormatError("is a directory, expected a file", path=url) from None
    except OSError as error:
        if url in str(error):
            raise
        kind = type(error) if isinstance(error, PermissionError | ConnectionError) else OSError
        raise kind(f"{url}: {error}") from error


def open_source(url: str, options: Mapping[str, Any] | None) -> Source:
    """Opens a file for reading."""
    system, path = _locate(url, options)
    with translated(url):
        found = system.info(path)
        if found.get("type") == "directory":
            raise FormatError("is a directory, expected a file", path=url)
        if found.get("size") is None:
            return Source(shown(url), file=system.open(path, "rb"), owned=True)
        return FilesystemSource(shown(url), system, path, int(found["size"]))


class FilesystemSource(RangedSource):
    """A file of an fsspec file system."""

    def __init__(self, url: str, system: Any, path: str, size: int) -> None:
        super().__init__(url, size)
        self._system = system
        self._path = path

    def fetch(self, start: int, stop: int) -> memoryview:
        """These bytes."""
        with translated(self.path):
            return memoryview(self._system.cat_file(self._path, start=start, end=stop))


def open_sink(url: str, options: Mapping[str, Any] | None) -> FilesystemSink:
    """Opens a file for writing."""
    return FilesystemSink(url, *_locate(url, options))


class FilesystemSink(FileSink):
    """A temporary file that is moved onto its target."""

    def __init__(self, url: str, system: Any, path: str) -> None:
        directory, slash, name = path.rpartition("/")
        self._system = system
        self._target = path
        self._temporary = f"{directory}{slash}.{name[:50]}.{os.urandom(8).hex()}.tmp"
        with translated(url):
            file = system.open(self._temporary, "wb")
        super().__init__(file, path=url, owned=True)

    def prepare(self) -> None:
        """Finishes the temporary file."""
        with translated(self.path):
            self._file.close()

    def commit(self) -> None:
        """Moves it onto its target."""
        with translated(self.path):
            self._system.mv(self._temporary, self._target)

    def abort(self) -> None:
        """Removes the temporary file."""
        if hasattr(self._file, "discard"):
            with suppress(Exception):
                self._file.discard()
        with suppress(Exception):
            self._file.close()
        with suppress(Exception):
            self._system.rm_file(self._temporary)


def exists(url: str, options: Mapping[str, Any] | None) -> bool:
    """Whether there is such a file."""
    system, path = _locate(url, options)
    with translated(url):
        return bool(system.exists(path))


def remove(url: str, options: Mapping[str, Any] | None) -> None:
    """Removes a file, if there is one."""
    system, path = _locate(url, options)
    with translated(url), suppress(FileNotFoundError):
        system.rm_file(path)


def list_files(url: str, options: Mapping[str, Any] | None, *, deep: bool) -> Iterator[str]:
    """The URLs of the files in a directory, with those in directories in it if `deep`."""
    system, path = _locate(url, options)
    with translated(url):
        try:
            found = system.find(path, maxdepth=None if deep else 1)
        except FileNotFoundError:
            return
        # "zip://inside::s3://bucket/archive": what is listed goes before the first pair of colons.
        directory, colons, outside = url.partition("::")
        directory = directory if directory.endswith("/") else f"{directory}/"
        for name in found:
            yield directory + name.removeprefix(path).lstrip("/") + colons + outside
