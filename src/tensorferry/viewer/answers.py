"""Answers: what the server sends, as bytes.

JSON is in ASCII. Integers that JavaScript would round are texts. An answer with arrays is

    uint32 length of the head | head: JSON, with spaces up to a multiple of 8 | arrays, each padded

with the dtype, the shape and the place of each array in the head.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.operations.plain import plain

if TYPE_CHECKING:
    from tensorferry.tensors.values import Array

JSON = "application/json"
ARRAYS = "application/octet-stream"

EXACT = 1 << 53
"""JavaScript has all integers up to this one."""


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    Attributes:
        body: The bytes, or pieces of them.
        type: The media type.
        status: The status of HTTP.
        name: The name of the file, for an answer that the browser saves.
    """

    body: bytes | Iterator[bytes]
    type: str = JSON
    status: int = 200
    name: str | None = None


def of_json(value: Any, status: int = 200) -> Answer:
    """An answer in JSON: dataclasses, arrays and whatever `plain` knows."""
    return Answer(encode(value), JSON, status)


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(_exact(plain(value)), separators=(",", ":")).encode()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_exact(part) for part in value]
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return str(value)
    return value


def of_arrays(head: Mapping[str, Any], **arrays: Array) -> Answer:
    """An answer with arrays, little-endian and contiguous."""
    described, place = {}, 0
    for name, array in arrays.items():
        kind = f"{array.dtype.kind}{array.dtype.itemsize}".replace("b1", "u1")
        described[name] = {"dtype": kind, "shape": list(array.shape), "start": place}
        place += _padded(array.nbytes)
    text = encode({**head, "arrays": described})
    text += b" " * (_padded(len(text) + 4) - len(text) - 4)
    parts = [len(text).to_bytes(4, "little"), text]
    for array in arrays.values():
        data = array.tobytes()
        parts += [data, bytes(_padded(len(data)) - len(data))]
    return Answer(b"".join(parts), ARRAYS)


def _padded(size: int) -> int:
    return -(-size // 8) * 8
