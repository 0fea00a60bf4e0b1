"""Checkpoints that lie: each gives a typed error that says where, never a wrong value."""

from __future__ import annotations

import struct
import time
import tracemalloc

import cramjam
import numpy as np
import pytest
from checkpoints import read_all, resolve, save_v2
from conftest import CORPUS

from tensorferry import _native, errors
from tensorferry.codecs import leveldb as tables
from tensorferry.codecs.leveldb import MAGIC, mask
from tensorferry.codecs.protobuf import varint
from tensorferry.formats.checkpoint import (
    entries as checkpoint_entries,
    index as indexes,
    reader as checkpoint,
    slices as slices,
)
from tensorferry.storage import Buffers, open_source
from tensorferry.storage.place import Place

DATA = ".data-00000-of-00001"
HEADER = checkpoint_entries.encode_header(1)


def table(entries: dict[bytes, bytes]) -> bytes:
    """A table of any entries, as they come."""
    sink = Buffers()
    tables.write(list(entries), list(entries.values()), sink)
    return b"".join(sink)


def block(body: bytes, kind: int = 0, checksum: int | None = None) -> bytes:
    """A block with its trailer."""
    crc = mask(_native.crc32c(body + bytes([kind])))
    return body + bytes([kind]) + struct.pack("<I", crc if checksum is None else checksum)


EMPTY = struct.pack("<II", 0, 1)


def around(body: bytes, kind: int = 0, **options) -> bytes:
    """A table with one data block of these bytes."""
    data = block(body, kind, **options)
    handle = varint(0) + varint(len(body))
    index = b"\0\x01" + varint(len(handle)) + b"\xff" + handle + EMPTY
    places = varint(len(data)) + varint(8) + varint(len(data) + 13) + varint(len(index))
    return data + block(EMPTY) + block(index) + places.ljust(40, b"\0") + MAGIC


def pairs(*entries: tuple[int, bytes, bytes], restarts: tuple[int, ...] = (0,)) -> bytes:
    """A data block: how many bytes each key shares, the rest of it, the value."""
    body = b"".join(
        varint(shared) + varint(len(key)) + varint(len(value)) + key + value
        for shared, key, value in entries
    )
    return body + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def field(number: int, value: int | bytes, wire: int | None = None) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3 | (0 if wire is None else wire)) + varint(value % 2**64)
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(dtype=1, shape=(2,), shard=0, offset=0, size=8, crc=0, extra=b"") -> bytes:
    """A BundleEntryProto, with zeros written out."""
    dimensions = b"".join(field(2, field(1, size)) for size in shape)
    numbers = field(1, dtype) + field(2, dimensions) + field(3, shard) + field(4, offset)
    return numbers + field(5, size) + b"\x35" + struct.pack("<I", crc) + extra


def refused(
    tmp_path,
    index: bytes,
    kind=errors.FormatError,
    match: str | None = None,
    data: bytes = bytes(64),
    allowed: int = 1 << 21,
):
    """The error that an index gives: at once, without a large allocation, with its path."""
    (tmp_path / "model.index").write_bytes(index)
    (tmp_path / f"model{DATA}").write_bytes(data)
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(kind, match=match) as caught:
            read_all(tmp_path / "model")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < allowed
    assert time.process_time() - start < 5
    assert str(caught.value.path).startswith(str(tmp_path / "model"))
    return caught.value


@pytest.fixture(scope="module")
def sample(tf, tmp_path_factory):
    """A small checkpoint of TensorFlow's."""
    folder = tmp_path_factory.mktemp("sample")
    whole = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = [("a", whole), ("b/c", np.array([b"x", b"yz"], object)), ("p", whole), ("p", whole)]
    save_v2(tf, folder / "model", tensors, ["", "", "4 3 0,2:-", "4 3 2,2:-"])
    return folder / "model"


def flips(good: bytes):
    """The same bytes with each of their bits flipped."""
    for place in range(len(good) * 8):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        yield bytes(bad)


