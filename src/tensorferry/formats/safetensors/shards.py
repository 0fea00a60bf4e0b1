"""safetensors in several files, with an index: how models that are too large for one are kept.

`model.safetensors.index.json` names the file of each tensor, which lies beside it:

    {"metadata": {"total_size": 10, ...},
     "weight_map": {"kernel": "model-00001-of-00002.safetensors", ...}}

Metadata of the whole is in the index. The files are written first and the index last: it decides.
Where there was a model before, the names get a part that no name had before
("model-3f9a01c2-00001-of-00002.safetensors"), so that an old index never leads into a new file. The
files that were replaced are removed, and those that a killed writer left: files of these names that
say themselves, in their metadata, that they belong to this index. No index says what is removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tensorferry import storage
from tensorferry.codecs import json_text as json
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.arrays import Contents
from tensorferry.formats.contract import Written
from tensorferry.formats.safetensors import file as safetensors
from tensorferry.storage import Source, names, shards
from tensorferry.storage.patience import attempts
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.entries import Entry
from tensorferry.tensors.stored import Unreadable
from tensorferry.tensors.values import Array

INDEX = ".index.json"
TOTAL = "total_size"
BELONGS = "tensorferry.index"
"""The key under which a file says which index it was written for."""


def save_parts(
    parts: Sequence[tuple[str, Array]],
    target: Target,
    metadata: Callable[[], dict[str, str]],
    *,
    shard_size: int | str,
) -> Written:
    """Writes arrays into files of about a size, and their index.

    Args:
        parts: Names and arrays, which are dealt out in this order.
        target: The index, or the one file that there could be: "model.safetensors".
        metadata: Gives the metadata, which goes into the index.
        shard_size: The most bytes of arrays in a file, unless one array has more.
    """
    options = target.options
    stem = target.path.removesuffix(INDEX).removesuffix(".safetensors")
    most = shards.parse_size(shard_size)
    groups: list[list[tuple[str, Array]]] = [[]]
    size = 0
    for name, array in parts:
        if groups[-1] and size + array.nbytes > most:
            groups.append([])
            size = 0
        groups[-1].append((name, array))
        size += array.nbytes
    index = f"{stem}.safetensors{INDEX}"
    with storage.only_writer(index):
        paths = _paths(stem, len(groups), options)
        written = _write(groups, paths, index, target, metadata)
        remove_others(stem, {index, *paths}, options)
        if target.path not in (index, stem):
            # One file that had the name of the target would be read instead of the index.
            storage.remove(target.path, options=options)
    return Written(written, (index, *paths))


def _write(
    groups: list[list[tuple[str, Array]]],
    paths: list[str],
    index: str,
    target: Target,
    metadata: Callable[[], dict[str, str]],
) -> int:
    """Writes the files and their index, and gives the number of bytes."""
    weights = {
        name: os.path.basename(file)
        for file, group in zip(paths, groups, strict=True)
        for name, _ in group
    }
    total = sum(array.nbytes for group in groups for _, array in group)
    tree = {"metadata": {TOTAL: total, **metadata()}, "weight_map": weights}
    written = 0
    with target.files() as files:
        for file, group in zip(paths, groups, strict=True):
            sink = files.open(file)
            safetensors.write_parts(group, sink, lambda: {BELONGS: os.path.basename(index)})
            written += sink.position
        sink = files.open(index)
        sink.write(json.to_text(tree))
        written += sink.position
    return written


def _paths(stem: str, count: int, options: Mapping[str, Any] | None) -> list[str]:
    """Names that no file of the model has, or had."""
    is_new = not storage.exists(f"{stem}.safetensors{INDEX}", options=options)
    if is_new and not files_like(stem, options):
        return [f"{stem}-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    token = os.urandom(4).hex()
    return [f"{stem}-{token}-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]


def files_like(stem: str, options: Mapping[str, Any] | None) -> list[str]:
    """The files that are named as files of the model are."""
    folder, name = os.path.split(stem)
    wanted = re.compile(re.escape(name) + r"(-[0-9a-f]{8})?-[0-9]{5,}-of-[0-9]{5,}\.safetensors")
    try:
        found = storage.list_directory(folder or ".", options=options)
    except (FileNotFoundError, UnsupportedError):
        return []
    bases = (os.path.basename(path) for path in found)
    return [os.path.join(folder, base) for base in bases if wanted.fullmatch(base)]


def remove_others(stem: str, kept: set[str], options: Mapping[str, Any] | None) -> None:
    """Removes files of the model that are not in its index; a failure leaves them as they are."""
    index = f"{os.path.basename(stem)}.safetensors{INDEX}"
    with suppress(OSError):
        for path in files_like(stem, options):
            if path not in kept and _belongs(path, index, options):
                storage.remove(path, options=options)


def _belongs(path: str, index: str, options: Mapping[str, Any] | None) -> bool:
    """Whether a file says that it was written for an index of that name."""
    place = Place(path, options=options)
    try:
        return safetensors.read_parts(place.open()).metadata.get(BELONGS) == index
    except (FerryError, OSError):
        return False
    finally:
        place.close()


def read_parts(place: Place) -> Contents:
    """The arrays of all files of an index, and its metadata; nothing but the headers is read."""
    for _ in attempts():
        try:
            return _read_parts(place)
        except FileNotFoundError:
            # The files may have been replaced since the index was read; then it was, too.
            if place.is_url or place.is_current():
                raise
            place.close()
    return _read_parts(place)


def _read_parts(place: Place) -> Contents:
    weights, metadata = parse_index(place.open())
    entries: dict[str, Entry | Unreadable] = {}
    tensors: dict[str, set[str]] = {}
    for name, file in weights.items():
        tensors.setdefault(file, set()).add(name)
    for file, expected in tensors.items():
        beside = place.beside(file)
        path = beside.path
        found = safetensors.read_parts(beside.open()).entries
        if found.keys() != expected:
            name = min(found.keys() ^ expected)
            what = "lacks" if name in expected else "has, unlike the index,"
            raise FormatError(f"the file {what} a tensor of the index", path=path, tensor=name[:60])
        entries.update(found)
    return Contents({name: entries[name] for name in weights}, metadata)


def parse_index(source: Source) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each tensor, and the metadata."""
    tree = json.parse(source.everything())
    weights = tree.get("weight_map") if isinstance(tree, dict) else None
    if not isinstance(weights, dict):
        raise FormatError("no index of safetensors: it has no weight_map", path=source.path)
    for name, file in weights.items():
        problem = names.problem_with(file)
        if problem is not None:
            raise FormatError(
                f"the file of a tensor is {str(file)[:60]!r}, expected a name beside the index: "
                + problem,
                path=source.path,
                tensor=name[:60],
            )
    metadata = tree.get("metadata", {})
    if not isinstance(metadata, dict):
        raise FormatError("the metadata of the index is no object", path=source.path)
    kept = {name: value for name, value in metadata.items() if isinstance(value, str)}
    return weights, kept
