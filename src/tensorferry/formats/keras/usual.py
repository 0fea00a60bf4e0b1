"""Keras weights of the usual form: all variables of an HDF5 file, found in one native walk.

Keras and tensorferry write groups, plain arrays of numbers, and attributes that are texts. A file
that holds anything else, and a legacy one, is left to `tensorferry.formats.keras.reader`, which
reads it object by object and says what is wrong with it. NumPy is not needed here.
"""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar

from tensorferry import _native, dtypes, limits
from tensorferry.classes import dataclass
from tensorferry.formats.keras import layouts
from tensorferry.formats.keras.layouts import LEGACY_MODEL, OLD_LAYERS, VARIABLES, Layout
from tensorferry.storage import Source
from tensorferry.tensors.infos import TensorInfo, infos_of

T = TypeVar("T")

NAMES = {
    name: name
    for name, row in dtypes.BY_NAME.items()
    if name.rstrip("0123456789") in ("int", "uint", "float") and row.bits >= 8
}
"""The dtypes that a file of the usual form may have, for who needs their names alone."""


@dataclass(frozen=True, slots=True)
class Usual(Generic[T]):
    """The variables of a file, all of which are arrays of numbers that lie in one run.

    Attributes:
        places: By name: the dtype, the shape, and where in the source the values start.
        paths: By name: the path in the file.
        layers: The name of the layer that each group belongs to.
        optimizer: The names of variables that belong to the optimizer or to metrics.
        layout: How the variables are kept.
        foreign: Whether no group has a name that Keras gives.
    """

    places: dict[str, tuple[T, tuple[int, ...], int]]
    paths: dict[str, str]
    layers: dict[str, str]
    optimizer: tuple[str, ...]
    layout: Layout
    foreign: bool


def infos(usual: Usual[str]) -> dict[str, TensorInfo]:
    """What is known of each variable."""
    facts = (
        (dtype, shape, math.prod(shape) * dtypes.BY_NAME[dtype].bits // 8)
        for dtype, shape, _ in usual.places.values()
    )
    return infos_of(usual.places, facts, usual.paths)


def find(
    source: Source, start: int, size: int, *, known: dict[str, T], config: Any = None
) -> Usual[T] | None:
    """The variables of an HDF5 file; None if the file is not of the usual form.

    Args:
        source: Holds the file.
        start: Where the file starts in the source.
        size: Number of bytes of the file.
        known: What stands for each dtype of `NAMES`.
        config: Of the model, where it is known.

    Raises:
        TruncatedError: The file was cut after it was opened.
    """
    if source.buffer is None or not 0 <= start <= start + size <= len(source.buffer):
        return None
    source.check(start + size)
    found = _native.hdf5_objects(source.buffer, start, start + size, max(limits.depth, 0), known)
    if found is None:
        return None
    members, attributes, places = found
    layers: dict[str, str] = {}
    for path, named in attributes.items():
        layer, _, last = path.rpartition("/")
        if last == VARIABLES and "name" in named:
            layers[layer] = named["name"]
    if "" in attributes or LEGACY_MODEL in members or (not layers and config is not None):
        return None
    if any(path.endswith(VARIABLES) for path in places):  # a dataset whose name is a group's
        return None
    paths, optimizer = layouts.name_variables(places, layers, config)
    is_kept = "layers" in members or any(VARIABLES in path.split("/") for path in places)
    return Usual(
        {name: places[path] for name, path in paths.items()},
        paths,
        layers,
        optimizer,
        "keras2" if OLD_LAYERS in members else "keras3",
        bool(members) and not is_kept,
    )
