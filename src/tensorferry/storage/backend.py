"""What serves URLs: the functions that `tensorferry.storage` calls for names that are not local.

`tensorferry.storage.remote` has them for object stores and web servers,
`tensorferry.storage.filesystem` for all other URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tensorferry.storage.sink import FileSink
from tensorferry.storage.source import Source

Options = Mapping[str, Any] | None
"""The storage options of a URL: see `docs/storage.md`. `mmap` is about local files."""


def of_store(options: Options) -> Options:
    """Storage options without the one that is about local files."""
    if options and "mmap" in options:
        options = {name: value for name, value in options.items() if name != "mmap"}
    return options or None


class Backend(Protocol):
    """A module with these functions."""

    def open_source(self, url: str, options: Options) -> Source:
        """Opens a file for reading."""

    def open_sink(self, url: str, options: Options) -> FileSink:
        """Opens a file for writing."""

    def exists(self, url: str, options: Options) -> bool:
        """Whether there is a file of this name."""

    def remove(self, url: str, options: Options) -> None:
        """Removes a file, if there is one."""

    def copy(self, url: str, target: str, options: Options) -> None:
        """Copies a file inside its store; the copy appears as a whole."""

    def move(self, url: str, target: str, options: Options) -> None:
        """Gives a file another name in the same store, in place of the file that has the name."""

    def list_files(self, url: str, options: Options, *, deep: bool) -> Iterable[str]:
        """The URLs of the files in a directory; with `deep`, also those further down."""
