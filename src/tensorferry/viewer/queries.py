"""Queries: the parameters of a question, checked."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from tensorferry.errors import UnsupportedError

LONGEST = 16_000
"""The most characters of a question; a name of a tensor is sent as its number, not as text."""


class Query:
    """The parameters of a question.

    Args:
        text: What stands behind the question mark of a URL.

    Raises:
        UnsupportedError: It is too long, or a parameter is there twice.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise UnsupportedError(f"a question of {len(text)} characters, expected {LONGEST}")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=40)
        self._given = dict(pairs)
        if len(self._given) != len(pairs):
            raise UnsupportedError("a parameter is given twice")

    def text(self, name: str, default: str = "") -> str:
        """A parameter that is text."""
        return self._given.get(name, default)

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 53) -> int:
        """A parameter that is an integer, moved into a range.

        Raises:
            UnsupportedError: It is none.
        """
        return min(max(self._integer(name, self._given.get(name, str(default))), least), most)

    def numbers(self, name: str, *, most: int) -> list[int] | None:
        """Several integers with commas between; None if the parameter is not there."""
        text = self._given.get(name)
        if text is None:
            return None
        parts = text.split(",") if text else []
        if len(parts) > most:
            raise UnsupportedError(f"{name} has {len(parts)} numbers, expected at most {most}")
        return [self._integer(name, part) for part in parts]

    def axes(self, name: str) -> Mapping[int, int]:
        """Indices by axis, as in "0:3,2:1"."""
        found = {}
        for part in filter(None, self._given.get(name, "").split(",")[:64]):
            axis, _, index = part.partition(":")
            found[self._integer(name, axis)] = self._integer(name, index)
        return found

    def _integer(self, name: str, text: str) -> int:
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise UnsupportedError(f"the parameter {name} is {text[:20]!r}, expected an integer")
        return int(text)
