"""The stores behind URLs: s3://, gs://, az:// and https://, made by obstore.

obstore signs, pools connections and tries again; it is imported on first use. It reads the usual
environment variables (AWS_*, GOOGLE_*, AZURE_*) itself.
"""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from tensorferry.errors import MissingExtraError, UnsupportedError
from tensorferry.storage.faults import no_credentials, translated
from tensorferry.storage.url import shown, split

# Each scheme, and the class of obstore.store that serves it.
STORES = {
    "s3": "S3Store",
    "s3a": "S3Store",
    "gs": "GCSStore",
    "gcs": "GCSStore",
    "az": "AzureStore",
    "azure": "AzureStore",
    "abfs": "AzureStore",
    "abfss": "AzureStore",
    "http": "HTTPStore",
    "https": "HTTPStore",
}
SPELLINGS = {"s3a": "s3", "gcs": "gs", "azure": "az"}

# What of `options` is for the connection, not for the store.
CLIENT_OPTIONS = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_headers",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    ]
)
# What a store looks at when it is made.
ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

# Options and variables (AWS_...) that say how requests to Amazon's stores are signed, or not.
CREDENTIALS = frozenset(
    [
        "access_key_id",
        "container_credentials_full_uri",
        "container_credentials_relative_uri",
        "credential_provider",
        "skip_signature",
        "web_identity_token_file",
    ]
)
METADATA = "http://169.254.169.254"
METADATA_TIMEOUT = 2.0

LOOPBACK = re.compile(r"https?://(localhost|127\.[0-9.]+|\[::1\])(?=[:/]|$)")


# Seconds before something is tried again, twice as many each time.
BACKOFF = 0.25


@dataclass
class Settings:
    """How patient we are, for the whole process; `options` of one source or sink go before.

    Attributes:
        timeout: Seconds that one request may take; none asks for more than some megabytes.
        connect_timeout: Seconds until there is a connection.
        retries: How often a request is tried again after a failure that may pass.
        retry_timeout: Seconds after which nothing is tried again.
        part_size: Bytes of each part of an upload, of which there are at most 10,000.
    """

    timeout: float = 60.0
    connect_timeout: float = 5.0
    retries: int = 4
    retry_timeout: float = 60.0
    part_size: int = 16 << 20


settings = Settings()
"""Those that hold now: set its attributes."""


def import_obstore(url: str) -> Any:
    """obstore, if it is installed."""
    try:
        import obstore
        import obstore.store
    except ImportError as error:
        raise MissingExtraError(
            f"{split(url).scheme}:// needs obstore, which is not installed",
            path=url,
            hint="pip install 'tensorferry[cloud]'",
        ) from error
    return obstore


def locate(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """The store of a URL, and the name of the object in it."""
    import_obstore(url)
    _check_process(url)
    parts = split(url)
    scheme = SPELLINGS.get(parts.scheme, parts.scheme)
    if scheme in ("http", "https"):  # its path and query are used as they are
        root, name = url.partition("#")[0], ""
    else:
        root, name = f"{scheme}://{parts.place}", parts.name
    environment = tuple(
        item for item in sorted(os.environ.items()) if item[0].upper().startswith(ENVIRONMENT)
    )
    key = tuple(sorted((options or {}).items(), key=lambda item: item[0]))
    with translated(shown(url)):
        try:
            return _store(root, key, astuple(settings), environment), name
        except TypeError:  # options that cannot be hashed
            return _store.__wrapped__(root, key, astuple(settings), environment), name


_process: int | None = None


def _check_process(url: str) -> None:
    """Refuses what would wait for ever: a child that was forked has none of obstore's threads."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise UnsupportedError(
            "this process was forked from one that has read or written URLs, which cannot go on",
            path=url,
            hint='start workers by "spawn" or "forkserver": multiprocessing.set_start_method, or '
            "a loader's multiprocessing_context",
        )


@lru_cache(64)
def _store(root: str, options: tuple[tuple[str, Any], ...], patience: Any, environment: Any) -> Any:
    import obstore.store

    given = dict(options)
    if root.startswith("s3:"):
        _check_credentials(root, given)
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=settings.timeout),
        "connect_timeout": timedelta(seconds=settings.connect_timeout),
    }
    endpoint = given.get("endpoint") or given.get("endpoint_url") or _endpoint(root)
    if endpoint.startswith("http://"):  # who names such an address wants it
        client["allow_http"] = True
    if LOOPBACK.match(endpoint):
        # No proxy reaches our own machine. Without a proxy of its own a client takes the
        # environment's, whatever that excludes.
        client["proxy_url"] = "http://127.0.0.1:9"
        client["proxy_excludes"] = "localhost,127.0.0.0/8,::1"
    for name in CLIENT_OPTIONS & given.keys():
        value = given.pop(name)
        is_seconds = name.endswith("timeout") and isinstance(value, int | float)
        client[name] = timedelta(seconds=value) if is_seconds else value
    client |= given.pop("client_options", {})
    retry = {
        "max_retries": settings.retries,
        "backoff": {"init_backoff": timedelta(seconds=BACKOFF)},
        "retry_timeout": timedelta(seconds=settings.retry_timeout),
        **given.pop("retry_config", {}),
    }
    extra = {}
    if "credential_provider" in given:
        extra["credential_provider"] = given.pop("credential_provider")
    if not root.startswith("http"):
        extra["config"] = given
    elif given:
        raise UnsupportedError(
            f"options {', '.join(sorted(given))}, of which a web server has none", path=shown(root)
        )
    kind = getattr(obstore.store, STORES[split(root).scheme])
    return kind.from_url(root, client_options=client, retry_config=retry, **extra)


def _check_credentials(root: str, options: Mapping[str, Any]) -> None:
    """Refuses a store without credentials soon, where obstore would wait for long.

    What is left to ask for some is the machine: only those of Amazon answer.
    """
    named = {*options, *(name for name, value in os.environ.items() if value)}
    if CREDENTIALS & {name.lower().removeprefix("aws_") for name in named}:
        return
    address = options.get("metadata_endpoint") or os.environ.get("AWS_METADATA_ENDPOINT", METADATA)
    place = urlsplit(address)
    connection = http.client.HTTPConnection(
        place.hostname or "", place.port, timeout=METADATA_TIMEOUT
    )
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        reason = f"neither in the environment nor from this machine ({error})"
        raise no_credentials(root, reason) from error
    finally:
        connection.close()


def _endpoint(root: str) -> str:
    """Where a store is, as far as its URL or the environment says."""
    if root.startswith("http"):
        return root
    names = {
        "S3Store": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "AzureStore": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "GCSStore": ("GOOGLE_BASE_URL",),
    }[STORES[split(root).scheme]]
    return next((os.environ[name] for name in names if os.environ.get(name)), "")
