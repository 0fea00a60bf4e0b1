"""The reader and the writer of JSON: typed values, and the bodies of TensorFlow Serving."""

from __future__ import annotations

from typing import Any

from tensorferry.budget import Budget
from tensorferry.classes import dataclass
from tensorferry.codecs import json_text
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.json import typed
from tensorferry.formats.json.bodies import Form
from tensorferry.formats.wholes import WholeReader
from tensorferry.storage.place import Target, size_of
from tensorferry.tensors.content import Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading(TensorOptions):
    """How JSON is read; see `tensorferry.formats.json.typed.read`."""

    serving: bool = False
    dtypes: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing(WriteOptions):
    """How JSON is written; see `tensorferry.formats.json.typed.write`."""

    inline: int = typed.INLINE
    serving: Form | None = None
    signature_name: str | None = None


class Reader(WholeReader[Reading]):
    """Reads JSON."""

    name = typed.NAME
    options = Reading

    def value(self, source: bytes | memoryview, how: Reading, budget: Budget | None = None) -> Any:
        """The value."""
        if budget is not None:
            budget.take(json_text.size_of_tree(source), what="the tree of the text")
        return typed.read(source, serving=how.serving, dtypes=how.dtypes)


class Writer:
    """Writes JSON."""

    options = Writing

    def write(self, content: Content, target: Target, how: Writing) -> Written:
        """Writes a value of any kind."""
        value = content.value()
        with target.sink() as sink:
            typed.write(
                value,
                sink,
                inline=how.inline,
                serving=how.serving,
                signature_name=how.signature_name,
            )
            return Written(size_of(sink), (target.path,))


FORMAT = Format(reads=Reader(), writes=Writer())