def test_every_bit_of_the_index_flipped(sample):
    """Any flipped bit is found when the index is read: also in the metaindex and the footer."""
    good = (sample.parent / "model.index").read_bytes()
    indexes.read(tables.Table(open_source(good)))
    for bad in flips(good):
        with pytest.raises(errors.FerryError):
            indexes.read(tables.Table(open_source(bad)))


def test_every_bit_of_the_data_flipped(sample, tmp_path):
    """Any flipped bit of the data is found when its tensor is read."""
    (tmp_path / "model.index").write_bytes((sample.parent / "model.index").read_bytes())
    path = tmp_path / f"model{DATA}"
    for bad in flips((sample.parent / f"model{DATA}").read_bytes()):
        path.write_bytes(bad)
        with pytest.raises(errors.FormatError):
            read_all(tmp_path / "model")


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_every_bit_of_real_indexes_flipped():
    """The same for indexes of many versions of TensorFlow's, of which none is refused as it is."""
    for path in CORPUS.glob("tensorflow/**/*.index"):
        good = path.read_bytes()
        indexes.read(tables.Table(open_source(good)))
        for place in range(len(good)):
            bad = bytearray(good)
            bad[place] ^= 1 << place % 8
            with pytest.raises(errors.FerryError):
                indexes.read(tables.Table(open_source(bytes(bad))))


@pytest.mark.parametrize("end", [".index", DATA])
def test_cut_at_every_offset(sample, tmp_path, end):
    """Cut anywhere, the index or the data is refused."""
    for other in (".index", DATA):
        (tmp_path / f"model{other}").write_bytes((sample.parent / f"model{other}").read_bytes())
    path = tmp_path / f"model{end}"
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(errors.FormatError):
            read_all(tmp_path / "model")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "0 bytes"),
        (bytes(47), "47 bytes"),
        (bytes(48), "last bytes"),
        (b"<html>" * 20, "last bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64, "last bytes"),
    ],
)
def test_no_table(tmp_path, data, match):
    """Something else under the name of an index is not taken for one."""
    refused(tmp_path, data, match=match)


@pytest.mark.parametrize(
    "handles",
    [
        varint(2**63) + varint(8) + varint(0) + varint(8),
        varint(0) + varint(2**63) + varint(0) + varint(8),
        varint(0) + varint(8) + varint(1 << 40) + varint(8),
        b"\xff" * 40,
        b"\x80\x00" + varint(8) + varint(13) + varint(8),
    ],
)
def test_block_handles(tmp_path, handles):
    """Blocks of 2^63 bytes, past the end, or written in more bytes than it takes, are refused."""
    data = block(EMPTY) + block(EMPTY) + handles.ljust(40, b"\0")[:40] + MAGIC
    refused(tmp_path, data)


def test_blocks(tmp_path):
    """A wrong checksum, an unknown compression, and snappy that lies."""
    body = pairs((0, b"", HEADER), (0, b"a", entry()))
    refused(tmp_path, around(body, checksum=7), errors.ChecksumError, "checksum is")
    refused(tmp_path, around(body, 7), match="compression 7")
    snappy = bytes(cramjam.snappy.compress_raw(body))
    size = len(varint(len(body)))
    refused(tmp_path, around(varint(2**32 - 1) + snappy[size:], 1), errors.LimitError, "4294967295")
    refused(tmp_path, around(varint(len(body) + 1) + snappy[size:], 1), match="snappy")
    for copy in (b"\x01\x00", b"\x01\x09", b"\x02\x00\x00", b"\x03\xff\xff\xff\xff"):
        refused(tmp_path, around(varint(8) + b"\x00a" + copy, 1), match="snappy")
    refused(tmp_path, around(b"", 1), match=None)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"", "restarts"),
        (struct.pack("<I", 0), "restarts"),
        (struct.pack("<I", 2**32 - 1), "restarts"),
        (pairs((0, b"", HEADER), restarts=(1,)), "restart"),
        (pairs((0, b"", HEADER), restarts=(0, 0)), "restart"),
        (pairs((0, b"", HEADER), (0, b"a", entry()), restarts=(0, 4)), "restart"),
        (pairs((1, b"", HEADER)), "shares 1 bytes"),
        (pairs((0, b"", HEADER), (2, b"a", entry())), "shares 2 bytes"),
        (pairs((0, b"", HEADER), (0, b"b", entry()), (0, b"a", entry())), "not sorted"),
        (pairs((0, b"", HEADER), (0, b"b", entry()), (0, b"b", entry())), "twice"),
        (pairs((0, b"a", entry())), "header"),
        (b"\0\xff\xff\xff\xff\x0f\x05" + EMPTY, "own"),
        (b"\xff" * 11 + EMPTY, "varint"),
        (b"\0\0" + EMPTY, "varint"),
    ],
)
def test_entries_of_blocks(tmp_path, body, match):
    """Restarts, shared prefixes and keys that no writer writes."""
    refused(tmp_path, around(body), match=match)


