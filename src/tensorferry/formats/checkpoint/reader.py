"""Checkpoints: TensorFlow's own files for the variables of a model.

A checkpoint of the second version, which TensorFlow writes since 2016, is named by its prefix:

    prefix.index                  a table of names, dtypes, shapes, places and checksums
    prefix.data-00000-of-00002    the bytes of tensors, little-endian, in C order
    prefix.data-00001-of-00002
    checkpoint                    which of the checkpoints in this directory is the latest

`checkpoint_table` reads and writes the table, `checkpoint_index` what stands in it,
`checkpoint_tensors` makes tensors of that, `checkpoint_strings` and `checkpoint_slices` those that
are no plain run of numbers, `checkpoint_graph` knows the objects that `tf.train.Checkpoint` saves,
`checkpoint_state` finds the files, `checkpoint_writer` writes them, and `checkpoint_v1` reads the
first version.

Tensors are views of the mapped data files. The checksum of each is verified when it is first read
as a whole. What the format has no place for (sparse and ragged tensors, layouts, metadata) is in a
note under the key "_TENSORFERRY", which only a checkpoint has that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from tensorferry import storage
from tensorferry.codecs import json_text as json
from tensorferry.codecs.leveldb import MAGIC, Table
from tensorferry.errors import FormatError
from tensorferry.formats.checkpoint import graph as graphs, index as indexes, state as states
from tensorferry.formats.checkpoint.graph import Graph, Slot
from tensorferry.formats.checkpoint.index import Index
from tensorferry.formats.checkpoint.state import latest_checkpoint, resolve
from tensorferry.formats.checkpoint.tensors import StoredNumbers, TensorReader
from tensorferry.formats.checkpoint.writer import (
    HIDDEN,
    NOTE,
    Layout,
    data_path,
    remove,
    save_tensors,
)
from tensorferry.storage import Source
from tensorferry.tensors import layout as layouts
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored, StoredArray, StoredRagged, StoredSparse

__all__ = [
    "Checkpoint",
    "latest_checkpoint",
    "open_stored",
    "remove",
    "resolve",
    "save_stored",
    "save_tensors",
    "sniff",
    "sniff_tail",
]

NAME = "checkpoint"
# How often a checkpoint is opened anew that was replaced meanwhile.
ATTEMPTS = 5

Names = Literal["paths", "keys", "variables"]
Options = Mapping[str, Any] | None


def sniff(head: bytes) -> bool:
    """Never: a checkpoint is found by its path, and its index is known by its end."""
    return False


def sniff_tail(tail: bytes) -> bool:
    """Whether a file that ends so is the index of a checkpoint, or one of the first version."""
    return tail.endswith(MAGIC)


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint that is open.

    Attributes:
        prefix: Names it.
        version: 1 or 2.
        stored: Its tensors, by the names a user is shown.
        keys: The key of each in the index.
        slots: Those that an optimizer keeps for variables.
        note: What else was kept of the tensors.
        metadata: What a user kept with it.
        paths: Its files, the index first.
    """

    prefix: str
    version: int
    stored: Mapping[str, Stored]
    keys: Mapping[str, str]
    slots: Mapping[str, Slot] = field(default_factory=dict)
    note: Note = field(default_factory=Note)
    metadata: dict[str, Any] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    graph_bytes: bytes | None = None

    @property
    def files(self) -> list[str]:
        """Its files, the index first."""
        return self.paths

    @property
    def aliases(self) -> Mapping[str, str]:
        """What else each tensor is called: its key in the index."""
        return self.keys

    @property
    def graph(self) -> Graph | None:
        """The object graph; None if variables were saved by name. Parsed anew each time."""
        if self.graph_bytes is None:
            return None
        try:
            return graphs.parse(self.graph_bytes)
        except FormatError as error:
            raise error.located(path=self.prefix, tensor=graphs.KEY) from None

    def close(self) -> None:
        """Lets go of the files; tensors that were given out stay valid."""
        for source in self.sources:
            source.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_stored(
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    names: Names = "paths",
    parts: bool = False,
    storage_options: Options = None,
) -> Checkpoint:
    """Opens a checkpoint; nothing but its index is read.

    Args:
        path: Whatever `resolve` takes.
        verify: Check each tensor's checksum when it is first read; the index always is.
        names: How tensors of an object graph are called: by their "paths" from the root
            ("encoder/kernel"), by the variables' own names where these are unique ("variables"),
            or by the index's "keys". Others have just their name.
        parts: Give the parts of sparse and ragged tensors as they are stored.
        storage_options: For the store of a URL.

    Raises:
        FileNotFoundError: There is no checkpoint, or one of its files is missing.
        FormatError: It is damaged.
    """
    prefix = resolve(path, storage_options=storage_options)
    if prefix is None:
        raise FileNotFoundError(f"{os.fspath(path)}: no checkpoint, and no file of one")
    if not storage.exists(prefix + states.INDEX, options=storage_options):
        from tensorferry.formats.checkpoint import v1 as checkpoint_v1

        stored, sources = checkpoint_v1.open_tables(prefix, options=storage_options)
        paths = [source.path for source in sources]
        keys = {name: name for name in stored}
        return Checkpoint(prefix, 1, stored, keys, paths=paths, sources=sources)
    for _ in range(ATTEMPTS):
        opened = _open(prefix, verify, names, parts, storage_options)
        if opened is not None:
            return opened
    raise FormatError(
        f"was replaced {ATTEMPTS} times while it was opened", path=prefix + states.INDEX
    )


