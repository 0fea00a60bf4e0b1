"""Finding checkpoints: which one a path leads to, and the `checkpoint` file of a folder.

TensorFlow keeps that file in each folder it saves to. It is a CheckpointState in protobuf's text
format:

    model_checkpoint_path: "ckpt-3"
    all_model_checkpoint_paths: "ckpt-2"
    all_model_checkpoint_paths: "ckpt-3"
    all_model_checkpoint_timestamps: 1700000000.25
    last_preserved_timestamp: 1700000000.0

Paths in it are relative to the folder, or absolute. A checkpoint is named by its prefix, the part
of its files' names before ".index" and ".data-00000-of-00001". `find` leads to the prefix from any
of its files, from its folder, and from the `checkpoint` file. What is in a checkpoint is
`tensorferry.formats.checkpoint.reader`.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tensorferry import storage
from tensorferry.classes import dataclass, field
from tensorferry.codecs import textproto
from tensorferry.codecs.leveldb import MAGIC
from tensorferry.errors import FormatError
from tensorferry.expressions import expression
from tensorferry.formats.contract import SeveralError
from tensorferry.storage import names
from tensorferry.storage.place import Place

NAME = "checkpoint"
INDEX = ".index"
DATA = expression(r"(.+)\.data-\d{5,}-of-\d{5,}", re.DOTALL)
# A file of a checkpoint of the first version in several, and what TensorFlow names all of them by.
V1_SHARD = expression(r"(.+)-(?:\d{5}|\?{5})-of-\d{5}", re.DOTALL)

_NUMBER = expression(r"[0-9]+\Z")

Options = Mapping[str, Any] | None


@dataclass(slots=True)
class State:
    """The `checkpoint` file of a folder.

    Attributes:
        latest: The prefix of the newest checkpoint, as it is written there.
        all: The prefixes of all checkpoints, the oldest first.
        timestamps: When each of them was written, in seconds; may be empty.
        last_preserved: When the last checkpoint that is kept for ever was written.
    """

    latest: str
    all: list[str] = field(default_factory=list)
    timestamps: list[float] = field(default_factory=list)
    last_preserved: float | None = None

    @classmethod
    def parse(cls, text: bytes | memoryview) -> State:
        """The state that a text describes.

        Raises:
            FormatError: The text is no CheckpointState.
        """
        message = textproto.parse(bytes(text))
        latest = message.last("model_checkpoint_path")
        paths = message.all("all_model_checkpoint_paths")
        times = message.all("all_model_checkpoint_timestamps")
        preserved = message.last("last_preserved_timestamp")
        numbers = [*times, *([] if preserved is None else [preserved])]
        if not all(isinstance(path, bytes) for path in (latest, *paths)) or not all(
            isinstance(number, int | float) for number in numbers
        ):
            raise FormatError(
                "a checkpoint file without a model_checkpoint_path, expected one in quotes",
                offset=0,
            )
        found = [path.decode(errors="surrogateescape") for path in paths]
        return cls(latest.decode(errors="surrogateescape"), found, times, preserved)

    def encode(self) -> bytes:
        """The text of the file."""
        lines = [f"model_checkpoint_path: {_quote(self.latest)}"]
        lines += [f"all_model_checkpoint_paths: {_quote(path)}" for path in self.all]
        lines += [f"all_model_checkpoint_timestamps: {time!r}" for time in self.timestamps]
        if self.last_preserved is not None:
            lines.append(f"last_preserved_timestamp: {self.last_preserved!r}")
        return "".join(f"{line}\n" for line in lines).encode()


def _quote(path: str) -> str:
    return textproto.quote(path.encode(errors="surrogateescape"))


def join(folder: str, name: str) -> str:
    """The path of a file in a folder, which may be a URL."""
    if storage.is_url(name):
        return name
    joined = posixpath.join if storage.is_url(folder) else os.path.join
    return joined(folder, name)


def read(folder: Place) -> State | None:
    """The state of a folder; None if it has no `checkpoint` file.

    Raises:
        FormatError: The file is damaged.
    """
    text = _read_text(folder)
    try:
        return None if text is None else State.parse(text)
    except FormatError as error:
        raise error.located(path=join(folder.path, NAME)) from None


def _read_text(folder: Place) -> bytes | None:
    """The bytes of the `checkpoint` file of a folder; None if it has none."""
    place = folder.companion(join(folder.path, NAME))
    if not folder.is_url and names.is_special(place.path):
        return None
    try:
        return bytes(place.open().everything())
    except (FileNotFoundError, NotADirectoryError):
        return None
    finally:
        place.close()


def update(
    prefix: str, *, keep: int | None = None, durable: bool = True, options: Options = None
) -> list[str]:
    """Makes a checkpoint the latest of its folder.

    Args:
        prefix: Of the checkpoint.
        keep: How many checkpoints stay in the list.
        durable: Wait until the disk has the file.
        options: For the store of a URL.

    Returns:
        The prefixes in the same folder that left the list: their files can be removed.
    """
    folder, name = os.path.split(prefix)
    text = None
    try:
        text = _read_text(Place(folder, options=options))
        if not durable and text == State(name, [name]).encode():  # and nothing changes
            return []
        state = State(name) if text is None else State.parse(text)
    except FormatError:
        state = State(name)
    before = [path for path in state.all if _full(folder, path) != _full(folder, name)]
    removed = [] if keep is None else before[: max(0, len(before) + 1 - keep)]
    left = State(name, [*before[len(removed) :], name], [], state.last_preserved)
    encoded = left.encode()
    # A checkpoint that is written again leaves the file as it is; the disk may not have it yet.
    if durable or text != encoded:
        with storage.open_sink(join(folder, NAME), durable=durable, options=options) as sink:
            sink.write(encoded)
    # The list does not decide what is removed: checkpoints elsewhere, and those that are not called
    # as this one but for the number, are not ours.
    own, called = os.path.dirname(_full(folder, name)), _NUMBER.sub("", name)
    full = (_full(folder, path) for path in removed)
    return [
        path
        for path in full
        if os.path.dirname(path) == own and _NUMBER.sub("", os.path.basename(path)) == called
    ]


def forget(prefixes: list[str], *, options: Options = None) -> None:
    """Takes checkpoints of one folder off the list of its `checkpoint` file, if it has one."""
    folder = os.path.dirname(prefixes[0]) if prefixes else ""
    try:
        state = read(Place(folder, options=options)) if prefixes else None
    except FormatError:
        return
    if state is None:
        return
    gone = {_full(folder, os.path.basename(prefix)) for prefix in prefixes}
    left = [path for path in state.all if _full(folder, path) not in gone]
    if left != state.all:
        shorter = State(state.latest, left, [], state.last_preserved)
        with storage.open_sink(join(folder, NAME), options=options) as sink:
            sink.write(shorter.encode())


def _full(folder: str, path: str) -> str:
    """A path of the list in a form that can be compared with others."""
    found = join(folder, path)
    return found if storage.is_url(found) else os.path.abspath(found)


def latest_checkpoint(
    directory: str | os.PathLike[str], *, storage_options: Options = None
) -> str | None:
    """The prefix of the newest checkpoint of a directory, by its `checkpoint` file.

    The file leads to no other place: of a path outside of the directory, as one has that was moved,
    the last part counts.

    Returns:
        None if the directory has no `checkpoint` file, or no such checkpoint.
    """
    found = _latest(Place(directory, options=storage_options))
    return None if found is None else found.path


def _latest(folder: Place) -> Place | None:
    state = read(folder)
    if state is None:
        return None
    latest = (_stem(state.latest) if "-?????-of-" in state.latest else None) or state.latest
    for name in dict.fromkeys((_relative(latest, folder.path), os.path.basename(latest))):
        if names.problem_with(name, deep=True) is None:
            found = folder.companion(join(folder.path, name))
            if _is_checkpoint(found):
                return found
    return None


def _relative(path: str, folder: str) -> str:
    """A path in a state file as seen from its folder; TensorFlow also writes absolute ones."""
    inside = folder if storage.is_url(folder) else os.path.abspath(folder)
    return path.removeprefix(inside.rstrip("/") + "/")


def missing(place: Place) -> FileNotFoundError:
    """The error for a path that leads to no checkpoint; it says if a state file leads astray."""
    state = read(place) if place.is_url or os.path.isdir(place.path) else None
    if state is None:
        return FileNotFoundError(f"{place.path}: no checkpoint, and no file of one")
    return FileNotFoundError(
        f"{join(place.path, NAME)}: it names {state.latest[:100]!r}, expected a checkpoint in its "
        "own folder; a file leads to no other place"
    )


def index_of(prefix: Place) -> Place:
    """The place of the index of a checkpoint."""
    return prefix.companion(prefix.path + INDEX)


def _is_checkpoint(prefix: Place) -> bool:
    """Whether there is a checkpoint of that prefix, of either version."""
    return _has_index(prefix) or _has_tables(prefix)


def _has_index(prefix: Place) -> bool:
    if prefix.is_url:
        return index_of(prefix).exists()
    return storage.exists(prefix.path + INDEX)


def _has_tables(prefix: Place) -> bool:
    tables = v1_tables(prefix)
    for table in tables:
        if table is not prefix:
            table.close()
    return bool(tables)


def v1_tables(prefix: Place) -> list[Place]:
    """The tables, open, of a checkpoint of the first version; none if it is no such checkpoint."""
    if prefix.is_open or prefix.is_url or os.path.isfile(prefix.path):
        return [prefix] if _is_table(prefix) else []
    folder, name = os.path.split(prefix.path)
    if not os.path.isdir(folder or "."):
        return []
    listed = sorted(os.listdir(folder or "."))
    shards = [
        prefix.companion(os.path.join(folder, found)) for found in listed if _stem(found) == name
    ]
    return [shard for shard in shards if _is_table(shard)]


def _stem(name: str) -> str | None:
    found = V1_SHARD.fullmatch(name) if "-of-" in name else None
    return None if found is None or DATA.fullmatch(name) else found.group(1)


def _is_table(place: Place) -> bool:
    """Whether a file ends as tables do; the place stays open."""
    try:
        source = place.open()
        size = source.size
        if size is None or size < 48:
            return False
        return bytes(source.range(size - len(MAGIC), size)) == MAGIC
    except (OSError, FormatError):
        return False


def find(place: Place) -> Place | None:
    """The prefix of the checkpoint that a path leads to; None if it leads to none.

    Args:
        place: A prefix, one of the files of a checkpoint, a folder with one checkpoint or with a
            `checkpoint` file, or that file; local or a URL.

    Raises:
        SeveralError: It is a folder of several checkpoints, and nothing says which one is meant.
    """
    if not place.is_named:
        return None
    name = place.path
    data = DATA.fullmatch(name) if ".data-" in name else None
    if name.endswith(INDEX) or data is not None:
        prefix = place.at(name.removesuffix(INDEX) if data is None else data.group(1))
        return prefix if _has_index(prefix) else None
    if os.path.basename(name) == NAME and not os.path.isdir(name):
        found = _latest(place.at(os.path.dirname(name)))
        if found is not None:
            return found
    stem = None if place.is_url else _stem(name)
    if stem is not None and not os.path.exists(name + INDEX) and _has_tables(place.at(stem)):
        return place.at(stem)
    return place if _is_checkpoint(place) else _find_in_folder(place)


def _find_in_folder(folder: Place) -> Place | None:
    if not folder.is_url and not os.path.isdir(folder.path):
        return None
    found = _latest(folder)
    if found is not None or folder.is_url:
        return found
    indexes = [
        index
        for index in map(folder.at, storage.list_directory(folder.path))
        if index.path.endswith(INDEX) and _is_table(index)
    ]
    for index in indexes:
        index.close()
    prefixes = [index.path.removesuffix(INDEX) for index in indexes]
    if len(prefixes) > 1:
        some = ", ".join(os.path.basename(prefix) for prefix in prefixes[:5])
        raise SeveralError(
            f"a directory of {len(prefixes)} checkpoints ({some}) "
            "without a `checkpoint` file that names the latest",
            path=folder.path,
            hint=f"name one of them: {prefixes[-1]}",
        )
    return folder.at(prefixes[0]) if prefixes else None
