"""Files: what a page shows, opened once each, and asked by one thread at a time.

Tensors and columns are known by their numbers: names come from files, and may be of any length.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import Found
from tensorferry.operations.glance import total_size
from tensorferry.operations.inspect import FileInfo, inspect

if TYPE_CHECKING:
    from tensorferry.operations.pages import Pages
    from tensorferry.operations.subject import Subject

VERIFIED = 1 << 30
"""Up to how many bytes the checksums of rows are verified before the first of them is shown."""


class File:
    """A file, or a set of files, that is shown.

    Args:
        number: Its place among those shown.
        found: What the user named.
        options: Of the format, as the user gave them.
    """

    def __init__(self, number: int, found: Found, options: keywords.Opening) -> None:
        self.number = number
        self.found = found
        self.lock = threading.RLock()
        self._options = options
        self._subject: Subject | None = None
        self._pages: Pages | None = None

    @property
    def name(self) -> str:
        """As the user named it."""
        return self.found.name

    @cached_property
    def info(self) -> FileInfo:
        """What is in it."""
        return inspect(self._apart(), **self._options)

    @cached_property
    def is_verified(self) -> bool:
        """Whether checksums of rows are verified before they are shown: not in large files."""
        size = total_size(self.found.places)
        return size is not None and size <= VERIFIED

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

    @contextmanager
    def paging(self) -> Iterator[Pages]:
        """Its rows by their numbers, for one thread at a time."""
        with self.reading() as subject:
            if self._pages is None:
                from tensorferry.operations.pages import Pages

                self._pages = Pages(subject)
            yield self._pages

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of its tensors or columns."""
        with self.reading() as subject:
            return list(subject.infos)

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
        except (FerryError, OSError) as error:
            return {**base, "error": str(error)}
        kind = None if info.model is None else info.model.kind
        facts = {"format": info.format, "holds": info.holds, "count": info.count}
        return {**base, **facts, "nbytes": info.nbytes, "model": kind}

    def close(self) -> None:
        """Closes the file."""
        with self.lock:
            if self._subject is not None:
                self._subject.close()
                self._subject = None
