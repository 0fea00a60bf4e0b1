"""Object graphs of SavedModels: the native walk and the reader in Python agree."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from savedmodels import GOOD, encode, field, named, needs_corpus

from tensorferry import _native, errors
from tensorferry.codecs.protobuf import Span
from tensorferry.formats.checkpoint import graph as checkpoint_graph
from tensorferry.formats.checkpoint.outline import read as read_outline
from tensorferry.formats.savedmodel import model as savedmodel, objects
from tensorferry.formats.savedmodel.messages import Reader

# A variable with a slot, one behind a list of references, functions, and an object of no kind.
OBJECTS = """
meta_graphs { object_graph_def {
  nodes { children { node_id: 1 local_name: "v" } children { node_id: 2 local_name: "f" }
          children { node_id: 3 local_name: "opt" } children { node_id: 6 local_name: "layer" }
          children { node_id: 5 local_name: "_trainable_variables" }
          children { node_id: 8 local_name: "g" } }
  nodes { variable { dtype: DT_FLOAT shape { dim { size: 2 } } trainable: true name: "é" } }
  nodes { function { concrete_functions: "f" } }
  nodes { slot_variables { original_variable_node_id: 1 slot_name: "m" slot_variable_node_id: 4 } }
  nodes { variable { dtype: DT_FLOAT shape { dim { size: 2 } } name: "m" } }
  nodes { children { node_id: 7 local_name: "0" } }
  nodes { children { node_id: 7 local_name: "w" } user_object { identifier: "u" } }
  nodes { variable { dtype: DT_INT64 name: "w" } }
  nodes { bare_concrete_function { concrete_function_name: "g" } }
} }"""


def reference(number, name):
    """A child of an object."""
    return field(1, b"\x08" + bytes([number]) + field(2, name))


def attribute(key):
    """The tensor of an object."""
    return field(2, field(1, b"VARIABLE_VALUE") + field(2, b"full") + field(3, key))


SLOT = field(3, b"\x08\x01" + field(2, b"m") + b"\x18\x03")
TRACKED = b"".join(
    field(1, node)
    for node in (
        reference(1, b"v") + reference(2, b"opt") + reference(4, b"layer"),
        attribute(b"v/k"),
        SLOT,
        attribute(b"m/k") + field(5, b"\x08\x01"),
        reference(5, b"w"),
        attribute(b"w/k"),
    )
)


def outcome(call):
    """What a call gives, or its error."""
    try:
        return call()
    except errors.FerryError as error:
        return type(error), error.message, error.offset


def objects_in(data):
    """A reader, and where the object graph of the first MetaGraph stands."""
    reader = Reader(data)
    fields = reader.read("MetaGraphDef", reader.meta_graphs()[0])
    return reader, fields["object_graph_def"]


def changed(data, seed):
    """The same bytes with one change."""
    chance = random.Random(seed)
    found = bytearray(data)
    place = chance.randrange(len(data))
    if seed % 3 == 0:
        found[place] ^= 1 << chance.randrange(8)
    elif seed % 3 == 1:
        found[place] = chance.randrange(32)  # numbers of objects and fields, lengths
    else:
        del found[place]
    return bytes(found)


def check(reader, span):
    """What the native walk finds is what the reader finds; gives whether it found something."""
    graph = objects._parse_natively(reader, span)
    if graph is None:
        return False
    natively = outcome(lambda: objects._list_natively(reader, graph))
    assert natively == outcome(lambda: objects._walk(reader, span))
    return True


def test_usual_graphs():
    """Slots, references and functions of a usual graph are found, and their keys."""
    reader, span = objects_in(encode(OBJECTS))
    assert check(reader, span)
    found = objects.read_objects(reader, span)
    assert list(found.variables) == ["v", "layer/w", "opt/m/v"]
    assert {path: each.concrete for path, each in found.callables.items()} == {
        "f": ("f",),
        "g": ("g",),
    }
    graph = checkpoint_graph.parse(TRACKED)
    keys = {"v": "v/k", "layer/w": "w/k", "opt/m/v": "m/k"}
    assert found.match_keys(graph) == found._match_keys(graph) == keys


def test_changed_graphs():
    """Of changed bytes, the native walk finds the same as the reader, or leaves them to it."""
    whole = encode(OBJECTS)
    _, span = objects_in(whole)
    data = bytes(whole[span.start : span.end])
    walked = matched = 0
    for seed in range(4000):
        part = changed(data, seed)
        walked += check(Reader(part), Span(0, len(part)))
        held = outcome(lambda part=part: objects.read_objects(Reader(part), Span(0, len(part))))
        if isinstance(held, objects.Objects):
            graph = checkpoint_graph.parse(TRACKED)
            assert held.match_keys(graph) == held._match_keys(graph)
            matched += 1
    assert walked > 400
    assert matched > 400


def test_changed_checkpoints():
    """An object graph of a checkpoint that passes natively can be read, and matches the same."""
    held = objects.read_objects(*objects_in(encode(OBJECTS)))
    passed = 0
    for seed in range(4000):
        data = changed(TRACKED, seed)
        graph = checkpoint_graph.Graph(data)
        if graph.natively is None:
            continue
        assert held.match_keys(graph) == held._match_keys(graph)
        passed += 1
    assert passed > 400


VARIABLE = field(1, field(7, field(6, b"x")))


@pytest.mark.parametrize(
    "data",
    [
        field(1, reference(1, b"a") + reference(1, b"a")) + VARIABLE,
        field(1, reference(1, b"a/b") + reference(2, b"a"))
        + VARIABLE
        + field(1, reference(3, b"b"))
        + VARIABLE,
    ],
    ids=["name", "path"],
)
def test_unusual_names(data):
    """A name or a path that comes twice is left to the reader."""
    span = Span(0, len(data))
    assert not check(Reader(data), span)
    assert len(objects.read_objects(Reader(data), span).variables) == 1


def test_limits():
    """More objects, or longer paths, than allowed are left to the reader."""
    data = field(1, reference(1, b"long")) + field(1, field(7, b""))
    whole = 0, len(data)
    assert _native.saved_objects(data, *whole, most=2, room=5) is not None
    assert _native.saved_objects(data, *whole, most=1, room=5) is None
    assert _native.saved_objects(data, *whole, most=2, room=4) is None
    assert _native.tracked_objects(TRACKED, most=5) is None
    assert _native.tracked_objects(TRACKED, most=6) is not None


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_corpus(path: Path):
    """The models of others have usual graphs, and both ways agree on them."""
    for graph in savedmodel.read(path).meta_graphs:
        if graph.objects is None:
            continue
        held = graph.objects
        assert check(held._reader, held._span)
        outline = read_outline(str(path / savedmodel.VARIABLES))
        if outline is not None and outline.graph is not None:
            assert held.match_keys(outline.graph) == held._match_keys(outline.graph)
