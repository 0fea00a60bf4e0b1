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
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

import tensorferry as ferry
from tensorferry import limits
from tensorferry.formats.parquet import footer, joining, pages
from tensorferry.formats.parquet.file import Reader
from tensorferry.formats.tables import lending, pieces
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


def arrow(
    *, stream: bool = False, compression: str | None = None, table: pa.Table = TABLE
) -> bytes:
    """The bytes of a small Arrow file."""
    file = io.BytesIO()
    options = ipc.IpcWriteOptions(compression=compression)
    with (ipc.new_stream if stream else ipc.new_file)(file, table.schema, options=options) as out:
        out.write_table(table)
    return file.getvalue()


# Whatever refers to other values: by indices, offsets, views, runs and types.
REFERRING = pa.table(
    {
        "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["a", "b"]),
        "views": pa.array(["short", "a string of more than twelve bytes", None], pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), [1.5, 2.5]),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
        "large": pa.array([[1], [2, 3], None], pa.large_list(pa.int16())),
    }
)

FILES = {
    "parquet": ("parquet", parquet(store_schema=False, compression="none")),
    "arrow": ("arrow", arrow()),
    "lz4 stream": ("arrow", arrow(stream=True, compression="lz4")),
    "references": ("arrow", arrow(table=REFERRING)),
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
        unpacked = pages.unpacked(lambda start, stop: data[start:stop], chunk, len(data))

        assert 0 < chunk.unpacked - unpacked < 4000


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


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("encoding", ["dictionary", "DELTA_BYTE_ARRAY"])
def test_texts_longer_than_the_footer_says(compression, encoding, monkeypatch):
    """How many rows are decoded at a time does not depend on what the footer says of their text."""
    indices = pa.array(np.zeros(1 << 12, np.int32))
    column = pa.DictionaryArray.from_arrays(indices, ["x" * (1 << 16)])
    options = {"write_statistics": False, "store_schema": False, "compression": compression}
    if encoding != "dictionary":
        column = column.dictionary_decode()
        options |= {"use_dictionary": False, "column_encoding": {"x": encoding}}
    data = parquet(table=pa.table({"x": column}), **options)
    assert len(data) < 100_000

    def lie(column):
        column[2], column[6] = (9, (5, [0])), (6, 1)  # plain texts, of one byte together

    data = changed_footer(data, lie)
    assert (chunk_of(data).encodings, chunk_of(data).unpacked) == ((0,), 1)
    monkeypatch.setattr(limits, "memory", 8 << 20)
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with Table(data) as opened, pytest.raises(ferry.LimitError, match=r"limits\.memory"):
            list(opened)
    finally:
        pa.set_memory_pool(usual)

    assert pool.max_memory() < 64 << 20


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


def test_looking_for_nulls_counts_all_columns(monkeypatch):
    """Columns are counted together, and what strings take is what they take in memory."""
    indices = pa.array(np.zeros(1 << 12, np.int32))
    column = pa.DictionaryArray.from_arrays(indices, ["x" * 300])  # 1.2 MB of text
    few, many = (pa.table({f"c{i}": column for i in range(count)}) for count in (3, 12))
    options = {"compression": "zstd", "write_statistics": False, "store_schema": False}
    monkeypatch.setattr(limits, "memory", 8 << 20)
    with Table(parquet(table=few, **options)) as opened:
        assert not opened.optional
    data = parquet(table=many, **options)
    assert len(data) < 20_000
    with Table(data) as opened, pytest.raises(ferry.LimitError, match=r"limits\.memory"):
        opened.infos()


def test_members_of_a_struct_are_read_once(monkeypatch):
    """Nulls in the members of a struct are looked for in one reading."""
    members = [pa.array([1, 2]), pa.array(["a", None]), pa.array([[1.0, 2.0], [3.0, 4.0]])]
    members[2] = members[2].cast(pa.list_(pa.float64(), 2))
    inner = pa.StructArray.from_arrays(members, ["a", "b", "c"])
    outer = pa.StructArray.from_arrays([inner, pa.array([None, 1])], ["s", "d"])
    table = pa.table({"x": outer, "y": [1, 2]})
    read = []
    batches = Reader.batches
    monkeypatch.setattr(
        Reader, "batches", lambda self, *given: read.append(given) or batches(self, *given)
    )
    with Table(parquet(table=table, write_statistics=False)) as opened:
        assert opened.optional == {"x/s/b", "x/d"}
    assert read == [(0, ["x", "y"])]


def test_verifying_is_bounded(monkeypatch):
    """Row groups that fit into memory one by one are not read without end by `verify`."""
    table = pa.table({"x": np.zeros(1 << 20, np.int64)})
    data = parquet(table=table, compression="zstd", row_group_size=1 << 17)
    assert ferry.verify(data).sound
    monkeypatch.setattr(limits, "memory", 2 << 20)
    assert len(data) * 100 < 8 << 20
    (problem,) = ferry.verify(data).problems
    assert "limits.memory" in (problem.hint or "")
    assert problem.record == 1 << 17


def changed_footer(data: bytes, change: Callable[[Any], None], tail: bytes = b"") -> bytes:
    """A Parquet file with another footer, and bytes before it."""
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    fields, _ = joining._read(data[start:-8], 0, joining._STRUCT)
    for group in fields[4][1][1]:
        for chunk in group[1][1][1]:
            change(chunk[3][1])
    written = joining._written(joining._STRUCT, fields)
    return data[:start] + tail + written + struct.pack("<I", len(written)) + b"PAR1"


def test_columns_that_share_their_pages():
    """Each byte is of one column: walking over all pages takes as long as the file is."""
    table = pa.table({f"c{i}": pa.array([1]) for i in range(300)})
    data = parquet(table=table, store_schema=False, compression="zstd", use_dictionary=False)
    region = b"\x15\x00\x15\x00\x15\x00\x00" * 20_000  # pages without content
    at = data.rindex(b"PAR1") - 4 - struct.unpack("<I", data[-8:-4])[0]

    def point(column):
        column[9], column[7] = (6, at), (6, len(region))

    start = time.process_time()
    report = ferry.verify(changed_footer(data, point, region))
    assert time.process_time() - start < 3
    assert "bytes together" in str(report.problems[0])


def test_pages_that_are_nothing():
    """A byte of 0 is no page, and a long header is not read again for each byte behind it."""
    data = parquet(table=pa.table({"x": [1]}), store_schema=False, use_dictionary=False)
    at = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    long = b"\x15\x00\x15\x00\x15\x00\x28\x81\x20" + bytes(4097) + b"\x00"
    for region in (bytes(200_000), long * 400):

        def point(column, region=region):
            column[9], column[7] = (6, at), (6, len(region))

        start = time.process_time()
        assert not ferry.verify(changed_footer(data, point, region)).sound
        assert time.process_time() - start < 1


def test_lines_of_other_keys(tmp_path, monkeypatch):
    """Keys that no other line has: each column is a value in each row, which is counted before."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(b'{"k%d":1}\n' % number for number in range(300)))
    start = time.process_time()
    assert ferry.verify(path).sound
    assert len(ferry.load(path)) == 300
    assert time.process_time() - start < 3
    monkeypatch.setattr(limits, "memory", 16 << 20)
    for line in (b'{"k%d":1}\n', b'{"a":{"k%d":1}}\n'):
        path.write_bytes(b"".join(line % number for number in range(2_500)))
        with pytest.raises(ferry.LimitError, match=r"limits\.memory"):
            ferry.load(path)


def test_columns_of_a_text_are_read_together(tmp_path):
    """`verify` parses a text once, and not once for each column."""
    path = tmp_path / "x.csv"
    path.write_bytes(b",".join(b"c%d" % number for number in range(3000)) + b"\n" + b"1," * 2999)
    path.write_bytes(path.read_bytes() + b"1\n")
    start = time.process_time()
    assert ferry.verify(path).sound
    assert time.process_time() - start < 4


def test_names_that_come_twice():
    """That two of many columns have one name is said soon."""
    schema = pa.schema([(f"c{i}", pa.int8()) for i in range(40_000)] + [("c39999", pa.int8())])
    start = time.process_time()
    with pytest.raises(ferry.FormatError, match="several columns 'c39999'"):
        pieces.check_names(schema)
    assert time.process_time() - start < 2


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


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_views_of_one_text(kind, compression, monkeypatch):
    """Views that are all of the same text count as what they take."""
    monkeypatch.setattr(limits, "memory", 4 << 20)
    views = np.zeros((20_000, 4), np.int32)
    views[:, :2] = 1 << 12, int.from_bytes(b"xxxx", "little")
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"x" * (1 << 12))]
    table = pa.table({"v": pa.Array.from_buffers(kind, len(views), buffers)})
    data = arrow(table=table, compression=compression)
    with pytest.raises(ferry.LimitError, match=r"limits\.memory"):
        ferry.load(data)
    assert "limits.memory" in str(ferry.verify(data).problems[0].hint)
    with Table(arrow(table=table.slice(3, 5))) as few:
        assert few["v"].tolist() == [b"x" * (1 << 12)] * 5


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
