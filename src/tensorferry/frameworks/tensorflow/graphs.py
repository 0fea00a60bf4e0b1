"""TensorFlow: where the graph of a SavedModel uses the ops that every SavedModel has.

Keeps `contract.Graphs`. Ops that write and read files save and restore the variables of every
model, and ops that read files fill tables from assets. Their presence alone means nothing, so we
look at where they are used:

    SaveV2, RestoreV2 ...         harmless if only saving and restoring leads there
    InitializeTableFromTextFile   harmless if the file name is that of an asset

The messages are parsed after our own reader found them sound, and nothing is run. Two parsers may
see two different models in one file, so `Seen` tells what TensorFlow sees, for comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import tensorflow as tf

from tensorferry.errors import FormatError
from tensorferry.frameworks.contract import Foreign
from tensorferry.frameworks.programs import Misuse, Seen

# The name of the main graph among the bodies of functions.
_MAIN = ""
_TABLES = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
_PASSES_ON = ("Identity", "IdentityN", "StopGradient", "EnsureShape")
# The collections whose ops TensorFlow 1 runs when a model is loaded.
_INITIALIZERS = ("saved_model_main_op", "legacy_init_op", "saved_model_initializers")


def look(directory: str, tags: Iterable[str], suspects: frozenset[str]) -> Seen:
    """What TensorFlow would load from a SavedModel.

    Args:
        directory: A SavedModel that was found to be sound.
        tags: The tags of its graph.
        suspects: Names of ops that save and restore.

    Raises:
        FormatError: TensorFlow does not find exactly one graph with these tags.
    """
    wanted = set(tags)
    try:
        parsed = tf.__internal__.saved_model.parse_saved_model(directory)
    except (OSError, ValueError) as error:
        raise FormatError(f"TensorFlow does not parse it: {error}", path=directory) from None
    found = [one for one in parsed.meta_graphs if set(one.meta_info_def.tags) == wanted]
    if len(found) != 1:
        raise FormatError(f"TensorFlow sees {len(found)} graphs of these tags", path=directory)
    graph = _Graph(found[0])
    assets = frozenset(one.filename for one in found[0].asset_file_def)
    return Seen(graph.ops(), assets, tuple(graph.find(suspects)))


class _Graph:
    def __init__(self, graph: Foreign) -> None:
        self._objects = graph.object_graph_def
        library = graph.graph_def.library.function
        self._functions = {function.signature.name: function for function in library}
        self._bodies = {name: function.node_def for name, function in self._functions.items()}
        self._bodies[_MAIN] = graph.graph_def.node
        self._nodes = {
            name: {node.name: node for node in body} for name, body in self._bodies.items()
        }
        self._callers: dict[str, list[tuple[str, Foreign]]] = defaultdict(list)
        for name, body in self._bodies.items():
            for node in body:
                for called in _called(node):
                    self._callers[called].append((name, node))
        self._assets = {one.tensor_info.name.split(":")[0] for one in graph.asset_file_def}
        self._outputs = [
            info.name.split(":")[0]
            for signature in graph.signature_def.values()
            for info in signature.outputs.values()
        ]
        for key in _INITIALIZERS:
            held = graph.collection_def[key].node_list.value if key in graph.collection_def else ()
            self._outputs += [name.split(":")[0] for name in held]

    def ops(self) -> frozenset[str]:
        """The ops of all nodes, without calls of functions."""
        found = {node.op for body in self._bodies.values() for node in body}
        return frozenset(found - {*self._functions})

    def find(self, suspects: frozenset[str]) -> Iterator[Misuse]:
        """The suspects in everything that can be called."""
        for body, node in self._reachable():
            place = f"{body}/{node.name}" if body else node.name
            if node.op in _TABLES:
                name = next(iter(node.input[1:2]), "")
                if not self._is_asset(body, name, set()):
                    yield Misuse(node.op, place, False)
            elif node.op in suspects:
                yield Misuse(node.op, place, not node.op.startswith("Restore"))

    def _reachable(self) -> Iterator[tuple[str, Foreign]]:
        seen: set[str] = set()
        left: list[str] = []
        if self._objects.nodes:
            left += self._objects.concrete_functions
        else:
            for node in self._ancestors():
                yield _MAIN, node
                left += _called(node)
        while left:
            name = left.pop()
            if name in seen or name not in self._bodies:
                continue
            seen.add(name)
            for node in self._bodies[name]:
                yield name, node
                left += _called(node)

    def _ancestors(self) -> Iterator[Foreign]:
        """The nodes of the main graph that a call or the initialization needs."""
        nodes = self._nodes[_MAIN]
        seen: set[str] = set()
        left = list(self._outputs)
        while left:
            name = left.pop()
            if name in seen or name not in nodes:
                continue
            seen.add(name)
            yield nodes[name]
            left += [_node_of(one) for one in nodes[name].input]

    def _is_asset(self, body: str, given: str, seen: set[tuple[str, str]]) -> bool:
        """Whether an input is always the path of an asset, whichever function passes it on."""
        name = _node_of(given)
        if not name or (body, name) in seen:
            return False
        seen.add((body, name))
        node = self._nodes[body].get(name)
        if node is not None:
            if body == _MAIN and name in self._assets:
                return True
            return node.op in _PASSES_ON and self._is_asset(body, node.input[0], seen)
        arguments = [one.name for one in self._functions[body].signature.input_arg] if body else []
        if name not in arguments:
            return False
        place = arguments.index(name)
        sources = [
            place < len(node.input) and self._is_asset(caller, node.input[place], seen)
            for caller, node in self._callers[body]
            if caller != _MAIN or not self._objects.nodes
        ]
        if body in self._objects.concrete_functions:
            bound = self._objects.concrete_functions[body].bound_inputs
            number = place - (len(arguments) - len(bound))
            sources.append(number >= 0 and self._kind(bound[number]) == "asset")
        return bool(sources) and all(sources)

    def _kind(self, number: int) -> str | None:
        if not 0 <= number < len(self._objects.nodes):
            return None
        kind: str | None = self._objects.nodes[number].WhichOneof("kind")
        return kind


def _node_of(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _called(node: Foreign) -> Iterator[str]:
    """The functions that a node calls."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for function in value.list.func:
            yield function.name
