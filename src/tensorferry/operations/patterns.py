r"""Patterns: regular expressions that take no longer than the text is long.

    find = compile_pattern("colou?r|grey")
    find("many colors")                     # True

Python's own go back and try again, which takes years for some patterns and texts; a pattern in a
condition may come from anybody. Here all ways through a pattern are followed at once, character by
character, so that the time is at most that of the text's length times the pattern's. Sets of states
that were seen before are known by a number, and most characters cost one look into a table.

    a . [a-z] [^0-9] \\d \\w \\s \\D \\W \\S      characters
    x* x+ x? x{2} x{2,} x{2,5}              how often; a `?` behind it changes nothing
    xy  x|y  (x)  (?:x)  ^  $  (?i)         order, choice, groups, the ends, whatever the case

Nothing refers back, or looks around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from tensorferry.classes import dataclass, field
from tensorferry.errors import UnsupportedError

LONGEST = 1000
"""The most states of a pattern: those of x{2,5} are five times those of x."""

DEEPEST = 50
"""The most groups inside of each other."""

# So many known steps are remembered, each with a set of states; then all are forgotten.
REMEMBERED = 2000

Test = Callable[[str], bool]
"""Whether a character is one of some."""

_CLASSES: dict[str, Test] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
# Without these, Python's own are as quick as the text is long.
_PLAIN = re.compile(r"[^*+?{(\\]*")


@dataclass
class _State:
    """A place in the pattern, with what leads on.

    Attributes:
        test: The character that leads to `next`, if one does.
        next: The states behind it; without a test, they are reached at once.
        only: "start" or "end": the state is passed only there.
    """

    test: Test | None = None
    next: list[_State] = field(default_factory=list)
    only: str | None = None


@dataclass(frozen=True)
class _Piece:
    """A part of the pattern: where it begins, and the states that have to be led on."""

    first: _State
    last: _State


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a pattern is found somewhere in a text.

    Raises:
        UnsupportedError: The pattern is invalid; the message says where.
    """
    parser = _Parser(pattern)
    machine = _Machine(parser.parse())
    if _PLAIN.fullmatch(pattern):
        # `$` is the end of the text, and no line's.
        return lambda text: re.search(pattern.replace("$", r"\Z"), text, re.DOTALL) is not None
    return machine.finds


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._next = 0
        self._states = 0
        self._fold = False

    def parse(self) -> _Piece:
        """All of it."""
        if self._text.startswith("(?i)"):
            self._next, self._fold = 4, True
        found = self._choice(0)
        if self._next < len(self._text):
            raise self._wrong("a `)` without its `(`")
        return found

    def _wrong(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"the pattern {self._text[:80]!r} has {what}, at character {self._next + 1}",
            hint='as in: name ~ "^(cat|dog)[0-9]+$"',
        )

    def _peek(self) -> str:
        return self._text[self._next : self._next + 1]

    def _state(self, test: Test | None = None, only: str | None = None) -> _State:
        self._states += 1
        if self._states > LONGEST:
            raise UnsupportedError(
                f"the pattern {self._text[:80]!r} has more than {LONGEST} states",
                hint="repeat less often: `x{1,500}` counts 500 times",
            )
        return _State(test, only=only)

    def _choice(self, depth: int) -> _Piece:
        if depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} groups inside of each other")
        ways = [self._sequence(depth)]
        while self._peek() == "|":
            self._next += 1
            ways.append(self._sequence(depth))
        if len(ways) == 1:
            return ways[0]
        first, last = self._state(), self._state()
        for way in ways:
            first.next.append(way.first)
            way.last.next.append(last)
        return _Piece(first, last)

    def _sequence(self, depth: int) -> _Piece:
        first = last = self._state()
        while self._peek() and self._peek() not in "|)":
            piece = self._repeated(depth)
            last.next.append(piece.first)
            last = piece.last
        return _Piece(first, last)

    def _repeated(self, depth: int) -> _Piece:
        start = self._next
        piece = self._atom(depth)
        end = self._next
        bounds = self._bounds()
        if bounds is None:
            return piece
        least, most = bounds
        if self._peek() == "?":  # which of several ways is taken makes no difference here
            self._next += 1
        if self._peek() in ("*", "+", "?") and self._peek():
            raise self._wrong(f"{self._peek()!r} behind a repetition")
        rest = self._next
        copies = [piece]
        for _ in range((least + 1 if most is None else most) - 1):
            self._next = start  # each copy has states of its own
            copies.append(self._atom(depth))
            assert self._next == end
        self._next = rest
        return self._chained(copies, least, most)

    def _chained(self, copies: list[_Piece], least: int, most: int | None) -> _Piece:
        """A sequence of pieces; those beyond the minimum number may be skipped."""
        first = last = self._state()
        end = self._state()
        for number, piece in enumerate(copies if most != 0 else []):
            if number >= least:
                last.next.append(end)
            last.next.append(piece.first)
            last = piece.last
        if most is None:
            copies[-1].last.next.append(copies[-1].first)
        last.next.append(end)
        return _Piece(first, end)

    def _bounds(self) -> tuple[int, int | None] | None:
        sign = self._peek()
        if sign and sign in "*+?":
            self._next += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        found = re.compile(r"\{([0-9]{1,4})(,([0-9]{0,4}))?\}").match(self._text, self._next)
        if found is None:
            return None
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and most < least:
            raise self._wrong(f"{found[0]}, which is less than nothing")
        self._next = found.end()
        return least, most

    def _atom(self, depth: int) -> _Piece:
        sign = self._peek()
        if sign == "(":
            return self._group(depth)
        if sign in ("*", "+", "?"):
            raise self._wrong(f"{sign!r}, and nothing to repeat")
        self._next += 1
        if sign in ("^", "$"):
            state, behind = self._state(only="start" if sign == "^" else "end"), self._state()
            state.next.append(behind)
            return _Piece(state, behind)
        if sign == ".":
            return self._character(lambda c: True)
        if sign == "[":
            return self._character(self._set())
        if sign == "\\":
            return self._character(self._escape())
        return self._character(self._same(sign))

    def _group(self, depth: int) -> _Piece:
        self._next += 1
        if self._text.startswith("?:", self._next):
            self._next += 2
        elif self._peek() == "?":
            raise self._wrong("a group that looks around or has a name")
        inner = self._choice(depth + 1)
        if self._peek() != ")":
            raise self._wrong("its end, expected `)`")
        self._next += 1
        return inner

    def _character(self, test: Test) -> _Piece:
        state, behind = self._state(test), self._state()
        state.next.append(behind)
        return _Piece(state, behind)

    def _same(self, sign: str) -> Test:
        if self._fold:
            folded = sign.casefold()
            return lambda c: c.casefold() == folded
        return lambda c: c == sign

    def _escape(self) -> Test:
        sign = self._peek()
        self._next += 1
        if sign.lower() in _CLASSES and sign:
            known = _CLASSES[sign.lower()]
            return known if sign.islower() else lambda c: not known(c)
        if not sign or (sign.isalnum() and sign not in _ESCAPES):
            self._next -= 1
            raise self._wrong(f"`\\{sign}`, which is not known here")
        return self._same(_ESCAPES.get(sign, sign))

    def _set(self) -> Test:
        negated = self._peek() == "^"
        self._next += negated
        tests: list[Test] = []
        while self._peek() != "]" or not tests:
            if not self._peek():
                raise self._wrong("its end, expected `]`")
            tests.append(self._range())
        self._next += 1
        chosen = tuple(tests)
        if negated:
            return lambda c: not any(test(c) for test in chosen)
        return lambda c: any(test(c) for test in chosen)

    def _range(self) -> Test:
        sign = self._peek()
        self._next += 1
        if sign == "\\":
            return self._escape()
        if self._peek() == "-" and self._text[self._next + 1 : self._next + 2] not in ("", "]"):
            self._next += 1
            last = self._peek()
            self._next += 1
            if last == "\\" or last < sign:
                raise self._wrong(f"the range {sign}-{last}, which is none")
            if self._fold:
                return lambda c: sign <= c <= last or sign <= c.swapcase() <= last
            return lambda c: sign <= c <= last
        return self._same(sign)


