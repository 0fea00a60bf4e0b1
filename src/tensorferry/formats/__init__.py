"""Formats: one module each, the table that finds them, and what a module must have.

A format is a module with

    NAME                          the name users pass as `format=`
    SUFFIXES                      file name endings, with the dot
    sniff(head)                   whether bytes that start with `head` look like it
    read(source, **options)       the value in a buffer (`tensorferry.storage`)
    write(value, sink, **options) the value's bytes into a sink

`read` and `write` know values of `tensorferry.tensors` only: other frameworks' tensors are turned
into them before and after. Modules load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from tensorferry.errors import UnknownFormatError

if TYPE_CHECKING:
    from tensorferry.storage import Sink


class Format(Protocol):
    """What a format's module provides."""

    NAME: str
    SUFFIXES: tuple[str, ...]

    def sniff(self, head: bytes) -> bool:
        """Whether bytes that start like this look like the format; cheap, and never raising."""

    def read(self, source: bytes | memoryview, **options: Any) -> Any:
        """The value."""

    def write(self, value: Any, sink: Sink, **options: Any) -> None:
        """Writes the value's bytes."""


# In the order in which they are asked whether they recognise some bytes.
MODULES = {
    # A checksum does not fit by chance: whatever comes later, this one is right.
    "tfrecord": "tensorferry.formats.tfrecord",
    "arrow": "tensorferry.formats.arrow",
    "parquet": "tensorferry.formats.parquet",
    "tensorproto": "tensorferry.formats.tensorproto",
    "structure": "tensorferry.formats.structure",
    "json": "tensorferry.formats.json",
    "raw": "tensorferry.formats.raw",
}

_loaded: dict[str, Format] = {}


def get(name: str) -> Format:
    """The module of a format.

    Raises:
        UnknownFormatError: There is no format of that name.
    """
    module = _loaded.get(name)
    if module is None:
        if name not in MODULES:
            raise UnknownFormatError(
                f"no format is called {name!r}", hint=f"expected one of {', '.join(MODULES)}"
            )
        module = _loaded[name] = cast(Format, import_module(MODULES[name]))
    return module


def detect(source: bytes | memoryview) -> Format:
    """The format whose signature the bytes start with.

    Raises:
        UnknownFormatError: None recognises them.
    """
    head = bytes(source[:64])
    for name in MODULES:
        module = get(name)
        if module.sniff(head):
            return module
    raise UnknownFormatError(
        f"no format recognises {len(source)} bytes that start with {head[:16].hex(' ')!r}",
        offset=0,
        hint="name the format: loads(data, format=...)",
    )
