"""Tables that lie: PyArrow must not be given what ends the process, and neither may its threads.

`python tests/hostile/test_tables.py` tries every byte of more files with more values, and
`python tests/hostile/test_tables.py ends` runs the command some hundred times.
"""

from __future__ import annotations

import gc
import io
import os
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

import tensorferry as ferry
from tensorferry import limits
from tensorferry.formats.parquet import footer, pages
from tensorferry.formats.tables import lending
from tensorferry.formats.tables.table import Table

TABLE = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "b": pa.array(["x", None, "yyy"]),
        "c": pa.array([[1.0], [], [2.0, 3.0]]),
    }
)

# Reads one file after the other from its standard input, in every way there is.
CHILD = """
import struct, sys
import tensorferry as ferry
ferry.limits.memory = 64 << 20

def read(data):
    try:
        with ferry.open(data, format=sys.argv[1]) as table:
            table.infos(), table.schema, table.compressions, table.version
            list(table.problems())
            table.value()
        return b"read"
    except ferry.FerryError:
        return b"fail"

while head := sys.stdin.buffer.read(4):
    answer = read(sys.stdin.buffer.read(*struct.unpack("<I", head)))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
"""


class Child:
    """A process that reads files, started again when it dies."""

    def __init__(self, format: str) -> None:
        self.command = [sys.executable, "-c", CHILD, format]
        self.process: subprocess.Popen[bytes] | None = None

    def read(self, data: bytes) -> str:
        """What became of some bytes: "read", "fail", or how the process ended."""
        if self.process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(self.command, **pipes, stderr=subprocess.DEVNULL)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(struct.pack("<I", len(data)) + data)
            self.process.stdin.flush()
            if answer := self.process.stdout.read(4):
                return answer.decode()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        self.close()
        return f"ended with {code}"

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def deaths(format: str, data: bytes, values: Iterable[int], places: Iterable[int]) -> Counter[str]:
    """How many changed files were read and refused, and which bytes ended the process."""
    child, found = Child(format), Counter()
    for place in places:
        for value in values:
            changed = bytearray(data)
            changed[place] ^= value
            answer = child.read(bytes(changed))
            found[answer if len(answer) == 4 else f"byte {place} ^ {value} {answer}"] += 1
    child.close()
    return found


def parquet(**options) -> bytes:
    """The bytes of a small Parquet file."""
    file = io.BytesIO()
    pq.write_table(options.pop("table", TABLE), file, **options)
    return file.getvalue()


def arrow(*, stream: bool = False, compression: str | None = None) -> bytes:
    """The bytes of a small Arrow file."""
    file = io.BytesIO()
    options = ipc.IpcWriteOptions(compression=compression)
    with (ipc.new_stream if stream else ipc.new_file)(file, TABLE.schema, options=options) as out:
        out.write_table(TABLE)
    return file.getvalue()


FILES = {
    "parquet": ("parquet", parquet(store_schema=False, compression="none")),
    "arrow": ("arrow", arrow()),
    "lz4 stream": ("arrow", arrow(stream=True, compression="lz4")),
}


