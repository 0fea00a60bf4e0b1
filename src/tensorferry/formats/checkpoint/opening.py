"""A checkpoint as a bundle: `format` imports this module when it opens the first one."""

from __future__ import annotations

from tensorferry.formats.checkpoint.names import Names
from tensorferry.formats.checkpoint.reader import Checkpoint, open_checkpoint, open_pair
from tensorferry.formats.table import TABLE
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.held import dequantized


def open_bundle(
    place: Place, *, verify: bool, names: Names, parts: bool, dequantize: bool
) -> Bundle:
    """Opens a checkpoint: see `tensorferry.formats.checkpoint.reader.open_checkpoint`."""
    opened = open_checkpoint(place, verify=verify, names=names, parts=parts)
    return _bundle(place, opened, dequantize=dequantize and not parts)


def open_usual(path: str, *, lends: bool) -> Bundle | None:
    """Opens a local checkpoint with one data file and the usual options; None for any other."""
    place = Place(path)
    if lends:
        place.lend()
    opened = open_pair(place)
    return None if opened is None else _bundle(place, opened, dequantize=True)


def _bundle(place: Place, opened: Checkpoint, *, dequantize: bool) -> Bundle:
    try:
        stored = dequantized(opened.stored, opened.note) if dequantize else opened.stored
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
