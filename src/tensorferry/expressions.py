"""Regular expressions that are compiled when they are first used.

A process that looks into one file imports thirty expressions and uses five of them, and compiling
one takes longer than all that it will ever match.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Expression:
    """Stands for a pattern, whose attributes it fetches one by one."""

    def __init__(self, text: Any, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)  # the next time, Python finds it without this method
        return found


def expression(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as `re.compile`; an error in the text shows when the expression is used."""
    return cast("re.Pattern[AnyStr]", _Expression(text, flags))
