"""Checkpoints, written as TensorFlow writes them.

The data files hold the tensors in the order in which they come, without gaps. The index follows,
sorted, and its name decides: a checkpoint is there when its index is.

The names of data files have nothing in them but their number and how many there are. To replace a
checkpoint by one of as many files, the new data takes the names of one file more than there is:

    model.index of the old     model.data-00000-of-00001 of the old
                               model.data-00000-of-00002 of the new, written and synced
    model.index of the new     renamed onto the old: from here on the new one counts
                               model.data-00000-of-00001 is another name of the new file
    model.index of the new     once more, with the usual names; others are removed

At each moment the index and the data files that it means are of one checkpoint, the old or the new,
and a process that is killed leaves one of these states. In a store, or on a file system without
second names, the third state is the last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import _native, dtypes, storage
from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.codecs import json_text as json, leveldb as table
from tensorferry.codecs.leveldb import mask
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.checkpoint import (
    entries as checkpoint_entries,
    graph as graphs,
    index as indexes,
    notes,
    state as states,
    strings,
)
from tensorferry.formats.checkpoint.entries import data_path
from tensorferry.formats.checkpoint.graph import Path
from tensorferry.formats.checkpoint.names import Layout
from tensorferry.storage import FileSink, Replacement, folders, sink as sinks, temporary
from tensorferry.storage.place import Place
from tensorferry.storage.url import check_file
from tensorferry.tensors import layout as layouts
from tensorferry.tensors.entries import chunks
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor, as_tensor

if TYPE_CHECKING:  # reading, which needs none, imports this module
    from concurrent.futures import ThreadPoolExecutor

    from tensorferry.tensors.content import Content

# Arrays up to this size are gathered to so many bytes before they are written.
SMALL = 1 << 12
GATHERED = 1 << 18

Options = Mapping[str, Any] | None


class Written(NamedTuple):
    """What was written: the checkpoint's prefix, its files with the index last, and their size."""

    prefix: str
    paths: list[str]
    nbytes: int


def save_tensors(
    tensors: Mapping[str, Any] | Iterable[tuple[str, Tensor]],
    prefix: str | os.PathLike[str],
    *,
    layout: Layout | None = None,
    note: Note | None = None,
    metadata: Mapping[str, Any] | None = None,
    shards: int = 1,
    durable: bool = True,
    state: bool = True,
    keep: int | None = None,
    storage_options: Options = None,
) -> Written:
    """Writes a checkpoint, which appears when it is whole.

    Args:
        tensors: A structure of tensors (dicts, lists and tuples), or pairs of a name and a tensor,
            which are taken and written one by one.
        prefix: Its name, local or a URL; an ".index" at its end is left out.
        layout: "names" uses the names as keys, as `tf.compat.v1.train.Saver` does, and
            `tf.train.load_checkpoint(prefix).get_tensor(name)` finds them. "objects" adds an object
            graph, in which "a/b" is the variable b of the object a, for
            `tf.train.Checkpoint(a=...).read(prefix)`. By default structures that nest are objects,
            all else names.
        note: What else is to be kept of the tensors; is added to.
        metadata: What to keep with it: strings, or whatever JSON takes.
        shards: How many data files to write; each tensor goes into the smallest so far.
        durable: Waits until the disk has it.
        state: Makes it the latest in the `checkpoint` file of its directory.
        keep: How many checkpoints that file is to list; those before are removed.
        storage_options: For the store of a URL.

    Raises:
        UnsupportedError: A name or a value is nothing that a checkpoint can have.
    """
    path = prefix_of(prefix)
    if not 0 < shards < 100_000:
        raise ValueError(f"shards is {shards}, expected 1 to 99999")
    if keep is not None and (keep < 1 or not state):
        raise ValueError(f"keep is {keep}, expected 1 or more, and state=True")
    plan = Plan(layout, Note() if note is None else note, metadata)
    with storage.only_writer(path + states.INDEX):
        written = _replace(path, plan, plan.named(tensors), shards, durable, storage_options)
    if state:
        outdated = states.update(path, keep=keep, durable=durable, options=storage_options)
        for other in outdated:
            remove(other, storage_options=storage_options)
    return written


