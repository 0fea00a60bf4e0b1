"""Entries: a slice reads its own bytes, and no more than that where the layout allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from tensorferry.tensors import entries
from tensorferry.tensors.entries import Entry, chunks


class Far:
    """A source that can only be read by ranges, and counts what was read."""

    path = "far"
    buffer = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.read_ranges: list[tuple[int, int]] = []

    def range(self, start: int, stop: int) -> bytes:
        self.read_ranges.append((start, stop))
        return self._data[start:stop]

    def ranges(self, pairs) -> list[bytes]:
        return [self.range(*pair) for pair in pairs]

    @property
    def count(self) -> int:
        return sum(stop - start for start, stop in self.read_ranges)


def entry(array: np.ndarray, *, fortran: bool = False) -> tuple[Entry, Far]:
    source = Far(b"header" + array.tobytes("F" if fortran else "C"))
    return Entry(array.dtype, array.shape, source, 6, fortran), source


@st.composite
def sliced(draw):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = np.arange(int(np.prod(shape, dtype=int)), dtype=">i2").reshape(shape)
    index = draw(
        hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True).filter(
            lambda index: index != ()
        )
        if shape
        else st.just(...)
    )
    return array, index


@given(sliced(), st.booleans(), st.sampled_from([1, 3, 1024]))
def test_slices_are_numpys(case, fortran, runs):
    """Whatever NumPy takes as a slice gives what NumPy gives, in however many reads."""
    array, index = case
    stored, _ = entry(array, fortran=fortran)
    before, entries.MAX_RUNS = entries.MAX_RUNS, runs
    try:
        found = stored.read_part(index)
    finally:
        entries.MAX_RUNS = before

    assert found.dtype == array.dtype
    assert found.shape == np.asarray(array[index]).shape
    assert np.array_equal(found, array[index])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.s_[2], 400),
        (np.s_[2:4], 800),
        (np.s_[-1, 10:20], 40),
        (np.s_[:, 5], 400),
        (np.s_[:, 5:7], 800),
        (np.s_[3:3], 0),
        (np.s_[7, 7], 4),
    ],
)
def test_no_more_is_read(index, expected):
    """Rows, columns and elements cost their own bytes."""
    array = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    stored, source = entry(array)

    assert np.array_equal(stored.read_part(index), array[index])
    assert source.count == expected


def test_too_many_runs_are_read_together():
    """Thousands of short runs cost more than what lies between them."""
    array = np.zeros((5000, 4), np.float32)
    stored, source = entry(array)

    stored.read_part(np.s_[:, 1])

    assert len(source.read_ranges) == 1
    assert source.count == array.nbytes


def test_of_fortran_order():
    """Columns are runs then."""
    array = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    stored, source = entry(array, fortran=True)

    assert np.array_equal(stored.read_part(np.s_[:, 5]), array[:, 5])
    assert source.count == 400


def test_out_of_range():
    """As NumPy: an index outside is an error, a slice is cut."""
    stored, _ = entry(np.zeros((3, 2)))

    with pytest.raises(IndexError):
        stored.read_part(3)
    with pytest.raises(IndexError):
        stored.read_part((0, 0, 0))
    assert stored.read_part(np.s_[2:9]).shape == (1, 2)


@given(hnp.arrays(np.int32, hnp.array_shapes(min_side=0, max_dims=3)), st.integers(1, 7))
def test_chunks(array, size):
    """Arrays that do not lie in order are put in order piece by piece."""
    before, entries.CHUNK = entries.CHUNK, size
    try:
        for view in (array, array.T, array[::2], array[::-1]):
            assert b"".join(part.tobytes() for part in chunks(view)) == view.tobytes()
    finally:
        entries.CHUNK = before
