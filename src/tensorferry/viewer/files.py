"""Files: what a page shows, opened once each, and asked by one thread at a time.

Tensors and columns are known by their numbers: names come from files, and may be of any length.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass, replace
from tensorferry.errors import FerryError, Problem, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import Found
from tensorferry.operations.fileinfo import FileInfo, look
from tensorferry.operations.glance import starts_with_record, total_size
from tensorferry.storage.source import shorter
from tensorferry.tensors.infos import TensorInfo

if TYPE_CHECKING:
    from tensorferry.operations.pages import Pages
    from tensorferry.operations.subject import Subject
    from tensorferry.progress import Progress

SMALL = 1 << 22
"""Up to how many bytes rows are counted before the first of them is shown."""

STAMPED = 1000
"""Of how many files it is noticed that they were replaced."""

DAMAGES = 1000
"""How many damaged places are told."""

Stamp = tuple[int, int, int]
"""The inode of a file, its size, and when it was changed."""

VERIFIED = 1 << 30
"""Up to how many bytes the checksums of rows are verified when they are counted."""


@dataclass(frozen=True)
class Located:
    """What is known of rows once all of them were found.

    Attributes:
        count: Their number; None where only reading everything would tell.
        damages: The damage that was passed over.
    """

    count: int | None
    damages: Sequence[Problem]


class File:
    """A file, or a set of files, that is shown.

    Args:
        number: Its place among those shown.
        found: What the user named.
        options: Options of the format, as the user gave them.
    """

    def __init__(self, number: int, found: Found, options: keywords.Opening) -> None:
        self.number = number
        self.found = found
        self.lock = threading.RLock()
        self._options = options
        self._version = 0
        self._stamp: Sequence[Stamp | None] = ()
        self._located: Located | None = None
        self._subject: Subject | None = None
        self._pages: Pages | None = None

    @property
    def name(self) -> str:
        """As the user named it."""
        return self.found.name

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from other files, and from what it was before it was replaced."""
        return self.number, self._version

    @cached_property
    def info(self) -> FileInfo:
        """What is in it; large files of rows are not counted."""
        info = look(self._apart(), self._options, counted=False)
        self._stamp = _stamp(info)
        return info

    def refresh(self) -> None:
        """Forgets what is known of a local file that was written or replaced since."""
        with self.lock:
            if "info" in self.__dict__ and _stamp(self.info) != self._stamp:
                self._close()
                self._located = None
                self._version += 1
                for name in ("info", "infos", "names", "_size"):
                    self.__dict__.pop(name, None)

    @cached_property
    def _size(self) -> int | None:
        return total_size(self.found.places)

    @property
    def is_verified(self) -> bool:
        """Whether checksums of rows are verified when they are counted: not in large files."""
        return self._size is not None and self._size <= VERIFIED

    @property
    def located(self) -> Located | None:
        """What is known of all rows: of small files at once, of others after `locate`."""
        if self._located is None and self._size is not None and self._size <= SMALL:
            self.locate()
        return self._located

    def locate(self, progress: Progress | None = None) -> Located:
        """Finds all rows, while others go on reading the first of them."""
        from tensorferry.operations.pages import Pages

        if self._located is not None:
            return self._located
        version, subject = self._version, self.open()
        try:
            pages = Pages(subject)
            located = Located(pages.locate(progress), subject.damages()[:DAMAGES])
        except BaseException:
            subject.close()
            raise
        with self.lock:
            if self._version == version:
                self._close()
                self._subject, self._pages, self._located = subject, pages, located
                return located
        subject.close()
        return self.locate(progress)  # the file was replaced meanwhile

    def check(self) -> None:
        """Opens the file, but for records, which can wait until a browser has started.

        Raises:
            FormatError: It cannot be opened.
        """
        if keywords.given(self._options) or not starts_with_record(self.found):
            _ = self.info

    def open(self) -> Subject:
        """Opens it anew, for whoever reads it beside others."""
        from tensorferry.operations.subject import open_one

        options: keywords.Opening = {**self._options}
        if "verify" not in options and not self.is_verified and self.holds_rows:
            options["verify"] = False
        return open_one(self._apart(), options=options, lenient=self.holds_rows)

    def _apart(self) -> Found:
        """The same with places of its own: who closes one of them closes it for all."""
        places = (place.at(place.path) if place.is_named else place for place in self.found.places)
        return replace(self.found, places=tuple(places))

    @property
    def holds_rows(self) -> bool:
        """Whether it has rows, not tensors."""
        return self.info.holds != "tensors"

    @contextmanager
    def reading(self) -> Iterator[Subject]:
        """The file, for one thread at a time."""
        with self.lock:
            if self._subject is None:
                self._subject = self.open()
            yield self._subject
            self.check_sizes()

    def check_sizes(self) -> None:
        """Makes sure that no local file was cut since it was opened.

        Bytes that a mapped file lost read as zeros up to the end of a page, and no signal tells.

        Raises:
            TruncatedError: One was; `refresh` opens it anew.
        """
        if "info" not in self.__dict__ or (now := _stamp(self.info)) == self._stamp:
            return
        for path, before, after in zip(self.info.files, self._stamp, now, strict=False):
            if before and after and before[0] == after[0] and after[1] < before[1]:
                raise shorter(path, after[1], before[1])

    @contextmanager
    def paging(self) -> Iterator[Pages]:
        """Its rows by their numbers, for one thread at a time."""
        with self.reading() as subject:
            if self._pages is None:
                from tensorferry.operations.pages import Pages

                self._pages = Pages(subject)
            yield self._pages

    @cached_property
    def infos(self) -> Mapping[str, TensorInfo]:
        """What is known of its tensors or columns."""
        tensors = self.info.tensors
        if not self.holds_rows and all(info.nbytes is not None for info in tensors):
            return {info.name: info for info in tensors}
        # Who opens a compressed file knows how large its tensors are.
        with self.reading() as subject:
            return subject.infos

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of its tensors or columns."""
        return list(self.infos)

    def name_at(self, number: int) -> str:
        """The name of a tensor or column.

        Raises:
            UnsupportedError: There are not as many.
        """
        if not 0 <= number < len(self.names):
            raise UnsupportedError(f"number {number} of {len(self.names)}", path=self.name)
        return self.names[number]

    def summary(self) -> Mapping[str, Any]:
        """What a list of files says of it; an error is a part of that."""
        base = {"number": self.number, "name": self.name}
        try:
            with self.lock:
                info = self.info
        except FerryError as error:
            return {**base, "error": error.message, "hint": error.hint}
        except OSError as error:
            return {**base, "error": error.strerror or str(error)}
        kind = None if info.model is None else info.model.kind
        facts = {"format": info.format, "holds": info.holds, "count": info.count}
        return {**base, **facts, "nbytes": info.nbytes, "model": kind}

    def close(self) -> None:
        """Closes the file."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        if self._pages is not None:
            self._pages.close()
            self._pages = None
        if self._subject is not None:
            self._subject.close()
            self._subject = None


def _stamp(info: FileInfo) -> Sequence[Stamp | None]:
    """What changes when local files are written or replaced."""
    stamps: list[Stamp | None] = []
    for path in info.files[:STAMPED]:
        try:
            found = os.stat(path)
        except (OSError, ValueError):  # a URL, or a file that is gone
            stamps.append(None)
        else:
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return stamps