def prefix_of(path: str | os.PathLike[str]) -> str:
    """The prefix of a checkpoint that is to be written.

    Raises:
        IsADirectoryError: The path is the name of a folder.
        FormatError: The path names no file.
    """
    prefix = storage.localize(path).removesuffix(states.INDEX)
    check_file(prefix)
    if not os.path.basename(prefix) or prefix == storage.STANDARD_STREAM:
        raise FormatError("no prefix of a checkpoint, expected a name", path=prefix)
    return prefix


def save_content(
    content: Content,
    prefix: str,
    *,
    layout: Layout | None = None,
    shards: int = 1,
    durable: bool = True,
    state: bool = True,
    keep: int | None = None,
    storage_options: Options = None,
) -> Written:
    """Writes a value on its way into a file; its tensors one by one, unless they form a structure.

    Args:
        content: The tensors, their note and the metadata.
        prefix: As in `save_tensors`.
        layout: By default a structure is written as "objects", and named tensors as "names".
        shards: As in `save_tensors`, like all that follow.
        durable: See there.
        state: See there.
        keep: See there.
        storage_options: See there.
    """
    tensors: Any = content.tensors()
    structure = content.note.layout
    if structure is not None and layout != "names":
        tensors = layouts.rebuild(structure, dict(tensors), lists=False)
        if not isinstance(tensors, dict | list | tuple):  # a single tensor has the name of the root
            tensors = {layouts.ROOT: tensors}
    return save_tensors(
        tensors,
        prefix,
        layout=layout,
        note=content.note,
        metadata=content.metadata,
        shards=shards,
        durable=durable,
        state=state,
        keep=keep,
        storage_options=storage_options,
    )


def remove(prefix: str, *, storage_options: Options = None) -> None:
    """Removes the files of a checkpoint, the index first; that there is none is fine."""
    storage.remove(prefix + states.INDEX, options=storage_options)
    remove_data(prefix, set(), storage_options)


@dataclass
class Plan:
    """What is written, and under which keys."""

    layout: Layout | None
    note: Note
    metadata: Mapping[str, Any] | None
    variables: list[Path] = field(default_factory=list)
    containers: list[Path] = field(default_factory=list)

    def named(self, tensors: Any) -> Iterator[tuple[str, Array]]:
        """Keys and arrays, those that say what the others are at the end."""
        key = self._key
        for path, tensor in self._paths(tensors):
            if isinstance(tensor, np.ndarray):
                yield key(path), tensor
                continue
            for part, array in _take_apart(path, tensor, self.note):
                yield key(part), array
        if self.layout == "objects":
            yield graphs.KEY, scalar(graphs.encode(self.variables, self.containers))
        kept = self.note.to_metadata(dict(self.metadata or {}))
        if kept:
            yield notes.KEY, scalar(json.to_text(kept))

    def _paths(self, tensors: Any) -> Iterator[tuple[Path, Tensor]]:
        is_plain = isinstance(tensors, Mapping) and all(
            isinstance(tensor, np.ndarray) for tensor in tensors.values()
        )
        if is_plain or not isinstance(tensors, dict | list | tuple):
            for name, tensor in tensors.items() if isinstance(tensors, Mapping) else tensors:
                yield (name,), tensor
            return
        flat, layout = layouts.flatten(tensors)
        if self.note.layout is None:
            self.note.layout = layout
        if layout is None:
            for name, tensor in flat.items():
                yield (name,), tensor
            return
        if self.layout is None:
            self.layout = "objects"
        yield from _walk(tensors, (), self.containers)

    def _key(self, path: Path) -> str:
        name = path[0] if len(path) == 1 else "/".join(path)
        # Whoever writes keys as they are has the graph of another checkpoint, which knows them.
        is_graph = name == graphs.KEY and self.layout == "names"
        if not name or name[0] == "\0" or (name in notes.HIDDEN and not is_graph):
            raise _no_name(name)
        if self.layout != "objects":
            return name
        if len(path) == 1:
            path = tuple(name.split("/"))
        self.variables.append(path)
        return graphs.key_of(path)


