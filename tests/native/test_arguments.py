"""Wrong arguments of native calls: an exception of Python's, and no fault in memory.

Nobody but tensorferry makes these calls. A fault would still end the process of whoever passes on a
wrong table, and code of Python that runs inside a call may change the very lists that it reads.
"""

from __future__ import annotations

import gc
import sys
from typing import ClassVar

import numpy as np
import pytest

from tensorferry import _native

COLUMN = ("a", 3, False, True, None)


class Clearing:
    """A number that empties a list or dict when it is looked at."""

    def __init__(self, value, target):
        self.value = value
        self.target = target

    def __index__(self):
        if self.target:
            self.target.clear()
            gc.collect()
        return self.value

    __int__ = __index__


def emptied(make, count=50):
    """A list of what `make(a number, its index)` gives, which is emptied at the first look."""
    target = []
    target.extend(make(lambda value: Clearing(value, target), index) for index in range(count))
    return target


def read_all(table):
    return table.read(b"\x08\x01\x10\x02\x08\x03" * 100, 0, 600)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.ExampleDecoder(emptied(lambda n, i: (f"a{i}", n(3), False, True, None))),
        lambda: _native.RowReader(
            [COLUMN],
            emptied(lambda n, i: (n(0), f"a{i}", False, (None,), int, np.dtype("i8"))),
            np.empty,
        ),
        lambda: _native.RowPlan(emptied(lambda n, i: (f"a{i}", n(3), None, False)), ()),
        lambda: _native.ExampleEncoder().prepare(
            emptied(lambda n, i: (f"a{i}", n(3), False, np.arange(3), None, 1, None, None)), 3
        ),
        lambda: _native.MessageTable(
            "m", emptied(lambda n, i: (n(i), f"a{i}", "int", 0, False, None)), tuple
        ),
        lambda: _native.MessageTable("m", [(1, "a", "int", 0, False, None)], tuple).rows(
            b"", emptied(lambda n, i: (n(0), 0))
        ),
        lambda: _native.ThriftTable(emptied(lambda n, i: (n(i), "integer", None))),
        lambda: _native.bundle_entries(b"abc", emptied(lambda n, i: n(0)), [1] * 50),
        lambda: _native.hdf5_encode(
            [],
            [f"a{i}" for i in range(50)],
            [(bytes(12), ())] * 50,
            emptied(lambda n, i: (n(2), n(3))),
            "",
        ),
    ],
    ids=["decoder", "reader", "plan", "encoder", "table", "rows", "thrift", "entries", "hdf5"],
)
def test_lists_that_are_emptied_meanwhile(call):
    """A call reads the list as it was, whatever the objects in it do to it."""
    call()


