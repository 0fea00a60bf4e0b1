"""Chunks of an Arrow column put together: leaves one behind the other, missing rows among them.

What is in a chunk is `tensorferry.formats.tables.values`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.errors import FormatError
from tensorferry.formats.tables.columns import Leaf
from tensorferry.tensors import values as tensors
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor


@dataclass(frozen=True, slots=True)
class Part:
    """A leaf of one chunk of a column.

    Attributes:
        leaf: Without the rows that are null.
        present: Which rows are not; None if none is.
        order: The places that the entries of a sparse tensor had, if not those they have here.
    """

    leaf: Leaf
    present: Array | None = None
    order: Array | None = None


def join(parts: list[Part], optional: bool) -> Leaf:
    """The leaf of all chunks, of none or one value in each row if that is optional."""
    leaf = parts[0].leaf if len(parts) == 1 else concatenate([part.leaf for part in parts])
    if any(part.order is not None for part in parts):
        return _reordered(leaf, [part.order for part in parts])
    if not optional and all(part.present is None for part in parts):
        return leaf
    present = np.concatenate(
        [
            np.ones(_count(part.leaf), bool) if part.present is None else part.present
            for part in parts
        ]
    )
    if isinstance(leaf, list):
        values = iter(leaf)
        return [next(values) if there else None for there in present.tolist()]  # type: ignore[misc]
    if isinstance(leaf, SparseTensor):
        return leaf
    splits = np.concatenate([[0], np.cumsum(present)]).astype(np.int64)
    if isinstance(leaf, RaggedTensor):
        return RaggedTensor(leaf.flat_values, (splits, *leaf.nested_row_splits))
    return RaggedTensor(leaf, (splits,))


def _count(leaf: Leaf) -> int:
    return len(leaf) if isinstance(leaf, RaggedTensor | list) else leaf.shape[0]


def _reordered(leaf: Leaf, orders: list[Array | None]) -> Leaf:
    assert isinstance(leaf, SparseTensor)
    if any(order is None for order in orders):
        raise FormatError("some parts of a sparse tensor note an order, and some do not")
    order = np.argsort(np.concatenate(orders), kind="stable")  # type: ignore[arg-type]
    return SparseTensor(leaf.indices[order], leaf.values[order], leaf.dense_shape)


def concatenate(leaves: Sequence[Leaf]) -> Leaf:
    """Leaves of one column, one behind the other."""
    if isinstance(leaves[0], list):
        return [tensor for leaf in leaves for tensor in leaf]  # type: ignore[union-attr, misc]
    return tensors.concatenate(leaves)  # type: ignore[arg-type]


def out_of_one_row(leaves: dict[str, Leaf]) -> dict[str, Leaf]:
    """The leaves that stand whole in the only row.

    Raises:
        FormatError: There is another number of rows, or a column that is no such leaf.
    """
    return {name: _out_of_one_row(leaf, name) for name, leaf in leaves.items()}


def _out_of_one_row(leaf: Leaf, name: str) -> Leaf:
    count = len(leaf) if isinstance(leaf, RaggedTensor | list) else leaf.shape[0]
    if count != 1:
        raise FormatError(f"a column of whole tensors has {count} rows, expected 1", tensor=name)
    if isinstance(leaf, SparseTensor):
        return SparseTensor(leaf.indices[:, 1:], leaf.values, leaf.dense_shape[1:])
    if isinstance(leaf, np.ndarray):
        return leaf.reshape(leaf.shape[1:])
    if isinstance(leaf, list) or leaf.ragged_rank == 1:
        raise FormatError("a column of whole tensors holds rows", tensor=name)
    return RaggedTensor(leaf.flat_values, leaf.nested_row_splits[1:])
