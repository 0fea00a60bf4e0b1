"""Object stores, on a real S3 server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from servers import Web

import tensorferry as ferry
from tensorferry import storage
from tensorferry.errors import MissingExtraError, TruncatedError, UnsupportedError
from tensorferry.storage import plan, ranged, remote, store, upload

DATA = np.random.default_rng(7).bytes(3_000_000)


@pytest.fixture
def patience(monkeypatch):
    """Little of it."""
    monkeypatch.setattr(remote.settings, "retries", 1)
    monkeypatch.setattr(remote.settings, "timeout", 2.0)
    return remote.settings


@pytest.fixture
def small(monkeypatch):
    """Pieces and parts so small that there are many of them."""
    monkeypatch.setattr(ranged, "PIECE", 100_000)
    monkeypatch.setattr(ranged, "FIRST_PIECE", 10_000)
    monkeypatch.setattr(plan, "NEAR", 1000)
    monkeypatch.setattr(remote.settings, "part_size", 5 << 20)


class TestSource:
    """Reading."""

    def test_parts(self, s3, small):
        """Every part of an object is what was put there."""
        url = s3.put("a b/ü%20+?#.bin", DATA)
        with storage.open_source(url) as source:
            assert (source.path, source.size, source.buffer) == (url, len(DATA), None)
            assert source.head(10) == DATA[:10]
            assert source.range(5, 9) == DATA[5:9]
            assert source.range(7, 2_000_007) == DATA[7:2_000_007]
            assert source.range(len(DATA), len(DATA)) == b""
            pairs = [(2_999_999, 3_000_000), (0, 3), (500, 500), (100_000, 900_000), (1, 2)]
            assert source.ranges(pairs) == [DATA[start:stop] for start, stop in pairs]
            assert source.ranges([]) == []
            assert source.everything() == DATA
            assert np.frombuffer(source.range(0, 400_000), np.uint8).flags.writeable is False
            with pytest.raises(TruncatedError, match="ends here") as caught:
                source.range(10, len(DATA) + 1)
            assert (caught.value.path, caught.value.offset) == (url, len(DATA))

    def test_reading_in_order(self, s3, small):
        """Pieces of any size are the object, with and without a look at its start before."""
        url = s3.put("x", DATA)
        choose = np.random.default_rng(1)
        for head in (0, 5, 50_000):
            with storage.open_source(url) as source:
                source.head(head)
                got = []
                while piece := source.read(int(choose.integers(1, 300_000))):
                    got.append(piece)
                assert b"".join(got) == DATA
                assert source.bytes_read <= len(DATA) + ranged.HEAD

    def test_empty(self, s3):
        """An object without bytes is one."""
        with storage.open_source(s3.put("x", b"")) as source:
            assert (source.size, source.head(9), source.read(9)) == (0, b"", b"")
            assert source.everything() == b""

    def test_only_what_is_asked_for_is_transferred(self, s3):
        """Opening an object brings its start, and 100 bytes of 50 MB are one more request."""
        url = s3.put("x", bytes(50 << 20))
        s3.clear()
        with storage.open_source(url) as source:
            assert source.range(40 << 20, (40 << 20) + 100) == bytes(100)
            assert (source.reads, source.bytes_read) == (2, ranged.HEAD + 100)
        assert [request.method for request in s3.requests] == ["GET", "GET"]
        assert [request.sent for request in s3.requests] == [ranged.HEAD, 100]
        s3.clear()
        with storage.open_source(url) as source:
            source.head(12)
            source.range(0, 100)
            source.read(4)
        assert [request.sent for request in s3.requests] == [ranged.HEAD]

    def test_close_ranges_come_together(self, s3):
        """Ranges side by side are one request, and those far apart are not filled up."""
        url = s3.put("x", bytes(8 << 20))
        with storage.open_source(url) as source:
            s3.clear()
            source.ranges(
                [((1 << 20) + i * 100, (1 << 20) + i * 100 + 50) for i in range(100)]
                + [(7 << 20, (7 << 20) + 5)]
            )
        assert sorted(request.sent for request in s3.requests) == [5, 9950]

    def test_reading_ahead_is_bounded(self, s3):
        """Reading in order fetches a few pieces ahead, not the file."""
        url = s3.put("x", bytes(50 << 20))
        with storage.open_source(url) as source:
            source.read(10)
            assert source.bytes_read == ranged.HEAD
            source.read(ranged.HEAD)
            assert source.bytes_read == ranged.HEAD + ranged.FIRST_PIECE
            while source._position < 20 << 20:
                source.read(1 << 20)
            time.sleep(0.3)
            ahead = source.bytes_read - source._position
            assert ahead <= (ranged.AHEAD + 1) * ranged.PIECE

    @pytest.mark.parametrize("same_size", [True, False])
    def test_an_object_that_changes(self, s3, small, same_size):
        """A source is all of one version: another one is noticed."""
        url = s3.put("x", DATA)
        with storage.open_source(url) as source:
            assert source.range(0, 10) == DATA[:10]
            source.read(10)
            s3.put("x", DATA[::-1] if same_size else DATA[:1000])
            for ask in (
                lambda: source.range(2_900_000, 2_900_010),
                lambda: source.ranges([(0, 5), (2_000_000, 2_900_000)]),
                source.everything,
                lambda: source.read(1 << 20),
            ):
                with pytest.raises(OSError, match="was replaced while it was read") as caught:
                    ask()
                assert url in str(caught.value)

    def test_closed(self, s3):
        """A closed source says so."""
        source = storage.open_source(s3.put("x", DATA))
        source.close()
        for ask in (lambda: source.head(3), lambda: source.range(0, 3), lambda: source.read(1)):
            with pytest.raises(ValueError, match="closed"):
                ask()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
    def test_after_a_fork(self, s3):
        """A forked child, in which obstore would wait for ever, is told how to be started."""
        code = """
