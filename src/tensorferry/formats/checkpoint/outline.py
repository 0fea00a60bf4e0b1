"""The outline of a checkpoint: the names, dtypes, shapes and sizes of its tensors.

A small checkpoint, such as that of a SavedModel, is listed without NumPy, which takes longer to
import than all of this. No tensor can be read. A checkpoint that is large, unusual or damaged has
no outline: opening it (`tensorferry.formats.checkpoint.reader`) tells more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tensorferry import _native
from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import read_varint
from tensorferry.errors import FerryError
from tensorferry.formats.checkpoint import graph as graphs
from tensorferry.formats.checkpoint.entries import (
    NOTE,
    Entry,
    Header,
    data_path,
    kind_of,
    parse_entry,
    parse_header,
)
from tensorferry.formats.checkpoint.messages import Reader
from tensorferry.storage.place import Place
from tensorferry.tensors.infos import TensorInfo, make_infos

# The same as `Entry(...)`, in a third of the time.
_new: Any = tuple.__new__

# Beyond that many tensors NumPy is faster, its import included.
MOST = 4096
CHECKSUM = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """What a checkpoint holds.

    Attributes:
        entries: Of each tensor, by the name that a user is shown.
        keys: The key of each in the index.
        graph: The object graph; None if variables were saved by name.
        files: The index and the data files.
    """

    entries: dict[str, Entry]
    keys: dict[str, str]
    graph: graphs.Graph | None
    files: list[str]

    def describe(self, shown: Mapping[str, str] | None = None) -> list[TensorInfo]:
        """What its tensors are like.

        Args:
            shown: Other names for them, if they have any.
        """
        names = {name: name for name in self.entries} if shown is None else shown
        return make_infos(
            map(names.__getitem__, self.entries),
            ((each.kind.row.name, each.kind.shape, each.size) for each in self.entries.values()),
            {names[name]: key for name, key in self.keys.items()},
        )


class _UnusualError(Exception):
    """Opening it says what is wrong, or reads it all the same."""


def read(prefix: str) -> Outline | None:
    """The outline of a local checkpoint; None if it has to be opened to know more.

    Args:
        prefix: As in "model.ckpt-900".
    """
    path = f"{prefix}.index"
    try:
        with Place(path).open() as source:
            found = _read_entries(bytes(source.everything()))
        if found is None:
            return None
        header, entries = found
        files = _check_places(prefix, header, entries)
        text = entries.pop(graphs.KEY, None)
        graph = None if text is None else graphs.parse(_read_text(prefix, header, text))
    except (_UnusualError, FerryError, OSError, UnicodeDecodeError):
        return None
    keys = {key: key for key in entries}
    if graph is not None:
        keys, _ = graphs.names_of(entries, lambda: graph)
    return Outline({name: entries[key] for name, key in keys.items()}, keys, graph, [path, *files])


def _read_entries(content: bytes) -> tuple[Header, dict[str, Entry]] | None:
    """The header and all entries; None if there are many, or unusual ones."""
    found = _native.bundle_index(content)
    if found is None or len(found[2]) > MOST:
        return None
    head, _, keys, heads, _, _, numbers = found
    header = parse_header(head, 0, len(head))
    kinds = [*map(kind_of, heads), None]  # the last is that of the number -1
    table, count = memoryview(numbers).cast("q"), len(keys)
    columns = [table[place * count : (place + 1) * count].tolist() for place in range(7)]
    entries: dict[str, Entry] = {}
    for key, number, shard, offset, size, crc, start, end in zip(keys, *columns, strict=True):
        kind = kinds[number]
        if kind is not None and kind.nbytes == size:
            entry = _new(Entry, (kind, shard, offset, size, crc, ()))
        else:  # of strings, the shape does not tell the size
            entry = parse_entry(Reader(content), start, end)
        if entry.slices or entry.kind.row.name == "variant":
            return None
        entries[key.decode()] = entry
    return None if header.big_endian or NOTE in entries else (header, entries)


def _check_places(prefix: str, header: Header, entries: dict[str, Entry]) -> list[str]:
    """The data files that entries lie in.

    Raises:
        _UnusualError: The bytes of one are not there, or belong to two of them.
        OSError: A data file is not there.
    """
    files: dict[int, str] = {}
    room = end = 0
    for shard, offset, size in sorted(entry[1:4] for entry in entries.values()):
        if shard not in files:
            files[shard] = data_path(prefix, shard, header.shards)
            room, end = os.stat(files[shard]).st_size, 0
        if not 0 <= shard < header.shards or offset + size > room:
            raise _UnusualError("bytes that are not there")
        if size and offset < end:
            raise _UnusualError("bytes of two tensors")
        if size:
            end = offset + size
    return list(files.values())


def _read_text(prefix: str, header: Header, entry: Entry) -> bytes:
    """The only string of a tensor: its length, the checksum of that, and then it."""
    if entry.kind.row.name != "string" or entry.kind.shape:
        raise _UnusualError("no string")
    with Place(data_path(prefix, entry.shard, header.shards)).open() as source:
        data = bytes(source.range(entry.offset, entry.offset + entry.size))
    length, position = read_varint(data, 0, len(data))
    if position + CHECKSUM + length != len(data):
        raise _UnusualError("no string of that length")
    return data[position + CHECKSUM :]
