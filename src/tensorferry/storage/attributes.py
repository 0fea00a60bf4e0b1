"""The attributes of a file that its replacement inherits: owner, permissions, ACL, extended ones.

A replaced file is a new one for the system. Whoever was allowed to read or write the old one, and
nobody else, is allowed to do so with the new one. What the system does not let us hand on (only
root gives files away) is left out, and rights of a group that could not be kept go no further than
those of everybody.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from tensorferry.classes import dataclass, field
from tensorferry.storage import system

# The errors of systems that do not have an attribute, or do not let us set it.
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
ACL = "system.posix_acl_access"
SPECIAL = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is handed on.

    Attributes:
        mode: The permission bits.
        owner: The number of the user.
        group: The number of the group.
        extended: Extended attributes by name, access control lists among them.
    """

    mode: int
    owner: int
    group: int
    extended: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, found: os.stat_result) -> Attributes:
        """The attributes of a file or directory, of which the system's answer is known."""
        return cls(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, _extended(path))

    @property
    def first_mode(self) -> int:
        """The mode that the new file is created with: never more than it ends with."""
        is_ours = (self.owner, self.group) == system.user()
        # With an ACL, the bits of the group are those of the mask, not the group's own.
        return self.mode if is_ours and ACL not in self.extended else self.mode & stat.S_IRWXU

    def apply(self, descriptor: int) -> None:
        """Gives the attributes to an open file or directory.

        Raises:
            OSError: The system's own error, unless it only does not allow us to.
        """
        mode, found = self.mode, os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (self.owner, self.group):
            is_given = _give(descriptor, self.owner, self.group)
            found = os.fstat(descriptor)
            if not is_given:
                mode &= ~SPECIAL
                if found.st_gid != self.group:
                    mode = mode & ~stat.S_IRWXG | (mode & (mode & stat.S_IRWXO) << 3)
        for name, value in self.extended.items():
            with _allowed():
                system.set_extended(descriptor, name, value)
        if self.extended:  # an ACL changes the mode
            found = os.fstat(descriptor)
        if stat.S_IMODE(found.st_mode) != mode:
            system.set_mode(descriptor, mode)


def _extended(path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with _allowed():
        found.update(system.extended(path))
    return found


def _give(descriptor: int, owner: int, group: int) -> bool:
    """Gives a file to a user and a group, or at least to the group; whether both was possible."""
    with _allowed():
        system.give_away(descriptor, owner, group)
        return True
    with _allowed():
        system.give_away(descriptor, -1, group)
    return False


class _allowed:  # noqa: N801  # used like contextlib.suppress
    """Lets errors pass that say that something is not possible here, or not for us."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and error.errno in REFUSED
