"""Web servers, and what goes wrong on the way, on a server that does it."""

from __future__ import annotations

import errno
import pickle

import numpy as np
import pytest
from servers import Web

import tensorferry as ferry
from tensorferry import storage
from tensorferry.errors import LimitError, TruncatedError, UnsupportedError
from tensorferry.storage import ranged, remote, store

DATA = np.random.default_rng(5).bytes(1_000_000)


@pytest.fixture
def web(monkeypatch):
    """A web server, and little patience with it."""
    monkeypatch.setattr(remote.settings, "retries", 2)
    monkeypatch.setattr(remote.settings, "timeout", 2.0)
    monkeypatch.setattr(store, "BACKOFF", 0.02)
    monkeypatch.setattr(ranged, "PIECE", 200_000)
    server = Web(DATA)
    yield server
    server.stop()


class TestReading:
    """What a web server gives."""

    @pytest.mark.parametrize("mode", ["", "no ranges", "no etag"])
    def test_parts(self, web, mode):
        """Every part is there, also of a server that knows no ranges."""
        web.mode = mode
        with storage.open_source(web.url()) as source:
            assert (source.path, source.size, source.buffer) == (web.url(), len(DATA), None)
            assert source.read(10) == DATA[:10]
            assert source.head(10) == DATA[:10]
            assert source.range(900_000, 900_009) == DATA[900_000:900_009]
            assert source.ranges([(5, 9), (0, 700_000)]) == [DATA[5:9], DATA[:700_000]]
            assert source.everything() == DATA
            assert source.read(1 << 30) == DATA[10:]

    def test_no_ranges_in_order(self, web):
        """Reading in order takes no more memory of a server without ranges."""
        web.mode = "no ranges"
        with storage.open_source(web.url()) as source:
            assert b"".join(iter(lambda: source.read(70_000), b"")) == DATA
            assert source.buffer is None

    def test_few_bytes(self, web):
        """Some bytes of a large file are some bytes on the wire."""
        web.data = bytes(20 << 20)
        with storage.open_source(web.url()) as source:
            source.range(10 << 20, (10 << 20) + 100)
        assert sum(request.sent for request in web.requests) == ranged.HEAD + 100

    @pytest.mark.parametrize("mode", ["", "no ranges"])
    def test_empty(self, web, mode):
        """A file without bytes is one."""
        web.mode, web.data = mode, b""
        with storage.open_source(web.url()) as source:
            assert (source.size, source.read(5), source.everything()) == (0, b"", b"")

    def test_names(self, web):
        """Escapes and a query are sent as they are, and a signed URL is only used by GET."""
        name = "a%20b/c%2Fd.bin?X-Signature=s%2Bt&n=1"
        with storage.open_source(web.url(f"{name}#part")) as source:
            assert source.range(500_000, 500_001)
        assert {request.path for request in web.requests} == {f"/{name}"}
        assert {request.method for request in web.requests} == {"GET"}

    def test_options(self, web):
        """Headers can be given, and what is for stores is refused."""
        options = {"default_headers": {"Authorization": "Bearer x"}, "timeout": 3}
        storage.open_source(web.url(), options=options).close()
        assert "Bearer x" in {*web.headers[-1].values()}
        with pytest.raises(UnsupportedError, match="region"):
            storage.open_source(web.url(), options={"region": "x"})

    def test_records(self, web):
        """TFRecords are read from a web server, compressed or not."""
        frames = ferry.dumps([b"record"] * 10_000, format="tfrecord")
        web.data = bytes(frames)
        with ferry.open(web.url("t.tfrecord"), raw=True) as records:
            assert [*records] == [b"record"] * 10_000

    def test_names_are_not_listed(self, web):
        """What a web server has cannot be listed or removed."""
        assert storage.exists(web.url())
        for ask in (storage.list_directory, storage.remove, storage.match):
            with pytest.raises(UnsupportedError, match="web server"):
                ask(web.url())
        web.status = 404
        assert not storage.exists(web.url())