import os, signal, sys
from tensorferry import storage
storage.open_source(sys.argv[1]).close()
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        storage.open_source(sys.argv[1])
    except storage.UnsupportedError as error:
        os._exit("spawn" not in str(error))
sys.exit(os.waitpid(child, 0)[1])
"""
        url = s3.put("x", DATA)
        subprocess.run([sys.executable, "-W", "ignore", "-c", code, url], check=True, timeout=600)


class TestErrors:
    """What goes wrong has the URL in it, and what to do."""

    def test_missing(self, s3):
        """Neither an object nor a bucket that is not there can be read."""
        for url in (s3.url("no"), "s3://no-such-bucket/x"):
            with pytest.raises(FileNotFoundError, match=url):
                storage.open_source(url)

    def test_access_denied(self, s3, patience):
        """A refusal names what to set."""
        web = Web(b"")
        web.status = 403
        options = {"endpoint": web.url("")[:-1]}
        for ask in (
            lambda: storage.open_source(s3.url("x"), options=options),
            lambda: storage.list_directory(s3.url("x"), options=options),
            lambda: storage.remove(s3.url("x"), options=options),
        ):
            with pytest.raises(PermissionError, match="s3://bucket/x: access denied") as caught:
                ask()
            assert "AWS_ACCESS_KEY_ID" in str(caught.value)
        web.stop()

    @pytest.mark.parametrize("listening", [False, True])
    def test_no_credentials(self, s3, monkeypatch, listening):
        """Without credentials the error says which, soon, also if nobody answers."""
        monkeypatch.setattr(store, "METADATA_TIMEOUT", 0.2)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            if listening:
                silent.listen()
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            monkeypatch.setenv("AWS_METADATA_ENDPOINT", endpoint)
            start = time.monotonic()
            with pytest.raises(PermissionError, match="no credentials found") as caught:
                storage.open_source(s3.url("x"))
            assert "AWS_SKIP_SIGNATURE" in str(caught.value)
            assert time.monotonic() - start < 5

    def test_a_machine_without_credentials(self, s3, patience, monkeypatch):
        """The same error comes if the machine answers, and has none."""
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        web = Web(b"")
        web.status = 404
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", web.url("")[:-1])
        with pytest.raises(PermissionError, match="no credentials found"):
            storage.open_source(s3.url("credentials.bin"))
        web.stop()

    def test_unsigned(self, s3, monkeypatch):
        """A public object needs no credentials if that is said."""
        url = s3.put("x", DATA)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with storage.open_source(url, options={"skip_signature": True}) as source:
            assert source.everything() == DATA

    def test_options(self, s3, monkeypatch):
        """Everything that the environment says can be said by options, and wrong ones are told."""
        url = s3.put("x", DATA)
        options = {
            "endpoint": s3.endpoint,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": True,
            "timeout": 5,
        }
        for name in s3.environment:
            monkeypatch.delenv(name)
        with storage.open_source(url, options=options) as source:
            assert source.everything() == DATA
        with storage.open_sink(s3.url("y"), options=options) as sink:
            sink.write(b"y")
        assert storage.exists(s3.url("y"), options=options)
        assert storage.list_directory(s3.url(""), options=options) == [url, s3.url("y")]
        storage.remove(s3.url("y"), options=options)
        assert s3.keys() == ["x"]
        with pytest.raises(UnsupportedError, match="'bogus'"):
            storage.open_source(url, options={**options, "bogus": 1})

    def test_no_server(self, s3, patience, monkeypatch):
        """That nobody is there is a ConnectionError with the URL, after the retries."""
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}")
            with pytest.raises(ConnectionError, match="s3://bucket/x"):
                storage.open_source(s3.url("x"))
            with (
                pytest.raises(ConnectionError, match="s3://bucket/x"),
                storage.open_sink(s3.url("x")) as sink,
            ):
                sink.write(b"x")

    def test_no_proxy_for_loopback(self, s3, monkeypatch):
        """A proxy in the environment is not asked for what is on this machine."""
        url = s3.put("x", DATA)
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with storage.open_source(url) as source:
            assert source.everything() == DATA

    def test_missing_extra(self, monkeypatch):
        """Without obstore the error says what to install."""
        monkeypatch.setitem(sys.modules, "obstore", None)
        for url in ("s3://b/x", "gs://b/x", "gcs://b/x", "az://c/x", "http://h/x", "https://h/x"):
            with pytest.raises(MissingExtraError, match=r"tensorferry\[cloud\]"):
                storage.open_source(url)
        with (
            pytest.raises(MissingExtraError, match=r"tensorferry\[cloud\]"),
            storage.open_sink("s3://b/x"),
        ):
            pass

    def test_nothing_is_imported_before(self):
        """Neither package is imported before a URL needs it."""
        code = """
