"""Oddities: what may be wrong with values though the file is sound.

Numbers that are NaN or infinite, and records that are the same as one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tensorferry.errors import FerryError, Problem
from tensorferry.operations.measures import as_numbers, chunks_of
from tensorferry.operations.subject import Subject
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import RaggedTensor, SparseTensor

DIGEST = 16
"""The number of bytes by which records are told apart."""


def count_not_finite(
    subject: Subject, names: Sequence[str] | None = None
) -> dict[str, tuple[int, int]] | None:
    """Of each column, how many values are NaN, and how many infinite; None on damage."""
    counts: dict[str, list[int]] = {}
    try:
        every = subject.infos if names is None else names
        names = [name for name in every if name not in subject.unreadable]
        for batch in subject.batches(names):
            for name, column in batch.items():
                for array in arrays_in(column):
                    found = counts.setdefault(name, [0, 0])
                    for chunk in chunks_of(array):
                        numbers = as_numbers(chunk)
                        if numbers.dtype.kind in "fc" and not np.isfinite(numbers).all():
                            found[0] += int(np.isnan(numbers).sum())
                            found[1] += int(np.isinf(numbers).sum())
    except FerryError:
        return None  # it is among the problems already
    return {name: (nan, infinite) for name, (nan, infinite) in counts.items()}


def not_finite(
    found: Sequence[Mapping[str, tuple[int, int]] | None], path: str
) -> Iterator[Problem]:
    """Tells of columns with NaN and infinite values, by the counts of the parts of a file."""
    total: dict[str, tuple[int, int]] = {}
    for counts in found:
        if counts is None:
            return
        for name, (nan, infinite) in counts.items():
            before = total.get(name, (0, 0))
            total[name] = before[0] + nan, before[1] + infinite
    for name, (nan, infinite) in total.items():
        if nan or infinite:
            what = f"{nan} values are NaN and {infinite} infinite"
            yield Problem(what, path, tensor=name)


def arrays_in(column: Any) -> Iterator[Any]:
    """The arrays of numbers or strings that a column of any kind is made of."""
    if isinstance(column, list):
        for part in column:
            if part is not None:
                yield from arrays_in(part)
    elif isinstance(column, SparseTensor | RaggedTensor):
        yield values_of(column)
    else:
        array = np.asarray(column)
        if array.dtype != object:
            yield array


def digest_of(record: bytes) -> bytes:
    """What tells a record from others."""
    return blake2b(record, digest_size=DIGEST).digest()


def duplicates(records: Iterable[bytes], subject: Subject) -> Iterator[Problem]:
    """Tells of records that are the same as one before, by their digests."""
    known: dict[bytes, int] = {}
    for number, record in enumerate(records):
        first = known.setdefault(record, number)
        if first != number:
            yield Problem(f"the same as record {first}", subject.name, record=number)
