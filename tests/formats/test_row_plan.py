"""Rows, written one by one: the native way gives the bytes and the errors of the other one."""

from __future__ import annotations

import enum
import io
import math
import warnings
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry import _native
from tensorferry.errors import FerryError
from tensorferry.formats.tfrecord import writer as writing
from tensorferry.formats.tfrecord.encoder import ExampleWriter
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.rows.schema import Schema, as_schema
from tensorferry.storage.place import Target


class Color(enum.IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()


LARGEST = float(np.finfo(np.float32).max)
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i8", ">f4", "c8")
SIGNALLING = np.array([0x7F800001, 0xFFC00002], np.uint32).view(np.float32)
PLAIN: list[Any] = [
    *(0, 1, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**400, True, False),
    *(0.5, -0.0, math.inf, math.nan, 1e-300, LARGEST, LARGEST + 2.0**102, LARGEST + 2.0**104),
    *("", "text", "zwölf", "\ud800", b"", b"\xff\x00", None),
]
LISTS: list[Any] = [
    *([], (), [1, 2, 3], (4,), [1, True], [2**63], [1.5, 2], (2**60 + 1, 0.5), [2**70, 0.5]),
    *([2**60 + 1, 2**24 + 1], [1, None], [1, "a"], ["a", b"b"], ["\ud800"], [[1, 2], [3, 4]]),
    *([[1], [2, 3]], [np.float32(1), 2.0], [np.int64(1), 2], [1e300], [Color.RED], range(3)),
]
ARRAYS: list[Any] = [
    *(np.arange(4).astype(dtype) for dtype in DTYPES),
    *(np.ones((), dtype) for dtype in DTYPES[:11]),
    *(np.array([1, 0, 1, 1]).astype(dtype)[0] for dtype in DTYPES[:12]),
    *(np.arange(6)[::2], np.arange(6)[::-1], np.arange(6, dtype="f4")[::-2], np.arange(4)[:0]),
    *(np.ones((2, 2), "f4"), np.ones((2, 2), "f4").T, np.ones((2, 3), "i8").T, np.ones((2, 0))),
    *(np.array([2, 0], "u1").view(bool), SIGNALLING, np.array([1e300]), np.array([2**63], "u8")),
    *(np.array([b"a", "b"], object), np.array(["a"]), np.array([b"a"]), np.str_("s")),
    *(np.arange(2, dtype=ml_dtypes.bfloat16), np.datetime64("2020-01-01"), np.zeros(2, "i4,f4")),
    np.frombuffer(b"x" + np.arange(3).tobytes(), "u1")[1:].view("i8"),
    np.ma.array([1, 2], mask=[0, 1]),
]
ODD = [Color.RED, object(), ferry.RaggedTensor.from_rows([[1], []]), {"nested": 1}, bytearray(b"a")]
VALUES = st.one_of(*(st.sampled_from(part) for part in (PLAIN, LISTS, ARRAYS, PLAIN + LISTS + ODD)))
NAMES = st.sampled_from(["a", "b", "c", "z", "ä", Name("a"), "\ud800", 7])
ROWS = st.dictionaries(NAMES, VALUES, max_size=4) | st.dictionaries(
    st.sampled_from("abc"), st.sampled_from([1, 2.5, "x", [1, 2], None]), min_size=1
)
SCHEMAS: list[Any] = [
    None,
    {"a": "int64", "b": "float32", "c": "string"},
    {"a": ("float32", (2, 2)), "b": ("int64", (None,)), "z": ("int64", (None, 2))},
    {"a": ("float32", ()), "b": ("string", (2,)), "c": ("int64", (0,))},
    {"a": ("float64", (None,)), "b": "int64"},
]


def lacking(schema: Any, names: str) -> Any:
    """A schema of which rows may lack some features."""
    if schema is None:
        return None
    return Schema(
        tuple(
            replace(feature, optional=feature.name in names)
            for feature in as_schema(schema).features
        )
    )


class Reference:
    """The other way: row by row in Python, all encoded together."""

    def __init__(self, schema: Any) -> None:
        self._examples = ExampleWriter(schema)

    def write(self, row: Any) -> None:
        self._examples.add({name: writing._accept(value) for name, value in row.items()})

    def close(self) -> bytes:
        return self._examples.flush()


def outcome(write: Any, close: Any, rows: list[Any]) -> list[str]:
    """What became of each row, and of closing."""
    said = []
    for step in (*((write, row) for row in rows), (close,)):
        try:
            step[0](*step[1:])
            said.append("")
        except (FerryError, TypeError, ValueError, OverflowError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def compare(rows: list[Any], schema: Any) -> None:
    reference, memory = Reference(schema), io.BytesIO()
    data = b""

    def close() -> None:
        nonlocal data
        data = reference.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(reference.write, close, rows)
        out = RecordWriter(Target("<memory>", into=memory), schema=schema)
        found = outcome(out.write, out.close, rows)

    assert found == expected
    if not expected[-1]:
        assert same_records(memory.getvalue(), data)


def same_records(one: bytes, other: bytes) -> bool:
    """Whether records are the same; an Example without features has two forms."""
    first, second = (_native.tfrecord_read(part, 0, 1 << 40, True)[0] for part in (one, other))
    return [part or b"\n\0" for part in first] == [part or b"\n\0" for part in second]


@given(st.lists(ROWS, max_size=8), st.sampled_from(SCHEMAS), st.sampled_from(["", "ab", "abcz"]))
@settings(max_examples=400, deadline=None)
def test_same_bytes_and_errors(rows, schema, names):
    """Whatever rows hold, the bytes and the errors are those of the rows encoded in Python."""
    compare(rows, lacking(schema, names))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_value_behind_every_kind(schema):
    """Each value is taken or refused as in Python, whatever the rows before were."""
    for first in (1, 0.5, "text", [0.5, 1.5], np.ones((2, 2), "f4"), None):
        for value in (*PLAIN, *LISTS, *ARRAYS, *ODD):
            rows = [{"a": first, "b": 1}, {"a": first, "b": 2}, {"a": value, "b": 3}, {"b": 4}]
            compare(rows, lacking(schema, "abcz"))


@pytest.mark.filterwarnings("ignore:.* no list of an Example holds")
def test_rows_of_any_kind_keep_their_order(tmp_path):
    """Rows that are encoded natively and others, and records of bytes, stay in their order."""
    framed = ExampleWriter().encode_rows([{"id": -1}])
    record = _native.tfrecord_read(framed, 0, 1, True)[0][0]
    for shards in (None, 3):
        path = f"{tmp_path}/{shards}.tfrecord"
        with ferry.writer(path, shards=shards, durable=False) as out:
            for number in range(3000):
                odd = number % 700 > 600 or number % 97 == 0
                value = np.float64(number) if odd else number
                out.write({"id": number, f"x{number // 1000}{odd}": value})
                if number % 311 == 0:
                    out.write(record)
        found = ferry.Records(f"{path}*", columns=["id"])
        expected: list[int] = []
        for number in range(3000):
            expected += [number, -1] if number % 311 == 0 else [number]
        step = shards or 1
        dealt = [number for shard in range(step) for number in expected[shard::step]]

        assert [row["id"] for row in found] == dealt
        assert out.count == len(expected)


def test_native_after_the_first_row():
    """The rows behind the first take the native way, and so do those after rows that did not."""
    memory = io.BytesIO()
    out = RecordWriter(Target("<memory>", into=memory))
    taken = []
    for number in range(4000):
        value = [number] if number in (1000, 1500, 3000) else number
        name = "b" if number in (1000, 3000) else "a"
        out.write({name: value, "c": "text"})
        taken.append(out._direct)
    out.close()

    assert sum(taken) > 3990


@pytest.mark.filterwarnings("ignore:.* no list of an Example holds")
def test_rows_that_are_never_native_are_encoded_together():
    """Rows that the native way refuses are gathered, so that they are not slower than before."""
    memory = io.BytesIO()
    out = RecordWriter(Target("<memory>", into=memory))
    for number in range(3000):
        out.write({"a": np.float64(number)})

    assert out._next_detour >= 2048
    out.close()
