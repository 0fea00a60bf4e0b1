"""Cells: values of rows in brief, for a table, and whole ones as far as they are not too large.

present(row["image"])       # Cell("image", "png 28 x 28", ...)
expand(row["tokens"])       # what JSON has, cut where it gets long
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.operations import images, sounds
from tensorferry.operations.plain import plain
from tensorferry.tensors.values import RaggedTensor, SparseTensor

CHARACTERS = 240
"""Of a text, how many are shown."""

VALUES = 8
"""Of an array, how many are shown."""

PIXELS = 1 << 26
"""Larger pictures are named, not shown: decoding one would take a browser's memory."""

MEDIA = 1 << 26
"""The most bytes of a picture or a sound that is shown."""

MOST = 5000
"""How many values or characters an expanded value has, at most."""

Kind = Literal["missing", "number", "text", "bytes", "image", "sound", "array", "sparse"]


@dataclass(frozen=True)
class Cell:
    """A value in brief.

    Attributes:
        kind: What it is.
        text: It, or the start of it, or what it is.
        more: Whether there is more of it.
        media: The type of a picture or sound that can be shown, such as "image/png".
        width: Of a picture, in pixels.
        height: The same.
        count: How many values an array has.
    """

    kind: Kind
    text: str
    more: bool = False
    media: str | None = None
    width: int | None = None
    height: int | None = None
    count: int | None = None


def present(value: Any) -> Cell:
    """A value of a row, or a tensor, in brief."""
    if value is None:
        return Cell("missing", "")
    if isinstance(value, SparseTensor):
        count = len(value.values)
        return Cell("sparse", f"{count:,} of {list(value.shape)}", count > 0, count=count)
    if isinstance(value, RaggedTensor):
        return _array(value.to_list(), f"ragged {_sizes(value.shape)}", len(value))
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.ndarray):
        if value.size == 1:  # a list of one value is shown as that value
            inner = present(value.reshape(-1)[0])
            return inner if inner.kind != "number" else Cell("array", f"[{inner.text}]", count=1)
        name = "string" if value.dtype == object else value.dtype.name
        return _array(value, f"{name} {_sizes(value.shape)}", value.size)
    if isinstance(value, list | tuple):
        return _array(value, "list", len(value))
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, str):
        return Cell("text", value[:CHARACTERS], len(value) > CHARACTERS)
    if isinstance(value, dict):
        return Cell("array", f"{len(value)} fields", True, count=len(value))
    return Cell("number", number_text(value))


def number_text(value: Any) -> str:
    """A number, with as many digits as tell it from its neighbours."""
    found = plain(value)
    if isinstance(found, bool):
        return str(found).lower()
    return f"{found[0]}{found[1]:+}j" if isinstance(found, list) else str(found)


def _bytes(value: bytes) -> Cell:
    image = images.recognise(value)
    if image is not None:
        size = "" if image.width is None else f" {image.width} x {image.height}"
        small = (image.width or 0) * (image.height or 0) <= PIXELS and image.nbytes <= MEDIA
        media = f"image/{image.type}" if small else None
        return Cell("image", f"{image.type}{size}", True, media, image.width, image.height)
    sound = sounds.recognise(value)
    if sound is not None:
        length = "" if sound.seconds is None else f" {sound.seconds:.3g} s"
        types = {"wav": "audio/wav", "flac": "audio/flac", "ogg": "audio/ogg", "mp3": "audio/mpeg"}
        media = types[sound.type] if sound.nbytes <= MEDIA else None
        return Cell("sound", f"{sound.type}{length}", True, media)
    try:
        text = value[: 4 * CHARACTERS].decode()
    except UnicodeDecodeError as error:
        # Only a character that the cut went through may be missing.
        if len(value) <= 4 * CHARACTERS or error.start < 4 * CHARACTERS - 4:
            start = value[:16].hex(" ")
            return Cell("bytes", f"{len(value):,} bytes {start}", len(value) > 16)
        text = value[: error.start].decode()
    return Cell("text", text[:CHARACTERS], len(text) > CHARACTERS or len(value) > 4 * CHARACTERS)


def _array(value: Any, kind: str, count: int) -> Cell:
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return Cell("array", kind, True, count=count)
    shown = ", ".join(_brief(part) for part in value[:VALUES])
    more = count > VALUES or "…" in shown
    return Cell("array", f"[{shown}{', …' if count > VALUES else ''}]", more, count=count)


def _brief(value: Any) -> str:
    cell = present(value)
    text = cell.text[:24] + ("…" if len(cell.text) > 24 or cell.more else "")
    return f'"{text}"' if cell.kind == "text" else text


def _sizes(shape: tuple[int | None, ...]) -> str:
    return " x ".join("?" if size is None else str(size) for size in shape)


def expand(value: Any, most: int = MOST) -> tuple[Any, bool]:
    """A value as what JSON has, and whether it is all of it; no more than about `most` values."""
    budget = [most]
    if isinstance(value, np.ndarray) and value.dtype != object and value.size > most:
        head = value.reshape(-1)[:most]
        return {"shape": list(value.shape), "first values": plain(head)}, False
    if isinstance(value, SparseTensor):
        pairs = zip(value.indices[:most].tolist(), value.values[:most], strict=True)
        entries = [{"at": at, "value": plain(each)} for at, each in pairs]
        return {"shape": list(value.shape), "entries": entries}, len(value.values) <= most
    if isinstance(value, RaggedTensor):
        value = value[:most].to_list()
    found = _cut(value, budget)
    return found, budget[0] > 0


def _cut(value: Any, budget: list[int]) -> Any:
    if budget[0] <= 0:
        return "…"
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): _cut(part, budget) for name, part in value.items()}
    if isinstance(value, list | tuple):
        found = []
        for part in value:
            found.append(_cut(part, budget))
            if budget[0] <= 0:
                break
        return found
    if isinstance(value, bytes):
        cell = _bytes(value)
        budget[0] -= 1
        if cell.kind != "text":
            return f"{cell.text}"
        room = max(budget[0], CHARACTERS)
        text = value[: 4 * room].decode(errors="replace")[:room]
        budget[0] -= len(text) // 20
        return text + ("…" if len(value) > len(text.encode(errors="replace")) + 3 else "")
    budget[0] -= value.size if isinstance(value, np.ndarray) else 1
    return plain(value)
