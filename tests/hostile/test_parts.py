"""Tables of more columns and pieces than their bytes justify, and texts that are gone through once.

A column or a row group that a few bytes of a file describe takes thousands in memory. Sizes are
such that a loop in a loop would take hours.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from savedmodels import field

import tensorferry as ferry
from tensorferry import display, limits
from tensorferry.codecs import compression
from tensorferry.codecs.hdf5 import file as hdf5
from tensorferry.errors import FormatError, LimitError
from tensorferry.formats.arrow import file
from tensorferry.formats.checkpoint import graph as checkpoint_graph
from tensorferry.formats.parquet import file as parquet_file
from tensorferry.tensors import tree

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
    made = io.BytesIO()
    with pa.ipc.new_file(made, batch.schema) as writer:
        writer.write_batch(batch)
    data = made.getvalue()
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


@pytest.mark.parametrize("name", ["x.arrow", "x.parquet"])
def test_verifying_many_columns(tmp_path, name, monkeypatch):
    """For each reading of some columns PyArrow goes through all of them: few readings are made."""
    path = tmp_path / name
    ferry.save({f"c{n}": np.arange(3) for n in range(1000)}, path)
    home = file if name == "x.arrow" else parquet_file
    read, columns = home.Reader.batches, []

    def batches(self, index, names):
        columns.append(len(names))
        return read(self, index, names)

    monkeypatch.setattr(home.Reader, "batches", batches)
    assert ferry.verify(path).sound
    assert sum(columns) == 1000
    assert len(columns) < 10


def test_rows_without_columns(tmp_path):
    """Rows of nothing at all are sound."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n" * 100_000)

    assert ferry.verify(path).sound


def test_tree_of_a_config(tmp_path):
    """A config that is compressed a thousand times, and whose tree takes more, is refused."""
    path = tmp_path / "x.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.9.0"}')
        archive.writestr("config.json", b'{"a": [' + b"[]," * 8_000_000 + b"1]}")
        archive.writestr("model.weights.h5", b"")

    with pytest.raises(LimitError, match=r"the tree of config\.json"):
        ferry.open(path)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_members_of_no_bytes(kind):
    """A decompressor copies what it does not need of its input: it gets little of it at first."""
    make = gzip.compress if kind == "gzip" else compression._zstd().compress
    count = 2000
    data, given = make(b"abc") + make(b"") * count + make(b"end"), []
    library, error = compression._decompressors(kind)

    class Counting:
        def __init__(self):
            self.real = library()

        def decompress(self, data, most):
            given.append(len(data))
            return self.real.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self.real, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "_decompressors", lambda kind: (Counting, error))
        found = b"".join(compression.decompressed(io.BytesIO(data).read, kind))

    assert found == b"abcend"
    assert sum(given) < count * 5000


def test_frames_of_few_bytes(monkeypatch):
    """Short frames are read together: a decompressor for each would take twenty times as long."""
    zstd, made = compression._zstd(), []
    unsized = {zstd.CompressionParameter.content_size_flag: 0}
    frames = [b"%x" % n * (n % 3) for n in range(5000)]
    data = b"".join(zstd.compress(frame, options=unsized) for frame in frames)
    library, error = compression._decompressors("zstd")
    monkeypatch.setattr(
        compression, "_decompressors", lambda kind: (lambda: made.append(1) or library(), error)
    )

    assert b"".join(compression.decompressed(io.BytesIO(data).read, "zstd")) == b"".join(frames)
    assert len(made) < 10


GRAPH = field(1, field(4, b"serve"))
MODELS = {
    "graphs": lambda: field(2, GRAPH) + b"\x12\0" * 100_000,
    "objects": lambda: field(2, GRAPH + field(7, b"\x0a\0" * 1_000_000)),
    "functions": lambda: field(2, GRAPH + field(2, field(2, FUNCTION * 500_000))),
    "signatures": lambda: field(2, GRAPH + field(5, field(1, b"a") + b"\x12\0") * 100_000),
}
FUNCTION = field(1, field(1, field(1, b"f")))


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_a_model(tmp_path, name):
    """What stands for graphs, objects, functions and signatures is counted before it is made."""
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01" + MODELS[name]())

    with pytest.raises(LimitError, match=f"what stands for [0-9]+ {name}"):
        ferry.inspect(tmp_path)


def test_objects_of_a_checkpoint():
    """The objects that a checkpoint knows are counted, too."""
    with pytest.raises(LimitError, match=r"what stands for [0-9]+ objects"):
        checkpoint_graph.parse(field(1, b"") * 1_000_000)
    assert len(checkpoint_graph.parse(field(1, b"") * 1000).nodes) == 1000


def linked(path, count, *, soft):
    """An HDF5 file of a dataset that has so many names."""
    with h5py.File(path, "w") as file:
        values = file.create_dataset("values", data=np.zeros(3))
        for number in range(count):
            file[f"n{number}"] = h5py.SoftLink("values") if soft else values


@pytest.mark.parametrize("soft", [False, True])
def test_names_of_a_dataset(tmp_path, monkeypatch, soft):
    """What stands for the members of a group is counted while they are listed."""
    path = tmp_path / "x.h5"
    linked(path, 2000, soft=soft)
    assert len(ferry.open(path)) == 2001

    monkeypatch.setattr(limits, "memory", 1 << 20)
    with pytest.raises(LimitError, match=r"what stands for [0-9]+ members"):
        ferry.open(path)


def test_header_of_many_names(tmp_path, monkeypatch):
    """The header of an object is read once, whatever number of names it has."""
    path = tmp_path / "x.h5"
    linked(path, 2000, soft=False)
    take, taken = hdf5.Bytes.take, []
    monkeypatch.setattr(
        hdf5.Bytes, "take", lambda self, *place: taken.append(place) or take(self, *place)
    )

    assert len(ferry.open(path)) == 2001
    assert len(taken) < 2000


def test_lists_of_nothing(monkeypatch):
    """Lists of plain values are copied at once: a small text holds millions of them."""
    walked = []
    for name in ("_to_tree", "_from_tree"):
        walk = getattr(tree, name)
        monkeypatch.setattr(
            tree, name, lambda *given, walk=walk: walked.append(given) or walk(*given)
        )
    text = b"[" + b"[]," * 100_000 + b"[1,null]]"

    assert ferry.load(io.BytesIO(text), format="json") == [*([] for _ in range(100_000)), [1, None]]
    assert len(walked) < 100


def test_nulls_of_many_columns(tmp_path, monkeypatch):
    """Small columns of which nothing is known are read together to look for nulls in them."""
    path, read = tmp_path / "x.parquet", []
    table = pa.table({f"c{n}": [1, None] if n == 700 else [1, 2] for n in range(1000)})
    pa.parquet.write_table(table, path, write_statistics=False)
    batches = parquet_file.Reader.batches
    monkeypatch.setattr(
        parquet_file.Reader, "batches", lambda *given: read.append(given) or batches(*given)
    )

    schema = ferry.open(path).schema
    assert [name for name, feature in schema.items() if feature.optional] == ["c700"]
    assert len(read) < 10


def test_layers_that_are_listed_without_end(tmp_path):
    """What stands for the weights of a layer that is listed often is counted before it is made."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array([b"a"] * 50_000)
        layer = file.create_group("a")
        layer.attrs["weight_names"] = np.array([b"w"] * 50_000)
        layer["w"] = np.zeros(3)

    with pytest.raises(LimitError, match=r"what stands for [0-9]+ weights of layers"):
        ferry.open(path)
