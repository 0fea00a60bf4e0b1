"""Images: encoded pictures among the bytes of records, recognised by their first bytes.

    recognise(row["image"])                 # Image("png", 28, 40, 3456)
    for row in extract(rows, "pictures"):   # each picture in a file of its own
        row["image"]                        # Extracted("pictures/000000-image.png", ...)

Nothing is decoded: type and size are at the start of PNG, GIF, BMP, WebP and JPEG files.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import storage
from tensorferry.classes import dataclass

# The size of a JPEG comes after the data of the camera; the search for it is bounded.
SEARCHED = 1 << 17

_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Image:
    """Facts about an encoded picture.

    Attributes:
        type: "png", "jpeg", "gif", "bmp" or "webp"; the ending of its file.
        width: In pixels; None where that is not at its start.
        height: The same.
        nbytes: Number of bytes of the encoded picture.
    """

    type: str
    width: int | None
    height: int | None
    nbytes: int


@dataclass(frozen=True)
class Extracted:
    """A picture that was written into a file."""

    path: str
    image: Image


def recognise(data: bytes) -> Image | None:
    """Facts about a picture; None if the bytes are not a picture."""
    found = _recognise(data)
    if found is None:
        return None
    kind, width, height = found
    return Image(kind, width, height, len(data))


def _recognise(data: bytes) -> tuple[str, int | None, int | None] | None:
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and len(data) >= 24:
        return "png", _big(data, 16, 4), _big(data, 20, 4)
    if data[:3] == b"\xff\xd8\xff":
        return "jpeg", *_jpeg_size(data)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return "gif", _little(data, 6, 2), _little(data, 8, 2)
    if data[:2] == b"BM" and len(data) >= 26 and _little(data, 2, 4) == len(data):
        return "bmp", _little(data, 18, 4), abs(int.from_bytes(data[22:26], "little", signed=True))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp", *_webp_size(data)
    return None


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


def _jpeg_size(data: bytes) -> tuple[int | None, int | None]:
    """Walks over the segments up to the one that starts a frame."""
    place = 2
    while place + 9 <= min(len(data), SEARCHED):
        if data[place] != 0xFF:
            break
        marker = data[place + 1]
        if marker == 0xFF:  # fills the space between segments
            place += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(data, place + 7, 2), _big(data, place + 5, 2)
        place += (
            2 if marker == 1 or 0xD0 <= marker <= 0xD8 else 2 + max(2, _big(data, place + 2, 2))
        )
    return None, None


def _webp_size(data: bytes) -> tuple[int | None, int | None]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return 1 + _little(data, 24, 3), 1 + _little(data, 27, 3)
    if kind == b"VP8 " and len(data) >= 30:
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    if kind == b"VP8L" and len(data) >= 25:
        bits = _little(data, 21, 4)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None, None


def extract(
    rows: Iterable[Mapping[str, Any]], directory: str | os.PathLike[str]
) -> Iterator[dict[str, Any]]:
    """Writes the pictures of rows to files, and yields the rows with paths in their place.

    They are called by the place of the row among those given, and the column.

    Args:
        rows: As `tensorferry.operations.select.select` gives them.
        directory: Where to; it is made if it is not there.

    Raises:
        FileExistsError: There is such a file already.
    """
    os.makedirs(directory, exist_ok=True)
    for number, row in enumerate(rows):
        yield {
            name: _extract(value, os.path.join(directory, f"{number:06}-{_file_name(name)}"))
            for name, value in row.items()
        }


def _file_name(column: str) -> str:
    return _STRANGE.sub("_", column)[:100]


def _extract(value: Any, path: str) -> Any:
    if isinstance(value, bytes):
        image = recognise(value)
        return value if image is None else _write(value, image, path)
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object):
        several = list(value.reshape(-1)) if isinstance(value, np.ndarray) else value
        found = [_extract(one, f"{path}-{place}") for place, one in enumerate(several)]
        if any(isinstance(one, Extracted) for one in found):
            return found
    return value


def _write(data: bytes, image: Image, path: str) -> Extracted:
    path = f"{path}.{'jpg' if image.type == 'jpeg' else image.type}"
    if os.path.exists(path):
        raise FileExistsError(errno.EEXIST, "it exists already; choose another directory", path)
    with storage.open_sink(path, durable=False) as sink:
        sink.write(data)
    return Extracted(path, image)