def test_keys_that_grow(tmp_path):
    """Keys that share nearly all of a long one would take thousands of times the file."""
    long = 1 << 16
    entries = [(long, number.to_bytes(2, "big"), b"") for number in range(20_000)]
    body = pairs((0, b"", HEADER), (0, b"k" * long, entry()), *entries)
    allowed = 34 * len(body)
    refused(tmp_path, around(body), errors.LimitError, "32 times its size", allowed=allowed)


def test_keys_that_grow_in_small_blocks(tmp_path):
    """A block of nine kilobytes has no keys of a megabyte: a file may have many such blocks."""
    entries = [(1500, number.to_bytes(2, "big"), entry()) for number in range(600)]
    body = pairs((0, b"", HEADER), (0, b"k" * 1500, entry()), *entries)
    refused(tmp_path, around(body), errors.LimitError, "32 times its size")


@pytest.mark.parametrize(
    ("header", "kind", "match"),
    [
        (b"", errors.FormatError, "0 data files"),
        (field(1, -1), errors.FormatError, "-1 data files"),
        (field(1, 2**40), errors.FormatError, "data files"),
        (field(1, 1) + field(2, 5), errors.FormatError, "byte order 5"),
        (field(1, 1) + field(3, field(1, 9) + field(2, 9)), errors.UnsupportedError, "version 9"),
        (field(1, 1) + field(3, field(1, 2) + field(3, 1)), errors.UnsupportedError, "version 2"),
        (field(1, 1) + field(3, field(1, -1)), errors.FormatError, "version -1"),
        (b"\xff", errors.FormatError, None),
    ],
)
def test_headers(tmp_path, header, kind, match):
    """No data files, a strange byte order, a version from the future."""
    refused(tmp_path, table({b"": header, b"a": entry()}), kind, match)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (entry(dtype=0), "dtype number 0"),
        (entry(dtype=999), "dtype number 999"),
        (entry(dtype=20), "dtype number 20"),
        (entry(shape=(-1,)), "dimension of -1"),
        (entry(shape=(2**32, 2**32)), "no array"),
        (entry(shape=(0, 2**32, 2**32), size=0), "no array"),
        (entry(shape=(1,) * 65), "dimensions"),
        (entry(shape=(1,) * 300), "300 dimensions"),
        (field(1, 1) + field(2, field(3, 1)), "unknown rank"),
        (entry(size=4), "4 bytes, expected 8"),
        (entry(size=9), "9 bytes, expected 8"),
        (entry(size=-8), "expected 0 or more"),
        (entry(offset=-8), "expected 0 or more"),
        (entry(offset=2**63 - 8), "expected 0 or more"),
        (entry(offset=60), "lies at 60 to 68"),
        (entry(offset=2**62), "lies at"),
        (entry(shard=1), "data file 1"),
        (entry(shard=-1), "data file -1"),
        (entry(shard=2**31), "data file"),
        (entry(dtype=7, shape=(2**40,)), "each of which"),
        (field(1, b"x"), "wire type"),
        (entry()[:-1], None),
        (b"\x07", None),
        (b"\x08\x01\x12\x09\x12\x02\x08\x02\x28\x08", None),
    ],
)
def test_entries(tmp_path, value, match):
    """Dtypes, shapes and places that cannot be, found by either way of parsing them."""
    kind = errors.FerryError
    error = refused(tmp_path, table({b"": HEADER, b"a": value}), kind, match)
    assert error.tensor == "a"
    many = {b"": HEADER, b"a": value, b"b": entry(offset=16), b"c": entry(offset=32)}
    refused(tmp_path, table(many), kind, match)


