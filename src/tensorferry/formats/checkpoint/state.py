"""Which checkpoints there are: paths, and the `checkpoint` file beside them.

That file is a CheckpointState in protobuf's text format, which TensorFlow keeps in each directory:

    model_checkpoint_path: "ckpt-3"
    all_model_checkpoint_paths: "ckpt-2"
    all_model_checkpoint_paths: "ckpt-3"
    all_model_checkpoint_timestamps: 1700000000.25
    last_preserved_timestamp: 1700000000.0

Paths are relative to the directory, or absolute. A checkpoint is named by its prefix, the part of
its files' names before ".index" and ".data-00000-of-00001"; here any of its files, its directory
or the `checkpoint` file will do.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorferry import storage
from tensorferry.codecs import textproto
from tensorferry.codecs.leveldb import MAGIC
from tensorferry.errors import FormatError

NAME = "checkpoint"
INDEX = ".index"
DATA = re.compile(r"(.+)\.data-\d{5,}-of-\d{5,}", re.DOTALL)
# A file of a checkpoint of the first version in several, and what TensorFlow names all of them by.
V1_SHARD = re.compile(r"(.+)-(?:\d{5}|\?{5})-of-\d{5}", re.DOTALL)

Options = Mapping[str, Any] | None


@dataclass(slots=True)
class State:
    """The `checkpoint` file of a directory.

    Attributes:
        latest: The prefix of the newest checkpoint, as it is written there.
        all: Those of all, the oldest first.
        timestamps: When each of them was written, in seconds; may be empty.
        last_preserved: When the last one was written that is to be kept for ever.
    """

    latest: str
    all: list[str] = field(default_factory=list)
    timestamps: list[float] = field(default_factory=list)
    last_preserved: float | None = None

    @classmethod
    def parse(cls, text: bytes | memoryview) -> State:
        """The state that a text is.

        Raises:
            FormatError: It is none.
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


def join(directory: str, name: str) -> str:
    """A file in a directory, which may be a URL."""
    if storage.is_url(name):
        return name
    return (
        posixpath.join(directory, name)
        if storage.is_url(directory)
        else os.path.join(directory, name)
    )


def read(directory: str, *, options: Options = None) -> State | None:
    """The state of a directory; None if it has none.

    Raises:
        FormatError: It is damaged.
    """
    path = join(directory, NAME)
    if os.path.isdir(path):
        return None
    try:
        with storage.open_source(path, options=options) as source:
            return State.parse(source.everything())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except FormatError as error:
        raise error.located(path=path) from None


def update(
    prefix: str, *, keep: int | None = None, durable: bool = True, options: Options = None
) -> list[str]:
    """Makes a checkpoint the latest of its directory.

    Args:
        prefix: Of the checkpoint.
        keep: How many to leave in the list.
        durable: Waits until the disk has it.
        options: For the store of a URL.

    Returns:
        The prefixes in its directory that are no longer in the list: their files can be removed.
    """
    directory, name = os.path.split(prefix)
    try:
        state = read(directory, options=options) or State(name)
    except FormatError:
        state = State(name)
    before = [path for path in state.all if _full(directory, path) != _full(directory, name)]
    removed = [] if keep is None else before[: max(0, len(before) + 1 - keep)]
    left = State(name, [*before[len(removed) :], name], [], state.last_preserved)
    with storage.open_sink(join(directory, NAME), durable=durable, options=options) as sink:
        sink.write(left.encode())
    # What lies elsewhere is not ours to remove, whatever the file says.
    place = os.path.dirname(_full(directory, name))
    return [
        path
        for path in (_full(directory, path) for path in removed)
        if os.path.dirname(path) == place
    ]


def _full(directory: str, path: str) -> str:
    """A path of the file as it can be compared with others."""
    found = join(directory, path)
    return found if storage.is_url(found) else os.path.abspath(found)


