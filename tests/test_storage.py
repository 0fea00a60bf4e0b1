from __future__ import annotations

import gzip
import io
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorferry import storage
from tensorferry.errors import FormatError, UnsupportedError

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
        for url in ("s3://bucket/x", "https://host/x", "file:///x"):
            with pytest.raises(UnsupportedError, match="not supported yet"):
                storage.open_source(url)
        with pytest.raises(UnsupportedError, match="opened as text"):
            storage.open_source(io.StringIO("text"))


BUFFERS = [
    b"bytes",
    b"",
    bytearray(b"bytearray"),
    memoryview(b"memoryview")[2:5],
    memoryview(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.arange(12, dtype=np.int64).reshape(3, 4),
    np.arange(12).reshape(3, 4).T,
    np.array(1.5),
    np.empty((0, 3)),
    np.arange(5, dtype=ml_dtypes.bfloat16),
    np.zeros(1 << 20, np.uint16),
]


class TestSink:
    """open_sink and what it writes."""

    @pytest.mark.parametrize("durable", [True, False])
    def test_writes(self, tmp_path, durable):
        """Buffers of every kind arrive in order, and nothing is left beside the file."""
        expected = b""
        with storage.open_sink(tmp_path / "x", durable=durable) as sink:
            for buffer in BUFFERS:
                raw = buffer.tobytes() if hasattr(buffer, "tobytes") else bytes(buffer)
                assert sink.write(buffer) == len(raw)
                expected += raw
                assert sink.position == len(expected)

        assert (tmp_path / "x").read_bytes() == expected
        assert os.listdir(tmp_path) == ["x"]

    @given(st.lists(st.binary(max_size=600) | st.integers(0, 1 << 20).map(bytes), max_size=6))
    def test_pieces(self, tmp_path_factory, pieces):
        """Large and small pieces together are the file."""
        path = tmp_path_factory.mktemp("sink") / "x"
        with storage.open_sink(path, durable=False) as sink:
            for piece in pieces:
                sink.write(piece)

        assert path.read_bytes() == b"".join(pieces)

    def test_short_writes(self):
        """A file that takes less than it is given, as pipes do, gets the rest too."""
        code = """
import sys
from tensorferry import storage
with storage.open_sink("/dev/stdout") as sink:
    for _ in range(3):
        sink.write(bytes(1 << 20))
    sink.write(b"end")
"""
        assert run(code, check=True).stdout == bytes(3 << 20) + b"end"
        assert run(code.replace("/dev/stdout", "-"), check=True).stdout == bytes(3 << 20) + b"end"

    def test_large_buffers_are_not_copied(self, tmp_path):
        """Writing a large buffer of the caller's takes no memory of its own."""
        code = """
import resource, sys
import numpy as np
from tensorferry import storage
array = np.zeros(1 << 26, np.uint8); array[:] = 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with storage.open_sink(sys.argv[1], durable=False) as sink:
    sink.write(array)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)
"""
        assert int(run(code, tmp_path / "x", check=True).stdout) < 8

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
    def test_an_error_leaves_the_target(self, path, error):
        """If the block raises, the old file is there as it was, and nothing beside it."""
        with pytest.raises(error), storage.open_sink(path) as sink:
            sink.write(bytes(1 << 20))
            assert len(os.listdir(path.parent)) == 2
            raise error
        assert path.read_bytes() == DATA
        assert os.listdir(path.parent) == [path.name]

    def test_the_temporary_file(self, path):
        """It is hidden, beside its target, and called temporary, however long the name is."""
        for target in (path, path.parent / ("\u00fc" * 127)):
            with storage.open_sink(target) as sink:
                (name,) = {*os.listdir(path.parent)} - {path.name}
                sink.write(b"x")
            assert name.startswith(".")
            assert name.endswith(".tmp")
            assert target.read_bytes() == b"x"

    def test_readers_see_old_or_new(self, path):
        """Until the end, a reader sees the old file; a stale temporary file bothers nobody."""
        (path.parent / f".{path.name}.0123456789abcdef.tmp").write_bytes(b"stale")
        with storage.open_sink(path) as sink:
            sink.write(b"new")
            assert path.read_bytes() == DATA
        assert path.read_bytes() == b"new"

    def test_modes(self, path):
        """A new file has the mode that the umask gives; a replaced one keeps its own."""
        old = os.umask(0o027)
        try:
            with storage.open_sink(path.parent / "new") as sink:
                sink.write(b"x")
        finally:
            os.umask(old)
        path.chmod(0o604)
        with storage.open_sink(path) as sink:
            sink.write(b"x")

        assert stat.S_IMODE((path.parent / "new").stat().st_mode) == 0o640
        assert stat.S_IMODE(path.stat().st_mode) == 0o604

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
    def test_a_file_that_may_not_be_written(self, path):
        """A read-only file is not replaced behind its owner's back."""
        path.chmod(0o444)
        with pytest.raises(PermissionError), storage.open_sink(path):
            pass

    @pytest.mark.parametrize("exists", [True, False])
    def test_links(self, path, exists):
        """A link stays one, and the file behind it is written."""
        if not exists:
            path.unlink()
        link = path.parent / "link"
        link.symlink_to(path.name)
        with storage.open_sink(link) as sink:
            sink.write(b"new")

        assert link.is_symlink()
        assert path.read_bytes() == b"new"

    def test_relative_paths(self, path, monkeypatch):
        """A name without a directory is in the working directory of the opening."""
        monkeypatch.chdir(path.parent)
        with storage.open_sink("x") as sink:
            sink.write(b"new")
            monkeypatch.chdir("/")

        assert (path.parent / "x").read_bytes() == b"new"

    def test_special_files(self, tmp_path):
        """Devices and pipes are written, not replaced."""
        with storage.open_sink("/dev/null") as sink:
            sink.write(DATA)
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        got = []
        thread = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
        thread.start()
        with storage.open_sink(fifo) as sink:
            sink.write(DATA)
        thread.join()

        assert got == [DATA]
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_refusals(self, tmp_path):
        """A directory, a missing one and a URL are no targets."""
        with pytest.raises(IsADirectoryError), storage.open_sink(tmp_path):
            pass
        with pytest.raises(FileNotFoundError), storage.open_sink(tmp_path / "no/x"):
            pass
        with pytest.raises(UnsupportedError, match="URL"), storage.open_sink("gs://bucket/x"):
            pass

    @pytest.mark.parametrize("piece", [1000, 1 << 20])
    def test_file_size_limit(self, path, piece):
        """A full disk is the system's error; the target stays and the temporary file goes."""
        code = """
import errno, resource, sys
from tensorferry import storage
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    with storage.open_sink(sys.argv[1]) as sink:
        for _ in range((5 << 20) // int(sys.argv[2])):
            sink.write(bytes(int(sys.argv[2])))
except OSError as error:
    assert error.errno == errno.EFBIG
    print("refused")
"""
        assert run(code, path, piece, check=True).stdout == b"refused\n"
        assert path.read_bytes() == DATA
        assert os.listdir(path.parent) == [path.name]

    def test_killed_at_any_moment(self, path):
        """A kill -9 leaves the old file or a new one, whole, and only temporary files beside it."""
        code = """
import sys
from tensorferry import storage
print(flush=True)
for round in range(1, 10**9):
    with storage.open_sink(sys.argv[1], durable=round % 2) as sink:
        for _ in range(20):
            sink.write(bytes([round % 256]) * 50_000)
"""
        choose = random.Random(7)
        for _ in range(12):
            command = [sys.executable, "-c", code, str(path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                time.sleep(choose.random() / 20)
                process.send_signal(signal.SIGKILL)
            found = path.read_bytes()
            assert found == DATA or (len(found) == 1_000_000 and len(set(found)) == 1)
            beside = [name for name in os.listdir(path.parent) if name != path.name]
            assert all(name.startswith(".") and name.endswith(".tmp") for name in beside)

    @pytest.mark.parametrize("threads", ["there are", "there are no more"])
    def test_a_large_file_is_let_go(self, path, monkeypatch, threads):
        """A file that was replaced is closed in a thread, or here if none can be started."""

        class Refused:
            def __init__(self, **options):
                raise RuntimeError("can't start new thread")

        before = len(os.listdir("/dev/fd")), threading.active_count()
        path.write_bytes(bytes(storage.LARGE_FILE))
        if threads == "there are no more":
            monkeypatch.setattr(threading, "Thread", Refused)
        with storage.open_sink(path, durable=False) as sink:
            sink.write(b"new")
        assert path.read_bytes() == b"new"
        while threading.active_count() > before[1]:
            time.sleep(0.001)
        assert len(os.listdir("/dev/fd")) == before[0]


class TestAppend:
    """append_sink and what it leaves alone."""

    @pytest.mark.parametrize("offset", [0, 100, len(DATA)])
    def test_append(self, path, offset):
        """The file is what it was up to the offset, and then what was written."""
        with storage.append_sink(path, offset) as sink:
            assert sink.position == offset
            sink.write(b"more")
            sink.write(np.arange(3, dtype=np.uint8))
            assert sink.position == offset + 7

        assert path.read_bytes() == DATA[:offset] + b"more\0\1\2"

    def test_nothing_written(self, path):
        """Without a write nothing is cut."""
        with storage.append_sink(path, 100):
            pass
        with pytest.raises(KeyboardInterrupt), storage.append_sink(path, 100):
            raise KeyboardInterrupt

        assert path.read_bytes() == DATA

    @pytest.mark.parametrize("size", [10, 1 << 20])
    def test_an_error_takes_it_back(self, path, size):
        """If the block raises, what was appended is cut off again."""
        with pytest.raises(KeyboardInterrupt), storage.append_sink(path, 100) as sink:
            sink.write(bytes(size))
            raise KeyboardInterrupt

        assert path.read_bytes() == DATA[:100]

    def test_file_size_limit(self, path):
        """On a full disk what was good stays, and nothing of the rest."""
        code = """
import resource, sys
from tensorferry import storage
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    with storage.append_sink(sys.argv[1], 5000) as sink:
        sink.write(bytes(3 << 20))
except OSError:
    print("refused")
"""
        assert run(code, path, check=True).stdout == b"refused\n"
        assert path.read_bytes() == DATA[:5000]

    def test_refusals(self, path):
        """A missing file, an offset outside of it and what is no file are refused."""
        for offset in (-1, len(DATA) + 1):
            with pytest.raises(FormatError, match="nothing can be appended at"):
                storage.append_sink(path, offset).__enter__()
        with pytest.raises(FormatError, match="no regular file"):
            storage.append_sink("/dev/null", 0).__enter__()
        with pytest.raises(FileNotFoundError):
            storage.append_sink(path.parent / "missing", 0).__enter__()
        assert path.read_bytes() == DATA
