"""safetensors by several workers: each writes a file, and one of them the index.

    model-1f3a90c2-00004-of-00008.safetensors    of the fourth of eight workers
    model.safetensors.index.json                 by `finish`

The digits are the token of the save (`tensorferry.formats.shares`), which all workers work out from
the index that is there: no file that an index names is written to, and a worker that runs again
replaces its own file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from tensorferry import storage
from tensorferry.codecs import json_text as json
from tensorferry.errors import FerryError
from tensorferry.formats import shares
from tensorferry.formats.contract import Written
from tensorferry.formats.safetensors import file, shards
from tensorferry.formats.shares import Share
from tensorferry.storage.place import Place, Target, size_of
from tensorferry.tensors.content import Content
from tensorferry.tensors.entries import Entry
from tensorferry.tensors.note import Note


def _stem(target: Target) -> str:
    path = storage.localize(target.path)
    return path.removesuffix(shards.INDEX).removesuffix(".safetensors")


def _index_of(stem: str) -> str:
    return f"{stem}.safetensors{shards.INDEX}"


def save_share(content: Content, target: Target, given: shares.Given) -> Written:
    """Writes the file of one worker.

    Args:
        content: The tensors of the worker.
        target: The file or the index that there will be.
        given: Which worker it is.
    """
    shares.check_content(content)
    stem = _stem(target)
    index = _index_of(stem)
    share = Share.of(given, shares.index_at(Place(index, options=target.options)))
    path = f"{stem}-{share.token}-{share.number + 1:05}-of-{share.count:05}.safetensors"
    belongs = os.path.basename(index)
    parts = content.parts(file.storage)

    def metadata() -> dict[str, str]:
        return {shards.BELONGS: belongs, shares.KEY: share.to_text(), **content.texts()}

    with Target(path, options=target.options, durable=target.durable).sink() as sink:
        file.write_parts(parts, sink, metadata)
    return Written(size_of(sink), (path,))


def finish(
    target: Target, *, save: str | None = None, metadata: Mapping[str, Any] | None = None
) -> Written:
    """Writes the index of all shares; files that it does not name are removed.

    Args:
        target: The file or the index that all workers wrote to.
        save: Which save is meant, where there are shares of several.
        metadata: What to keep with the model.

    Raises:
        FormatError: Shares are missing, of several saves, or have a tensor in common.
    """
    stem, options = _stem(target), target.options
    index = _index_of(stem)
    with storage.only_writer(index):
        old = shares.index_at(Place(index, options=options))
        found = [
            one
            for path in shards.files_like(stem, options)
            if (one := _read(path, os.path.basename(index), options)) is not None
        ]
        parts = shares.choose(found, save=save, index=old, path=index)
        weights = {name: os.path.basename(one.path) for one in parts for name in one.tensors}
        total = sum(size for one in parts for size in one.tensors.values())
        kept = shares.merged([one.note for one in parts], metadata)
        tree = {"metadata": {shards.TOTAL: total, **kept}, "weight_map": weights}
        with Target(index, options=options, durable=target.durable).sink() as sink:
            sink.write(json.to_text(tree))
        paths = [one.path for one in parts]
        shards.remove_others(stem, {index, *paths}, options)
        if target.path not in (index, stem):
            # One file that had the name of the target would be read instead of the index.
            storage.remove(target.path, options=options)
    return Written(total + (size_of(sink) or 0), (index, *paths))


def _read(
    path: str, index: str, options: Mapping[str, Any] | None
) -> shares.Found[str, int] | None:
    """The share in a file, with the sizes of its arrays; None if it is none of this index."""
    place = Place(path, options=options)
    try:
        found = file.read_parts(place.open())
        share = Share.parse(found.metadata.get(shares.KEY, ""))
        if share is None or found.metadata.get(shards.BELONGS) != index:
            return None
        kept = {name: text for name, text in found.metadata.items() if name not in _OWN}
        sizes = {
            name: math.prod(entry.shape) * entry.dtype.itemsize
            for name, entry in found.entries.items()
            if isinstance(entry, Entry)
        }
        return shares.Found(share, path, sizes, Note.from_metadata(kept)[0])
    except (FerryError, OSError):
        return None
    finally:
        place.close()


_OWN = (shares.KEY, shards.BELONGS)