class TestFaults:
    """What goes wrong on the way."""

    def test_cut_short(self, web):
        """An answer that ends too early each time is an error with the URL."""
        with storage.open_source(web.url()) as source:
            web.mode = "short"
            for ask in (lambda: source.range(500_000, 600_000), source.everything):
                with pytest.raises(TruncatedError, match="too early") as caught:
                    ask()
                assert caught.value.path == web.url()
                assert caught.value.offset is not None
            with pytest.raises(TruncatedError):
                source.read(1 << 20)

    def test_cut_short_without_ranges(self, web):
        """The same of a server that cannot go on where it stopped."""
        web.mode = "no ranges"
        for ask in (lambda source: source.everything(), lambda source: source.read(len(DATA))):
            with storage.open_source(web.url()) as source:
                web.mode = "no ranges, short"
                with pytest.raises(TruncatedError) as caught:
                    ask(source)
                assert caught.value.path == web.url()

    def test_cut_short_once(self, web):
        """An answer that ended too early is asked for again, from there on."""
        with storage.open_source(web.url()) as source:
            web.mode = "once"
            assert source.range(500_000, 600_000) == DATA[500_000:600_000]
        assert web.requests[-1].range == "bytes=550000-599999"

    def test_a_size_that_is_a_lie(self, web):
        """A size that the server does not have takes no memory that it could fill."""
        with storage.open_source(web.url()) as source:
            for size in (1 << 45, 1 << 62, 1 << 70):
                source.size = size
                with pytest.raises((LimitError, OSError)):
                    source.everything()

    def test_dies(self, web):
        """A server that dies in the middle of an answer is a lost connection."""
        with storage.open_source(web.url()) as source:
            web.mode = "dies"
            with pytest.raises((ConnectionError, TruncatedError), match=web.url()):
                source.range(500_000, 600_000)

    def test_stalls(self, web, monkeypatch):
        """A server that stops sending is given up."""
        monkeypatch.setattr(remote.settings, "timeout", 0.5)
        monkeypatch.setattr(remote.settings, "retries", 0)
        with storage.open_source(web.url()) as source:
            web.mode = "stalls"
            with pytest.raises(TimeoutError, match="no answer in time") as caught:
                source.range(500_000, 600_000)
            assert web.url() in str(caught.value)

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (401, PermissionError),
            (403, PermissionError),
            (404, FileNotFoundError),
            (500, OSError),
            (503, OSError),
        ],
    )
    def test_refused(self, web, status, kind):
        """Each refusal is the error of its kind with the URL in it, and survives pickling."""
        web.status = status
        with pytest.raises(kind, match=web.url()) as caught:
            storage.open_source(web.url())
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        assert len(web.requests) == (3 if status >= 500 else 1)

    def test_secrets(self, web):
        """No error shows a signature or a password."""
        web.status = 403
        url = web.url("x.bin?sig=SECRET").replace("://", "://user:SECRET@")
        for ask in (storage.open_source, storage.remove):
            with pytest.raises((PermissionError, UnsupportedError)) as caught:
                ask(url)
            assert "x.bin?..." in str(caught.value)
            assert "SECRET" not in str(caught.value)

    def test_recovers(self, web):
        """A server that is busy once is asked again."""
        web.status = 503
        answer = web._answer

        def once(handler):
            answer(handler)
            web.status = 200

        web._answer = once
        with storage.open_source(web.url()) as source:
            assert source.everything() == DATA

    @pytest.mark.parametrize("mode", ["", "no etag", "no ranges"])
    def test_a_file_that_changes(self, web, mode):
        """Another version is noticed by its tag or at least by its size."""
        web.mode = mode
        with storage.open_source(web.url()) as source:
            web.data, web.tag = DATA[: len(DATA) // 2], '"two"'
            with pytest.raises(OSError, match="was replaced") as caught:
                source.range(300_000, 300_009)
            assert caught.value.errno == errno.ESTALE

    def test_weak_tags(self, web):
        """A weak tag, which no condition can name, tells versions apart all the same."""
        web.tag = 'W/"one"'
        with storage.open_source(web.url()) as source:
            assert source.range(300_000, 300_009) == DATA[300_000:300_009]
            web.tag = 'W/"two"'
            with pytest.raises(OSError, match="was replaced"):
                source.range(300_000, 300_009)

    def test_what_is_no_name(self, s3):
        """A name that no object can have is told."""
        with pytest.raises(UnsupportedError, match="s3://bucket/a//b"):
            storage.open_source("s3://bucket/a//b")
