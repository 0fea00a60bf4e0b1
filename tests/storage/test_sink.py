from __future__ import annotations

import os
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
from tensorferry.storage import system
from tensorferry.storage.sink import LARGE_FILE, WRITE_BUFFER, open_local_sink

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

    def test_room_is_given_back(self, tmp_path):
        """A large file takes no more of the disk than its bytes, however it grew."""
        pieces = [os.urandom(size) for size in (100, LARGE_FILE, 3, 2 * LARGE_FILE + 1, 70_000)]
        with storage.open_sink(tmp_path / "x") as sink:
            for piece in pieces:
                sink.write(piece)
        assert (tmp_path / "x").read_bytes() == b"".join(pieces)
        found = os.stat(tmp_path / "x")
        assert found.st_blocks * 512 < found.st_size + (1 << 17)

    @pytest.mark.parametrize("exchanges", [True, False])
    @pytest.mark.parametrize(
        "sizes",
        [
            (),
            (0,),
            (100, 0, 3),
            (WRITE_BUFFER,),
            (100, WRITE_BUFFER, 3),
            (WRITE_BUFFER - 1, 2, WRITE_BUFFER),
            (100, LARGE_FILE, 70_000, 5 * LARGE_FILE, 1),
        ],
    )
    def test_hasty_replacement(self, tmp_path, monkeypatch, sizes, exchanges):
        """A file that nobody waits for takes the name of the old one, and nothing is left."""
        if not exchanges:
            monkeypatch.setattr("tensorferry.storage.system.exchange", lambda *_: False)
        (tmp_path / "x").write_bytes(DATA)
        pieces = [os.urandom(size) for size in sizes]
        with storage.open_sink(tmp_path / "x", durable=False) as sink:
            for piece in pieces:
                sink.write(piece)
            if sizes and sizes[0]:
                sink.patch(0, b"!")
        expected = b"".join(pieces)
        assert (tmp_path / "x").read_bytes() == (b"!" + expected[1:] if expected else b"")
        found = os.stat(tmp_path / "x")
        assert found.st_blocks * 512 < found.st_size + (1 << 17)
        assert os.listdir(tmp_path) == ["x"]

    def test_hasty_replacement_of_nothing(self, tmp_path):
        """The old file may be gone when the new one is whole."""
        (tmp_path / "x").write_bytes(DATA)
        with storage.open_sink(tmp_path / "x", durable=False) as sink:
            sink.write(b"new")
            (tmp_path / "x").unlink()
        assert (tmp_path / "x").read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["x"]

    def test_hasty_replacement_of_a_directory(self, tmp_path):
        """A directory that took the name meanwhile stays as it is."""
        (tmp_path / "x").write_bytes(DATA)

        def write():
            with storage.open_sink(tmp_path / "x", durable=False) as sink:
                sink.write(b"new")
                (tmp_path / "x").unlink()
                (tmp_path / "x").mkdir()
                (tmp_path / "x" / "y").write_bytes(DATA)

        with pytest.raises(IsADirectoryError):
            write()
        assert (tmp_path / "x" / "y").read_bytes() == DATA
        assert os.listdir(tmp_path) == ["x"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, PermissionError])
    def test_hasty_replacement_interrupted(self, tmp_path, monkeypatch, error):
        """Whatever comes between the exchange and the removal, a whole file has the name."""
        (tmp_path / "x").write_bytes(DATA)
        unlink = os.unlink

        def fail(path, **options):
            monkeypatch.setattr(os, "unlink", unlink)
            raise error

        def write():
            with storage.open_sink(tmp_path / "x", durable=False) as sink:
                sink.write(b"new")
                monkeypatch.setattr(os, "unlink", fail)

        with pytest.raises(error):
            write()
        expected = b"new" if error is KeyboardInterrupt else DATA
        assert (tmp_path / "x").read_bytes() == expected
        assert os.listdir(tmp_path) == ["x"]

    def test_committed_twice(self, tmp_path):
        """To commit a second time does no harm, also while the old file waits for its removal."""
        (tmp_path / "x").write_bytes(DATA)
        sink = open_local_sink(str(tmp_path / "x"), durable=False)
        sink.write(b"new")
        sink.prepare()
        if not system.exchange(sink.temporary, str(tmp_path / "x")):
            pytest.skip("this file system exchanges no names")
        sink.commit()
        assert (tmp_path / "x").read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["x"]

    def test_without_room(self, tmp_path, monkeypatch):
        """A file system that cannot make room is written as ever."""
        monkeypatch.setattr("tensorferry.storage.system.allocate", lambda *_: False)
        with storage.open_sink(tmp_path / "x") as sink:
            for number in range(3):
                sink.write(bytes([number]) * LARGE_FILE)
        content = (tmp_path / "x").read_bytes()
        assert content == b"".join(bytes([number]) * LARGE_FILE for number in range(3))

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
        """A directory and a path behind a file are no targets."""
        with pytest.raises(IsADirectoryError), storage.open_sink(tmp_path):
            pass
        (tmp_path / "no").touch()
        with pytest.raises(NotADirectoryError), storage.open_sink(tmp_path / "no/x"):
            pass

    @pytest.mark.parametrize("threads", ["there are", "there are no more"])
    def test_a_large_file_is_let_go(self, path, monkeypatch, threads):
        """A file that was replaced is closed in a thread, or here if none can be started."""

        class Refused:
            def __init__(self, **options):
                raise RuntimeError("can't start new thread")

        before = len(os.listdir("/dev/fd")), threading.active_count()
        path.write_bytes(bytes(LARGE_FILE))
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

    def test_late(self, path):
        """Behind the end of the block nothing is written, neither here nor into another file."""
        with storage.append_sink(path, 100) as sink:
            sink.write(b"more")

        with pytest.raises(ValueError, match="closed"):
            sink.write(b"late")

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


