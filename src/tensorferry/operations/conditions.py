"""Conditions: a small language that selects rows, without `eval`.

    label in (3, 5) and not (len(tokens) > 100 or language != "de")
    0 < score <= 0.5 and title ~ "^The " and author is not null

    condition   all of: comparisons, `and`, `or`, `not`, parentheses, a name alone (not empty)
    comparison  operands with one of = == != < <= > >= between them, chained if there are more
                operand in (a, b, c), operand in name, operand in "text", and `not in`
                operand ~ "pattern": it is found in the text; see `tensorferry.operations.patterns`
                operand is null, operand is not null
    operand     a name, name[2], len(name), a number, "text", true, false, null

A name consists of letters, digits and any of `_./-`, or is put in backquotes. A value that is
missing is `null`, and makes every comparison false but those with null. Text is compared as UTF-8
bytes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from tensorferry.classes import NamedTuple
from tensorferry.errors import UnsupportedError
from tensorferry.operations.patterns import compile_pattern
from tensorferry.tensors.values import RaggedTensor

Row = Mapping[str, Any]
Operand = Callable[[Row], Any]

DEEPEST = 50

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |`(?P<quoted>[^`]+)`
    |(?P<name>[^\W0-9][\w./-]*)
    |(?P<sign>==|!=|<=|>=|=|<|>|~|,|\(|\)|\[|\])
    )""",
    re.VERBOSE,
)

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None, "nan": float("nan")}
_WORDS = {"and", "or", "not", "in", "is"}


