"""Names: which names fit a pattern, and other names for tensors.

    is_match("encoder/kernel", ["encoder/*"])                                 # True
    Renaming.parse(["a=b", "encoder/*=model.encoder.*"])("encoder/kernel")    # model.encoder.kernel

Each `*` of a new name stands for what the `*` of the old name matched, in their order. The first
rule that fits is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tensorferry.errors import UnsupportedError


def is_match(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name fits one of some patterns, or there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


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
            pattern = "(.*)".join(map(re.escape, old.split("*")))
            match = re.fullmatch(pattern, name, re.DOTALL)
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
