"""Files and directories that are replaced as a whole, for writers that need a path to write to.

    with replacing_path("models/encoder") as temporary:
        write_many_files(temporary)          # a directory, or one file
    # models/encoder is now the new directory as a whole; after an error it is the old one

The writer gets a path in a temporary directory beside the target (`tensorferry.storage.temporary`).
Its files are synced and take the target's place in one step: a file by a rename, a directory by an
exchange of two names (renameat2 of Linux), after which the old directory is removed. A process that
is killed leaves the old or the new directory under the target's name, and perhaps a temporary one
beside it, which the next writer removes. Files that have the same name as one of the old directory
inherit its owner and permissions, as the directory itself does.

Other systems and some network file systems cannot exchange names. There the old directory is
renamed first, and for a moment nothing has the target's name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensorferry.storage import sweeping, system, temporary
from tensorferry.storage.attributes import Attributes
from tensorferry.storage.folders import make_folder, remove_folders, sync
from tensorferry.storage.sink import naming, replace


@contextmanager
def replacing_path(
    target: str,
    *,
    suffix: str = "",
    durable: bool = True,
    check: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """A path for a file or a directory that replaces its target when the block ends well.

    If the block raises, the target stays as it was and nothing is left beside it.

    Args:
        target: A local path; a link stays a link, and the path that it leads to is replaced. Its
            folder is made if it is missing.
        suffix: The end of the temporary path, for writers that look at the suffix.
        durable: Whether to wait until the disk has the bytes, and then the names.
        check: Refuses to replace what is there. It is given the path that is replaced, which may
            not be the one that was given ("missing/../there" is "there"), now and once more at the
            end.

    Raises:
        OSError: The system's own error.
    """
    if not target:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
    target = os.path.realpath(target)
    if check is not None:
        check(target)
    parent = os.path.dirname(target)
    made = make_folder(parent, durable=durable)
    sweeping.sweep(parent)
    descriptor = None
    try:
        if durable:
            descriptor = system.open_folder(parent)  # which fails before anything is written
        with temporary.directory(target) as folder:
            new = os.path.join(folder, "new" + suffix)
            with naming(new, target):
                yield new
            _inherit(target, new)
            if durable:
                _sync_tree(new)
            if check is not None:
                check(target)
            if not os.path.isdir(new):
                replace(new, target)
            elif os.path.lexists(target):
                _replace_directory(new, target, durable)
            else:
                os.rename(new, target)
            if durable:
                system.sync_folder(descriptor)
    except BaseException:
        remove_folders(made)
        raise
    finally:
        system.close_folder(descriptor)


def _inherit(old: str, new: str) -> None:
    """Gives files the attributes of those that they replace."""
    if not system.HAS_OWNERS:
        return
    pairs = [(old, new)]
    for place, folders, files in os.walk(new):
        inside = os.path.relpath(place, new)
        pairs += [
            (os.path.join(old, inside, name), os.path.join(place, name))
            for name in (*folders, *files)
        ]
    for source, target in pairs:
        try:
            found = os.lstat(source)
        except (FileNotFoundError, NotADirectoryError):
            continue
        # A file of another kind, or a link, has nothing to hand on.
        if stat.S_IFMT(found.st_mode) == stat.S_IFMT(os.lstat(target).st_mode):
            descriptor = os.open(target, system.READ | system.NOFOLLOW)
            try:
                Attributes.of(source, found).apply(descriptor)
            finally:
                os.close(descriptor)


def _replace_directory(new: str, target: str, durable: bool) -> None:
    """Puts the new directory in the target's place; the old one is then where the new one was."""
    if system.exchange(new, target):
        return
    # Under this name it is given back, by us or by the next writer, if that is all we get done.
    old = os.path.join(os.path.dirname(new), temporary.OLD)
    os.mkdir(old)
    os.rename(target, os.path.join(old, os.path.basename(target)))
    os.rename(new, target)
    if durable:
        sync(os.path.dirname(target))


def _sync_tree(path: str) -> None:
    """Syncs a file, or all files of a directory and then the directories."""
    for place, _, files in os.walk(path, topdown=False):
        for file in files:
            system.sync_file(os.path.join(place, file))
        sync(place)
    if not os.path.isdir(path):
        system.sync_file(path)
