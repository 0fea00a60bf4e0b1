"""A user's value as content: tensors of every framework become ours, and are given names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.files.metadata import plain
from tensorferry.frameworks.frames import is_frame
from tensorferry.rows.rows import Rows
from tensorferry.tensors import tree as trees
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.content import Content, Leaf
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor, as_tensor


def content_of(
    value: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    quantize: Any = None,
    columns: bool = False,
) -> Content:
    """The content of a value.

    Args:
        value: A tensor or structure of any framework, a frame, rows, a bundle, content already, or
            an iterator of names and tensors, of which only one is in memory at a time.
        metadata: The user's metadata.
        quantize: What `tensorferry.codecs.quantization.parse` takes.
        columns: Whether the value is a dict of columns, which may be lists of arrays of different
            shapes.

    Raises:
        UnsupportedError: Something in it is neither a tensor nor a structure nor a plain value.
    """
    if value.__class__ is np.ndarray and _is_plain(value):
        content = Content.of_value(value)
    elif value.__class__ is dict and not columns and _are_arrays(value):
        content = Content(list(value.items()))
    elif isinstance(value, Content):
        content = value
    elif isinstance(value, Bundle):
        content = Content.of_bundle(value)
    elif isinstance(value, Iterator):
        note = Note()
        content = Content(_accepted(value, note), note=note)
    elif isinstance(value, Rows):
        content = Content(list(value.value().items()))
    elif is_frame(value):
        from tensorferry.formats.tables.frames import to_tensors

        content = Content(list(to_tensors(value).items()))
    elif columns:
        content = Content(list(_columns(value).items()))
    else:
        origins: list[dict[str, Any]] = []
        accepted = frameworks.accept(value, origins=origins)
        content = Content.of_value(accepted, origins=origins)
    return content.adding(plain(metadata), quantize)


def _are_arrays(value: dict[Any, Any]) -> bool:
    """Whether a dict is named arrays of numbers: content as it is, without a layout or a note."""
    if not value or "" in value or trees.TYPE in value:
        return False
    for name, array in value.items():
        if name.__class__ is not str or array.__class__ is not np.ndarray:
            return False
        if not _is_plain(array):
            return False
    return True


def _is_plain(array: Array) -> bool:
    """Whether an array is one of numbers that need no conversion."""
    return array.dtype in dtypes.BY_NUMPY and not array.dtype.hasobject


def _accepted(pairs: Iterator[Any], note: Note) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a user's generator."""
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError("a generator of tensors gives pairs of a name and a tensor")
        name, value = pair
        origins: list[dict[str, Any]] = []
        tensor = frameworks.accept(value, origins=origins)
        if not isinstance(tensor, np.ndarray | SparseTensor | RaggedTensor):
            raise UnsupportedError(
                f"{type(value).__name__} in a generator, expected a tensor", tensor=name
            )
        if origins[0]:
            note.origins[name] = origins[0]
        yield name, tensor


def _columns(value: Any) -> dict[str, Leaf]:
    """A user's dict of columns; a list is one array if it can be, and else a list of arrays."""
    accepted = frameworks.accept(value)
    if not isinstance(accepted, dict):
        raise UnsupportedError("rows of a table are made of a dict of columns")
    columns: dict[str, Leaf] = {}
    for name, column in accepted.items():
        if isinstance(column, list) and any(isinstance(part, np.ndarray) for part in column):
            columns[name] = [as_tensor(part) for part in column]
        else:
            columns[name] = as_tensor(column) if isinstance(column, list) else column
    return columns
