from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

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


class TestReplace:
    """What a replaced file is, whatever happens."""

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
