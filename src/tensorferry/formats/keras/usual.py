"""Keras weights of the usual form: all variables of an HDF5 file, found in one native walk.

Keras and tensorferry write groups, plain arrays of numbers, and attributes that are texts. A file
that holds anything else, and a legacy one, is left to `tensorferry.formats.keras.reader`, which
reads it object by object and says what is wrong with it. NumPy is not needed here.
"""

from __future__ import annotations

from typing import Any

from tensorferry import _native, limits
from tensorferry.classes import dataclass
from tensorferry.formats.keras import layouts
from tensorferry.formats.keras.layouts import LEGACY_MODEL, OLD_LAYERS, VARIABLES, Layout
from tensorferry.storage import Source
from tensorferry.tensors.infos import TensorInfo, infos_of


@dataclass(frozen=True, slots=True)
class Usual:
    """The variables of a file, all of which are arrays of numbers that lie in one run.

    Attributes:
        variables: By name: the path in the file, the dtype, the shape, where the values start, and
            their number of bytes.
        layers: The name of the layer that each group belongs to.
        optimizer: The names of variables that belong to the optimizer or to metrics.
        layout: How the variables are kept.
        foreign: Whether no group has a name that Keras gives.
    """

    variables: dict[str, tuple[str, str, tuple[int, ...], int, int]]
    layers: dict[str, str]
    optimizer: tuple[str, ...]
    layout: Layout
    foreign: bool

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of each variable."""
        found = self.variables.items()
        rows = ((name, dtype, shape, size) for name, (_, dtype, shape, _, size) in found)
        return infos_of(rows, {name: path for name, (path, *_) in found})


def find(source: Source, start: int, size: int, config: Any = None) -> Usual | None:
    """The variables of an HDF5 file; None if the file is not of the usual form.

    Args:
        source: Holds the file.
        start: Where the file starts in the source.
        size: Number of bytes of the file.
        config: Of the model, where it is known.

    Raises:
        TruncatedError: The file was cut after it was opened.
    """
    if source.buffer is None or not 0 <= start <= start + size <= len(source.buffer):
        return None
    source.check(start + size)
    found = _native.hdf5_objects(source.buffer, start, start + size, max(limits.depth, 0))
    if found is None:
        return None
    groups, datasets = found
    layers = {
        path.rpartition("/")[0]: attributes["name"]
        for path, attributes in groups
        if "name" in attributes and path.rpartition("/")[2] == VARIABLES
    }
    places = {dataset[0]: dataset for dataset in datasets}
    members = {path for path, _ in groups[1:] if "/" not in path}
    members.update(path for path in places if "/" not in path)
    if groups[0][1] or LEGACY_MODEL in members or (not layers and config is not None):
        return None
    if any(path.endswith(VARIABLES) for path in places):  # a dataset whose name is a group's
        return None
    paths, optimizer = layouts.name_variables(places, layers, config)
    is_kept = "layers" in members or any(VARIABLES in path.split("/") for path in places)
    return Usual(
        {name: places[path] for name, path in paths.items()},
        layers,
        optimizer,
        "keras2" if OLD_LAYERS in members else "keras3",
        bool(members) and not is_kept,
    )