def test_entries_are_parsed_alike(tmp_path):
    """The fields of an entry in another order, or with unknown ones, mean the same."""
    crc = mask(_native.crc32c(bytes(8)))
    head = checkpoint_entries.encode_kind(checkpoint_entries.dtypes.BY_NAME["float32"], (2,))
    usual = _native.bundle_entry(head, 0, 8, 8, crc)
    turned = b"\x35" + struct.pack("<I", crc) + field(5, 8) + field(4, 8)
    turned += field(2, field(2, field(1, 2))) + field(1, 101) + field(99, b"?")
    for value in (usual, turned, entry(offset=8, crc=crc)):
        (tmp_path / "model.index").write_bytes(table({b"": HEADER, b"a": value}))
        (tmp_path / f"model{DATA}").write_bytes(bytes(64))
        assert read_all(tmp_path / "model")["a"].tolist() == [0, 0]


def test_overlap(tmp_path):
    """Bytes that belong to two tensors are refused; empty tensors may lie anywhere."""
    index = {b"": HEADER, b"a": entry(), b"b": entry(offset=4)}
    error = refused(tmp_path, table(index), match="also those of 'a'")
    assert (error.tensor, error.offset) == ("b", 4)

    empty = entry(shape=(0,), size=0, offset=4, crc=mask(0))
    whole = entry(crc=mask(_native.crc32c(bytes(8))))
    (tmp_path / "model.index").write_bytes(table({b"": HEADER, b"a": whole, b"b": empty}))
    assert set(read_all(tmp_path / "model")) == {"a", "b"}


def strings(lengths: list[int], text: bytes, checksum: int | None = None) -> bytes:
    """The bytes of a string tensor."""
    crc = mask(_native.crc32c(np.array(lengths, np.uint32).tobytes()))
    head = b"".join(map(varint, lengths))
    return head + struct.pack("<I", crc if checksum is None else checksum) + text


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (strings([1, 200], b"abc"), "strings of 201 bytes"),
        (strings([1, 1], b"abc"), "strings of 2 bytes"),
        (strings([1, 2], b"abc", 5), "lengths of strings are corrupt"),
        (strings([1, 2], b"abc"), "strings are corrupt"),
        (b"\xff" * 30, "lengths"),
        (b"\x01\x01", "end before"),
        (b"\xff" * 9 + b"\x01" + bytes(9), "longer than any"),
    ],
)
def test_strings(tmp_path, data, match):
    """Lengths that do not sum up, and checksums of lengths and of all."""
    index = table({b"": HEADER, b"s": entry(dtype=7, size=len(data), crc=1)})
    refused(tmp_path, index, match=match, data=data)


def extents(*pairs: tuple[int, int]) -> bytes:
    """A TensorSliceProto."""
    return b"".join(field(1, field(1, start) + field(2, length)) for start, length in pairs)


