"""SavedModels that lie: each gives a typed error that says where, or is reported; none is run."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from savedmodels import CONST, SAMPLE, encode, field, model_of, read, refused, varint

import tensorferry as ferry
from tensorferry import errors
from tensorferry.formats.savedmodel import model as savedmodel


def test_sample(tmp_path):
    """The sample itself is sound, and its function calls itself."""
    model = read(encode(SAMPLE), tmp_path)
    graph = model.find(["serve"])

    assert graph.recursive_functions == ("f",)
    assert graph.constants["c"].read().tolist() == [1, 2]
    assert list(graph.variables) == ["v"]
    assert [asset.problem for asset in model.assets] == ["there is no such file"]


def test_cut_at_every_offset(tmp_path):
    """Cut anywhere, a model is refused, or is a smaller one."""
    data = encode(SAMPLE)
    for end in range(len(data)):
        with pytest.raises(errors.FormatError) as caught:
            read(data[:end], tmp_path)
        assert caught.value.path
        assert caught.value.offset is None or 0 <= caught.value.offset <= end


def test_every_bit_flipped(tmp_path):
    """Any flipped bit gives another model or a typed error."""
    data = encode(SAMPLE)
    found = 0
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        try:
            read(bytes(flipped), tmp_path)
        except (errors.FormatError, errors.UnsupportedError) as error:
            assert error.path
            found += 1
    assert found > len(data) * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        b"<!DOCTYPE html><html></html>",
        b"\x08\x01",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
        b"\xff" * 100,
    ],
    ids=["empty", "png", "html", "nothing", "lfs", "ones"],
)
@pytest.mark.parametrize("suffix", ["pb", "pbtxt", "cpb"])
def test_other_files(tmp_path, data, suffix):
    """What is something else is refused, by each of the readers."""
    with pytest.raises(errors.FormatError) as caught:
        read(data, tmp_path, f"saved_model.{suffix}")
    assert caught.value.path.endswith(suffix)


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ('node { name: "c" op: "Const" }', "without a tensor as its value"),
        (CONST.replace('"value" value', '"valwe" value'), "without a tensor as its value"),
        (
            'node { name: "c" op: "Const" attr { key: "value" value { i: 3 } } }',
            "without a tensor as its value",
        ),
        (CONST.replace("size: 2", "size: -1"), "dimension 0 is -1"),
        (CONST.replace("size: 2", "size: -9"), "dimension 0 is -9"),
        (CONST.replace("dim { size: 2 }", "unknown_rank: true"), "rank"),
        (CONST.replace('"dtype" value', '"value" value'), "'value' of the node 'c' comes twice"),
        (CONST + CONST, "the node 'c' comes twice"),
        ('node { name: "n" op: "X" attr { key: "a" value { i: 1 b: true } } }', "second value"),
        ('node { name: "n" }', "without an op"),
        ('node { op: "X" }', "without a name"),
        ('node { name: "a:b" op: "X" }', "with a colon"),
        (
            'node { name: "n" op: "X" attr { key: "s" value { shape { dim { size: -2 } } } } }',
            "dimension 0 is -2",
        ),
        (
            'library { function { signature { name: "f" } } function { signature { name: "f" } } }',
            "the function 'f' comes twice",
        ),
        ("library { function { } }", "without a signature"),
    ],
)
def test_nodes(tmp_path, graph, problem):
    """Nodes that lack something, or have it twice, or of a shape that there is not."""
    assert refused(model_of(graph), tmp_path, errors.FormatError, problem).offset


def test_texts_of_nodes(tmp_path):
    """Names, ops, keys and functions are UTF-8; nothing is cut at a byte that is half of one."""
    for bad in (b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"):
        attribute = field(5, field(1, b"k") + field(2, field(10, field(1, bad))))
        for node in (
            field(1, bad) + field(2, b"X"),
            field(1, b"n") + field(2, bad),
            field(1, b"n") + field(2, b"X") + field(5, field(1, bad)),
            field(1, b"n") + field(2, b"X") + attribute,
        ):
            refused(field(2, field(2, field(1, node))), tmp_path, errors.FormatError, "not UTF-8")
    name = "é" * 100
    twice = field(1, field(1, name.encode()) + field(2, "漢字".encode()))
    error = refused(field(2, field(2, twice * 2)), tmp_path, errors.FormatError, "comes twice")
    assert f"'{name[:60]}'" in error.message


def test_parts_of_nodes(tmp_path):
    """What a node or an attribute has once comes once, as bytes: protobuf would pick, or skip."""
    whole = field(1, b"n") + field(2, b"X")
    for node, problem in (
        (whole + field(1, b"m"), "field 1 of a node comes twice"),
        (field(1, b"n") + field(2, b"WriteFile") + field(2, b"X"), "field 2 of a node comes twice"),
        (whole + field(5, b"\x08\x01" + field(2, b"\x18\x01")), "field 1 is a varint"),
        (whole + field(5, field(1, b"k") + b"\x10\x01"), "field 2 is a varint"),
        (whole + field(5, field(1, b"k") + field(1, b"k")), "field 1 of an attribute comes twice"),
    ):
        refused(field(2, field(2, field(1, node))), tmp_path, errors.FormatError, problem)


MANY_FUNCTIONS = r"""
import resource
import savedmodels as models
from tensorferry import _native

