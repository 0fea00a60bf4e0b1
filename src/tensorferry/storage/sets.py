"""Sets: files that are read as one, and are all of one generation.

    settle(places)                  # of "train@4": all old, or all new

A set may be replaced while it is opened. Where a journal says so (`tensorferry.storage.journal`),
its new files are taken, by whichever name they have. Otherwise files are opened by their names, and
afterwards it is checked that there is still no journal, and that each name still has the file that
was opened: then, at the moment of the check, all of them were the set.

Few files are opened here and now, and stay what they are however often the set is replaced. Of many
files, which cannot all be open, the identities are kept: a file that was replaced since is an error
when its turn comes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from tensorferry.errors import FormatError
from tensorferry.storage import journal, shards, temporary
from tensorferry.storage.patience import attempts
from tensorferry.storage.place import OPEN_AT_ONCE, Place, ReplacedError

# How often a set is looked at that nobody seems to finish.
STUCK_ATTEMPTS = 10

T = TypeVar("T")


def settle(places: Sequence[Place]) -> None:
    """Makes sure that files of one shard set are of one generation.

    Raises:
        FormatError: The set is replaced again and again, or its journal does not fit.
        OSError: The system's own error, such as FileNotFoundError.
    """
    groups: dict[str, list[Place]] = {}
    for place in places:
        if not place.is_url and place.is_named:
            main = shards.first_of(place.path)
            if main is not None:
                groups.setdefault(main, []).append(place)
    for main, members in groups.items():
        if len(members) > 1:
            as_one(main, partial(list, members))


def as_one(main: str, members: Callable[[], Sequence[Place]]) -> Sequence[Place]:
    """Opens files that are replaced together.

    Args:
        main: The name that their journal goes by.
        members: Gives the places; called again if they were replaced meanwhile.
    """
    failure: Exception | None = None
    stuck = 0
    seen = None
    for _ in attempts():
        generation = temporary.identity_of(main)
        places = members()
        try:
            if _settled(main, places):
                return places
        except ReplacedError as error:
            failure = error
            before, seen = seen, journal.read(main)
            stuck = stuck + 1 if seen is not None and seen == before else 0
            if stuck > STUCK_ATTEMPTS:  # nobody is at work
                break
        except FileNotFoundError:
            # Old files are removed after the one that names them was replaced.
            if temporary.identity_of(main) == generation:
                raise
        for place in places:
            place.close()
    raise FormatError(
        "the set is being replaced, and some of its files are of neither the old nor the new one",
        path=main,
        hint=f"write the set again, or remove {journal.path_of(main)} if the files are sound",
    ) from failure


def in_folder(folder: str, read: Callable[[], T], drop: Callable[[T], object]) -> T:
    """Opens files of a folder that is replaced as a whole: all from the old one or the new one.

    Args:
        folder: A local path.
        read: Opens the files; called again if the folder was replaced meanwhile.
        drop: Closes what was opened then.
    """
    for _ in attempts():
        before = _folder_identity(folder)
        try:
            found = read()
        except (FormatError, OSError):
            if _folder_identity(folder) == before:
                raise
            continue
        if _folder_identity(folder) == before:
            return found
        drop(found)
    raise FormatError("the folder is replaced again and again", path=folder)


def _folder_identity(folder: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _settled(main: str, places: Sequence[Place]) -> bool:
    is_few = len(places) <= OPEN_AT_ONCE
    decided = journal.read(main)
    for place in places:
        member = None if decided is None else decided.member(os.path.basename(place.path))
        if member is None:
            found = os.stat(place.path)
            if not stat.S_ISREG(found.st_mode):
                raise FormatError("it is no regular file, as those beside it are", path=place.path)
            place.expect(place.path, temporary.identity(found))
            if is_few:
                place.open_unchecked()  # what was opened is checked below
        else:
            assert decided is not None
            place.expect(member.find(decided.folder) or place.path, member.identity)
            if is_few:
                place.open()
    if decided is not None:
        return is_few or all(place.is_there() for place in places)
    return journal.read(main) is None and all(place.is_current() for place in places)
