"""What the variables of a SavedModel are called.

The checkpoint (`tensorferry.formats.checkpoint.reader`) has a name for each of its tensors. The
objects of the model (`tensorferry.formats.savedmodel.objects`) know the paths to variables, and the
names that variables have themselves: these come first. A path that is only a number in a list of
all variables says less than the name of the variable, which is used then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tensorferry.expressions import expression
from tensorferry.formats.savedmodel.objects import Objects
from tensorferry.tensors.infos import TensorInfo

if TYPE_CHECKING:
    from tensorferry.formats.checkpoint.names import Names
    from tensorferry.formats.checkpoint.outline import Outline
    from tensorferry.formats.checkpoint.reader import Checkpoint
    from tensorferry.tensors.stored import Stored


# Lists of all variables of a model, in which Keras exports them: their own names say more.
_FLAT = expression(r"_?(all_|trainable_|non_trainable_)?variables/\d+")


def rename(opened: Checkpoint, keys: Mapping[str, str], held: Objects, names: Names) -> Checkpoint:
    """The same checkpoint, with its variables called as the model calls them.

    Args:
        opened: The checkpoint.
        keys: The key of each variable, by its path.
        held: The objects of the model.
        names: By "paths", or by the "variables" own names.
    """
    renamed = _choose_names(opened.keys, keys, held, names)
    opened.stored = _Renamed(opened.stored, {renamed[name]: name for name in opened.stored})
    opened.keys = {renamed[name]: key for name, key in opened.keys.items()}
    opened.slots = {renamed.get(name, name): slot for name, slot in opened.slots.items()}
    return opened


def describe(outline: Outline, held: Objects | None, names: Names) -> list[TensorInfo]:
    """What the tensors of a checkpoint are like, called as the model calls them.

    Args:
        outline: Of the checkpoint.
        held: The objects of the model; None for TensorFlow 1.
        names: By "paths", by the "variables" own names, or by "keys".
    """
    if outline.graph is None:
        return outline.describe()
    if names == "keys":
        return outline.describe(outline.keys)
    if held is None:
        return outline.describe()
    keys = held.match_keys(outline.graph)
    return outline.describe(_choose_names(outline.keys, keys, held, names))


def _choose_names(
    present: Mapping[str, str], keys: Mapping[str, str], held: Objects, names: Names
) -> dict[str, str]:
    """The new name of each tensor of a checkpoint, of which the keys are known."""
    before = {key: name for name, key in present.items()}
    renamed: dict[str, str] = {}
    taken = set()
    by_own, is_flat, variables = names == "variables", _FLAT.fullmatch, held.variables
    for path, key in keys.items():
        wanted = path
        if by_own or ("variables/" in path and is_flat(path)):
            own = variables[path].name
            wanted = own if own and own not in taken else path
        if key in before and wanted not in taken:
            renamed[before[key]] = wanted
            taken.add(wanted)
    for name, key in present.items():
        if name not in renamed:
            renamed[name] = name if name not in taken else key
            taken.add(renamed[name])
    return renamed


class _Renamed(Mapping[str, "Stored"]):
    """The same tensors by other names."""

    def __init__(self, stored: Mapping[str, Stored], names: Mapping[str, str]) -> None:
        self._stored = stored
        self._names = names

    def __getitem__(self, name: str) -> Stored:
        return self._stored[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