class TestPatch:
    """patch: filling in a header at the end."""

    @pytest.mark.parametrize("size", [10, 1 << 20])
    def test_patch(self, path, size):
        """Bytes that were written are overwritten, and writing goes on at the end."""
        with storage.open_sink(path) as sink:
            sink.write(bytes(size))
            sink.patch(0, b"head")
            sink.patch(4, np.array([1, 2], np.uint16))
            sink.write(b"tail")
            sink.patch(sink.position - 1, b"L")
            sink.patch(sink.position, b"")
            assert sink.position == size + 4

        assert path.read_bytes() == b"head\1\0\2\0" + bytes(size - 8) + b"taiL"

    def test_refusals(self, path):
        """What was not written, and what is gone already, is not patched."""
        with pytest.raises(ValueError, match="of 3 written"), storage.open_sink(path) as sink:
            sink.write(b"abc")
            sink.patch(2, b"xy")
        with (
            pytest.raises(UnsupportedError, match="cannot be changed any more"),
            storage.open_sink("/dev/null") as sink,
        ):
            sink.write(b"abc")
            sink.patch(0, b"x")
        assert path.read_bytes() == DATA


class TestReplacement:
    """Replacement: several files that appear together."""

    def test_order(self, tmp_path, monkeypatch):
        """All are written and synced before the first appears, and they appear in order."""
        seen = []
        for name in ("fsync", "replace"):
            system = getattr(os, name)

            def spy(*arguments, name=name, system=system):
                if name == "replace":
                    seen.append(os.path.basename(arguments[1]))
                elif stat.S_ISREG(os.fstat(arguments[0]).st_mode):
                    seen.append("synced")
                return system(*arguments)

            monkeypatch.setattr(os, name, spy)
        with storage.Replacement() as files:
            sinks = [files.open(tmp_path / name) for name in ("z.data", "a.index")]
            for sink in reversed(sinks):
                sink.write(b"new")
            assert not any(not name.endswith(".tmp") for name in os.listdir(tmp_path))

        assert seen == ["synced", "synced", "z.data", "a.index"]
        assert sorted(os.listdir(tmp_path)) == ["a.index", "z.data"]

    @pytest.mark.parametrize("moment", ["inside", "fsync", "open"])
    def test_a_failure_changes_nothing(self, path, monkeypatch, moment):
        """If anything fails before the first rename, all is as it was."""

        def fail(*arguments):
            raise OSError("no")

        with pytest.raises(OSError, match=r"no"), storage.Replacement() as files:
            files.open(path).write(b"new")
            files.open(path.parent / "index").write(b"new")
            if moment == "inside":
                raise OSError("no")
            if moment == "open":
                files.open(path.parent / "no/such/directory")
            monkeypatch.setattr(os, "fsync", fail)

        assert path.read_bytes() == DATA
        assert os.listdir(path.parent) == [path.name]

    def test_a_rename_that_fails(self, path):
        """The files behind it do not appear, and no temporary file is left."""
        with pytest.raises(IsADirectoryError), storage.Replacement() as files:
            files.open(path).write(b"new")
            files.open(path.parent / "b").write(b"new")
            files.open(path.parent / "c").write(b"new")
            (path.parent / "b").mkdir()

        assert path.read_bytes() == b"new"
        assert sorted(os.listdir(path.parent)) == ["b", path.name]

    def test_no_descriptors_stay(self, path):
        """Neither success nor failure leaves a file open."""
        before = os.listdir("/dev/fd")
        for error in (None, KeyError):
            try:
                with storage.Replacement() as files:
                    files.open(path)
                    files.open(path.parent / "x")
                    if error:
                        raise error
            except KeyError:
                pass
        assert len(os.listdir("/dev/fd")) == len(before)


def test_what_was_written_is_read_again(tmp_path):
    """A file gives its bytes before it appears, those that were patched and buffered among them."""
    with storage.open_sink(tmp_path / "x.bin", durable=False) as sink:
        sink.write(bytes(3 << 20))
        sink.patch(5, b"abc")
        sink.write(b"end")
        data = b"".join(sink.written())

    assert data == (tmp_path / "x.bin").read_bytes()
    assert data[5:8] == b"abc"
    assert data.endswith(b"\0end")
