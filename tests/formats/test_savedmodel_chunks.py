"""The ways to write a SavedModel: as a message, as text, and in chunks of a Riegeli file."""

from __future__ import annotations

import pytest
from conftest import CORPUS
from savedmodels import needs_corpus, parse
from strategies import same

from tensorferry import _native
from tensorferry.codecs import riegeli as savedmodel_riegeli
from tensorferry.formats.savedmodel import (
    chunks as savedmodel_chunks,
    model as savedmodel,
    text as savedmodel_text,
)


@needs_corpus
def test_three_ways_to_write():
    """The same model as a message, in chunks and as text: the same in every respect."""
    top = CORPUS / "tensorflow/saved_model/chunked_saved_model"
    plain = savedmodel.read(top / "non_chunked_model/saved_model.pb")
    (graph,) = plain.meta_graphs
    for file, kind in (("saved_model.cpb", "chunks"), ("saved_model.pbtxt", "text")):
        other = savedmodel.read(top / "chunked_model" / file)
        (same_graph,) = other.meta_graphs
        assert other.kind == kind
        assert graph.signatures.keys() == same_graph.signatures.keys()
        assert graph.ops == same_graph.ops
        assert graph.functions == same_graph.functions
        assert graph.variables == same_graph.variables
        assert list(graph.constants) == list(same_graph.constants)
        for name in graph.constants:
            assert same(graph.constants[name].read(), same_graph.constants[name].read())


@needs_corpus
def test_text_is_what_tensorflow_parses(tf):
    """A text gives the fields that protobuf's own parser gives."""
    path = CORPUS / "tensorflow/saved_model/half_plus_two_pbtxt/00000123"
    data = savedmodel_text.encode((path / "saved_model.pbtxt").read_bytes(), "SavedModel")
    expected = parse(tf, path)
    ours = type(expected).FromString(data)

    for found, graph in zip(ours.meta_graphs, expected.meta_graphs, strict=True):
        assert found.signature_def == graph.signature_def
        assert found.asset_file_def == graph.asset_file_def
        for node, other in zip(found.graph_def.node, graph.graph_def.node, strict=True):
            assert (node.name, node.op, node.attr) == (other.name, other.op, other.attr)


@needs_corpus
@pytest.mark.parametrize("name", ["large-constant", "large-nodes", "lots-nodes", "standard"])
def test_chunks_are_merged(tf, name):
    """Chunks of TensorFlow's splitter are one message again; the numbers in them are random."""
    message = "SavedModel" if name == "standard" else "GraphDef"
    path = CORPUS / f"tensorflow/proto_splitter/split-{name}.cpb"
    merged = savedmodel_chunks.merge(path.read_bytes(), message)

    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    kind = saved_model_pb2.SavedModel if name == "standard" else graph_pb2.GraphDef
    ours, expected = kind.FromString(merged), kind.FromString(path.with_suffix(".pb").read_bytes())
    for whole in (ours, expected):
        graphs = [g.graph_def for g in whole.meta_graphs] if name == "standard" else [whole]
        for graph in graphs:
            bodies = [node for function in graph.library.function for node in function.node_def]
            for node in [*graph.node, *bodies]:
                tensor = node.attr["value"].tensor
                tensor.tensor_content = bytes(len(tensor.tensor_content))
    assert ours == expected


# The hashes of 0, 1, 2 ... bytes that count up, under a key that does, as HighwayHash's authors
# publish them.
PUBLISHED = """
    907A56DE22C26E53 7EAB43AAC7CDDD78 B8D0569AB0B53D62 5C6BEFAB8A463D80 F205A46893007EDA
    2B8A1668E4A94541 BD4CCC325BEFCA6F 4D02AE1738F59482 E1205108E55F3171 32D2644EC77A1584
    F6E10ACDB103A90B C3BBF4615B415C15 243CC2040063FA9C A89A58CE65E641FF 24B031A348455A23
    40793F86A449F33B CFAB3489F97EB832 19FE67D2C8C5C0E2 04DD90A69C565CC2 75D9518E2371C504
    38AD9B1141D3DD16 0264432CCD8A70E0 A9DB5A6288683390 D7B05492003F028C 205F615AEA59E51E
    EEE0C89621052884 1BFC1A93A7284F4F 512175B5B70DA91D F71F8976A0A2C639 AE093FEF1F84E3E7
    22CA92B01161860F 9FC7007CCF035A68 A0C964D9ECD580FC 2C90F73CA03181FC 185CF84E5691EB9E
    4FC1F5EF2752AA9B F5B7391A5E0A33EB B9B84B83B4E96C9C 5E42FE712A5CD9B4 A150F2F90C3F97DC
    7FA522D75E2D637D 181AD0CC0DFFD32B 3889ED981E854028 FB4297E8C586EE2D
"""


def test_hash():
    """The hashes that their authors publish, for every way to end; a key has 32 bytes."""
    key = bytes(range(32))
    for length, expected in enumerate(PUBLISHED.split()):
        data = memoryview(bytes(range(length)))
        assert f"{_native.highway_hash(data, key):016X}" == expected
    other = b"".join(number.to_bytes(8, "little") for number in (1, 2, 3, 4))
    assert _native.highway_hash(bytes(range(128, 161)), other) == 0x53C516CCE478CAD7
    assert _native.highway_hash(b"\xff", other) == 0x7858F24D2D79B2B2
    with pytest.raises(ValueError, match="32 bytes"):
        _native.highway_hash(b"", key[1:])


def test_hash_of_files():
    """The hashes that stand at the start of every Riegeli file, of 0, 16 and 32 bytes."""
    start = savedmodel_riegeli.START
    for first, last, place in ((0, 0, 40), (8, 24, 0), (32, 64, 24)):
        stored = int.from_bytes(start[place : place + 8], "little")
        assert savedmodel_riegeli.highway_hash(start[first:last]) == stored
