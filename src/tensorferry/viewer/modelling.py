"""Questions about models: signatures, what they would do, graphs and layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.formats.savedmodel.nodes import Node, read_nodes
from tensorferry.models.outline import GraphInfo
from tensorferry.operations.drawing import Box, Edge, by_scope, draw, first_function
from tensorferry.operations.layers import layers
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown

NAMED = 500
"""How many signatures, variables, functions and the like are listed."""


class ModelQuestions:
    """Answers questions about models."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._nodes: tuple[object, tuple[Node, ...]] | None = None

    def questions(self) -> Mapping[str, Question]:
        """The questions by name."""
        return {"model": self.model, "graph": self.graph, "layers": self.layers}

    def model(self, query: Query) -> Answer:
        """What a model is."""
        file = self._shown.file(query)
        with file.lock:
            model = file.info.model
        if model is None:
            raise UnsupportedError("there is no model in it", path=file.name)
        graphs: list[Mapping[str, Any]] = [
            {
                "tags": graph.tags,
                "tensorflow": graph.tensorflow_version,
                "signatures": graph.signatures[:NAMED],
                "variables": graph.variables[:NAMED],
                "variable_count": len(graph.variables),
                "nodes": graph.nodes,
                "start": first_function(
                    _largest_first(graph),
                    graph.nodes,
                    (name for names in graph.callables.values() for name in names),
                ),
                "ops": sorted(graph.ops.items(), key=lambda pair: -pair[1])[:NAMED],
                "op_count": sum(graph.ops.values()),
                "custom_ops": graph.custom_ops[:NAMED],
                "risks": graph.risks[:NAMED],
                "functions": sorted(graph.functions.items(), key=lambda pair: -pair[1])[:NAMED],
                "function_count": len(graph.functions),
                "recursive": graph.recursive_functions[:NAMED],
                "callables": list(graph.callables.items())[:NAMED],
                "constants": graph.constants,
                "constant_bytes": graph.constant_bytes,
            }
            for graph in model.graphs
        ]
        return of_json(
            {
                "kind": model.kind,
                "written_as": model.written_as,
                "version": model.version,
                "graphs": graphs,
                "assets": model.assets[:NAMED],
                "fingerprint": model.fingerprint,
                "keras": model.keras,
                "notes": file.info.notes[:NAMED],
            }
        )

    def graph(self, query: Query) -> Answer:
        """A drawing of the nodes of a graph or a function, or of one scope of it."""
        file = self._shown.file(query)
        number, place = query.number("graph", 0), query.number("function", -1, least=-1)
        with file.lock:
            model = file.info.model
            if model is None or number >= len(model.graphs):
                raise UnsupportedError("there is no graph in it", path=file.name)
            functions = _largest_first(model.graphs[number])
            if place >= len(functions):
                raise UnsupportedError(f"function {place} of {len(functions)}", path=file.name)
            nodes = self._read(file, number, functions[place] if place >= 0 else "")
        boxes, edges, left_out = by_scope(nodes, query.text("scope"), functions)
        drawing = draw(boxes, edges, left_out)
        called = {name: number for number, name in enumerate(functions[:NAMED])}
        calls = {
            box.name: [called[name] for name in box.calls if name in called]
            for box in drawing.boxes
            if box.calls
        }
        return of_json({"drawing": drawing, "calls": calls, "nodes": len(nodes)})

    def _read(self, file: File, graph: int, function: str) -> tuple[Node, ...]:
        """The nodes of a function; those of the last question are kept."""
        key = (file.key, graph, function)
        if self._nodes is None or self._nodes[0] != key:
            self._nodes = key, read_nodes(file.found.place, graph=graph, function=function)
        return self._nodes[1]

    def layers(self, query: Query) -> Answer:
        """The layers of a Keras file, with the numbers of their weights, and a drawing of them."""
        file = self._shown.file(query)
        with file.reading() as subject:
            found = layers(subject)
        places = {name: number for number, name in enumerate(file.names)}
        outer = [layer for layer in found if layer.depth == 0]
        drawing = None
        if 1 < len(outer) <= 200:
            boxes = [Box(layer.name, layer.name[:40], layer.class_name[:40]) for layer in outer]
            edges = [Edge(name, layer.name) for layer in outer for name in layer.inputs]
            drawing = draw(boxes, edges)
        return of_json(
            {
                "layers": [
                    {
                        "name": layer.name[:NAMED],
                        "class_name": layer.class_name[:NAMED],
                        "depth": layer.depth,
                        "settings": layer.settings,
                        "inputs": layer.inputs[:20],
                        "tensors": [places[name] for name in layer.tensors if name in places],
                    }
                    for layer in found
                ],
                "drawing": drawing,
            }
        )


def _largest_first(graph: GraphInfo) -> list[str]:
    """The names of the functions of a graph, as the page numbers them."""
    return [name for name, _ in sorted(graph.functions.items(), key=lambda pair: -pair[1])]
