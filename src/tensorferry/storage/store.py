"""The stores behind URLs: s3://, gs://, az:// and https://, made by obstore.

obstore signs, pools connections and tries again; it is imported on first use. It reads the usual
environment variables (AWS_*, GOOGLE_*, AZURE_*) itself.
"""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Mapping
from dataclasses import astuple
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from tensorferry.classes import dataclass
from tensorferry.errors import MissingExtraError, UnsupportedError
from tensorferry.storage import profiles, redirects
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

# The options that are for the connection, not for the store.
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
# The environment variables that a store reads when it is made.
ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

# The options and variables (AWS_...) that say whether and how requests to S3 are signed.
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


# Seconds before a request is tried again, twice as many each time.
BACKOFF = 0.25


@dataclass
class Settings:
    """Timeouts, retries and sizes for the whole process; the options of one file go first.

    Attributes:
        timeout: Seconds that one request may take; no request is for more than some megabytes.
        connect_timeout: Seconds that connecting may take.
        retries: How often a request is tried again after a failure that may pass.
        retry_timeout: Seconds after which no request is tried again.
        part_size: Number of bytes in each part of an upload; there are at most 10,000 parts.
    """

    timeout: float = 60.0
    connect_timeout: float = 5.0
    retries: int = 4
    retry_timeout: float = 60.0
    part_size: int = 16 << 20


settings = Settings()
"""The current settings: set its attributes to change them."""


def import_obstore(url: str) -> Any:
    """Imports obstore, or says how to install it."""
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
    if scheme in ("http", "https"):  # path and query are used as they are
        redirects.check(url, options)
        root, name = url.partition("#")[0], ""
    else:
        root, name = f"{scheme}://{parts.place}", parts.name
    environment = tuple(
        item for item in sorted(os.environ.items()) if item[0].upper().startswith(ENVIRONMENT)
    )
    if scheme == "s3":
        environment += (("", profiles.stamp()),)  # type: ignore[operator]
    key = tuple(sorted((options or {}).items(), key=lambda item: item[0]))
    with translated(shown(url)):
        try:
            return _store(root, key, astuple(settings), environment), name
        except TypeError:  # some options cannot be hashed
            return _store.__wrapped__(root, key, astuple(settings), environment), name


_process: int | None = None


def _check_process(url: str) -> None:
    """Refuses to work in a forked child: obstore's threads are not there, and it would hang."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise UnsupportedError(
            "this process was forked from one that has used URLs, and cannot use them itself",
            path=url,
            hint='start workers by "spawn" or "forkserver": multiprocessing.set_start_method, or '
            "a loader's multiprocessing_context",
        )


@lru_cache(64)
def _store(root: str, options: tuple[tuple[str, Any], ...], patience: Any, environment: Any) -> Any:
    import obstore.store

    given = dict(options)
    if root.startswith("s3:"):
        if not _is_signed_in(given):
            given = {**profiles.options(), **given}
        _check_credentials(root, given)
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=settings.timeout),
        "connect_timeout": timedelta(seconds=settings.connect_timeout),
    }
    endpoint = address_of(root, given)
    if endpoint.startswith("http://"):  # whoever names such an address wants plain HTTP
        client["allow_http"] = True
    if LOOPBACK.match(endpoint):
        # No proxy reaches our own machine. A client without a proxy of its own takes the one of
        # the environment, whatever that one excludes.
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
            f"a web server has no options {', '.join(sorted(given))}", path=shown(root)
        )
    kinds: dict[str, Any] = {
        "S3Store": obstore.store.S3Store,
        "GCSStore": obstore.store.GCSStore,
        "AzureStore": obstore.store.AzureStore,
        "HTTPStore": obstore.store.HTTPStore,
    }
    return kinds[STORES[split(root).scheme]].from_url(
        root, client_options=client, retry_config=retry, **extra
    )


def _is_signed_in(options: Mapping[str, Any]) -> bool:
    """Whether options or variables say how requests to S3 are signed."""
    named = {*options, *(name for name, value in os.environ.items() if value)}
    return bool(CREDENTIALS & {name.lower().removeprefix("aws_") for name in named})


def _check_credentials(root: str, options: Mapping[str, Any]) -> None:
    """Refuses a store without credentials at once, where obstore would wait for minutes.

    Without options and variables, only machines of Amazon have credentials: they are asked.
    """
    if _is_signed_in(options):
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
        reason = f"neither in the environment nor on this machine ({error})"
        raise no_credentials(root, reason) from error
    finally:
        connection.close()


def address_of(url: str, options: Mapping[str, Any] | None) -> str:
    """The address of the store of a URL, where it is not the usual one."""
    given = options or {}
    return str(given.get("endpoint") or given.get("endpoint_url") or _endpoint(url))


def _endpoint(root: str) -> str:
    """The address of a store, if its URL or the environment names one."""
    if root.startswith("http"):
        return root
    names = {
        "S3Store": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "AzureStore": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "GCSStore": ("GOOGLE_BASE_URL",),
    }[STORES[split(root).scheme]]
    return next((os.environ[name] for name in names if os.environ.get(name)), "")
