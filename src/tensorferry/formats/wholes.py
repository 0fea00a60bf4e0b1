"""Shared code of formats of whole values: TensorProto, structures, JSON and raw bytes.

Such a file is one value, which is read as a whole. Its parts become a bundle of tensors in memory,
so that every verb of bundles works on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

from tensorferry.budget import Budget
from tensorferry.errors import FormatError
from tensorferry.formats import table
from tensorferry.formats.contract import HEAD, Glimpse, R, TensorOptions, choose
from tensorferry.formats.detect import recognise
from tensorferry.storage.place import Place
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.held import HeldTensors, dequantized
from tensorferry.tensors.note import Note


def reader_of(source: bytes | memoryview, format: str | None) -> WholeReader[Any] | None:
    """The reader of some bytes, if they are a whole value.

    Args:
        source: The bytes.
        format: As the user named it; by default recognised.
    """
    name = format or recognise(Glimpse("", bytes(source[:HEAD])))
    reads = None if name is None else table.to_read(name).reads
    return reads if isinstance(reads, WholeReader) else None


class WholeReader(ABC, Generic[R]):
    """Reads a format of whole values: a format adds `value`."""

    name: str
    options: type[R]

    @abstractmethod
    def value(self, source: bytes | memoryview, how: R, budget: Budget | None = None) -> Any:
        """The value in a buffer.

        Args:
            source: The buffer.
            how: The options.
            budget: Counts what the value takes beside the buffer; by default the buffer has its
                own.
        """

    def read(self, source: bytes | memoryview, given: Mapping[str, Any]) -> Any:
        """The value in a buffer, with the options that a user gave."""
        return self.value(source, choose(self.options, given, format=self.name))

    def find(self, place: Place) -> Place | None:
        """The place itself: it is one file."""
        return place

    def open(self, place: Place, how: R) -> Bundle:
        """Reads a file, and returns its tensors as a bundle."""
        assert isinstance(how, TensorOptions)
        try:
            source = place.open()
            value = self.value(source.everything(), how, source.budget)
            kept = {} if how.kept is None else dict(how.kept.metadata)
            note, user = Note.from_metadata(kept)
        except FormatError as error:
            raise error.located(path=place.shown) from None
        tensors, note.layout = layout.flatten(value)
        stored = HeldTensors(tensors)
        return Bundle(
            dequantized(stored, note) if how.dequantize else stored,
            facts=table.TABLE[self.name],
            place=place,
            note=note,
            metadata=user,
            check=None if how.kept is None or not how.verify else how.kept.check,
        )
