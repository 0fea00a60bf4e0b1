"""The outline of a checkpoint: the names, dtypes, shapes and sizes of its tensors.

A small checkpoint, such as that of a SavedModel, is listed without NumPy, which takes longer to
import than all of this. No tensor can be read. A checkpoint that is large, unusual or damaged has
no outline: opening it (`tensorferry.formats.checkpoint.reader`) tells more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Any

from tensorferry import _native
from tensorferry.classes import NamedTuple, dataclass
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
from tensorferry.tensors.infos import Facts, TensorInfo, make_infos

# Beyond that many tensors NumPy is faster, its import included.
MOST = 4096
CHECKSUM = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """What a checkpoint holds.

    Attributes:
        tensors: What each is like, by the name that a user is shown.
        keys: The key of each in the index.
        graph: The object graph; None if variables were saved by name.
        files: The index and the data files.
    """

    tensors: dict[str, Facts]
    keys: dict[str, str]
    graph: graphs.Graph | None
    files: list[str]

    def describe(self, shown: Mapping[str, str] | None = None) -> list[TensorInfo]:
        """What its tensors are like.

        Args:
            shown: Other names for them, if they have any.
        """
        if shown is None:
            return make_infos(self.tensors, self.tensors.values(), self.keys)
        aliases = {shown[name]: key for name, key in self.keys.items()}
        names = map(shown.__getitem__, self.tensors)
        return make_infos(names, self.tensors.values(), aliases)


class _Index(NamedTuple):
    """What an index says.

    Attributes:
        header: Its header.
        tensors: What each tensor is like, by its key.
        places: The data file, the offset and the size of each.
        graph: The entry of the object graph, if there is one.
    """

    header: Header
    tensors: dict[str, Facts]
    places: list[tuple[int, int, int]]
    graph: Entry | None


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
            index = _read_index(bytes(source.everything()))
        tensors = index.tensors
        files = _check_places(prefix, index.header, index.places)
        if index.graph is None:
            return Outline(tensors, {key: key for key in tensors}, None, [path, *files])
        del tensors[graphs.KEY]
        graph = graphs.parse(_read_text(prefix, index.header, index.graph))
    except (_UnusualError, FerryError, OSError, UnicodeDecodeError):
        return None
    keys, _ = graphs.names_of(tensors, lambda: graph)
    shown = {name: tensors[key] for name, key in keys.items()}
    return Outline(shown, keys, graph, [path, *files])


def _read_index(content: bytes) -> _Index:
    """All entries of an index.

    Raises:
        _UnusualError: There are many, or unusual ones.
    """
    found = _native.bundle_index(content)
    if found is None or len(found[2]) > MOST:
        raise _UnusualError
    head, _, keys, heads, _, _, numbers = found
    header = parse_header(head, 0, len(head))
    kinds = [*map(kind_of, heads), None]  # the last is that of the number -1
    known = [kind and (kind.row.name, kind.shape, kind.nbytes) for kind in kinds]
    table, count = memoryview(numbers).cast("q"), len(keys)
    which, *columns = (table[place * count : (place + 1) * count].tolist() for place in range(4))
    tensors: list[Any] = list(map(known.__getitem__, which))
    places, graph = list(zip(*columns, strict=True)), None
    for number, (facts, (shard, offset, size)) in enumerate(zip(tensors, places, strict=True)):
        if facts is not None and facts[2] == size:
            continue
        kind = kinds[which[number]]
        if kind is not None and kind.row.name == "string" and size >= kind.elements:
            entry = Entry(kind, shard, offset, size, 0)  # its shape does not tell its size
        else:
            entry = parse_entry(Reader(content), *table[5 * count + number :: count])
        if entry.slices or entry.kind.row.name == "variant":
            raise _UnusualError
        tensors[number] = entry.kind.row.name, entry.kind.shape, entry.size
        places[number] = entry[1:4]
        graph = entry if keys[number] == _GRAPH else graph
    described = dict(zip(map(bytes.decode, keys), tensors, strict=True))
    if header.big_endian or NOTE in described or (graph is None and graphs.KEY in described):
        raise _UnusualError
    return _Index(header, described, places, graph)


_GRAPH = graphs.KEY.encode()


def _check_places(prefix: str, header: Header, places: Iterable[tuple[int, int, int]]) -> list[str]:
    """The data files that entries lie in.

    Raises:
        _UnusualError: The bytes of one are not there, or belong to two of them.
        OSError: A data file is not there.
    """
    held: dict[int, list[tuple[int, int]]] = {}
    for shard, offset, size in places:
        held.setdefault(shard, []).append((offset, offset + size))
    files = []
    for shard, extents in sorted(held.items()):
        path = data_path(prefix, shard, header.shards)
        if not 0 <= shard < header.shards or max(extents, key=_end)[1] > os.stat(path).st_size:
            raise _UnusualError("bytes that are not there")
        filled = sorted(extent for extent in extents if extent[0] < extent[1])
        if any(before[1] > after[0] for before, after in pairwise(filled)):
            raise _UnusualError("bytes of two tensors")
        files.append(path)
    return files


_end = itemgetter(1)


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
