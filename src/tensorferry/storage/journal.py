"""Journals: files with fixed names that are replaced together, old or new for every reader.

A shard set has no index whose rename could decide which files count. While such a set is written,
a hidden file beside it, `.train-00000-of-00004.tfrecord.1b2c3d4e.ferry`, stands for it:

    empty                      somebody writes the set and holds the lock of this file
    a link to a new file       the same, for one file (`ReplacingSink.claim`)
    a list of all new files    they are written and synced: from here on the new set counts
    gone                       all new files have their names

The list is JSON, made whole before it gets its name. For each file it says its name, the temporary
name and the identity (inode, size, time):

    {"tensorferry": 1, "main": "train-00000-of-00004.tfrecord", "system": "0b1c2d3e",
     "files": [["train-00000-of-00004.tfrecord", ".train-00000-....tmp", [131, 2048, 17...]], ...]}

A reader takes each file by the one of the two names that has this identity, so it reads the new set
while the names change, and also if the writer is killed in between. The next writer into the folder
gives the remaining files their names. Nothing is removed because a journal says so, and only files
of the listed identities are renamed: a journal that came with a copy of the folder, or from a
stranger who may not replace the files himself, is not obeyed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from tensorferry.classes import dataclass
from tensorferry.expressions import expression
from tensorferry.storage import system, temporary
from tensorferry.storage.folders import make_folder, remove_folders
from tensorferry.storage.temporary import Identity, identity_of

NAME = expression(r"\..*\.[0-9a-f]{8}\.ferry", re.DOTALL)
STAGING = ".ferry-parts"
"""The end of the name of a hidden folder in which others gather the files of a set."""
VERSION = 1
MAX_SIZE = 64 << 20
# How long a writer waits for one that is about to end, or that only looks whether anybody is there:
# on a busy machine, the system may stop it just then.
PATIENCE = 1.0


def path_of(main: str) -> str:
    """The path of the journal of a set; `main` is its first file, or its index."""
    name = os.path.basename(main)
    return f"{main[: len(main) - len(name)]}{_name_of(name)}"


@lru_cache(maxsize=128)
def _name_of(name: str) -> str:
    import hashlib  # which takes longer to import than a small file to read

    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return f".{name[: temporary.LONGEST]}.{digest}.ferry"


@dataclass(frozen=True, slots=True)
class Member:
    """A new file of a set.

    Attributes:
        name: Which it will have.
        temporary: The name that it had while it was written.
        identity: By which it is known under either name.
    """

    name: str
    temporary: str
    identity: Identity

    def find(self, folder: str) -> str | None:
        """The path that has the file now, if one has."""
        for name in (self.temporary, self.name):
            path = os.path.join(folder, name)
            if identity_of(path, follow=False) == self.identity:
                return path
        return None


@dataclass(frozen=True, slots=True)
class Journal:
    """A set whose new files are written, and may not all have their names yet.

    Attributes:
        folder: Where the files are.
        main: The name that the journal goes by.
        system: On which the writer ran: see `temporary.system`.
        members: The files.
    """

    folder: str
    main: str
    system: str
    members: tuple[Member, ...]

    def encode(self) -> bytes:
        """The text of the file."""
        tree = {
            "tensorferry": VERSION,
            "main": self.main,
            "system": self.system,
            "files": [[one.name, one.temporary, one.identity] for one in self.members],
        }
        import json

        return json.dumps(tree, indent=1).encode()

    @classmethod
    def parse(cls, data: bytes, path: str) -> Journal | None:
        """The journal in a file; None if it is empty, or no journal of that name."""
        import json  # nearly always there is no journal

        try:
            tree = json.loads(data) if data else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(tree, dict) or tree.get("tensorferry") != VERSION:
            return None
        main, system, files = (tree.get(name) for name in ("main", "system", "files"))
        if not isinstance(main, str) or not isinstance(system, str) or not isinstance(files, list):
            return None
        members = [_member(node) for node in files]
        folder = os.path.dirname(path)
        if None in members or not is_plain(main) or path_of(os.path.join(folder, main)) != path:
            return None
        return cls(folder, main, system, tuple(filter(None, members)))

    def member(self, name: str) -> Member | None:
        """The new file of a name."""
        return next((one for one in self.members if one.name == name), None)

    @property
    def waiting(self) -> set[str]:
        """The temporary names that new files still have; an old file may have one of the others."""
        return {
            one.temporary
            for one in self.members
            if identity_of(os.path.join(self.folder, one.temporary), follow=False) == one.identity
        }

    @property
    def is_finished(self) -> bool:
        """Whether all new files have their names."""
        return all(
            identity_of(os.path.join(self.folder, one.name), follow=False) == one.identity
            for one in self.members
        )

    def finish(self) -> bool:
        """Gives the files their names; False if one of them is not there any more."""
        if not all(one.find(self.folder) for one in self.members):
            return False
        for one in self.members:
            path, target = (os.path.join(self.folder, n) for n in (one.temporary, one.name))
            if identity_of(path, follow=False) == one.identity:
                system.move(path, target)
        return self.is_finished


def is_plain(name: str) -> bool:
    """Whether a name is that of a file in a folder, and leads nowhere else."""
    return name not in ("", ".", "..") and not any(mark in name for mark in "/\\\0")


def _member(node: Any) -> Member | None:
    if not (isinstance(node, list) and len(node) == 3):
        return None
    name, hidden, identity = node
    if not (isinstance(name, str) and is_plain(name) and not name.startswith(".")):
        return None
    if not (isinstance(hidden, str) and _is_hidden(hidden)):
        return None
    if not (isinstance(identity, list) and [type(n) for n in identity] == [int] * 3):
        return None
    return Member(name, hidden, (identity[0], identity[1], identity[2]))


def _is_hidden(name: str) -> bool:
    """Whether a name is that of a temporary file, or of a file in a folder of staged ones."""
    folder, slash, last = name.rpartition("/")
    if not slash:
        return is_plain(name) and temporary.NAME.fullmatch(name) is not None
    is_ours = is_plain(folder) and folder.startswith(".") and folder.endswith(STAGING)
    return is_ours and is_plain(last)


def read(main: str) -> Journal | None:
    """The journal of a set that is being replaced; None in all other moments."""
    path = path_of(main)
    try:
        if not os.lstat(path).st_size:
            return None
    except OSError:
        return None
    with temporary.opened(path, lockable=False) as descriptor:
        return None if descriptor is None else _read(descriptor, os.fstat(descriptor), path)


def _read(descriptor: int, opened: os.stat_result, path: str) -> Journal | None:
    size = opened.st_size
    if not 0 < size <= MAX_SIZE or opened.st_nlink > 1:  # a link is the file of a writer
        return None
    data = b""
    while len(data) < size and (more := system.read_at(descriptor, size - len(data), len(data))):
        data += more
    found = Journal.parse(data, path)
    is_heeded = found is not None and _may_replace(opened.st_uid, found)
    return found if is_heeded else None


def _may_replace(owner: int, found: Journal) -> bool:
    """Whether the owner of a journal may replace the files that it lists.

    In a folder such as /tmp, where everybody may make files, only the owner of a file may replace
    it. Nobody else's journal lets others do so for him, or read something else instead.
    """
    try:
        folder = os.stat(found.folder)
        shared = system.HAS_OWNERS and folder.st_mode & stat.S_ISVTX
        if not shared or owner in (0, folder.st_uid, system.user()[0]):
            return True
        for one in found.members:
            with suppress(FileNotFoundError):
                if os.lstat(os.path.join(found.folder, one.name)).st_uid != owner:
                    return False
    except OSError:
        return False
    return True


def recover(folder: str, names: Iterable[str]) -> set[str]:
    """Ends what killed writers began in a folder.

    Args:
        folder: Where a writer is about to write.
        names: Of all files in it.

    Returns:
        The names of temporary files that journals still need.
    """
    needed: set[str] = set()
    for name in names:
        if not NAME.fullmatch(name):
            continue
        path = os.path.join(folder, name)
        with temporary.opened(path) as descriptor, suppress(OSError):
            if descriptor is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            opened = os.fstat(descriptor)
            found = _read(descriptor, opened, path)
            # Also if somebody holds it: a writer may have found it, and not be done with its own.
            needed |= set() if found is None else found.waiting
            is_ours = found is not None or not opened.st_size or opened.st_nlink > 1
            if not is_ours or not temporary.is_free(descriptor):
                continue
            is_done = found is None or _is_ended(found)
            if is_done and temporary.is_at(os.fstat(descriptor), path):
                os.unlink(path)
    return needed


def _is_ended(found: Journal) -> bool:
    """Whether all files have their names, by now."""
    # After a restart, or from another machine, a stranger could have made the journal up.
    return found.is_finished or (found.system == temporary.system() and found.finish())


class Lock:
    """The right to write a set, and its journal.

    Args:
        main: The first file of the set, or its index: an absolute path.
        durable: Whether the disk must have a journal before names change.
    """

    def __init__(self, main: str, *, durable: bool) -> None:
        self.path = path_of(main)
        self._main = main
        self._durable = durable
        self._descriptor: int | None = None
        self._is_held = False
        self._keep = False
        self._made: list[str] = []

    def take(self, *, patience: float = PATIENCE) -> None:
        """Waits for the right to write.

        Raises:
            OSError: Another writer has it (EBUSY); or the system's own error.
        """
        try:
            self._take(patience)
        except (FileNotFoundError, NotADirectoryError):
            self._made = make_folder(os.path.dirname(self.path), durable=self._durable)
            try:
                self._take(patience)
            except BaseException:
                remove_folders(self._made)
                raise

    def _take(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        flags = system.UPDATE | os.O_CREAT | system.NOFOLLOW
        while True:
            try:
                descriptor = os.open(self.path, flags, 0o666)
            except PermissionError:  # somebody else's, who may be alive
                descriptor = os.open(self.path, system.READ | system.NOFOLLOW)
            if self._is_taken(descriptor):
                return
            temporary.release(descriptor)
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "another writer is writing it", self._main)
            time.sleep(0.002)

    def _is_taken(self, descriptor: int) -> bool:
        """Locks the file, if nobody else has, and if it still is the journal."""
        try:
            is_ours = temporary.lock(descriptor, wait=False)
            opened = os.fstat(descriptor)
            if is_ours and temporary.is_at(opened, self.path):
                # What a killed writer has decided counts until something newer does.
                found = _read(descriptor, opened, self.path)
                self._keep = found is not None and not _is_ended(found)
                self._descriptor = descriptor
                self._is_held = True
                return True
        except BaseException:
            with suppress(OSError):
                if temporary.is_free(descriptor) and not os.stat(self.path).st_size:
                    os.unlink(self.path)
            temporary.release(descriptor)
            raise
        return False

    def decide(self, members: Sequence[Member]) -> None:
        """Lets the new files count, whatever happens from here on."""
        folder, main = os.path.split(self._main)
        data = Journal(folder, main, temporary.system(), tuple(members)).encode()
        descriptor: int | None
        path, descriptor = temporary.create(self.path)
        found = None
        try:
            found = os.fstat(descriptor)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if self._durable:
                system.sync(descriptor)
            if not system.MOVES_OPEN_FILES:
                self._let_go(descriptor)
                descriptor = None
            system.move(path, self.path)
        except BaseException:
            if found is None or not temporary.is_at(found, self.path):
                temporary.release(descriptor)
                temporary.remove(path)
                raise
        temporary.forget(path)
        temporary.release(self._descriptor)
        self._descriptor = descriptor
        self._keep = True

    def _let_go(self, descriptor: int) -> None:
        """Closes the old and the new journal, where open files cannot be renamed."""
        temporary.release(self._descriptor)
        self._descriptor = None
        temporary.release(descriptor)

    def end(self) -> None:
        """Says that all new files have their names."""
        self._keep = False

    def release(self) -> None:
        """Gives the right back; the journal stays where it still has something to say."""
        if not self._is_held:
            return
        self._is_held = False
        descriptor, self._descriptor = self._descriptor, None
        if not system.MOVES_OPEN_FILES:
            temporary.release(descriptor)
            descriptor = None
        if not self._keep:
            with suppress(OSError):  # whoever comes next finds it, and that all is done
                os.unlink(self.path)
        temporary.release(descriptor)
        remove_folders(self._made)  # unless something was written there