@pytest.mark.parametrize(
    ("pieces", "match"),
    [
        ([(-1, 2)], "starts at -1"),
        ([(0, -2)], "length of -2"),
        ([(2**62, 2**62)], "starts at"),
        ([(1, 2)], "slice from 1 to 3"),
        ([(0, 1)], "slices have 1 elements"),
        ([(0, 2), (0, 2)], "slices have 4 elements"),
        ([(0, 1), (0, 1)], "overlap"),
        ([(0, 1), (1, 1)], "lacks the slice"),
    ],
)
def test_slices(tmp_path, pieces, match):
    """Slices that overflow, overlap, leave something out or are not there."""
    whole = b"".join(field(7, extents(piece)) for piece in pieces)
    index = {b"": HEADER}
    for start, length in pieces[:1]:
        if 0 <= start < 3 and 0 <= length < 3:
            value = entry(shape=(length,), size=4 * length)
            index[slices.key(b"p", ((start, length),))] = value
    index[b"p"] = entry(size=0, extra=whole)
    error = refused(tmp_path, table(index), match=match)
    assert error.tensor == "p"


def test_many_slices(tmp_path):
    """Thousands of slices side by side take no longer than they should."""
    count = 5000
    checks = [((0, column), (3, 1)) for column in range(count)]
    start = time.process_time()
    slices.check_cover((3, count), checks)
    with pytest.raises(errors.FormatError, match="overlap"):
        slices.check_cover((3, count), [*checks[:-1], checks[0]])
    with pytest.raises(errors.LimitError, match="wildly"):
        slices.check_cover((count, count), [((n, n), (1, count)) for n in range(count)])
    assert time.process_time() - start < 5


def test_data_files_without_number(tmp_path):
    """The number of a data file that is there is no reason to allocate anything."""
    index = table({b"": field(1, 2**31 - 1), b"a": entry(shard=2**31 - 2, offset=60)})
    path = tmp_path / f"model.data-{2**31 - 2}-of-{2**31 - 1}"
    path.write_bytes(bytes(64))
    error = refused(tmp_path, index, errors.TruncatedError, "64 bytes")
    assert error.path == str(path)


def test_keep_removes_nothing_elsewhere(tmp_path):
    """Paths of a `checkpoint` file that lead elsewhere are dropped, and their files stay."""
    (tmp_path / "run").mkdir()
    checkpoint.save_tensors({"v": np.zeros(1)}, tmp_path / "other", state=False)
    state = f'model_checkpoint_path: "a"\nall_model_checkpoint_paths: "{tmp_path}/other"\n'
    (tmp_path / "run/checkpoint").write_text(state + 'all_model_checkpoint_paths: "../other"\n')
    checkpoint.save_tensors({"v": np.zeros(1)}, tmp_path / "run/model", keep=1)

    assert read_all(tmp_path / "other").keys() == {"v"}
    assert "other" not in (tmp_path / "run/checkpoint").read_text()


def test_slice_of_another_dtype(tmp_path):
    """A slice must have the dtype of the whole, and the shape that its place says."""
    key = slices.key(b"p", ((0, 2),))
    whole = entry(size=0, extra=field(7, extents((0, 2))))
    for piece in (entry(dtype=3), entry(shape=(1,), size=4)):
        refused(tmp_path, table({b"": HEADER, key: piece, b"p": whole}), match="expected float32")


def test_new_data_beside_an_old_index(tmp_path):
    """Data of another checkpoint is found by its size or its checksums."""
    for name, value in (("old", 1), ("new", 2)):
        checkpoint.save_tensors({"v": np.full(9, value)}, tmp_path / name, state=False)
    (tmp_path / f"old{DATA}").write_bytes((tmp_path / f"new{DATA}").read_bytes())

    with pytest.raises(errors.ChecksumError) as caught:
        read_all(tmp_path / "old")
    assert caught.value.path == str(tmp_path / f"old{DATA}")