import sys
import tensorferry, tensorferry.storage
tensorferry.storage.open_source(b"")
tensorferry.open
assert not {"obstore", "fsspec"} & {*sys.modules}
"""
        subprocess.run([sys.executable, "-c", code], check=True)


class TestSink:
    """Writing."""

    @pytest.mark.parametrize("size", [0, 1, 4 << 20, 5 << 20, (5 << 20) + 1, 23 << 20])
    def test_sizes(self, s3, small, size):
        """Small objects and those of many parts are what was written."""
        data = np.random.default_rng(size).bytes(size)
        with storage.open_sink(s3.url("x")) as sink:
            sink.write(data[:100])
            sink.write(np.frombuffer(data[100:], np.uint8))
            assert sink.position == size
            assert not s3.keys()

        assert s3.get("x") == data
        assert s3.uploads() == 0

    def test_buffers_may_be_used_again(self, s3, small):
        """What was written may be overwritten by the caller at once."""
        buffer = bytearray(1 << 20)
        with storage.open_sink(s3.url("x")) as sink:
            for number in range(12):
                buffer[:] = bytes([number]) * len(buffer)
                sink.write(buffer)

        assert s3.get("x") == b"".join(bytes([number]) * (1 << 20) for number in range(12))

    @pytest.mark.parametrize("size", [10, 12 << 20])
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_an_error_leaves_the_object(self, s3, small, size, error):
        """If the block raises, the old object stays, and no upload is left open."""
        s3.put("x", b"old")
        with pytest.raises(error), storage.open_sink(s3.url("x")) as sink:
            sink.write(bytes(size))
            raise error

        assert s3.get("x") == b"old"
        assert s3.uploads() == 0

    def test_the_upload_fails(self, s3, small, patience):
        """A server that refuses parts is told of, and nobody waits for ever."""
        with (
            pytest.raises(FileNotFoundError, match="s3://no-such-bucket/x"),
            storage.open_sink("s3://no-such-bucket/x") as sink,
        ):
            for _ in range(40):
                sink.write(bytes(1 << 20))

    def test_too_many_parts(self, s3, small, monkeypatch):
        """More parts than a store takes are refused with the setting to change."""
        monkeypatch.setattr(upload, "MOST_PARTS", 2)
        with (
            pytest.raises(UnsupportedError, match="part_size"),
            storage.open_sink(s3.url("x")) as sink,
        ):
            sink.write(bytes(16 << 20))
        assert (s3.keys(), s3.uploads()) == ([], 0)

    def test_order(self, s3, small):
        """Objects appear in the order in which they were opened, and none if one fails."""
        with storage.Replacement() as files:
            for name in ("z.data", "a.index"):
                files.open(s3.url(name)).write(bytes(6 << 20))
        ended = [
            request.path
            for request in s3.requests
            if "uploadId" in request.path and request.method == "POST"
        ]
        assert [path.split("?")[0] for path in ended] == ["/bucket/z.data", "/bucket/a.index"]
        with pytest.raises(FileNotFoundError), storage.Replacement() as files:
            files.open("s3://no-such-bucket/x").write(b"x")
            files.open(s3.url("b.index")).write(b"x")
        assert s3.keys() == ["a.index", "z.data"]

    def test_killed(self, s3):
        """A process that is killed while it uploads leaves the old object."""
        s3.put("x", b"old")
        code = """
