"""Names that the hash of the C++ library gives one number: a file of them takes no longer to read.

The hash is public and has no secret, so anybody can make a million such names. In a table by that
hash, each name is compared with all before it: a file of a few megabytes would take minutes.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import struct
import time
import zipfile
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from tables import element, parquet_of

import tensorferry as ferry
from tensorferry import _native
from tensorferry.operations.list import collapse, grow

# Of the library of GCC, for 64 bits.
MASK = (1 << 64) - 1
FACTOR = 0xC6A4A7935BD1E995
INVERSE = pow(FACTOR, -1, 1 << 64)
LETTERS = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+#$%&'()*.;<=>?@[]^`{|}~!"
)
PAIRS = 15


def mix(word):
    word = word * FACTOR & MASK
    return (word ^ word >> 47) * FACTOR & MASK


def unmix(word):
    word = word * INVERSE & MASK
    return (word ^ word >> 47) * INVERSE & MASK


def step(state, word):
    return (state ^ mix(word)) * FACTOR & MASK


def colliding(before=b"", behind=b""):
    """Texts of one length that have one hash: 32768, which start and end as given.

    At each of fifteen places there is one of two words of 16 bytes, and both lead from one state of
    the hash to the same next one.
    """
    assert len(before) % 8 == 0
    random.seed(1)
    state = 0xC70F6907 ^ (len(before) + 16 * PAIRS + len(behind)) * FACTOR & MASK
    for (word,) in struct.iter_unpack("<Q", before):
        state = step(state, word)
    choices = []
    letters = sorted(LETTERS)
    while len(choices) < PAIRS:
        first = bytes(random.choices(letters, k=16))
        one, two = struct.unpack("<QQ", first)
        target = step(step(state, one), two)
        while True:
            start = bytes(random.choices(letters, k=8))
            reached = step(state, int.from_bytes(start, "little"))
            end = unmix(reached ^ target * INVERSE & MASK).to_bytes(8, "little")
            if LETTERS.issuperset(end):
                break
        choices.append((first, start + end))
        state = target
    return [before + b"".join(parts) + behind for parts in itertools.product(*choices)]


@contextmanager
def quickly(seconds=3):
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def framed(header):
    data = json.dumps(header).encode()
    return struct.pack("<Q", len(data)) + data


def test_safetensors():
    """Names of tensors, and keys of the metadata."""
    names = [name.decode() for name in colliding()]
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    tensors, metadata = (
        framed(dict.fromkeys(names, empty)),
        framed({"__metadata__": dict.fromkeys(names, "")}),
    )

    with quickly():
        assert len(ferry.loads(tensors, format="safetensors")) == len(names)
        assert ferry.loads(metadata, format="safetensors") == {}


def test_shapes():
    """Shapes of tensors, by which they are grouped: Python's hash of numbers has no secret."""
    factors, start = (11400714785074694791, 14029467366897019727), 2870177450012600261
    inverse = pow(factors[1], -1, 1 << 64)

    def following(state, number):
        state = state + number * factors[1] & MASK
        return (state << 31 | state >> 33) * factors[0] & MASK

    first, shapes = following(start, 0), []
    for number in itertools.count(1):
        last = (1 - following(first, number)) * inverse & MASK
        if last < (1 << 61) - 1:
            shapes.append((0, number, last))
        if len(shapes) == 20_000:
            break
    assert len(set(map(hash, shapes))) == 1
    header = {
        f"t{number}": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        for number, shape in enumerate(shapes)
    }

    with quickly(), ferry.open(io.BytesIO(framed(header)), format="safetensors") as opened:
        infos = opened.infos().values()
        assert len(collapse(infos)) == len(grow(infos)) == len(shapes)


def test_npz():
    """Names of the members of an archive."""
    names = [name.decode() for name in colliding(behind=b".npy")]
    array = io.BytesIO()
    np.save(array, np.zeros(0))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, array.getvalue())
    data = file.getvalue()
    size, start = struct.unpack_from("<II", data, len(data) - 10)

    with quickly():
        found = _native.npz_arrays(data, start, start + size, len(names))
    assert found is None or len(found) == len(names)


