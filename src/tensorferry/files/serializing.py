"""Values to bytes and back in every format: what stands behind `tensorferry.files.bytes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from tensorferry import frameworks
from tensorferry.errors import FormatError, OptionError, UnknownFormatError
from tensorferry.files import keywords
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.frameworks.conversion import QUICK
from tensorferry.storage import Buffers, FileSink, Sink, as_source, byte_view as byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.files.bytes import Framework
    from tensorferry.tensors.values import Array

_TYPED_JSON = "tensorferry.formats.json.typed"
# How a StructuredValue starts that is a list, a tuple, a dict or a named tuple.
_STRUCTURES = (b"\x9a\x03", b"\xa2\x03", b"\xaa\x03", b"\xb2\x03")


def encoder(format: str) -> Callable[[Array], bytes | None]:
    """What writes an array in a format that has a quick way for it.

    It gives None for an array that only `to_buffers` takes, and in other formats always.
    """
    if format != "json":
        return lambda array: None
    encode: Callable[[Array], bytes | None] = import_module(_TYPED_JSON).encode
    return encode


def to_buffers(value: Any, format: str | None, options: Mapping[str, Any]) -> Buffers:
    """The buffers of a value in a format."""
    buffers = Buffers()
    quick = format is None and not options
    if quick and value.__class__ is ndarray:
        tensorproto.write(value, buffers)
    elif quick and (look := QUICK.get(value.__class__)) is not None:
        tensorproto.write(look(value), buffers)
    else:
        _write(value, buffers, format, options)
    return buffers


def write_all(buffers: Buffers, sink: Any) -> int:
    """Writes buffers into an object with a `write` method, and returns their number of bytes."""
    file = FileSink(sink)
    for buffer in buffers:
        file.write(buffer)
    return file.position


def _write(value: Any, sink: Sink, format: str | None, options: Mapping[str, Any]) -> None:
    chosen = keywords.given(options)
    if format is None and not chosen:
        if not isinstance(value, dict | list | tuple):
            value = frameworks.accept(value)
        if isinstance(value, ndarray):
            tensorproto.write(value, sink)
        else:
            _structure().write(value, sink)
        return
    _formatted().write(value, sink, format, chosen)


def from_bytes(
    data: Buffer | str, format: str | None, to: Framework, options: Mapping[str, Any]
) -> Any:
    """The value of some bytes."""
    source = data if data.__class__ is bytes else _source_of(data)
    message = _message_of(source) if format is None and not options else None
    if message is None:
        try:
            return _formatted().read(source, format, to, keywords.given(options))
        except UnknownFormatError:
            if isinstance(data, ndarray) and data.dtype.itemsize > 1:
                raise OptionError(
                    f"an array of {data.dtype} and shape {list(data.shape)}, expected bytes",
                    hint="it is a value already, which dumps turns into bytes",
                ) from None
            raise
    try:
        value = message.read(source)
    except FormatError:
        # The length of a TFRecord's first record may start like that as well.
        from tensorferry.formats.detect import detect_bytes

        found = detect_bytes(source)
        if found == message.NAME:
            raise
        return _formatted().read(source, found, to, {})
    return value if to == "numpy" else frameworks.give(value, to)


def _message_of(source: bytes | memoryview) -> ModuleType | None:
    """The message that bytes start like: a first try is quicker than all signatures are."""
    if source[:1] == tensorproto.START:
        return tensorproto
    return _structure() if source[:2] in _STRUCTURES else None


@cache
def _structure() -> ModuleType:
    """Imported by the first structure."""
    return import_module("tensorferry.formats.structure.message")


def _source_of(data: Buffer | str) -> bytes | memoryview:
    if isinstance(data, str):
        name = data if len(data) <= 60 else data[:60] + "..."
        raise OptionError(
            "a text, expected bytes",
            hint=f"tensorferry.load({name!r}) reads a file; text.encode() gives a text's bytes",
        )
    message = frameworks.as_message(data)
    return as_source(data) if message is None else message


@cache
def _formatted() -> ModuleType:
    """Imported by the first format that is something else."""
    return import_module("tensorferry.files.formatted")
