"""What formats of named arrays have in common: npy, npz and safetensors.

Such a format says which arrays its file has and where they lie (`Contents`). That the arrays are
parts of tensors (`tensorferry.tensors.stored`), that a note says of which, and that some values are
quantized is the same for all of them, and here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError
from tensorferry.formats.contract import R, TensorOptions
from tensorferry.formats.table import TABLE
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.entries import Entries, Entry
from tensorferry.tensors.held import dequantized
from tensorferry.tensors.many import StoredArrays
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored, Unreadable, put_together


@dataclass(slots=True)
class Contents:
    """The arrays of a file.

    Attributes:
        entries: By name.
        metadata: Texts by name.
        layout: That every file of the format has.
        version: Of the format, where the file says one.
        compression: The format's own, if the file uses it.
    """

    entries: Mapping[str, Entry | Unreadable]
    metadata: dict[str, str] = field(default_factory=dict)
    layout: dict[str, Any] | None = None
    version: str | None = None
    compression: str | None = None


class ArrayReader(ABC, Generic[R]):
    """Reads a format of named arrays: a format adds `contents`."""

    name: str

    @abstractmethod
    def contents(self, place: Place, how: R) -> Contents:
        """The arrays of a file; nothing but headers is read."""

    def find(self, place: Place) -> Place | None:
        """The place itself: it is one file."""
        return place

    def open(self, place: Place, how: R) -> Bundle:
        """Opens a file as a bundle of the tensors that its arrays are parts of."""
        assert isinstance(how, TensorOptions)
        try:
            found = self.contents(place, how)
            kept = {} if how.kept is None else how.kept.metadata
            note, user = Note.from_metadata({**found.metadata, **kept})
        except FormatError as error:
            raise error.located(path=place.shown) from None
        note = Note() if how.parts else note
        if note.layout is None and not how.parts:
            note.layout = found.layout
        stored: Mapping[str, Stored]
        if isinstance(found.entries, Entries) and not note.dtypes and not note.tensors:
            stored = StoredArrays(found.entries)
        else:
            stored = put_together(found.entries, note)
        sources = _sources(found.entries)
        return Bundle(
            dequantized(stored, note) if how.dequantize else stored,
            facts=TABLE[self.name],
            place=place,
            note=note,
            metadata=user,
            check=None if how.kept is None or not how.verify else how.kept.check,
            files=[place.path, *[path for path in sources if path != place.shown]],
            version=found.version,
            compression=found.compression,
        )


def _sources(entries: Mapping[str, Entry | Unreadable]) -> list[str]:
    """The paths of the files that arrays lie in."""
    if isinstance(entries, Entries):
        return [entries.source.path]
    paths = (entry.source.path for entry in entries.values() if isinstance(entry, Entry))
    return list(dict.fromkeys(paths))
