"""The tensors that are offered to a model: those of a file, of a bundle, or of a dict.

Each has one name or several, a dtype and a shape; its values are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.classes import dataclass, field
from tensorferry.frameworks.contract import Variable
from tensorferry.frameworks.variables import list_variables
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.values import Array, Tensor
from tensorferry.weights.matching import Shape


@dataclass(frozen=True)
class Row:
    """One tensor.

    Attributes:
        name: The name of the tensor.
        names: All names that the file has for it, its own first.
        dtype: The name of its dtype.
        shape: Its shape.
        kind: "dense", "string", or another kind that no variable takes.
        read: Returns its value.
    """

    name: str
    names: tuple[str, ...]
    dtype: str
    shape: Shape
    kind: str
    read: Callable[[], Any] = field(repr=False)


@dataclass(frozen=True)
class Offered:
    """Named tensors.

    Attributes:
        path: Where they are from, for reports.
        rows: The tensors by name.
        planned: Gives names one by one, and plans the reads of the tensors that follow.
    """

    path: str
    rows: Mapping[str, Row]
    planned: Callable[[Iterable[str]], Iterable[str]] = field(default=iter, repr=False)


def from_bundle(bundle: Bundle) -> Offered:
    """The tensors of an open file."""
    infos = bundle.info
    rows = {
        name: Row(
            name,
            _names_of(name, infos[name].origin),
            infos[name].dtype,
            infos[name].shape,
            infos[name].kind,
            partial(bundle.__getitem__, name),
        )
        for name in bundle
    }
    return Offered(bundle.path, rows, bundle.planned)


def from_mapping(tensors: Mapping[str, Any]) -> Offered:
    """The tensors of a dict, copied: they may be the model's own variables under other names."""
    held, _ = layout.flatten(frameworks.accept(dict(tensors)))
    rows = {}
    for name, tensor in held.items():
        kind = "dense" if isinstance(tensor, np.ndarray) else "sparse or ragged"
        dtype = dtypes.from_numpy(tensor.dtype).name
        read = partial(np.array, tensor) if kind == "dense" else partial(_same, tensor)
        rows[name] = Row(name, (name,), dtype, tuple(tensor.shape), kind, read)
    return Offered("the given tensors", rows)


def from_model(model: Any, *, optimizer: bool) -> Offered:
    """The variables of another model, copied, with all names that files may have for them."""
    rows = {}
    for one in list_variables(model):
        if one.optimizer and not optimizer:
            continue
        names = (one.name, *one.spellings.values(), *one.aliases)
        read = partial(_copied, one)
        shape = np.shape(one.read())
        rows[one.name] = Row(one.name, tuple(dict.fromkeys(names)), one.dtype, shape, "dense", read)
    return Offered("the given model", rows)


def _copied(variable: Variable) -> Array:
    return np.array(variable.read())


def _same(value: Tensor) -> Tensor:
    return value


def _names_of(name: str, origin: Mapping[str, Any]) -> tuple[str, ...]:
    """A tensor's own name, then the other names that its file has for it."""
    others = (origin.get("name"), *origin.get("aliases", ()))
    return tuple(dict.fromkeys((name, *(other for other in others if isinstance(other, str)))))
