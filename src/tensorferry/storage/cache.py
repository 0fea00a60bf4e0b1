"""The cache: objects of stores on the local disk, fetched once for all processes of a machine.

    ferry.load_model("s3://bucket/encoder")                                 # always through it
    ferry.load("s3://bucket/x.npz", storage_options={"cache": True})        # where it is asked for

An object is known by its URL, the address of its store and its version, which the request that
opens it tells: an object that was replaced is fetched anew, and nobody reads what their credentials
do not let them open. A digest of these is the name of the file, so that no name of a store leads
anywhere:

    ~/.cache/tensorferry/objects/1f3a90c2...        the bytes, once they are whole
    ~/.cache/tensorferry/objects/1f3a90c2....lock   held by the process that fetches them
    ~/.cache/tensorferry/indexes/8d01e4b7...        where the records of a large local file are

`TENSORFERRY_CACHE` names another folder; empty, it turns the cache off. The folder is private to
its owner. `limits.cache` bounds its bytes: what was not used for the longest time is removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tensorferry import limits
from tensorferry.errors import TruncatedError
from tensorferry.storage import system, temporary
from tensorferry.storage.source import Source

VARIABLE = "TENSORFERRY_CACHE"
_NAME = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 22


def folder(kind: str = "objects") -> str | None:
    """The folder of the cache, private to this user; None where there is none.

    Args:
        kind: What is kept there: objects of stores, or what was found out about local files.

    Raises:
        PermissionError: The folder belongs to somebody else, or others may write into it.
    """
    given = os.environ.get(VARIABLE)
    if given == "" or limits.cache <= 0:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    path = os.path.join(given or os.path.join(home, "tensorferry"), kind)
    if not os.path.isabs(path):  # there is no home
        return None
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found, above = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:
        if given:  # whoever names a folder wants to know
            raise
        return None
    user = system.user()[0] if system.HAS_OWNERS else None
    is_own = user is None or (
        found.st_uid == user
        and not found.st_mode & 0o022
        # Whoever may rename the folder can put another one in its place.
        and above.st_uid in (user, 0)
        and (not above.st_mode & stat.S_IWOTH or bool(above.st_mode & stat.S_ISVTX))
    )
    if not stat.S_ISDIR(found.st_mode) or not is_own:
        raise PermissionError(
            f"{path}: others could put files into the cache, which must be a folder of its owner "
            f"alone (mode 0700)\nhint: set {VARIABLE} to another folder"
        )
    return path


def name_of(url: str, address: str, version: str) -> str:
    """The name of the file of an object."""
    text = "\0".join((url, address, version))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@contextmanager
def held(source: Source, url: str, address: str) -> Iterator[str | None]:
    """The path of the local copy of an object, which is fetched if no process has done so.

    The file stays readable for whoever has opened or linked it in the block, also if it is removed
    from the cache later.

    Args:
        source: The object, open; its bytes are read if they are not there.
        url: Of the object.
        address: Of its store.

    Yields:
        None if the object is not cached: there is no cache, its version is not known, or it is too
        large.
    """
    place = folder() if source.version is not None and source.size is not None else None
    if place is None or source.size is None or source.size > limits.cache:
        yield None
        return
    assert source.version is not None
    path = os.path.join(place, name_of(url, address, source.version))
    with _locked(path + ".lock"):
        if not _is_whole(path, source.size):
            _fetch(source, path)
        with suppress(OSError):
            os.utime(path)
        yield path
    _trim(place, path)


def keep(data: bytes, place: str, path: str) -> None:
    """Puts bytes into a folder of the cache, in one step; the name is a digest of 64 digits."""
    with _arriving(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    _trim(place, path)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lets one process at a time do something about an object."""
    while True:
        descriptor = os.open(path, system.UPDATE | os.O_CREAT | system.NOFOLLOW, 0o600)
        temporary.lock(descriptor)
        if temporary.is_at(os.fstat(descriptor), path):
            break
        temporary.release(descriptor)  # the one who had it has removed it
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        temporary.release(descriptor)


def _is_whole(path: str, size: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _fetch(source: Source, path: str) -> None:
    """Writes the bytes of an object, for which the disk is waited for."""
    with _arriving(path) as descriptor:
        size = 0
        while piece := source.read(_PIECE):
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
            size += len(piece)
        if size != source.size:
            raise TruncatedError(f"{size} bytes came of {source.size}", path=source.path)
        system.sync(descriptor)


@contextmanager
def _arriving(path: str) -> Iterator[int]:
    """A descriptor of a temporary file, which gets its name once the block has ended well."""
    part, descriptor = temporary.create(path, mode=0o600)
    try:
        yield descriptor
        system.move(part, path)
    except BaseException:
        temporary.remove(part)
        raise
    finally:
        temporary.forget(part)
        temporary.release(descriptor)


def _trim(place: str, kept: str) -> None:
    """Removes what was not used for the longest time, until the cache is small enough."""
    files = []
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime_ns, found.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limits.cache:
            return
        if path != kept:
            with suppress(OSError):
                os.unlink(path)
            total -= size
