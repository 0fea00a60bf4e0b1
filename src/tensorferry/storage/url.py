"""URLs: which names are URLs, their parts, and patterns of them.

    s3://bucket/train/data.tfrecord
    file:///data/train.tfrecord         a local file; file:///C:/data/train.tfrecord on Windows
    https://host/data.npy?signature     a query is a part of the name

A URL has a scheme and two slashes; every other name is a local path. Names of objects have no
escapes: `s3://bucket/a%20b` is the object `a%20b`. Only file:, http: and https: URLs have them.
"""

from __future__ import annotations

import errno
import os
import re

from tensorferry.classes import NamedTuple
from tensorferry.display import scrub as scrub, shown as shown
from tensorferry.errors import UnsupportedError
from tensorferry.expressions import expression
from tensorferry.storage import system

# One letter before the colon is a drive of Windows, and no scheme.
_URL = expression(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_MAGIC = expression(r"[*?[]")
# Queries that hold for one object of a store, and those that tell a secret of whatever kind.
_SIGNED = expression(r"[?&](X-Amz-Signature|X-Goog-Signature|Signature)=", re.I)
_SECRET = expression(
    r"[?&][^=&]*(sig|signature|token|secret|password|passwd|credential|key|auth)[^=&]*=", re.I
)


class Parts(NamedTuple):
    """A URL taken apart: `scheme://place/name`."""

    scheme: str
    place: str
    name: str

    @property
    def root(self) -> str:
        """The bucket, container or host."""
        return f"{self.scheme}://{self.place}"


def is_url(path: object) -> bool:
    """Whether a name is a URL; those of local files (file://) are URLs, too."""
    return isinstance(path, str) and "://" in path and _URL.match(path) is not None


def split(url: str) -> Parts:
    """The parts of a URL; the scheme is "" for a local path."""
    match = _URL.match(url)
    if match is None:
        return Parts("", "", url)
    place, _, name = url[match.end() :].partition("/")
    return Parts(match[1].lower(), place, name)


def bare(path: str) -> str:
    """A name without the query and fragment of a web address."""
    if "://" not in path or split(path).scheme not in ("http", "https"):
        return path
    return _without_query(path)


def is_signed(path: str) -> bool:
    """Whether a web address has a signature that holds for this one object."""
    return "://" in path and _SIGNED.search(path) is not None


def has_secret(path: str) -> bool:
    """Whether the query of a web address holds a secret, such as a signature or a token."""
    return "://" in path and _SECRET.search(path) is not None


def extended(path: str, suffix: str) -> str:
    """The name of a file whose name is longer by a suffix; the query of a web address stays."""
    if not is_url(path):
        return path + suffix
    name = bare(path)
    return name + suffix + path[len(name) :]


def _without_query(path: str) -> str:
    return re.split("[?#]", path, maxsplit=1)[0]


def beside(path: str, name: str) -> str:
    """The path or URL of another file in the same folder.

    A query stays: some, such as the token of a whole container, hold for every file. In a chain of
    URLs ("zip://inside/x::s3://bucket/archive") the first one names the file.
    """
    if not is_url(path):
        return os.path.join(os.path.dirname(path), name)
    marks = r"::|[?#]" if split(path).scheme in ("http", "https") else "::"
    first = re.split(marks, path, maxsplit=1)[0]
    folder, _, last = first.rpartition("/")
    if folder.endswith((":/", ":")):  # a bucket or host without a file
        folder = f"{folder}/{last}"
    return f"{folder}/{name}{path[len(first) :]}"


def check_file(path: str) -> None:
    """Refuses the name of a folder, where a file is to be written.

    Raises:
        IsADirectoryError: It ends with a slash.
    """
    first = path.partition("::")[0] if is_url(path) else path
    if first.endswith(("/", os.sep)):
        raise folder_named(path)


def folder_named(path: str) -> IsADirectoryError:
    """The error for the name of a folder, or of a bucket, in the place of that of a file."""
    what = "the name of a folder, expected that of a file"
    return IsADirectoryError(errno.EISDIR, what, shown(path))


def localize(given: str | os.PathLike[str]) -> str:
    """The path of a file:// URL; every other path or URL as it is.

    Raises:
        UnsupportedError: The URL names a file on another host.
    """
    path = os.fspath(given)
    if "://" not in path:
        return path
    parts = split(path)
    if parts.scheme != "file":
        return path
    if parts.place not in ("", "localhost"):
        raise UnsupportedError(
            f"the file is on the host {parts.place!r}, expected a local one",
            path=path,
            hint="a local file is file:///path, with three slashes",
        )
    from urllib.parse import unquote  # imported late: few paths are URLs of files

    return system.path_in(unquote(f"/{parts.name}"))


def has_magic(name: str) -> bool:
    """Whether a name is a pattern."""
    return _MAGIC.search(name) is not None


def split_pattern(pattern: str) -> tuple[str, bool]:
    """The directory above all matches of a pattern, and whether matches may lie deeper in it."""
    directory, _, rest = pattern.rpartition("/")
    while has_magic(directory):
        directory, _, above = directory.rpartition("/")
        rest = f"{above}/{rest}"
    return directory, "/" in rest or "**" in rest


def matcher(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern.

    `*` and `?` match within one directory, `**/` matches any number of directories.
    """
    parts = []
    place = 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            parts.append("(?:.*/)?")
            place += 3
            continue
        found = re.compile(r"\[(!?)(\]?[^\]]*)\]").match(pattern, place)
        if found:
            inside = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            parts.append(f"[{'^' if found[1] else ''}{inside}]")
            place = found.end()
            continue
        character = pattern[place]
        parts.append({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)))
        place += 1
    return re.compile("".join(parts), re.DOTALL)
