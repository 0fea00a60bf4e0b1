"""Which backend serves a URL."""

from __future__ import annotations

from tensorferry.storage import url as urls
from tensorferry.storage.backend import Backend


def backend_of(url: str) -> Backend:
    """The module that serves a URL, imported on first use with the packages it needs."""
    from tensorferry.storage import remote

    if urls.split(url).scheme in remote.STORES:
        return remote
    from tensorferry.storage import filesystem

    return filesystem
