"""The reader and the writer of TensorProtos."""

from __future__ import annotations

from typing import Any

from tensorferry.budget import Budget
from tensorferry.classes import dataclass
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.tensorproto import message
from tensorferry.formats.wholes import WholeReader
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.content import Content


class Reader(WholeReader[TensorOptions]):
    """Reads TensorProtos."""

    name = message.NAME
    options = TensorOptions

    def value(
        self, source: bytes | memoryview, how: TensorOptions, budget: Budget | None = None
    ) -> Any:
        """The tensor."""
        return message.read(source, budget=budget)


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing(WriteOptions):
    """How TensorProtos are written.

    Attributes:
        string_content: Put strings into `tensor_content`, as the parts of a serialized sparse
            tensor have them. `tf.make_ndarray` cannot read that.
    """

    string_content: bool = False


class Writer:
    """Writes TensorProtos."""

    options = Writing

    def write(self, content: Content, target: Target, how: Writing) -> Written:
        """Writes the one dense tensor that the value is."""
        value = content.value()
        with target.sink() as sink:
            message.write(value, sink, string_content=how.string_content)
            return Written(size_of(sink), (target.path,))


FORMAT = Format(reads=Reader(), writes=Writer())
