"""Replacements: several files that appear together.

    with Replacement() as files:                    # in the order they were opened, the index last
        data, index = files.open("model.data"), files.open("model.index")

    with Replacement(together=names) as files:      # as one: a set of shards, which has no index
        sinks = [files.open(name) for name in names]

All files are written and synced before the first appears. Files that have an index appear one by
one, and the index decides. Files that have none are decided by a journal
(`tensorferry.storage.journal`): before it is there, the old set counts, and from then on the new
one. An object store has no rename and no locks: there, each object is whole, and objects appear one
by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from tensorferry.storage import sweeping, system
from tensorferry.storage.backend import Options, of_store
from tensorferry.storage.folders import absolute
from tensorferry.storage.journal import Lock, Member
from tensorferry.storage.serving import backend_of
from tensorferry.storage.sink import FileSink, ReplacingSink, open_local_sink
from tensorferry.storage.url import check_file, extended, is_url, localize

Path = str | os.PathLike[str]


class Replacement:
    """Several files that appear together: all are written and synced before the first appears.

    The files appear in the order in which they were opened: open the data first, then the index
    that refers to it. If anything fails before that, nothing is changed and nothing is left behind.

    Args:
        durable: Whether to wait until the disk has the bytes, and then the names.
        options: The storage options of URLs: see `docs/storage.md`.
        together: Files that count as one: a reader, a crash or an error sees all old or all new.
        main: The file by whose name readers know the set; by default the first of `together`.

    Raises:
        OSError: Another writer writes the same set (EBUSY); raised on entering.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        options: Options = None,
        together: Sequence[str] = (),
        main: str | None = None,
    ) -> None:
        self._durable = durable
        self._options = options
        self._sinks: list[FileSink] = []
        self._folders: dict[str, int | None] = {}
        is_one = bool(together) and _in_one_folder(together)
        self._lock = Lock(_real(main or together[0]), durable=durable) if is_one else None

    def open(self, path: Path) -> FileSink:
        """Opens one more file: see `tensorferry.storage.open_sink`."""
        path = localize(path)
        check_file(path)
        sink: FileSink
        if is_url(path):
            sink = backend_of(path).open_sink(path, of_store(self._options))
        else:
            sink = open_local_sink(path, durable=self._durable)
        self._sinks.append(sink)
        if isinstance(sink, ReplacingSink):
            folder = os.path.dirname(sink.path)
            if self._durable and folder not in self._folders:
                # Now, so that it cannot fail after everything is written.
                self._folders[folder] = system.open_folder(folder)
            sweeping.sweep(folder)
        return sink

    def join(self, path: str, suffix: str) -> FileSink:
        """Opens a file that counts as one with those that are open: what is beside one of them.

        Args:
            path: One of them.
            suffix: By which the name of the other is longer.

        Raises:
            OSError: Another writer writes the same set (EBUSY).
        """
        other = extended(path, suffix)
        known = [sink.path for sink in self._sinks if isinstance(sink, ReplacingSink)]
        is_local = bool(known) and len(known) == len(self._sinks)
        if self._lock is None and is_local and _in_one_folder([*known, other]):
            lock = Lock(_real(known[0]), durable=self._durable)
            lock.take()
            self._lock = lock
        return self.open(other)

    def __enter__(self) -> Self:
        if self._lock is not None:
            self._lock.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sinks, self._sinks = self._sinks, []
        try:
            if kind is None:
                self._commit(sinks)
        finally:
            for sink in sinks:
                sink.abort()
            if self._lock is not None:
                self._lock.release()
            for folder in self._folders.values():
                system.close_folder(folder)
            self._folders.clear()

    def _commit(self, sinks: list[FileSink]) -> None:
        """Lets the files appear, and takes those out of the list that need no end any more."""
        for sink in sinks:
            sink.prepare()
        locals_ = [sink for sink in sinks if isinstance(sink, ReplacingSink)]
        if self._lock is not None and len(locals_) == len(sinks) > 1:
            self._decide(locals_, self._lock)
            sinks.clear()
            self._commit_as_one(locals_, self._lock)
        else:
            self._commit_in_order(sinks)
        self._sync()

    def _commit_in_order(self, sinks: list[FileSink]) -> None:
        new: list[str] = []
        while sinks:
            try:
                sinks[0].commit()
            except BaseException:
                is_whole = len(sinks) == 1 and _is_committed(sinks[0])
                if not is_whole:
                    for path in new:  # that no index leads to
                        with suppress(OSError):
                            os.unlink(path)
                raise
            sink = sinks.pop(0)
            if isinstance(sink, ReplacingSink) and not sink.replaces:
                new.append(sink.path)

    def _decide(self, sinks: list[ReplacingSink], lock: Lock) -> None:
        name = os.path.basename
        lock.decide(
            [Member(name(sink.path), name(sink.temporary), sink.identify()) for sink in sinks]
        )

    def _commit_as_one(self, left: list[ReplacingSink], lock: Lock) -> None:
        """Gives the files their names. There is no way back: as many as possible get theirs."""
        failure: BaseException | None = None
        try:
            self._sync()
        except BaseException as error:
            failure = error
        for _ in range(2):
            for sink in list(left):
                try:
                    sink.commit()
                    left.remove(sink)
                except BaseException as error:
                    failure = failure or error
        for sink in left:
            sink.leave()
        if not left:
            lock.end()
        if failure is not None:
            raise failure

    def _sync(self) -> None:
        for folder in self._folders.values():
            system.sync_folder(folder)


@contextmanager
def only_writer(main: str, *, patience: float | None = None) -> Iterator[None]:
    """Lets nobody else write files that belong together, by the name of their index.

    Args:
        main: The index. Nothing is locked in a store.
        patience: How many seconds to wait for another writer; by default only a moment.

    Raises:
        OSError: Another writer is at work (EBUSY).
    """
    path = localize(main)
    if is_url(path):
        yield
        return
    lock = Lock(absolute(path), durable=False)
    lock.take() if patience is None else lock.take(patience=patience)
    try:
        yield
    finally:
        lock.release()


def _is_committed(sink: FileSink) -> bool:
    return isinstance(sink, ReplacingSink) and sink.is_committed


def _real(path: str) -> str:
    folder, name = os.path.split(localize(path))
    return os.path.join(os.path.realpath(folder or "."), name)


def _in_one_folder(names: Sequence[str]) -> bool:
    """Whether files lie in one local folder, and none of them is a link."""
    names = [localize(name) for name in names]
    if len(names) < 2 or any(map(is_url, names)):
        return False
    reals = [_real(name) for name in names]
    return (
        len({os.path.dirname(real) for real in reals}) == 1
        and [os.path.realpath(real) for real in reals] == reals
    )
