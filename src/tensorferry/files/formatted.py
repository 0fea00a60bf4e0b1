"""Values to bytes and back in the formats that files have, which few small values need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorferry import frameworks
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.files import keywords, plain
from tensorferry.files.content import content_of
from tensorferry.files.open import Reading
from tensorferry.files.pouring import rows_of
from tensorferry.files.writer import write_rows
from tensorferry.formats import table
from tensorferry.formats.contract import choose
from tensorferry.formats.wholes import reader_of
from tensorferry.rows.rows import Rows
from tensorferry.storage import Sink
from tensorferry.storage.place import Place, Target

if TYPE_CHECKING:
    from tensorferry.files.bytes import Framework

# The options that every format takes.
_COMMON = ("verify", "dequantize", "parts")


def write(value: Any, sink: Sink, format: str | None, chosen: dict[str, Any]) -> None:
    """Writes a value in a format.

    Args:
        value: The value.
        sink: Takes its bytes.
        format: By default the one that fits the value.
        chosen: The options that a user gave.
    """
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


def read(
    source: bytes | memoryview, format: str | None, to: Framework, chosen: dict[str, Any]
) -> Any:
    """The value of some bytes.

    Args:
        source: The bytes.
        format: By default recognised.
        to: The framework whose tensors to return.
        chosen: The options that a user gave.
    """
    if not chosen:
        arrays = plain.value_of(source, format)
        if arrays is not None:
            return arrays if to == "numpy" else frameworks.give(arrays, to)
    whole = reader_of(source, format)
    if whole is None:
        return _open(source, format, to, chosen)
    value = whole.read(source, chosen)  # no bundle has to be made of it
    return value if to == "numpy" else frameworks.give(value, to)


def _open(
    source: bytes | memoryview, format: str | None, to: Framework, chosen: dict[str, Any]
) -> Any:
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
