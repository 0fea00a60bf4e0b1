"""Progress of long calls, reported to a function or shown on the standard error.

    ferry.convert("a.tfrecord", "b.parquet", progress=True)
    ferry.verify("a.tfrecord", progress=lambda done, total: print(done, total))

A long call reports to a `Progress` how much is done, and the total if it is known. `progress=True`
shows a bar: tqdm's if it is installed, which also works in notebooks, or else one line on a
terminal, as the command does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tensorferry import display

if TYPE_CHECKING:
    import threading

Progress = Callable[[int, int | None], None]
"""Is told how many parts are done, and how many there are, if that is known."""

Unit = Literal["bytes", "rows", "records", "files", "tensors", "formats", "tasks", "ways"]

# How often the line is drawn, and after how many seconds at first: what is done by then needs none.
SECONDS = 0.1
SILENT = 1.0
# The bar is as wide as the line has room for, between these two.
BAR, SHORTEST = 24, 6
# The units for which the speed is shown.
RATED = ("bytes", "rows", "records")


def following(
    given: Progress | bool | None, about: object, unit: Unit
) -> AbstractContextManager[Progress | None]:
    """Returns the function that a long call reports to; None if there is none.

    Args:
        given: What the user passed as `progress=`.
        about: The path that is shown.
        unit: What is counted.
    """
    if given is None or given is False:
        return nullcontext()
    if given is not True:
        return nullcontext(given)
    name = display.shown(str(about)).replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _bar(display.clean(name)[-40:], unit)


class Meter:
    """Counts the bytes that this process has gone over.

    Opening a file, finding its schema or reading one tensor tells no progress. What such steps go
    over they add here, piece by piece, and a `WaitingLine` shows how fast that is.
    """

    __slots__ = ("nbytes",)

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> None:
        """Takes how large the last piece was."""
        self.nbytes += nbytes


METER = Meter()


class Tally:
    """Adds up the amounts of pieces, and reports the sum.

    Args:
        tell: Receives the sums; None to report nothing.
        total: The total amount, if known.
    """

    def __init__(self, tell: Progress | None, total: int | None = None) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def add(self, count: int) -> None:
        """Adds the amount of the last piece."""
        self._done += count
        if self._tell is not None:
            self._tell(self._done, self._total)


def _bar(about: str, unit: Unit) -> TqdmBar | ProgressLine:
    try:
        return TqdmBar(about, unit=unit)
    except ImportError:
        return ProgressLine(about, unit=unit)


class TqdmBar:
    """A bar of tqdm's; use it as a callback.

    Raises:
        ImportError: tqdm is not installed.
    """

    def __init__(self, about: str, *, unit: Unit) -> None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a notebook has no widgets
            from tqdm.auto import tqdm

            scaled = {"unit": "B", "unit_scale": True} if unit == "bytes" else {"unit": f" {unit}"}
            self._bar: Any = tqdm(desc=about, **scaled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def __call__(self, done: int, total: int | None) -> None:
        """Takes how many are done, and of how many."""
        if total is not None and self._bar.total != total:
            self._bar.total = total
        self._bar.update(done - self._bar.n)


class ProgressLine:
    """Draws the progress on one line, if the standard error is a terminal; use it as a callback.

    Args:
        about: The name that is shown.
        unit: The unit of the counts: bytes, or a noun.
        shown: Whether to draw; by default if the standard error is a terminal.
    """

    def __init__(self, about: str, *, unit: Unit, shown: bool | None = None) -> None:
        self._about = display.clean(about)
        self._unit = unit
        self._shown = sys.stderr.isatty() if shown is None else shown
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
        if not self._shown or now - self._started < SILENT:
            return
        if now - self._drawn < SECONDS and done != total:
            return
        self._drawn = now
        self._put(self._line(done, total, now - self._started, _width() - 1))

    def _put(self, line: str) -> None:
        sys.stderr.write(f"\r{line}{' ' * (self._width - display.columns_of(line))}")
        sys.stderr.flush()
        self._width = display.columns_of(line)

    def _line(self, done: int, total: int | None, seconds: float, room: int) -> str:
        """The name, the bar and how fast it goes; the name gives way first, and then the bar."""
        rate = done / seconds if seconds > 0 else 0.0
        is_rated = self._unit in RATED
        speed = f"{self._count(round(rate))}/s" if is_rated else self._byte_rate(seconds)
        if not total:
            return self._fit(self._about, "  ".join(filter(None, (self._count(done), speed))), room)
        part = min(done / total, 1.0)
        left = f"{duration((total - done) / rate)} left" if rate else ""
        amount = "" if is_rated else f"{done:,} of {total:,} {self._unit}"
        tail = "  ".join(filter(None, (f"{part:4.0%}", amount, speed, left)))
        width = min(BAR, max(SHORTEST, room - display.columns_of(self._about) - len(tail) - 3))
        full = round(part * width)
        return self._fit(self._about, f"{'█' * full}{'░' * (width - full)} {tail}", room)

    def _byte_rate(self, seconds: float) -> str:
        """How fast bytes go, where the unit is not one of which many come in a second."""
        return ""

    @staticmethod
    def _fit(about: str, rest: str, room: int) -> str:
        name = display.cut(about, max(room - display.columns_of(rest) - 2, 0))
        return display.cut(f"{name}  {rest}" if name.strip("…") else rest, room, end=True)

    def _count(self, count: int) -> str:
        return display.size(count) if self._unit == "bytes" else f"{count:,} {self._unit}"


class WaitingLine(ProgressLine):
    """Draws the elapsed time, and the progress as soon as something is reported.

    A thread draws, because some long calls report nothing: opening a remote file, or one read of a
    large tensor.
    """

    _thread: threading.Thread | None = None
    _told: tuple[int, int | None] | None = None
    _before = 0  # what the meter has counted already

    def __enter__(self) -> Self:
        if self._shown:
            import threading

            self._before = METER.nbytes
            self._end = threading.Event()
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._end.set()
            self._thread.join()
        super().__exit__(kind, error, traceback)

    def __call__(self, done: int, total: int | None) -> None:
        """Takes how many are done, and of how many."""
        self._told = done, total

    def _draw(self) -> None:
        pause = SILENT
        while not self._end.wait(pause):
            pause = SECONDS
            seconds = time.monotonic() - self._started
            room = _width() - 1
            if self._told is None:
                amount = display.size(METER.nbytes - self._before) if self._is_metered else ""
                known = (amount, self._byte_rate(seconds), duration(seconds))
                line = self._fit(self._about, f"reading  {'  '.join(filter(None, known))}", room)
            else:
                line = self._line(*self._told, seconds, room)
            self._put(line)

    @property
    def _is_metered(self) -> bool:
        return METER.nbytes > self._before

    def _byte_rate(self, seconds: float) -> str:
        nbytes = METER.nbytes - self._before
        return f"{display.size(round(nbytes / seconds))}/s" if nbytes and seconds else ""


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


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
