"""The server: HTTP on loopback, for whoever knows the token.

    http://127.0.0.1:PORT/TOKEN/            the page
    http://127.0.0.1:PORT/TOKEN/page/NAME   its modules and styles
    http://127.0.0.1:PORT/TOKEN/api/NAME    a question

Every path starts with a random token, so that neither another user of the machine nor a page of
another site can ask. The Host header has to name the loopback interface: a name that an attacker
points to 127.0.0.1 (DNS rebinding) does not. Only GET is known, nothing is written, and only the
files of the page and those that the user named can be read.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files as package_files
from typing import Any
from urllib.parse import urlsplit

from tensorferry.errors import FerryError
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.api import Api

HOST = "127.0.0.1"
NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What the Host header may name; its port may be that of a tunnel."""

GONE = 1800.0
"""After so many seconds without a question, the page is gone."""

CONNECTIONS = 64
"""How many connections are served at the same time."""

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'"
POLICY = (
    f"{_NOTHING}; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""No code and no style but our own; no text can become markup."""

SANDBOX = f"{_NOTHING}; sandbox"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def read_page() -> dict[str, bytes]:
    """The files of the page, by name."""
    folder = package_files("tensorferry.viewer").joinpath("page")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if any(entry.name.endswith(suffix) for suffix in TYPES)
    }


class Server(ThreadingHTTPServer):
    """Serves a page on loopback.

    Args:
        api: Answers the questions.
        port: By default a free one.
        frames: Whether other pages may show it in a frame, as a notebook does.
        keep: Go on though the page has been closed.
        gone: After how many seconds without a question the page is taken for closed.
    """

    daemon_threads = True
    # Two servers on one port would take turns.
    allow_reuse_port = False
    request_queue_size = 128

    def __init__(
        self,
        api: Api,
        *,
        port: int = 0,
        frames: bool = False,
        keep: bool = False,
        gone: float = GONE,
    ) -> None:
        super().__init__((HOST, port), Handler)
        self.api = api
        self.token = secrets.token_urlsafe(24)
        self.page = read_page()
        self.policy = POLICY if frames else f"{POLICY}; frame-ancestors 'none'"
        self.keep = keep
        self.seen = time.monotonic()
        self._gone = gone
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def has_ended(self) -> bool:
        """Whether it serves no more."""
        return self._ended.is_set()

    def run(self) -> None:
        """Serves until it is closed, or the page has been gone for long."""
        threading.Thread(target=self._watch, daemon=True).start()
        threading.Thread(target=self.api.open, daemon=True).start()
        try:
            self.serve_forever(poll_interval=0.2)
        finally:
            self._ended.set()
            self.server_close()
            self.api.close()

    def _watch(self) -> None:
        while not self._ended.wait(min(self._gone / 4, 5)):
            if not self.keep and time.monotonic() - self.seen > self._gone:
                self.shutdown()
                return

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection, unless there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        import sys

        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError | socket.timeout):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one browser."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "ferry"
    sys_version = ""
    timeout = 60
    # An answer goes out in one piece, and does not wait until the one before was confirmed.
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_GET(self) -> None:  # the base class calls it by this name
        """Answers a question, or gives a file of the page."""
        self._send(self._answer())

    def do_HEAD(self) -> None:
        """The same, without the body."""
        self._send(self._answer())

    def _answer(self) -> Answer:
        if self.server.has_ended:  # connections that are kept alive outlive it
            self.close_connection = True
            return of_json({"error": "the server has ended"}, HTTPStatus.SERVICE_UNAVAILABLE)
        if not self._is_ours():
            return of_json({"error": "the Host header names another host"}, HTTPStatus.FORBIDDEN)
        parts = urlsplit(self.path)
        _, token, *rest = [*parts.path.split("/"), "", ""][: 2 + 3]
        if not hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode()):
            return of_json({"error": "the token is wrong"}, HTTPStatus.FORBIDDEN)
        self.server.seen = time.monotonic()
        if parts.path.rstrip("/") == f"/{token}" and parts.path.endswith("/"):
            return self._file("index.html")
        if parts.path == f"/{token}/page/{rest[1]}":
            return self._file(rest[1])
        if parts.path == f"/{token}/api/{rest[1]}":
            return self.server.api.answer(rest[1], parts.query)
        return of_json({"error": "there is nothing"}, HTTPStatus.NOT_FOUND)

    def _is_ours(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1:
            return False
        name, colon, port = hosts[0].rpartition(":")
        if not colon or hosts[0].endswith("]"):
            name, port = hosts[0], ""
        return name.lower() in NAMES and (not port or port.isdigit())

    def _file(self, name: str) -> Answer:
        data = self.server.page.get(name)
        if data is None:
            return of_json({"error": "there is nothing"}, HTTPStatus.NOT_FOUND)
        suffix = name[name.rindex(".") :]
        return Answer(data, f"{TYPES[suffix]}; charset=utf-8")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type)
        is_page = answer.type.startswith("text/html")
        self.send_header("Content-Security-Policy", self.server.policy if is_page else SANDBOX)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if answer.name is not None:
            self.send_header("Content-Disposition", f'attachment; filename="{answer.name}"')
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
        else:
            self._stream(answer.body)

    def _stream(self, pieces: Iterator[bytes]) -> None:
        """Sends pieces, each with its length: a browser that misses the last one knows of it."""
        self.send_header("Connection", "close")
        self.send_header("Transfer-Encoding", "chunked")
        self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for piece in pieces:
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        except (FerryError, MemoryError):
            return  # the answer has begun: that it breaks off is all that can be said
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Prints nothing: the terminal belongs to the user."""
