"""Branches: the names of tensors as a tree that a person can open step by step.

Names are parted at "/" and ".", as in `tensorferry.operations.list`. Similar siblings, such as the
layers of a transformer, are grouped under a branch whose name has a range:

    encoder.  >  layers.{0..31}.  >  0.  >  attention.weight
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tensorferry.classes import dataclass
from tensorferry.operations.list import DEEPEST, NUMBER, likeness, name_ranges, natural
from tensorferry.tensors.infos import TensorInfo

ALIKE = 3
"""From so many on, alike siblings stand under a branch of their own."""

_SEPARATOR = re.compile(r"([/.])")

# Numbers of tensors, and steps below.
_Tree: TypeAlias = "dict[str, _Tree | int]"


@dataclass(frozen=True)
class Branch:
    """A step of names, with what is below it.

    Attributes:
        name: The step, or several where nothing branches off; a range for siblings that are alike.
        tensors: How many tensors are below.
        nbytes: How many bytes these take.
        tensor: The place of the tensor among all, if the branch is one.
        alike: Whether the branches below are alike, and `name` is a range of their names.
        below: The branches below.
    """

    name: str
    tensors: int
    nbytes: int
    tensor: int | None = None
    alike: bool = False
    below: tuple[Branch, ...] = ()


def branches(infos: Iterable[TensorInfo]) -> tuple[Branch, ...]:
    """The tree of tensors."""
    listed = list(infos)
    root: _Tree = {}
    for number, info in enumerate(listed):
        parts = _SEPARATOR.split(info.name, DEEPEST)
        steps = [a + b for a, b in itertools.zip_longest(parts[::2], parts[1::2], fillvalue="")]
        place = root
        for depth, step in enumerate(steps[:-1]):
            below = place.setdefault(step, {})
            if not isinstance(below, dict):  # a tensor has this very name: the rest is one step
                steps = [*steps[:depth], "".join(steps[depth:])]
                break
            place = below
        last = steps[-1]
        while last in place:  # "a." and a tensor "a.": both are shown
            last += " "
        place[last] = number
    return tuple(_grow(root, listed))


def _grow(tree: Mapping[str, _Tree | int], infos: list[TensorInfo]) -> Iterator[Branch]:
    grown = {step: _branch(step, below, infos) for step, below in tree.items()}
    groups: dict[object, list[str]] = {}
    for step, branch in grown.items():
        key = (NUMBER.sub("#", step), _likeness(branch, infos))
        groups.setdefault(key, []).append(step)
    for steps in groups.values():
        members = [grown[step] for step in steps]
        name = name_ranges(steps) if len(steps) >= ALIKE else None
        if name is None:
            yield from members
        else:
            members = [grown[step] for step in sorted(steps, key=natural)]
            yield Branch(
                name,
                sum(member.tensors for member in members),
                sum(member.nbytes for member in members),
                alike=True,
                below=tuple(members),
            )


def _branch(step: str, below: _Tree | int, infos: list[TensorInfo]) -> Branch:
    if isinstance(below, int):
        return Branch(step, 1, infos[below].nbytes or 0, below)
    members = tuple(_grow(below, infos))
    if len(members) == 1:
        only = members[0]
        return Branch(
            step + only.name, only.tensors, only.nbytes, only.tensor, only.alike, only.below
        )
    return Branch(
        step,
        sum(member.tensors for member in members),
        sum(member.nbytes for member in members),
        below=members,
    )


def _likeness(branch: Branch, infos: list[TensorInfo]) -> object:
    """A key that similar branches share: everything except the numbers in their names."""
    if branch.tensor is not None:
        return likeness(infos[branch.tensor])
    return (branch.alike, tuple((each.name, _likeness(each, infos)) for each in branch.below))


@dataclass(frozen=True)
class Grid:
    """Layers and their parts, crosswise.

    Attributes:
        rows: The names of layers, up to their number.
        columns: What follows the number.
        cells: For each layer and part the place of the tensor; None where a layer lacks the part.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int | None, ...], ...]


def layer_grid(names: Iterable[str], *, most: tuple[int, int] = (200, 40)) -> Grid:
    """Tensors by the number of their layer and what follows it; parts of one layer are left out.

    Args:
        names: Of all tensors.
        most: How many layers and parts, at most: the most frequent parts are kept.
    """
    found: dict[str, dict[str, int]] = {}
    for place, name in enumerate(names):
        match = NUMBER.search(name)
        if match is not None and match.end() < len(name):
            found.setdefault(name[: match.end()], {}).setdefault(name[match.end() :], place)
    counts = Counter(part for parts in found.values() for part in parts)
    columns = [part for part, count in counts.most_common(most[1]) if count > 1]
    order = {part: place for place, part in enumerate(counts)}
    columns.sort(key=order.__getitem__)
    chosen = [layer for layer in found if any(part in found[layer] for part in columns)]
    rows = sorted(chosen, key=natural)[: most[0]]
    cells = tuple(tuple(found[row].get(part) for part in columns) for row in rows)
    return Grid(tuple(rows), tuple(columns), cells)
