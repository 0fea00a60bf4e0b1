"""Files: their size, and how they are compressed as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tensorferry import storage
from tensorferry.storage import STANDARD_STREAM


def compression_of(path: str) -> str | None:
    """How a file is compressed as a whole."""
    if not storage.is_url(path) and not os.path.isfile(path):
        return None
    from tensorferry.codecs import compression as codecs
    from tensorferry.formats import HEAD
    from tensorferry.formats.tfrecord import frames as tfrecord

    with storage.open_source(path) as source:
        head = source.head(HEAD)
    kind = codecs.detect(head)
    if kind is None or tfrecord.sniff(head):
        return None
    named = codecs.split_suffix(path)[1] == kind
    return kind if kind != "zlib" or named else None


def sizes_of(files: Sequence[str], options: Mapping[str, Any] | None = None) -> int | None:
    """The bytes that files take together; None for a stream."""
    total = 0
    for path in files:
        if path == STANDARD_STREAM:
            return None
        if storage.is_url(path):
            with storage.open_source(path, options=options) as source:
                if source.size is None:
                    return None
                total += source.size
        elif os.path.isfile(path):
            total += os.path.getsize(path)
    return total
