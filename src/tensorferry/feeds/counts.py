"""Counts: the number of rows of each piece of the data, found once and remembered.

Parquet, Arrow and uncompressed local files tell it. Compressed and remote TFRecords have to be read
once; the counts of local files are kept in the user's cache, by the name, size and time of the
file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tensorferry.rows.splits import Split
from tensorferry.storage import leftovers
from tensorferry.storage.place import Place

THREADS = 8


def of(pieces: Sequence[Split]) -> list[int]:
    """Number of rows of each piece."""
    with ThreadPoolExecutor(min(THREADS, len(pieces) or 1)) as workers:
        return list(workers.map(_count, pieces))


def _count(piece: Split) -> int:
    if piece.rows is not None:
        return piece.rows
    file = _file(piece)
    if file is not None:
        known = (leftovers.read(str(file)) or {}).get("rows")
        if type(known) is int and known >= 0:
            return known
    with piece.open() as rows:
        count = len(rows)
    if file is not None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_name(f"{file.name}.{os.getpid()}")
            part.write_text(json.dumps({"rows": count, "files": piece.files}))
            part.replace(file)
    return count


def _file(piece: Split) -> Path | None:
    """The file that remembers the count of a piece; None if the data may change unnoticed."""
    texts = [f"{piece.how!r}"]
    for part in piece.parts:
        version = _version(part.place)
        if version is None:
            return None
        texts.append(f"{part.place.path} {version} {part.start} {part.stop}")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogateescape")).hexdigest()
    return Path(cache, "tensorferry", "counts", name[:32])


def _version(place: Place) -> str | None:
    if not place.is_named or place.is_url:
        return None
    with suppress(OSError):
        found = os.stat(os.path.realpath(place.path))
        return f"{os.path.abspath(place.path)} {found.st_size} {found.st_mtime_ns} {found.st_ino}"
    return None
