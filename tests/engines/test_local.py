"""The local engine, the contract of jobs, and programs without Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from engines_jobs import Doubling

import tensorferry as ferry
from tensorferry import engines
from tensorferry.engines import Local

ENGINES = {
    "here": Local(workers=1),
    "threads": Local(workers=3),
    "processes": Local(workers=2, processes=True),
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_order(engine):
    """Partial results are merged in the order of the plan, and progress counts tasks."""
    told = []

    found = engines.run(Doubling(20), engine, lambda done, total: told.append((done, total)))

    assert found == [2 * number for number in range(20)]
    assert told == [(number, 20) for number in range(1, 21)]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_error(engine):
    """The error of a task is raised as it is, with its attributes."""
    with pytest.raises(ferry.FormatError) as caught:
        engines.run(Doubling(20, bad=11), engine)

    assert (caught.value.path, caught.value.offset) == ("task", 11)


def test_driver_only():
    """What only the driver needs is not sent to workers."""
    import pickle

    sent = pickle.loads(pickle.dumps(Doubling(20, large=b"x" * 10_000_000)))

    assert "large" not in vars(sent)


def test_one_start_for_each_worker():
    """What a job holds is made once a worker, however many tasks the worker runs."""
    started = []

    @dataclass(frozen=True)
    class Holding(Doubling):
        def start(self):
            started.append(os.getpid())

    engines.run(Holding(50), Local(workers=2))

    assert 1 <= len(started) <= 2


@pytest.mark.parametrize("engine", ["dask", "Local"])
def test_unknown_engine(engine):
    """A name that is no engine is refused, and the names there are are told."""
    with pytest.raises(ValueError, match="expected 'local', 'ray' or an engine"):
        ferry.verify(b"", format="tfrecord", engine=engine)


def test_stream(tmp_path, monkeypatch):
    """A stream, which has one reader, is refused."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb") as out:
        ferry.save(np.arange(3), tmp_path / "x.tfrecord.npy")
        with ferry.writer(tmp_path / "x.tfrecord") as rows:
            rows.write({"x": 1})
        out.write((tmp_path / "x.tfrecord").read_bytes())
        out.close()
        with pytest.raises(ferry.UnsupportedError, match="one reader"):
            ferry.count(stream, engine="local")


def test_without_ray(tmp_path):
    """Where Ray is not installed, all else works, and the error names the extra."""
    code = """
import sys
sys.modules["ray"] = None
import tensorferry as ferry
with ferry.writer("x.tfrecord") as out:
    out.write({"x": 1})
assert ferry.verify("x.tfrecord", engine="local").count == 1
assert ferry.count("x.tfrecord") == 1
try:
    ferry.verify("x.tfrecord", engine="ray")
except ferry.MissingExtraError as error:
    assert "tensorferry[ray]" in error.hint
    print("refused")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert run.stdout == "refused\n"
