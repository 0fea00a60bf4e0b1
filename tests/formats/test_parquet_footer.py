"""The footer of a Parquet file: read without PyArrow, which a damaged one can bring down."""

from __future__ import annotations

import contextlib
import io
import signal
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorferry as ferry
from tensorferry.formats.parquet import footer
from tensorferry.formats.parquet.checksums import count_pages
from tensorferry.formats.parquet.file import Reader
from tensorferry.storage.place import Place

# Asks PyArrow for every column of a footer with one bit flipped, each flip in a process of its own,
# and prints the first byte and bit for which the process was aborted.
FLIPS = """
import os, resource, sys
import pyarrow as pa, pyarrow.parquet as pq
path, start, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
whole = open(path, "rb").read()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
for place in range(start, end):
    for bit in range(8):
        data = bytearray(whole)
        data[place] ^= 1 << bit
        child = os.fork()
        if not child:
            try:
                metadata = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata
                for number in range(metadata.num_row_groups):
                    group = metadata.row_group(number)
                    for column in range(group.num_columns):
                        group.column(column)
            except Exception:
                pass
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(place, bit, os.WTERMSIG(status))
            sys.exit()
"""


def written(**options) -> bytes:
    file = io.BytesIO()
    table = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": pa.array(["x", None, "yyy"])})
    pq.write_table(table, file, **{"compression": "none", "store_schema": False, **options})
    return file.getvalue()


