"""Staging: files that many write, on whichever machine, and that appear together.

    with staged("out.tfrecord", names, plan=plan) as stage:     # names are known, and runs resumed
        ...                         # workers: write stage.path(name), then stage.finish(name, ...)

    stage = Stage.anew("out.tfrecord")                          # names are known in the end
    ...                             # workers: write stage.path("00003")
    stage.publish({"00003": "out.tfrecord-00000-of-00001"})     # or stage.clear()

Each worker writes a whole file into a hidden folder beside the target, `.out.tfrecord.ferry-parts`.
A file that is written twice, because its worker was lost, is the same file. When all are there,
whoever began lets them appear: local files by renaming them, with a journal, so that readers see
all old or all new (`tensorferry.storage.journal`); objects of a store, which has no rename, by
copies inside the store. Then the folder is removed.

A run that can be resumed has a file `plan.json` in the folder, which says what the files are parts
of, and a note beside each file that it is whole, by its digest or its version in the store. Whoever
comes back with the same plan finds what is done; with another plan, everything starts anew. A
folder that is a link, or belongs to somebody else, is refused; one that has anything but files in
it starts anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from tensorferry import storage
from tensorferry.classes import dataclass, replace as changed
from tensorferry.storage import leftovers, sweeping, system, temporary
from tensorferry.storage.attributes import Attributes
from tensorferry.storage.backend import Options, of_store
from tensorferry.storage.folders import make_folder, sync
from tensorferry.storage.journal import STAGING, Lock, Member
from tensorferry.storage.serving import backend_of
from tensorferry.storage.sink import replace
from tensorferry.storage.temporary import identity_of
from tensorferry.storage.url import beside, is_url, localize

PLAN = "plan.json"
NOTE = ".json"
VERSION = 1
# How many objects are copied or removed at once.
AT_ONCE = 16
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder in which the parts of one target are gathered. It can be pickled.

    Attributes:
        folder: Its path or URL.
        options: Of the store of a URL.
        durable: Whether to wait until the disk has the bytes of a file, and then the names.
        resumes: Whether files of an earlier run may be there.
    """

    folder: str
    options: Mapping[str, Any] | None = None
    durable: bool = True
    resumes: bool = False

    @classmethod
    def anew(cls, target: str, *, options: Options = None, durable: bool = True) -> Stage:
        """A folder beside a target that no other writer has, now or later.

        Args:
            target: The path or URL of a file.
            options: Of the store of a URL.
            durable: See the class.
        """
        name = f"{_base(target)[: temporary.LONGEST]}.{os.urandom(4).hex()}"
        return cls(_folder_of(localize(target), name), options, durable)

    def path(self, name: str) -> str:
        """Where a worker writes the file that will have a name, or the part of that name."""
        return self._at(_base(name))

    def _at(self, base: str) -> str:
        join = posixpath.join if is_url(self.folder) else os.path.join
        return join(self.folder, base)

    def finish(self, name: str, note: Mapping[str, Any]) -> None:
        """Says that a file is whole, and keeps what its worker found.

        Args:
            name: Which the file will have.
            note: Whatever JSON takes.
        """
        about = {"version": version_of(self.path(name), self.options), "note": dict(note)}
        self._write(_base(name) + NOTE, about)

    def finished(self, name: str) -> dict[str, Any] | None:
        """What an earlier run has noted of a file, if it is there and still the same."""
        about = self._read(_base(name) + NOTE) if self.resumes else None
        if about is None or not isinstance(about.get("note"), dict):
            return None
        try:
            is_same = about.get("version") == version_of(self.path(name), self.options)
        except FileNotFoundError:
            return None
        return about["note"] if is_same else None

    def publish(self, names: Mapping[str, str]) -> None:
        """Lets parts appear together, in place of the files that have their names.

        Args:
            names: The path or URL of each part, beside the target.

        Raises:
            FileNotFoundError: A part is not there, as seen from this machine.
            OSError: Another writer writes the same files (EBUSY), or the system's own error.
        """
        names = {part: localize(name) for part, name in names.items()}
        with _only_writer(next(iter(names.values())), durable=self.durable) as lock:
            _publish(self, names, lock)
        self.clear()

    def clear(self) -> None:
        """Removes the folder with all that is in it."""
        if not is_url(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        backend, options = backend_of(self.folder), of_store(self.options)
        found = list(backend.list_files(self.folder + "/", options, deep=True))
        # The plan goes last: without it, nobody would know what the others are.
        found.sort(key=lambda url: url.endswith(f"/{PLAN}"))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(backend.remove, url, options) for url in found]:
                done.result()

    def _write(self, base: str, tree: Mapping[str, Any]) -> None:
        path = self._at(base)
        # A note that is lost costs the time of its task, and nothing else.
        with storage.open_sink(path, durable=False, options=self.options) as sink:
            sink.write(json.dumps(tree).encode())

    def _read(self, base: str) -> dict[str, Any] | None:
        if not is_url(self.folder):
            return leftovers.read(self._at(base))
        try:
            with storage.open_source(self._at(base), options=self.options) as source:
                if source.size is None or source.size > leftovers.LARGEST:
                    return None
                return leftovers.parse(b"".join(_blocks(source)))
        except OSError:
            return None