functions = models.field(1, b"\x4a\x00" * 4_000_000)  # a list, each of an empty message
attribute = models.field(5, models.field(1, b"k") + models.field(2, functions))
graph = models.field(1, models.field(1, b"n") + models.field(2, b"X") + attribute)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
looked_at = {"variables": (), "watched": (), "attributes": ()}
_native.graph_nodes(graph, 0, len(graph), field=1, depth=64, **looked_at)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / len(graph))
"""


def test_many_functions_of_an_attribute():
    """Functions of two bytes each take a small constant times the memory of the file."""
    tests = str(Path(__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-c", MANY_FUNCTIONS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, tests])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(found.stdout) < 20


def test_many_attributes(tmp_path):
    """A node of very many attributes is read as fast as it is long; one key twice is found."""
    entries = [field(5, field(1, b"k%d" % n) + field(2, b"\x18\x01")) for n in range(50_000)]
    node = field(1, b"n") + field(2, b"X") + b"".join(entries)

    assert read(field(2, field(2, field(1, node))), tmp_path).find().ops == {"X": 1}
    refused(
        field(2, field(2, field(1, node + entries[7]))),
        tmp_path,
        errors.FormatError,
        "the attribute 'k7' of the node 'n' comes twice",
    )


def test_constant_of_a_strange_dtype(tmp_path):
    """A constant whose dtype nobody knows is there, and gives a typed error when it is read."""
    data = model_of(CONST.replace("dtype: DT_FLOAT tensor", "dtype: 99 tensor"))

    error = refused(data, tmp_path, errors.FormatError, "dtype number 99")
    assert error.tensor == "c"


def test_constant_beyond_the_budget(tmp_path):
    """One number may fill a shape, but not one beyond limits.memory."""
    data = model_of(CONST.replace("size: 2", "size: 1099511627776"))

    refused(data, tmp_path, errors.LimitError, r"limits\.memory")


def function(name: str, attributes: str, op: str = "X") -> str:
    """A function of one node."""
    return f"""library {{ function {{ signature {{ name: "{name}" }}
        node_def {{ name: "n" op: "{op}" {attributes} }} }} }}"""


def test_functions_that_call_themselves(tmp_path):
    """As an op, in an attribute, in a list, in an attribute of an attribute, and over others."""
    inner = 'func { name: "g" attr { key: "b" value { func { name: "f" } } } }'
    for attributes, op in (
        ("", "f"),
        ('attr { key: "b" value { func { name: "f" } } }', "While"),
        ('attr { key: "b" value { list { func { name: "o" } func { name: "f" } } } }', "Case"),
        (f'attr {{ key: "b" value {{ {inner} }} }}', "While"),
    ):
        graph = read(model_of(function("f", attributes, op)), tmp_path).find()
        assert graph.recursive_functions == ("f",)
        (note,) = (note for note in ferry.inspect(tmp_path).notes if "call themselves" in note)
        assert note.endswith(": f")

    bodies = "".join(
        f'function {{ signature {{ name: "{name}" }} node_def {{ name: "n" op: "{called}" }} }}'
        for name, called in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "X"))
    )
    graph = read(model_of(f"library {{ {bodies} }}"), tmp_path).find()
    assert set(graph.recursive_functions) == {"a", "b", "c"}
    assert graph.functions["d"].calls == ("a",)
    assert graph.ops == {"X": 1}


def test_long_chain_of_functions(tmp_path):
    """20,000 functions that each call the next are no RecursionError."""
    bodies = b"".join(
        field(
            1, field(1, field(1, b"f%d" % n)) + field(3, b"\x0a\x01n" + field(2, b"f%d" % (n + 1)))
        )
        for n in range(20_000)
    )
    graph = read(field(2, field(2, field(2, bodies))), tmp_path).find()

    assert len(graph.functions) == 20_000
    assert graph.recursive_functions == ()


def test_deep_attributes(tmp_path):
    """Functions in attributes of functions, 10,000 deep, are a depth error."""
    value = b""
    for _ in range(10_000):
        value = field(10, b"\x0a\x01f" + field(2, b"\x0a\x01a" + field(2, value)))
    node = b"\x0a\x01n\x12\x01X" + field(5, b"\x0a\x01a" + field(2, value))

    refused(field(2, field(2, field(1, node))), tmp_path, errors.LimitError, "nest deeper")


def test_deep_structures(tmp_path):
    """Lists in lists, 10,000 deep, as the arguments of a function."""
    value = b"\x0a\x00"
    for _ in range(10_000):
        value = field(51, field(1, value))
    concrete = field(2, b"\x0a\x01f" + field(2, field(3, value)))

    refused(
        field(2, field(7, field(1, b"") + concrete)),
        tmp_path,
        errors.LimitError,
        "inside each other",
    )


def test_long_ways_in_structures(tmp_path):
    """A key of a megabyte before a thousand tensors."""
    spec = field(33, b"\x18\x01")
    inner = field(51, field(1, spec) * 1000)
    value = field(53, field(1, field(1, b"k" * (1 << 20)) + field(2, inner)))
    concrete = field(2, b"\x0a\x01f" + field(2, field(3, value)))
    data = field(2, field(7, field(1, b"") + concrete))

    refused(data, tmp_path, errors.LimitError, "far longer")


def test_long_names_of_functions(tmp_path):
    """A function's name of a megabyte is not there for each of its thousand constants."""
    name = b"f" * (1 << 20)
    constants = b"".join(
        field(3, field(1, b"%d" % n) + encode(CONST, "GraphDef")[2:].replace(b"\x0a\x01c", b"", 1))
        for n in range(1000)
    )
    (tmp_path / "saved_model.pb").write_bytes(
        field(2, field(2, field(2, field(1, field(1, field(1, name)) + constants))))
    )
    tracemalloc.start()
    graph = savedmodel.read(tmp_path).find()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(graph.constants) == 1000
    assert peak < 16 << 20


