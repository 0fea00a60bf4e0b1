"""Drawings: every box has a place of its own, and lines lead downward."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings, strategies as st

from tensorferry.formats.savedmodel.nodes import Node
from tensorferry.operations.drawing import HEIGHT, Box, Edge, by_scope, draw, first_function


def overlaps(a, b):
    return a.y == b.y and a.x < b.x + b.width and b.x < a.x + a.width


@settings(max_examples=60)
@given(
    st.integers(1, 14).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
        )
    )
)
def test_any_graph(given_graph):
    """Whatever the lines are, circles among them: no box lies on another, and all are inside."""
    count, pairs = given_graph
    boxes = [Box(str(n), f"box {n}" * (n % 3 + 1)) for n in range(count)]
    edges = [Edge(str(a), str(b)) for a, b in dict.fromkeys(pairs)]
    found = draw(boxes, edges)

    assert {box.name for box in found.boxes} == {box.name for box in boxes}
    assert not any(overlaps(a, b) for a, b in combinations(found.boxes, 2))
    for box in found.boxes:
        assert box.x >= -1e-6
        assert box.x + box.width <= found.width + 1e-6
        assert 0 <= box.y <= found.height - HEIGHT
    assert len(found.edges) == len(edges)


def test_lines_lead_downward():
    """A box stands below all that it reads."""
    names = "abcdef"
    edges = [Edge("a", "b"), Edge("b", "c"), Edge("a", "c"), Edge("d", "c"), Edge("c", "e")]
    found = {box.name: box for box in draw([Box(name, name) for name in names], edges).boxes}

    assert all(found[edge.start].y < found[edge.end].y for edge in edges)
    assert found["d"].y == found["b"].y  # near where it is used


def test_side_branches():
    """What is read late stands near its use, though it could be computed at once."""
    trunk = [Edge(str(n), str(n + 1)) for n in range(6)]
    edges = [*trunk, Edge("variable", "read"), Edge("read", "6")]
    boxes = [Box(name, name) for name in [*map(str, range(7)), "variable", "read"]]
    found = {box.name: box for box in draw(boxes, edges).boxes}

    assert found["read"].y == found["5"].y
    assert found["variable"].y == found["4"].y


def test_scopes():
    """Many nodes are drawn by scope, and a scope can be opened."""
    nodes = [
        Node(f"{scope}/{n}", "Add", (f"{scope}/{n - 1}",) if n else ())
        for scope in ("encoder", "decoder")
        for n in range(100)
    ]
    nodes.append(Node("out", "run", ("encoder/99",), ("decoder/99",)))
    boxes, edges, left_out = by_scope(nodes, functions=["run"])

    assert [(box.name, box.nodes) for box in boxes] == [
        ("encoder/", 100),
        ("decoder/", 100),
        ("out", 1),
    ]
    assert [(edge.start, edge.end, edge.after) for edge in edges] == [
        ("encoder/", "out", False),
        ("decoder/", "out", True),
    ]
    assert left_out == 0
    assert boxes[2].calls == ("run",)
    inside, lines, _ = by_scope(nodes, "encoder/")
    assert (len(inside), len(lines)) == (100, 99)
    assert inside[0].label == "0"


def test_too_many():
    """Of very many boxes the rest is counted."""
    boxes, _, left_out = by_scope([Node(f"n{n}", "Const") for n in range(1000)], most=100)

    assert (len(boxes), left_out) == (100, 900)


def test_first_function():
    """What a model computes is drawn first, not how it is saved."""
    names = ["__inference__traced_save_3", "__inference_f_1", "__inference_g_2"]

    assert first_function(names, 10) == 1
    assert first_function(names, 1000) == -1
    assert first_function([], 10) == -1
    assert first_function(names, 1000, ["__inference_g_2"]) == 2
