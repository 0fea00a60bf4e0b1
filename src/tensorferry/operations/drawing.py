"""Drawings: where the boxes and lines of a graph go.

    draw([Box("a"), Box("b")], [Edge("a", "b")])

Boxes are placed in layers, each after the boxes that it reads. Inside a layer they are ordered so
that few lines cross. A graph of many nodes is drawn by scope: "encoder/layer_0/add" is a part of
the box "encoder/", which can be opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tensorferry.classes import dataclass, replace
from tensorferry.formats.savedmodel.nodes import Node

MOST = 160
"""How many boxes a drawing has, at most."""

HEIGHT, LAYER, GAP = 34, 76, 22
"""The height of a box, the distance of layers, and the space between boxes."""


@dataclass(frozen=True)
class Box:
    """A node, or a scope with several.

    Attributes:
        name: Tells it from the others; ends with "/" for a scope.
        label: What is written in it.
        detail: What is written below that: the op, or how many nodes a scope has.
        nodes: How many nodes it stands for.
        calls: The functions that it runs.
        x: Of its left edge.
        y: Of its upper edge.
        width: Of the box.
    """

    name: str
    label: str
    detail: str = ""
    nodes: int = 1
    calls: tuple[str, ...] = ()
    x: float = 0
    y: float = 0
    width: float = 80


@dataclass(frozen=True)
class Edge:
    """A line from one box to another.

    Attributes:
        start: The name of the box that is read.
        end: The name of the box that reads it.
        count: How many lines of nodes it stands for.
        after: Whether the one has only to run before the other.
    """

    start: str
    end: str
    count: int = 1
    after: bool = False


@dataclass(frozen=True)
class Drawing:
    """A graph with places.

    Attributes:
        boxes: The nodes and scopes.
        edges: The lines.
        width: Of all of it.
        height: The same.
        left_out: How many nodes are not drawn.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float
    left_out: int = 0


# Functions that every SavedModel has for its own variables and signatures.
_OWN = ("__inference__traced_save", "__inference__traced_restore", "__inference_signature_wrapper")


def first_function(names: Sequence[str], nodes: int, methods: Iterable[str] = ()) -> int:
    """The place of the function that is drawn first; -1 for the nodes outside of functions.

    Args:
        names: Of the functions, the largest first.
        nodes: How many nodes are outside of functions: in a graph of TensorFlow 1, most are.
        methods: The functions behind methods of objects, which no graph of TensorFlow 1 has.
    """
    called = set(methods)
    others = [(n, name) for n, name in enumerate(names) if not name.startswith(_OWN)]
    method = next((n for n, name in others if name in called), None)
    if method is not None:
        return method
    return -1 if nodes >= MOST / 2 or not others else others[0][0]


def by_scope(
    nodes: Sequence[Node], scope: str = "", functions: Iterable[str] = (), most: int = MOST
) -> tuple[list[Box], list[Edge], int]:
    """Boxes and edges for the nodes of a scope, and the number of nodes left out.

    Args:
        nodes: All nodes of a graph or function.
        scope: Whose inside is drawn, with a slash at its end; empty for all.
        functions: The names of functions, which nodes may call.
        most: Up to how many nodes each has its own box; else those of a scope share one.
    """
    inside = [node for node in nodes if node.name.startswith(scope)]
    grouped = len(inside) > most
    places = {node.name: _box_of(node.name, scope, grouped) for node in inside}
    counts = Counter(places.values())
    # Where even the scopes are too many, the largest are drawn.
    kept = {name for name, _ in counts.most_common(most)}
    known = set(functions)
    boxes: dict[str, Box] = {}
    edges: Counter[tuple[str, str, bool]] = Counter()
    for node in inside:
        name = places[node.name]
        if name not in kept:
            continue
        if name not in boxes:
            boxes[name] = _box(name, node, counts[name], scope, known)
        for others, after in ((node.inputs, False), (node.after, True)):
            for other in others:
                start = places.get(other)
                if start is not None and start != name and start in kept:
                    edges[start, name, after] += 1
    lines = [Edge(start, end, count, after) for (start, end, after), count in edges.items()]
    return list(boxes.values()), lines, sum(counts[name] for name in counts if name not in kept)


def _box_of(name: str, scope: str, grouped: bool) -> str:
    step, slash, _ = name[len(scope) :].partition("/")
    return f"{scope}{step}/" if grouped and slash else name


def _box(name: str, node: Node, count: int, scope: str, functions: set[str]) -> Box:
    label = name[len(scope) :]
    if name.endswith("/") and name != node.name:
        return Box(name, label[:40], f"{count:,} nodes" if count > 1 else node.op[:40], count)
    calls = tuple(name for name in (node.op, *node.calls) if name in functions)
    return Box(name, label.rpartition("/")[2][:40] or label[:40], node.op[:40], 1, calls)


