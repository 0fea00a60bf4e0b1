"""Patterns of conditions: what Python's regular expressions find, in a time that is bounded."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from tensorferry.errors import UnsupportedError
from tensorferry.operations import patterns
from tensorferry.operations.patterns import compile_pattern

PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "", "[a-c]", r"\.", "1"]),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(PIECES, st.sampled_from(["", "^"]), st.sampled_from(["", "$"]), st.text("ab1.c", max_size=8))
def test_as_python_has_it(pattern, start, end, text):
    """A pattern is found exactly where Python's own finds it."""
    pattern = f"{start}(?:{pattern}){end}"

    expected = re.search(pattern.replace("$", r"\Z"), text, re.DOTALL) is not None
    assert compile_pattern(pattern)(text) is expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 20_000 + "b"),
        ("(a|a)*c", "a" * 20_000),
        ("(a*)*(b*)*x", "ab" * 10_000),
        ("(.*)(.*)(.*)(.*)x", "a" * 20_000),
        ("(a?){30}a{30}c", "a" * 2_000),
        ("(a|b)*a(a|b){12}c", "abbab" * 2_000),
    ],
)
def test_no_pattern_hangs(pattern, text):
    """Patterns that take Python's own years take no longer than the text is long."""
    started = time.process_time()

    assert not compile_pattern(pattern)(text)
    assert time.process_time() - started < 5


def test_what_is_remembered_is_bounded():
    """However many characters a text has, the table of steps does not grow with it."""
    finds = compile_pattern("[^x]*y$")

    assert not finds("".join(map(chr, range(0x4E00, 0x4E00 + 3 * patterns.REMEMBERED))))
    assert len(finds.__self__._steps) <= patterns.REMEMBERED


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "*", "a**", "(?=a)", r"\b", r"\1", "(?P<n>a)", "a{3,1}", "[z-a]", "\\",
     "a{2000}", "(((a{20}){20}){20})", "(" * 60 + ")" * 60],
)  # fmt: skip
def test_refused(pattern):
    """What refers back, looks around, is too long or is no pattern is refused."""
    with pytest.raises(UnsupportedError):
        compile_pattern(pattern)


@given(st.text("ab(|)*+?{}[],\\^$-1", max_size=20))
def test_any_text(pattern):
    """Any text is a pattern, or an UnsupportedError."""
    with suppress(UnsupportedError):
        compile_pattern(pattern)("ab1")


def test_case():
    """`(?i)` finds letters whatever their case."""
    assert compile_pattern("(?i)straße|[a-c]x")("DIE STRASSE") is False
    assert compile_pattern("(?i)hafen+")("HAFENNN")
    assert compile_pattern("(?i)[a-c]x")("BX")
