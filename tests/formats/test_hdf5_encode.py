"""HDF5 files up to their values: the native encoder gives what is described in Python."""

from __future__ import annotations

import io
import math
import struct

import h5py
import pytest
from formats import hdf5_reference as reference
from hypothesis import example, given, strategies as st

from tensorferry import _native
from tensorferry.codecs.hdf5 import writer
from tensorferry.codecs.hdf5.writer import DATATYPES, Encoded, Refused, encode

FLOAT = DATATYPES["float32"], ()
TAGGED = DATATYPES["opaque16"], (("dtype", "bfloat16"),)
TYPES = [
    *((message, ()) for message in DATATYPES.values()),
    TAGGED,
    (DATATYPES["int8"], (("a", ""), ("länger als acht", "x" * 4000), ("b", "bfloat16"))),
]
NAMES = ["a", "b", "vars", "dense_1", "dense_10", "é", "漢字", "x" * 7, "x" * 8, "Z", "0", "..."]


def expected(groups, paths, types, shapes):
    """What the description gives for the arguments of `encode`."""
    root, datasets = reference.Group(), []
    for path, attributes in groups:
        root.enter(path).attributes = dict(attributes)
    for path, (datatype, attributes), shape in zip(paths, types, shapes, strict=True):
        head, _, name = path.rpartition("/")
        (item,) = struct.unpack_from("<I", datatype, 4)
        dataset = reference.Dataset(datatype, shape, item * math.prod(shape), dict(attributes))
        root.enter(head).members[name] = dataset
        datasets.append(dataset)
    front = reference.encode(root, datasets)
    return Encoded(front, [each.address for each in datasets], [each.size for each in datasets])


def check(groups, paths, types, shapes):
    """That both encoders agree, and that h5py finds every object."""
    found = encode(groups, paths, types, shapes, within="vars")
    assert found == expected(groups, paths, types, shapes)
    end = max((a + s for a, s in zip(found.starts, found.sizes, strict=True) if s), default=0)
    if end > 1 << 24:
        return
    with h5py.File(io.BytesIO(found.front.ljust(end, b"\0"))) as file:
        for path, (_, attributes), shape in zip(paths, types, shapes, strict=True):
            assert file[path].shape == shape
            assert dict(file[path].attrs) == dict(attributes)
        said = {path.removeprefix("/"): attributes for path, attributes in groups}
        for path, attributes in said.items():
            assert dict(file[path].attrs) == dict(attributes)


@st.composite
def trees(draw):
    """Arguments of `encode`: paths that share groups, in any order."""
    names = st.sampled_from(NAMES)
    heads = st.lists(names, max_size=4).map(lambda parts: "/".join([*parts, "vars"]))
    texts = st.sampled_from(["", "é", "bfloat16", "x" * 8, "y" * 30_000])
    groups = draw(st.dictionaries(heads, texts, max_size=6))
    # Names of datasets are none of groups, so that no path has both.
    keys = st.integers(0, 12).map(lambda number: f"={number}é"[: 1 + number])
    paths = draw(st.lists(st.builds("{}/={}".format, heads, keys), max_size=40, unique=True))
    types = [draw(st.sampled_from(TYPES)) for _ in paths]
    sizes = st.sampled_from([0, 1, 2, 3, 1000, 5000])
    shapes = [tuple(draw(st.lists(sizes, max_size=3))) for _ in paths]
    return [(path, (("name", text),)) for path, text in groups.items()], paths, types, shapes


@given(trees())
@example(([], [], [], []))
@example(([("/vars", (("name", "a"),))], ["/vars/0", "vars/1"], [FLOAT, TAGGED], [(), (0, 5)]))
@example(([], ["vars/0"], [FLOAT], [(1,) * 32]))
def test_generated_trees(tree):
    """Any groups, types, shapes and attributes give the bytes and addresses of the description."""
    check(*tree)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 255, 256, 257, 8191, 8192, 8193])
def test_groups_of_any_size(count):
    """One table, one node, and trees of several levels, whatever the order of the names."""
    numbers = [number * 7919 % 10_007 for number in range(count)]
    paths = [f"vars/{number}" for number in numbers]
    paths += [f"layers/dense_{number}/vars/0" for number in numbers[:300]]
    check([], paths, [FLOAT] * len(paths), [(number % 5,) for number in range(len(paths))])


def test_groups_of_groups():
    """A tree of eighty levels, entered from every level of it."""
    groups = ["/".join(["g"] * level + ["vars"]) for level in range(80)]
    paths = [f"{group}/{key}" for key in "ba" for group in (*groups[::2], *groups[1::2])]
    check([], paths, [FLOAT] * len(paths), [(2, 3)] * len(paths))


