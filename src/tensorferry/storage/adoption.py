"""Adoption: files that several processes wrote get their names together.

    parts = Parts("s3://bucket/train.tfrecord", "1f3a90c2")
    parts.path(3)                       # where the fourth writer puts its file, whole
    parts.adopt([0, 1, 2, 3], names)    # by one process, when all of them are there
    parts.remove()                      # or when it was all in vain

Parts lie in a hidden folder beside their target, `.train.tfrecord.1f3a90c2.parts/00003`. Its name
is not used a second time, and no reader looks into it. In a local folder the parts appear as one,
by a journal (`tensorferry.storage.journal`); an object store copies each of them to its name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tensorferry import storage
from tensorferry.storage import folders, sweeping, temporary
from tensorferry.storage.backend import Options, of_store
from tensorferry.storage.journal import Lock, Member
from tensorferry.storage.serving import backend_of
from tensorferry.storage.sink import replace
from tensorferry.storage.url import beside, is_url, localize

MOVES = 16
"""Number of objects that are moved at a time."""


class Parts:
    """The files of several writers, before they have their names.

    Args:
        target: The path or URL beside which they are written.
        job: Eight hexadecimal digits, which no other job has.
        options: The storage options of a URL.
        durable: Whether to wait until the disk has the names.
    """

    def __init__(
        self, target: str, job: str, *, options: Options = None, durable: bool = True
    ) -> None:
        self._target = localize(target)
        self._job = job
        self._options = options
        self._durable = durable
        name = os.path.basename(self._target)[: temporary.LONGEST]
        self.folder = beside(self._target, f".{name}.{job}.parts")

    def path(self, number: int) -> str:
        """Where a writer puts its file."""
        return f"{self.folder}/{number:05}"

    def adopt(self, numbers: Sequence[int], names: Sequence[str]) -> None:
        """Gives the parts their names, in place of the files that have these names.

        Args:
            numbers: Of the parts.
            names: The path or URL of each, beside the target.

        Raises:
            FileNotFoundError: A part is not there, as seen from this machine.
            OSError: Another writer writes the same set (EBUSY), or the system's own error.
        """
        paths = [self.path(number) for number in numbers]
        if is_url(self._target):
            self._move(paths, names)
        else:
            self._rename(paths, [os.path.abspath(localize(name)) for name in names])
        self.remove()

    def _move(self, paths: Sequence[str], names: Sequence[str]) -> None:
        backend, options = backend_of(self._target), of_store(self._options)
        moved: list[str] = []

        def move(path: str, name: str) -> None:
            backend.move(path, name, options)
            moved.append(name)

        try:
            with ThreadPoolExecutor(MOVES) as pool:
                for _ in pool.map(move, paths, names):
                    pass
        except BaseException:
            for name in moved:  # some shards of a set are of no use
                with suppress(OSError):
                    backend.remove(name, options)
            raise

    def _rename(self, paths: Sequence[str], names: Sequence[str]) -> None:
        for path in paths:
            if not os.path.isfile(path):
                raise FileNotFoundError(
                    errno.ENOENT,
                    "a part is not there, as seen from this machine: all machines of the cluster "
                    "must see the same folder, or write to a URL",
                    path,
                )
        folder = os.path.realpath(os.path.dirname(names[0]))
        lock = Lock(os.path.join(folder, os.path.basename(names[0])), durable=self._durable)
        lock.take()
        try:
            self._rename_as_one(paths, folder, [os.path.basename(name) for name in names], lock)
        finally:
            lock.release()
        if self._durable:
            folders.sync(folder)
        sweeping.sweep(folder)

    def _rename_as_one(
        self, paths: Sequence[str], folder: str, names: Sequence[str], lock: Lock
    ) -> None:
        """Renames the parts to temporary names, decides, and renames them to their own.

        The digits of the temporary names are those of the job. Sweeping takes the files for those
        of another machine, and leaves them alone for a day.
        """
        hidden: list[str] = []
        try:
            for number, (path, name) in enumerate(zip(paths, names, strict=True)):
                os.utime(path)
                short = name[: temporary.LONGEST]
                hidden.append(f".{short}.ferry-{self._job}{number:08x}.tmp")
                os.rename(path, os.path.join(folder, hidden[-1]))
            members = []
            for name, secret in zip(names, hidden, strict=True):
                found = os.stat(os.path.join(folder, secret))
                members.append(Member(name, secret, temporary.identity(found)))
            lock.decide(members)
        except BaseException:
            for secret in hidden:
                storage.remove(os.path.join(folder, secret))
            raise
        for name, secret in zip(names, hidden, strict=True):
            replace(os.path.join(folder, secret), os.path.join(folder, name))
        lock.end()

    def remove(self) -> None:
        """Removes the parts that are there, and their folder."""
        with suppress(FileNotFoundError):
            for path in storage.list_directory(self.folder, options=self._options):
                storage.remove(path, options=self._options)
        if not is_url(self._target):
            with suppress(OSError):
                for name in os.listdir(self.folder):  # of writers that were killed
                    temporary.remove(os.path.join(self.folder, name))
                os.rmdir(self.folder)
