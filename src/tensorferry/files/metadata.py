"""A user's metadata as values that JSON has: shapes, dtypes, NumPy's numbers, paths and dates.

plain({"shape": tensor.shape, "loss": np.float32(0.5)})     # {"shape": [2, 3], "loss": 0.5}
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.errors import FerryError, UnsupportedError

# Values that JSON has, and texts.
_PLAIN = (str, bool, int, type(None))


def plain(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata with everything in it as JSON has it.

    Raises:
        UnsupportedError: JSON has nothing for a value.
    """
    return {key: _plain(value, str(key)) for key, value in (metadata or {}).items()}


def _plain(value: Any, key: str) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), key)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnsupportedError(
                f"metadata {key!r} is {value}, for which JSON has no number",
                hint=f"metadata={{{key!r}: {str(value)!r}}} keeps it as a text",
            )
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise UnsupportedError(
                f"metadata {key!r} is bytes that are no text",
                hint="a tensor keeps bytes; base64 makes a text of them",
            ) from None
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{key}/{name}") for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part, key) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, str | int):  # of enums and the like
        return value
    return _foreign(value, key)


def _foreign(value: Any, key: str) -> Any:
    """A shape, a dtype or a tensor of NumPy or a framework."""
    if type(value).__name__ == "TensorShape":
        return [_plain(size, key) for size in value] if value.rank is not None else None
    try:
        return dtypes.as_dtype(value).name
    except (FerryError, TypeError, ValueError):
        pass
    try:
        return _plain(frameworks.accept(value), key)
    except FerryError:
        raise UnsupportedError(
            f"metadata {key!r} is of type {type(value).__name__}, which JSON does not have",
            hint="pass texts, numbers, lists and dicts",
        ) from None
