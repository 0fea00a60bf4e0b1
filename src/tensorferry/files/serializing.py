"""Values to bytes and back in every format: what stands behind `tensorferry.files.bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from tensorferry import frameworks
from tensorferry.errors import FerryError, FormatError, OptionError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.frameworks.conversion import QUICK
from tensorferry.storage import Buffers, Sink, as_source, byte_view as byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.files.bytes import Framework
    from tensorferry.tensors.values import Array

# How a StructuredValue starts that is a list, a tuple, a dict or a named tuple.
_STRUCTURES = (b"\x9a\x03", b"\xa2\x03", b"\xaa\x03", b"\xb2\x03")


def encode(array: Array, format: str) -> bytes | None:
    """An array in a format with a quick way for it; None for others, which `to_buffers` takes."""
    return _typed_json().encode(array) if format == "json" else None


@cache
def _typed_json() -> ModuleType:
    """An import statement takes as long as writing a small array."""
    return import_module("tensorferry.formats.json.typed")


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
    from tensorferry.files.content import content_of
    from tensorferry.files.pouring import rows_of
    from tensorferry.files.writer import write_rows
    from tensorferry.formats import table
    from tensorferry.formats.contract import choose
    from tensorferry.storage.place import Target

    metadata, quantize = chosen.pop("metadata", None), chosen.pop("quantize", None)
    target = Target("<bytes>", into=sink)
    if format is not None and (facts := table.facts_of(format)).opens == "rows":
        rows, value = rows_of(value, facts, quantize=quantize, options=chosen)
        if rows is not None:
            chosen = {**chosen, **keywords.given({"quantize": quantize})}
            write_rows(rows, format, target, chosen, metadata=metadata)
            return
    columns = bool(chosen.get("rows"))
    content = content_of(value, metadata=metadata, quantize=quantize, columns=columns)
    usual = "tensorproto" if content.is_tensor else "structure"
    facts = table.facts_of(format or usual)
    writes = table.to_write(facts.name).writes
    assert writes is not None
    how = choose(writes.options, chosen, format=facts.name)
    writes.write(content, target, how)
    if facts.metadata == "beside" and content.needs_texts:
        raise UnsupportedError(
            f"{facts.name} bytes have no place for what has to be known beside the values",
            hint="npz, safetensors, arrow and parquet have",
        )


def from_bytes(
    data: Buffer | str, format: str | None, to: Framework, options: Mapping[str, Any]
) -> Any:
    """The value of some bytes."""
    source = data if data.__class__ is bytes else _source_of(data)
    message = _message_of(source) if format is None and not options else None
    if message is None:
        return _read(source, format, to, options)
    try:
        value = message.read(source)
    except FormatError:
        # The length of a TFRecord's first record may start like that as well.
        from tensorferry.formats.detect import detect_bytes

        found = detect_bytes(source)
        if found == message.NAME:
            raise
        return _read(source, found, to, options)
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
    return as_source(data)


def _read(
    source: bytes | memoryview, format: str | None, to: Framework, options: Mapping[str, Any]
) -> Any:
    from tensorferry.formats.wholes import reader_of

    chosen = keywords.given(options)
    whole = reader_of(source, format)
    if whole is None:
        return _open(source, format, to, chosen)
    value = whole.read(source, chosen)  # no bundle has to be made of it
    return value if to == "numpy" else frameworks.give(value, to)


def _open(
    source: bytes | memoryview, format: str | None, to: Framework, chosen: dict[str, Any]
) -> Any:
    from tensorferry.files.open import Reading
    from tensorferry.rows.rows import Rows
    from tensorferry.storage.place import Place

    common = {name: chosen.pop(name) for name in _COMMON if name in chosen}
    # If the format was given, the bytes are of that format, whatever they start with.
    unpack = format is None
    how = Reading(format, to, given=chosen, preferred={"raw": True}, unpack=unpack, **common)
    try:
        with how.open(Place(source)) as opened:
            if isinstance(opened, Rows):
                return list(opened) if opened.raw else opened.value(to=to)
            return opened.value()
    except FerryError as error:
        error.path = None if error.path == Place.MEMORY else error.path
        raise


_COMMON = ("verify", "dequantize", "parts")
