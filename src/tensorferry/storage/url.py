"""URLs: which names are some, and what their parts are.

    s3://bucket/train/data.tfrecord
    file:///data/train.tfrecord         a local file
    https://host/data.npy?signature     a query is a part of the name

A local path is never taken for a URL: that needs a scheme and two slashes.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from tensorferry.errors import UnsupportedError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_url(path: object) -> bool:
    """Whether it is a URL, those of local files (file://) among them."""
    return isinstance(path, str) and _URL.match(path) is not None


def scheme(path: str) -> str:
    """The scheme of a URL in lower case, "" of a local path."""
    match = _URL.match(path)
    return match[1].lower() if match else ""


def localize(given: str | os.PathLike[str]) -> str:
    """A path as it is given, or that of a file:// URL.

    Raises:
        UnsupportedError: The URL is of a file on another host.
    """
    path = os.fspath(given)
    if scheme(path) != "file":
        return path
    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        raise UnsupportedError(
            f"a file on the host {parts.netloc!r}, expected a local one",
            path=path,
            hint="a local file is file:///path, with three slashes",
        )
    # What follows a "?" or "#" is a part of a file's name: neither means anything there.
    rest = path[len("file://") + len(parts.netloc) :]
    return unquote(rest)
