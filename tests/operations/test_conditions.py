"""Conditions that select rows: a language of its own, and no `eval`."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorferry.errors import UnsupportedError
from tensorferry.operations.conditions import parse

ROW = {
    "label": np.int64(3),
    "score": np.float32(0.5),
    "name": b"Hafen",
    "tokens": np.array([5, 17, 2]),
    "image/height": np.int64(28),
    "odd name": np.int64(1),
    "missing": None,
}


@pytest.mark.parametrize(
    "text",
    [
        "label == 3",
        "label != 4 and score >= 0.5",
        "label == 4 or score < 1",
        "not label == 4",
        "not (label == 3 and score > 0.5)",
        'name == "Hafen"',
        "name == 'Hafen'",
        '"afe" in name',
        "17 in tokens",
        "not 18 in tokens",
        "tokens[0] == 5",
        "tokens[-1] == 2",
        "tokens[9] == null",
        "len(tokens) == 3",
        "image/height > 20",
        "`odd name` == 1",
        "missing == null",
        "missing != 3",
        "not missing > 3",
        "name",
        "not missing",
        "label == 3 or label == 4 and label == 5",
        "score == 5e-1",
        "label > -1",
        "label = 3",
        "0 < label <= 3 < 4",
        "not 0 < label < 3",
        "label in (1, 2, 3)",
        "label not in [4, 5]",
        "not label in ()",
        'name in ("a", "Hafen")',
        "missing not in (1, 2) or missing is null",
        "missing is null and label is not null",
        'name ~ "^Ha.en$"',
        'name ~ "a(f|g)+e"',
        "not name ~ 'x'",
        "not missing ~ 'x'",
    ],
)
def test_holds(text):
    """Comparisons, and, or, not, parentheses, elements and lengths mean what they say."""
    assert parse(text).holds(ROW)


@pytest.mark.parametrize(
    "text",
    ["", "label ==", "== 3", "label is 3", "label in (3", "label ~ 3", "label not 3",
     "(label == 3", "label == 3)", "3 3", "label and",
     "__import__('os')", "label[name]", "label; name", "(" * 60 + "label" + ")" * 60, '"open'],
)  # fmt: skip
def test_refused(text):
    """What is no condition is refused, and the message says where."""
    with pytest.raises(UnsupportedError):
        parse(text)


@pytest.mark.parametrize("text", ["tokens == 3", "name < 3", "label ~ 'x'"])
def test_values_that_do_not_compare(text):
    """Several values, and text with numbers, are an error when they are met."""
    with pytest.raises(UnsupportedError):
        parse(text).holds(ROW)


def test_names():
    """A condition knows the columns that it needs, each once."""
    assert parse("a == 1 and len(b) > 2 or `c d`[0] == a").names == ("a", "b", "c d")


@given(st.text("label()and or not=<>!3'\"`[].-", max_size=30))
def test_any_text(text):
    """Any text is a condition or an UnsupportedError."""
    with suppress(UnsupportedError):
        parse(text)
