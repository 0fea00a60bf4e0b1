"""Names: patterns with braces, and names chosen in an order."""

from __future__ import annotations

import pytest

from tensorferry.errors import UnsupportedError
from tensorferry.operations.names import choose, is_match, parse_patterns

NAMES = [f"layers.{n}.{part}" for n in range(12) for part in ("kernel", "bias")]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("layers.{0..11}.kernel", 12),
        ("layers.{0..11}.{kernel,bias}", 24),
        ("layers.{1..2}.*", 4),  # not layers 11 and 12
        ("layers.{0,3,9..10}.b*", 4),
        ("*{10..11}*", 4),
        ("layers.{00..11}.bias", 2),  # 10 and 11: the others have no zeros before them
        ("layers.1?.bias", 2),
        ("layers.[0-9].bias", 10),
        ("layers.{5}.bias", 0),
        ("layers.7.bias", 1),
    ],
)
def test_braces(pattern, expected):
    """Braces stand for numbers and texts, beside what patterns of files have."""
    assert sum(is_match(name, [pattern]) for name in NAMES) == expected


def test_names_are_themselves():
    """A name that looks like a pattern is found by itself."""
    for name in ("a[0]", "x{1..3}", "y{a,b}", "z*"):
        assert is_match(name, [name])


def test_too_wide():
    """A range of more numbers than any model has layers is refused, not counted out."""
    with pytest.raises(UnsupportedError, match="1,000,000,000 numbers"):
        is_match("a", ["a{0..999999999}"])


def test_parts():
    """Commas part names; those inside of brackets do not."""
    assert parse_patterns(["a, b", "c.{0,2}.[x,y]", "d{e,f},g"]) == [
        "a", "b", "c.{0,2}.[x,y]", "d{e,f}", "g",
    ]  # fmt: skip


def test_order():
    """Names come in the order asked for, each once; what fits nothing stays, to be refused."""
    assert choose(["b", "a1", "a2", "a*"], ["a2", "*", "nope"]) == ["a2", "b", "a1", "a*", "nope"]
    assert choose(["b", "a1", "a2", "a*"], ["a*"]) == ["a*"]
