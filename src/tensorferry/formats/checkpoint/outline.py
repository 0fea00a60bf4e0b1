"""The outline of a checkpoint: the names, dtypes, shapes and sizes of its tensors.

A small checkpoint, such as that of a SavedModel, is listed without NumPy, which takes longer to
import than all of this. No tensor can be read. A checkpoint that is large, unusual or damaged has
no outline: opening it (`tensorferry.formats.checkpoint.reader`) tells more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from tensorferry import _native
from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.codecs.protobuf import read_varint
from tensorferry.errors import FerryError
from tensorferry.formats.checkpoint import graph as graphs, notes
from tensorferry.formats.checkpoint.entries import (
    Entry,
    Header,
    data_path,
    kind_of,
    parse_entry,
    parse_header,
)
from tensorferry.formats.checkpoint.messages import Reader
from tensorferry.storage.names import is_special
from tensorferry.storage.source import Source, open_local
from tensorferry.tensors.infos import Facts, TensorInfo, make_infos, with_origins
from tensorferry.tensors.note import Note

# Beyond that many tensors NumPy is faster, its import included.
MOST = 4096
CHECKSUM = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """What a checkpoint holds.

    Attributes:
        tensors: What each is like, by its key in the index.
        graph: The object graph; None if variables were saved by name.
        files: The index and the data files.
        note: What is known of tensors beside that.
        metadata: The user's metadata.
    """

    tensors: dict[str, Facts]
    graph: graphs.Graph | None
    files: list[str]
    note: Note = field(default_factory=Note)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """The names that a user is shown, by the keys of the tensors."""
        graph = self.graph
        if graph is None:
            return {key: key for key in self.tensors}
        keys, _ = graphs.names_of(self.tensors, lambda: graph)
        return {key: name for name, key in keys.items()}

    def describe(self, names: Mapping[str, str] | None = None) -> Sequence[TensorInfo]:
        """What its tensors are like.

        Args:
            names: What they are called, by their keys.
        """
        names = self.names() if names is None else names
        keys = list(filter(names.__contains__, self.tensors))
        facts = map(self.tensors.__getitem__, keys)
        infos = make_infos(map(names.__getitem__, keys), facts, keys)
        return with_origins(infos, self.note.origins)


class _Index(NamedTuple):
    """What an index says.

    Attributes:
        header: Its header.
        tensors: What each tensor is like, by its key.
        places: The data file, the offset and the size of each.
        end: Where the last one ends if all lie apart in the first file, else -1.
        texts: The entries of the object graph and of the note, as far as there are any.
    """

    header: Header
    tensors: dict[str, Facts]
    places: Sequence[tuple[int, int, int]]
    end: int
    texts: dict[str, Entry]


class _UnusualError(Exception):
    """Opening it says what is wrong, or reads it all the same."""


def read(prefix: str) -> Outline | None:
    """The outline of a local checkpoint; None if it has to be opened to know more.

    Args:
        prefix: As in "model.ckpt-900".
    """
    path = f"{prefix}.index"
    try:
        with _open(path) as source:
            index = _read_index(bytes(source.everything()))
        files = _check_places(prefix, index)
        texts = {key: _read_text(prefix, index.header, at) for key, at in index.texts.items()}
        for key in texts:
            del index.tensors[key]
        graph = graphs.parse(texts[graphs.KEY]) if graphs.KEY in texts else None
        note, metadata = notes.parse(texts[notes.KEY]) if notes.KEY in texts else (Note(), {})
    except (_UnusualError, FerryError, OSError, UnicodeDecodeError):
        return None
    if not note.leaves_arrays:
        return None
    return Outline(index.tensors, graph, [path, *files], note, metadata)


def _read_index(content: bytes) -> _Index:
    """All entries of an index.

    Raises:
        _UnusualError: There are many, or unusual ones.
    """
    found = _native.bundle_index(content)
    if found is None or len(found[2]) > MOST:
        raise _UnusualError
    head, _, keys, heads, sizes, end, numbers = found
    header = parse_header(head, 0, len(head))
    kinds = [*map(kind_of, heads), None]  # the last is that of the number -1
    known = [kind and (kind.row.name, kind.shape, kind.nbytes) for kind in kinds]
    # Those of which every entry is as large as its shape says.
    sound = [kind and kind.nbytes == size for kind, size in zip(kinds, sizes, strict=False)]
    sound = sound or [False] * len(kinds)  # no sizes are given where an entry is unusual
    table, count = memoryview(numbers).cast("q"), len(keys)
    which, *columns = (table[place * count : (place + 1) * count].tolist() for place in range(4))
    tensors: list[Any] = list(map(known.__getitem__, which))
    places = list(zip(*columns, strict=True))
    texts: dict[str, Entry] = {}
    for number, place in enumerate(which):
        if sound[place]:
            continue
        facts, (shard, offset, size) = tensors[number], places[number]
        if facts is not None and facts[2] == size:
            continue
        kind = kinds[place]
        if kind is not None and kind.row.name == "string" and size >= kind.elements:
            entry = Entry(kind, shard, offset, size, 0)  # its shape does not tell its size
        else:
            entry = parse_entry(Reader(content), *table[5 * count + number :: count])
        if entry.slices or entry.kind.row.name == "variant":
            raise _UnusualError
        tensors[number] = entry.kind.row.name, entry.kind.shape, entry.size
        places[number] = entry[1:4]
        if keys[number] in _TEXTS:
            texts[keys[number].decode()] = entry
    described = dict(zip(map(bytes.decode, keys), tensors, strict=True))
    if header.big_endian or any(key in described and key not in texts for key in notes.HIDDEN):
        raise _UnusualError
    return _Index(header, described, places, end if sizes else -1, texts)


_TEXTS = frozenset(key.encode() for key in notes.HIDDEN)


def _check_places(prefix: str, index: _Index) -> list[str]:
    """The data files that entries lie in.

    Raises:
        _UnusualError: The bytes of one are not there, or belong to two of them.
        OSError: A data file is not there.
    """
    shards = index.header.shards
    held: dict[int, list[tuple[int, int]]] = {}
    if index.end >= 0 and index.places:  # nearly always
        held[0] = [(0, index.end)]
    else:
        for shard, offset, size in index.places:
            held.setdefault(shard, []).append((offset, offset + size))
    files = []
    for shard, extents in sorted(held.items()):
        path = data_path(prefix, shard, shards)
        if not 0 <= shard < shards or max(extents, key=_end)[1] > os.stat(path).st_size:
            raise _UnusualError("bytes that are not there")
        filled = sorted(extent for extent in extents if extent[0] < extent[1])
        if any(before[1] > after[0] for before, after in pairwise(filled)):
            raise _UnusualError("bytes of two tensors")
        files.append(path)
    return files


_end = itemgetter(1)


def _open(path: str) -> Source:
    """A regular file: whoever opens another, such as a pipe, waits for it."""
    if is_special(path):
        raise _UnusualError("no file")
    return open_local(path)


def _read_text(prefix: str, header: Header, entry: Entry) -> bytes:
    """The only string of a tensor: its length, the checksum of that, and then it."""
    if entry.kind.row.name != "string" or entry.kind.shape:
        raise _UnusualError("no string")
    with _open(data_path(prefix, entry.shard, header.shards)) as source:
        data = bytes(source.range(entry.offset, entry.offset + entry.size))
    length, position = read_varint(data, 0, len(data))
    if position + CHECKSUM + length != len(data):
        raise _UnusualError("no string of that length")
    return data[position + CHECKSUM :]
