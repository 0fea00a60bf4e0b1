"""TensorFlow: what it would load and run of a SavedModel, found out without running anything.

Keeps `contract.Graphs`. Ops that write and read files save and restore the variables of every
model, and ops that read files fill tables from assets. Their presence alone means nothing, so we
look at where they are used. What TensorFlow runs depends on how it loads the model:

    by objects    one graph with objects: every function that an object, a signature or a gradient
                  names. Nothing of the main graph is run, where saving and restoring are.
    by graph      TensorFlow 1, or several graphs. The restore op is run with the path of the
                  variables, the initializers with the paths of assets, and a signature with what
                  the caller gives: there an asset is the constant that the file has in its place.

    SaveV2 ...                    never fine in what is run
    RestoreV2 ...                 fine for the restore op, if it reads the variables of the model
    InitializeTableFromTextFile   fine in initializers, if the file name is that of an asset

The messages are parsed after our own reader found them sound. Two parsers may see two different
models in one file, so `Seen` tells what TensorFlow sees, for comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import registration

from tensorferry.errors import FormatError
from tensorferry.frameworks.contract import Foreign
from tensorferry.frameworks.programs import Misuse, Seen

# The name of the main graph among the bodies of functions.
_MAIN = ""
_TABLES = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
_RESTORES = ("Restore", "RestoreSlice", "RestoreV2")
# Ops with one input and one output, which are the same.
_PASSES_ON = ("Identity", "StopGradient", "EnsureShape", "PlaceholderWithDefault")
# Ops whose inputs are the arguments of the function in their attribute "f", in order.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Signatures that are no ways to call a model, but ops to run when it is loaded or trained.
_INITIALIZER = "__saved_model_init_op"
# The attribute of functions that compute the same in two ways.
_IMPLEMENTS = "api_implements"
_ASSETS, _LOCAL = "saved_model_assets", "local_variables"


def look(
    directory: str,
    tags: Iterable[str],
    placed: frozenset[str],
    attributes: Mapping[str, tuple[str, tuple[bytes, ...]]],
) -> Seen:
    """What TensorFlow would load from a SavedModel.

    Args:
        directory: A SavedModel that was found to be sound.
        tags: The tags of its graph.
        placed: Ops that are fine where they save, restore, or fill tables from assets.
        attributes: Of other ops, an attribute and the values with which the op is fine.

    Raises:
        FormatError: TensorFlow does not find exactly one graph with these tags, or cannot parse it.
    """
    wanted = set(tags)
    try:
        parsed = tf.__internal__.saved_model.parse_saved_model(directory)
    except (OSError, ValueError) as error:
        raise FormatError(f"TensorFlow does not parse it: {error}", path=directory) from None
    found = [one for one in parsed.meta_graphs if set(one.meta_info_def.tags) == wanted]
    if len(found) != 1:
        raise FormatError(f"TensorFlow sees {len(found)} graphs of these tags", path=directory)
    (graph,) = found
    by_objects = len(parsed.meta_graphs) == 1 and graph.HasField("object_graph_def")
    bodies = _Bodies(graph)
    try:  # collections have messages in strings
        judge = _ByObjects(graph, bodies) if by_objects else _ByGraph(graph, bodies)
        assets = frozenset(one.filename for one in _assets_of(graph))
    except DecodeError as error:
        raise FormatError(f"TensorFlow does not parse it: {error}", path=directory) from None
    misused = [
        *bodies.unusual(attributes),
        *bodies.missing(),
        *judge.find(placed),
        *_registered(graph),
    ]
    return Seen(bodies.ops(), assets, tuple(dict.fromkeys(misused)))


def _assets_of(graph: Foreign) -> list[Foreign]:
    """The assets of a graph, which old ones have in a collection."""
    if graph.asset_file_def or _ASSETS not in graph.collection_def:
        return list(graph.asset_file_def)
    found = []
    for value in graph.collection_def[_ASSETS].any_list.value:
        asset = meta_graph_pb2.AssetFileDef()
        value.Unpack(asset)
        found.append(asset)
    return found


def _registered(graph: Foreign) -> Iterator[Misuse]:
    """Objects of classes that the program registered, under a name from the file."""
    for name in {node.registered_name for node in graph.object_graph_def.nodes}:
        kind = registration.get_registered_class(name) if name else None
        if kind is not None and kind.__module__.partition(".")[0] != "tensorflow":
            yield Misuse("registered", "", f"makes an object of the registered class {name!r}")


class _Bodies:
    """The nodes of the main graph and of all functions, and which of them calls which function."""

    def __init__(self, graph: Foreign) -> None:
        library = graph.graph_def.library.function
        self.functions = {function.signature.name: function for function in library}
        self.nodes = {name: function.node_def for name, function in self.functions.items()}
        self.nodes[_MAIN] = graph.graph_def.node
        self.named = {name: {node.name: node for node in body} for name, body in self.nodes.items()}
        gradients = (
            *graph.graph_def.library.gradient,
            *graph.graph_def.library.registered_gradients,
        )
        self.gradients = {one.gradient_func for one in gradients}
        self.callers: dict[str, list[tuple[str, Foreign]]] = defaultdict(list)
        for name, node in self.all():
            for called in _called(node):
                self.callers[called].append((name, node))

    def all(self) -> Iterator[tuple[str, Foreign]]:
        """All nodes, each with the name of its body."""
        return ((name, node) for name, body in self.nodes.items() for node in body)

    def ops(self) -> frozenset[str]:
        """The ops of all nodes, without calls of functions."""
        return frozenset({node.op for _, node in self.all()} - {*self.functions})

    def reachable(self, names: Iterable[str]) -> set[str]:
        """The functions that some names lead to."""
        seen: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in seen and name in self.functions:
                seen.add(name)
                left += (called for node in self.nodes[name] for called in _called(node))
        return seen

    def exchanged(self) -> set[str]:
        """The functions that TensorFlow may run in the place of others.

        Functions with the same "api_implements" are taken for one another, by device, and other
        attributes name a function in a text.
        """
        texts = {
            value.s for one in self.functions.values() for value in one.attr.values() if value.s
        }
        texts |= {value.s for _, node in self.all() for value in node.attr.values() if value.s}
        return {
            name
            for name, one in self.functions.items()
            if _IMPLEMENTS in one.attr or name.encode() in texts
        }

    def unusual(self, attributes: Mapping[str, tuple[str, tuple[bytes, ...]]]) -> Iterator[Misuse]:
        """Nodes with an attribute that makes them do more than compute."""
        for body, node in self.all():
            key, harmless = attributes.get(node.op, ("", ()))
            if key in node.attr and node.attr[key].s not in harmless:
                kind = "write" if node.op == "PrintV2" else "read"
                value = node.attr[key].s.decode(errors="replace")[:100]
                detail = f"the op {node.op} {kind}s files: its {key} is {value!r}"
                yield Misuse(kind, _place(body, node), detail)

    def missing(self) -> Iterator[Misuse]:
        """Calls of functions that the model does not have: of ops, or of the process' own."""
        for body, node in self.all():
            for called in _functions_in(node):
                if called and called not in self.functions:
                    detail = f"calls the function {called[:100]!r}, which is not in the model"
                    yield Misuse("native", _place(body, node), detail)

    def leads_from(self, body: str, given: str, starts: _Starts) -> bool:
        """Whether an input is always one of some tensors, whichever function passes it on."""
        seen: set[tuple[str, str]] = set()
        left = [(body, given)]
        while left:
            body, given = left.pop()
            if (body, given) in seen or given.startswith("^"):
                return False
            seen.add((body, given))
            name, _, port = given.partition(":")
            if body == _MAIN and f"{name}:{port or 0}" in starts.tensors:
                continue
            node = self.named[body].get(name)
            arguments = self._arguments(body)
            if node is not None and name not in arguments:
                if node.op not in _PASSES_ON or not node.input:
                    return False
                left.append((body, node.input[0]))
            elif node is None and name in arguments:
                sources = self._sources(body, arguments.index(name), len(arguments), starts)
                if sources is None:
                    return False
                left += sources
            else:
                return False
        return True

    def _arguments(self, body: str) -> list[str]:
        if not body:
            return []
        arguments = self.functions[body].signature.input_arg
        if any(one.number_attr or one.type_list_attr for one in arguments):
            return []  # several inputs each: their places are not those of the inputs
        return [one.name for one in arguments]

    def _sources(
        self, body: str, place: int, count: int, starts: _Starts
    ) -> list[tuple[str, str]] | None:
        """The inputs that become an argument of a function; None if some cannot be told."""
        found = []
        for caller, node in self.callers[body]:
            if caller == _MAIN and not starts.main:
                continue
            direct = node.op in _CALLS and node.attr["f"].func.name == body
            if not (direct or node.op == body) or place >= len(node.input):
                return None
            found.append((caller, node.input[place]))
        if body in starts.bound:
            bound = starts.bound[body]
            number = place - (count - len(bound))
            if number < 0 or not bound[number]:
                return None
        elif not found:
            return None
        return found