def footer_of(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack("<I", data[-8:-4])
    return len(data) - 8 - length, len(data) - 8


def row_groups(data: bytes) -> list[footer.RowGroup]:
    start, end = footer_of(data)
    return footer.read_footer(data[start:end], offset=start).groups


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_same_as_pyarrow(compression, dictionary):
    """Of a sound file both readers say the same."""
    data = written(compression=compression, use_dictionary=dictionary, row_group_size=2)
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata

    groups = row_groups(data)

    assert len(groups) == metadata.num_row_groups == 2
    for number, group in enumerate(groups):
        expected = metadata.row_group(number)
        assert group.rows == expected.num_rows
        for place, chunk in enumerate(group.chunks):
            column = expected.column(place)
            assert chunk.path == (column.path_in_schema,)
            assert chunk.values == column.num_values
            assert chunk.stored == column.total_compressed_size
            assert chunk.unpacked == column.total_uncompressed_size
            assert chunk.nulls == column.statistics.null_count
            starts = {column.data_page_offset, column.dictionary_page_offset} - {None}
            assert chunk.start == min(starts)


def nested() -> bytes:
    """A file whose schema has groups, metadata, and a column without statistics."""
    file = io.BytesIO()
    lists = pa.array([[1.0, 2.0], None, [3.0]], pa.list_(pa.float64()))
    structs = pa.array([{"x": 1, "y": "é"}, {"x": None, "y": "b"}, None])
    table = pa.table({"a": [1, 2, 3], "l": lists, "s": structs, "b": [b"x", None, b"yyy"]})
    table = table.replace_schema_metadata({"key": "value"})
    pq.write_table(table, file, row_group_size=2, write_statistics=["a"])
    return file.getvalue()


def answer(read, data: bytes, offset: int):
    """What a function reads, or its error as text."""
    try:
        return read(data, offset)
    except ferry.FerryError as error:
        return repr(error)


@pytest.mark.parametrize("data", [written(row_group_size=2), nested()])
def test_both_ways_agree(data):
    """A footer that is read in one native call says the same as struct by struct, also damaged."""
    start, end = footer_of(data)
    whole = data[start:end]
    usual = footer._read_usual(whole, start)
    assert usual is not None
    assert usual == footer._read_any(whole, start)
    accepted = 0
    for place in range(len(whole)):
        for flip in (1, 2, 0x10, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            found = answer(footer._read_usual, bytes(damaged), start)
            if found is not None:
                accepted += 1
                assert found == answer(footer._read_any, bytes(damaged), start)
    assert accepted > 100


def test_what_is_unusual():
    """Many columns, long names, and sizes beyond the file are left to the other way."""

    def usual(table: pa.Table, before: int = 1 << 30) -> footer.Footer | None:
        file = io.BytesIO()
        pq.write_table(table, file, store_schema=False)
        start, end = footer_of(file.getvalue())
        return footer._read_usual(file.getvalue()[start:end], min(start, before))

    assert usual(pa.table({f"c{i}": [1] for i in range(63)})) is not None
    assert usual(pa.table({f"c{i}": [1] for i in range(64)})) is None
    assert usual(pa.table({"x" * 16_000: [1]})) is not None
    assert usual(pa.table({"x" * 17_000: [1]})) is None
    assert usual(pa.table({"x": [1]}), before=10) is None


@pytest.mark.skipif(sys.platform == "win32", reason="looks for it in many processes")
def test_pyarrow_dies_where_we_raise(tmp_path):
    """One flipped bit makes PyArrow's interface to the footer abort; opening the file raises."""
    data = bytearray(written())
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    start, end = footer_of(bytes(data))

    command = [sys.executable, "-c", FLIPS, str(path), str(start), str(end)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    assert found, "PyArrow raises for every flipped bit: our own reader of footers can go"
    place, bit, number = map(int, found.split())
    assert number in (signal.SIGABRT, signal.SIGSEGV)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(ferry.FormatError) as caught:
        ferry.load(path)
    assert caught.value.path == str(path)


def test_every_cut():
    """A footer that ends early is an error of ours, with an offset."""
    data = written()
    start, end = footer_of(data)
    for stop in range(start, end):
        with pytest.raises(ferry.FormatError) as caught:
            footer.read_footer(data[start:stop], offset=start)
        assert start <= caught.value.offset <= stop


def test_deep_and_long_values():
    """A struct in a struct without end, and a number of more than 64 bits, are refused."""
    # Field 7 is none that is looked at, and is passed over.
    with pytest.raises(ferry.LimitError, match=r"deeper than limits\.depth"):
        footer.read_footer(b"\x7c" + b"\x1c" * 5000, offset=0)
    with pytest.raises(ferry.FormatError, match="64 bits") as caught:
        footer.read_footer(b"\x15" + b"\xff" * 10 + b"\x01\x00", offset=100)
    assert caught.value.offset == 101
    with pytest.raises(ferry.FormatError, match="type 8, expected 5"):
        footer.read_footer(b"\x18\x01a\x00", offset=0)
    with pytest.raises(ferry.FormatError):  # more elements than there are bytes
        footer.read_footer(b"\x79\xf5\xff\xff\xff\xff\x0f\x00", offset=0)


@pytest.mark.parametrize("before", [b"\x15\x02\x39", b"\x15\x02\x39\x1c\x19"])
def test_lists_that_hold_nothing(before):
    """Row groups, or columns, of a byte each took 190 times as much memory as the file."""
    with pytest.raises(ferry.FormatError, match="has no fields"):
        footer.read_footer(before + b"\xfc\x10" + bytes(20), offset=0)
    with pytest.raises(ferry.LimitError, match="at most 1000000"):
        footer.read_footer(before + b"\xfc\x80\x89\x7a" + bytes(2_000_003), offset=0)


def test_random_bytes():
    """Whatever the bytes are: row groups, or an error of ours."""
    generator = np.random.default_rng(0)
    start, end = footer_of(data := written())
    for _ in range(2000):
        damaged = bytearray(data[start:end])
        for place in generator.integers(0, len(damaged), 3):
            damaged[place] = generator.integers(0, 256)
        with contextlib.suppress(ferry.FerryError):
            footer.read_footer(bytes(damaged), offset=start)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_without_checksum(tmp_path, version):
    """`verify` says which pages have a checksum and which have none, and claims no more."""
    table = pa.table({"a": list(range(3000)), "b": [f"{n % 7} {'x' * 9}" for n in range(3000)]})
    for checked in (False, True):
        path = tmp_path / f"{checked}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=1000,
            data_page_size=1000,
            data_page_version=version,
            write_page_checksum=checked,
        )
        with Place(path).open() as source:
            pages = count_pages(source)
        report = ferry.verify(path)

        assert report.sound
        assert report.checksums == checked
        assert pages.total >= 12
        assert pages.checked == (pages.total if checked else 0)
        assert set(pages.unchecked) == (set() if checked else {"a", "b"})
        assert len(report.notes) == (not checked)
        if not checked:
            assert f"{pages.total} of {pages.total} pages have no checksum" in report.notes[0]


def test_damaged_pages(tmp_path):
    """Headers of pages that are damaged are an error of ours, wherever they are cut or changed."""
    pq.write_table(pa.table({"a": list(range(50))}), tmp_path / "x.parquet")
    data = (tmp_path / "x.parquet").read_bytes()
    for position in range(4, len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x55
        with contextlib.suppress(ferry.FerryError):
            count_pages(Place(bytes(changed)).open())


@pytest.mark.parametrize("compression", [None, "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_the_longest_string_of_a_dictionary(tmp_path, monkeypatch, compression):
    """How many rows are read at a time depends on the strings of a dictionary, not on its size."""
    names = [f"name {n}" for n in range(5000)]
    table = pa.table({"t": (names * 8)[:40_000]})
    pq.write_table(table, tmp_path / "t.parquet", compression=compression or "none")
    monkeypatch.setattr(ferry.limits, "memory", 64 << 20)
    with ferry.open(tmp_path / "t.parquet") as rows:
        (batch,) = rows.batches(40_000)
    with Place(tmp_path / "t.parquet").open() as source:
        step = Reader(source)._step(0, ["t"])

    assert [text.decode() for text in batch["t"]] == table["t"].to_pylist()
    assert (step > 1_000_000) == (compression != "lz4")  # whose two frames look alike


@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_a_dictionary_that_cannot_be_unpacked(tmp_path, monkeypatch, compression):
    """Of a damaged dictionary only the headers tell something, and reading it is an error."""
    path = tmp_path / "t.parquet"
    table = pa.table({"t": [f"name {n}" for n in range(5000)] * 8})
    pq.write_table(table, path, compression=compression)
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    data = path.read_bytes()
    path.write_bytes(data[: start + 100] + b"\xff" * 1000 + data[start + 1100 :])
    monkeypatch.setattr(ferry.limits, "memory", 64 << 20)
    with Place(path).open() as source:
        step = Reader(source)._step(0, ["t"])

    assert step < 40_000
    with pytest.raises(ferry.FormatError):
        ferry.load(path)


def test_a_long_string_in_a_dictionary_is_counted(tmp_path, monkeypatch):
    """A string of 1 MB that all rows share is still refused before it takes memory in each."""
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int32()), ["x" * (1 << 20)])
    table = pa.table({"t": rows})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", store_schema=False)
    monkeypatch.setattr(ferry.limits, "memory", 64 << 20)
    with pytest.raises(ferry.LimitError):
        ferry.load(tmp_path / "t.parquet")
