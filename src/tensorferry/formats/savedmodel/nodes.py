"""The nodes of a graph or a function one by one, with what they read: to be drawn.

`tensorferry.formats.savedmodel.graph` checks all nodes of a model and counts them; this module
reads those of one function once more. An input of a node is the name of another node, with the
number of an output ("conv:0"), or with a caret where it has only to run before ("^init").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import Span
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.savedmodel.graph import functions_named
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.formats.savedmodel.model import load
from tensorferry.storage.place import Place

MOST = 100_000
"""How many nodes are read, at most."""

ARGUMENT, RETURN = "argument", "return"
"""What stands in the place of an op for what a function takes and gives."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph or of a function.

    Attributes:
        name: Its name, with the names of its scopes before it.
        op: What it computes: an op, or a function of the library.
        inputs: The nodes whose results it reads.
        after: The nodes that have to run before it.
        calls: The functions that it runs, as a loop runs its body.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def read_nodes(place: Place, *, graph: int = 0, function: str = "") -> tuple[Node, ...]:
    """The nodes of a graph, or of one function of its library.

    Args:
        place: Of a SavedModel or a frozen graph.
        graph: Which of its MetaGraphs.
        function: The name of the function; the nodes outside of functions, if it is empty.

    Raises:
        FormatError: The model is damaged.
        UnsupportedError: There is no such graph or function, or it has too many nodes.
    """
    loaded = load(place, verify=False)
    reader = loaded.reader
    if loaded.kind == "graph":
        span = Span(0, len(reader.data))
    else:
        spans = reader.meta_graphs()
        if not 0 <= graph < len(spans):
            raise UnsupportedError(f"MetaGraph {graph} of {len(spans)}", path=loaded.file)
        fields = reader.read("MetaGraphDef", spans[graph])
        span = fields.get("graph_def", Span(0, 0))
    if not function:
        return _all(reader, reader.each("GraphDef", "node", span))
    library = reader.read("GraphDef", span, without="node").get("library")
    for place_of in (
        () if library is None else reader.each("FunctionDefLibrary", "function", library)
    ):
        found = reader.read("FunctionDef", place_of, without="node_def")
        signature = reader.read("OpDef", found["signature"]) if "signature" in found else {}
        if signature.get("name", "") == function:
            nodes = reader.each("FunctionDef", "node_def", place_of)
            return _with_ends(reader, signature, found, _all(reader, nodes))
    raise UnsupportedError(f"no function is called {function[:60]!r}", path=loaded.file)


def _all(reader: Reader, spans: Iterator[Span]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for span in spans:
        fields = reader.read("NodeDef", span, without="attr")
        inputs = fields.get("input", [])
        nodes.append(
            Node(
                fields.get("name", ""),
                fields.get("op", ""),
                tuple(dict.fromkeys(_base(name) for name in inputs if name[:1] != "^")),
                tuple(dict.fromkeys(_base(name) for name in inputs if name[:1] == "^")),
                functions_named(reader, span),
            )
        )
        if len(nodes) > MOST:
            raise UnsupportedError(f"more than {MOST:,} nodes, which are too many to draw")
    return tuple(nodes)


def _with_ends(
    reader: Reader, signature: Mapping[str, Any], fields: Mapping[str, Any], nodes: tuple[Node, ...]
) -> tuple[Node, ...]:
    """The nodes of a function, with its arguments before and its results behind them."""
    taken = {node.name for node in nodes}
    arguments = []
    for span in signature.get("input_arg", []):
        name = reader.read("ArgDef", span).get("name", "")
        if name not in taken:
            arguments.append(Node(name, ARGUMENT))
    results = []
    for span in fields.get("ret", []):
        entry = reader.read("ReturnEntry", span)
        if "value" not in entry:
            raise FormatError("a result of a function without a value", offset=span.start)
        results.append(Node(f"→ {entry.get('key', '')}", RETURN, (_base(entry["value"]),)))
    return (*arguments, *nodes, *results)


def _base(name: str) -> str:
    """The node of an input."""
    return name.removeprefix("^").partition(":")[0]
