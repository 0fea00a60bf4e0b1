"""Small files of plain arrays, read by few calls.

A file of some kilobytes is read in less time than it takes to ask whether it is a folder, a shard,
compressed, described by a sidecar or quantized. So a local file that has the name of a format is
read by one native call, and its arrays are listed by another. Whatever is not as plain as that is
None here, damage included: `tensorferry.files.open` has the way for everything, and the errors.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, NamedTuple

from tensorferry import _native
from tensorferry.errors import FormatError
from tensorferry.files.sidecars import SUFFIX
from tensorferry.formats import table
from tensorferry.formats.contract import HEAD, Facts, Plain, ReadsSmall
from tensorferry.formats.detect import is_open
from tensorferry.formats.table import TABLE
from tensorferry.storage.journal import identity_of
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE, Source, Whole
from tensorferry.storage.temporary import Identity
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.entries import Entries, views_in
from tensorferry.tensors.many import StoredArrays, cleaned
from tensorferry.tensors.note import Note


class Small(NamedTuple):
    """A small file in memory.

    Attributes:
        path: Where it is.
        facts: The facts of its format.
        memory: All its bytes, which nobody else has.
        identity: Of the file.
        plain: Its arrays.
    """

    path: str
    facts: Facts
    memory: Whole
    identity: Identity
    plain: Plain

    def value(self) -> Any:
        """The arrays by name, or what the format makes of them; they are writable."""
        places = self.plain.places
        try:
            arrays = cleaned(views_in(self.memory, places), places)
        except FormatError as error:
            raise error.located(path=self.path) from None
        return arrays if self.plain.layout is None else layout.rebuild(self.plain.layout, arrays)

    def bundle(self, *, lends: bool) -> Bundle:
        """The arrays as a bundle.

        Args:
            lends: Whether they are handed out writable.
        """
        view = memoryview(self.memory)
        source = Source(self.path, buffer=view if lends else view.toreadonly())
        source.identity = self.identity
        return Bundle(
            StoredArrays(Entries(source, self.plain.places)),
            facts=self.facts,
            place=Place.opened(self.path, source, lends=lends),
            note=None if self.plain.layout is None else Note(self.plain.layout),
            metadata=self.plain.metadata,
            version=self.plain.version,
        )


def look(path: str) -> Small | None:
    """A small file of plain arrays; None for any other."""
    known = _format_of(path[path.rfind(".") :])
    if known is None or "://" in path:
        return None
    found = _native.read_small(path, SMALL_FILE, Whole)
    if found is None:
        return None
    facts, reader = known
    memory, identity = found
    if not is_open(bytes(memory[:HEAD])):
        return None
    # A sidecar is about the file that has the name now.
    if facts.metadata == "beside" and (
        os.access(path + SUFFIX, os.F_OK) or identity_of(path) != identity
    ):
        return None
    plain = reader.plain(memory)
    return None if plain is None else Small(path, facts, memory, identity, plain)


@lru_cache(maxsize=64)
def _format_of(suffix: str) -> tuple[Facts, ReadsSmall] | None:
    """The format that a suffix stands for, if it has a reader of small files."""
    facts = next((facts for facts in TABLE.values() if suffix in facts.suffixes), None)
    if facts is None or not facts.reads_small:
        return None
    reader = table.to_read(facts.name).reads_small
    return None if reader is None else (facts, reader)
