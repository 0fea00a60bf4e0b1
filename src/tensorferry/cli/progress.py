"""Progress: one line on the standard error of a terminal, with rate and time left."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Literal, Self

from tensorferry.cli import text

# How often the line is drawn.
SECONDS = 0.1
BAR = 24


class ProgressLine:
    """Draws how far something is, if the standard error is a terminal; use it as a callback.

    Args:
        about: What is being done.
        unit: Of the counts: bytes, or the noun of what is counted.
    """

    def __init__(
        self, about: str, *, unit: Literal["bytes", "rows", "files", "tensors", "formats"]
    ) -> None:
        self._about = text.clean(about)
        self._unit = unit
        self._shown = sys.stderr.isatty()
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()

    def __call__(self, done: int, total: int | None) -> None:
        """Takes how many are done, and of how many."""
        now = time.monotonic()
        if not self._shown or (now - self._drawn < SECONDS and done != total):
            return
        self._drawn = now
        line = text.cut(self._line(done, total, now - self._started), text.width() - 1)
        sys.stderr.write(f"\r{line}{' ' * (self._width - text.columns_of(line))}")
        sys.stderr.flush()
        self._width = text.columns_of(line)

    def _line(self, done: int, total: int | None, seconds: float) -> str:
        rate = done / seconds if seconds > 0 else 0.0
        speed = f"{self._count(round(rate))}/s"
        if not total:
            return f"{self._about}  {self._count(done)}  {speed}"
        part = min(done / total, 1.0)
        full = round(part * BAR)
        left = (total - done) / rate if rate else 0.0
        bar = "█" * full + "░" * (BAR - full)
        return f"{self._about}  {bar} {part:4.0%}  {speed}  {duration(left)} left"

    def _count(self, count: int) -> str:
        return text.size(count) if self._unit == "bytes" else f"{count:,} {self._unit}"


def duration(seconds: float) -> str:
    """A time: "0.2 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
