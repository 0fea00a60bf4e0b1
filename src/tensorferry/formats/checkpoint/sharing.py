"""A checkpoint by several workers: each writes a data file, and one of them the index.

    model.ckpt.data-00003-of-00009      of the fourth of eight workers
    .model.ckpt.share-00003-of-00008    the index of this file alone
    model.ckpt.data-00008-of-00009      by `finish`: the object graph and the note, or nothing
    model.ckpt.index                    by `finish`, last: all entries together

There is one data file more than workers. Where the checkpoint that is replaced has just as many,
the new one gets two more: no name that the old index means is written to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tensorferry import storage
from tensorferry.classes import dataclass
from tensorferry.codecs import json_text as json
from tensorferry.codecs.leveldb import Table
from tensorferry.errors import FormatError
from tensorferry.formats import shares
from tensorferry.formats.checkpoint import (
    graph as graphs,
    index as indexes,
    notes,
    state as states,
)
from tensorferry.formats.checkpoint.entries import data_path
from tensorferry.formats.checkpoint.names import Layout
from tensorferry.formats.checkpoint.reader import open_share
from tensorferry.formats.checkpoint.writer import (
    DataWriter,
    Plan,
    Shard,
    count_shards,
    prefix_of,
    remove_data,
    scalar,
)
from tensorferry.formats.contract import Written
from tensorferry.formats.shares import Share
from tensorferry.storage.place import Place, Target
from tensorferry.storage.url import beside
from tensorferry.tensors.content import Content

_OBJECTS = f"/{graphs.ATTRIBUTES}{graphs.VALUE}"


def save_share(
    content: Content, target: Target, given: shares.Given, *, layout: Layout | None
) -> Written:
    """Writes the data file of one worker, and its index.

    Args:
        content: The tensors of the worker.
        target: The prefix of the checkpoint.
        given: Which worker it is.
        layout: As in `tensorferry.formats.checkpoint.writer.save_tensors`; the same for all.
    """
    shares.check_content(content)
    prefix = prefix_of(target.path)
    old = Place(prefix + states.INDEX, options=target.options)
    share = Share.of(given, shares.index_at(old))
    count = _count(old, share.count)
    plan = Plan(layout, content.note, {shares.KEY: share.to_text()})
    tensors = ((key, tensor) for key, tensor in plan.named(content.tensors()) if key != graphs.KEY)
    data, part = data_path(prefix, share.number, count), _share_path(prefix, share)
    with (
        ThreadPoolExecutor(1, "checksums") as hasher,
        storage.Replacement(durable=target.durable, options=target.options) as files,
    ):
        writer = DataWriter([Shard(files.open(data), hasher)], share.number)
        writer.add(tensors)
        sink = files.open(part)
        writer.write_index(sink, count)
    return Written(writer.nbytes + sink.position, (data, part))


def _count(old: Place, workers: int) -> int:
    """Number of data files of a checkpoint by so many workers: none has a name of the old one."""
    return workers + 2 if count_shards(old) == workers + 1 else workers + 1


def _share_path(prefix: str, share: Share) -> str:
    name = os.path.basename(prefix)
    return beside(prefix, f".{name}.share-{share.number:05}-of-{share.count:05}")


@dataclass(frozen=True)
class _Found(shares.Found[bytes, bytes]):
    """A share that is there, with the entries of its tensors.

    Attributes:
        count: Number of data files that its index tells.
    """

    count: int


def finish(
    target: Target, *, save: str | None = None, metadata: Mapping[str, Any] | None = None
) -> Written:
    """Writes the index of all shares, and makes the checkpoint the latest of its folder.

    Args:
        target: The prefix that all workers wrote to.
        save: Which save is meant, where there are shares of several.
        metadata: What to keep with the checkpoint.

    Raises:
        FormatError: Shares are missing or damaged, of several saves, or have a tensor in common.
    """
    prefix, options = prefix_of(target.path), target.options
    index = prefix + states.INDEX
    old = Place(index, options=options)
    with storage.only_writer(index):
        found = list(_find(prefix, options))
        parts = shares.choose(found, save=save, index=shares.index_at(old), path=prefix)
        count = _count(old, len(parts))
        _check_count(parts, count)
        entries = {key: entry for one in parts for key, entry in one.tensors.items()}
        kept = shares.merged([one.note for one in parts], metadata)
        nbytes = _write(target, prefix, count, len(parts), entries, kept)
        for one in found:
            storage.remove(one.path, options=options)
        paths = [data_path(prefix, number, count) for number in range(len(parts) + 1)]
        remove_data(prefix, set(paths), options)
    states.update(prefix, durable=target.durable, options=options)
    return Written(nbytes, (*paths, index))


def _find(prefix: str, options: Mapping[str, Any] | None) -> Iterator[_Found]:
    """The shares beside a prefix."""
    folder, name = os.path.split(prefix)
    wanted = re.compile(re.escape(f".{name}.share-") + r"[0-9]{5}-of-[0-9]{5}")
    for path in storage.list_directory(folder or ".", options=options):
        if wanted.fullmatch(os.path.basename(path)):
            with suppress(FileNotFoundError):  # without its data file a share is none
                yield _read(prefix, path, options)


def _read(prefix: str, path: str, options: Mapping[str, Any] | None) -> _Found:
    place = Place(path, options=options)
    try:
        table = Table(place.open())
        index = indexes.read(table)
        with open_share(Place(prefix, options=options), index) as opened:
            share = Share.parse(str(opened.metadata.get(shares.KEY)))
            note = opened.note
        named = None if share is None else os.path.basename(_share_path(prefix, share))
        if share is None or named != os.path.basename(path):
            raise FormatError("it is no share of a checkpoint, though it is named so", path=path)
        hidden = {b"", *(name.encode() for name in notes.HIDDEN)}
        entries = {
            key: bytes(block.data[start:end])
            for block in table.blocks()
            for key, start, end in zip(block.keys, block.starts, block.ends, strict=True)
            if key not in hidden
        }
    finally:
        place.close()
    return _Found(share, path, entries, note, index.shards)


def _check_count(parts: Iterable[_Found], count: int) -> None:
    """Refuses shares that were written for another number of data files.

    Raises:
        FormatError: There is one.
    """
    for one in parts:
        if one.count != count:
            raise FormatError(
                f"the share is for {one.count} data files, expected {count}", path=one.path
            )


def _write(
    target: Target,
    prefix: str,
    count: int,
    number: int,
    entries: Mapping[bytes, bytes],
    kept: Mapping[str, str],
) -> int:
    """Writes the last data file and the index, and gives the number of bytes."""
    keys = [key.decode() for key in entries]
    objects = [key.removesuffix(_OBJECTS) for key in keys if key.endswith(_OBJECTS)]
    texts: list[tuple[str, Any]] = []
    if objects and len(objects) == len(keys):
        ways = [tuple(map(graphs.unescape, way.split("/"))) for way in objects]
        texts.append((graphs.KEY, scalar(graphs.encode(ways))))
    if kept:
        texts.append((notes.KEY, scalar(json.to_text(dict(kept)))))
    with (
        ThreadPoolExecutor(1, "checksums") as hasher,
        storage.Replacement(durable=target.durable, options=target.options) as files,
    ):
        writer = DataWriter([Shard(files.open(data_path(prefix, number, count)), hasher)], number)
        writer.add(texts)
        sink = files.open(prefix + states.INDEX)
        writer.write_index(sink, count, entries)
    return writer.nbytes + sink.position
