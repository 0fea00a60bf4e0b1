"""Secrets: signed URLs work, and nothing of them, of passwords and tokens is shown or sent on."""

from __future__ import annotations

import http.server
import logging
import pickle
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest
from servers import S3

import tensorferry as ferry
from tensorferry import display
from tensorferry.storage import url as urls
from tensorferry.storage.place import Place

SECRET = "s3cr3tvalue"
QUERY = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=me%2F2026&X-Amz-Signature={SECRET}"


class Signed:
    """A web server that answers exactly the URLs that were signed, and denies all others.

    Attributes:
        asked: What it was asked, and with which headers.
        status: What it answers instead; with 302 it sends requests to `elsewhere`.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status = 0
        self.elsewhere = ""
        self.query = QUERY
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def answer(self, status, body=b"", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_GET(self):
                outer.asked.append((self.path, dict(self.headers)))
                path, _, query = self.path.partition("?")
                file = folder / path.lstrip("/")
                if outer.status == 302:
                    return self.answer(302, Location=outer.elsewhere + path)
                if outer.status:
                    return self.answer(outer.status, f"<p>{self.path}</p>".encode())
                if query != outer.query or not file.is_file() or self.command != "GET":
                    page = f"<?xml version='1.0'?><Error><Key>{self.path}</Key></Error>"
                    return self.answer(403, page.encode())
                data = file.read_bytes()
                start, stop = self.headers["Range"].removeprefix("bytes=").split("-")
                first, last = int(start), min(int(stop), len(data) - 1)
                where = f"bytes {first}-{last}/{len(data)}"
                return self.answer(206, data[first : last + 1], ETag='"x"', Content_Range=where)

            do_HEAD = do_PUT = do_GET  # noqa: N815

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def url(self, name: str) -> str:
        return f"{self.address}/{name}?{self.query}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


FILES = (
    "x.npy", "x.npz", "x.safetensors", "x.parquet", "x.arrow", "x.weights.h5", "x.pb", "x.json",
    "x.npy.gz", "x.csv", "x.jsonl", "x.tfrecord", "x.tfrecord.gz",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("signed")
    for name in FILES:
        if ".tfrecord" in name:
            with ferry.writer(path / name) as writer:
                writer.write({"a": 1})
        elif name in ("x.npy", "x.pb", "x.npy.gz"):
            ferry.save(np.arange(5.0), path / name)
        elif name == "x.weights.h5":
            ferry.save({"layers/dense/vars/0": np.arange(5.0)}, path / name)
        else:
            ferry.save({"a": np.arange(5.0)}, path / name)
    (path / "bad.npz").write_bytes((path / "x.npz").read_bytes()[:-5])
    (path / "bad.txt").write_bytes(b"nothing that we know")
    return path


@pytest.fixture
def signed(folder):
    server = Signed(folder)
    yield server
    server.stop()


def look(url: str, **options) -> None:
    """Opens, reads, inspects and verifies."""
    ferry.load(url, **options)
    list(ferry.open(url, **options))
    ferry.inspect(url, **options)
    ferry.verify(url, **options)


@pytest.mark.parametrize("name", FILES)
def test_signed(signed, name):
    """A signed URL is read in every format: nothing but that URL is asked for."""
    look(signed.url(name))

    assert {path for path, _ in signed.asked} == {f"/{name}?{QUERY}"}


def test_token_of_a_container(signed):
    """A query that may hold for other files is tried for a sidecar, and its refusal is no error."""
    signed.query = "sv=2026&sp=r"
    assert ferry.load(signed.url("x.npy")).tolist() == [0, 1, 2, 3, 4]
    assert {path for path, _ in signed.asked} == {
        f"/x.npy{end}?{signed.query}" for end in ("", ".json")
    }


def everything_of(error: BaseException) -> str:
    """All that a person, a log or another process may see of an error."""
    seen = "".join(traceback.format_exception(error)) + repr(error) + str(error) + str(error.args)
    if isinstance(error, ferry.FerryError):
        seen += repr(vars(error)) + str(pickle.loads(pickle.dumps(error)))
    before = error.__context__  # which `from None` hides from people, and not from tools
    return seen if before is None else seen + everything_of(before)


VERBS = (ferry.open, ferry.load, ferry.inspect, ferry.verify)


@pytest.mark.parametrize("status", [0, 400, 401, 403, 404, 410, 500])
def test_errors(signed, monkeypatch, status, caplog):
    """No error shows the signature, in whatever way the server or the file fails."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(ferry.storage.remote.settings, "retries", 0)
    signed.status = status
    for name in ("bad.npz", "bad.txt", "missing.npz", "missing.tfrecord"):
        for verb in VERBS:
            try:
                seen = repr(verb(signed.url(name)))
            except (ferry.FerryError, OSError) as error:
                seen = everything_of(error)
                assert name in str(error)
            assert SECRET not in seen, (name, verb)
    with pytest.raises((ferry.FerryError, OSError)) as failed:
        ferry.save({"a": np.zeros(2)}, signed.url("new.npz"))
    assert SECRET not in everything_of(failed.value)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"default_headers": {"Authorization": f"Bearer {SECRET}"}},
        {"bearer_token": SECRET},
        {"password": SECRET},
        {"default_headers": {f"{SECRET}\n": "x"}},
    ],
)
def test_options(signed, monkeypatch, options):
    """No error shows a storage option, whether the server has such an option or not."""
    monkeypatch.setattr(ferry.storage.remote.settings, "retries", 0)
    signed.status = 403
    with pytest.raises(Exception) as failed:  # noqa: PT011
        ferry.open(f"{signed.address}/x.npz", storage_options=options)
    assert SECRET not in everything_of(failed.value).replace(f"{SECRET}\\n", "")
    assert SECRET not in repr(Place(f"{signed.address}/x.npz", options=options))


