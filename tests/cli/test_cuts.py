"""Files that another program cuts while the command reads them: an error, and never SIGBUS."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry

COUNT = 100_000_000
LEFT = 100_000
"""How many bytes stay of a file."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is mapped")


def sparse(path):
    """A .npy file of zeros that takes no room on the disk."""
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (COUNT,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 4 * COUNT)
    return path


def cut_when_mapped(running, path):
    """Cuts a file soon after a process has mapped it; whether that was before its end."""
    maps = Path(f"/proc/{running.pid}/maps")
    while running.poll() is None:
        if str(path) in maps.read_text():
            time.sleep(0.05)  # so that it reads values
            os.truncate(path, LEFT)
            return running.poll() is None
        time.sleep(0.001)
    return False


@linux
@pytest.mark.parametrize("verb", ["stats", "hash", "diff", "convert"])
def test_commands(tmp_path, verb):
    path = sparse(tmp_path / "large.npy")
    more = {"diff": [sparse(tmp_path / "other.npy")], "convert": [tmp_path / "out.npz"]}
    command = [sys.executable, "-m", "tensorferry", verb, path, *more.get(verb, [])]

    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert cut_when_mapped(running, path)
    output, errors = running.communicate(timeout=120)

    assert running.returncode == 2, (running.returncode, output, errors)
    assert "large.npy" in output + errors
    assert len(errors.splitlines()) <= 2, "one error and one hint"
    names = {file.name for file in tmp_path.iterdir()}
    assert names <= {"large.npy", "other.npy"}, "nothing is left of what was begun"


PROGRAM = """
import os, sys
import numpy as np
import tensorferry as ferry
from tensorferry.storage import cuts

path, left = sys.argv[1], int(sys.argv[2])
opened = ferry.open(path)
values = opened.value()
try:
    with cuts.raised():
        os.truncate(path, left)
        total = values[:200_000].sum()
        print("went on", total)
except ferry.TruncatedError as error:
    print(error.offset, values[-1])  # another thread might read on, behind the block
"""


def run(program, *arguments):
    """What a program prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()


@linux
def test_the_error_comes_before_anything_else(tmp_path):
    """Also while NumPy reads, which knows nothing of files; what is gone reads as zeros."""
    ferry.save(np.ones(1_000_000, np.float32), tmp_path / "x.npy")

    assert run(PROGRAM, tmp_path / "x.npy", LEFT) == [str(LEFT), "0.0"]


FLOOD = """
import os, sys, threading, time
import tensorferry as ferry
from tensorferry.storage import cuts

path, left, keeps = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "named"
opened = ferry.open(path)
values = opened.value()
if not keeps:
    opened.close()
    del opened
readers = [threading.Thread(target=values.sum) for _ in range(3)]
os.truncate(path, left)
try:
    with cuts.raised():
        try:
            for reader in readers:
                reader.start()
            while True:
                time.sleep(0.001)
        finally:
            for _ in range(10_000):
                os.getpid()
            print("closed")
except ferry.TruncatedError as error:
    print(error.__context__, os.path.basename(error.path or "unnamed"))
"""


@linux
@pytest.mark.parametrize("name", ["named", "unnamed"])
def test_the_error_comes_once(tmp_path, name):
    """What is closed on its way out is not disturbed: each page that is gone is a signal."""
    path = sparse(tmp_path / "x.npy")
    expected = "x.npy" if name == "named" else "unnamed"

    assert run(FLOOD, path, LEFT, name) == ["closed", "None", expected]


LOST = """
import os, sys
import tensorferry as ferry
from tensorferry.storage import cuts

path, left = sys.argv[1], int(sys.argv[2])
opened = ferry.open(path)
values = opened.value()


class Reader:
    def __del__(self):
        values.sum()


reader = Reader()
os.truncate(path, left)
try:
    with cuts.raised():
        del reader
        print("went on")
except ferry.TruncatedError as error:
    print(os.path.basename(error.path))
"""


@linux
def test_an_error_that_python_drops_comes_at_the_end(tmp_path):
    """What is raised while an object is deleted does not reach who deletes it."""
    path = sparse(tmp_path / "x.npy")

    assert run(LOST, path, LEFT) == ["went", "on", "x.npy"]


VIEW = """
import json, os, sys, time
from tensorferry.storage import cuts
from tensorferry.viewer.api import Api
from tensorferry.viewer.opening import find_files

path, left = sys.argv[1], int(sys.argv[2])
api = Api(find_files([path]))
with cuts.raised(), cuts.noted():
    api.open()
    api.prepare()
    before = api.answer("plane", "file=0&tensor=0").status
    os.truncate(path, left)
    print(before, api.answer("plane", "file=0&tensor=0").status, api.answer("tensors", "").status)
    while not (job := json.loads(api.answer("statistics", "file=0").body))["finished"]:
        time.sleep(0.01)
    print(str(job["error"]).split()[0])
"""


@linux
@pytest.mark.parametrize("left", [LEFT, 4_000_000])
def test_the_page_goes_on(tmp_path, left):
    """Values that are gone are an error, also those in the last page, of which no signal tells."""
    ferry.save(np.ones((1000, 1000), np.float32), tmp_path / "x.npy")

    before, after, others, error = run(VIEW, tmp_path / "x.npy", left)

    assert (before, after, others) == ("200", "422", "200")
    assert error != "None"


END_OF_A_PAGE = """
import os, sys
from tensorferry.cli import running
from tensorferry.storage import source

path = sys.argv[2]
left = os.path.getsize(path) - 100
mapped = source.Mapped.__init__


def map_and_cut(self, *given):
    mapped(self, *given)
    os.truncate(path, left)


source.Mapped.__init__ = map_and_cut
sys.exit(running.run(collects=True))
"""


@linux
@pytest.mark.parametrize(
    "arguments",
    [["stats"], ["hash"], ["verify"], ["convert", "out.npz"]],
    ids=lambda arguments: arguments[0],
)
def test_bytes_of_the_last_page(tmp_path, arguments):
    """A few bytes that are gone read as zeros, without a signal: the size tells."""
    ferry.save(np.ones(3_000_000, np.float32), tmp_path / "x.safetensors")
    verb, *more = arguments
    command = [sys.executable, "-c", END_OF_A_PAGE, verb, tmp_path / "x.safetensors", *more]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "x.safetensors" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


STATIC = """
import os, sys
from tensorferry.cli import running
from tensorferry.viewer.api import Api

path, lost = sys.argv[1], int(sys.argv[2])
answer, size = Api.answer, os.path.getsize(path)


def cut_and_answer(self, name, query):
    if name == "plane":
        os.truncate(path, size - lost)
    return answer(self, name, query)


Api.answer = cut_and_answer
sys.exit(running.run(["view", path, "--static", "out.html"], collects=True))
"""


@linux
@pytest.mark.parametrize("lost", [100, 3_000_000])
def test_page_of_a_file_that_is_cut(tmp_path, lost):
    """No page is written, neither of zeros nor without the values that are gone."""
    np.save(tmp_path / "x.npy", np.ones((1000, 1000), np.float32))
    command = [sys.executable, "-c", STATIC, tmp_path / "x.npy", str(lost)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]
