"""Planes: parts of tensors that fit on a screen, and the way to look at each tensor.

    arrangement(info)                                   # "matrix", "image", "line", "tiles" ...
    plane(subject, "kernel", most=(256, 256)).values    # a heat map of about that size

A window that is larger than the screen is made smaller: each cell stands for a block of values, of
which it is the mean or the one farthest from zero; of very large windows every n-th value is read.
Complex numbers are shown by their magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.operations.measures import as_numbers
from tensorferry.operations.subject import Subject
from tensorferry.rows.columns import length_of, rows_between
from tensorferry.storage.pages import release_file
from tensorferry.tensors.infos import TensorInfo
from tensorferry.tensors.values import Array

Look = Literal[
    "scalar", "line", "matrix", "image", "tiles",
    "string", "sparse", "ragged", "list", "empty", "unreadable",
]  # fmt: skip
Reduce = Literal["mean", "largest"]

READ = 1 << 22
"""The most values of a window that are all read; of larger ones every n-th is."""

CHANNELS = (1, 3, 4)
FILTER = 15
"""The largest width and height of the filters of a convolution."""


@dataclass(frozen=True)
class Arrangement:
    """How to look at a tensor.

    Attributes:
        look: The kind of picture.
        rows: The axis that runs downward.
        columns: The axis that runs to the right.
        channels: The axis of the colours of an image.
        inputs: Of the filters of a convolution: the axis of the channels they read.
        outputs: The axis of the channels they write.
    """

    look: Look
    rows: int | None = None
    columns: int | None = None
    channels: int | None = None
    inputs: int | None = None
    outputs: int | None = None


def arrangement(info: TensorInfo) -> Arrangement:
    """The best way to look at a tensor, by its kind and shape alone."""
    if info.unreadable is not None:
        return Arrangement("unreadable")
    if info.kind != "dense":
        return Arrangement(info.kind)
    shape = [size or 0 for size in info.shape]
    if 0 in shape:
        return Arrangement("empty")
    rank = len(shape)
    if rank < 2:
        return Arrangement("line", columns=0) if rank else Arrangement("scalar")
    if rank == 4 and _is_filter(*shape[:2]):
        return Arrangement("tiles", 0, 1, inputs=2, outputs=3)
    if rank == 4 and _is_filter(*shape[2:]):
        return Arrangement("tiles", 2, 3, inputs=1, outputs=0)
    if rank in (3, 4) and shape[-1] in CHANNELS and min(shape[-3:-1]) > FILTER:
        return Arrangement("image", rank - 3, rank - 2, rank - 1)
    # Of four axes, one channel would rather be that of a convolution of one pixel.
    colours = CHANNELS if rank == 3 else CHANNELS[1:]
    if rank in (3, 4) and shape[-3] in colours and min(shape[-2:]) > FILTER:
        return Arrangement("image", rank - 2, rank - 1, rank - 3)
    return Arrangement("matrix", rank - 2, rank - 1)


def _is_filter(height: int, width: int) -> bool:
    return 1 < max(height, width) <= FILTER and (height == width or min(height, width) == 1)


@dataclass(frozen=True)
class Plane:
    """A window of two axes of a tensor, as large as a screen.

    Attributes:
        values: The cells, row by row.
        window: Where it lies: first row, row behind the last, first column, column behind the last.
        steps: How many rows and columns a cell stands for.
        whole: Whether every value of the window was looked at.
        shape: How many rows and columns the tensor has along the two axes.
    """

    values: Array
    window: tuple[int, int, int, int]
    steps: tuple[int, int]
    whole: bool
    shape: tuple[int, int]


def plane(
    subject: Subject,
    name: str,
    *,
    rows: int | None = None,
    columns: int | None = None,
    at: Mapping[int, int] | None = None,
    window: tuple[int, int, int, int] | None = None,
    most: tuple[int, int] = (256, 256),
    reduce: Reduce = "mean",
    other: tuple[Subject, str] | None = None,
) -> Plane:
    """Cells of a dense tensor of numbers.

    Args:
        subject: The opened file.
        name: The name of the tensor.
        rows: The axis that runs downward; by default the last but one.
        columns: The axis that runs to the right; by default the last.
        at: The index along each of the other axes; 0 where nothing is said.
        window: First row, end of rows, first column, end of columns; by default all.
        most: How many rows and columns of cells at most.
        reduce: What a cell is of the values that it stands for.
        other: A tensor of the same shape, from which this one is subtracted.

    Raises:
        UnsupportedError: The tensor is no dense one of numbers, or the axes are not two of it.
    """
    shape = _shape(subject, name)
    down, across = _axes(name, len(shape), rows, columns)
    if other is not None and _shape(*other) != shape:
        raise UnsupportedError("the tensors differ in shape", path=subject.name, tensor=name)
    size = (1 if down is None else shape[down], shape[across])
    first, last, left, right = _inside(window, size)
    steps = (math.ceil((last - first) / most[0]) or 1, math.ceil((right - left) / most[1]) or 1)
    whole = (last - first) * (right - left) <= READ
    index: list[int | slice] = [
        min(max((at or {}).get(axis, 0), 0), extent - 1) for axis, extent in enumerate(shape)
    ]
    if down is not None:
        index[down] = slice(first, last, None if whole else steps[0])
    index[across] = slice(left, right, None if whole else steps[1])
    values = numbers_at(subject, name, tuple(index))
    if other is not None:
        values = _minus(numbers_at(*other, tuple(index)), values)
    if down is None:
        values = values.reshape(1, -1)
    elif down > across:
        values = values.T
    if whole and steps != (1, 1):
        values = _reduced(values, steps, reduce)
    return Plane(
        sendable(values), (first, last, left, right), steps, whole or steps == (1, 1), size
    )


def _shape(subject: Subject, name: str) -> tuple[int, ...]:
    subject.check_names([name])
    info = subject.infos[name]
    sizes = tuple(size for size in info.shape if size is not None)
    if info.kind != "dense" or len(sizes) != len(info.shape) or not sizes or 0 in sizes:
        raise UnsupportedError(
            f"a {info.kind} tensor of shape {list(info.shape)} is no plane of numbers",
            path=subject.name,
            tensor=name,
        )
    return sizes


def _axes(name: str, rank: int, rows: int | None, columns: int | None) -> tuple[int | None, int]:
    if rank == 1:
        return None, 0
    down = rank - 2 if rows is None else rows
    across = rank - 1 if columns is None else columns
    if down == across or not 0 <= down < rank or not 0 <= across < rank:
        raise UnsupportedError(
            f"the axes {down} and {across} are not two of the {rank} axes", tensor=name
        )
    return down, across


def _inside(
    window: tuple[int, int, int, int] | None, size: tuple[int, int]
) -> tuple[int, int, int, int]:
    """The window, as far as it lies inside; at least one row and one column."""
    first, last, left, right = window or (0, size[0], 0, size[1])
    first, left = min(max(first, 0), size[0] - 1), min(max(left, 0), size[1] - 1)
    return first, max(min(last, size[0]), first + 1), left, max(min(right, size[1]), left + 1)


def numbers_at(subject: Subject, name: str, index: tuple[int | slice, ...]) -> Array:
    """A slice of a tensor as numbers, copied out of the file."""
    part = np.asarray(subject.part(name, index))
    if part.dtype == object:
        raise UnsupportedError("strings are no numbers", path=subject.name, tensor=name)
    numbers = np.ascontiguousarray(as_numbers(part))
    if np.shares_memory(numbers, part):
        numbers = numbers.copy()
    release_file(part)
    return np.abs(numbers) if numbers.dtype.kind == "c" else numbers


def _minus(left: Array, right: Array) -> Array:
    # Integers would wrap around.
    wide = np.float32 if left.dtype == right.dtype == np.float32 else np.float64
    with np.errstate(all="ignore"):
        difference: Array = left.astype(wide) - right.astype(wide)
    return difference


def _reduced(values: Array, steps: tuple[int, int], reduce: Reduce) -> Array:
    wide = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64)
    with np.errstate(all="ignore"):
        for axis, step in enumerate(steps):
            starts = np.arange(0, wide.shape[axis], step)
            if step == 1:
                continue
            if reduce == "mean":
                ends = np.minimum(starts + step, wide.shape[axis])
                counts = (ends - starts).reshape([-1 if i == axis else 1 for i in range(2)])
                wide = np.add.reduceat(wide, starts, axis) / counts.astype(wide.dtype)
            else:
                high = np.fmax.reduceat(wide, starts, axis)
                low = np.fmin.reduceat(wide, starts, axis)
                wide = np.where(np.abs(low) > np.abs(high), low, high)
    return wide


def sendable(values: Array) -> Array:
    """Numbers of a dtype that every language has, little-endian and contiguous."""
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


@dataclass(frozen=True)
class Line:
    """A run of numbers, in as many points as a screen has.

    Attributes:
        low: The least number of each point.
        high: The largest.
        window: The first value, and the one behind the last.
        step: How many values a point stands for.
        size: How many values the tensor has.
    """

    low: Array
    high: Array
    window: tuple[int, int]
    step: int
    size: int


def line(
    subject: Subject, name: str, *, window: tuple[int, int] | None = None, most: int = 1024
) -> Line:
    """The numbers of a tensor of one axis, as a line."""
    size = _shape(subject, name)[0]
    _, _, first, last = _inside(None if window is None else (0, 1, *window), (1, size))
    step = math.ceil((last - first) / most)
    values = numbers_at(subject, name, (slice(first, last),))
    if step == 1:
        found = sendable(values)
        return Line(found, found, (first, last), 1, size)
    starts = np.arange(0, values.size, step)
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    return Line(sendable(low), sendable(high), (first, last), step, size)


def picture(
    subject: Subject,
    name: str,
    arranged: Arrangement,
    *,
    at: Mapping[int, int] | None = None,
    most: int = 512,
) -> Array:
    """The pixels of a tensor that is an image: rows, columns, channels; every n-th of many."""
    shape = _shape(subject, name)
    axes = (arranged.rows, arranged.columns, arranged.channels)
    index: list[int | slice] = [
        min(max((at or {}).get(axis, 0), 0), extent - 1) for axis, extent in enumerate(shape)
    ]
    for axis in axes:
        assert axis is not None
        step = 1 if axis == arranged.channels else math.ceil(shape[axis] / most)
        index[axis] = slice(None, None, step)
    values = numbers_at(subject, name, tuple(index))
    left = sorted(axis for axis in axes if axis is not None)
    return sendable(values.transpose([left.index(axis) for axis in axes if axis is not None]))


def filters(
    subject: Subject,
    name: str,
    arranged: Arrangement,
    *,
    first: tuple[int, int] = (0, 0),
    most: tuple[int, int] = (32, 32),
) -> Array:
    """Some filters of a convolution: outputs, inputs, rows, columns."""
    shape = _shape(subject, name)
    axes: list[Any] = [arranged.outputs, arranged.inputs, arranged.rows, arranged.columns]
    index: list[int | slice] = [slice(None)] * len(shape)
    for axis, start, count in zip(axes[:2], first, most, strict=True):
        start = min(max(start, 0), shape[axis] - 1)
        index[axis] = slice(start, start + count)
    return sendable(numbers_at(subject, name, tuple(index)).transpose(axes))


@dataclass(frozen=True)
class Entries:
    """Some values of a tensor that is no plane of numbers.

    Attributes:
        size: How many there are in all.
        places: The index of each; empty for that of a scalar.
        values: The values: strings, numbers, or rows.
    """

    size: int
    places: list[list[int]]
    values: list[Any]


def entries(subject: Subject, name: str, start: int, count: int) -> Entries:
    """The entries of a sparse tensor, the rows of any other, or a scalar."""
    info = subject.infos[name]
    if not info.shape:
        return Entries(1, [[]], [subject.tensor(name)])
    if info.kind == "sparse":
        tensor = subject.tensor(name)
        part = slice(start, start + count)
        return Entries(len(tensor.values), tensor.indices[part].tolist(), list(tensor.values[part]))
    size = info.shape[0]
    if size is None or info.kind in ("ragged", "list"):
        tensor = subject.tensor(name)
        size = length_of(tensor)
        rows: Any = rows_between(tensor, start, min(start + count, size)) if start < size else []
    else:
        rows = subject.part(name, (slice(start, start + count),)) if start < size else []
    values = [rows[number] for number in range(max(min(count, size - start), 0))]
    return Entries(size, [[start + number] for number in range(len(values))], values)