@pytest.mark.parametrize("name", FILES)
def test_every_byte_changed(name):
    """A changed byte is an error of ours, or another value: the process goes on."""
    kind, data = FILES[name]
    # Zeros between the buffers of Arrow say nothing.
    places = [place for place in range(len(data)) if place % 3 == 0 or data[place]]
    step = max(1, len(places) // 200)
    found = deaths(kind, data, (0x01, 0x92), places[::step])

    assert set(found) == {"read", "fail"}


def test_every_byte_of_a_column_changed():
    """What a footer says of a column never ends the process, also if only `info` asks."""
    data = parquet(table=TABLE.select(["b"]), store_schema=False, compression="snappy")
    (length,) = struct.unpack("<I", data[-8:-4])
    found = deaths("parquet", data, (0x01, 0x10), range(len(data) - 8 - length, len(data) - 8))

    assert set(found) == {"read", "fail"}


def chunk_of(data: bytes, column: int = 0) -> footer.Chunk:
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    return footer.read_footer(data[start:-8], offset=start).groups[0].chunks[column]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("statistics", [True, False])
def test_sizes_of_pages(version, checksum, statistics):
    """The headers of pages add up to what the footer says, less the headers themselves."""
    table = pa.table({"x": np.arange(100_000), "y": ["text"] * 100_000})
    options = {"write_page_checksum": checksum, "write_statistics": statistics}
    data = parquet(table=table, compression="zstd", data_page_version=version, **options)
    for column in range(2):
        chunk = chunk_of(data, column)
        whole = memoryview(data)[chunk.start : chunk.start + chunk.stored]

        assert 0 < chunk.unpacked - pages.unpacked(whole, chunk) < 4000


def test_pages_larger_than_the_footer_says(monkeypatch):
    """A footer that hides what its pages unpack to does not help them."""
    text = "x" * (32 << 20)
    table = pa.table({"x": [text]})
    data = parquet(table=table, compression="zstd", use_dictionary=False, write_statistics=False)
    chunk = chunk_of(data)
    assert len(data) < 10_000
    # Varints of one length, in the footer only: what it says the pages unpack to.
    place = data.index(varint(2 * chunk.unpacked), chunk.start + chunk.stored)
    small = varint(2 * chunk.unpacked, 1)
    data = data[:place] + small + data[place + len(small) :]
    assert chunk_of(data).unpacked == 1
    monkeypatch.setattr(limits, "memory", 1 << 20)

    start = time.process_time()
    with Table(data) as opened, pytest.raises(ferry.LimitError, match=r"limits\.memory"):
        list(opened)
    assert time.process_time() - start < 1


def test_looking_for_nulls_is_bounded(monkeypatch):
    """Without statistics nulls are looked for, but not in row groups without end."""
    table = pa.table({"x": np.zeros(1 << 20, np.int64)})
    options = {"table": table, "compression": "zstd", "row_group_size": 1 << 17}
    data = parquet(write_statistics=False, **options)
    with Table(data) as opened:
        assert opened.infos()["x"].dtype == "int64"
    monkeypatch.setattr(limits, "memory", 1 << 20)
    assert len(data) * 100 < 8 << 20
    with Table(data) as opened, pytest.raises(ferry.LimitError, match=r"limits\.memory"):
        opened.infos()
    with Table(parquet(**options)) as opened:
        assert opened.infos()["x"].dtype == "int64"


def varint(number: int, value: int | None = None) -> bytes:
    """A number as Thrift writes it, or 1 in as many bytes."""
    size = (number.bit_length() + 6) // 7
    number = number if value is None else 2 * value
    return bytes((number >> 7 * i) & 0x7F | (0x80 if i < size - 1 else 0) for i in range(size))


def test_a_codec_that_is_none():
    """A compression that nobody knows is named; the other columns are listed."""
    data = bytearray(parquet(table=TABLE.select(["a"]), store_schema=False, compression="snappy"))
    chunk = chunk_of(bytes(data))
    name = data.rindex(b"\x18\x01a\x15\x02")
    data[name + 4] = 2 * 3
    assert chunk_of(bytes(data)).codec == 3 != chunk.codec
    with Table(bytes(data)) as table:
        assert table.compressions == ["lzo"]
        with pytest.raises(ferry.UnsupportedError, match="lzo"):
            list(table)


def test_lent_memory_comes_back():
    """When Python ends, readers let go of files, and threads that hold them are waited for."""
    data = parquet()
    table = Table(data)
    assert len(list(table)) == 3
    (thing, _) = list(lending._lent.values())[-1]
    assert thing() is not None
    seen = []

    def hold(view):
        time.sleep(0.05)
        seen.append(view is not None)

    worker = threading.Thread(target=hold, args=(thing(),))
    worker.start()
    lending.settle()

    assert seen == [True]
    assert thing() is None
    worker.join()
    table.close()
    gc.collect()


def test_the_command_ends_well(tmp_path):
    """`ferry verify` of a file of many columns ends as it should."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({f"c{i}": np.arange(2000.0) for i in range(40)}), path)

    assert ends(str(path), 3) == Counter({0: 3})


def ends(path: str, count: int) -> Counter[int]:
    """The exit codes of some runs of the command, several at once."""
    command = [sys.executable, "-m", "tensorferry", "verify", path]
    found, running = Counter(), []
    for _ in range(count):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen(command, **quiet))
        if len(running) == 4:
            found[running.pop(0).wait()] += 1
    return found + Counter(process.wait() for process in running)


def main(arguments: list[str]) -> None:
    """The long versions."""
    if arguments[:1] == ["ends"]:
        path = f"/tmp/{os.getpid()}.parquet"
        pq.write_table(pa.table({f"c{i}": np.arange(20000.0) for i in range(40)}), path)
        print(ends(path, 400))
        os.unlink(path)
        return
    files = dict(FILES)
    for codec in ("snappy", "gzip", "brotli", "zstd", "lz4"):
        files[codec] = "parquet", parquet(compression=codec)
    files["version 2"] = "parquet", parquet(data_page_version="2.0", version="2.6")
    files["lz4 file"] = "arrow", arrow(compression="lz4")
    files["zstd file"] = "arrow", arrow(compression="zstd")
    for name, (kind, data) in files.items():
        values = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x7F, 0xFF)
        print(name, len(data), deaths(kind, data, values, range(len(data))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