def swapped(data, names):
    """A file of names that have one hash, made of one that was easier to write."""
    swaps = {b"%0240d" % number: name for number, name in enumerate(names)}
    return re.sub(rb"0{200}[0-9]{40}", lambda match: swaps[match[0]], data)


def columns(names):
    """Columns with as long names, which a library of Arrow writes quickly."""
    assert {len(name) for name in names} == {240}
    return [f"{number:0240}" for number in range(len(names))]


@pytest.mark.parametrize("value", [1, None])
def test_arrow(value):
    """Names of columns, in a file that is read here, and in one that PyArrow reads."""
    names = colliding()
    table = pa.table(dict.fromkeys(columns(names), pa.array([value], pa.int8())))
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    data = swapped(file.getvalue(), names)

    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.loads(data, format="arrow")


def test_arrow_metadata():
    """Keys of the metadata, which are a dict of Python's in the end."""
    names = [name.decode() for name in colliding()]
    table = pa.table({"x": [1]}).replace_schema_metadata(dict.fromkeys(names, ""))
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)

    with quickly():
        found = _native.arrow_columns(file.getvalue())
    assert found is not None
    assert len(found[0]) == len(names)


def test_parquet():
    """Names of columns, of which a Parquet file may have no row."""
    names = colliding()
    data = parquet_of([element(b"schema", len(names)), *map(element, names)])

    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.loads(data, format="parquet")


def test_parquet_ways():
    """Names that have one hash only together with that of the group which they are in."""
    names = colliding(before=b"struct_.")
    assert _native.names_are_spread([name[8:] for name in names])
    leaves = [element(name[8:]) for name in names]
    root, group = element(b"schema", 1), element(b"struct_", len(names))

    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.loads(parquet_of([root, group, *leaves]), format="parquet")


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_csv(quote):
    """Names in the first line."""
    line = b",".join(quote + name + quote for name in colliding())

    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.loads(line + b"\n", format="csv")


@pytest.mark.parametrize("escape", [False, True])
def test_json_lines(escape):
    """Names of what is in a line, which may be written in several ways."""
    names = colliding()
    text = json.dumps({name.decode(): 1 for name in names})
    if escape:
        text = text.replace("a", "\\u0061")

    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.loads(text.encode() + b"\n", format="jsonlines")


def test_features_as_a_table():
    """Names of features, which become those of columns."""
    features = {name.decode(): np.zeros(1, np.int64) for name in colliding()}
    with quickly(), pytest.raises(ferry.FormatError, match="one place of a hash table"):
        ferry.dumps(features, format="arrow")


def test_examples():
    """Names of features."""
    names = [name[1:] for name in colliding(before=b"ffffffff")]

    def field(number, data):
        size, head = len(data), bytes([number << 3 | 2])
        while size > 0x7F:
            head, size = head + bytes([size & 0x7F | 0x80]), size >> 7
        return head + bytes([size]) + data

    value = field(2, field(3, b"\x0a\x01\x01"))
    record = field(1, b"".join(field(1, field(1, name) + value) for name in names))
    survey = _native.ExampleSurvey()
    columns = [(name.decode(), 3, False, True, None) for name in names]

    with quickly():
        survey.add_record(record)
        _native.ExampleDecoder(columns).decode_records([record])
    assert len(survey.features()) == len(names)


def test_checkpoint():
    """Heads of entries: dtype and shape."""
    count, size = 100_000, 12
    state, target = 0xC70F6907 ^ (4 + size) * FACTOR & MASK, 1
    heads = []
    for number in range(count):
        start = bytes((8, 1, 0x12, size)) + number.to_bytes(4, "little")
        reached = step(state, int.from_bytes(start, "little"))
        heads.append(start + unmix(reached ^ target).to_bytes(8, "little"))
    ends = [len(head) * (number + 1) for number, head in enumerate(heads)]

    with quickly():
        found, _ = _native.bundle_entries(b"".join(heads), [0, *ends[:-1]], ends)
    assert found == heads
