"""What is said of a model as a program: its ways to be called, and what saving leaves behind.

`tensorflow_models` and `keras_models` fill these; `tensorferry.models.saving` reports
them. Nothing of a framework is in here but what `Program` carries from planning to writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorferry.frameworks.variables import Variable

# The signature that is called where none is named, as TensorFlow and its servers have it.
DEFAULT = "serving_default"

# The methods that are taken for what a model does, in this order.
FORWARD = ("__call__", "call", "forward", "predict")

# "/data/words.txt", "C:\\data\\words.txt": at least two parts, so that "/" alone is just a text.
_ABSOLUTE = re.compile(r"(?:/|[A-Za-z]:[\\/])[^/\\\0\n]+[/\\][^\0\n]*[^\0\n/\\]")


@dataclass(frozen=True, slots=True)
class Signature:
    """A way to call a saved model.

    Attributes:
        name: Of the signature.
        inputs: Dtype and shape by the name of each argument, as in "float32[?, 3]".
        outputs: Dtype and shape by the name of each result.
        origin: What the arguments were taken from.
        notes: What a caller has to know: results in several parts, arguments that are fixed.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    origin: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotKept:
    """Something of a model that the file will not have.

    Attributes:
        what: Such as "optimizer" or "method encode".
        reason: Why not, and what would keep it.
    """

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundPath:
    """An absolute path that a model has in it.

    Attributes:
        path: As the model has it.
        place: Where it is.
        copied: Whether the file goes along; otherwise it has to be at that path on every machine.
    """

    path: str
    place: str
    copied: bool = False


@dataclass
class Program:
    """A model that is ready to be written as a SavedModel."""

    root: Any = field(repr=False)
    functions: dict[str, Any] = field(repr=False)
    signatures: tuple[Signature, ...]
    variables: list[Variable]
    kept: list[str]
    not_kept: list[NotKept]
    paths: list[FoundPath]
    assets: list[str]


def is_absolute(text: str) -> bool:
    """Whether a text is an absolute path, as far as its looks tell."""
    return len(text) < 4096 and _ABSOLUTE.fullmatch(text) is not None


def find_paths(tree: Any, place: str = "") -> Iterator[FoundPath]:
    """The absolute paths among the texts of a structure of dicts and lists."""
    if isinstance(tree, str):
        if is_absolute(tree):
            yield FoundPath(tree, place)
        return
    pairs: Any = ()
    if isinstance(tree, Mapping):
        pairs = tree.items()
    elif isinstance(tree, list | tuple):
        pairs = enumerate(tree)
    for key, child in pairs:
        yield from find_paths(child, f"{place}/{key}".lstrip("/"))
