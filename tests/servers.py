"""Servers on loopback for the tests of storage: a real S3, and a web server that misbehaves."""

from __future__ import annotations

import http.server
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One that a server got."""

    method: str
    path: str
    range: str | None
    sent: int  # bytes of the body of the answer


class S3:
    """moto's S3 with one bucket, and a log of what it was asked.

    Attributes:
        endpoint: Its address.
        requests: All since `clear`.
        faults: What becomes of the next requests, one after the other: "" as it should be, "reset"
            hangs up without an answer, a number is the status of an answer without a body.
    """

    def __init__(self, bucket: str = "bucket") -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.bucket = bucket
        self.requests: list[Request] = []
        self.faults: Iterator[str] = iter(())
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._logged, threaded=True)
        self.endpoint = f"http://127.0.0.1:{self._server.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._ask("PUT", f"/{bucket}")

    def _logged(self, environment, start):
        fault = next(self.faults, "")
        if fault:
            return self._fail(fault, environment, start)
        answer = self._app(environment, start)
        pieces = [*answer]
        answer.close()
        self.requests.append(
            Request(
                environment["REQUEST_METHOD"],
                environment["PATH_INFO"]
                + "?" * bool(environment["QUERY_STRING"])
                + environment["QUERY_STRING"],
                environment.get("HTTP_RANGE"),
                0 if environment["REQUEST_METHOD"] == "HEAD" else sum(map(len, pieces)),
            )
        )
        return pieces

    def _fail(self, fault, environment, start):
        """Answers as a server does that is busy, broken or gone."""
        path, asked = environment["PATH_INFO"], environment.get("HTTP_RANGE")
        self.requests.append(Request(environment["REQUEST_METHOD"], path, asked, 0))
        if fault == "reset":
            environment["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        start(f"{fault} Fault", [("Content-Length", "0")])
        return []

    def _ask(self, method, path, data=None):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = {
            # Otherwise urllib calls it a form, which moto takes apart.
            "Content-Type": "application/octet-stream",
            # moto looks who asks, not whether the signature is right.
            "Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request",
            "x-amz-acl": "public-read",
        }
        asked = urllib.request.Request(self.endpoint + path, data, headers, method=method)
        with opener.open(asked) as answer:
            return answer.read()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a program needs to find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def url(self, key: str) -> str:
        """The URL of an object."""
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, data: bytes) -> str:
        """Puts an object there, and gives its URL."""
        self._ask("PUT", f"/{self.bucket}/{urllib.request.quote(key)}", data)
        return self.url(key)

    def get(self, key: str) -> bytes:
        """The bytes of an object."""
        return self._ask("GET", f"/{self.bucket}/{urllib.request.quote(key)}")

    def keys(self) -> list[str]:
        """The names of all objects."""
        found = self._ask("GET", f"/{self.bucket}?list-type=2").decode()
        return re.findall("<Key>(.*?)</Key>", found)

    def uploads(self) -> int:
        """How many uploads were begun and neither completed nor aborted."""
        return self._ask("GET", f"/{self.bucket}?uploads").count(b"<Upload>")

    def clear(self) -> None:
        """Forgets the requests."""
        self.requests.clear()

    def empty(self) -> None:
        """Removes all objects, uploads and faults."""
        self.faults = iter(())
        self._ask("POST", "/moto-api/reset")
        self._ask("PUT", f"/{self.bucket}")

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Web:
    """A web server with one file, which can be told to misbehave.

    Attributes:
        data: The file, at every path.
        mode: "" as it should be; "short" sends half of each answer and hangs up; "once" only
            the first time; "dies" like short, and takes no connection afterwards; "stalls"
            in the middle of an answer; "no ranges" gives all of it always; "no etag".
        status: What it answers instead.
        requests: What it was asked.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.mode = ""
        self.status = 200
        self.tag = '"one"'
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                web._answer(self)

        for method in ("HEAD", "PUT", "POST"):
            setattr(Handler, f"do_{method}", Handler.do_GET)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def url(self, path: str = "data.bin") -> str:
        """The URL of its file."""
        return f"http://127.0.0.1:{self.port}/{path}"

    def _answer(self, handler):
        asked = handler.headers.get("Range")
        self.headers.append(dict(handler.headers))
        if self.status != 200:
            self.requests.append(Request(handler.command, handler.path, asked, 0))
            handler.send_response(self.status)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if handler.headers.get("If-Match", self.tag) != self.tag:
            self.requests.append(Request(handler.command, handler.path, asked, 0))
            handler.send_response(412)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        body, size = self.data, len(self.data)
        ranged = asked is not None and not self.mode.startswith("no ranges")
        if ranged:
            start, stop = (int(part or size) for part in asked.removeprefix("bytes=").split("-"))
            stop = min(stop + 1, size)
            if start >= size:
                handler.send_response(416)
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            body = body[start:stop]
        handler.send_response(206 if ranged else 200)
        if ranged:
            handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        handler.send_header("Content-Length", str(len(body)))
        if self.mode != "no etag":
            handler.send_header("ETag", self.tag)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        mode, sent = self.mode, body
        if mode in ("short", "no ranges, short", "once", "dies", "stalls"):
            sent = body[: len(body) // 2]
        self.requests.append(Request(handler.command, handler.path, asked, len(sent)))
        if mode == "once":
            self.mode = ""
        if mode == "dies":
            threading.Thread(target=self.stop).start()
            time.sleep(0.1)
        try:
            handler.wfile.write(sent)
            handler.wfile.flush()
            if mode == "stalls":
                self.released.wait(20)
            if len(sent) < len(body):
                handler.close_connection = True
                handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            handler.close_connection = True

    def stop(self) -> None:
        """Ends it."""
        self.released.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