class _Starts:
    """Where the path of an asset, or of the variables, comes from.

    Attributes:
        tensors: Tensors of the main graph that TensorFlow feeds with it.
        main: Whether calls in the main graph are run.
        bound: Of functions that objects call, which of the bound inputs are assets.
    """

    def __init__(
        self,
        tensors: Iterable[str] = (),
        *,
        main: bool = True,
        bound: Mapping[str, list[bool]] | None = None,
    ) -> None:
        self.tensors = frozenset(_tensor(name) for name in tensors if name)
        self.main = main
        self.bound = bound or {}


class _ByObjects:
    """A model that TensorFlow makes objects of."""

    def __init__(self, graph: Foreign, bodies: _Bodies) -> None:
        self._bodies = bodies
        self._objects = graph.object_graph_def

    def find(self, placed: frozenset[str]) -> Iterator[Misuse]:
        """The ops in functions that may be run."""
        bodies = self._bodies
        called = self._called_by_objects()
        starts = _Starts(main=False, bound={name: self._bound(name) for name in called})
        main = bodies.reachable(one for node in bodies.nodes[_MAIN] for one in _called(node))
        exchanged = bodies.exchanged()
        for name in bodies.reachable({*called, *exchanged, *(bodies.functions.keys() - main)}):
            for node in bodies.nodes[name]:
                if node.op in _TABLES and _reads(node, bodies, name, 1, starts):
                    continue
                if node.op in placed:
                    yield _misuse(name, node)

    def _called_by_objects(self) -> set[str]:
        found = {*self._objects.concrete_functions}
        for node in self._objects.nodes:
            found.update(node.function.concrete_functions)
            found.add(node.bare_concrete_function.concrete_function_name)
        return found | self._bodies.gradients

    def _bound(self, name: str) -> list[bool]:
        if name not in self._objects.concrete_functions:
            return []
        numbers = self._objects.concrete_functions[name].bound_inputs
        nodes = self._objects.nodes
        return [
            0 <= one < len(nodes) and nodes[one].WhichOneof("kind") == "asset" for one in numbers
        ]