class _Machine:
    """Follows all ways through a pattern at once."""

    def __init__(self, piece: _Piece) -> None:
        self._first = piece.first
        self._last = piece.last
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[frozenset[int], int] = {}
        self._states: list[list[_State]] = []
        self._steps: dict[tuple[int, str], int] = {}
        self._found: list[bool] = []

    def finds(self, text: str) -> bool:
        """Whether the pattern is somewhere in a text."""
        here = self._number(self._closure([self._first], {"start"}))
        for character in text:
            if self._found[here]:
                return True
            ahead = self._steps.get((here, character))
            if ahead is None:
                ahead = self._step(here, character)
                self._steps[here, character] = ahead
                if len(self._steps) > REMEMBERED:
                    states = self._states[ahead]
                    self._forget()
                    ahead = self._number(states)
            here = ahead
        if self._found[here]:
            return True
        ends = {"end"} if text else {"start", "end"}
        return any(state is self._last for state in self._closure(self._states[here], ends))

    def _number(self, states: list[_State]) -> int:
        key = frozenset(map(id, states))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._states)
            self._states.append(states)
            self._found.append(any(state is self._last for state in states))
        return number

    def _step(self, here: int, character: str) -> int:
        ahead = [
            following
            for state in self._states[here]
            if state.test is not None and state.test(character)
            for following in state.next
        ]
        # A match may begin after every character.
        return self._number(self._closure([*ahead, self._first], set()))

    def _closure(self, states: list[_State], where: set[str]) -> list[_State]:
        """The states, and those that are reached from them without a character."""
        found: dict[int, _State] = {}
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if id(state) in found:
                continue
            found[id(state)] = state
            if state.test is None and (state.only is None or state.only in where):
                waiting.extend(state.next)
        return list(found.values())
