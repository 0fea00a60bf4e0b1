"""Files of plain arrays, opened by few calls.

A file of some kilobytes is read in less time than it takes to ask whether it is a folder, a shard,
compressed, described by a sidecar or quantized, and a larger one is mapped in less. So a local file
that has the name of a format is read or mapped at once, and its arrays are listed by one native
call. Whatever is not as plain as that is None here, damage included: `tensorferry.files.open` has
the way for everything, and the errors. A checkpoint of the usual form is found by its name, too.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from typing import Any

from tensorferry.classes import NamedTuple
from tensorferry.errors import FerryError, FormatError
from tensorferry.files.sidecars import SUFFIX
from tensorferry.formats import table
from tensorferry.formats.contract import HEAD, Facts, Glimpse, Plain, ReadsPlain, ReadsUsual
from tensorferry.formats.detect import is_open
from tensorferry.formats.table import TABLE
from tensorferry.storage import system
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE, Source, read_small, source_of
from tensorferry.storage.temporary import identity_of
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.entries import Entries, views_in
from tensorferry.tensors.many import StoredArrays, cleaned
from tensorferry.tensors.note import Note


class Found(NamedTuple):
    """A file of plain arrays.

    Attributes:
        path: Where it is.
        facts: The facts of its format.
        source: All its bytes, in memory that nobody else has, or mapped.
        plain: Its arrays.
    """

    path: str
    facts: Facts
    source: Source
    plain: Plain

    def value(self) -> Any:
        """The arrays by name, or what the format makes of them; they are writable."""
        self.source.lend()
        assert self.source.buffer is not None
        try:
            return _value_in(self.source.buffer, self.plain)
        except FormatError as error:
            raise error.located(path=self.path) from None

    def bundle(self, *, lends: bool) -> Bundle:
        """The arrays as a bundle.

        Args:
            lends: Whether they are handed out writable.
        """
        return Bundle(
            StoredArrays(Entries(self.source, self.plain.places)),
            facts=self.facts,
            place=Place.opened(self.path, self.source, lends=lends),
            note=None if self.plain.layout is None else Note(self.plain.layout),
            metadata=self.plain.metadata,
            version=self.plain.version,
        )


def look(path: str) -> Found | None:
    """A file of plain arrays; None for any other."""
    known = _format_of(path[path.rfind(".") :])
    if known is None or "://" in path:
        return None
    source = read_small(path) or _map(path)
    if source is None:
        return None
    facts, reader = known
    buffer = source.buffer
    if buffer is None or not is_open(bytes(buffer[:HEAD])):
        return None
    # A sidecar is about the file that has the name now.
    if facts.metadata == "beside" and (
        os.access(path + SUFFIX, os.F_OK) or identity_of(path) != source.identity
    ):
        return None
    plain = reader.plain(buffer)
    return None if plain is None else Found(path, facts, source, plain)


def look_for_set(path: str, *, lends: bool) -> Bundle | None:
    """A thing of several files in its usual form, read with the usual options; None for any other.

    Args:
        path: As the user has it.
        lends: Whether the arrays are handed out writable.
    """
    reader = _set_of(path[path.rfind(".") :])
    if reader is None or "://" in path:
        return None
    try:
        return None if os.access(path, os.F_OK) else reader.open_usual(path, lends=lends)
    except (FerryError, ValueError):  # the long way says what is wrong
        return None


def value_of(data: bytes | memoryview, format: str | None = None) -> Any:
    """The same from bytes, of which arrays are views; None if they are no plain file.

    Args:
        data: The bytes.
        format: As the user named it; by default recognised.
    """
    known = _called(format) if format is not None else _recognised(bytes(data[:HEAD]))
    found = None if known is None else known[1].plain(memoryview(data))
    if found is None:
        return None
    with suppress(FormatError):  # the long way says what is wrong
        return _value_in(memoryview(data), found)


def _value_in(buffer: bytearray | memoryview, plain: Plain) -> Any:
    arrays = cleaned(views_in(buffer, plain.places), plain.places)
    return arrays if plain.layout is None else layout.rebuild(plain.layout, arrays)


def _map(path: str) -> Source | None:
    """A larger file, mapped."""
    with suppress(OSError, ValueError):
        found = os.stat(path)  # before it is opened: a pipe would notice that, and wait
        if stat.S_ISREG(found.st_mode) and found.st_size > SMALL_FILE:
            source = source_of(os.open(path, system.READ), path)
            if source.mapped is not None:
                return source
            source.close()
    return None


@lru_cache(maxsize=64)
def _format_of(suffix: str) -> tuple[Facts, ReadsPlain] | None:
    """The format that a suffix stands for, if it has a reader of plain arrays."""
    facts = next((facts for facts in TABLE.values() if suffix in facts.suffixes), None)
    return None if facts is None else _called(facts.name)


@lru_cache(maxsize=64)
def _set_of(suffix: str) -> ReadsUsual | None:
    """The reader for sets of files whose name ends so."""
    name = table.named(suffix)
    is_set = name is not None and TABLE[name].files == "several"
    return table.to_read(name).reads_usual if name is not None and is_set else None


@lru_cache(maxsize=64)
def _called(name: str) -> tuple[Facts, ReadsPlain] | None:
    """A format, if it has a reader of plain arrays."""
    facts = table.facts_of(name)
    reader = table.to_read(name).reads_plain if facts.reads_plain else None
    return None if reader is None else (facts, reader)


def _recognised(head: bytes) -> tuple[Facts, ReadsPlain] | None:
    """The format of a file with these first bytes, if it has a reader of plain arrays."""
    glimpse = Glimpse("", head)
    for name, facts in _READ_PLAINLY:
        if facts.recognise(glimpse) == "surely":
            return _called(name) if is_open(head) else None
    return None


_READ_PLAINLY = [(name, facts) for name, facts in TABLE.items() if facts.reads_plain]