def test_object_graphs(tmp_path):
    """A graph that leads nowhere, and bytes that are none, are refused when it is asked for."""
    node = field(1, field(1, field(1, 7) + field(2, b"a")))
    for graph, match in (
        (node, "object 7, there are 1"),
        (b"\xff", None),
        (field(1, field(1, field(2, b"\xff"))), "text"),
    ):
        text = np.empty((), object)
        text[()] = graph
        sink = {"x/.ATTRIBUTES/VARIABLE_VALUE": np.zeros(2), "g": text}
        checkpoint.save_tensors(sink, tmp_path / "model", state=False, durable=False)
        path = tmp_path / "model.index"
        entries = {}
        with checkpoint.open_checkpoint(Place(tmp_path / "model"), names="keys") as opened:
            source = tables.Table(open_source(path.read_bytes()))
            for found in source.blocks():
                for key, start, end in zip(found.keys, found.starts, found.ends, strict=True):
                    entries[key] = bytes(found.data[start:end])
        entries[b"_CHECKPOINTABLE_OBJECT_GRAPH"] = entries.pop(b"g")
        path.write_bytes(table(dict(sorted(entries.items()))))
        with checkpoint.open_checkpoint(Place(tmp_path / "model")) as opened:
            assert list(opened.stored) == ["x"]
            with pytest.raises(errors.FormatError, match=match):
                _ = opened.graph


@pytest.mark.parametrize("note", ["", "[]", '{"tensorferry": 1}', '{"tensorferry": "{}"}'])
def test_notes(tmp_path, note):
    """A note that is none is refused."""
    text = np.empty((), object)
    text[()] = note.encode()
    checkpoint.save_tensors({"_": text}, tmp_path / "model", state=False, durable=False)
    path = tmp_path / "model.index"
    source = tables.Table(open_source(path.read_bytes()))
    value = source.find(b"_")
    path.write_bytes(table({b"": HEADER, b"_TENSORFERRY": bytes(value)}))

    with pytest.raises(errors.FormatError) as caught:
        read_all(tmp_path / "model")
    assert caught.value.tensor == "_TENSORFERRY"


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"model_checkpoint_path: 5", b'all_model_checkpoint_paths: "a"', b"{" * 5000],
)
def test_checkpoint_files(tmp_path, text):
    """A `checkpoint` file that is none is refused, and replaced by the next one."""
    (tmp_path / "checkpoint").write_bytes(text)

    with pytest.raises(errors.FormatError) as caught:
        resolve(tmp_path)
    assert caught.value.path == str(tmp_path / "checkpoint")
    checkpoint.save_tensors({"v": np.zeros(1)}, tmp_path / "model", durable=False)
    assert resolve(tmp_path) == str(tmp_path / "model")


# The first version: what TensorFlow's own fuzzers found.


THREE = field(2, field(1, 3))


def meta(name=b"test", shape=THREE, dtype=7, extent=b"", found=b"") -> bytes:
    """A SavedTensorSlices that says what there is."""
    tensor = field(1, name) + field(2, shape) + field(3, dtype) + field(4, field(1, extent))
    return field(1, field(1, tensor) + found)


def values(content: bytes, extent=b"") -> bytes:
    """A SavedTensorSlices with values."""
    return field(2, field(1, b"test") + field(2, field(1, extent)) + field(3, content))


