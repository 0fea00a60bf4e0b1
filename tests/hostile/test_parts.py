"""Tables of more columns and pieces than their bytes justify, and texts that are gone through once.

A column or a row group that a few bytes of a file describe takes thousands in memory. Sizes are
such that a loop in a loop would take hours.
"""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pyarrow as pa
import pytest

import tensorferry as ferry
from tensorferry import display, limits
from tensorferry.errors import FormatError, LimitError

COLUMNS = 100_000


def thrift(number):
    """A number as Thrift's compact protocol has it."""
    number, out = number << 1, b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def counted(kind, parts):
    """A list of structs, with the byte of its field before it."""
    size, out = len(parts), b""
    while size > 0x7F:
        out, size = out + bytes([size & 0x7F | 0x80]), size >> 7
    return kind + b"\xfc" + out + bytes([size]) + b"".join(parts)


def text(value):
    return bytes([len(value)]) + value


def parquet(leaves, groups):
    """A Parquet file of a footer alone: a schema of so many integers, and row groups."""
    schema = [b"\x48" + text(b"schema") + b"\x15" + thrift(leaves) + b"\0"]
    for number in range(leaves):
        schema.append(b"\x15\x02\x25\0\x18" + text(b"%x" % number) + b"\0")
    footer = b"\x15\x02" + counted(b"\x19", schema) + b"\x16\0" + counted(b"\x19", groups) + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def row_group():
    """One that has no rows, and one column of no values."""
    column = b"\x15\x02\x19\x15\0\x19\x18\x010\x15\0\x16\0\x16\0\x16\0\x26\x08\0"
    return b"\x19\x1c\x26\x08\x1c" + column + b"\0\x16\0\x16\0\0"


FILES = {
    "x.csv": lambda: b",".join(b"c%d" % n for n in range(COLUMNS)) + b"\n" + b"1," * COLUMNS,
    "x.jsonl": lambda: json.dumps({f"c{n}": 1 for n in range(COLUMNS)}).encode() + b"\n",
    "lines.jsonl": lambda: b"".join(
        json.dumps({f"c{n}": 1 for n in range(first, first + 10)}).encode() + b"\n"
        for first in range(0, COLUMNS, 10)
    ),
    "schema.parquet": lambda: parquet(COLUMNS, []),
    "groups.parquet": lambda: parquet(1, [row_group()] * COLUMNS),
    "empty.parquet": lambda: parquet(1, [b"\x19\x0c\x16\0\x16\0\0"] * COLUMNS),
}


@pytest.mark.parametrize("name", FILES)
def test_more_than_the_bytes_justify(tmp_path, name):
    """What columns and pieces take is counted before PyArrow makes anything of them."""
    path = tmp_path / name
    path.write_bytes(FILES[name]())

    with pytest.raises(LimitError, match=r"columns|keys"):
        ferry.open(path)
    assert path.stat().st_size < 10 << 20


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_higher_limit(tmp_path, name, monkeypatch):
    """Whoever trusts a wide table raises the limit, and a usual one needs none."""
    path = tmp_path / name
    names = [f"c{n}" for n in range(2000)]
    if name == "x.csv":
        path.write_text(",".join(names) + "\n" + ",".join(["1"] * 2000) + "\n")
    else:
        path.write_text(json.dumps(dict.fromkeys(names, 1)) + "\n")
    assert len(ferry.open(path).schema) == 2000

    monkeypatch.setattr(limits, "memory", 8 << 20)
    with pytest.raises(LimitError, match="2000 columns"):
        ferry.open(path)


def shared_batches(count):
    """An Arrow file whose footer names its only batch so often."""
    batch = pa.record_batch({"a": np.zeros(1 << 20, np.int8)})
    file = io.BytesIO()
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    data = file.getvalue()
    (length,) = struct.unpack_from("<i", data, len(data) - 10)
    start = len(data) - 10 - length
    footer = bytearray(data[start:-10])
    root = struct.unpack_from("<I", footer)[0]
    table = root - struct.unpack_from("<i", footer, root)[0]
    # The fourth field is the list of batches: another one is put behind all else.
    field = root + struct.unpack_from("<H", footer, table + 4 + 2 * 3)[0]
    blocks = field + struct.unpack_from("<I", footer, field)[0]
    block = footer[blocks + 4 : blocks + 28]
    footer += bytes(-(len(footer) + 4) % 8)
    struct.pack_into("<I", footer, field, len(footer) - field)
    footer += struct.pack("<I", count) + block * count
    footer += bytes(-len(footer) % 8)
    return data[:start] + footer + struct.pack("<i", len(footer)) + b"ARROW1"


def test_batches_that_are_one(tmp_path):
    """A batch that the footer names a hundred thousand times is not read so often."""
    path = tmp_path / "x.arrow"
    path.write_bytes(shared_batches(1))
    assert ferry.open(path).count() == 1 << 20

    path.write_bytes(shared_batches(100_000))
    with pytest.raises(FormatError, match=r"take 104[0-9]{9} bytes together"):
        ferry.open(path)


def test_quotes_that_do_not_end(tmp_path):
    """Escaped quotes in a text that does not end are gone through once, not from each of them."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":' + b"[" * (limits.depth + 1) + b'"' + rb"\"" * 2_000_000 + b"\n")

    with pytest.raises(LimitError, match=r"limits\.depth"):
        ferry.open(path)


def test_letters_that_are_no_address():
    """A text in which addresses are looked for is gone through once."""
    assert display.scrub("a" * 3_000_000) == "a" * 3_000_000
    assert display.scrub("at s3+x://me:secret@host/x") == "at s3+x://me:***@host/x"