@pytest.mark.parametrize("length", [0, 1, 7, 8, 5_000, 65_519, 65_520, 65_521, 200_000])
def test_texts(length):
    """Texts of any length, in one heap or in several; the same text is kept once."""
    layers = {f"g{number}/vars": f"{number % 30}é" + "x" * length for number in range(40)}
    groups = [(path, (("name", text),)) for path, text in layers.items()]
    check(groups, [f"{path}/0" for path in layers], [TAGGED] * 40, [(3,)] * 40)


def test_a_group_described_twice():
    """What is said last of a group counts."""
    groups = [("a/vars", (("name", "first"),)), ("/a/vars", (("name", "second"),))]
    check(groups, [], [], [])


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "0", "/0", "vars", "vars/", "//vars/0", "a//vars/0", "a/0", "vars/a/0"),
        *("./vars/0", "../vars/0", "a/../vars/0", "vars/.", "vars/.."),
        *("a\0/vars/0", "vars/\0", "\ud800/vars/0"),
    ],
)
def test_paths_that_are_none(path):
    """A path has a name in each place, and leads through the groups that datasets are in."""
    paths = ["vars/first", path]
    refused = encode([("a/vars", ())], paths, [FLOAT] * 2, [()] * 2, within="vars")
    assert refused == Refused("path", 2)


@pytest.mark.parametrize("group", ["", "/", "a//vars", "..", "a/./vars", "a\0", "\ud800"])
def test_groups_that_are_none(group):
    """So have the paths of groups; and texts are UTF-8."""
    assert encode([("b", ()), (group, ())], [], [], [], within="vars") == Refused("path", 1)
    assert encode([("b", (("c", "\ud800"),))], [], [], [], within="vars") == Refused("path", 0)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["vars/0", "vars/1", "/vars/0"], "twice"),
        (["vars/1", "vars/0", "vars/0"], "twice"),
        (["vars/0", "vars/1", "vars/0/vars/1"], "mixed"),
        (["vars/1", "vars/0", "vars/0/vars/1"], "mixed"),
        (["vars/1", "vars/0/vars/1", "vars/0"], "mixed"),
        (["vars/0/vars/1", "vars/1", "vars/0"], "mixed"),
    ],
)
def test_paths_that_meet(paths, reason):
    """An object has one name, and a name one object."""
    assert encode([], paths, [FLOAT] * 3, [()] * 3, within="vars") == Refused(reason, 2)


def test_dimensions():
    """As many as the HDF5 library knows, and no more."""
    shapes = [(1,) * 32, (1,) * 33]
    refused = encode([], ["vars/0", "vars/1"], [FLOAT] * 2, shapes, within="vars")
    assert refused == Refused("rank", 1)
    assert writer.MAX_RANK == 32


def test_sizes_beyond_files():
    """What no file can have is an error, and no file of another size."""
    for shapes in ([(1 << 62,)], [(1 << 40, 1 << 40)], [(1 << 61,)] * 2, [(-1,)], [(1 << 64,)]):
        with pytest.raises((ValueError, OverflowError)):
            encode(
                [],
                ["vars/0", "vars/1"][: len(shapes)],
                [FLOAT] * len(shapes),
                shapes,
                within="vars",
            )
    assert encode([], ["vars/0"], [FLOAT], [(1 << 40, 0, 1 << 40)], within="vars").sizes == [0]
    for name in ("x" * 65_535, "x" * 65_500):
        with pytest.raises(ValueError, match="no room"):
            encode([("vars", ((name, ""),))], [], [], [], within="vars")


class Number:
    """A number that empties lists when it is asked."""

    def __init__(self, *lists):
        self.lists = lists

    def __index__(self):
        for each in self.lists:
            each.clear()
        return 3


def test_arguments():
    """Wrong ones are errors of Python's, and lists that change meanwhile are no danger."""
    right = [[("a", ())], ["vars/0"], [FLOAT], [(2,)], "vars"]
    wrong = [
        [[("a",)], [("a", [])], [("a", ((1, "b"),))], [(1, ())], ["a"]],
        [[1], [b"vars/0"], []],
        [[], [b""], [(b"", ())], [("", ())], [(bytearray(20), ())], [(FLOAT[0], None)]],
        [[], [[2]], [("2",)], [None]],
        [None, b"vars"],
    ]
    for place, others in enumerate(wrong):
        for other in others:
            with pytest.raises((TypeError, ValueError)):
                _native.hdf5_encode(*right[:place], other, *right[place + 1 :])
    lists = ["vars/0", "vars/1"], [FLOAT, FLOAT], [(2,), (3,)]
    lists[2][0] = (Number(*lists),)
    assert _native.hdf5_encode([], *lists, "vars")[2] == [12, 12]
    assert lists == ([], [], [])
