"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tensorferry import expressions
from tensorferry.expressions import expression

SOURCES = Path(__file__).parents[1] / "src" / "tensorferry"


def texts():
    """The expressions of all modules, where they are plain texts."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id == "expression" and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


def test_every_expression_compiles():
    """An error in an expression shows here, because it does not show at import."""
    found = list(texts())

    assert len(found) > 10
    for text in found:
        re.compile(text)


def test_the_same_as_a_pattern():
    """Methods and attributes are those of the pattern."""
    lazy, pattern = expression("(a+)b", re.IGNORECASE), re.compile("(a+)b", re.IGNORECASE)

    assert lazy.pattern == pattern.pattern
    assert lazy.flags == pattern.flags
    for text in ("xAAb", "aab", ""):
        for method in ("match", "search", "fullmatch"):
            one, other = getattr(lazy, method)(text), getattr(pattern, method)(text)
            assert (one and one.span()) == (other and other.span())
    assert lazy.sub(r"<\1>", "aab ab") == pattern.sub(r"<\1>", "aab ab")
    assert expression(rb"\x00").split(b"a\x00b") == [b"a", b"b"]


def test_compiled_once_and_late(monkeypatch):
    """Nothing is compiled before the first use, and a method is fetched once."""
    calls = []
    compiled = re.compile
    monkeypatch.setattr(
        expressions.re, "compile", lambda *given: calls.append(given) or compiled(*given)
    )
    lazy = expression("a")
    assert calls == []
    assert lazy.match("a")
    assert lazy.match("a")
    assert len(calls) == 1
    with pytest.raises(AttributeError):
        lazy.nothing  # noqa: B018
