"""Opening checkpoints: TensorFlow's own files for the variables of a model.

A checkpoint of the second version, which TensorFlow has written since 2016, is named by its prefix:

    prefix.index                  a table of names, dtypes, shapes, places and checksums
    prefix.data-00000-of-00002    the bytes of tensors, little-endian, in C order
    prefix.data-00001-of-00002
    checkpoint                    names the latest checkpoint in this folder

Tensors are views of the mapped data files. What the format has no place for (sparse and ragged
tensors, layouts, metadata) is in a note under the key "_TENSORFERRY", which only a checkpoint has
that needs it. A checkpoint may be replaced while it is opened: then it is opened anew, so that the
index and the data are always of one checkpoint.

How a path leads to a prefix is `tensorferry.formats.checkpoint.state`, the entries of an index are
`index` in this folder, tensors made of them `tensors`, objects and slots `graph`, writing `writer`,
and the first version `v1`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import FileIO
from typing import Any

from tensorferry import _native
from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.checkpoint import (
    graph as graphs,
    index as indexes,
    notes,
    state as states,
)
from tensorferry.formats.checkpoint.entries import data_path
from tensorferry.formats.checkpoint.graph import Graph, Slot
from tensorferry.formats.checkpoint.index import Index
from tensorferry.formats.checkpoint.names import Names, names_of
from tensorferry.formats.checkpoint.state import latest_checkpoint as latest_checkpoint
from tensorferry.formats.checkpoint.tensors import StoredNumbers, TensorReader
from tensorferry.formats.checkpoint.writer import (
    remove as remove,
    save_tensors as save_tensors,
)
from tensorferry.storage import Source, names
from tensorferry.storage.patience import attempts
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE, Whole, source_of
from tensorferry.tensors.many import ManyStored
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored, StoredArray, StoredRagged, StoredSparse
from tensorferry.tensors.values import Array, TensorInfo

# The most bytes of an index that is read before anything is known of it.
LARGEST = 1 << 24

# How the path of the only data file ends.
_ONLY = data_path("", 0, 1)


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint that is open.

    Attributes:
        prefix: Its name.
        version: 1 or 2; 0 for the constants of a frozen graph.
        stored: Its tensors, by the names that a user is shown.
        keys: The key of each tensor in the index.
        slots: The tensors that an optimizer keeps for variables.
        note: What was kept of the tensors beside their values.
        metadata: What a user kept with it.
        places: Its files that are open.
        files: The paths of its files, the index first.
        graph_bytes: The object graph, as it is stored.
        model: What was read of the SavedModel around it, if reading that again would take long.
    """

    prefix: str
    version: int
    stored: Mapping[str, Stored]
    keys: Mapping[str, str]
    slots: Mapping[str, Slot] = field(default_factory=dict)
    note: Note = field(default_factory=Note)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    graph_bytes: bytes | None = None
    model: Any = None

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
        """Closes the files; tensors that were given out stay valid."""
        for place in self.places:
            place.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_checkpoint(
    place: Place, *, verify: bool = True, names: Names = "paths", parts: bool = False
) -> Checkpoint:
    """Opens a checkpoint; only its index is read.

    Args:
        place: A prefix, or whatever else leads to one: see `tensorferry.formats.checkpoint.state`.
        verify: Check the checksum of each tensor when it is first read; that of the index always
            is.
        names: See `tensorferry.formats.checkpoint.names`.
        parts: Give the parts of sparse and ragged tensors as they are stored.

    Raises:
        FileNotFoundError: There is no checkpoint, or one of its files is missing.
        FormatError: It is damaged.
        UnsupportedError: The place is a stream or bytes, and has no other files beside it.
    """
    if not place.is_named:
        raise UnsupportedError(
            "a checkpoint is several files, and is opened by its path",
            path=place.path,
            hint="copy all of its files into a folder, and open that",
        )
    # Asked first whether it is a prefix, which costs no more than to open the index.
    found = _open_v2(place, verify, names, parts)
    if found is not None:
        return found
    prefix = states.find(place)
    if prefix is None:
        raise states.missing(place)
    found = None if prefix is place else _open_v2(prefix, verify, names, parts)
    return _open_v1(prefix) if found is None else found


def _open_v1(prefix: Place) -> Checkpoint:
    from tensorferry.formats.checkpoint import v1

    stored, places = v1.open_tables(prefix)
    keys = {name: name for name in stored}
    files = [place.path for place in places]
    return Checkpoint(prefix.path, 1, stored, keys, files=files, places=places)


