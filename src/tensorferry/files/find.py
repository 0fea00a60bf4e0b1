"""Inputs: what a person names on a command line, as things that can be opened one by one.

    find(["train-*.tfrecord", "model.npz"])     # one input of several files, one of one file

A file, a glob, a directory, "name@10" for a set of shards, a URL, or "-". TFRecord files of one
pattern, directory or shard set are one input; all other files are one each. What is in them is
`tensorferry.operations.opened`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import formats, storage
from tensorferry.errors import UnknownFormatError
from tensorferry.storage import STANDARD_STREAM, shards

if TYPE_CHECKING:
    from tensorferry.formats.checkpoint.outline import Outline


@dataclass(frozen=True)
class Input:
    """Something to open.

    Attributes:
        name: As it was named.
        files: Its files, where they were named one by one; otherwise none.
    """

    name: str
    files: tuple[str, ...] = ()

    @property
    def path(self) -> str | list[str]:
        """What `tensorferry.open` takes."""
        return list(self.files) if self.files else self.name

    def apart(self) -> list[Input]:
        """Each of its files alone, where it is a set of them."""
        if self.files:
            return [Input(name) for name in self.files]
        if shards.is_set(self.name) or "*" in self.name or os.path.isdir(self.name):
            names = [name for name in _expanded(self.name) if is_records(name)]
            return [Input(name) for name in names] or [self]
        return [self]


def _expanded(name: str) -> list[str]:
    try:
        return shards.expand(name)
    except OSError:  # nothing of that kind
        return []


def find(paths: Iterable[str | os.PathLike[str]]) -> list[Input]:
    """The inputs that some paths name, in their order.

    Raises:
        FileNotFoundError: There is nothing by a name.
        UnknownFormatError: A directory holds no file of a known format.
    """
    found: list[Input] = []
    for path in paths:
        found += _find(os.fspath(path))
    return list(_gathered(found))


def _find(path: str) -> list[Input]:
    if path == STANDARD_STREAM:
        return [Input(path)]
    if storage.is_url(path):
        return _matches(path) if "*" in path else [Input(path)]
    if os.path.isdir(path):
        return _in_directory(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [Input(path)]
    return _matches(path)


def _matches(pattern: str) -> list[Input]:
    names = storage.match(pattern)
    if not names or all(map(is_records, names)):
        return [Input(pattern)]  # opening it says what is wrong
    return [Input(name) for name in names if not _is_beside(name)]


def model_of(given: Any, format: str | None, options: Mapping[str, Any] | None) -> str | None:
    """The path of the SavedModel that an input is; None if it is none.

    Args:
        given: An `Input`, or whatever `tensorferry.open` takes.
        format: As the user named it.
        options: For the store of a URL.
    """
    name = _single(given, format, "savedmodel")
    if name is None:
        return None
    if storage.is_url(name):
        from tensorferry.files import open as opening

        found = format or opening.found_by_path(name, options)
        return name if found == "savedmodel" else None
    return name if format is not None or _is_model(name) else None


def _single(given: Any, format: str | None, wanted: str) -> str | None:
    """The one path or URL of an input, if it may be of the format that is wanted."""
    path = given.path if isinstance(given, Input) else given
    if format not in (None, wanted) or not isinstance(path, str | os.PathLike):
        return None
    name = storage.localize(path)
    return None if name == STANDARD_STREAM else name


def _is_model(path: str) -> bool:
    """Whether a local path names a SavedModel; nothing is imported to find that it does not."""
    if not os.path.isdir(path) and not os.path.basename(path).startswith("saved_model."):
        return False
    module: Any = formats.get("savedmodel")
    return module.resolve(path) is not None


def outline_of(given: Any, format: str | None, options: Mapping[str, Any]) -> Outline | None:
    """What a small local checkpoint holds, without opening it; None for all else.

    Args:
        given: An `Input`, or whatever `tensorferry.open` takes.
        format: As the user named it.
        options: With which it would be opened.
    """
    name = _single(given, format, "checkpoint")
    if name is None or options or storage.is_url(name):
        return None
    prefix, is_index, _ = name.rpartition(".index")
    prefix = prefix if is_index and name.endswith(is_index) else name
    is_other = prefix == name and os.path.lexists(name)
    if is_other or not os.path.isfile(f"{prefix}.index"):
        return None
    from tensorferry.formats.checkpoint import outline as checkpoint_outline

    return checkpoint_outline.read(prefix)


def _in_directory(path: str) -> list[Input]:
    """A directory that is something as a whole, such as records, and the other files in it."""
    if _is_model(path):
        return [Input(path)]
    from tensorferry.files import open as opening
    from tensorferry.formats.tfrecord.records import Records

    names = storage.list_directory(path)
    others = [name for name in names if _format_of(name) and not _is_beside(name)]
    try:
        with opening.open(path) as opened:
            if not isinstance(opened, Records):
                # A checkpoint is one among the files there, a model is all of them.
                beside = others if opened.format == "checkpoint" else []
                return [Input(path), *(Input(name) for name in beside if not is_records(name))]
    except FileNotFoundError:
        found = [Input(name) for name in others]
    else:
        # JSON beside records is about them.
        others = [name for name in others if _format_of(name) != "json" and not is_records(name)]
        found = [Input(path), *map(Input, others)]
    if not found:
        raise UnknownFormatError(
            f"none of the {len(names)} files in the directory has the name of a known format",
            path=path,
            hint="`ferry formats` lists their endings; name the files themselves",
        )
    return found


def _gathered(inputs: list[Input]) -> Iterator[Input]:
    """Shards of one set that were named one by one are one input."""
    sets: dict[tuple[str, int], list[str]] = {}
    for given in inputs:
        parsed = shards.parse_shard(given.name) if is_records(given.name) else None
        if parsed is not None:
            sets.setdefault((parsed[0], parsed[2]), []).append(given.name)
    for given in inputs:
        parsed = shards.parse_shard(given.name) if is_records(given.name) else None
        members = [] if parsed is None else sets[parsed[0], parsed[2]]
        if len(members) < 2:
            yield given
        elif members[0] == given.name:
            yield Input(f"{given.name} and {len(members) - 1} more", tuple(members))


def is_records(path: str) -> bool:
    """Whether a file's name is one of TFRecords."""
    name = os.path.basename(path)
    if _is_beside(name):
        return False
    if ".tfrecord" in name:
        return True
    parsed = shards.parse_shard(name)
    return parsed is not None and _format_of(name) is None and not parsed[0].endswith(".data")


def counted_in(path: str) -> Literal["rows", "tensors"]:
    """What is counted while a file of that name is read."""
    known = _format_of(path)
    is_table = known is not None and formats.TABLE[known].holds == "table"
    return "rows" if is_table or is_records(path) else "tensors"


def _is_beside(name: str) -> bool:
    """Whether it is an index, a schema or a note beside a file of data, or not finished."""
    if name.endswith((".idx", ".index", ".schema.json", ".tmp", ".part")):
        return True
    return name.endswith(".json") and _format_of(name[: -len(".json")]) is not None


def _format_of(name: str) -> str | None:
    from tensorferry.codecs import compression as codecs

    return formats.named(codecs.split_suffix(name)[0])