def draw(boxes: Sequence[Box], edges: Sequence[Edge], left_out: int = 0) -> Drawing:
    """Places for boxes, from the top downward."""
    sized = {box.name: replace(box, width=_width(box)) for box in boxes}
    known = [edge for edge in edges if edge.start in sized and edge.end in sized]
    forward = _without_circles(list(sized), known)
    layers = _layers(list(sized), forward)
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for name in sized:
        rows[layers[name]].append(name)
    above, below = _neighbours(forward)
    for sweep in range(6):
        _order(rows, above if sweep % 2 == 0 else below, downward=sweep % 2 == 0)
    places = _positions(rows, sized, above, below)
    placed = tuple(
        replace(box, x=places[name], y=layers[name] * LAYER) for name, box in sized.items()
    )
    width = max((box.x + box.width for box in placed), default=0)
    height = max(len(rows) * LAYER - (LAYER - HEIGHT), 0)
    return Drawing(placed, tuple(known), width, height, left_out)


def _width(box: Box) -> float:
    return min(max(7.2 * max(len(box.label), 0.86 * len(box.detail)) + 24, 64), 320)


def _without_circles(names: Sequence[str], edges: Sequence[Edge]) -> list[tuple[str, str]]:
    """The edges, without those that lead back."""
    follow: dict[str, list[str]] = {name: [] for name in names}
    for edge in edges:
        follow[edge.start].append(edge.end)
    state: dict[str, int] = {}
    kept = []
    for root in names:
        if root in state:
            continue
        state[root] = 1
        stack = [(root, iter(follow[root]))]
        while stack:
            name, rest = stack[-1]
            for end in rest:
                if state.get(end) == 1:
                    continue
                kept.append((name, end))
                if end not in state:
                    state[end] = 1
                    stack.append((end, iter(follow[end])))
                    break
            else:
                state[name] = 2
                stack.pop()
    return list(dict.fromkeys(kept))


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The layer of each box: behind all that it reads, and as near to its use as that allows."""
    above, below = _neighbours(edges)
    missing = {name: len(above.get(name, ())) for name in names}
    ready = [name for name in names if not missing[name]]
    layers = dict.fromkeys(names, 0)
    order = []
    while ready:
        name = ready.pop()
        order.append(name)
        for end in below.get(name, ()):
            layers[end] = max(layers[end], layers[name] + 1)
            missing[end] -= 1
            if not missing[end]:
                ready.append(end)
    for name in reversed(order):
        if below.get(name):
            layers[name] = min(layers[end] for end in below[name]) - 1
    return layers


def _neighbours(
    edges: Iterable[tuple[str, str]],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for start, end in edges:
        above.setdefault(end, []).append(start)
        below.setdefault(start, []).append(end)
    return above, below


def _order(rows: list[list[str]], towards: dict[str, list[str]], *, downward: bool) -> None:
    """Orders each row by the mean place of the neighbours in the rows before."""
    place: dict[str, float] = {}
    for row in rows:
        for number, name in enumerate(row):
            place[name] = number / max(len(row), 1)
    for row in rows if downward else reversed(rows):
        keys = {}
        for name in row:
            found = [place[other] for other in towards.get(name, ())]
            keys[name] = sum(found) / len(found) if found else place[name]
        row.sort(key=keys.__getitem__)
        for number, name in enumerate(row):
            place[name] = number / max(len(row), 1)


def _positions(
    rows: list[list[str]],
    boxes: dict[str, Box],
    above: dict[str, list[str]],
    below: dict[str, list[str]],
) -> dict[str, float]:
    """The left edge of each box: near its neighbours, and no box over another."""
    lengths = [sum(boxes[name].width + GAP for name in row) for row in rows]
    widest = max(lengths, default=0)
    middle: dict[str, float] = {}
    for row, length in zip(rows, lengths, strict=True):
        x = (widest - length) / 2
        for name in row:
            middle[name] = x + boxes[name].width / 2
            x += boxes[name].width + GAP
    for sweep in range(8):
        towards = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for name in row:
                found = [middle[other] for other in towards.get(name, ())]
                wanted.append(sum(found) / len(found) if found else middle[name])
            for name, x in zip(row, _apart(row, wanted, boxes), strict=True):
                middle[name] = x
    left = min((middle[name] - boxes[name].width / 2 for name in middle), default=0)
    return {name: middle[name] - boxes[name].width / 2 - left for name in middle}


def _apart(row: list[str], wanted: list[float], boxes: dict[str, Box]) -> list[float]:
    """Places near those wanted, in the same order, without overlaps."""
    right: list[float] = []
    for number, name in enumerate(row):
        x = wanted[number]
        if number:
            before = boxes[row[number - 1]].width
            x = max(x, right[-1] + (before + boxes[name].width) / 2 + GAP)
        right.append(x)
    left = list(wanted)
    for number in range(len(row) - 1, -1, -1):
        if number < len(row) - 1:
            behind = boxes[row[number + 1]].width
            distance = (behind + boxes[row[number]].width) / 2 + GAP
            left[number] = min(left[number], left[number + 1] - distance)
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]
