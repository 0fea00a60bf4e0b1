"""Programs: a model's signatures, and what a saved file keeps and leaves out.

`tensorferry.frameworks.tensorflow` and `tensorferry.frameworks.keras` fill these values in, and
`tensorferry.models` reports them. The only things of a framework in here are those that a `Program`
carries from planning to writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.frameworks.contract import Foreign, Variable

# The signature that a call means if it names none, in TensorFlow and in its servers.
DEFAULT = "serving_default"

# The methods that may be a model's function, in this order.
FORWARD = ("__call__", "call", "forward", "predict")

# "/data/words.txt", "C:\\data\\words.txt": at least two parts, as "/" alone is an ordinary text.
_ABSOLUTE = re.compile(r"(?:/|[A-Za-z]:[\\/])[^/\\\0\n]+[/\\][^\0\n]*[^\0\n/\\]")


@dataclass(frozen=True, slots=True)
class Signature:
    """A way to call a saved model.

    Attributes:
        name: The name of the signature.
        inputs: Dtype and shape by the name of each argument, as in "float32[?, 3]".
        outputs: Dtype and shape by the name of each result.
        origin: Where the arguments are known from, such as "the example inputs".
        notes: What a caller has to know: results in several parts, arguments that are fixed.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    origin: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotKept:
    """A part of a model that the file will not have.

    Attributes:
        what: The part, such as "optimizer" or "method encode".
        reason: Why the file does not have it, and what would keep it.
    """

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundPath:
    """An absolute path inside a model.

    Attributes:
        path: The path as the model has it.
        place: Where in the model it was found.
        copied: Whether the file is copied into the model; otherwise every machine needs it at that
            path.
    """

    path: str
    place: str
    copied: bool = False


@dataclass
class Program:
    """A model that is ready to be written as a SavedModel.

    Attributes:
        root: The object that TensorFlow saves.
        functions: The traced function of each signature.
        signatures: The signatures, described.
        variables: The variables that the file will have.
        kept: What else the file will have, in words.
        not_kept: What the file will not have.
        paths: The absolute paths that the program contains.
        assets: The files that are copied into the SavedModel.
    """

    root: Foreign = field(repr=False)
    functions: dict[str, Any] = field(repr=False)
    signatures: tuple[Signature, ...]
    variables: list[Variable]
    kept: list[str]
    not_kept: list[NotKept]
    paths: list[FoundPath]
    assets: list[str]


class Misuse(NamedTuple):
    """Something in a graph that does more than compute, because of where or how it is used.

    Attributes:
        kind: A kind of danger: see `tensorferry.models.dangers`.
        place: The function and the node; "" if there is no single place.
        detail: What would happen.
    """

    kind: str
    place: str
    detail: str


class Seen(NamedTuple):
    """What TensorFlow sees in the graph of a SavedModel.

    Attributes:
        ops: The names of all ops, including those in functions.
        assets: The file names of the assets.
        misused: Ops and objects that do more than compute, because of where or how they are used.
    """

    ops: frozenset[str]
    assets: frozenset[str]
    misused: tuple[Misuse, ...]


def is_absolute(text: str) -> bool:
    """Whether a text looks like an absolute path."""
    return len(text) < 4096 and _ABSOLUTE.fullmatch(text) is not None


def find_paths(tree: Foreign, place: str = "") -> Iterator[FoundPath]:
    """The absolute paths among the texts in a structure of dicts and lists."""
    if isinstance(tree, str):
        if is_absolute(tree):
            yield FoundPath(tree, place)
        return
    pairs: Iterable[tuple[Foreign, Any]] = ()
    if isinstance(tree, Mapping):
        pairs = tree.items()
    elif isinstance(tree, list | tuple):
        pairs = enumerate(tree)
    for key, child in pairs:
        yield from find_paths(child, f"{place}/{key}".lstrip("/"))
