"""Redirects: secrets for one web server are not sent on to another.

The client under obstore follows redirects by itself. It drops `Authorization` and `Cookie` when the
host changes, but sends all other headers on, and tells the new host where it came from: the URL,
with its signature. It cannot be told otherwise. A URL that has such secrets is therefore asked for
once before it is opened, and refused if its server sends the request to another host.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin, urlsplit

from tensorferry.errors import UnsupportedError
from tensorferry.storage.url import has_secret, shown

MOST = 10
TIMEOUT = 10.0

# Headers that tell no secret, or that the client drops when the host changes.
HARMLESS = {"accept", "accept-encoding", "accept-language", "authorization", "cookie", "user-agent"}


def check(url: str, options: Mapping[str, Any] | None) -> None:
    """Refuses a URL whose secrets would be sent on to another host.

    Args:
        url: Of a web server.
        options: Of the storage, with headers.

    Raises:
        UnsupportedError: The server sends the request to another host.
    """
    given = {**(options or {}), **(options or {}).get("client_options", {})}
    headers = {str(name): str(value) for name, value in given.get("default_headers", {}).items()}
    if not has_secret(url) and {name.lower() for name in headers} <= HARMLESS:
        return
    proxy, certificate = given.get("proxy_url"), given.get("root_certificate")
    trusting = bool(given.get("allow_invalid_certificates"))
    _check(url, tuple(sorted(headers.items())), proxy, _as_text(certificate), trusting)


def _as_text(certificate: Any) -> str | None:
    return certificate.decode() if isinstance(certificate, bytes) else certificate


@lru_cache(256)
def _check(
    url: str,
    headers: tuple[tuple[str, str], ...],
    proxy: str | None,
    certificate: str | None,
    trusting: bool,
) -> None:
    address = url.partition("#")[0]
    for _ in range(MOST):
        found = _location(address, dict(headers), proxy, certificate, trusting)
        if found is None:
            return
        if _origin(found) != _origin(address):
            raise UnsupportedError(
                f"the server sends requests on to {_origin(found)}, and a secret of the URL or "
                "its headers with them",
                path=shown(url),
                hint="open the address that it leads to, with secrets for that host",
            )
        address = found


def _location(
    url: str, headers: dict[str, str], proxy: str | None, certificate: str | None, trusting: bool
) -> str | None:
    """Where a server sends a request; None if it answers itself, or not at all."""
    context = ssl.create_default_context(cadata=certificate)
    if trusting:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        _Staying, _proxies(url, proxy), urllib.request.HTTPSHandler(context=context)
    )
    asked = urllib.request.Request(url, headers={**headers, "Range": "bytes=0-0"})
    try:
        with opener.open(asked, timeout=TIMEOUT):
            return None
    except urllib.error.HTTPError as answer:
        with answer:
            location = answer.headers.get("Location")
            return urljoin(url, location) if 300 <= answer.code < 400 and location else None
    except (OSError, ValueError):  # the request that follows fails too, and says why
        return None


def _proxies(url: str, proxy: str | None) -> urllib.request.ProxyHandler:
    if proxy is not None:
        return urllib.request.ProxyHandler({"http": proxy, "https": proxy})
    host = urlsplit(url).hostname or ""
    is_loopback = host in ("localhost", "::1") or host.startswith("127.")
    return urllib.request.ProxyHandler({} if is_loopback else None)


class _Staying(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the redirect is the answer."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
