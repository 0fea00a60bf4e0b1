"""Errors of object stores and web servers, translated into errors that name the URL.

obstore's own errors do not name the URL, do not say what to do, and show Rust structures. They also
show signatures, so that none of them is chained to an error of ours.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tensorferry.errors import FerryError, TruncatedError, UnsupportedError
from tensorferry.storage.url import scrub, split

# The texts of errors that mean: this machine has no credentials.
_NO_CREDENTIALS = re.compile(
    r"https?://[^/\s]+/(latest/api/token|latest/meta-data|computeMetadata/|metadata/identity)"
    r"|source: (MissingAccount|\w*Credential)"
)
_AMAZON = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or "
    "AWS_SKIP_SIGNATURE=true for a public bucket"
)
_GOOGLE = (
    "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or GOOGLE_SKIP_SIGNATURE=true for a public "
    "bucket"
)
_AZURE = (
    "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or a SAS token), or "
    "AZURE_SKIP_SIGNATURE=true for a public container"
)
_WEB = "pass options={'default_headers': {'Authorization': ...}}, or a signed URL"
# By the first two letters of the scheme.
_HINTS = {"s3": _AMAZON, "gs": _GOOGLE, "gc": _GOOGLE, "az": _AZURE, "ab": _AZURE, "ht": _WEB}


class NoRangesError(Exception):
    """The server ignores ranges, and sends whole files only."""


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Translates obstore's errors into errors that name the URL and say what to do."""
    try:
        yield
    except (FerryError, NoRangesError):
        raise
    except Exception as error:
        try:
            _translate(url, error)
        except Exception as made:
            if made is not error:  # also whoever looks behind `from None` finds no signature
                made.__context__ = None
            raise


def _translate(url: str, error: Exception) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, "no such object", url) from None
    if isinstance(error, ValueError):
        if "Could not parse path" not in str(error):
            raise ValueError(scrub(str(error))) from None
        raise UnsupportedError(
            f"this is no name for an object: {_first_line(str(error))}", path=url
        ) from None
    if not type(error).__module__.startswith("obstore"):
        raise error
    _raise(url, type(error).__name__, str(error))


def _raise(url: str, kind: str, text: str) -> NoReturn:
    if "Range request not supported" in text:
        raise NoRangesError from None
    if kind in ("UnknownConfigurationKeyError", "InvalidPathError", "NotSupportedError"):
        raise UnsupportedError(_first_line(text), path=url) from None
    if kind == "PreconditionError" or "416 Range" in text or "412 Precondition" in text:
        raise changed(url) from None
    if kind == "GenericError" and not url.startswith("http") and _NO_CREDENTIALS.search(text):
        raise no_credentials(url, _first_line(text)) from None
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or re.search(
        "non-2xx status code: 40[13]", text
    ):
        what = f"access denied: {_first_line(text)}"
        raise _named(PermissionError, errno.EACCES, url, what, _hint(url)) from None
    if "TimedOut" in text or "kind: Timeout" in text:
        raise _named(
            TimeoutError,
            errno.ETIMEDOUT,
            url,
            f"no answer in time: {_first_line(text)}",
            "tensorferry.storage.remote.settings.timeout is the number of seconds that is waited",
        ) from None
    if "UnexpectedEof" in text:
        raise TruncatedError(
            f"the server ends its answer too early: {_first_line(text)}", path=url
        ) from None
    if "redirect" in text and "region" in text:
        raise _named(OSError, errno.EREMOTE, url, _first_line(text), "set AWS_REGION") from None
    if "error sending request" in text or "response body error" in text:
        raise _named(ConnectionError, errno.ECONNREFUSED, url, _first_line(text)) from None
    raise _named(OSError, errno.EIO, url, _first_line(text)) from None


def _named(kind: type[OSError], number: int, url: str, text: str, hint: str = "") -> OSError:
    error = kind(f"{url}: {text}" + (f"\nhint: {hint}" if hint else ""))
    error.errno = (
        number  # given a number and a file name, Python would show those instead of the text
    )
    return error


def changed(url: str) -> OSError:
    """The error for an object that was replaced after it was opened."""
    return _named(
        OSError, errno.ESTALE, url, "the object was replaced while it was read", "open it again"
    )


def no_credentials(url: str, reason: str) -> OSError:
    """The error for a store without credentials."""
    return _named(PermissionError, errno.EACCES, url, f"no credentials found: {reason}", _hint(url))


def _first_line(text: str) -> str:
    """The message of an obstore error, without its structures and the server's page."""
    message = re.search("<Message>(.*?)</Message>", text)
    line = text.split("\n", 1)[0].split("<", 1)[0].rstrip(": ")
    # A signed URL is a secret, and the error names the URL anyway. Servers repeat queries, too.
    line = scrub(re.sub(r"\?\S*=\S*", "?...", re.sub(r"https?://\S+", "the server", line)))
    return f"{line}: {message[1]}" if message else line[:300]


def _hint(url: str) -> str:
    return _HINTS[split(url).scheme[:2]]
