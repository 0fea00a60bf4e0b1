from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

from tensorferry import limits, storage
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError

DATA = bytes(range(256)) * 40


def run(code, *arguments, **options):
    """A fresh interpreter."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, **options)


@pytest.fixture
def path(tmp_path):
    """A file with DATA in it."""
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


class TestSource:
    """open_source and what it gives."""

    def test_file(self, path):
        """A file is a read-only buffer of all of it, whether named by str or Path."""
        for given_path in (path, str(path)):
            with storage.open_source(given_path) as source:
                assert source.path == str(path)
                assert source.buffer == DATA
                assert source.buffer.readonly
                assert source.size == len(DATA)

    @pytest.mark.parametrize("kind", ["path", "bytes", "short stream"])
    def test_read(self, path, kind):
        """Every source can be read piece by piece, and a piece is whole before the end."""

        class Short(io.RawIOBase):
            data = io.BytesIO(DATA)

            def read(self, size=-1):
                return self.data.read(min(size, 7))

        given_source = {"path": path, "bytes": DATA, "short stream": Short()}[kind]
        with storage.open_source(given_source) as source:
            assert [source.read(4), source.read(100)] == [DATA[:4], DATA[4:104]]
            assert source.read(1 << 20) == DATA[104:]
            assert source.read(10) == b""

    def test_empty_file(self, path):
        """A file without bytes is an empty buffer."""
        path.write_bytes(b"")
        with storage.open_source(path) as source:
            assert (source.buffer, source.size, source.read(9)) == (b"", 0, b"")

    @pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="has no /proc")
    def test_file_without_a_size(self):
        """A file of /proc, whose size is said to be 0, is read all the same."""
        with storage.open_source("/proc/self/status") as source:
            assert source.buffer[:5] == b"Name:"

    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO])
    def test_bytes(self, wrap):
        """Bytes of any kind are a source, read-only and not copied."""
        with storage.open_source(wrap(DATA)) as source:
            assert source.buffer == DATA
            assert source.buffer.readonly
            assert source.size == len(DATA)
        array = np.arange(6.0)
        with storage.open_source(array) as source:
            array[0] = 7
            assert source.buffer == array.tobytes()

    @pytest.mark.parametrize("how", ["close", "unlink", "replace"])
    def test_arrays_outlive_the_source(self, path, how):
        """Arrays stay as they were after closing, and after the file is unlinked or replaced."""
        with storage.open_source(path) as source:
            array = np.frombuffer(source.buffer, np.uint8)
            part = np.frombuffer(source.buffer[100:200], np.uint8)
        if how == "unlink":
            path.unlink()
        if how == "replace":
            with storage.open_sink(path) as sink:
                sink.write(b"new")
        source.close()

        assert array.tobytes() == DATA
        assert part.tobytes() == DATA[100:200]
        assert source.buffer is None
        with pytest.raises(ValueError, match="closed"):
            source.read(1)

    def test_nothing_stays_open(self, path):
        """Neither a file nor a map stays when the last array is gone."""
        before = os.listdir("/dev/fd")
        with storage.open_source(path) as source:
            assert len(os.listdir("/dev/fd")) <= len(before) + 1  # mmap keeps one of its own
            array = np.frombuffer(source.buffer, np.uint8)
        del array, source

        assert len(os.listdir("/dev/fd")) == len(before)

    def test_file_objects(self, path):
        """A file object is read from where it stands, mapped if it is a plain file, left open."""
        with open(path, "rb") as file:
            file.read(3)
            with storage.open_source(file) as source:
                assert source.buffer == DATA[3:]
                assert source.path == str(path)
            assert not file.closed
        with open(path, "r+b") as file:
            file.write(b"new")
            with storage.open_source(file) as source:
                assert source.buffer == DATA[3:]
        with gzip.open(path, "wb") as file:
            file.write(DATA)
        with gzip.open(path, "rb") as file, storage.open_source(file) as source:
            assert source.buffer is source.size is None
            assert source.read(1 << 20) == DATA

    def test_pipes(self, tmp_path):
        """A pipe has no buffer and no size, and is read to its end."""
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        def write():
            with open(fifo, "wb", 0) as file:
                for start in range(0, len(DATA), 1000):
                    file.write(DATA[start : start + 1000])
                    time.sleep(0.001)

        thread = threading.Thread(target=write)
        thread.start()
        with storage.open_source(fifo) as source:
            assert source.buffer is source.size is None
            assert source.read(5000) == DATA[:5000]
            assert source.read(1 << 20) == DATA[5000:]
        thread.join()

    def test_standard_input(self, path):
        """The name "-" is the standard input: mapped if a file, a stream if a pipe."""
        code = """
import sys
from tensorferry import storage
with storage.open_source("-") as source:
    sys.stdout.buffer.write(b"%d" % (source.buffer is None) + source.read(1 << 20))
