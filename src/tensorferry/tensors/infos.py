"""`TensorInfo`: what is known of a tensor without reading it; and classes for named tuples.

`tensorferry.tensors.values` also exports these names. They have their own module because they do
not need NumPy: inspecting a file takes less time than importing NumPy.
"""

from __future__ import annotations

import math
import re
from collections import namedtuple
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

from tensorferry import display
from tensorferry.classes import dataclass, field, make_many, replace
from tensorferry.errors import FormatError

if TYPE_CHECKING:
    from tensorferry.cards import Grid

# The name of the tensor, where the whole value is one tensor.
ROOT = "tensor"

MAX_NAMEDTUPLE_FIELDS = 1000

# As many names are sorted to be shown.
SORTED = 10_000

# NumPy's limit on dimensions.
MAX_RANK = 64

Kind = Literal["dense", "string", "sparse", "ragged", "list"]


class Infos(dict[str, "TensorInfo"]):
    """Infos of tensors by name: a dict that notebooks show as a table."""

    def _repr_html_(self) -> str:
        from tensorferry.cards import Card  # imported late: most programs show none

        return Card("Infos", "", display.plural(len(self), "tensor"), grids=[grid(self)]).html()


def grid(infos: Mapping[str, TensorInfo], *, noun: str = "tensor") -> Grid:
    """A table of what is known of tensors; only those that it shows are looked up.

    Layer 2 comes before layer 10, unless there are too many names to sort.

    Args:
        infos: By name.
        noun: What they are called.
    """
    from tensorferry.cards import ROWS, Grid

    names = sorted(infos, key=_in_order) if len(infos) <= SORTED else infos
    shown = [infos[name] for name in islice(names, ROWS)]
    cells = [
        (
            info.name,
            f"{info.dtype} as {info.quantized}" if info.quantized else info.dtype,
            display.shape(info.shape),
            "" if info.kind in ("dense", "string") else info.kind,
            display.size(info.nbytes),
            info.unreadable,
        )
        for info in shown
    ]
    headers = ("name", "dtype", "shape", "kind", "size", "cannot be read")
    return Grid(headers, cells, right=(4,), total=len(infos), noun=noun)


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts the numbers in names by their values."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Facts about a tensor, known without reading it.

    Attributes:
        name: The name in the file.
        dtype: The name of the dtype; for quantized values, the dtype before quantization.
        shape: None for each dimension that varies.
        nbytes: Number of bytes in the file; None if unknown before reading.
        kind: "dense", "string", "sparse" or "ragged"; or "list", for a column of arrays of
            different shapes.
        quantized: The dtype in the file, if the values are quantized.
        origin: Other facts about the tensor that was saved: its "name", its "device".
        unreadable: The reason, if this tensor cannot be read; other tensors can be.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    nbytes: int | None = None
    kind: Kind = "dense"
    quantized: str | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    unreadable: str | None = None

    def _repr_html_(self) -> str:
        return Infos({self.name: self})._repr_html_()


def origin_of(name: str, alias: str) -> dict[str, Any]:
    """What `TensorInfo.origin` has for a tensor of two names, which may be the same."""
    return {} if alias == name else {"aliases": (alias,)}


# The dtype and the shape of a tensor, and the number of its bytes, if that is known.
Facts = tuple[str, tuple[int, ...], int | None]


def make_infos(
    names: Iterable[str], facts: Iterable[Facts], others: Iterable[str]
) -> list[TensorInfo]:
    """The infos of many tensors, in a fifth of the time that `TensorInfo` itself takes.

    Args:
        names: The name of each.
        facts: What is known of each, in the same order.
        others: Another name of each; the same one where it has no other.
    """
    rows = [
        (
            name,
            dtype,
            shape,
            nbytes,
            "string" if dtype == "string" else "dense",
            None,
            {} if other == name else {"aliases": (other,)},
            None,
        )
        for name, (dtype, shape, nbytes), other in zip(names, facts, others, strict=True)
    ]
    return make_many(TensorInfo, rows)


def infos_of(
    names: Collection[str], facts: Iterable[Facts], aliases: Mapping[str, str]
) -> dict[str, TensorInfo]:
    """The same by name, with another name of each tensor that has one."""
    infos = make_infos(names, facts, map(aliases.get, names, names))
    return {info.name: info for info in infos}


def with_origins(
    infos: Sequence[TensorInfo], origins: Mapping[str, Mapping[str, Any]]
) -> Sequence[TensorInfo]:
    """The same, with other facts that were stored with some of the tensors.

    Args:
        infos: Of all tensors.
        origins: The facts, by the names of their tensors.
    """
    if not origins:
        return infos
    return [replace(info, origin={**origins.get(info.name, {}), **info.origin}) for info in infos]


def elements_in(info: TensorInfo) -> int | None:
    """Number of elements of a tensor; None if a dimension varies."""
    sizes = [size for size in info.shape if size is not None]
    return math.prod(sizes) if len(sizes) == len(info.shape) else None


def is_namedtuple(value: Any) -> bool:
    """Whether a value is an instance of a class made by `namedtuple` or `NamedTuple`."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


@lru_cache(maxsize=1024)
def make_namedtuple(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """A named tuple class for names from a file.

    Raises:
        FormatError: The names cannot be those of a class and its fields.
    """
    if len(fields) > MAX_NAMEDTUPLE_FIELDS:
        raise FormatError(
            f"a named tuple of {len(fields)} fields, expected at most {MAX_NAMEDTUPLE_FIELDS}"
        )
    for word in (name, *fields):
        # Python's parser treats letters that look alike as the same ("\ufb01" and "fi").
        if not word.isidentifier() or iskeyword(word) or normalize("NFKC", word) != word:
            raise FormatError(
                f"{word[:60]!r} names a named tuple or its field, expected an identifier"
            )
    if len(set(fields)) != len(fields) or any(field.startswith("_") for field in fields):
        raise FormatError("a named tuple's fields must differ and not start with an underscore")
    return namedtuple(name, fields)
