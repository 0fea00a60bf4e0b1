"""Excerpts: the values of one tensor or of a slice of it, summed up.

excerpt("model.npz", "encoder/kernel[0:2,:5]").summary.mean
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations.measures import Measure, Summary, as_numbers, chunks_of
from tensorferry.operations.nulls import missing_lists
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import METER
from tensorferry.tensors.held import values_of
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

BINS = 40

_INDEXED = re.compile(r"(?P<name>.*)\[(?P<index>[-0-9:,.\s]*)\]", re.DOTALL)


@dataclass(frozen=True)
class Histogram:
    """How many values fall between one edge and the next."""

    counts: tuple[int, ...]
    edges: tuple[float, ...]


@dataclass(frozen=True)
class Excerpt:
    """A tensor, or a part of one.

    Attributes:
        path: The path as it was given.
        name: The name of the tensor.
        dtype: Of the values.
        shape: Of the whole tensor; None for each dimension that varies.
        kind: "dense", "string", "ragged", "sparse" or "list".
        values: The part that was asked for.
        summary: Of these values.
        histogram: Of the finite ones, if they are numbers.
    """

    path: str
    name: str
    dtype: str
    shape: tuple[int | None, ...]
    kind: str
    values: Any
    summary: Summary
    histogram: Histogram | None = None


@keywords.shown(keywords.Opening)
def excerpt(
    path: Any,
    name: str | None = None,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> Excerpt:
    """The values of a tensor or of a slice of it.

    Args:
        path: Anything that `tensorferry.open` takes.
        name: Of the tensor or column, and which part: `kernel[0:2,:5]`. The first dimension of a
            column is the row. The name may be left out where there is only one.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnsupportedError: There is no such tensor, or no such part of it, or it cannot be read.
    """
    with open_one(path, format=format, storage_options=storage_options, options=options) as subject:
        found, index = _find(subject, name or "")
        try:
            values = _values(subject, found, index)
        except (IndexError, TypeError) as error:
            raise UnsupportedError(
                f"there is no such part of it: {error}", path=subject.name, tensor=found
            ) from None
        info = subject.infos[found]
        flat = _numbers(values)
        measure = Measure()
        for array in flat:
            measure.add(array)
        summary = measure.summary()
        return Excerpt(
            subject.name,
            found,
            info.dtype,
            info.shape,
            info.kind,
            values,
            summary,
            None if info.dtype == dtypes.STRING.name else histogram(flat, summary),
        )


def _values(subject: Subject, name: str, index: tuple[Any, ...]) -> Any:
    """The values wanted; of a column that lacks lists, a list of rows with None for them."""
    lacking = missing_lists(subject, [name]).get(name, {}).get(0)
    if lacking is None or len(index) > 1:
        return subject.part(name, index) if index else subject.tensor(name)
    absent = set(lacking.tolist())
    rows = [None if n in absent else row for n, row in enumerate(subject.tensor(name))]
    return rows[index[0]] if index else rows


def _find(subject: Subject, text: str) -> tuple[str, tuple[Any, ...]]:
    """The tensor that a user named, and the index behind the name."""
    infos = subject.infos
    found, index = parse_place(text, infos)
    if not found and len(infos) == 1:
        (found,) = infos
    if not found and len(infos) > 1:
        raise UnsupportedError(
            f"there are {len(infos)} {subject.noun}s in it, expected the name of one",
            path=subject.name,
            hint=f"such as {', '.join(list(infos)[:5])}",
        )
    subject.check_names([found])
    return found, index


def parse_place(text: str, names: Any) -> tuple[str, tuple[Any, ...]]:
    """A name, and the index behind it; a tensor of exactly that name goes first.

    Raises:
        UnsupportedError: The index is none.
    """
    match = None if text in names else _INDEXED.fullmatch(text)
    if match is None:
        return text, ()
    parts = [part.strip() for part in match["index"].split(",")]
    try:
        return match["name"], tuple(_parse_index(part) for part in parts if part)
    except ValueError:
        raise UnsupportedError(
            f"the index is [{match['index']}], expected numbers and ranges as in [0:2,:5]"
        ) from None


def _parse_index(text: str) -> Any:
    if text == "...":
        return Ellipsis
    if ":" not in text:
        return int(text)
    parts = [int(part) if part.strip() else None for part in text.split(":")]
    if len(parts) > 3 or 0 in parts[2:]:
        raise ValueError(text)
    return slice(*parts)


def _numbers(values: Any) -> list[Array]:
    """The arrays that make up a value of any kind; a list that is missing has none."""
    if values is None:
        return []
    if isinstance(values, list):
        return [array for part in values if part is not None for array in _numbers(part)]
    if isinstance(values, SparseTensor | RaggedTensor):
        return [values_of(values)]
    if isinstance(values, bytes):
        single = np.empty(1, object)
        single[0] = values
        return [single]
    return [np.asarray(values)]


def histogram(arrays: list[Array], summary: Summary, *, bins: int = BINS) -> Histogram | None:
    """How the finite numbers of arrays are spread between the least and the largest."""
    if summary.minimum is None or summary.maximum is None:
        return None
    low, high = float(summary.minimum), float(summary.maximum)
    if not np.isfinite(high - low) or low == high:
        return None
    counts: Array = np.zeros(bins, np.int64)
    for array in arrays:
        for chunk in chunks_of(array):
            METER.add(chunk.nbytes)
            numbers = as_numbers(chunk)
            numbers = np.abs(numbers) if numbers.dtype.kind == "c" else numbers
            wide = numbers.astype(np.float64)
            counts += np.histogram(wide[np.isfinite(wide)], bins, (low, high))[0]
    edges = np.linspace(low, high, bins + 1)
    return Histogram(tuple(counts.tolist()), tuple(edges.tolist()))
