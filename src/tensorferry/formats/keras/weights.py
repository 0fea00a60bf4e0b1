"""The variables of a Keras file, and what the file says of their model.

`reader` and `shards` in this folder fill them, from one HDF5 file or several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from tensorferry.codecs.hdf5.file import Node
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.formats.keras import values
from tensorferry.formats.keras.config import Finding
from tensorferry.formats.keras.layouts import VARIABLES, Found, Layout, Link
from tensorferry.storage.place import Place
from tensorferry.tensors.stored import Stored, Unreadable


@dataclass(slots=True)
class Weights:
    """The variables of a file, and what it says of their model.

    Attributes:
        stored: By name: first those of the model in its order, then those of the optimizer.
        paths: Where each variable is in its HDF5 file, by name.
        layers: The name of the layer that each group of an HDF5 file belongs to.
        optimizer: The names of variables that belong to the optimizer or to metrics.
        layout: How the variables are kept: see `tensorferry.formats.keras.layouts`.
        metadata: What the file says of itself: "keras_version", "backend", "date_saved".
        config: Of the model, as parsed JSON; None if there is none.
        training: How the model was compiled, in a legacy file.
        findings: What Keras would run or read beside layers if it loaded the config.
        assets: The names of the other files in an archive.
        checksums: Whether a checksum covers the values.
        places: The files that are open.
        closing: What else is closed with them.
        roots: The root groups of the HDF5 files.
    """

    stored: dict[str, Stored] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    optimizer: tuple[str, ...] = ()
    layout: Layout = "keras3"
    metadata: dict[str, str] = field(default_factory=dict)
    config: Any = None
    training: Any = None
    findings: tuple[Finding, ...] = ()
    assets: tuple[str, ...] = ()
    checksums: bool = False
    places: list[Place] = field(default_factory=list, repr=False)
    closing: list[Callable[[], None]] = field(default_factory=list, repr=False)
    roots: list[Node] = field(default_factory=list, repr=False)

    @property
    def files(self) -> list[str]:
        """The paths of its files."""
        return list(dict.fromkeys(place.path for place in self.places))

    @property
    def plain(self) -> bool:
        """Whether nothing says that Keras wrote the file: it is HDF5 of another program."""
        if self.layout == "legacy" or self.config is not None or self.metadata:
            return False
        groups = {name for root in self.roots for name in root.members}
        paths = (path.split("/") for path in self.paths.values())
        return bool(groups) and "layers" not in groups and not any(VARIABLES in p for p in paths)

    def links(self) -> Iterator[UnsupportedError]:
        """The errors of all links in the files: the HDF5 library would follow them."""
        waiting = list(self.roots)
        while waiting:
            node = waiting.pop()
            yield from node.links.values()
            waiting += node.members.values()

    def unreadable(self) -> Iterator[FerryError]:
        """The errors of all datasets that we cannot read, also of those that are no variables.

        The HDF5 library would read some of them, from another file.
        """
        waiting = list(self.roots)
        while waiting:
            node = waiting.pop()
            waiting += node.members.values()
            found = _stored(node, None) if node.is_dataset else None
            if isinstance(found, Unreadable):
                yield found.error

    def close(self) -> None:
        """Closes the files; arrays that were given out stay valid."""
        for close in self.closing:
            close()
        for place in self.places:
            place.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def fill(weights: Weights, found: Found, check: Callable[[], None] | None = None) -> None:
    """Adds the datasets of an HDF5 file to weights."""
    for name, node in found.datasets.items():
        weights.stored[name] = _stored(node, check)
        weights.paths[name] = node.path
    weights.layers.update(found.layers)
    weights.optimizer += found.optimizer
    weights.layout = found.layout


def _stored(node: Node | Link, check: Callable[[], None] | None) -> Stored:
    """The values of a dataset; those that cannot be read are listed, so that others can be."""
    if isinstance(node, Link):
        return Unreadable(node.error, "link", (), 0)
    tag = None
    with suppress(UnsupportedError):  # attributes that cannot be read do not hide the values
        tag = node.attributes.get("dtype")
    try:
        # h5py has no bfloat16: it becomes two opaque bytes, in legacy files without a tag.
        dtype = tag if isinstance(tag, str) else "bfloat16"
        return values.stored(node, dtype=dtype, check=check)
    except UnsupportedError as error:
        error.located(path=node.file.path, tensor=node.path[:200])
        return Unreadable(error, *values.describe(node), 0)
