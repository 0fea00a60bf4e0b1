"""Closing while another thread reads, and sets of more files than a process may have open."""

from __future__ import annotations

import os
import resource
import threading

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.storage.place import OPEN_AT_ONCE

ROUNDS = 20
SHARDS = 150


def read_until_closed(opened, look) -> list[BaseException]:
    """What a thread meets that reads while its files are closed."""
    met: list[BaseException] = []
    started = threading.Event()

    def work() -> None:
        try:
            while True:
                look(opened)
                started.set()
        except BaseException as error:
            met.append(error)
        started.set()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    opened.close()
    thread.join(600)
    assert not thread.is_alive()
    return met


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".index", ".weights.h5"])
def test_tensors(tmp_path, suffix):
    """A thread that reads tensors while the bundle is closed gets ValueError: it is closed."""
    path = tmp_path / f"x{suffix}"
    names = [f"layers/dense/vars/{number}" for number in range(8)]
    tensors = {name: np.arange(100.0) for name in names}
    ferry.save(tensors, path, **({"format": "checkpoint"} if suffix == ".index" else {}))
    for _ in range(ROUNDS):
        (met,) = read_until_closed(ferry.open(path), lambda opened: [opened[n] for n in names])
        assert isinstance(met, ValueError), repr(met)
        assert "closed" in str(met)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_rows(tmp_path, suffix):
    """The same for rows of a table."""
    for number in range(3):
        ferry.save({"a": np.arange(50)}, tmp_path / f"{number}{suffix}")
    for _ in range(ROUNDS):
        opened = ferry.open(str(tmp_path / f"*{suffix}"))
        (met,) = read_until_closed(opened, lambda opened: opened[[0, 149, 70]])
        assert isinstance(met, ValueError), repr(met)
        assert "closed" in str(met)


def test_closed_bundle(tmp_path):
    """A closed bundle says that it is closed, not that it lacks the tensor."""
    ferry.save({"a": np.zeros(2)}, tmp_path / "x.npz")
    opened = ferry.open(tmp_path / "x.npz")
    opened.close()
    for look in (lambda: opened["a"], lambda: opened.info["a"], lambda: opened.slice("a", 0)):
        with pytest.raises(ValueError, match=r"x\.npz is closed"):
            look()


def test_many_shards(tmp_path):
    """Random access over many shards needs few descriptors, whatever is held of the rows."""
    for number in range(SHARDS):
        with ferry.writer(tmp_path / f"x-{number:05d}.tfrecord") as writer:
            writer.write({"a": number})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = len(os.listdir("/dev/fd"))  # by whatever ran before
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 2 * OPEN_AT_ONCE - 20, hard))
    try:
        with ferry.open(str(tmp_path / "x-*.tfrecord")) as records:
            order = np.random.default_rng(0).permutation(SHARDS)
            kept = [records[int(number)] for number in order]
            at_once = records[order.tolist()]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert [int(row["a"]) for row in kept] == order.tolist()
    assert [int(row["a"]) for row in at_once] == order.tolist()


def test_damage_among_many_shards(tmp_path):
    """The error for a damaged record of one of many shards names its file and offset."""
    for number in range(80):
        with ferry.writer(tmp_path / f"x-{number:05d}.tfrecord") as writer:
            writer.write({"a": number})
            writer.write({"a": number})
    path = tmp_path / "x-00070.tfrecord"
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with ferry.open(str(tmp_path / "x-*.tfrecord"), schema={"a": "int64"}) as records:
        records[140]
        with pytest.raises(ferry.errors.ChecksumError, match=r"x-00070\.tfrecord") as failed:
            records[141]

    assert len(data) // 2 <= failed.value.offset < len(data)