import sys
from tensorferry import storage
with storage.open_sink(sys.argv[1]) as sink:
    sink.write(bytes(40 << 20))
    print(flush=True)
    sys.stdin.read()
"""
        command = [sys.executable, "-c", code, s3.url("x")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert s3.get("x") == b"old"

    @pytest.mark.parametrize("name", ["", "/", "/d/", "/d/x.npz/"])
    def test_names_of_folders(self, s3, name):
        """No object is written under another name than the one that was given."""
        with pytest.raises(IsADirectoryError, match="name of a folder"):
            ferry.save({"x": DATA[:9]}, f"s3://{s3.bucket}{name}", format="npz")
        assert s3.keys() == []

    def test_refusals(self, s3):
        """What was uploaded cannot be patched, appended to, or be on a web server."""
        with (
            pytest.raises(UnsupportedError, match="cannot be changed any more"),
            storage.open_sink(s3.url("x")) as sink,
        ):
            sink.write(b"abc")
            sink.patch(0, b"x")
        assert s3.keys() == []
        with pytest.raises(UnsupportedError, match="appended"):
            storage.append_sink(s3.url("x"), 0)
        with pytest.raises(UnsupportedError, match="web server"), storage.open_sink("https://h/x"):
            pass


class TestNames:
    """exists, remove, list_directory and match."""

    def test_names(self, s3):
        """Names are those of the store."""
        for key in ("a.x", "d/b.x", "d/c.y", "d/e/f.x"):
            s3.put(key, b"1")

        assert storage.exists(s3.url("d/b.x"))
        assert not storage.exists(s3.url("d/b"))
        assert not storage.exists(s3.url("d"))
        assert storage.list_directory(s3.url("d")) == [s3.url("d/b.x"), s3.url("d/c.y")]
        assert storage.list_directory(s3.url("d/")) == [s3.url("d/b.x"), s3.url("d/c.y")]
        assert storage.list_directory(s3.url("d"), start="c.") == [s3.url("d/c.y")]
        assert storage.list_directory("s3://bucket") == [s3.url("a.x")]
        assert storage.list_directory(s3.url("none")) == []
        assert storage.match(s3.url("d/*.x")) == [s3.url("d/b.x")]
        assert storage.match(s3.url("**/*.x")) == [*map(s3.url, ("a.x", "d/b.x", "d/e/f.x"))]
        assert storage.match(s3.url("d/[!b].?")) == [s3.url("d/c.y")]
        storage.remove(s3.url("a.x"))
        storage.remove(s3.url("a.x"))
        assert s3.keys() == ["d/b.x", "d/c.y", "d/e/f.x"]

    def test_local_names(self, tmp_path):
        """The same questions are answered for local files."""
        for name in ("a.x", "b.y"):
            (tmp_path / name).write_bytes(b"1")
        (tmp_path / "c.x").mkdir()

        assert storage.exists(tmp_path / "a.x")
        assert storage.exists((tmp_path / "a.x").as_uri())
        assert storage.list_directory(tmp_path) == [str(tmp_path / "a.x"), str(tmp_path / "b.y")]
        assert storage.list_directory(tmp_path, start="b.") == [str(tmp_path / "b.y")]
        assert storage.match(tmp_path / "*.x") == [str(tmp_path / "a.x")]
        storage.remove(tmp_path / "a.x")
        storage.remove(tmp_path / "a.x")
        assert not storage.exists(tmp_path / "a.x")
        assert storage.is_url("s3://b/x")
        assert storage.is_url("file:///x")
        assert not storage.is_url("/x://y")
        assert not storage.is_url("C:/x")


class TestRecords:
    """TFRecords by URL."""

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_roundtrip(self, s3, small, suffix):
        """What a writer writes to a store is read from there, shard by shard."""
        path = s3.url(f"train/t.tfrecord{suffix}")
        with ferry.writer(path, shards=2) as out:
            for number in range(2000):
                out.write({"id": number, "data": bytes(200)})

        assert s3.keys() == [f"train/t.tfrecord{suffix}-0000{i}-of-00002" for i in range(2)]
        for given in (f"{path}@2", f"{path}-*", s3.url("train/")):
            with ferry.open(given) as records:
                assert sum(len(batch["id"]) for batch in records.batches(300)) == 2000
                assert sorted(row["id"] for row in records) == [*range(2000)]
                assert len(records) == 2000

    def test_random_access(self, s3):
        """Records in the middle of a remote file are refused, with the reason."""
        path = s3.url("t.tfrecord")
        with ferry.writer(path) as out:
            out.write({"id": 7})
        with ferry.open(path) as records, pytest.raises(UnsupportedError, match="in order"):
            records[0]

    def test_append(self, s3):
        """Appending does not replace what is there."""
        path = s3.url("t.tfrecord")
        with ferry.writer(path) as out:
            out.write({"id": 7})
        with pytest.raises(UnsupportedError, match="remote"):
            ferry.writer(path, append=True)
        with ferry.open(path) as records:
            assert [row["id"] for row in records] == [7]

    def test_an_error_writes_nothing(self, s3):
        """A writer that fails leaves no shard."""
        with pytest.raises(ZeroDivisionError), ferry.writer(s3.url("t@3.tfrecord")) as out:
            out.write({"id": 7})
            raise ZeroDivisionError
        assert s3.keys() == []
