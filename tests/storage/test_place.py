"""Places: a path, its options and its source, passed on as one."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensorferry import storage
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.storage.place import OPEN_AT_ONCE, Place, Target
from tensorferry.storage.source import Source
from tensorferry.storage.url import beside

DATA = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path):
    """A file with DATA in it."""
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


class TestOpening:
    """The source of a place."""

    def test_once(self, path):
        """A place is opened once, and again after it was closed."""
        place = Place(path)
        assert not place.is_open
        source = place.open()
        assert place.open() is source
        assert source.range(5, 9) == DATA[5:9]
        place.close()
        place.close()
        assert not place.is_open
        assert place.open() is not source
        assert place.open().range(5, 9) == DATA[5:9]

    def test_threads_get_the_same(self, s3):
        """Threads that open a place at once share its source, which took one request."""
        place = Place(s3.put("x", DATA))
        s3.clear()
        together = threading.Barrier(8)

        def work(_):
            together.wait()
            return place.open()

        with ThreadPoolExecutor(8) as pool:
            sources = {*pool.map(work, range(8))}
        assert len(sources) == len(s3.requests) == 1

    @pytest.mark.parametrize("kind", ["path", "bytes", "BytesIO", "file", "source", "s3"])
    def test_readers(self, path, s3, kind):
        """Each reader starts at the first byte, wherever the others are."""
        with open(path, "rb") as file:
            given = {
                "path": path,
                "bytes": DATA,
                "BytesIO": io.BytesIO(DATA),
                "file": file,
                "source": Source("x", buffer=memoryview(DATA)),
                "s3": s3.put("x", DATA),
            }[kind]
            place = Place(given)
            assert place.open().read(10) == DATA[:10]
            assert place.reader().read(5) == DATA[:5]
            assert place.reader().read(1 << 20) == DATA
            assert place.open().read(5) == DATA[10:15]
            assert place.size() == len(DATA)
            assert place.exists()
            assert not place.is_stream

    @pytest.mark.parametrize("given", [DATA, bytearray(DATA), np.frombuffer(DATA, "f4")])
    def test_bytes_open_again(self, given):
        """Bytes are still there after closing."""
        place = Place(given)
        place.close()
        assert place.open().everything() == DATA
        assert place.path == "<bytes>"

    def test_sources_do_not_open_again(self):
        """Nobody knows how a source that was given came to be: closed is closed."""
        place = Place(Source("x.npz", buffer=memoryview(DATA)))
        place.close()
        with pytest.raises(ValueError, match=r"x\.npz is closed"):
            place.open()

    def test_many_places(self, path):
        """Files of a large set that are closed after reading hold no descriptors."""
        before = len(os.listdir("/dev/fd"))
        places = [Place(path) for _ in range(2 * OPEN_AT_ONCE)]
        for place in places:
            assert place.open().head(3) == DATA[:3]
            place.close()
        assert len(os.listdir("/dev/fd")) <= before


class TestStreams:
    """Bytes that come once."""

    def test_pipes(self, tmp_path):
        """A pipe is known as a stream without opening it, and cannot be read twice."""
        path = tmp_path / "fifo"
        os.mkfifo(path)
        place = Place(path)
        assert place.is_stream
        assert place.size() is None
        assert not place.is_named
        assert place.exists()
        thread = threading.Thread(target=path.write_bytes, args=(DATA,))
        thread.start()
        assert place.reader() is place.open()
        assert place.open().head(5) == DATA[:5]
        assert place.open().read(1 << 20) == DATA
        thread.join()
        place.close()
        with pytest.raises(ValueError, match="cannot be read twice"):
            place.open()

    def test_a_stream_in_memory(self):
        """A stream that was read into memory has a size, and as many readers as wanted."""
        place = Place(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(DATA))))
        assert place.is_stream
        assert place.open().range(0, 3) == DATA[:3]
        assert not place.is_stream
        assert place.reader().read(9) == place.reader().read(9) == DATA[:9]
        assert place.size() == len(DATA)
        place.close()
        with pytest.raises(ValueError, match="cannot be read twice"):
            place.open()

    def test_standard_input(self):
        """The name "-" is a stream, and no file."""
        code = """
import sys
from tensorferry.storage.place import Place
place = Place("-")
assert place.is_stream and place.exists() and not place.is_named and place.size() is None
assert place.open().head(3) == b"abc" and place.open().read(9) == b"abcd"
"""
        subprocess.run([sys.executable, "-c", code], input=b"abcd", check=True)


class TestErrors:
    """Places of what is no file."""

    def test_directories(self, tmp_path):
        """A directory is told, by its size as well."""
        place = Place(tmp_path)
        assert place.exists()
        for ask in (place.open, place.size, place.reader):
            with pytest.raises(FormatError, match="is a directory"):
                ask()
        assert not place.is_open

    def test_missing(self, tmp_path, s3):
        """A file or object that is not there is the system's error."""
        for given in (tmp_path / "none", s3.url("none")):
            place = Place(given)
            assert not place.exists()
            for ask in (place.open, place.size):
                with pytest.raises(FileNotFoundError, match="none"):
                    ask()

    @pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="has no /proc")
    def test_files_without_a_size(self):
        """Files of /proc have more bytes than they say."""
        assert Place("/proc/self/status").size() > 100

    def test_secrets(self):
        """Neither a password nor a signature is shown."""
        place = Place("https://user:SECRET@host/x.npz?sig=SECRET")
        assert "SECRET" not in repr(place) + place.shown
        assert "x.npz" in repr(place)


