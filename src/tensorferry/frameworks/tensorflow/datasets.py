"""Datasets of tf.data as rows: each element is a dict, or a string that is a record already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign

# Elements of one shape are taken together: about this many bytes, or elements.
TOGETHER = 1 << 20
MOST = 1024


def batches(value: Foreign) -> tuple[Iterator[Any], bool] | None:
    """The elements of a dataset, and whether they come as batches; None of anything else.

    Raises:
        UnsupportedError: The elements are neither dicts of tensors nor strings.
    """
    if not isinstance(value, tf.data.Dataset):
        return None
    spec = value.element_spec
    if isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string and spec.shape.rank == 0:
        return (record for batch in value.batch(MOST) for record in batch.numpy().tolist()), False
    if not isinstance(spec, Mapping) or any(isinstance(one, Mapping) for one in spec.values()):
        raise UnsupportedError(
            f"elements of a dataset are {_described(spec)}, expected dicts of tensors: a row has "
            "columns with names",
            hint='name them: dataset.map(lambda x, y: {"x": x, "y": y})',
        )
    size = _size_of(spec)
    if size is None:
        return iter(value), False
    return iter(value.batch(max(1, min(MOST, TOGETHER // max(size, 1))))), True


def elements(value: Foreign) -> Iterator[Any] | None:
    """The elements of a dataset as they are; None of anything else."""
    return iter(value) if isinstance(value, tf.data.Dataset) else None


def _size_of(spec: Mapping[str, Any]) -> int | None:
    """About how many bytes each element takes; None if not all of them have one shape."""
    size = 0
    for one in spec.values():
        if not isinstance(one, tf.TensorSpec) or not one.shape.is_fully_defined():
            return None
        size += one.shape.num_elements() * max(one.dtype.size, 1)
    return size


def _described(spec: Foreign) -> str:
    kind = type(spec).__name__
    if isinstance(spec, tuple | list):
        return f"a {kind} of {len(spec)}"
    return "dicts in dicts" if isinstance(spec, Mapping) else f"of {kind}"
