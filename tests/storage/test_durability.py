"""What a file is after a crash, on a full disk, and for readers while it is replaced."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from tensorferry import storage
from tensorferry.storage import shards

DATA = bytes(range(256)) * 40
TEMPORARY = re.compile(r"\..+\.ferry-[0-9a-f]{16}\.tmp")
KILLS = 200


def run(code, *arguments, **options):
    """A fresh interpreter."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.fixture
def path(tmp_path):
    """A file with DATA in it."""
    path = tmp_path / "data.tfrecord"
    path.write_bytes(DATA)
    return path


class TestKilled:
    """kill -9."""

    def test_at_any_moment(self, path):
        """It leaves the old file or a new one, whole, and beside it nothing taken for data."""
        # Starting an interpreter takes longer than all else: each of them forks its victims.
        code = """
import os, random, signal, sys, time
from tensorferry import storage
path, seed, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)

def replace():
    for round in range(10**9):
        with storage.open_sink(path, durable=round % 4 == 0) as sink:
            for _ in range(20):
                sink.write(bytes([round % 256]) * 20_000)

for _ in range(kills):
    child = os.fork()
    if child == 0:
        replace()
    time.sleep(choose.random() / 40)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = open(path, "rb").read()
    print(len(found), len(set(found)))
"""
        each = KILLS // 2
        command = [sys.executable, "-c", code, str(path)]
        processes = [
            subprocess.Popen([*command, str(seed), str(each)], stdout=subprocess.PIPE, text=True)
            for seed in range(2)
        ]
        outcomes = [process.communicate(timeout=600)[0].splitlines() for process in processes]

        assert [len(lines) for lines in outcomes] == [each, each]
        # Two writers at once: still each of them replaces all of the file.
        assert {line for lines in outcomes for line in lines} <= {"400000 1", f"{len(DATA)} 256"}
        beside = {*os.listdir(path.parent)} - {path.name}
        assert all(TEMPORARY.fullmatch(name) for name in beside)
        assert shards.expand(f"{path.parent}/*") == [str(path)]

    def test_several_files(self, tmp_path):
        """Of files that are replaced together, an index is never newer than its data."""
        code = """
import os, random, signal, sys, time
from tensorferry import storage
folder, choose = sys.argv[1], random.Random(3)

def replace():
    for round in range(1, 10**9):
        with storage.Replacement(durable=False) as files:
            data, index = files.open(f"{folder}/data"), files.open(f"{folder}/index")
            index.write(b"%d" % round)
            data.write(b"%d " % round * 1000)

for _ in range(50):
    child = os.fork()
    if child == 0:
        replace()
    time.sleep(choose.random() / 50)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if os.path.exists(f"{folder}/index"):
        numbers = {*open(f"{folder}/data").read().split()}
        index = int(open(f"{folder}/index").read())
        assert len(numbers) == 1
        assert int(numbers.pop()) in (index, index + 1)
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")
"""
        result = run(code, tmp_path)
        assert result.returncode == 0, result.stderr


FULL = """
import errno, os, signal, sys
from tensorferry import storage
{limit}
folder = os.path.dirname(sys.argv[1])
try:
    with storage.open_sink(sys.argv[1]) as sink:
        for _ in range((5 << 20) // int(sys.argv[2])):
            sink.write(bytes(int(sys.argv[2])))
except OSError as error:
    print(errno.errorcode[error.errno])
"""
LIMIT = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("has no mount")
    if mounted.returncode:
        pytest.skip(f"may not mount a file system: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class TestFull:
    """No room."""

    @pytest.mark.parametrize("piece", [1000, 1 << 20, 5 << 20])
    def test_file_size_limit(self, path, piece):
        """It is the system's error; the target stays and the temporary file goes."""
        result = run(FULL.format(limit=LIMIT), path, piece, check=True)
        assert result.stdout == "EFBIG\n"
        assert path.read_bytes() == DATA
        assert os.listdir(path.parent) == [path.name]

    @pytest.mark.parametrize("piece", [1000, 1 << 20, 5 << 20])
    def test_full_disk(self, small_disk, piece):
        """So it is on a disk that is full."""
        target = small_disk / "x"
        target.write_bytes(DATA)
        assert run(FULL.format(limit=""), target, piece, check=True).stdout == "ENOSPC\n"
        assert target.read_bytes() == DATA
        assert os.listdir(small_disk) == ["x"]

    def test_several_files(self, small_disk):
        """If the second of several has no room, the first is not replaced either."""
        (small_disk / "data").write_bytes(DATA)
        with pytest.raises(OSError, match="No space") as caught, storage.Replacement() as files:
            files.open(small_disk / "data").write(bytes(1 << 20))
            files.open(small_disk / "index").write(bytes(1 << 20))
        assert caught.value.errno == errno.ENOSPC
        assert (small_disk / "data").read_bytes() == DATA
        assert os.listdir(small_disk) == ["data"]

    @pytest.mark.parametrize("size", [10, 5 << 20])
    def test_full_stream(self, size):
        """A stream that takes nothing more is the same error, however little was written."""
        if not os.path.exists("/dev/full"):
            pytest.skip("has no /dev/full")
        with pytest.raises(OSError, match="No space"), storage.open_sink("/dev/full") as sink:
            sink.write(bytes(size))


class TestReaders:
    """Others, meanwhile."""

    @pytest.mark.parametrize("how", ["open_source", "open"])
    def test_old_or_new(self, path, how):
        """Readers during replacements see all of one version."""
        path.write_bytes(bytes(200_000))
        seen, wrong, ended = set(), [], threading.Event()

        def read():
            while not ended.is_set():
                if how == "open":
                    found = path.read_bytes()
                else:
                    with storage.open_source(path) as source:
                        found = bytes(source.range(0, source.size))
                if len(found) != 200_000 or len({*found}) != 1:
                    wrong.append(found)
                seen.add(found[0])

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        end = time.monotonic() + 1
        for number in range(10**9):
            with storage.open_sink(path, durable=False) as sink:
                for _ in range(4):
                    sink.write(bytes([number % 256]) * 50_000)
            if time.monotonic() > end and len(seen) > 1:
                break
        ended.set()
        for reader in readers:
            reader.join()

        assert not wrong

    def test_a_source_stays_what_it_was(self, path):
        """What was opened before a replacement is the old file to its end."""
        with storage.open_source(path) as source:
            head = source.read(100)
            with storage.open_sink(path) as sink:
                sink.write(b"new" * 10_000)
            assert head + source.read(1 << 20) == source.everything() == DATA