def test_dict_that_is_emptied_meanwhile():
    """Nor does it matter what happens to a dict."""
    dtypes = {}
    dtypes.update({i: (object(), Clearing(4, dtypes)) for i in range(1, 60)})

    _native.StructureReader(np.ndarray, dtypes)

    assert dtypes == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.ExampleDecoder([()]),
        lambda: _native.RowReader([COLUMN], [(0,)], np.empty),
        lambda: _native.RowPlan([("a", 3)], ()),
        lambda: _native.ExampleEncoder().prepare([("a", 3)], 1),
        lambda: _native.ExampleTeam(1).submit([(_native.ExampleDecoder([]),)]),
        lambda: _native.MessageTable("m", [(1,)], tuple),
        lambda: _native.MessageTable("m", [(1, 5, "int", 0, False, None)], tuple),
        lambda: _native.StructureReader(np.ndarray, {1: ()}),
        lambda: _native.zip_stored([(b"a", b"")], 0, 64),
        lambda: _native.hdf5_encode([("a",)], [], [], [], ""),
        lambda: _native.hdf5_encode([], ["a"], [(b"",)], [(1,)], ""),
        lambda: _native.hdf5_encode([("a", (("b",),))], [], [], [], ""),
        lambda: _native.names_are_spread(["text"]),
    ],
    ids=[
        "decoder",
        "reader",
        "plan",
        "encoder",
        "team",
        "table",
        "name",
        "structure",
        "zip",
        "group",
        "type",
        "attribute",
        "names",
    ],
)
def test_tuples_of_another_size(call):
    """Nothing is read behind the end of a tuple."""
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.are_inside(bytes(1200), bytes(12)),
        lambda: _native.last_split(bytes(7), 4),
        lambda: _native.last_split(bytes(8), 2),
        lambda: _native.compare_pairs([(b"", b"")], 0.0, 0.0),
        lambda: _native.compare_pairs([(bytes(4), bytes(8), "float32")], 0.0, 0.0),
        lambda: _native.compare_pairs([(bytes(4), bytes(4), "text")], 0.0, 0.0),
        lambda: _native.moments_of(b"", "\ud800"),
        lambda: _native.moments_of(b"", "int64\0"),
        lambda: _native.count_bins(bytes(8), "float64", -(1 << 31), 0.0, bytearray(8)),
        lambda: _native.ThriftTable([(1, "struct", None)]),
        lambda: _native.ThriftTable([(1, "structs", None)]),
        lambda: read_all(
            _native.MessageTable(
                "m", [(1, "a", "int", 0, True, None), (2, "a", "int", 0, True, None)], tuple
            )
        ),
        lambda: _native.ExampleEncoder().prepare(
            [("a", 3, True, b"", None, 1, b"", None)], (1 << 64) - 1
        ),
        lambda: _native.ExampleEncoder().prepare(
            [("a", 3, False, b"", b"", 1, None, None)], (1 << 64) - 1
        ),
        lambda: _native.zip_stored([], 0, 0),
        lambda: _native.hdf5_encode([], ["a"], [], [], ""),
        lambda: _native.arrow_strings(bytes(4), b"", np.empty(3, object), False),
        lambda: _native.arrow_strings(bytes(32), b"", np.zeros(3), True),
        lambda: _native.read_small(__file__, 1 << 30, lambda size: bytearray(size - 1)),
        lambda: _native.bundle_sound(b"", bytes(8), bytes(16), bytes(8)),
        lambda: _native.bundle_sound(b"", bytes(8), bytes(8), bytes(7)),
    ],
    ids=[
        "shape",
        "splits",
        "width",
        "pair",
        "sizes",
        "type",
        "surrogate",
        "nul",
        "bins",
        "struct",
        "structs",
        "name",
        "rows",
        "lists",
        "alignment",
        "datasets",
        "offsets",
        "objects",
        "memory",
        "columns",
        "checksums",
    ],
)
def test_values_that_do_not_fit(call):
    """Sizes that are no whole numbers, names that are none, and counts that wrap around."""
    with pytest.raises(ValueError):  # noqa: PT011
        call()


@pytest.mark.parametrize(
    "parts",
    [
        (np.zeros((1, 2), np.int64), np.ones(1), np.array([3, -4])),
        (np.zeros((0, 2), np.int64), np.ones(0), np.array([3, -4])),
        (np.zeros((1, 2), np.int64), np.ones(1), np.array([0, 4])),
        (np.zeros((2, 2), np.int64), np.ones(1), np.array([3, 4])),
        (np.zeros((1, 3), np.int64), np.ones(1), np.array([3, 4])),
        (np.zeros((1, 2), np.int32), np.ones(1), np.array([3, 4])),
        (np.zeros((1, 2)), np.ones(1), np.array([3, 4])),
        (np.zeros((1, 2), np.int64), np.ones((1, 1)), np.array([3, 4])),
        (np.zeros((1, 2), np.int64), np.ones(1, np.float32), np.array([3, 4])),
        (np.zeros((1, 4), np.int64)[:, ::2], np.ones(1), np.array([3, 4])),
        (np.zeros((1, 2), np.int64), np.ones(1), 7),
        ("a", 1, 2),
    ],
)
def test_parts_of_no_sparse_tensor(parts):
    """Parts that do not fit together, or whose memory is something else, are not encoded."""
    letters = {np.empty(0, np.int64).data.format: 9, "d": 2}

    assert _native.sparse_tensorprotos(*parts, letters) is None


