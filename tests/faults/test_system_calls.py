"""Faults and kills at every system call of every writer: the old value or the new one is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from faults.writers import WRITERS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="faults are injected on Linux")

HERE = Path(__file__).parent
# `make faults` does not leave out those that are like others.
ALL = os.environ.get("FERRY_FAULTS") == "all"
ALIKE = ["raw with a sidecar", "arrow in shards", "checkpoint in shards"]
SINGLE = [name for name, writer in WRITERS.items() if not writer.several]
SEVERAL = [name for name, one in WRITERS.items() if one.several and (ALL or name not in ALIKE)]
HASTY = [name for name in WRITERS if "not durable" in name]
SHARDED = ["tfrecord in shards", "safetensors in shards", "keras in shards"]
KILLED = list(dict.fromkeys([*(SEVERAL if ALL else SHARDED), *HASTY]))


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """The library that lets system calls fail."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [shutil.which(compiler) or "cc", "-shared", "-fPIC", "-O1", "-o", str(library)]
    subprocess.run([*command, str(HERE / "shim.c"), "-ldl"], check=True)
    return library


@pytest.fixture
def scratch(tmp_path):
    """A folder in memory, where syncing takes no time."""
    top = Path("/dev/shm")
    if not os.access(top, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=top) as folder:
        yield Path(folder)


def run(shim, scratch, how, names):
    """What the driver says of each writer."""
    command = [sys.executable, str(HERE / "driver.py"), str(scratch), how, *names]
    done = subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=3600 if ALL else 900,
    )
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [report["writer"] for report in reports] == names
    return reports


@pytest.mark.parametrize("names", [SINGLE, SEVERAL], ids=["one file", "several files"])
def test_faults(shim, scratch, names):
    """EIO, ENOSPC, EINTR and short writes leave the old or the new value, and nothing beside it."""
    for report in run(shim, scratch, "faults", names):
        assert not report["problems"], report["writer"]
        assert report["tried"] > 20, report["writer"]


def test_kills(shim, scratch):
    """So does a kill; what it leaves beside is removed by the next writer."""
    for report in run(shim, scratch, "kills", KILLED):
        assert not report["problems"], report["writer"]
        assert report["tried"] > 10, report["writer"]


def test_mixtures_are_found(shim, scratch):
    """The trials find mixtures: of a reader that does not look at journals, they tell."""
    (report,) = run(shim, scratch, "kills-without-journals", ["tfrecord in shards"])
    assert any("holds [1, 2]" in problem for problem in report["problems"])
