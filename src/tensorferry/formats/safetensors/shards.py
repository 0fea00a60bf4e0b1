"""safetensors in several files, with an index: how models that are too large for one are kept.

`model.safetensors.index.json` names the file of each tensor, which lies beside it:

    {"metadata": {"total_size": 10, ...},
     "weight_map": {"kernel": "model-00001-of-00002.safetensors", ...}}

Metadata of the whole is in the index. The files are written first and the index last; where their
usual names are taken they get others, so that an old index never leads into a new file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorferry import storage
from tensorferry.codecs import json_text as json
from tensorferry.errors import FormatError
from tensorferry.formats.arrays import Contents
from tensorferry.formats.contract import Written
from tensorferry.formats.safetensors import file as safetensors
from tensorferry.storage import Source, open_source, shards
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.entries import Entry
from tensorferry.tensors.stored import Unreadable
from tensorferry.tensors.values import Array

INDEX = ".index.json"
TOTAL = "total_size"


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
    before = _files_of(index, options)
    paths = _paths(stem, len(groups), options)
    weights = {
        name: os.path.basename(file)
        for file, group in zip(paths, groups, strict=True)
        for name, _ in group
    }
    total = sum(array.nbytes for _, array in parts)
    tree = {"metadata": {TOTAL: total, **metadata()}, "weight_map": weights}
    written = 0
    with target.files() as files:
        for file, group in zip(paths, groups, strict=True):
            sink = files.open(file)
            safetensors.write_parts(group, sink, dict)
            written += sink.position
        sink = files.open(index)
        sink.write(json.to_text(tree))
        written += sink.position
    for file in before:
        storage.remove(os.path.join(os.path.dirname(index), file), options=options)
    return Written(written, (index, *paths))


def _paths(stem: str, count: int, options: Mapping[str, Any] | None) -> list[str]:
    paths = [f"{stem}-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    if any(storage.exists(path, options=options) for path in paths):
        token = os.urandom(4).hex()
        paths = [f"{stem}-{token}-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    return paths


def _files_of(index: str, options: Mapping[str, Any] | None) -> set[str]:
    """The files that an index has so far."""
    try:
        with open_source(index, options=options) as source:
            return set(_parse(source)[0].values())
    except (FileNotFoundError, FormatError):
        return set()


def read_parts(place: Place) -> Contents:
    """The arrays of all files of an index, and its metadata; nothing but the headers is read."""
    weights, metadata = _parse(place.open())
    entries: dict[str, Entry | Unreadable] = {}
    for file in dict.fromkeys(weights.values()):
        beside = place.beside(file)
        path = beside.path
        found = safetensors.read_parts(beside.open()).entries
        expected = {name for name in weights if weights[name] == file}
        if found.keys() != expected:
            name = min(found.keys() ^ expected)
            what = "lacks" if name in expected else "has, unlike the index,"
            raise FormatError(f"the file {what} a tensor of the index", path=path, tensor=name[:60])
        entries.update(found)
    return Contents({name: entries[name] for name in weights}, metadata)


def _parse(source: Source) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each tensor, and the metadata."""
    tree = json.parse(source.everything())
    weights = tree.get("weight_map") if isinstance(tree, dict) else None
    if not isinstance(weights, dict):
        raise FormatError("no index of safetensors: it has no weight_map", path=source.path)
    for name, file in weights.items():
        if not isinstance(file, str) or not file or file != os.path.basename(file) or "\\" in file:
            raise FormatError(
                f"the file of a tensor is {str(file)[:60]!r}, expected a name beside the index",
                path=source.path,
                tensor=name[:60],
            )
    metadata = tree.get("metadata", {})
    if not isinstance(metadata, dict):
        raise FormatError("the metadata of the index is no object", path=source.path)
    kept = {name: value for name, value in metadata.items() if isinstance(value, str)}
    return weights, kept