def _open(
    prefix: str, verify: bool, names: Names, parts: bool, options: Options
) -> Checkpoint | None:
    """The checkpoint, or None if it was replaced meanwhile."""
    path = prefix + states.INDEX
    sources: list[Source] = []
    try:
        with _IndexFile(path, options) as file:
            index = indexes.read(Table(Source(path, buffer=memoryview(file.content))))
            try:
                files = _open_shards(prefix, index, sources, options)
            except FileNotFoundError:
                if file.is_replaced():
                    return None
                raise
            # A new checkpoint may have the same names: what was opened is the old one's only if
            # the index still is. Objects of a store keep their version while they are open.
            if not storage.is_url(path) and file.is_replaced():
                return None
        checkpoint = _make(prefix, index, files, verify, names, parts)
        checkpoint.paths = [path, *(source.path for source in sources)]
        checkpoint.sources, sources = sources, []
        return checkpoint
    finally:
        for source in sources:
            source.close()


class _IndexFile:
    """The bytes of an index, and whether another has its name by now.

    It stays open, because no new file can have its number then.
    """

    def __init__(self, path: str, options: Options) -> None:
        self._path = path
        self._options = options
        self._file = None
        if storage.is_url(path):
            self.content = self._read_object()
        else:
            self._file = open(storage.localize(path), "rb", buffering=0)  # noqa: SIM115
            self.content = self._file.read()

    def _read_object(self) -> bytes:
        with storage.open_source(self._path, options=self._options) as source:
            return bytes(source.everything())

    def is_replaced(self) -> bool:
        """Whether there is another, or none."""
        try:
            if self._file is None:
                return self._read_object() != self.content
            found = os.stat(self._file.name)
        except FileNotFoundError:
            return True
        return _identity(found) != _identity(os.fstat(self._file.fileno()))

    def __enter__(self) -> _IndexFile:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open_shards(
    prefix: str, index: Index, sources: list[Source], options: Options
) -> dict[int, Source]:
    """The data files that tensors lie in."""
    files = {}
    for shard in sorted(indexes.check_shards(index, prefix + states.INDEX)):
        path = data_path(prefix, shard, index.shards)
        try:
            files[shard] = storage.open_source(path, options=options)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno, f"data file {shard} of {index.shards} of the checkpoint", path
            ) from None
        sources.append(files[shard])
    return files


def _make(
    prefix: str, index: Index, files: dict[int, Source], verify: bool, names: Names, parts: bool
) -> Checkpoint:
    sizes = {shard: _size(source) for shard, source in files.items()}
    indexes.check_places(index, sizes, lambda shard: data_path(prefix, shard, index.shards))
    try:
        reader = TensorReader(index, files, verify)
        keys = {key.decode(): number for key, number in reader.visible().items()}
    except UnicodeDecodeError as error:
        raise FormatError(
            f"a key is {error.object[:60]!r}, expected UTF-8", path=prefix + states.INDEX
        ) from None
    except FormatError as error:
        raise error.located(path=prefix + states.INDEX) from None
    kept = {name: keys.pop(name) for name in HIDDEN if name in keys}
    graph = reader.text(kept[graphs.KEY]) if graphs.KEY in kept else None
    note, metadata = Note(), dict[str, Any]()
    if NOTE in kept:
        note, metadata = _read_note(reader.text(kept[NOTE]))
    shown, slots = {key: key for key in keys}, dict[str, Slot]()
    if graph is not None and names != "keys":
        shown, slots = graphs.names_of(keys, partial(graphs.parse, graph))
        if names == "variables":
            shown, slots = _by_variable(shown, slots, graphs.parse(graph))
    stored: Mapping[str, Stored] = _Tensors(
        {name: keys[key] for name, key in shown.items()} if graph is not None else keys, reader
    )
    if note.tensors and not parts:
        stored = _put_together(stored, note)
        shown = {name: shown.get(name, name) for name in stored}
    return Checkpoint(prefix, 2, stored, shown, slots, note, metadata, graph_bytes=graph)


