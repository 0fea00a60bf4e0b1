"""Outlines of values: what is known of a tensor without its values, and classes of named tuples.

They are apart from `tensorferry.tensors.values`, whose names they are too, because they need no
NumPy: looking into a file takes less time than importing it.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from keyword import iskeyword
from typing import Any, Literal
from unicodedata import normalize

from tensorferry.errors import FormatError

# The name of a tensor that is a whole value.
ROOT = "tensor"

MAX_NAMEDTUPLE_FIELDS = 1000

# NumPy's limit on dimensions.
MAX_RANK = 64

Kind = Literal["dense", "string", "sparse", "ragged", "list"]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is known of a tensor without reading it.

    Attributes:
        name: Of the tensor, in its file.
        dtype: Our name of it; where values are quantized, of what they stand for.
        shape: None for each dimension that varies.
        nbytes: How much of the file it takes; None where only reading tells.
        kind: How it is made: "dense", "string", "sparse" or "ragged"; or "list", for a column of
            arrays of different shapes.
        quantized: The dtype that is stored, if the values are quantized.
        origin: What else was kept of the tensor that was saved: its "name", its "device".
        unreadable: Why the tensor cannot be read, if it cannot; the others can.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    nbytes: int | None = None
    kind: Kind = "dense"
    quantized: str | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    unreadable: str | None = None


def elements_in(info: TensorInfo) -> int | None:
    """How many values a tensor has; None where a dimension varies."""
    sizes = [size for size in info.shape if size is not None]
    return math.prod(sizes) if len(sizes) == len(info.shape) else None


def is_namedtuple(value: Any) -> bool:
    """Whether it is an instance of a class made by `namedtuple` or `NamedTuple`."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


@lru_cache(maxsize=1024)
def make_namedtuple(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """A named tuple class for names found in a file.

    Raises:
        FormatError: They cannot be the names of a class and its fields.
    """
    if len(fields) > MAX_NAMEDTUPLE_FIELDS:
        raise FormatError(
            f"a named tuple of {len(fields)} fields, expected at most {MAX_NAMEDTUPLE_FIELDS}"
        )
    for word in (name, *fields):
        # Python's parser takes letters that look alike for the same ("\ufb01" and "fi").
        if not word.isidentifier() or iskeyword(word) or normalize("NFKC", word) != word:
            raise FormatError(
                f"{word[:60]!r} names a named tuple or its field, expected an identifier"
            )
    if len(set(fields)) != len(fields) or any(field.startswith("_") for field in fields):
        raise FormatError("a named tuple's fields must differ and not start with an underscore")
    return namedtuple(name, fields)