class _ByGraph:
    """A model whose main graph TensorFlow runs."""

    def __init__(self, graph: Foreign, bodies: _Bodies) -> None:
        self._bodies = bodies
        self._saver = graph.saver_def
        self._assets = [one.tensor_info.name for one in _assets_of(graph)]
        self._calls: list[str] = []
        self._initializers: list[str] = []
        for key, signature in graph.signature_def.items():
            held = self._initializers if key == _INITIALIZER else self._calls
            for info in signature.outputs.values():
                held += _tensors_of(info)
        for key, collection in graph.collection_def.items():
            self._initializers += collection.node_list.value
            for text in collection.bytes_list.value if key == _LOCAL else ():
                self._initializers.append(
                    variable_pb2.VariableDef.FromString(text).initializer_name
                )

    def find(self, placed: frozenset[str]) -> Iterator[Misuse]:
        """The ops that a call, an initializer or the restore op leads to."""
        assets = _Starts(self._assets)
        variables = _Starts([self._saver.filename_tensor_name])
        for body, node in self._run([self._saver.restore_op_name]):
            fine = node.op in _RESTORES and _reads(node, self._bodies, body, 0, variables)
            if node.op in placed and not fine:
                yield _misuse(body, node)
        for body, node in self._run(self._initializers):
            fine = node.op in _TABLES and _reads(node, self._bodies, body, 1, assets)
            if node.op in placed and not fine:
                yield _misuse(body, node)
        for body, node in self._run(self._calls):
            if node.op in placed:
                yield _misuse(body, node)
        for body in self._bodies.reachable(self._bodies.exchanged() | self._bodies.gradients):
            for node in self._bodies.nodes[body]:
                if node.op in placed:
                    yield _misuse(body, node)

    def _run(self, names: Iterable[str]) -> Iterator[tuple[str, Foreign]]:
        """The nodes of the main graph, and of functions, that some tensors need."""
        nodes = self._bodies.named[_MAIN]
        seen: set[str] = set()
        called: list[str] = []
        left = [_node_of(name) for name in names]
        while left:
            name = left.pop()
            if name in seen or name not in nodes:
                continue
            seen.add(name)
            yield _MAIN, nodes[name]
            called += _called(nodes[name])
            left += [_node_of(one) for one in nodes[name].input]
        for name in self._bodies.reachable(called):
            for node in self._bodies.nodes[name]:
                yield name, node


def _reads(node: Foreign, bodies: _Bodies, body: str, place: int, starts: _Starts) -> bool:
    """Whether the file name among the inputs of a node is one that TensorFlow gives it."""
    return len(node.input) > place and bodies.leads_from(body, node.input[place], starts)


def _misuse(body: str, node: Foreign) -> Misuse:
    kind = "read" if node.op in (*_TABLES, *_RESTORES) else "write"
    detail = f"the op {node.op} {kind}s files that are not the model's own"
    return Misuse(kind, _place(body, node), detail)


def _place(body: str, node: Foreign) -> str:
    return (f"{body}/{node.name}" if body else str(node.name))[:100]


def _tensors_of(info: Foreign) -> Iterator[str]:
    """The tensors of an output, which has several if it is sparse or ragged."""
    yield info.name
    sparse = info.coo_sparse
    yield from (
        sparse.values_tensor_name,
        sparse.indices_tensor_name,
        sparse.dense_shape_tensor_name,
    )
    for part in info.composite_tensor.components:
        yield from _tensors_of(part)


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _node_of(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _called(node: Foreign) -> Iterator[str]:
    """The functions that a node calls, and its op, which may be one."""
    yield node.op
    yield from _functions_in(node)


def _functions_in(node: Foreign) -> Iterator[str]:
    """The functions in the attributes of a node, and in the attributes of these."""
    left = list(node.attr.values())
    while left:
        value = left.pop()
        held = [*value.list.func, *([value.func] if value.HasField("func") else [])]
        for function in held:
            yield function.name
            left += function.attr.values()