class TestPickling:
    """What other processes get."""

    def test_paths(self, path, s3):
        """A path or URL is pickled with its options, and its source is not."""
        url = s3.put("x", DATA)
        options = {"endpoint": s3.endpoint}
        for place in (Place(path), Place(url, options=options)):
            place.open()
            other = pickle.loads(pickle.dumps(place))
            assert other == place
            assert other.options == place.options
            assert not other.is_open
            assert other.open().everything() == DATA

    @pytest.mark.parametrize("given", [DATA, bytearray(DATA), np.frombuffer(DATA, "f4")])
    def test_bytes(self, given):
        """Bytes travel as they are."""
        assert pickle.loads(pickle.dumps(Place(given))).open().everything() == DATA

    def test_equal_bytes(self):
        """Bytes are equal to their copy."""
        assert pickle.loads(pickle.dumps(Place(DATA))) == Place(DATA)

    @pytest.mark.parametrize("kind", ["file", "stream", "source", "stdin"])
    def test_refused(self, path, kind):
        """What has no name, or a name that means other bytes, cannot be pickled."""
        with open(path, "rb") as file:
            given = {
                "file": file,
                "stream": io.BytesIO(DATA),
                "source": Source(str(path), buffer=memoryview(b"decompressed")),
                "stdin": "-",
            }[kind]
            place = Place(given)
            assert not place.is_named
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(place)


def test_equality(path):
    """Places are equal if their paths and options are, and sources only to themselves."""
    assert Place(path) == Place(str(path)) == Place(path.as_uri()) == Place(path, options={})
    assert hash(Place(path)) == hash(Place(path.as_uri()))
    assert Place(path) != Place(path, options={"region": "x"})
    assert Place(path) != str(path)
    one, other = Source("x", buffer=memoryview(b"a")), Source("x", buffer=memoryview(b"b"))
    assert Place(one) == Place(one)
    assert Place(one) != Place(other)
    assert Place(one) != Place("x")
    assert Place(b"a") != Place(b"b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.bin", "b"),
        ("/data/a.bin", "/data/b"),
        ("s3://bucket/a.bin", "s3://bucket/b"),
        ("s3://bucket/d/a?b.bin", "s3://bucket/d/b"),
        ("s3://bucket", "s3://bucket/b"),
        ("https://host/d/a.bin?sig=x/y#part", "https://host/d/b?sig=x/y#part"),
        ("zip://in/a.bin::file:///d/x.zip", "zip://in/b::file:///d/x.zip"),
    ],
)
def test_beside(path, expected):
    """Another file in the same folder has the same store, query and archive."""
    assert beside(path, "b") == expected
    place = Place(path, options={"k": 1}).beside("b")
    assert (place.path, place.options) == (expected, {"k": 1})


def test_nothing_is_beside_bytes(path):
    """Bytes and streams have no folder; the file of a file object has one."""
    for given in (DATA, io.BytesIO(DATA), "-"):
        with pytest.raises(UnsupportedError, match="beside"):
            Place(given).beside("x.json")
    with open(path, "rb") as file:
        assert Place(file).beside("x").path == str(path.parent / "x")


class TestTarget:
    """Where something is written."""

    def test_one_file(self, path):
        """The file appears when the block ends well, and is read at its place."""
        target = Target(str(path), durable=False)
        assert target.is_path
        with pytest.raises(ZeroDivisionError), target.sink() as sink:
            sink.write(b"new")
            raise ZeroDivisionError
        assert target.place().open().everything() == DATA
        with target.sink() as sink:
            sink.write(b"new")
        assert target.place().open().everything() == b"new"

    def test_several_files(self, tmp_path):
        """Several files appear together."""
        with Target(str(tmp_path / "x"), durable=False).files() as files:
            files.open(tmp_path / "x.data").write(b"1")
            files.open(tmp_path / "x.index").write(b"2")
            assert not (tmp_path / "x.data").exists()
        assert sorted(os.listdir(tmp_path)) == ["x.data", "x.index"]

    def test_memory(self):
        """A sink that is open already takes the bytes."""
        buffers = storage.Buffers()
        target = Target("<bytes>", into=buffers)
        assert not target.is_path
        with target.sink() as sink:
            sink.write(b"x")
        assert buffers == [b"x"]
