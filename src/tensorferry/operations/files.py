"""Files: those behind a path, their size, and how they are compressed as a whole."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence

from tensorferry import storage
from tensorferry.codecs import compression as codecs
from tensorferry.formats import HEAD, safetensors, tfrecord
from tensorferry.storage import STANDARD_STREAM


def files_behind(path: str) -> list[str]:
    """The files that a path stands for: itself, those in it, those it names, or starts with."""
    if storage.is_url(path):
        return [path]
    if os.path.isdir(path):
        return [os.path.join(*place) for place in _walk(path)]
    if not os.path.exists(path):  # a checkpoint is named by what its files have in common
        return sorted(glob.glob(glob.escape(path) + ".*")) or [path]
    if not path.endswith(safetensors.INDEX):
        return [path]
    with open(path, "rb") as file:
        names = json.load(file).get("weight_map", {}).values()
    folder = os.path.dirname(path)
    found = (os.path.join(folder, os.path.basename(name)) for name in dict.fromkeys(names))
    return [path, *filter(os.path.isfile, found)]


def _walk(path: str) -> Iterator[tuple[str, str]]:
    for folder, _, names in sorted(os.walk(path)):
        for name in sorted(names):
            yield folder, name


def compression_of(path: str) -> str | None:
    """How a file is compressed as a whole."""
    if not storage.is_url(path) and not os.path.isfile(path):
        return None
    with storage.open_source(path) as source:
        head = source.head(HEAD)
    kind = codecs.detect(head)
    if kind is None or tfrecord.sniff(head):
        return None
    named = codecs.split_suffix(path)[1] == kind
    return kind if kind != "zlib" or named else None


def sizes_of(files: Sequence[str]) -> int | None:
    """The bytes that files take together; None for a stream."""
    total = 0
    for path in files:
        if path == STANDARD_STREAM:
            return None
        if storage.is_url(path):
            with storage.open_source(path) as source:
                if source.size is None:
                    return None
                total += source.size
        elif os.path.isfile(path):
            total += os.path.getsize(path)
    return total
