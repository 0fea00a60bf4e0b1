"""Orders: permutations that are the same everywhere, reached in the middle at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tensorferry.feeds.order import InTurn, Shuffled
from tensorferry.rows.permutation import SORTED, Permutation

KNOWN_SMALL = [7, 0, 8, 9, 2, 6, 1, 4, 3, 5]
KNOWN_LARGE = [917850340364, 743364810369, 882551399070]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3 * SORTED), st.integers(-(2**70), 2**70), st.integers(0, 9))
def test_every_number_comes_once(size: int, seed: int, epoch: int) -> None:
    numbers = Permutation(size, (seed, epoch)).at(np.arange(size))
    assert np.array_equal(np.sort(numbers), np.arange(size))


@pytest.mark.parametrize("size", [SORTED, SORTED + 1, 1_000_000])
def test_the_middle_is_the_same_as_from_the_start(size: int) -> None:
    order = Shuffled(size, 7, 1)
    whole = order.rows(0, 10_000)
    assert np.array_equal(order.rows(9_000, 9_100), whole[9_000:9_100])
    assert not np.array_equal(whole, Shuffled(size, 7, 2).rows(0, 10_000))
    assert not np.array_equal(whole, Shuffled(size, 8, 1).rows(0, 10_000))
    assert abs(np.corrcoef(whole, np.arange(10_000))[0, 1]) < 0.05
    assert abs(whole.mean() / size - 0.5) < 0.02


def test_orders_do_not_change_between_versions() -> None:
    assert Permutation(10, (7, 0)).at(np.arange(10)).tolist() == KNOWN_SMALL
    assert Permutation(10**12, (7, 0)).at(np.arange(3)).tolist() == KNOWN_LARGE


def test_small_orders_are_equally_likely() -> None:
    seen = Counter(
        tuple(Permutation(4, (seed, 0)).at(np.arange(4)).tolist()) for seed in range(4800)
    )
    assert len(seen) == 24
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 60  # chi-square, 23 degrees


def test_in_turn() -> None:
    assert InTurn().rows(3, 6).tolist() == [3, 4, 5]