def latest_checkpoint(
    directory: str | os.PathLike[str], *, storage_options: Options = None
) -> str | None:
    """The prefix of the newest checkpoint of a directory, by its `checkpoint` file.

    A directory that was moved has absolute paths that lead nowhere: then the checkpoint of that
    name in the directory itself counts.

    Returns:
        None if the directory has no `checkpoint` file, or no such checkpoint.
    """
    found = storage.localize(directory)
    state = read(found, options=storage_options)
    if state is None:
        return None
    latest = _stem(state.latest) if "-?????-of-" in state.latest else state.latest
    assert latest is not None
    for prefix in (join(found, latest), join(found, os.path.basename(latest))):
        if is_checkpoint(prefix, options=storage_options):
            return prefix
    return None


def is_checkpoint(prefix: str, *, options: Options = None) -> bool:
    """Whether there is a checkpoint of that prefix, of either version."""
    return storage.exists(prefix + INDEX, options=options) or bool(v1_files(prefix, options))


def v1_files(prefix: str, options: Options = None) -> list[str]:
    """The tables that a checkpoint of the first version consists of; none if it is no such."""
    if storage.is_url(prefix):
        return [prefix] if _is_table(prefix, options) else []
    if os.path.isfile(prefix):
        return [prefix] if _is_table(prefix, options) else []
    directory, name = os.path.split(prefix)
    if not os.path.isdir(directory or "."):
        return []
    names = sorted(os.listdir(directory or "."))
    shards = [found for found in names if _stem(found) == name]
    return [
        os.path.join(directory, found)
        for found in shards
        if found and _is_table(os.path.join(directory, found), options)
    ]


def _stem(name: str) -> str | None:
    found = V1_SHARD.fullmatch(name)
    return None if found is None or DATA.fullmatch(name) else found.group(1)


def _is_table(path: str, options: Options) -> bool:
    """Whether a file ends as tables do."""
    try:
        with storage.open_source(path, options=options) as source:
            size = source.size
            return (
                size is not None
                and size >= 48
                and bytes(source.range(size - len(MAGIC), size)) == MAGIC
            )
    except (OSError, FormatError):
        return False


def resolve(path: str | os.PathLike[str], *, storage_options: Options = None) -> str | None:
    """The prefix of the checkpoint that a path names; None if it names none.

    Args:
        path: A prefix, one of the files of a checkpoint, a directory with one checkpoint or a
            `checkpoint` file, or that file; local or a URL.
        storage_options: For the store of a URL.

    Raises:
        FormatError: It is a directory of several checkpoints, and nothing says which.
    """
    name = storage.localize(path)
    if name.endswith(INDEX):
        prefix = name.removesuffix(INDEX)
        return prefix if storage.exists(name, options=storage_options) else None
    data = DATA.fullmatch(name)
    if data is not None:
        prefix = data.group(1)
        return prefix if storage.exists(prefix + INDEX, options=storage_options) else None
    if os.path.basename(name) == NAME and not os.path.isdir(name):
        found = latest_checkpoint(os.path.dirname(name), storage_options=storage_options)
        if found is not None:
            return found
    stem = None if storage.is_url(name) else _stem(name)
    if stem is not None and not os.path.exists(name + INDEX) and v1_files(stem):
        return stem
    if is_checkpoint(name, options=storage_options):
        return name
    return _resolve_directory(name, storage_options)


def _resolve_directory(name: str, options: Options) -> str | None:
    remote = storage.is_url(name)
    if not remote and not os.path.isdir(name):
        return None
    found = latest_checkpoint(name, storage_options=options)
    if found is not None or remote:
        return found
    prefixes = [
        path.removesuffix(INDEX)
        for path in storage.list_directory(name)
        if path.endswith(INDEX) and _is_table(path, None)
    ]
    if len(prefixes) > 1:
        names = ", ".join(os.path.basename(prefix) for prefix in prefixes[:5])
        raise FormatError(
            f"a directory of {len(prefixes)} checkpoints ({names}) "
            "without a `checkpoint` file that names the latest",
            path=name,
            hint=f"name one of them: {prefixes[-1]}",
        )
    return prefixes[0] if prefixes else None
