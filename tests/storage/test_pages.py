"""Pages of mapped files: given back when they were read, and there again when they are wanted."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from commands import environment

import tensorferry as ferry
from tensorferry.storage import open_source
from tensorferry.storage.pages import release

MEGABYTE = 1 << 20


def resident() -> int:
    """How many bytes of mapped files this process has in memory."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssFile"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_given_back(tmp_path):
    """What was read leaves the memory of the process, and reading it again gives the same."""
    path = tmp_path / "large.bin"
    path.write_bytes(np.arange(32 * MEGABYTE // 8).tobytes())
    with open_source(path) as source:
        before = resident()
        array = np.frombuffer(source.range(8, source.size), np.int64)
        total = array.sum()
        assert resident() - before > 30 * MEGABYTE
        release(array)
        assert resident() - before < 2 * MEGABYTE
        assert array.sum() == total
        release(source.buffer)
        assert resident() - before < 2 * MEGABYTE


def test_other_memory(tmp_path):
    """What is no view of a mapped file, or has gaps, stays as it is."""
    owned = np.arange(MEGABYTE)
    for value in (owned, owned[::2], memoryview(owned), b"bytes", None, ferry.RaggedTensor):
        release(value)
    assert owned[-1] == MEGABYTE - 1


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted otherwise elsewhere")
@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("x.ckpt", ["convert", "x.ckpt", "y.safetensors"]),
        ("x.safetensors", ["convert", "x.safetensors", "y.npz"]),
        ("x.safetensors", ["convert", "x.safetensors", "y.ckpt", "--verify"]),
        ("x.ckpt", ["verify", "x.ckpt"]),
        ("x.npz", ["hash", "x.npz"]),
        ("x.tfrecord", ["convert", "x.tfrecord", "y.tfrecord.gz", "--select", "id"]),
        ("x.tfrecord", ["verify", "x.tfrecord"]),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_peak(tmp_path, source, command):
    """A file of 256 MB is converted, verified and hashed in far less memory than it has."""
    tensors = {f"layer/{n}": np.full((2, MEGABYTE), n, np.float32) for n in range(32)}
    if source.endswith("tfrecord"):
        with ferry.writer(tmp_path / source, durable=False) as out:
            for n in range(32):
                out.write_batch({"id": np.arange(512), "x": np.full((512, 4096), n, "f4")})
    else:
        ferry.save(tensors, tmp_path / source, durable=False)
    program = (
        "import sys; from tensorferry.cli import main; assert main(sys.argv[1:]) == 0;"
        "print(*(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert int(peak) * 1024 < 192 * MEGABYTE
