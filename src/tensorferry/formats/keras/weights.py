"""The variables of a Keras file, and what the file says of their model.

`reader` and `shards` in this folder fill them, from one HDF5 file or several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any, Self

from tensorferry import dtypes
from tensorferry.classes import dataclass, field, replace
from tensorferry.codecs.hdf5.file import Node
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.formats.keras import config as keras_config, usual, values
from tensorferry.formats.keras.config import Finding
from tensorferry.formats.keras.layouts import VARIABLES, Found, Layout, Link
from tensorferry.formats.keras.usual import Usual
from tensorferry.storage import Source
from tensorferry.storage.place import Place
from tensorferry.tensors.entries import Entries, Entry
from tensorferry.tensors.many import ManyStored, StoredArrays
from tensorferry.tensors.stored import Stored, StoredArray, Unreadable
from tensorferry.tensors.values import Array


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
        assets: The names of the other files in an archive.
        checksums: Whether a checksum covers the values.
        places: The files that are open.
        closing: What else is closed with them.
        roots: The root groups of the HDF5 files; none of a file of the usual form, in which there
            are no links, and nothing that cannot be read.
        foreign: Whether no group of an HDF5 file has a name that Keras gives.
    """

    stored: Mapping[str, Stored] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    optimizer: tuple[str, ...] = ()
    layout: Layout = "keras3"
    metadata: dict[str, str] = field(default_factory=dict)
    config: Any = None
    training: Any = None
    assets: tuple[str, ...] = ()
    checksums: bool = False
    places: list[Place] = field(default_factory=list, repr=False)
    closing: list[Callable[[], None]] = field(default_factory=list, repr=False)
    roots: list[Node] = field(default_factory=list, repr=False)
    foreign: bool = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What Keras would run or read beside layers if it loaded the config."""
        training = {"training_config": self.training}
        return (*keras_config.find(self.config), *keras_config.find(training))

    @property
    def files(self) -> list[str]:
        """The paths of its files."""
        return list(dict.fromkeys(place.path for place in self.places))

    @property
    def plain(self) -> bool:
        """Whether nothing says that Keras wrote the file: it is HDF5 of another program."""
        return self.foreign and self.config is None and not self.metadata

    @property
    def lost(self) -> list[str]:
        """The values of an optimizer that cannot be read, which never hide the weights."""
        if isinstance(self.stored, ManyStored):
            return []
        return [name for name in self.optimizer if self.stored[name].unreadable]

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
    weights.stored = {name: _stored(node, check) for name, node in found.datasets.items()}
    weights.paths = {name: node.path for name, node in found.datasets.items()}
    weights.layers = found.layers
    weights.optimizer = found.optimizer
    weights.layout = found.layout
    groups = {name for root in weights.roots for name in root.members}
    is_kept = "layers" in groups or any(VARIABLES in p.split("/") for p in weights.paths.values())
    weights.foreign = found.layout != "legacy" and bool(groups) and not is_kept


def find_usual(source: Source, start: int, size: int, config: Any) -> Usual[Any] | None:
    """The variables of a file of the usual form: see `tensorferry.formats.keras.usual.find`."""
    return usual.find(source, start, size, known=_known_dtypes(), config=config)


@cache
def _known_dtypes() -> dict[str, Any]:
    return {name: dtypes.BY_NAME[name].numpy for name in usual.NAMES}


def of_usual(found: Usual[Any], source: Source, check: Callable[[], None] | None) -> Weights:
    """The weights of a file of the usual form.

    Args:
        found: The variables.
        source: Holds the file.
        check: Called before values are read as a whole.
    """
    entries = Entries(source, found.places)
    return Weights(
        stored=StoredArrays(entries) if check is None else _CheckedArrays(entries, check),
        paths=found.paths,
        layers=found.layers,
        optimizer=found.optimizer,
        layout=found.layout,
        foreign=found.foreign,
    )


class _CheckedArrays(StoredArrays):
    """The variables of a file that is verified before the first of them is read."""

    def __init__(self, entries: Entries, check: Callable[[], None]) -> None:
        super().__init__(entries)
        self._check = check

    def __getitem__(self, name: str) -> Stored:
        entry = self._entries[name]
        return StoredArray(replace(entry, load=partial(self._checked, entry)))

    def _checked(self, entry: Entry) -> Any:
        assert entry.offset is not None
        self._check()
        return entry.source.range(entry.offset, entry.offset + entry.nbytes)

    def read_quickly(self, name: str) -> Array | None:
        """A view of the file."""
        self._check()
        return super().read_quickly(name)

    def read_all(self) -> dict[str, Array] | None:
        """Views of the file."""
        self._check()
        return super().read_all()

    def views(self) -> dict[str, Array] | None:
        """Views of the file."""
        self._check()
        return super().views()


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
