"""The reader and the writer of StructuredValues."""

from __future__ import annotations

from typing import Any

from tensorferry.budget import Budget
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.structure import message
from tensorferry.formats.wholes import WholeReader
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.content import Content


class Reader(WholeReader[TensorOptions]):
    """Reads StructuredValues."""

    name = message.NAME
    options = TensorOptions

    def value(
        self, source: bytes | memoryview, how: TensorOptions, budget: Budget | None = None
    ) -> Any:
        """The structure."""
        return message.read(source, budget=budget)


class Writer:
    """Writes StructuredValues."""

    options = WriteOptions

    def write(self, content: Content, target: Target, how: WriteOptions) -> Written:
        """Writes a value of any kind."""
        value = content.value()
        with target.sink() as sink:
            message.write(value, sink)
            return Written(size_of(sink), (target.path,))


FORMAT = Format(reads=Reader(), writes=Writer())
