"""Jobs: work that takes longer than a question may, done in the background.

A job is known by what it does, so that asking twice starts it once. It collects items, of which a
page asks for those it does not have yet, and it ends early when nobody has asked for long.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from tensorferry.classes import dataclass, field
from tensorferry.errors import FerryError
from tensorferry.storage import cuts

RUNNING = 2
"""How many jobs run at the same time."""

KEPT = 48
"""How many jobs are remembered."""

PATIENCE = 60.0
"""After so many seconds without a question, a job ends; a page that is hidden asks seldom."""

LEFT = 5.0
"""After so many seconds without a question, a job gives way to one that waits."""

CHECKED = 0.1
"""After so many seconds, and at the end, a job looks whether its files were cut."""

ITEMS = 200_000
"""The most items of a job."""


class Cancelled(Exception):  # noqa: N818  # it is no error
    """The job was asked to end."""


@dataclass
class Job:
    """Some work, and how far it is.

    Attributes:
        items: The items that were found so far.
        done: How much is done.
        total: How much there is to do, if that is known.
        finished: Whether it has ended.
        error: The reason why it ended early.
        hint: What to do about the error.
        full: Whether it ended because there are too many items.
    """

    items: list[Any] = field(default_factory=list)
    done: int = 0
    total: int | None = None
    finished: bool = False
    error: str | None = None
    hint: str | None = None
    full: bool = False
    _asked: float = field(default_factory=time.monotonic)
    _ended: bool = False

    def progress(self, done: int, total: int | None) -> None:
        """Takes note of how far the work is; ends it if nobody wants it any more."""
        self.done, self.total = done, total
        if self._ended or time.monotonic() - self._asked > PATIENCE:
            raise Cancelled

    @property
    def is_left(self) -> bool:
        """Whether nobody seems to wait for it."""
        return not self.finished and time.monotonic() - self._asked > LEFT

    @property
    def is_ended(self) -> bool:
        """Whether the work was asked to end."""
        return self._ended

    def end(self) -> None:
        """Asks the work to end."""
        self._ended = True

    def stop(self) -> None:
        """Takes note that the work ended before it was done."""
        self.error, self.finished = "stopped", True

    def asked(self) -> None:
        """Takes note that somebody wants it."""
        self._asked = time.monotonic()

    def since(self, place: int, most: int = 5000) -> dict[str, Any]:
        """How far it is, and the items from a place on."""
        self.asked()
        # The other thread appends: what is read first must not promise more than what comes later.
        finished = self.finished
        items = self.items[place : place + most]
        return {
            "items": items,
            "next": place + len(items),
            "done": self.done,
            "total": self.total,
            "finished": finished and place + len(items) >= len(self.items),
            "error": self.error,
            "hint": self.hint,
            "full": self.full,
        }

    def run(
        self, work: Callable[[Job], Iterator[Any]], check: Callable[[], None] = lambda: None
    ) -> None:
        """Does the work.

        Args:
            work: Gives the items.
            check: Raises an error if what is read was cut meanwhile.
        """
        whole, checked = cuts.pages(), time.monotonic()
        try:
            for item in work(self):
                cuts.check(whole)
                if time.monotonic() - checked > CHECKED:
                    check()
                    checked = time.monotonic()
                self.items.append(item)
                if len(self.items) >= ITEMS:
                    self.full = True
                    break
            cuts.check(whole)
            check()
        except Cancelled:
            self.stop()
        except FerryError as error:
            self.error, self.hint = error.message, error.hint
        except (OSError, MemoryError) as error:
            self.error = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.finished = True


class Jobs:
    """All jobs of a server.

    Args:
        check: See `Job.run`.
    """

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._jobs: OrderedDict[object, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._turns = threading.Semaphore(RUNNING)

    def get(self, key: object, work: Callable[[Job], Iterator[Any]]) -> Job:
        """The job of a key; it is started if there is none, or if it was stopped."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or job.error == "stopped":
                job = self._jobs[key] = Job()
                thread = threading.Thread(target=self._run, args=(job, work), daemon=True)
                thread.start()
            self._jobs.move_to_end(key)
            job.asked()
            while len(self._jobs) > KEPT:
                self._jobs.popitem(last=False)[1].end()
            return job

    def _run(self, job: Job, work: Callable[[Job], Iterator[Any]]) -> None:
        while not self._turns.acquire(timeout=0.5):
            if job.is_ended:
                job.stop()
                return
            with self._lock:
                for other in self._jobs.values():
                    if other.is_left and other is not job:
                        other.end()
        try:
            job.run(work, self._check)
        finally:
            self._turns.release()

    def end(self) -> None:
        """Asks all of them to end."""
        with self._lock:
            for job in self._jobs.values():
                job.end()