def test_names_that_run_code():
    """A plan looks names up without code of theirs, which could change the row."""

    class Name(str):
        __slots__ = ()

        def __hash__(self):
            row.clear()
            return str.__hash__(self)

        def __eq__(self, other):
            row.clear()
            return str.__eq__(self, other)

    row = {"a": list(range(100)), "b": [1.5] * 100}
    plan = _native.RowPlan([(Name("a"), 3, None, False), (Name("b"), 2, None, False)], ())
    row |= {"a": list(range(100)), "b": [1.5] * 100}
    found = []

    framer = _native.Framer(found.append, 1)
    assert framer.add_row(plan, row)
    framer.flush()

    assert len(row) == 2
    assert len(found) == 1


@pytest.mark.parametrize("step", [1, 3])
def test_splits_at_any_address(step):
    """What is copied may go to any address."""
    encoder = _native.ExampleEncoder()
    encoder.prepare([("a", 3, False, np.arange(20), None, 2, None, None)], 10)
    frames = bytes(encoder.encode(0, 10))
    decoder = _native.ExampleDecoder([COLUMN])
    decoder.decode(frames, 0, 10, True)
    target = memoryview(bytearray(100))[step : step + 88]

    decoder.copy_list_splits(0, target)

    assert np.frombuffer(target, np.int64).tolist() == list(range(0, 21, 2))


class Builder:
    """What a writer of structures asks."""

    quick: ClassVar = {}

    def __init__(self, answer):
        self.answer = answer

    def tensor(self, _array, _place):
        return self.answer

    def other(self, _value, _place):
        return self.answer


@pytest.mark.parametrize("answer", [((b"abc",), 3), ("abc", 3), ([b"abc"],), 5, None, ()], ids=repr)
@pytest.mark.parametrize("value", [np.arange(3), object()], ids=["tensor", "other"])
def test_answers_of_another_kind(value, answer):
    """What a builder gives is looked at before it is taken for a list of buffers or a pair."""
    with pytest.raises(TypeError):
        _native.StructureWriter(np.ndarray, {}).encode(value, Builder(answer), 100)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no class of Python has a buffer before")
@pytest.mark.parametrize("size", [10, 10_000])
def test_buffers_that_change_their_list(size):
    """A buffer that is asked for may empty the list that it is in."""

    class Emptying:
        def __buffer__(self, flags):
            buffers.clear()
            gc.collect()
            return memoryview(bytes(size))

    buffers = [Emptying() for _ in range(50)]
    writer = _native.StructureWriter(np.ndarray, {})
    written, total = writer.encode(np.arange(3), Builder((buffers, 50 * size)), 100)

    assert buffers == []
    assert sum(memoryview(piece).nbytes for piece in written) == total


def test_array_in_itself():
    """An array of objects that is in itself is an error and no overflow of the stack."""
    array = np.empty(1, object)
    array[0] = array

    with pytest.raises(RecursionError):
        _native.json_lines([{"a": array}], np.ndarray, repr)
    array[0] = None


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_deep_structures(kind):
    """A value that is in itself, or very deep, is an error and no overflow of the stack."""
    value = None
    for _ in range(100_000):
        value = {"a": value} if kind is dict else kind([value])
    builder = type("Builder", (), {"quick": {}})()

    with pytest.raises(RecursionError, match="in a structure"):
        _native.StructureWriter(np.ndarray, {}).encode(value, builder, 1 << 30)
    while value is not None:  # taken apart here: Python itself would go down all levels
        value = value["a"] if kind is dict else value[0]
