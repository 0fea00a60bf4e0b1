"""Records of streams: read once, in order, in bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from formats.records import rows_of, write

import tensorferry as ferry


class Pipe(io.BytesIO):
    """No io.BytesIO itself, which would be taken as a buffer."""


@pytest.mark.parametrize("compression", [None, "gzip", "zlib", "zstd"])
def test_file_objects(tmp_path, compression):
    """An open file, a buffer in memory and a stream that can be read once."""
    path = write(tmp_path / "a", rows_of(3000), compression=compression)
    with open(path, "rb") as file:
        data = file.read()
        file.seek(0)
        for source in (file, io.BytesIO(data), Pipe(data)):
            with ferry.open(source) as records:
                assert [len(batch["id"]) for batch in records.batches(1300)] == [1300, 1300, 400]
                assert len(list(records)) == (3000 if not isinstance(source, Pipe) else 0)
    records = ferry.open(Pipe(data))
    assert records.schema["id"].kind == "int64"
    assert [row["id"] for row in records] == list(range(3000))


def test_gzip_file_object(path):
    """A file object is read through its own read method."""
    with gzip.open(path + ".gz", "wb") as out, open(path, "rb") as file:
        out.write(file.read())
    with gzip.open(path + ".gz") as source:
        assert len(list(ferry.open(source))) == 100


def test_fifo(path, tmp_path):
    """A named pipe is opened once: inferring the schema loses no record."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data = Path(path).read_bytes()
    writer = threading.Thread(target=fifo.write_bytes, args=(data,))
    writer.start()
    with ferry.open([path, fifo]) as records:
        assert [row["id"] for row in records] == [*range(100)] * 2
    writer.join()


def test_standard_input(path):
    """The standard input is "-", a pipe or a file."""
    code = "import tensorferry as f; print(sum(len(b['id']) for b in f.open('-').batches(7)))"
    with open(path, "rb") as file:
        for source in (subprocess.PIPE, file):
            options = {"input": file.read()} if source is subprocess.PIPE else {"stdin": file}
            result = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, **options
            )
            assert int(result.stdout) == 100
            file.seek(0)


def test_streams_know_their_limits(path):
    """A stream has no length, no random access, no splits, no pickling and no second pass."""
    records = ferry.open(Pipe(Path(path).read_bytes()), infer="all")
    assert records.count() is None
    with pytest.raises(TypeError, match="no length"):
        len(records)
    with pytest.raises(ferry.UnsupportedError, match="in order"):
        records[0]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(records)
    with pytest.raises(ferry.UnsupportedError, match="one reader"):
        records.splits(2)
    assert len(list(records)) == 100
    assert list(records) == []


def test_bounded_memory(tmp_path):
    """Large rows in small batches: what is in memory does not grow with the file."""
    path = tmp_path / "large.tfrecord.gz"
    image = np.zeros(1 << 20, np.uint8)
    with ferry.writer(path, durable=False) as out:
        for number in range(150):
            out.write({"id": number, "image": image})
    for read in (lambda records: records.batches(2), iter):
        tracemalloc.start()
        with ferry.open(path, threads=2) as records:
            assert sum(1 for _ in read(records)) >= 75
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The whole file would take 150.
        assert peak < 100 << 20
