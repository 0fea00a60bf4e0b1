"""Parts of a flatbuffer that many others point to.

PyArrow reads them as often as they are named: a schema of a hundred kilobytes could take gigabytes.
"""

from __future__ import annotations

import base64
import io
import resource
import struct
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorferry as ferry

SIZES = {"b": 1, "h": 2, "i": 4, "q": 8, "to": 4}


class Builder:
    """A flatbuffer, written from its start to its end; what is pointed to comes behind."""

    def __init__(self):
        self.data = bytearray(4)
        self.places = {}
        self.pointers = []

    def table(self, name, *fields):
        """A table; a field is a kind and a value, a name that it points to, or None."""
        self._pad(8)
        self.places[name] = 0
        start = len(self.data)
        self.data += bytes(4 + 2 * len(fields))
        self._pad(8)
        place = self.places[name] = len(self.data)
        self.data += struct.pack("<i", place - start)
        for index, field in enumerate(fields):
            if field is None:
                continue
            kind, value = field
            self._pad(SIZES[kind])
            struct.pack_into("<H", self.data, start + 4 + 2 * index, len(self.data) - place)
            if kind == "to":
                self._point(value)
            else:
                self.data += struct.pack(f"<{kind}", value)
        struct.pack_into("<HH", self.data, start, 4 + 2 * len(fields), len(self.data) - place)

    def vector(self, name, targets):
        """A vector of pointers."""
        self._pad(4)
        self.places[name] = len(self.data)
        self.data += struct.pack("<I", len(targets))
        for target in targets:
            self._point(target)

    def text(self, name, text):
        self._pad(4)
        self.places[name] = len(self.data)
        self.data += struct.pack("<I", len(text)) + text + b"\0"

    def done(self, root):
        for place, target in self.pointers:
            struct.pack_into("<I", self.data, place, self.places[target] - place)
        struct.pack_into("<I", self.data, 0, self.places[root])
        self._pad(8)
        return bytes(self.data)

    def _point(self, target):
        self.pointers.append((len(self.data), target))
        self.data += bytes(4)

    def _pad(self, size):
        self.data += bytes(-len(self.data) % size)


def message_of(fields, *, name=b"x", metadata=0, zone=None):
    """The message of a schema of `fields` fields, all of which are one table."""
    builder = Builder()
    builder.table("root", ("h", 4), ("b", 1), ("to", "schema"), ("q", 0))
    builder.table("schema", None, ("to", "fields"))
    builder.vector("fields", ["field"] * fields)
    pairs = ("to", "pairs") if metadata else None
    kind = ("b", 10 if zone else 2)
    end = (None, ("to", "children"), pairs)
    builder.table("field", ("to", "name"), ("b", 1), kind, ("to", "type"), *end)
    if zone:
        builder.table("type", ("h", 0), ("to", "zone"))
        builder.text("zone", zone)
    else:
        builder.table("type", ("i", 8), ("b", 1))
    builder.vector("children", [])
    if metadata:
        builder.vector("pairs", ["pair"] * metadata)
        builder.table("pair", ("to", "name"), ("to", "name"))
    builder.text("name", name)
    data = builder.done("root")
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(data)) + data


END = b"\xff\xff\xff\xff\0\0\0\0"


def test_the_builder():
    """PyArrow reads what is built here."""
    stream = message_of(1, name=b"time", zone=b"Europe/Berlin") + END
    assert pa.ipc.open_stream(stream).schema.field("time").type == pa.timestamp(
        "s", "Europe/Berlin"
    )
    assert pa.ipc.open_stream(message_of(3, metadata=2) + END).schema.names == ["x"] * 3


@pytest.mark.parametrize(
    "message",
    [
        message_of(3000, name=b"k" * 100_000),
        message_of(100_000),
        message_of(1000, metadata=2000, name=b"k" * 2000),
        message_of(3000, zone=b"Z" * 100_000),
    ],
    ids=["name", "fields", "metadata", "zone"],
)
def test_shared_parts(message):
    """A schema that names one part of it very often is refused before PyArrow reads it."""
    with pytest.raises(ferry.FormatError, match="named many times"):
        ferry.loads(message + END, format="arrow")


def test_shared_parts_in_parquet(tmp_path):
    """The schema of Arrow that a Parquet file carries is looked at in the same way."""
    sound = message_of(1)
    hostile = message_of(3000, name=b"k" * 100_000)
    for message in (sound, hostile):
        table = pa.table({"x": pa.array([1], pa.int8())})
        text = base64.b64encode(message)
        file = io.BytesIO()
        with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({"ARROW:schema": text})
        (tmp_path / "a.parquet").write_bytes(file.getvalue())
        if message is sound:
            assert ferry.load(tmp_path / "a.parquet")["x"].tolist() == [1]
        else:
            with pytest.raises(ferry.FormatError, match="named many times"):
                ferry.load(tmp_path / "a.parquet")


def test_memory(tmp_path):
    """The command takes no more for such a file than for others."""
    path = tmp_path / "a.arrows"
    path.write_bytes(message_of(20_000, name=b"k" * 500_000) + END)
    code = "import sys; from tensorferry.cli import main; sys.exit(main())"

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))

    ended = subprocess.run(
        [sys.executable, "-c", code, "info", str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limited,
        check=False,
    )
    assert ended.returncode == 2
    assert "named many times" in ended.stderr