def _open_v2(prefix: Place, verify: bool, names: Names, parts: bool) -> Checkpoint | None:
    """The checkpoint of a prefix; None if there is no index of that name."""
    usual = None if prefix.is_url else open_pair(prefix, verify, names, parts)
    if usual is not None:
        return usual
    path = prefix.path + states.INDEX
    for _ in attempts():
        try:
            index = _IndexFile(prefix.companion(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        with index:
            opened = _open(prefix, index, verify, names, parts)
        if opened is not None:
            return opened
    raise FormatError("is replaced again and again while it is opened", path=path)


def open_pair(
    prefix: Place, verify: bool = True, names: Names = "paths", parts: bool = False
) -> Checkpoint | None:
    """The checkpoint of a local prefix with one data file, by few calls; None for any other."""
    path, data = prefix.path + states.INDEX, prefix.path + _ONLY
    found = _native.open_pair(path, data, LARGEST, SMALL_FILE, Whole)
    if found is None:
        return None
    content, descriptor, held = found
    if held is None:
        source = source_of(descriptor, data)
    else:
        source = Source(data, buffer=memoryview(held[0]).toreadonly())
        source.identity = held[1]
    place = prefix.companion(data)
    place.adopt(source)
    checkpoint = None
    try:
        index = indexes.read_content(content, path)
        if index.shards == 1:
            indexes.check_shards(index, path)
            checkpoint = _make(prefix.path, index, {0: source}, verify, names, parts)
            checkpoint.files, checkpoint.places = [path, data], [place]
    finally:
        if checkpoint is None:
            place.close()
    return checkpoint


def _open(
    prefix: Place, file: _IndexFile, verify: bool, names: Names, parts: bool
) -> Checkpoint | None:
    """The checkpoint; None if it was replaced meanwhile."""
    path = file.place.path
    places: list[Place] = []
    try:
        index = indexes.read_content(file.content, path)
        try:
            files = _open_shards(prefix, index, places)
        except FileNotFoundError:
            if file.is_replaced():
                return None
            raise
        # A new checkpoint may use the same names: the data files belong to this index only if it
        # is still there. Objects of a store keep their version while they are open.
        if not prefix.is_url and file.is_replaced():
            return None
        checkpoint = _make(prefix.path, index, files, verify, names, parts)
        checkpoint.files = [path, *(place.path for place in places)]
        checkpoint.places, places = places, []
        return checkpoint
    finally:
        for place in places:
            place.close()


def open_share(prefix: Place, index: Index) -> Checkpoint:
    """The tensors of an index that has entries for some data files of a checkpoint only."""
    places: list[Place] = []
    try:
        files = _open_shards(prefix, index, places)
        share = _make(prefix.path, index, files, True, "keys", True)
        share.places, places = places, []
        return share
    finally:
        for place in places:
            place.close()


class _IndexFile:
    """The bytes of an index, and whether another file has its name by now.

    A local file stays open: until it is closed, no new file can have its number.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._file: FileIO | None = None
        if place.is_url:
            self.content = self._read_object()
        elif names.is_special(place.path):
            raise FormatError("it is no regular file, expected an index", path=place.path)
        else:
            self._file = FileIO(place.path)
            found = os.fstat(self._file.fileno())
            self._identity = _identity(found)
            # Nearly always all of it: asking for one byte more tells that it ends there.
            self.content = self._file.read(found.st_size + 1)
            if len(self.content) != found.st_size:
                self.content += self._file.readall()

    def _read_object(self) -> bytes:
        try:
            return bytes(self.place.open().everything())
        finally:
            self.place.close()

    def is_replaced(self) -> bool:
        """Whether another file has the name, or none has it."""
        try:
            if self._file is None:
                return self._read_object() != self.content
            found = os.stat(self.place.path)
        except FileNotFoundError:
            return True
        return _identity(found) != self._identity

    def __enter__(self) -> _IndexFile:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open_shards(prefix: Place, index: Index, places: list[Place]) -> dict[int, Source]:
    """The data files that tensors lie in; their places are added to `places`."""
    files = {}
    for shard in sorted(indexes.check_shards(index, prefix.path + states.INDEX)):
        place = prefix.companion(data_path(prefix.path, shard, index.shards))
        try:
            files[shard] = place.open()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno, f"data file {shard} of {index.shards} of the checkpoint", place.path
            ) from None
        places.append(place)
    return files


def _make(
    prefix: str, index: Index, files: dict[int, Source], verify: bool, names: Names, parts: bool
) -> Checkpoint:
    if index.end is None or index.end > _size(files[0]):
        sizes = {shard: _size(source) for shard, source in files.items()}
        indexes.check_places(index, sizes, lambda shard: data_path(prefix, shard, index.shards))
    try:
        reader = TensorReader(index, files, verify)
        keys = reader.visible()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"a key is {error.object[:60]!r}, expected UTF-8", path=prefix + states.INDEX
        ) from None
    except FormatError as error:
        raise error.located(path=prefix + states.INDEX) from None
    kept = {name: keys.pop(name) for name in notes.HIDDEN if name in keys}
    graph = reader.text(kept[graphs.KEY]) if graphs.KEY in kept else None
    note = Note()
    metadata: dict[str, Any] = {}
    if notes.KEY in kept:
        note, metadata = notes.parse(reader.text(kept[notes.KEY]))
    shown, slots = names_of(keys, graph, names)
    numbers = keys if graph is None else {name: keys[key] for name, key in shown.items()}
    stored: Mapping[str, Stored] = _Tensors(numbers, reader)
    if note.tensors and not parts:
        stored = _put_together(stored, note)
        shown = {name: shown.get(name, name) for name in stored}
    return Checkpoint(prefix, 2, stored, shown, slots, note, metadata, graph_bytes=graph)


def _size(source: Source) -> int:
    return len(source.everything()) if source.size is None else source.size


class _Tensors(ManyStored):
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

    def read_quickly(self, name: str) -> Array | None:
        """A tensor, if it is numbers in a file that is in memory."""
        return self._reader.read(self._numbers[name])

    def read_all(self) -> dict[str, Array] | None:
        """All tensors, if all of them are numbers in files that are in memory."""
        return self._reader.arrays(self._numbers)

    def infos(self, aliases: Mapping[str, str]) -> dict[str, TensorInfo] | None:
        """What is known of all tensors, if all of them are numbers."""
        return self._reader.infos(self._numbers, aliases)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers


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
