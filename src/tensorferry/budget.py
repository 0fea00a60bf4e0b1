"""Budgets: what one file may make us allocate, or spend time on, beyond the bytes that it holds.

Every open file has one `Budget` (`Source.budget`). Code that expands few bytes to many (a
compressed member, a chunk, one number that fills a shape) takes the size from the budget before it
allocates. The limit is `limits.memory`, or `RATIO` times the size of the file where that is more. A
tensor that is read a second time is not counted again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from threading import Lock

from tensorferry import _native, limits
from tensorferry.errors import FormatError, LimitError

RATIO = 100
"""A file may take so many times its size in memory, whatever `limits.memory` says."""

PATHS_RATIO, LEAST_PATHS = 16, 1 << 20
"""The paths in a file may be so many times as long as their parts, or as many characters."""

PATH = 16
"""What has a path counts as so many bytes of names, where its own name is not known."""

FEW_NAMES = 64
"""So many names take no time, wherever they fall."""


class Budget:
    """Counts what a file expands to.

    Args:
        stored: Number of bytes of the file.
    """

    __slots__ = ("_lock", "_taken", "stored", "total")

    def __init__(self, stored: int) -> None:
        self.stored = stored
        self.total = 0
        self._taken: dict[Hashable, int] = {}
        self._lock = Lock()

    @property
    def limit(self) -> int:
        """Number of bytes that the file may take."""
        return allowed(self.stored)

    def take(
        self,
        size: int,
        *,
        what: str,
        key: Hashable = None,
        offset: int | None = None,
        path: str | None = None,
    ) -> None:
        """Counts bytes that are about to be allocated.

        Args:
            size: Number of bytes.
            what: Names in errors what takes them.
            key: Identifies it, so that reading it again counts nothing; None counts always.
            offset: Its position in the file.
            path: The file.

        Raises:
            LimitError: It, or all that was counted, is more than the file may take.
        """
        with self._lock:
            known = 0 if key is None else self._taken.get(key, 0)
            total = self.total + max(0, size - known)
            if total > self.limit:
                more = f"{what} takes {size} bytes"
                if total > size:
                    more += f", {total} together with what was read before"
                raise _too_much(more, self.stored, offset, path)
            self.total = total
            if key is not None:
                self._taken[key] = max(size, known)


def allowed(stored: int) -> int:
    """Number of bytes that may be allocated for a file of so many bytes."""
    return max(limits.memory, RATIO * stored)


def check_size(size: int, *, what: str, held: int = 0) -> None:
    """Refuses to allocate what neither the file nor `limits.memory` justifies.

    Args:
        size: Number of bytes.
        what: Names in the error what takes them.
        held: Number of bytes in the file that describe it.

    Raises:
        LimitError: They are more than both allow.
    """
    if size > allowed(held):
        raise _too_much(f"{what} takes {size} bytes", held, None, None)


def room_for_paths(stored: int) -> int:
    """How many characters the paths ("encoder/layer_0/kernel") in a file may have together.

    Paths share all but their ends: a small file could ask for very many long ones.

    Args:
        stored: Number of bytes of the names that they consist of, or of all that has them.
    """
    return max(LEAST_PATHS, PATHS_RATIO * stored)


def check_spread(names: Collection[str | bytes], *, offset: int | None = None) -> None:
    """Refuses names of columns that a hash table of PyArrow's does not keep apart.

    Its hash has no secret: a file can bring names that all fall into one place, where each is
    compared with all before it, so that a few megabytes take minutes.

    Raises:
        FormatError: They are such names.
    """
    if len(names) <= FEW_NAMES:
        return
    known = [n if isinstance(n, bytes) else n.encode(errors="surrogatepass") for n in names]
    if not _native.names_are_spread(known):
        raise FormatError(
            f"{len(known)} columns have names that fall into one place of a hash table",
            offset=offset,
            hint="rename them; whoever named them so wants to slow their readers down",
        )


def _too_much(what: str, stored: int, offset: int | None, path: str | None) -> LimitError:
    return LimitError(
        f"{what}; {limits.memory} are allowed, or {RATIO} times the {stored} that are stored",
        path=path,
        offset=offset,
        hint="raise tensorferry.limits.memory if the file is to be trusted",
    )
