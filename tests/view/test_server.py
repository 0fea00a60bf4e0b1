"""The server: who gets an answer, and what nobody can reach."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.viewer.api import Api
from tensorferry.viewer.opening import find_files
from tensorferry.viewer.server import CONNECTIONS, Server, read_page


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "x.npz"
    ferry.save({"x": np.arange(6.0).reshape(2, 3)}, path)
    with ferry.view(path, browser=False) as shown:
        yield shown


def get(view, path, *, method="GET", host=None, prefix=True):
    """Asks by hand, so that every header can be a lie."""
    parts = urlsplit(view.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.putrequest(method, (parts.path if prefix else "") + path, skip_host=True)
    for one in [host] if isinstance(host, str) else host if host is not None else [parts.netloc]:
        connection.putheader("Host", one)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_answers(view):
    """The page, its files and the questions."""
    status, headers, body = get(view, "")
    assert status == 200
    assert b"<!doctype html>" in body
    assert headers["Content-Type"].startswith("text/html")
    assert get(view, "page/main.js")[1]["Content-Type"].startswith("text/javascript")
    assert json.loads(get(view, "api/alive")[2]) == {"alive": True}
    assert get(view, "api/alive", method="HEAD")[2] == b""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:1",
        "127.0.0.1@evil.example",
        "127.0.0.1:80:80x",
        "",
        [],
        ["127.0.0.1", "evil.example"],
        "[::1].evil",
        "0.0.0.0",
    ],
)
def test_foreign_host(view, host):
    """A name that somebody else points to this machine gets nothing, though the token is right."""
    assert get(view, "", host=host)[0] in (400, 403)
    assert get(view, "api/files", host=host)[0] in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost:8000", "LOCALHOST", "[::1]:7"])
def test_tunnel(view, host):
    """Through a tunnel the port is another one."""
    assert get(view, "api/alive", host=host)[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/api/files", "//api/files", "/x/api/files", "/%00/", "/%C3%BC/"],
)
def test_wrong_token(view, path):
    """Without the token there is nothing, not even the page."""
    assert get(view, path, prefix=False)[0] == 403
    token = urlsplit(view.url).path.strip("/")
    assert get(view, f"/{token[:-1]}/api/files", prefix=False)[0] == 403
    assert get(view, f"/{token}x/api/files", prefix=False)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "page/../server.py",
        "page/%2e%2e/server.py",
        "page/..%2fserver.py",
        "page//etc/passwd",
        "page/",
        "page/__init__.py",
        "api/../page/main.js",
        "api/",
        "api/nothing",
        "api/info/more",
        "etc/passwd",
        "page/main.js/x",
    ],
)
def test_nothing_else(view, path):
    """Only files of the page and questions have an address."""
    assert get(view, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_methods(view, method):
    """Nothing can be changed: only GET and HEAD are known."""
    assert get(view, "api/alive", method=method)[0] == 501


def test_headers(view):
    """No code but our own, no guessing of types, nothing told to others."""
    headers = get(view, "")[1]
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    for path in ("", "api/files", "page/main.js"):
        headers = get(view, path)[1]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
    assert "sandbox" in get(view, "api/files")[1]["Content-Security-Policy"]


@pytest.mark.parametrize(
    "question",
    [
        "info?file=99",
        "info?file=-1x",
        "info?file=99999999999999999999999",
        "tensor?tensor=7",
        "plane?tensor=0&rows=5",
        "plane?tensor=0&rows=1&columns=1",
        "plane?tensor=0&window=1,2,3,4,5",
        "plane?tensor=0&window=a,b,c,d",
        "plane?tensor=0&at=0:0:0",
        "rows?start=0",
        "model?",
        "graph?",
        "media?row=1",
        "difference?a=0&b=9",
        "info?file=0&file=0",
        "values?start=" + "1" * 17000,
        "search?where=x",
    ],
)
def test_bad_questions(view, question):
    """A question that makes no sense is answered by a reason."""
    status, _, body = get(view, f"api/{question}")
    answer = json.loads(body)
    assert status == 422
    assert answer["error"]
    assert "Traceback" not in body.decode()


def test_long_address(view):
    """An address of a megabyte is refused, and the next question is answered."""
    assert get(view, "api/info?x=" + "y" * 1_000_000)[0] in (414, 431, 422)
    assert get(view, "api/alive")[0] == 200


def test_only_loopback(view):
    """Other machines cannot connect."""
    assert urlsplit(view.url).hostname == "127.0.0.1"
    assert view._server.server_address[0] == "127.0.0.1"


def test_many_connections(view):
    """Connections beyond the limit are closed, and those within it are served."""
    import socket

    parts = urlsplit(view.url)
    idle = [socket.create_connection((parts.hostname, parts.port)) for _ in range(100)]
    closed: set[int] = set()
    end = time.monotonic() + 60
    while len(closed) < 100 - CONNECTIONS and time.monotonic() < end:
        for number, connection in enumerate(idle):
            connection.setblocking(False)
            with suppress(BlockingIOError):
                closed |= {number} if connection.recv(1) == b"" else set()
        time.sleep(0.02)
    for connection in idle:
        connection.close()
    assert len(closed) >= 100 - CONNECTIONS
    while time.monotonic() < end:
        with suppress(OSError):
            if get(view, "api/alive")[0] == 200:
                return
        time.sleep(0.05)
    pytest.fail("the server does not answer any more")


def test_many_questions(view):
    """A thousand quick questions of several tabs are all answered, and alike."""
    parts = urlsplit(view.url)
    answers = []

    def ask_often():
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        for _ in range(125):
            connection.request("GET", f"{parts.path}api/tensors?file=0")
            answers.append(connection.getresponse().read())
        connection.close()

    tabs = [threading.Thread(target=ask_often) for _ in range(8)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join(60)
    assert len(answers) == 1000
    assert len(set(answers)) == 1


def test_tokens_differ(tmp_path):
    """Each page has an address that cannot be guessed."""
    ferry.save({"x": np.ones(1)}, tmp_path / "x.npz")
    tokens = set()
    for _ in range(3):
        with ferry.view(tmp_path / "x.npz", browser=False) as shown:
            tokens.add(urlsplit(shown.url).path)
    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32


def test_ends_when_the_page_is_gone(tmp_path):
    """Without a question for long, the server ends; with keep it does not."""
    ferry.save({"x": np.ones(1)}, tmp_path / "x.npz")
    servers = [
        Server(Api(find_files([tmp_path / "x.npz"])), gone=0.2, keep=keep) for keep in (True, False)
    ]
    kept, other = [threading.Thread(target=server.run) for server in servers]
    kept.start()
    other.start()
    other.join(60)
    assert not other.is_alive()
    assert kept.is_alive()  # it started first
    servers[0].shutdown()
    kept.join(60)
    assert not kept.is_alive()


def test_table_with_damage(tmp_path):
    """The rows that are sound are downloaded, in pieces and to the end."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    table = pa.table({"x": np.random.default_rng(1).standard_normal(20_000)})
    pq.write_table(table, path, row_group_size=2000, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    place = pq.ParquetFile(path).metadata.row_group(8).column(0).data_page_offset
    data[place + 100 : place + 2000] = bytes(1900)
    path.write_bytes(data)
    with ferry.view(path, browser=False) as shown:
        status, headers, body = get(shown, "api/table?where=x+%3C+9")
        assert (status, headers["Transfer-Encoding"]) == (200, "chunked")
        assert body.count(b"\n") == 18_001
        assert get(shown, "api/table?where=y+%3C+9")[0] == 422


def test_closing(tmp_path):
    """A closed page is gone, and closing twice is fine."""
    ferry.save({"x": np.ones(1)}, tmp_path / "x.npz")
    shown = ferry.view(tmp_path / "x.npz", browser=False)
    assert get(shown, "api/alive")[0] == 200
    shown.close()
    shown.close()
    with pytest.raises(ConnectionRefusedError):
        get(shown, "api/alive")


def test_the_page_names_what_every_view_needs() -> None:
    """Modules of all views are fetched at once, those of one view when it is shown."""
    page = {name: data.decode() for name, data in read_page().items()}

    def reached(pattern):
        found, left = set(), ["main.js"]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += re.findall(pattern, page[name])
        return found

    named = set(re.findall(r'(?:href|src)="page/([a-z]+\.js)"', page["index.html"]))
    assert named == reached(r'from "\./([a-z]+\.js)"') | {"list.js"}
    modules = {name for name in page if name.endswith(".js")}
    assert reached(r'(?:from |import\()"\./([a-z]+\.js)"') == modules