def _walk(value: Any, path: Path, containers: list[Path]) -> Iterator[tuple[Path, Tensor]]:
    """The tensors of a structure, by where they are; all else is kept in its layout."""
    if isinstance(value, np.ndarray | SparseTensor | RaggedTensor):
        yield path or (layouts.ROOT,), value
    elif isinstance(value, dict | list | tuple):
        if path:
            containers.append(path)
        names = getattr(value, "_fields", None) or range(len(value))
        pairs = value.items() if isinstance(value, dict) else zip(names, value, strict=True)
        for name, element in pairs:
            yield from _walk(element, (*path, str(name)), containers)


def _no_name(name: str) -> UnsupportedError:
    return UnsupportedError(f"{name!r} is no name for a tensor of a checkpoint")


def _take_apart(path: Path, tensor: Tensor, note: Note) -> Iterator[tuple[Path, Array]]:
    """The arrays of a tensor, as `tensorferry.tensors.stored` has them; strings are as they are."""
    name = "/".join(path)
    if not name:  # its parts would have one
        raise _no_name(name)
    if isinstance(tensor, SparseTensor):
        note.tensors[name] = {"kind": "sparse"}
        for part in ("indices", "values", "dense_shape"):
            yield (*path, part), getattr(tensor, part)
    elif isinstance(tensor, RaggedTensor):
        note.tensors[name] = {"kind": "ragged", "levels": tensor.ragged_rank}
        yield (*path, "flat_values"), tensor.flat_values
        for level, splits in enumerate(tensor.nested_row_splits):
            yield (*path, f"row_splits_{level}"), splits
    else:
        yield path, as_tensor(tensor)


def scalar(text: bytes) -> Array:
    """A string tensor of one string."""
    array: Array = np.empty((), object)
    array[()] = text
    return array


# Files


def _replace(
    prefix: str,
    plan: Plan,
    tensors: Iterator[tuple[str, Array]],
    shards: int,
    durable: bool,
    options: Options,
) -> Written:
    """Writes all files: see above."""
    from concurrent.futures import ThreadPoolExecutor

    index = prefix + states.INDEX
    count = shards + 1 if count_shards(Place(index, options=options)) == shards else shards
    paths = [data_path(prefix, shard, count) for shard in range(shards)]
    with (
        ThreadPoolExecutor(1, "checksums") as hasher,
        Replacement(durable=durable, options=options) as files,
    ):
        data = DataWriter([Shard(files.open(path), hasher) for path in paths])
        data.add(tensors)
        sink = files.open(index)
        data.write_index(sink, count)
    if count != shards and not storage.is_url(prefix):
        usual = [data_path(prefix, shard, shards) for shard in range(shards)]
        if _link(paths, usual, durable=durable):
            with storage.open_sink(index, durable=durable) as sink:
                data.write_index(sink, shards)
            paths = usual
    remove_data(prefix, set(paths), options)
    return Written(prefix, [*paths, index], data.nbytes + sink.position)


def count_shards(place: Place) -> int | None:
    """Number of data files of the checkpoint whose index is there; None if nothing is lost."""
    try:
        return indexes.read_header(place).shards
    except (FileNotFoundError, NotADirectoryError, FerryError):
        return None
    finally:
        place.close()


def _link(paths: list[str], others: list[str], *, durable: bool) -> bool:
    """Gives files other names, too; False if the file system cannot."""
    for path, other in zip(paths, others, strict=True):
        link = temporary.name_beside(other)
        try:
            os.link(path, link)
            sinks.replace(link, other, hasty=not durable)
        except OSError:
            temporary.remove(link)
            return False
    if durable:
        try:
            folders.sync(os.path.dirname(paths[0]))
        except OSError:  # the index is synced by its own means, or not at all
            return False
    return True