def test_deep_text(tmp_path):
    """Messages in a text, 10,000 deep."""
    data = b"meta_graphs {" * 10_000

    refused(data, tmp_path, errors.LimitError, "nest deeper", "saved_model.pbtxt")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ('nodes { children { node_id: 1 local_name: "a" } }', "object 1, there are 1"),
        ('nodes { children { node_id: -1 local_name: "a" } }', "object -1, there are 1"),
        ("nodes { slot_variables { slot_variable_node_id: 7 } }", "object 7, there are 1"),
        ('nodes { variable { name: "v" } constant { operation: "c" } }', "variable and constant"),
        ("nodes { variable { dtype: 77 } }", "dtype number 77"),
        ("nodes { variable { shape { dim { size: -3 } } } }", "dimension 0 is -3"),
    ],
)
def test_objects(tmp_path, nodes, problem):
    """Objects that lead nowhere, are two things, or have no such dtype or shape."""
    data = encode(f"meta_graphs {{ object_graph_def {{ {nodes} }} }}")

    assert refused(data, tmp_path, errors.FormatError, problem).offset


def test_objects_in_a_circle(tmp_path):
    """Objects that lead to each other have a way each, the shortest."""
    nodes = """
    nodes { children { node_id: 1 local_name: "a" } }
    nodes { children { node_id: 0 local_name: "up" } children { node_id: 1 local_name: "me" }
            children { node_id: 2 local_name: "v" } }
    nodes { variable { name: "v" } children { node_id: 0 local_name: "root" } }"""
    graph = read(encode(f"meta_graphs {{ object_graph_def {{ {nodes} }} }}"), tmp_path).find()

    assert list(graph.variables) == ["a/v"]


def test_long_ways_to_objects(tmp_path):
    """Variables behind each other, whose ways together would be far longer than the file."""
    count = 5_000
    nodes = b"".join(
        field(1, field(7, b"") + field(1, b"\x08" + varint(n + 1) + b"\x12\x01a"))
        for n in range(count)
    )
    data = field(2, field(7, nodes + field(1, field(7, b""))))

    refused(data, tmp_path, errors.LimitError, "far longer")


def test_text_of_the_wrong_kind(tmp_path):
    """Values that a field cannot have."""
    for text, problem in (
        ('saved_model_schema_version: "a"', "expected int"),
        ("saved_model_schema_version: 1e9", "expected int"),
        ("saved_model_schema_version: 99999999999999999999", "expected int"),
        ("meta_graphs: 3", "expected MetaGraphDef"),
        ("meta_graphs { meta_info_def { tags { } } }", "expected text"),
        ("meta_graphs { object_graph_def { nodes { variable { dtype: DT_X } } } }", "DT_X"),
    ):
        refused(text.encode(), tmp_path, errors.FormatError, problem, "saved_model.pbtxt")
