"""Small files that expand to large ones: what a file takes in memory is counted over all of it."""

from __future__ import annotations

import gzip
import io
import time
import tracemalloc
from contextlib import contextmanager

import cramjam
import h5py
import numpy as np
import pytest
from commands import run
from savedmodels import encode, field, varint

import tensorferry as ferry
from tensorferry import limits
from tensorferry.codecs import riegeli
from tensorferry.errors import FormatError, LimitError
from tensorferry.formats.savedmodel import chunks
from tensorferry.operations.select import select

MB = 1 << 20
LIMIT = r"limits\.memory"


@contextmanager
def bounded(megabytes, seconds=5):
    """Memory and time for a block."""
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MB
        assert time.process_time() - start < seconds
    finally:
        tracemalloc.stop()


@pytest.fixture
def _small(monkeypatch):
    """A smaller limit, so that the tests do not fill the memory."""
    monkeypatch.setattr(limits, "memory", 8 * MB)


def filled(count):
    """A TensorProto of floats, of which one is stored."""
    size = b"\x08" + varint(count)
    return b"\x08\x01" + field(2, field(2, size)) + b"\x2d\x00\x00\x80\x3f"


def structure(count):
    """A dict of tensors of 2 MB, of each of which one float is stored."""
    pairs = [field(1, b"%d" % n) + field(2, field(55, filled(MB // 2))) for n in range(count)]
    return field(53, b"".join(field(1, pair) for pair in pairs))


def test_the_default():
    """A file may expand to 1 GiB, or to a hundred times its size."""
    assert limits.memory == 1 << 30
    with bounded(4), pytest.raises(LimitError, match=LIMIT):
        ferry.loads(filled((1 << 28) + 1))


@pytest.mark.usefixtures("_small")
def test_fills_in_a_structure(tmp_path):
    """The tensors of a structure are counted together, also in a compressed file."""
    assert len(ferry.loads(structure(4), format="structure")) == 4
    data = structure(200)
    (tmp_path / "x.structure.gz").write_bytes(gzip.compress(data))
    with bounded(12), pytest.raises(LimitError, match=LIMIT):
        ferry.loads(data, format="structure")
    with bounded(12), pytest.raises(LimitError, match=LIMIT):
        ferry.load(tmp_path / "x.structure.gz", format="structure")


@pytest.mark.usefixtures("_small")
def test_fills_in_a_request():
    """The inputs of a request to a server are counted together."""
    entries = [field(2, field(1, b"%d" % n) + field(2, filled(MB // 2))) for n in range(9)]
    with bounded(12), pytest.raises(LimitError, match=LIMIT):
        ferry.serving.PredictRequest.from_bytes(b"".join(entries))


@pytest.mark.usefixtures("_small")
def test_constants_of_a_graph(tmp_path):
    """The constants of a graph count when they are read, each once."""
    nodes = ""
    for number in range(5):
        tensor = "dtype: DT_FLOAT tensor_shape { dim { size: 524288 } } float_val: 1"
        nodes += (
            f'node {{ name: "c{number}" op: "Const" attr {{ key: "dtype" value {{ type: DT_FLOAT '
            f'}} }} attr {{ key: "value" value {{ tensor {{ {tensor} }} }} }} }}'
        )
    (tmp_path / "graph.pb").write_bytes(encode(nodes, "GraphDef"))

    bundle = ferry.open(tmp_path / "graph.pb", format="savedmodel")
    names = list(bundle)
    assert len(names) == 5
    for name in (names[0], *names[:4], names[0], names[3]):
        assert bundle[name].nbytes == 2 * MB
    with pytest.raises(LimitError, match=LIMIT):
        bundle[names[4]]
    assert bundle[names[0]].nbytes == 2 * MB


def npz(arrays):
    """The bytes of a compressed npz of NumPy's."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@pytest.mark.usefixtures("_small")
def test_members_of_an_archive(tmp_path):
    """The members of an npz are counted together, each once, however often it is read."""
    path = tmp_path / "x.npz"
    path.write_bytes(npz({str(n): np.zeros(2 * MB, np.uint8) for n in range(8)}))

    with ferry.open(path) as bundle:
        assert len(bundle.infos()) == 8
        for _ in range(20):
            assert bundle["0"].nbytes == 2 * MB
        with bounded(12), pytest.raises(LimitError, match=LIMIT):
            dict(bundle)
        assert not bundle["0"].any()
    with ferry.open(path) as bundle:
        assert not bundle["7"].any()
    with bounded(12), pytest.raises(LimitError, match=LIMIT):
        ferry.load(path)


@pytest.mark.usefixtures("_small")
def test_archive_in_a_compressed_file(tmp_path):
    """A bomb in a bomb is one."""
    inner = npz({str(n): np.zeros(MB // 2, np.uint8) for n in range(200)})
    (tmp_path / "x.npz.gz").write_bytes(gzip.compress(inner))
    assert 100 * len(inner) > 8 * MB
    with bounded(24), pytest.raises(LimitError, match=LIMIT):
        ferry.load(tmp_path / "x.npz.gz")
    with bounded(24), pytest.raises(LimitError, match=LIMIT):
        ferry.load(io.BytesIO(gzip.compress(bytes(10 * MB))), format="raw", dtype="uint8")


@pytest.mark.usefixtures("_small")
def test_datasets_of_an_hdf5_file(tmp_path):
    """Fills and chunks of an HDF5 file are counted together, when they are read."""
    path = tmp_path / "x.weights.h5"
    with h5py.File(path, "w") as file:
        for number in range(3):
            file.create_dataset(f"a{number}/vars/0", (MB // 2,), "f4", fillvalue=2)
            zeros = np.zeros(MB // 2, "f4")
            options = {"chunks": (MB // 8,), "compression": "gzip"}
            file.create_dataset(f"b{number}/vars/0", data=zeros, **options)
        # The blocks of 1 MB stand outside of the array but for one column.
        wide = file.create_dataset(
            "c/vars/0", (40, 1), "u1", chunks=(1, MB), maxshape=(40, MB), compression="gzip"
        )
        wide[:] = 1

    with ferry.open(path) as bundle:
        names = list(bundle)
        assert len(names) == 7
        wide = next(name for name in names if bundle.infos()[name].shape == (40, 1))
        with bounded(12), pytest.raises(LimitError, match=LIMIT):
            bundle[wide]
        for name in names[:3] * 2:
            assert bundle[name].nbytes == 2 * MB
        with bounded(12), pytest.raises(LimitError, match=LIMIT):
            dict(bundle)


def compressed(*records, together=1):
    """A Riegeli file of records, compressed, so many in the first chunk; and where they lie."""
    data, places = riegeli.START, []
    for first in (0, *range(together, len(records))):
        group = records[:together] if not first else records[first : first + 1]
        sizes, values = b"".join(varint(len(record)) for record in group), b"".join(group)
        packed = varint(len(sizes)) + bytes(cramjam.brotli.compress(sizes))
        body = b"b" + varint(len(packed)) + packed + varint(len(values))
        body += bytes(cramjam.brotli.compress(values))
        count = ord("r") | len(group) << 8
        numbers = (len(body), riegeli.highway_hash(body), count, len(values))
        rest = b"".join(number.to_bytes(8, "little") for number in numbers)
        begin = len(data)
        places += range(begin, begin + len(group))
        data += riegeli.highway_hash(rest).to_bytes(8, "little") + rest + body
        data = data.ljust(begin + len(group), b"\0")
    assert len(data) < 1 << 16  # there is a header at each multiple
    return data, places


@pytest.mark.usefixtures("_small")
def test_chunks_of_a_model():
    """The chunks of a model are counted together, and what is parsed of them many times."""
    data, _ = compressed(*[bytes(2 * MB)] * 8, b"")
    with bounded(24), pytest.raises(LimitError, match=LIMIT):
        chunks.merge(data, "SavedModel")
    data, _ = compressed(b"\x12\x00" * (MB // 8))
    with bounded(16), pytest.raises(LimitError, match=LIMIT):
        chunks.merge(data, "SavedModel")
    part = b"\x12\x00" * (MB // 8)
    _, places = compressed(part)
    listed = field(2, b"\x08\x01\x10" + varint(len(part)) + b"\x18" + varint(places[0]))
    data, _ = compressed(part, listed + field(3, b"\x08\x00"))
    with bounded(16), pytest.raises(LimitError, match=LIMIT):
        chunks.merge(data, "SavedModel")


def test_a_record_is_one_chunk():
    """A record that several chunks name is used once, and there are no more chunks than records."""
    part = field(2, b"")
    _, places = compressed(part)
    info = field(2, b"\x08\x01\x10" + varint(len(part)) + b"\x18" + varint(places[0]))
    data, _ = compressed(part, info * 2)
    with pytest.raises(FormatError, match="2 chunks are listed, there are 1"):
        chunks.merge(data, "SavedModel")
    again = field(2, field(3, b"\x08\x01"))
    data, _ = compressed(part, part, info * 2 + field(3, b"\x08\x00" + again))
    with pytest.raises(FormatError, match="another chunk has"):
        chunks.merge(data, "SavedModel")


def test_many_chunks_of_one_field():
    """Many chunks of one value are put together in one step."""
    count, part = 4_000, bytes(4096)
    _, places = compressed(*[part] * count, together=count)
    infos = b"".join(
        field(2, b"\x08\x02\x10" + varint(len(part)) + b"\x18" + varint(place)) for place in places
    )
    way = b"".join(field(1, tag) for tag in (b"\x08\x02", b"\x18\x00", b"\x08\x01", b"\x08\x05"))
    fields = b"".join(field(2, way + field(3, b"\x08" + varint(n))) for n in range(count))
    data, _ = compressed(*[part] * count, infos + field(3, fields), together=count)
    with bounded(100):
        merged = chunks.merge(data, "SavedModel")
    assert len(merged) > count * len(part)


def test_ways_that_do_not_end():
    """A way to a chunk through thousands of messages is a limit, not a recursion."""
    steps = b"".join(field(1, tag) for tag in [b"\x08\x02", b"\x18\x00"] + [b"\x08\x02"] * 5000)
    data, _ = compressed(b"", field(3, field(2, steps + field(3, b""))))
    with pytest.raises(LimitError, match="passes more than 100"):
        chunks.merge(data, "SavedModel")


def test_lists_in_a_text(tmp_path, monkeypatch):
    """A tree of JSON takes many times its text, which may be compressed: both are counted."""
    monkeypatch.setattr(limits, "memory", 8 * MB)
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"[]," * 200_000 + b"1]"))
    with bounded(8), pytest.raises(LimitError, match="the tree of the text takes"):
        ferry.load(path)
    path.write_bytes(gzip.compress(b"[" + b"1," * 1000 + b"1]"))
    assert len(ferry.load(path)) == 1001


@pytest.mark.parametrize("target", ["o.tfrecord", "o.parquet", "o.jsonl"])
def test_rows_of_nothing(tmp_path, target):
    """A file of 100 bytes with 2**33 rows that are empty does not fill the disk."""
    np.save(tmp_path / "x.npy", np.empty((2**33, 0), np.float32))

    with bounded(100), pytest.raises(LimitError):
        ferry.convert(tmp_path / "x.npy", tmp_path / target)


def test_rows_of_nothing_on_a_screen(tmp_path):
    """Nor does it print without end."""
    np.save(tmp_path / "x.npy", np.empty((2**33, 0), np.float32))

    with bounded(100), pytest.raises(LimitError):
        next(select(tmp_path / "x.npy"))


@pytest.mark.parametrize("options", [[], ["--json"], ["--json", "--all"]])
def test_lists_of_nothing_on_a_screen(tmp_path, options):
    """Nor do lists of lists of nothing, whose rows are few."""
    path = tmp_path / "x.npy"
    np.save(path, np.empty((2**10, 2**40, 0), np.float32))

    with bounded(100):
        with pytest.raises(LimitError, match="without elements"):
            next(select(path))
        result = run("show", *options, path)

    assert result.code == (2 if "--all" in options else 0)


def test_lists_of_nothing_in_a_request():
    """Nor do they fill a request."""
    request = ferry.serving.PredictRequest("m", {"x": np.empty((2**10, 2**40, 0), np.float32)})

    with bounded(100), pytest.raises(LimitError, match="without elements"):
        request.to_json()


def test_lists_of_nothing_as_json():
    """In JSON with types, they are the bytes that they have: none."""
    array = np.empty((2**10, 2**40, 0), np.float32)

    with bounded(100):
        assert ferry.loads(ferry.dumps(array, format="json"), format="json").shape == array.shape