def remove_data(prefix: str, kept: set[str], options: Options) -> None:
    """Removes data files of a prefix that its index does not mean."""
    directory, name = os.path.split(prefix)
    names, start = {os.path.basename(path) for path in kept}, f"{name}.data-"
    with suppress(OSError, UnsupportedError):
        for path in storage.list_directory(directory or ".", start=start, options=options):
            found = os.path.basename(path)
            data = states.DATA.fullmatch(found)
            if data is not None and data[1] == name and found not in names:
                storage.remove(path, options=options)


class Shard:
    """A data file: small tensors are gathered, large ones written as they are.

    Attributes:
        size: How much was written into it, or will be.
    """

    def __init__(self, sink: FileSink, hasher: ThreadPoolExecutor) -> None:
        self.size = 0
        self._sink = sink
        self._hasher = hasher
        self._gathered: list[bytes] = []
        self._waiting = 0

    def write(self, array: Array) -> tuple[int, int]:
        """Writes the bytes of a tensor, and gives their number and checksum."""
        size = array.nbytes
        if array.dtype == object:
            buffers, crc = strings.encode(array.ravel().tolist())
            size = sum(map(len, buffers))
            self._gathered += buffers
        elif size <= SMALL:
            data = array.tobytes()
            crc = mask(_native.crc32c(data))
            self._gathered.append(data)
        else:
            self.flush()
            self.size += size
            crc = 0
            for chunk in chunks(array):
                view = storage.byte_view(chunk)
                # Both without the GIL: the one takes about half as long as the other.
                hashed = self._hasher.submit(_native.crc32c, view, crc)
                self._sink.write(view)
                crc = hashed.result()
            return size, mask(crc)
        self.size += size
        self._waiting += size
        if self._waiting > GATHERED:
            self.flush()
        return size, crc

    def flush(self) -> None:
        """Writes what was gathered."""
        if self._gathered:
            self._sink.write(b"".join(self._gathered))
            self._gathered, self._waiting = [], 0


class DataWriter:
    """Writes tensors into data files, and then the index of them."""

    def __init__(self, shards: list[Shard], first: int = 0) -> None:
        self._shards = shards
        self._first = first  # the number of the first of them
        self._entries: dict[bytes, bytes] = {}
        self._heads: dict[tuple[Any, tuple[int, ...]], bytes] = {}

    @property
    def nbytes(self) -> int:
        """How much was written into the data files."""
        return sum(shard.size for shard in self._shards)

    def add(self, tensors: Iterable[tuple[str, Array]]) -> None:
        """Writes tensors."""
        heads, entries, shards = self._heads, self._entries, self._shards
        number = 0
        for key, tensor in tensors:
            name = _utf8(key)
            if name in entries:
                raise UnsupportedError("names two tensors of a checkpoint", tensor=key)
            head = heads.get((tensor.dtype, tensor.shape))
            if head is None:
                try:
                    tensor = as_tensor(tensor)
                    row = dtypes.from_numpy(tensor.dtype)
                except UnsupportedError as error:
                    raise error.located(tensor=key) from None
                head = checkpoint_entries.encode_kind(row, tensor.shape)
                if row is not dtypes.STRING:
                    heads[tensor.dtype, tensor.shape] = head
            if len(shards) > 1:
                number = min(range(len(shards)), key=lambda number: shards[number].size)
            shard = shards[number]
            offset = shard.size
            size, crc = shard.write(tensor)
            entries[name] = _native.bundle_entry(head, self._first + number, offset, size, crc)
        for shard in shards:
            shard.flush()

    def write_index(
        self, sink: FileSink, shards: int, others: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Writes the index, with entries that others have written."""
        entries = {**(others or {}), **self._entries}
        keys = sorted(entries)
        values = [entries[key] for key in keys]
        table.write([b"", *keys], [checkpoint_entries.encode_header(shards), *values], sink)


def _utf8(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"{key[:60]!r} is no text that UTF-8 can carry") from None