def _size(source: Source) -> int:
    return len(source.everything()) if source.size is None else source.size


def _by_variable(
    shown: dict[str, str], slots: dict[str, Slot], graph: Graph
) -> tuple[dict[str, str], dict[str, Slot]]:
    """The same by the variables' own names, where only one has it."""
    full = graph.full_names()
    counts: dict[str, int] = dict.fromkeys(shown, 1)
    for name in full.values():
        counts[name] = counts.get(name, 0) + 1
    new = {}
    for name, key in shown.items():
        own = full.get(key, name)
        new[name] = own if own == name or counts[own] == 1 else name
    return (
        {new[name]: key for name, key in shown.items()},
        {new[name]: slot for name, slot in slots.items()},
    )


class _Tensors(Mapping[str, Stored]):
    """Tensors by name, made when they are asked for: there may be a hundred thousand."""

    def __init__(self, numbers: Mapping[str, int], reader: TensorReader) -> None:
        self._numbers = numbers
        self._reader = reader
        self._made: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        found = self._made.get(name)
        if found is None:
            found = self._reader.make(self._numbers[name])
            if not isinstance(found, StoredNumbers):  # which are made anew faster than kept
                self._made[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers


def _read_note(text: bytes) -> tuple[Note, dict[str, Any]]:
    try:
        tree = json.parse(text)
        if not isinstance(tree, dict) or not all(isinstance(v, str) for v in tree.values()):
            raise FormatError("the note is no object of strings")
        return Note.from_metadata(tree)
    except FormatError as error:
        error.offset = None
        raise error.located(tensor=NOTE) from None


def _put_together(stored: Mapping[str, Stored], note: Note) -> dict[str, Stored]:
    """The tensors, those of several parts made of them; each stands where its first part did."""
    used: dict[str, str] = {}
    made: dict[str, Stored] = {}

    def take(owner: str, part: str) -> Stored:
        name = f"{owner}/{part}"
        if name not in stored or name in used:
            raise FormatError("the note has a part that the checkpoint lacks", tensor=name[:60])
        used[name] = owner
        return stored[name]

    def array(owner: str, part: str) -> StoredArray:
        found = take(owner, part)
        if not isinstance(found, StoredNumbers):
            raise FormatError("a part of a tensor is no array", tensor=f"{owner}/{part}"[:60])
        return found.array

    for name, description in note.tensors.items():
        kind = description.get("kind")
        if kind == "sparse":
            indices, shape = array(name, "indices"), array(name, "dense_shape")
            made[name] = StoredSparse(indices, take(name, "values"), shape)
        elif kind == "ragged":
            levels = description.get("levels")
            if type(levels) is not int or not 0 < levels < len(stored):
                raise FormatError("a ragged tensor without levels", tensor=name[:60])
            splits = tuple(array(name, f"row_splits_{level}") for level in range(levels))
            made[name] = StoredRagged(take(name, "flat_values"), splits)
        else:
            raise FormatError(f"the note has a tensor of kind {str(kind)[:60]!r}", tensor=name[:60])
        if name in stored:
            raise FormatError("the note has a tensor that is there already", tensor=name[:60])
    result: dict[str, Stored] = {}
    for name in stored:
        owner = used.get(name, name)
        if owner not in result:
            result[owner] = made.get(owner) or stored[owner]
    return result


def save_stored(
    tensors: Iterable[tuple[str, Any]],
    path: str,
    *,
    note: Note,
    metadata: Mapping[str, Any],
    layout: Layout | None = None,
    **options: Any,
) -> int:
    """Writes tensors that form a value, and gives how many bytes the files take.

    Args:
        tensors: By name; taken one by one, unless they form a structure.
        path: The prefix.
        note: Of the value.
        metadata: Of the user.
        layout: By default that of a structure is "objects", and of names "names".
        **options: Of `save_tensors`.
    """
    value: Any = tensors
    if note.layout is not None and layout != "names":
        value = layouts.rebuild(note.layout, dict(tensors))
        if not isinstance(value, dict | list | tuple):  # one tensor is one name
            value = {layouts.ROOT: value}
    written = save_tensors(value, path, layout=layout, note=note, metadata=metadata, **options)
    return written.nbytes