WHOLE = slices.key(b"test", ((0, -1),))
OTHER = field(1, field(1, b"test") + field(2, THREE) + field(3, 1))  # of another dtype
GOOD = b"".join(field(8, text) for text in (b"foo", b"bar", b"foobar"))


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({b"": meta(extent=field(1, 7 << 60) + field(2, 7 << 60))}, "starts at"),
        ({b"": meta(extent=field(1, -1))}, "starts at -1"),
        ({b"": meta(extent=field(1, 1))}, "length of -1"),
        ({b"": meta(extent=field(2, 2))}, "slices have 2 elements"),
        ({b"": meta(extent=field(2, 4))}, "slice from 0 to 4"),
        ({b"": meta(dtype=0)}, "dtype number 0"),
        ({b"": meta(dtype=20)}, "dtype number 20"),
        ({b"": meta(dtype=21)}, "variant"),
        ({b"": meta(shape=field(2, field(1, -5)))}, "dimension of -5"),
        ({b"": meta(name=b"\xff")}, "UTF-8"),
        ({b"": meta(shape=field(2, field(1, 1 << 32)) * 3)}, "no array"),
        ({b"": meta(shape=b"")}, "1 dimensions"),
        ({b"a": GOOD}, "empty key"),
        ({b"": meta()}, "lacks the values"),
        ({b"": meta(), WHOLE: b""}, "0 values"),
        ({b"": meta(), WHOLE: values(b"")}, "0 values"),
        ({b"": meta(), WHOLE: values(GOOD[:5])}, "1 values, expected 3"),
        ({b"": meta(), WHOLE: values(GOOD * 2)}, "6 values, expected 3"),
        ({b"": meta(), WHOLE: values(field(5, bytes(12)))}, ""),
        ({b"": meta(dtype=1), WHOLE: values(field(5, bytes(8)))}, "2 values"),
        ({b"": meta(dtype=1), WHOLE: values(field(5, bytes(13)))}, None),
        ({b"": meta(dtype=3), WHOLE: values(field(7, b"\1\2\xff"))}, "2 values"),
        ({b"": meta() + meta(dtype=1)}, "two shapes"),
        ({b"": meta(found=OTHER)}, "two shapes"),
    ],
)
def test_first_version(tmp_path, entries, match):
    """Shapes, slices and values that do not fit each other."""
    (tmp_path / "model").write_bytes(table(entries))
    with pytest.raises(errors.FormatError, match=match or None):
        read_all(tmp_path / "model")


def test_first_version_as_it_should_be(tf, tmp_path):
    """What the others are made of is read, and every flipped bit of it is found."""
    good = table({b"": meta(found=field(2, field(1, 1))), WHOLE: values(GOOD)})
    path = tmp_path / "model"
    path.write_bytes(good)
    assert read_all(path)["test"].tolist() == [b"foo", b"bar", b"foobar"]
    assert tf.train.load_checkpoint(str(path)).get_tensor("test").tolist() == [
        b"foo",
        b"bar",
        b"foobar",
    ]
    for bad in flips(good):
        path.write_bytes(bad)
        with pytest.raises((errors.FormatError, FileNotFoundError)):
            read_all(path)


@pytest.mark.parametrize("shapes", [[[1 << 40]], [[2] * 24] * 40])
def test_first_version_without_values(tmp_path, shapes):
    """A table of the first version that lists far more values than it can hold is refused."""
    metas = b""
    for number, shape in enumerate(shapes):
        dimensions = b"".join(field(2, field(1, size)) for size in shape)
        half = shape[0] // 2
        others = b"".join(field(1, field(2, size)) for size in shape[1:])
        pieces = b"".join(
            field(4, field(1, field(1, start) + field(2, half)) + others) for start in (0, half)
        )
        metas += field(1, field(1, b"v%02d" % number) + field(2, dimensions) + b"\x18\x01" + pieces)
    (tmp_path / "model").write_bytes(table({b"": field(1, metas)}))

    with pytest.raises(errors.TruncatedError, match="cannot hold"):
        read_all(tmp_path / "model")


@pytest.mark.parametrize("where", ["{other}/model", "../other/model", "s3://bucket/model"])
def test_state_leads_nowhere_else(tmp_path, where):
    """A `checkpoint` file names no checkpoint outside of its folder, and nothing remote."""
    for name in ("run", "other"):
        (tmp_path / name).mkdir()
    checkpoint.save_tensors({"v": np.zeros(1)}, tmp_path / "other/model", state=False)
    path = where.format(other=tmp_path / "other")
    (tmp_path / "run/checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')

    assert checkpoint.latest_checkpoint(tmp_path / "run") is None
    checkpoint.save_tensors({"v": np.ones(1)}, tmp_path / "run/model", state=False)
    assert checkpoint.latest_checkpoint(tmp_path / "run") == str(tmp_path / "run/model")


@pytest.mark.parametrize("name", ["model-?????-of-x", "-?????-of-00001"])
def test_state_of_no_tables(tmp_path, name):
    """A name that is nearly that of tables of the first version leads to no checkpoint."""
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')

    assert checkpoint.latest_checkpoint(tmp_path) is None
