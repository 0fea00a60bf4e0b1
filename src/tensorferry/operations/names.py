"""Names: which names fit a pattern, and other names for tensors.

    is_match("encoder/kernel", ["encoder/*"])                                 # True
    is_match("layers.7.bias", ["layers.{0..11}.{kernel,bias}"])               # True
    choose(["a", "b", "c"], ["c", "a"])                                       # ["c", "a"]
    Renaming.parse(["a=b", "encoder/*=model.encoder.*"])("encoder/kernel")    # model.encoder.kernel

A pattern has `*`, `?` and `[abc]` as those of files, and braces as a shell has them: `{0..11}`,
`{0,2,8..11}`, `{kernel,bias}`. Repeated layers are listed in the same way.

Each `*` of a new name stands for what the `*` of the old name matched, in their order. The first
rule that fits is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.expressions import expression

WIDEST = 100_000
"""The most numbers that a range in braces stands for."""

_BRACES = expression(r"\{([^{}]*)\}")
_RANGE = expression(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_COMMA = expression(r",(?![^{\[]*[}\]])")


def is_match(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name fits one of some patterns, or there are none.

    Raises:
        UnsupportedError: A range in braces has too many numbers.
    """
    return not patterns or any(
        name == pattern or _compiled(pattern).fullmatch(name) for pattern in patterns
    )


def parse_patterns(given: Iterable[str]) -> list[str]:
    """The names and patterns in texts like "a,b": commas inside of brackets part nothing."""
    return [part.strip() for text in given for part in _COMMA.split(text) if part.strip()]


def choose(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that fit, in the order of the patterns; a pattern without a name stays as it is."""
    found: list[str] = []
    for pattern in patterns:
        fitting = [pattern] if pattern in names else [n for n in names if is_match(n, [pattern])]
        found += fitting or [pattern]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression."""
    parts, end = [], 0
    for braces in _BRACES.finditer(pattern):
        choices = braces[1].split(",")
        if len(choices) == 1 and not _RANGE.fullmatch(braces[1]):
            continue  # braces around one text are themselves, as in a shell
        parts.append(_glob(pattern[end : braces.start()]))
        parts.append(f"(?:{'|'.join(map(_choice, choices))})")
        end = braces.end()
    return re.compile("".join([*parts, _glob(pattern[end:])]), re.DOTALL)


def _choice(text: str) -> str:
    """One of the texts in braces."""
    bounds = _RANGE.fullmatch(text)
    if bounds is None:
        return _glob(text)
    first, last = int(bounds[1]), int(bounds[2])
    if last - first >= WIDEST:
        raise UnsupportedError(
            f"the range {{{text}}} has {last - first + 1:,} numbers, expected {WIDEST:,} at most",
            hint="`*` stands for all of them",
        )
    width = len(bounds[1]) if bounds[1].startswith("0") else 0
    # Not in the middle of a number: {1..2} does not stand for a part of 12.
    numbers = "|".join(f"{number:0{width}}" for number in range(first, last + 1))
    return f"(?<![0-9])(?:{numbers})(?![0-9])"


def _glob(text: str) -> str:
    """A pattern without braces, to stand inside of a regular expression."""
    from fnmatch import translate  # imported late: most names are no patterns

    return translate(text)[4:-3]  # without the flags around it, and the end


def _match(name: str, old: str) -> re.Match[str] | None:
    """What each `*` of a rule's old name stands for in a name."""
    return re.fullmatch("(.*)".join(map(re.escape, old.split("*"))), name, re.DOTALL)


def is_renamed(name: str, old: str) -> bool:
    """Whether a rule with this old name is about a tensor."""
    return _match(name, old) is not None


@dataclass(frozen=True)
class Renaming:
    """Rules, in their order.

    Attributes:
        rules: Pairs of an old name and a new one; both may hold `*`.
    """

    rules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, given: Iterable[str] | Mapping[str, str] | None) -> Renaming:
        """The rules in texts like "old=new", or in a dict.

        Raises:
            UnsupportedError: A text has no "=", or a new name has more `*` than the old one.
        """
        if isinstance(given, Mapping):
            pairs = list(given.items())
        else:
            pairs = []
            for text in given or ():
                old, equals, new = text.partition("=")
                if not equals or not old or not new:
                    raise UnsupportedError(
                        f"{text!r} says no new name", hint='expected "old=new", or "a/*=b.*"'
                    )
                pairs.append((old, new))
        for old, new in pairs:
            if new.count("*") > old.count("*"):
                raise UnsupportedError(f"{new!r} has more * than {old!r}, expected as many")
        return cls(tuple(pairs))

    def __call__(self, name: str) -> str:
        """The new name of a tensor."""
        for old, new in self.rules:
            match = _match(name, old)
            if match is not None:
                parts = new.split("*")
                pieces = [parts[0]]
                for found, part in zip(match.groups(), parts[1:], strict=False):
                    pieces += [found, part]
                return "".join(pieces)
        return name

    def __bool__(self) -> bool:
        return bool(self.rules)

    def apply(self, names: Iterable[str]) -> dict[str, str]:
        """New names by old ones.

        Raises:
            UnsupportedError: Two tensors get the same name.
        """
        found: dict[str, str] = {}
        taken: dict[str, str] = {}
        for name in names:
            new = found[name] = self(name)
            other = taken.setdefault(new, name)
            if other != name:
                raise UnsupportedError(f"{other!r} and {name!r} would both be called {new!r}")
        return found
