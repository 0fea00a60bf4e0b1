"""A checkpoint as a bundle: `format` imports this module when it opens the first one."""

from __future__ import annotations

from tensorferry.formats.checkpoint.names import Names
from tensorferry.formats.checkpoint.reader import open_checkpoint
from tensorferry.formats.table import TABLE
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.held import dequantized


def open_bundle(
    place: Place, *, verify: bool, names: Names, parts: bool, dequantize: bool
) -> Bundle:
    """Opens a checkpoint: see `tensorferry.formats.checkpoint.reader.open_checkpoint`."""
    opened = open_checkpoint(place, verify=verify, names=names, parts=parts)
    try:
        is_plain = parts or not dequantize
        stored = opened.stored if is_plain else dequantized(opened.stored, opened.note)
    except BaseException:
        opened.close()
        raise
    return Bundle(
        stored,
        facts=TABLE["checkpoint"],
        place=place,
        note=opened.note,
        metadata=opened.metadata,
        files=opened.files,
        # Without an object graph, tensors are called by their keys.
        aliases=None if opened.graph_bytes is None else opened.keys,
        details=opened,
        closing=[opened.close],
        version=str(opened.version),
    )
