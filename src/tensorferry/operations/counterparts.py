"""Counterparts: which tensor of one file is which of another, and which rows differ.

    counterparts(first, second).renamed     # {"dense/kernel": "layers.0.weight"}

Tensors of one name belong together. Of the others, those with the same content do: only tensors
whose dtype and shape the other file has, too, are read for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from tensorferry.operations.diff import hashable, key_places, row_lookup
from tensorferry.operations.hash import TensorHasher
from tensorferry.operations.subject import Subject
from tensorferry.tensors.values import RaggedTensor, SparseTensor

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
        first: What was opened.
        second: The same.
        by_content: Look for renamed tensors, of which some have to be read.
    """
    same = tuple(name for name in first.infos if name in second.infos)
    alone = [name for name in first.infos if name not in second.infos]
    others = [name for name in second.infos if name not in first.infos]
    renamed: dict[str, str] = {}
    if by_content and first.holds == second.holds == "tensors":
        renamed = _renamed(first, alone, second, others)
    taken = set(renamed.values())
    return Counterparts(
        same,
        renamed,
        tuple(name for name in alone if name not in renamed),
        tuple(name for name in others if name not in taken),
    )


def _renamed(
    first: Subject, alone: list[str], second: Subject, others: list[str]
) -> dict[str, str]:
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


def _kinds(subject: Subject, names: list[str]) -> dict[object, list[str]]:
    """Names by what has to be equal if the content is."""
    found: dict[object, list[str]] = {}
    for name in names:
        info = subject.infos[name]
        if info.unreadable is None and 0 not in info.shape:
            found.setdefault((info.kind, info.dtype, info.shape), []).append(name)
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


@dataclass(frozen=True)
class RowPair:
    """Two rows that belong together and differ.

    Attributes:
        a: The number of the row in the first file; None if only the second has it.
        b: The number in the second file; None if only the first has it.
        columns: The columns that differ.
    """

    a: int | None
    b: int | None
    columns: tuple[str, ...] = ()


def differing_rows(first: Subject, second: Subject, *, key: str | None = None) -> Iterator[RowPair]:
    """The rows that differ, by position or by a key, in the order of the first file.

    Raises:
        UnsupportedError: The key is no column of both, or not unique.
    """
    names = [
        name
        for name in first.infos
        if name in second.infos and name not in first.unreadable and name not in second.unreadable
    ]
    if key is None:
        both = zip_longest(first.rows(names), second.rows(names))
        for number, (left, right) in enumerate(both):
            if left is None or right is None:
                yield RowPair(None if left is None else number, None if right is None else number)
            elif columns := _differing(left, right, names):
                yield RowPair(number, number, columns)
        return
    first.check_names([key])
    second.check_names([key])
    places = key_places(second, key)
    lookup = row_lookup(second, names)
    for number, left in enumerate(first.rows(names)):
        place = places.pop(hashable(left[key]), None)
        if place is None:
            yield RowPair(number, None)
        elif columns := _differing(left, lookup(place), names):
            yield RowPair(number, place, columns)
    for place in places.values():
        yield RowPair(None, place)


def _differing(
    left: Mapping[str, Any], right: Mapping[str, Any], names: list[str]
) -> tuple[str, ...]:
    return tuple(name for name in names if not same(left[name], right[name]))


def same(left: Any, right: Any) -> bool:
    """Whether two values of rows are the same; NaN is the same as NaN."""
    if isinstance(left, RaggedTensor):
        left = left.to_list()
    if isinstance(right, RaggedTensor):
        right = right.to_list()
    if isinstance(left, SparseTensor) and isinstance(right, SparseTensor):
        return (
            left.shape == right.shape
            and np.array_equal(left.indices, right.indices)
            and same(left.values, right.values)
        )
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        one, other = np.asarray(left), np.asarray(right)
        if one.shape != other.shape:
            return False
        equal = one == other
        if one.dtype.kind == other.dtype.kind == "f":
            equal = equal | (np.isnan(one) & np.isnan(other))
        return bool(np.all(equal))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    return bool(left == right or (left != left and right != right))