class Condition(NamedTuple):
    """A condition that was parsed.

    Attributes:
        text: As it was given.
        names: The columns that it uses.
        holds: Whether it holds for a row.
    """

    text: str
    names: tuple[str, ...]
    holds: Callable[[Row], bool]


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def parse(text: str) -> Condition:
    """The condition in a text.

    Raises:
        UnsupportedError: It is none; the message says where.
    """
    parser = _Parser(text)
    holds = parser.either(0)
    parser.expect_end()
    return Condition(text, tuple(dict.fromkeys(parser.names)), holds)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self.names: list[str] = []

    def _peek(self) -> _Token:
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return _Token("end", "", len(self._text))

    def _take(self, *texts: str) -> bool:
        """Skips the next token, if it is one of these signs or words."""
        token = self._peek()
        if token.kind in ("sign", "name") and token.text in texts:
            self._next += 1
            return True
        return False

    def _wrong(self, expected: str) -> UnsupportedError:
        token = self._peek()
        found = "its end" if token.kind == "end" else repr(token.text)
        return UnsupportedError(
            f"the condition {self._text!r} has {found} at character {token.place + 1}, "
            f"expected {expected}",
            hint="as in: label == 3 and not (score < 0.5)",
        )

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise self._wrong("`and`, `or` or its end")

    def either(self, depth: int) -> Callable[[Row], bool]:
        if depth > DEEPEST:
            raise UnsupportedError(f"the condition nests deeper than {DEEPEST}")
        parts = [self._both(depth)]
        while self._take("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def _both(self, depth: int) -> Callable[[Row], bool]:
        parts = [self._negated(depth)]
        while self._take("and"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _negated(self, depth: int) -> Callable[[Row], bool]:
        negate = False
        while self._take("not"):
            negate = not negate
        inner = self._comparison(depth)
        return (lambda row: not inner(row)) if negate else inner

    def _comparison(self, depth: int) -> Callable[[Row], bool]:
        if self._take("("):
            inner = self.either(depth + 1)
            if not self._take(")"):
                raise self._wrong("`)`")
            return inner
        left = self._operand()
        if self._take("is"):
            wanted = not self._take("not")
            if self._peek().text.lower() not in ("null", "none"):
                raise self._wrong("`null` or `not null`")
            self._next += 1
            return lambda row: _is_null(left(row)) == wanted
        if self._take("~"):
            finds = self._pattern()
            return lambda row: _finds(finds, left(row))
        if self._take("in"):
            return self._membership(left)
        if self._peek().text == "not" and self._take("not"):
            if not self._take("in"):
                raise self._wrong("`in`")
            inside = self._membership(left)
            return lambda row: not _is_null(left(row)) and not inside(row)
        return self._chain(left)

    def _chain(self, left: Operand) -> Callable[[Row], bool]:
        """A chain of comparisons, or a single operand."""
        pairs: list[Callable[[Row], bool]] = []
        while self._peek().text in _COMPARISONS and self._peek().kind == "sign":
            compare = _COMPARISONS[self._peek().text]
            self._next += 1
            right = self._operand()
            pairs.append(_pair(compare, left, right))
            left = right
        if not pairs:
            return lambda row: _is_something(left(row))
        return pairs[0] if len(pairs) == 1 else lambda row: all(pair(row) for pair in pairs)

    def _membership(self, left: Operand) -> Callable[[Row], bool]:
        close = {"(": ")", "[": "]"}.get(self._peek().text)
        if close is None or self._peek().kind != "sign":
            right = self._operand()
            return lambda row: _is_in(left(row), right(row))
        self._next += 1
        members: list[Operand] = []
        while not self._take(close):
            members.append(self._operand())
            if not self._take(",") and self._peek().text != close:
                raise self._wrong(f"`,` or `{close}`")
        return lambda row: any(_compare(operator.eq, left(row), one(row)) for one in members)

    def _pattern(self) -> Callable[[str], bool]:
        token = self._peek()
        if token.kind != "text":
            raise self._wrong("a pattern in quotes")
        self._next += 1
        # A backslash is the pattern's own, but for one before a quote.
        return compile_pattern(re.sub(r"\\(['\"])", r"\1", token.text[1:-1]))

    def _operand(self) -> Operand:
        token = self._peek()
        if token.kind not in ("number", "text", "quoted", "name") or token.text in _WORDS:
            raise self._wrong("a name, a number or a text")
        self._next += 1
        if token.kind == "number":
            number: Any = float(token.text)
            value = int(token.text) if re.fullmatch(r"[-+]?[0-9]+", token.text) else number
            return lambda row: value
        if token.kind == "text":
            data = re.sub(r"\\(.)", r"\1", token.text[1:-1]).encode()
            return lambda row: data
        if token.kind == "name" and token.text.lower() in _CONSTANTS:
            constant = _CONSTANTS[token.text.lower()]
            return lambda row: constant
        if token.text == "len" and token.kind == "name" and self._take("("):
            inner = self._operand()
            if not self._take(")"):
                raise self._wrong("`)`")
            return lambda row: _length(inner(row))
        return self._column(token.text)

    def _column(self, name: str) -> Operand:
        self.names.append(name)
        if not self._take("["):
            return lambda row: _plain(row[name])
        token = self._peek()
        if token.kind != "number" or not re.fullmatch(r"[-+]?[0-9]+", token.text):
            raise self._wrong("the number of a value")
        self._next += 1
        if not self._take("]"):
            raise self._wrong("`]`")
        place = int(token.text)
        return lambda row: _element(row[name], place)


def _tokens(text: str) -> Iterator[_Token]:
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            place = end - len(text[place:end].lstrip())
            raise UnsupportedError(
                f"the condition {text!r} has {text[place:][:10]!r} at character "
                f"{place + 1}, which is no name, number, text or comparison"
            )
        kind = match.lastgroup
        yield _Token(kind, match[kind], match.start(kind))
        place = match.end()


def _plain(value: Any) -> Any:
    """A value in Python's terms, where it is one value."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return value.item() if isinstance(value, np.generic) else value


def _length(value: Any) -> int | None:
    if value is None:
        return None
    return len(value) if isinstance(value, Sized) else 1


def _element(value: Any, place: int) -> Any:
    is_list = isinstance(value, bytes | list | np.ndarray | RaggedTensor)
    if not is_list or not -len(value) <= place < len(value):
        return None
    return _plain(value[place])


def _compare(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    if left is None or right is None:
        equal = left is None and right is None
        return equal if compare is operator.eq else not equal if compare is operator.ne else False
    for value in (left, right):
        if isinstance(value, np.ndarray | RaggedTensor | list):
            raise UnsupportedError(
                "a condition compares a column that has several values a row",
                hint="take one of them, as in name[0], or their number, as in len(name)",
            )
    if isinstance(left, bytes) != isinstance(right, bytes):
        if compare in (operator.eq, operator.ne):
            return compare is operator.ne
        raise UnsupportedError(
            "a condition compares text with a number", hint='text stands in quotes: name == "a"'
        )
    return bool(compare(left, right))


def _is_in(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    if isinstance(right, bytes):
        return isinstance(left, bytes) and left in right
    if isinstance(right, np.ndarray):
        return any(_plain(value) == left for value in right.reshape(-1))
    return bool(left == right)


def _pair(
    compare: Callable[[Any, Any], Any], left: Operand, right: Operand
) -> Callable[[Row], bool]:
    return lambda row: _compare(compare, left(row), right(row))


def _is_null(value: Any) -> bool:
    return value is None


def _finds(finds: Callable[[str], bool], value: Any) -> bool:
    """Whether a pattern is found in a text, or in one of several."""
    if value is None:
        return False
    if isinstance(value, bytes):
        return finds(value.decode(errors="replace"))
    if isinstance(value, np.ndarray | list):
        return any(_finds(finds, _plain(one)) for one in np.asarray(value, object).reshape(-1))
    raise UnsupportedError(
        "a condition looks for a pattern in a number", hint="`~` is for text; compare numbers"
    )


def _is_something(value: Any) -> bool:
    length = _length(value) if not isinstance(value, int | float | bool) else None
    return bool(value) if length is None else length > 0
