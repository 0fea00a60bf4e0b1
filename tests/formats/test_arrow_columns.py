"""Values as Arrow columns and back, without a file between."""

from __future__ import annotations

from typing import Any

import strategies
from hypothesis import given, strategies as st
from strategies import same

from tensorferry.formats import arrow_columns, arrow_values
from tensorferry.tensors import SparseTensor


def there_and_back(leaves: dict[str, Any], **options: Any) -> dict[str, Any]:
    batch = arrow_columns.to_batch(leaves, metadata={}, **options)
    batch.validate(full=True)
    found = arrow_values.from_batches(batch.schema, [batch])
    return found if arrow_values.in_rows(batch.schema) else arrow_values.out_of_one_row(found)


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(strategies.arrays(), strategies.ragged_tensors(), strategies.sparse_tensors())


@given(st.dictionaries(st.text(max_size=5), leaves(), max_size=4))
def test_whole_tensors(value):
    """Any leaves stand in one row, each whole, and come back to the bit."""
    assert same(there_and_back(value, rows=False), value)


@given(leaves())
def test_rows(value):
    """Any leaf with a first dimension is a column of rows, and comes back to the bit."""
    assert same(there_and_back({"x": value}), {"x": value})
    if value.shape and (not isinstance(value, SparseTensor) or value.shape[0] < 1000):
        assert same(there_and_back({"x": value}, rows=True), {"x": value})
