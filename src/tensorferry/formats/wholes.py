"""What formats of whole values have in common: TensorProto, structures, JSON and raw bytes.

Such a file is one value, which is read as a whole. What it is made of becomes a bundle of tensors
that are in memory, so that every verb of bundles works on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from tensorferry.errors import FormatError
from tensorferry.formats.contract import R, TensorOptions
from tensorferry.formats.table import TABLE
from tensorferry.storage.place import Place
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.held import Held, dequantized
from tensorferry.tensors.note import Note


class WholeReader(ABC, Generic[R]):
    """Reads a format of whole values: a format adds `value`."""

    name: str
    options: type[R]

    @abstractmethod
    def value(self, source: bytes | memoryview, how: R) -> Any:
        """The value in a buffer."""

    def find(self, place: Place) -> Place | None:
        """The place itself: it is one file."""
        return place

    def open(self, place: Place, how: R) -> Bundle:
        """Reads a file, and gives its tensors as a bundle."""
        assert isinstance(how, TensorOptions)
        try:
            value = self.value(place.open().everything(), how)
            kept = {} if how.kept is None else dict(how.kept.metadata)
            note, user = Note.from_metadata(kept)
        except FormatError as error:
            raise error.located(path=place.shown) from None
        tensors, note.layout = layout.flatten(value)
        stored = {name: Held(tensor) for name, tensor in tensors.items()}
        return Bundle(
            dequantized(stored, note) if how.dequantize else stored,
            facts=TABLE[self.name],
            place=place,
            note=note,
            metadata=user,
            check=None if how.kept is None or not how.verify else how.kept.check,
        )
