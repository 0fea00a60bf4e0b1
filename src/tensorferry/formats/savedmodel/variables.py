"""What the variables of a SavedModel are called.

The checkpoint (`tensorferry.formats.checkpoint.reader`) has a name for each of its tensors. The
objects of the model (`tensorferry.formats.savedmodel.objects`) know the paths to variables, and the
names that variables have themselves: these come first. A path that is only a number in a list of
all variables says less than the name of the variable, which is used then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tensorferry.formats.savedmodel.objects import Objects
from tensorferry.tensors.infos import TensorInfo

if TYPE_CHECKING:
    from tensorferry.formats.checkpoint.names import Names
    from tensorferry.formats.checkpoint.outline import Outline
    from tensorferry.formats.checkpoint.reader import Checkpoint
    from tensorferry.tensors.stored import Stored


# Lists of all variables of a model, in which Keras exports them: their own names say more.
_LISTS = frozenset(
    f"{start}{which}variables"
    for start in ("", "_")
    for which in ("", "all_", "trainable_", "non_trainable_")
)


def rename(opened: Checkpoint, keys: Mapping[str, str], held: Objects, names: Names) -> Checkpoint:
    """The same checkpoint, with its variables called as the model calls them.

    Args:
        opened: The checkpoint.
        keys: The key of each variable, by its path.
        held: The objects of the model.
        names: By "paths", or by the "variables" own names.
    """
    before = {key: name for name, key in opened.keys.items()}
    chosen = _choose_names(keys, before, lambda: before, held, names)
    renamed = {name: chosen[key] for name, key in opened.keys.items()}
    opened.stored = _Renamed(opened.stored, {renamed[name]: name for name in opened.stored})
    opened.keys = {renamed[name]: key for name, key in opened.keys.items()}
    opened.slots = {renamed.get(name, name): slot for name, slot in opened.slots.items()}
    return opened


def describe(outline: Outline, held: Objects | None, names: Names) -> Sequence[TensorInfo]:
    """What the tensors of a checkpoint are like, called as the model calls them.

    Args:
        outline: Of the checkpoint.
        held: The objects of the model; None for TensorFlow 1.
        names: By "paths", by the "variables" own names, or by "keys".
    """
    if outline.graph is None:
        return outline.describe()
    if names == "keys":
        return outline.describe({key: key for key in outline.tensors})
    if held is None:
        return outline.describe()
    keys = held.match_keys(outline.graph)
    return outline.describe(_choose_names(keys, outline.tensors, outline.names, held, names))


def _choose_names(
    keys: Mapping[str, str],
    present: Collection[str],
    before: Callable[[], Mapping[str, str]],
    held: Objects,
    names: Names,
) -> dict[str, str]:
    """The name of each tensor of a checkpoint, by its key.

    Args:
        keys: The key of each variable, by its path.
        present: The keys of the tensors.
        before: Gives the name that the checkpoint has for each tensor, by its key.
        held: The objects of the model.
        names: By "paths", or by the "variables" own names.
    """
    chosen: dict[str, str] = {}
    taken = set()
    by_own, variables = names == "variables", held.variables
    for path, key in keys.items():
        wanted = path
        if by_own or _is_flat(path):
            own = variables[path].name
            wanted = own if own and own not in taken else path
        if key in present and wanted not in taken:
            chosen[key] = wanted
            taken.add(wanted)
    if len(chosen) < len(present):  # rarely: the model has more tensors than variables
        for key, name in before().items():
            if key not in chosen:
                while name in taken:  # which may be the key of another tensor, too
                    name = key if name != key and key not in taken else f"{name}'"
                chosen[key] = name
                taken.add(name)
    return chosen


def _is_flat(path: str) -> bool:
    above, _, number = path.rpartition("/")
    return above in _LISTS and number.isdecimal()


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
