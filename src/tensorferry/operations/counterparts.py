"""Counterparts: which tensor of one file is which of another.

    counterparts(first, second).renamed     # {"dense/kernel": "layers.0.weight"}

Tensors of one name belong together. Of the others, those with the same content do: only tensors
whose dtype and shape the other file has, too, are read for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorferry.classes import dataclass, field
from tensorferry.operations.hash import TensorHasher
from tensorferry.operations.subject import Subject

READ = 4 << 30
"""How many bytes of tensors are read to find renamed ones, at most."""


@dataclass(frozen=True)
class Counterparts:
    """Which tensors of two files belong together.

    Attributes:
        same: Names that both files have.
        renamed: Names in the first file, and the name of the same content in the second.
        only_a: Names of the first file without counterpart.
        only_b: Names of the second file without counterpart.
    """

    same: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


def counterparts(first: Subject, second: Subject, *, by_content: bool = True) -> Counterparts:
    """Which tensors or columns of two files belong together.

    Args:
        first: The first opened file.
        second: The second opened file.
        by_content: Look for renamed tensors, of which some have to be read.
    """
    same = tuple(name for name in first.infos if name in second.infos)
    alone = [name for name in first.infos if name not in second.infos]
    others = [name for name in second.infos if name not in first.infos]
    renamed = find_renamed(first, alone, second, others) if by_content else {}
    taken = set(renamed.values())
    return Counterparts(
        same,
        renamed,
        tuple(name for name in alone if name not in renamed),
        tuple(name for name in others if name not in taken),
    )


def find_renamed(
    first: Subject, alone: Sequence[str], second: Subject, others: Sequence[str]
) -> dict[str, str]:
    """Names of tensors, and the names of those with the same content in another file.

    Args:
        first: The first opened file.
        alone: The names that only the first has.
        second: What the other is.
        others: The names that only the second has.
    """
    if not alone or not others or not first.holds == second.holds == "tensors":
        return {}
    kinds = [_kinds(first, alone), _kinds(second, others)]
    common = kinds[0].keys() & kinds[1].keys()
    digests = [
        _digests(subject, [name for kind in common for name in found[kind]])
        for subject, found in zip((first, second), kinds, strict=True)
    ]
    places: dict[str, list[str]] = {}
    for name, digest in digests[1].items():
        places.setdefault(digest, []).append(name)
    renamed = {}
    for name in alone:
        left = places.get(digests[0].get(name, ""), [])
        if left:
            renamed[name] = left.pop(0)
    return renamed


def _kinds(subject: Subject, names: Sequence[str]) -> dict[object, list[str]]:
    """Names by what has to be equal if the content is."""
    found: dict[object, list[str]] = {}
    for name in names:
        info = subject.infos[name]
        if info.unreadable is None and 0 not in info.shape:
            shape = str(info.shape)  # a hash of numbers has no secret
            found.setdefault((info.kind, info.dtype, shape), []).append(name)
    return found


def _digests(subject: Subject, names: list[str]) -> dict[str, str]:
    wanted, total = [], 0
    for name in names:
        total += subject.infos[name].nbytes or 0
        if total > READ:
            break
        wanted.append(name)
    digests = {}
    for name, tensor in subject.tensors(wanted):
        hasher = TensorHasher()
        hasher.add(tensor)
        digests[name] = hasher.hexdigest()
    return digests
