"""File objects of all kinds: what is written to them is what a file would have, and all of it."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import socket
import tempfile
import threading

import numpy as np
import pytest

import tensorferry as ferry

TENSORS = {"a": np.arange(3000, dtype=np.float32), "b": np.arange(7)}
COLUMNS = {"id": np.arange(50), "x": np.arange(50, dtype=np.float32)}
ROWS = ("tfrecord", "parquet", "arrow", "csv", "jsonlines")


class Silent:
    """A class of a user's own, whose `write` returns nothing."""

    def __init__(self):
        self.data = b""

    def write(self, buffer):
        self.data += bytes(buffer)


class Hesitant(Silent):
    """Takes some bytes at a time, as raw files and sockets may."""

    def write(self, buffer):
        some = bytes(buffer)[:1000]
        self.data += some
        return len(some)


@pytest.mark.parametrize("format", ["npz", "safetensors", "arrow", "structure", "json"])
@pytest.mark.parametrize("kind", [Silent, Hesitant])
def test_all_bytes_are_written(kind, format):
    """A `write` that takes a part, or says nothing, loses nothing."""
    file, memory = kind(), io.BytesIO()
    ferry.save(TENSORS, file, format=format)
    ferry.save(TENSORS, memory, format=format)

    again = kind()
    assert ferry.dumps_into(TENSORS, again, format=format) == len(again.data)
    assert again.data == file.data == memory.getvalue()
    assert ferry.loads(file.data, format=format)["a"].tolist() == TENSORS["a"].tolist()


def test_raw_sockets():
    """All of a large tensor goes through a socket without a buffer."""
    ours, theirs = socket.socketpair()
    received = bytearray()

    def receive():
        while data := theirs.recv(1 << 16):
            received.extend(data)

    thread = threading.Thread(target=receive)
    thread.start()
    with ours, ours.makefile("wb", buffering=0) as file:
        ferry.save(np.arange(1_000_000), file, format="npy")
    thread.join()
    theirs.close()

    assert ferry.loads(bytes(received)).tolist() == list(range(1_000_000))


def test_a_pipe_that_is_full():
    """A file that would have to wait, and may not, is an error; half a tensor is none."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with (
        os.fdopen(reading, "rb"),
        os.fdopen(writing, "wb", buffering=0) as file,
        pytest.raises(BlockingIOError),
    ):
        ferry.save(np.zeros(1_000_000), file, format="npy")


@pytest.mark.parametrize("opened", [gzip.open, bz2.open], ids=lambda opened: opened.__module__)
def test_files_that_compress_themselves(tmp_path, opened):
    """A GzipFile has the name of its file: what it is given is not compressed before."""
    path = tmp_path / "x.npy.gz"
    with opened(path, "wb") as file:
        ferry.save(TENSORS["a"], file, format="npy")
    with opened(path, "rb") as file:
        assert ferry.load(file).tolist() == TENSORS["a"].tolist()
    with opened(tmp_path / "x.tfrecord.gz", "wb") as file, ferry.writer(file) as out:
        out.write_batch(COLUMNS)
    with opened(tmp_path / "x.tfrecord.gz", "rb") as file:
        assert ferry.load(io.BytesIO(file.read()))["id"].tolist() == list(range(50))


@pytest.mark.parametrize("name", ["x.npy.gz", "x.npy", "x.tfrecord.gz", "x.tfrecord"])
def test_the_name_of_a_file(tmp_path, name):
    """A plain file is what its name says, as a path is: also a temporary one."""
    value = COLUMNS if "tfrecord" in name else TENSORS["a"]
    ferry.save(value, tmp_path / "path" / name)
    with open(tmp_path / name, "wb") as file:
        ferry.save(value, file)
    with tempfile.NamedTemporaryFile(suffix=name) as file:
        ferry.save(value, file)
        file.seek(0)
        temporary = file.read()

    expected = (tmp_path / "path" / name).read_bytes()
    assert expected[:2] == b"\x1f\x8b" or not name.endswith(".gz")
    assert (tmp_path / name).read_bytes() == temporary == expected


@pytest.mark.parametrize("format", ROWS)
def test_a_writer_into_a_file(tmp_path, format):
    """Rows are written into memory and open files, which stay open, as they are into a path."""
    memory = io.BytesIO()
    with ferry.writer(memory, format=format) as out:
        out.write({"id": 7, "x": np.float32(1)})
        out.write_batch(COLUMNS)
    with ferry.writer(tmp_path / "x", format=format) as out:
        out.write({"id": 7, "x": np.float32(1)})
        out.write_batch(COLUMNS)

    assert memory.getvalue() == (tmp_path / "x").read_bytes()


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord.gz", "x.parquet"])
def test_a_writer_into_a_named_file(tmp_path, name):
    """The name says the format and the compression, as that of a path does."""
    with open(tmp_path / name, "wb") as file, ferry.writer(file) as out:
        out.write_batch(COLUMNS)

    assert ferry.open(tmp_path / name).format == name.split(".")[1]
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert ferry.load(tmp_path / name)["id"].tolist() == list(range(50))


def test_refused(tmp_path):
    """Text, shards of a file object, and what is no file at all."""
    for call in (
        lambda file: ferry.save(TENSORS, file, format="npz"),
        lambda file: ferry.writer(file, format="csv"),
    ):
        with (
            open(tmp_path / "x.txt", "w") as file,
            pytest.raises(ferry.UnsupportedError, match=r"as text.*\nhint: use open\(path, \"wb\""),
        ):
            call(file)
    for options in ({"shards": 2}, {"append": True}):
        with pytest.raises(ferry.UnsupportedError, match="written to a path"):
            ferry.writer(io.BytesIO(), **options)
    with pytest.raises(TypeError):
        ferry.writer(5)