"""
        with open(path, "rb") as file:
            assert run(code, stdin=file).stdout == b"0" + DATA
        assert run(code, input=DATA).stdout == b"1" + DATA

    def test_refusals(self, tmp_path):
        """What cannot be opened says what it is."""
        with pytest.raises(FormatError, match="is a directory"):
            storage.open_source(tmp_path)
        with pytest.raises(FileNotFoundError):
            storage.open_source(tmp_path / "missing")
        with pytest.raises(UnsupportedError, match="opened as text"):
            storage.open_source(io.StringIO("text"))

    def test_file_urls(self, path, monkeypatch):
        """A file:// URL is the local file, whatever its name has in it."""
        odd = path.with_name("a b%20ü#x?y")
        odd.write_bytes(b"odd")
        for name, url in (
            (path, path.as_uri()),
            (odd, odd.as_uri()),
            (path, f"file://localhost{path}"),
        ):
            with storage.open_source(url) as source:
                assert source.path == str(name)
                assert source.buffer == name.read_bytes()
        with pytest.raises(UnsupportedError, match="three slashes"):
            storage.open_source("file://host/x")


def pipe_of(data):
    """A pipe that gives these bytes, which are few enough for it to hold them."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return open(reading, "rb", 0)


KINDS = {
    "file": lambda path: nullcontext(str(path)),
    "bytes": lambda path: nullcontext(path.read_bytes()),
    "pipe": lambda path: pipe_of(path.read_bytes()),
    "gzip": lambda path: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(path.read_bytes()))),
}


class TestParts:
    """head, range, ranges and everything of local sources."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_all_of_them(self, path, kind):
        """Every source gives its head, any range of it, and everything."""
        with KINDS[kind](path) as given_source, storage.open_source(given_source) as source:
            assert source.head(5) == DATA[:5]
            assert source.head(1 << 20) == DATA
            assert source.range(300, 310) == DATA[300:310]
            assert source.range(len(DATA), len(DATA)) == b""
            assert source.ranges([(5, 9), (0, 3)]) == [DATA[5:9], DATA[:3]]
            assert source.everything() == source.buffer == DATA
            assert source.size == len(DATA)
            assert source.read(7) == DATA[:7]

    @pytest.mark.parametrize("kind", KINDS)
    def test_head_consumes_nothing(self, path, kind):
        """What was looked at is read all the same, in pieces of any size."""
        for sizes in ((3, 200, 5000), (100, 1), (1, 9), (99,)):
            with KINDS[kind](path) as given_source, storage.open_source(given_source) as source:
                assert source.head(2) == DATA[:2]
                assert source.head(100) == DATA[:100]
                got = [source.read(size) for size in sizes]
                assert [*map(len, got)] == [*sizes]
                assert b"".join([*got, source.read(1 << 20)]) == DATA
                assert source.read(1) == b""

    def test_no_copies(self, path):
        """A range of a mapped file or of memory is a view of it."""
        for given_source in (path, DATA):
            with storage.open_source(given_source) as source:
                whole = np.frombuffer(source.everything(), np.uint8)
                part = np.frombuffer(source.range(100, 200), np.uint8)
            assert np.shares_memory(whole[100:200], part)

    @pytest.mark.parametrize("kind", KINDS)
    def test_too_short(self, path, kind):
        """A range behind the end names the file and where it ends."""
        with KINDS[kind](path) as given_source, storage.open_source(given_source) as source:
            for start, stop in ((0, len(DATA) + 1), (1 << 70, 1 << 71)):
                with pytest.raises(TruncatedError, match="ends here") as caught:
                    source.range(start, stop)
                assert caught.value.offset == len(DATA)
                assert caught.value.path == source.path
            for start, stop in ((-1, 1), (2, 1)):
                with pytest.raises(ValueError, match="expected 0 or more"):
                    source.range(start, stop)

    def test_a_stream_that_was_read(self, path):
        """What a stream has given is gone, and that is said."""
        with pipe_of(DATA) as pipe, storage.open_source(pipe) as source:
            source.read(10)
            for ask in (lambda: source.head(3), lambda: source.range(0, 3), source.everything):
                with pytest.raises(UnsupportedError, match="first 10 bytes of a stream were read"):
                    ask()

    def test_an_endless_stream(self, monkeypatch):
        """A stream without an end does not fill the memory."""
        monkeypatch.setattr(limits, "stream", 5 << 20)
        with open("/dev/zero", "rb") as file, storage.open_source(file) as source:
            assert source.head(3) == bytes(3)
            with pytest.raises(LimitError, match=r"limits\.stream"):
                source.everything()

    def test_closed(self, path):
        """A closed source says so."""
        source = storage.open_source(path)
        source.close()
        for ask in (lambda: source.head(3), lambda: source.range(0, 3), source.everything):
            with pytest.raises(ValueError, match="closed"):
                ask()
