"""Traits: the version and the compression that files of a format tell of themselves.

Compression of whole files, which says nothing about their format, is in
`tensorferry.files.sizes`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorferry import formats, storage
from tensorferry.codecs.zip.archive import open_archive
from tensorferry.codecs.zip.directory import DEFLATED
from tensorferry.errors import FerryError
from tensorferry.operations.opened import Opened, OpenedTable, OpenedTensors

if TYPE_CHECKING:
    from tensorferry.formats.tables.table import Table


def version_of(opened: Opened) -> str | None:
    """The version of its format, where the file says one."""
    if isinstance(opened, OpenedTable):
        table: Table = opened.table
        return table.version
    if not isinstance(opened, OpenedTensors) or not opened.files:
        return None
    path = opened.files[0]
    if opened.format == "npy" and (storage.is_url(path) or os.path.isfile(path)):
        with storage.open_source(path) as source:
            head = source.head(formats.HEAD)
        return f"{head[6]}.{head[7]}" if formats.get("npy").sniff(head) else None
    if opened.format == "keras":
        found = opened.metadata.get("keras_version")
        return None if found is None else str(found)
    if opened.format == "checkpoint":
        return str(opened.bundle.details.version)
    return None


def inner_compression(opened: Opened) -> str | None:
    """The compressions of its own that a file uses."""
    if isinstance(opened, OpenedTable):
        return ", ".join(opened.table.compressions) or None
    if opened.format != "npz" or not opened.files or opened.files[0] == storage.STANDARD_STREAM:
        return None
    try:
        with storage.open_source(opened.files[0]) as source:
            members = open_archive(source, lazy=storage.is_url(source.path)).members
    except FerryError:  # compressed as a whole
        return None
    return "deflate" if any(found.method == DEFLATED for found in members.values()) else None
