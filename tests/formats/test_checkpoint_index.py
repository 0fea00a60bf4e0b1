"""The quick way into the index of a checkpoint: it agrees with reading it block by block."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tensorferry as ferry
from tensorferry import _native
from tensorferry.codecs.leveldb import Table, mask
from tensorferry.formats.checkpoint import index as indexes
from tensorferry.formats.checkpoint.index import Index
from tensorferry.storage import Source

FOOTER, TRAILER = 48, 5
# Number of bytes of the data file.
ROOM = 1 << 20


def written(folder: Path, count: int, *, strings: bool = False) -> bytearray:
    """An index of tensors of several kinds."""
    tensors: dict[str, object] = {
        f"layer_{i}/kernel": np.zeros((2, i % 3), "f4") for i in range(count)
    }
    if strings:
        tensors["strings"] = np.array([b"a", b"bc"], object)
    ferry.save(tensors, folder / "x.ckpt", durable=False)
    return bytearray((folder / "x.ckpt.index").read_bytes())


def slowly(content: bytes) -> Index:
    return indexes.read(Table(Source("x", buffer=memoryview(content))))


def outcome(read, *arguments) -> object:
    try:
        index = read(*arguments)
        shards = indexes.check_shards(index, "x")
        indexes.check_places(index, dict.fromkeys(shards, ROOM), str)
    except ferry.FerryError as error:
        return type(error), str(error), error.offset
    return (
        index.shards, index.big_endian, index.keys, index.kinds, index.columns.tolist(),
        index.slices, shards,
    )  # fmt: skip


def agree(content: bytes) -> bool:
    """Whether both ways tell the same; gives whether the quick one took the index."""
    assert outcome(indexes.read_content, content, "x") == outcome(slowly, content)
    return _native.bundle_index(content) is not None


@pytest.mark.parametrize("count", [0, 1, 10, 5000])
@pytest.mark.parametrize("strings", [True, False])
def test_sound(tmp_path, count, strings):
    """An index of one block or of many is taken."""
    assert agree(bytes(written(tmp_path, count, strings=strings)))


def test_order_of_tensorflow(tmp_path):
    """TensorFlow writes tensors in another order than that of their keys; they lie apart."""
    variables = {f"v{number}": tf.Variable(np.ones(number, np.float32)) for number in range(12)}
    prefix = tf.train.Checkpoint(**variables).write(str(tmp_path / "x.ckpt"))
    content = Path(f"{prefix}.index").read_bytes()
    offsets, sizes = indexes.read_content(content, "x").columns[2:4].tolist()

    assert agree(content)
    assert offsets != sorted(offsets)
    assert _native.bundle_index(content)[5] == max(map(sum, zip(offsets, sizes, strict=True)))


@pytest.mark.parametrize("room", [0, 8, 31, 32, 33])
def test_short_data(tmp_path, monkeypatch, room):
    """Entries beyond the end of the data are refused alike."""
    monkeypatch.setitem(globals(), "ROOM", room)

    assert agree(bytes(written(tmp_path, 6)))


def test_every_bit_flipped(tmp_path):
    """A checksum, the footer's form or the order of blocks tells that something was changed."""
    content = written(tmp_path, 3)
    for place in range(8 * len(content)):
        content[place // 8] ^= 1 << place % 8
        assert not agree(bytes(content)), place
        content[place // 8] ^= 1 << place % 8


def test_cut_at_every_offset(tmp_path):
    """A part of an index is refused alike."""
    content = bytes(written(tmp_path, 3))
    for end in range(len(content)):
        assert not agree(content[:end])


@pytest.mark.parametrize("seed", range(4))
def test_changed_under_its_checksum(tmp_path, seed):
    """What is changed by somebody who knows the checksums means the same both ways."""
    content = written(tmp_path, 6, strings=seed % 2 == 1)
    footer = content[-FOOTER:]
    metaindex = _varint(footer)
    end = metaindex - TRAILER  # there is one block of data
    chosen, taken = random.Random(seed), 0
    for place in range(end):
        changed = bytearray(content)
        changed[place] ^= 1 << chosen.randrange(8)
        if seed > 1:
            changed[chosen.randrange(end)] = chosen.randrange(256)
        stored = mask(_native.crc32c(bytes(changed[: end + 1])))
        changed[end + 1 : metaindex] = struct.pack("<I", stored)
        taken += agree(bytes(changed))
    assert taken > end // 8


def _varint(data: bytes | bytearray) -> int:
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number
