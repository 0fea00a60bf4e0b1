"""URLs: which names are some, what their parts are, and which of them a pattern means.

    s3://bucket/train/data.tfrecord
    file:///data/train.tfrecord         a local file
    https://host/data.npy?signature     a query is a part of the name

A local path is never taken for a URL: that needs a scheme and two slashes. In the names of objects
nothing is escaped: `s3://bucket/a%20b` is the object `a%20b`. Only file:, http: and https: URLs
are written with escapes.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from tensorferry.errors import UnsupportedError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PASSWORD = re.compile(r"(//[^/:@]*):[^/@]*@")
_MAGIC = re.compile(r"[*?[]")


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
    """Whether it is a URL, those of local files (file://) among them."""
    return isinstance(path, str) and _URL.match(path) is not None


def split(url: str) -> Parts:
    """The parts of a URL; the scheme is "" for a local path."""
    match = _URL.match(url)
    if match is None:
        return Parts("", "", url)
    place, _, name = url[match.end() :].partition("/")
    return Parts(match[1].lower(), place, name)


def shown(url: str) -> str:
    """A URL as errors name it: without passwords, and without the query of a signed one."""
    url = _PASSWORD.sub(r"\1:***@", url)
    if split(url).scheme in ("http", "https") and "?" in url:
        return f"{url.partition('?')[0]}?..."
    return url


def localize(given: str | os.PathLike[str]) -> str:
    """A path as it is given, or that of a file:// URL.

    Raises:
        UnsupportedError: The URL is of a file on another host.
    """
    path = os.fspath(given)
    parts = split(path)
    if parts.scheme != "file":
        return path
    if parts.place not in ("", "localhost"):
        raise UnsupportedError(
            f"a file on the host {parts.place!r}, expected a local one",
            path=path,
            hint="a local file is file:///path, with three slashes",
        )
    from urllib.parse import unquote  # few paths are URLs of files

    return unquote(f"/{parts.name}")


def has_magic(name: str) -> bool:
    """Whether a name is a pattern."""
    return _MAGIC.search(name) is not None


def split_pattern(pattern: str) -> tuple[str, bool]:
    """The directory that all matches of a pattern lie in, and whether some may lie deeper."""
    directory, _, rest = pattern.rpartition("/")
    while has_magic(directory):
        directory, _, above = directory.rpartition("/")
        rest = f"{above}/{rest}"
    return directory, "/" in rest or "**" in rest


def matcher(pattern: str) -> re.Pattern[str]:
    """What the names that a pattern means look like.

    `*` and `?` stay inside a directory, `**/` stands for any directories, or none.
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