def test_store_secrets(monkeypatch):
    """Neither do errors of a store, nor what is opened: the key of an account stays secret."""
    server = S3()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    try:
        url = server.url("missing.npz")
        with pytest.raises(FileNotFoundError) as failed:
            ferry.open(url)
        assert SECRET not in everything_of(failed.value)
        with pytest.raises((ferry.FerryError, OSError, ValueError)) as wrong:
            ferry.open(url, storage_options={"secret_access_key": SECRET, "no_such_option": SECRET})
        assert SECRET not in everything_of(wrong.value)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host/a?sig=x", "https://host/a?..."),
        ("https://host/a#token=x", "https://host/a?..."),
        ("https://me:x@host/a", "https://me:***@host/a"),
        ("https://x@host/a", "https://***@host/a"),
        ("https://me:p/x@q@host/a", "https://me:***@host/a"),
        ("sftp://me@host/a", "sftp://me@host/a"),
        ("sftp://me:x@host/a", "sftp://me:***@host/a"),
        ("s3://key:x@bucket/a?b", "s3://key:***@bucket/a?b"),
        ("https://host/user@mail/a", "https://host/user@mail/a"),
        ("/a/b@c:d", "/a/b@c:d"),
    ],
)
def test_shown(url, expected):
    """A URL is shown without what is secret in it; other names as they are."""
    assert display.shown(url) == expected
    assert ferry.FormatError("bad", path=url).path == expected
    assert display.scrub(f"failed: {url} is bad") == f"failed: {expected} is bad"


def test_names():
    """A suffix is added before the query; a local name may have a question mark."""
    assert urls.extended("https://h/x.npy?a=b", ".json") == "https://h/x.npy.json?a=b"
    assert urls.extended("s3://b/x?.npy", ".json") == "s3://b/x?.npy.json"
    assert urls.extended("x?.npy", ".json") == "x?.npy.json"


@pytest.mark.parametrize(
    ("query", "headers"),
    [(QUERY, {}), ("", {"X-Api-Key": SECRET}), ("", {"Authorization": f"Bearer {SECRET}"})],
    ids=["signature", "header", "authorization"],
)
def test_redirects(signed, folder, query, headers):
    """A token or a signature does not follow a redirect to another host."""
    other = Signed(folder)
    signed.query, other.query = query, ""
    signed.status, signed.elsewhere = 302, other.address
    url = f"{signed.address}/x.npz{'?' * bool(query)}{query}"
    try:
        options = {"default_headers": headers} if headers else None
        if "Authorization" in headers:  # the client drops it, and the file is read
            assert ferry.load(url, storage_options=options)["a"].tolist() == [0, 1, 2, 3, 4]
            assert other.asked
        else:
            with pytest.raises(ferry.UnsupportedError, match="sends requests on") as failed:
                ferry.load(url, storage_options=options)
            assert SECRET not in everything_of(failed.value)
            assert not other.asked
        assert SECRET not in str(other.asked)
    finally:
        other.stop()


def test_redirects_inside(signed, folder):
    """A redirect to the same host is followed, with headers."""
    other = Signed(folder)
    other.query = ""
    try:
        found = ferry.load(
            f"{other.address}/x.npz", storage_options={"default_headers": {"X-Api-Key": SECRET}}
        )
        assert found["a"].tolist() == [0, 1, 2, 3, 4]
        assert all(headers.get("x-api-key", headers.get("X-Api-Key")) for _, headers in other.asked)
    finally:
        other.stop()


@pytest.mark.parametrize(
    "call",
    [
        lambda url: ferry.save({"x": np.ones(2)}, f"{url}/m.npz", compression="gzip"),
        lambda url: ferry.save({"x": np.ones(2)}, f"{url}/m.h5"),
        lambda url: ferry.save({"x": np.ones(2)}, f"{url}/m.pt"),
        lambda url: ferry.writer(f"{url}/m.parquet.gz"),
        lambda url: ferry.loads(f"{url}/m.npz"),
    ],
)
def test_hints_that_repeat_the_name(call):
    """An error that says how else to name a file leaves the password out of that name, too."""
    with pytest.raises(ferry.FerryError) as caught:
        call(f"https://me:{SECRET}@host")

    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert SECRET not in f"{error} {error!r} {error.hint} {error.message} {error.args}"
        assert error.hint
