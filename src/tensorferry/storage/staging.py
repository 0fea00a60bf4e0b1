"""Staging: files that many write, on whichever machine, and that appear together.

    with staged("out.tfrecord", names, plan=plan) as stage:
        ...                         # workers: write stage.path(name), then stage.finish(name, ...)

Each worker writes a whole file into a hidden folder beside the target, `.out.tfrecord.ferry-parts`.
A file that is written twice, because its worker was lost, is the same file. When all are there,
whoever began lets them appear: local files by renaming them, with a journal, so that readers see
all old or all new (`tensorferry.storage.journal`); objects of a store, which has no rename, by
copies inside the store. Then the folder is removed.

A file `plan.json` in the folder says what the files are parts of, and a note beside each file that
it is whole, by its digest or its version in the store. Whoever comes back with the same plan finds
what is done; with another plan, everything starts anew. A folder that is a link, or belongs to
somebody else, is refused; one in which anything but files is starts anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tensorferry import storage
from tensorferry.storage import leftovers, system
from tensorferry.storage.attributes import Attributes
from tensorferry.storage.backend import Options, of_store
from tensorferry.storage.folders import make_folder, sync
from tensorferry.storage.journal import STAGING, Lock, Member, identity_of
from tensorferry.storage.serving import backend_of
from tensorferry.storage.sink import replace
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
        durable: Whether to wait until the disk has the bytes of a file.
        resumes: Whether files of an earlier run may be there.
    """

    folder: str
    options: Mapping[str, Any] | None = None
    durable: bool = True
    resumes: bool = False

    def path(self, name: str) -> str:
        """Where a worker writes the file that will have a name."""
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
    folder = _folder_of(target)
    lock = None if is_url(folder) else Lock(_real(names[0]), durable=durable)
    if lock is not None:
        lock.take()
    try:
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
        stage = _begin(Stage(folder, options, durable), digest)
        try:
            yield stage
            _publish(stage, names, lock)
        except BaseException:
            if not keep:
                clear(stage)
            raise
        clear(stage)
    finally:
        if lock is not None:
            lock.release()


def _begin(stage: Stage, digest: str) -> Stage:
    """The folder with the plan in it, and what is done by the same plan."""
    wanted = {"tensorferry": VERSION, "plan": digest}
    folder, is_local = stage.folder, not is_url(stage.folder)
    if is_local:
        leftovers.check_folder(folder)
    is_sound = not is_local or leftovers.has_files_alone(folder)
    if is_sound and stage._read(PLAN) == wanted:
        return Stage(folder, stage.options, stage.durable, True)
    clear(stage)
    if is_local:
        make_folder(os.path.dirname(folder), durable=stage.durable)
        os.mkdir(folder)  # which fails if something in it could not be removed
        if stage.durable:
            sync(os.path.dirname(folder) or ".")
    stage._write(PLAN, wanted)
    return stage


def _publish(stage: Stage, names: Sequence[str], lock: Lock | None) -> None:
    if lock is None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(_copy, stage, name) for name in names]:
                done.result()
        return
    reals = [_real(name) for name in names]
    for name, real in zip(names, reals, strict=True):
        _hand_on(real, stage.path(name))
    if len(names) > 1:
        hidden = os.path.basename(stage.folder)
        lock.decide(
            [
                Member(_base(name), f"{hidden}/{_base(name)}", _identity(stage.path(name)))
                for name in names
            ]
        )
    for name, real in zip(names, reals, strict=True):
        replace(stage.path(name), real)
    lock.end()
    if stage.durable:
        sync(os.path.dirname(reals[0]))


def _copy(stage: Stage, name: str) -> None:
    backend_of(name).copy(stage.path(name), name, of_store(stage.options))


def _hand_on(old: str, path: str) -> None:
    """Gives a file the attributes of the one that it is about to replace."""
    with suppress(FileNotFoundError):
        found = Attributes.of(old, os.stat(old))
        descriptor = os.open(path, system.UPDATE | system.NOFOLLOW)
        try:
            found.apply(descriptor)
        finally:
            os.close(descriptor)


def _identity(path: str) -> tuple[int, int, int]:
    found = identity_of(path, follow=False)
    if found is None:
        raise FileNotFoundError(2, "the file of a task is not there any more", path)
    return found


def clear(stage: Stage) -> None:
    """Removes the folder with all that is in it."""
    if not is_url(stage.folder):
        shutil.rmtree(stage.folder, ignore_errors=True)
        return
    backend, options = backend_of(stage.folder), of_store(stage.options)
    found = list(backend.list_files(stage.folder + "/", options, deep=True))
    # The plan goes last: without it, nobody would know what the others are.
    found.sort(key=lambda url: url.endswith(f"/{PLAN}"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(backend.remove, url, options) for url in found]:
            done.result()


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


def _folder_of(target: str) -> str:
    return beside(target, f".{_base(target)}{STAGING}")


def _base(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2] if is_url(name) else os.path.basename(name)


def _real(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder or "."), name)
