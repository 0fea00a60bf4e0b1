"""Dealing: record batches cut into batches of any size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import tensorferry as ferry
from tensorferry.formats.tables.dealing import dealt


@given(
    st.lists(st.integers(0, 40), max_size=8), st.integers(1, 15), st.sampled_from([None, 1, 300])
)
def test_all_rows_in_order(sizes, rows, most):
    """All rows come once and in order; what comes together is a multiple of a batch, or the end."""
    numbers = iter(range(sum(sizes)))
    batches = [
        pa.record_batch({"x": pa.array([next(numbers) for _ in range(size)], pa.int64())})
        for size in sizes
    ]
    found, counts = [], []
    for parts, count in dealt(batches, rows, most=most):
        assert sum(part.num_rows for part in parts) == count
        assert len(parts) == 1 or count <= rows
        counts.append(count)
        found += [value for part in parts for value in part.column(0).to_pylist()]

    assert found == list(range(sum(sizes)))
    assert all(count % rows == 0 for count in counts[:-1])


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize("rows", [1, 7, 64, 100, 1000])
@pytest.mark.parametrize("drop", [False, True])
def test_batches(tmp_path, ending, rows, drop):
    """Batches have the rows asked for over the ends of pieces, as arrays and as Arrow's."""
    count = 300
    splits = np.arange(0, 2 * count + 1, 2)
    columns = {
        "x": np.arange(count),
        "text": np.array([b"%d" % n for n in range(count)], object),
        "tokens": ferry.RaggedTensor(np.arange(2 * count), (splits,)),
    }
    path = tmp_path / f"x.{ending}"
    ferry.save(columns, path, batch_rows=64)

    found = list(ferry.open(path).batches(rows, drop_remainder=drop))
    arrow = list(ferry.open(path).batches(rows, to="arrow", drop_remainder=drop))

    total = count - count % rows if drop else count
    sizes = [min(rows, total - start) for start in range(0, total, rows)]
    assert [len(batch["x"]) for batch in found] == sizes
    assert [batch.num_rows for batch in arrow] == sizes
    for name, column in columns.items():
        values = [value for batch in found for value in batch[name]]
        assert [np.asarray(value).tolist() for value in values] == [
            np.asarray(value).tolist() for value in list(column)[:total]
        ]
    assert [value for batch in arrow for value in batch["x"].to_pylist()] == list(range(total))
    assert [len(batch["tokens"].flat_values) for batch in found] == [2 * size for size in sizes]
