"""Results as what JSON has."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorferry.operations.plain import plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], []),
        ([[], [[]], [1, "a", None, True]], [[], [[]], [1, "a", None, True]]),
        ([1.5, math.nan, -math.inf], [1.5, "NaN", "-Infinity"]),
        ([1, 1.5, math.inf], [1, 1.5, "Infinity"]),
        ([b"a", b"\xff"], ["a", {"base64": "/w=="}]),
        ([[np.int8(1)], [{"a": (1j,)}]], [[1], [{"a": [[0.0, 1.0]]}]]),
    ],
)
def test_lists(value, expected):
    """Lists become lists, whatever they hold and whether their elements are alike or not."""
    assert plain(value) == expected


def test_lists_are_copied():
    """What is given is never handed out: whoever changes the result does not change the value."""
    value = [1, [2]]

    found = plain(value)

    assert found == value
    assert found is not value
    assert found[1] is not value[1]