@contextmanager
def staged(
    target: str,
    names: Sequence[str],
    *,
    plan: Mapping[str, Any],
    options: Options = None,
    durable: bool = True,
    keep: bool = False,
) -> Iterator[Stage]:
    """Gathers the files of a target, which appear together when the block ends well.

    Args:
        target: As the user named it; the folder is called after it.
        names: The files.
        plan: What they are made of, and how, as JSON: another plan does not use what is there.
        options: Of the store of a URL.
        durable: Whether to wait until the disk has the bytes, and then the names.
        keep: Whether what is done stays for the next run, if the block raises.

    Raises:
        OSError: Another writer writes the same files (EBUSY).
    """
    target, names = localize(target), [localize(name) for name in names]
    with _only_writer(names[0], durable=durable) as lock:
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
        stage = _begin(Stage(_folder_of(target, _base(target)), options, durable), digest)
        try:
            yield stage
            _publish(stage, {_base(name): name for name in names}, lock)
        except BaseException:
            if not keep:
                stage.clear()
            raise
        stage.clear()


@contextmanager
def _only_writer(first: str, *, durable: bool) -> Iterator[Lock | None]:
    """The right to write a set in a local folder; a store has no locks."""
    if is_url(first):
        yield None
        return
    lock = Lock(_real(first), durable=durable)
    lock.take()
    try:
        yield lock
    finally:
        lock.release()
    sweeping.sweep(os.path.dirname(_real(first)))


def _begin(stage: Stage, digest: str) -> Stage:
    """The folder with the plan in it, and what is done by the same plan."""
    wanted = {"tensorferry": VERSION, "plan": digest}
    folder, is_local = stage.folder, not is_url(stage.folder)
    if is_local:
        leftovers.check_folder(folder)
    is_sound = not is_local or leftovers.has_files_alone(folder)
    if is_sound and stage._read(PLAN) == wanted:
        return changed(stage, resumes=True)
    stage.clear()
    if is_local:
        make_folder(os.path.dirname(folder), durable=stage.durable)
        os.mkdir(folder)  # which fails if something in it could not be removed
        if stage.durable:
            sync(os.path.dirname(folder) or ".")
    stage._write(PLAN, wanted)
    return stage


def _publish(stage: Stage, names: Mapping[str, str], lock: Lock | None) -> None:
    if lock is None:
        _copy(stage, names)
        return
    pairs = [(stage.path(part), _real(name)) for part, name in names.items()]
    hidden = os.path.basename(stage.folder)
    members = [
        Member(os.path.basename(name), f"{hidden}/{os.path.basename(path)}", _take_over(path, name))
        for path, name in pairs
    ]
    if len(pairs) > 1:
        lock.decide(members)
    for path, name in pairs:
        replace(path, name)
    lock.end()
    if stage.durable:
        sync(os.path.dirname(pairs[0][1]))


def _copy(stage: Stage, names: Mapping[str, str]) -> None:
    """Copies objects to their names; if one cannot be copied, none of the new ones stays."""
    options = of_store(stage.options)
    copied: list[str] = []

    def copy(part: str, name: str) -> None:
        backend_of(name).copy(stage.path(part), name, options)
        copied.append(name)

    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(copy, part, name) for part, name in names.items()]:
                done.result()
    except BaseException:
        # Readers miss the shards that are not there, but not that some are of an older set.
        for name in copied:
            with suppress(OSError):
                backend_of(name).remove(name, options)
        raise


def _take_over(path: str, old: str) -> tuple[int, int, int]:
    """Gives a file the attributes of the one that it is about to replace; gives its identity."""
    with suppress(FileNotFoundError):
        found = Attributes.of(old, os.stat(old))
        descriptor = os.open(path, system.UPDATE | system.NOFOLLOW)
        try:
            found.apply(descriptor)
        finally:
            os.close(descriptor)
    identity = identity_of(path, follow=False)
    if identity is None:
        raise FileNotFoundError(
            errno.ENOENT,
            "the file of a task is not there, as seen from this machine: all machines of a cluster "
            "must see the same folder, or write to a URL",
            path,
        )
    return identity


def version_of(path: str, options: Options = None) -> str:
    """What tells the bytes of a file from others: a digest, or the version that a store names.

    Raises:
        FileNotFoundError: There is no such file.
    """
    with storage.open_source(path, options=options) as source:
        if source.version is not None:
            return f"{source.size} {source.version}"
        total = hashlib.sha256()
        for block in _blocks(source):
            total.update(block)
        return f"{source.size} sha256:{total.hexdigest()}"


def _blocks(source: storage.Source) -> Iterator[bytes | memoryview]:
    while block := source.read(BLOCK):
        yield block


def _folder_of(target: str, name: str) -> str:
    return beside(target, f".{name}{STAGING}")


def _base(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2] if is_url(name) else os.path.basename(name)


def _real(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder or "."), name)
