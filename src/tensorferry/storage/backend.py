"""What serves URLs: the functions that `tensorferry.storage` calls for names that are not local.

`tensorferry.storage.remote` has them for object stores and web servers,
`tensorferry.storage.filesystem` for all other URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tensorferry.classes import NamedTuple
from tensorferry.storage.source import Source

if TYPE_CHECKING:
    from tensorferry.storage.sink import FileSink

Options = Mapping[str, Any] | None
"""The storage options of a URL: see `docs/storage.md`. `mmap` and `cache` are about local files."""

LOCAL = ("mmap", "cache")


def of_store(options: Options) -> Options:
    """Storage options without those that are about local files."""
    if options and any(name in options for name in LOCAL):
        options = {name: value for name, value in options.items() if name not in LOCAL}
    return options or None


class Measured(NamedTuple):
    """What a listing tells of a file.

    Attributes:
        url: Its name.
        size: Number of its bytes.
        version: As the source of the file has it; None if only opening the file tells.
    """

    url: str
    size: int
    version: str | None


class Backend(Protocol):
    """A module with these functions."""

    def open_source(self, url: str, options: Options) -> Source:
        """Opens a file for reading."""

    def open_sink(self, url: str, options: Options) -> FileSink:
        """Opens a file for writing."""

    def address(self, url: str, options: Options) -> str:
        """The address of the store, where it is not the usual one."""

    def exists(self, url: str, options: Options) -> bool:
        """Whether there is a file of this name."""

    def remove(self, url: str, options: Options) -> None:
        """Removes a file, if there is one."""

    def copy(self, url: str, target: str, options: Options) -> None:
        """Copies a file inside its store; the copy appears as a whole."""

    def list_files(self, url: str, options: Options, *, deep: bool) -> Iterable[str]:
        """The URLs of the files in a directory; with `deep`, also those further down."""

    def measure(self, first: str, last: str, options: Options) -> Iterable[Measured]:
        """The files between two names, both included; nothing where no listing tells sizes."""
