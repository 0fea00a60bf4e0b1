"""The object graph of a SavedModel: what `tf.saved_model.load` makes objects of.

A SavedObjectGraph, which TensorFlow 2 writes, has a node for each object, the root first, with the
numbers of its children by name, and what the object is: a user's object, a variable, a function,
an asset, a table ... A user's names are ways from the root: "encoder/dense/kernel". An optimizer
lists its slot variables apart: they are "optimizer/m/encoder/dense/kernel", as in
`tensorferry.formats.checkpoint.graph`.

The values of variables are in the checkpoint beside, whose own object graph has the keys: both
graphs are walked together, by the names of children, which is how TensorFlow restores.

Graphs of the usual form are walked in `tensorferry._native`. All others are read here, node by
node, which is also where the errors are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tensorferry import _native
from tensorferry.budget import allowed, room_for_paths
from tensorferry.classes import NamedTuple, dataclass, field, make_many
from tensorferry.codecs.protobuf import Span, find_field
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError, FormatError, LimitError
from tensorferry.formats.checkpoint import graph as checkpoint_graph
from tensorferry.formats.savedmodel.messages import PART, TABLES, Reader
from tensorferry.formats.savedmodel.specs import (
    Shape,
    TensorSpec,
    read_dtype,
    read_shape,
    read_structure,
    specs_in,
)

# The tensor of an object that is its value, as a checkpoint's object graph calls it.
VALUE = "VARIABLE_VALUE"

# In the order of the table.
KINDS = (
    "user_object",
    "asset",
    "function",
    "variable",
    "bare_concrete_function",
    "constant",
    "resource",
    "captured_tensor",
)
# By their fields in a SavedObject.
_NUMBERS = {find_field(TABLES, "SavedObject", kind).number: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the model; its value is in the checkpoint.

    Attributes:
        path: The way to it from the root, such as "layer/kernel".
        name: Its own, such as "dense/kernel"; several may have the same.
        dtype: Of its value.
        shape: None if the rank is unknown, in it None for each unknown dimension.
        trainable: Whether an optimizer changes it; None where the file does not say.
    """

    path: str
    name: str
    dtype: DType | None
    shape: Shape
    trainable: bool | None


@dataclass(frozen=True, slots=True)
class ConcreteFunction:
    """A function for arguments of certain dtypes and shapes.

    Attributes:
        name: Of its function in the library.
    """

    name: str
    _reader: Reader = field(repr=False, compare=False)
    _inputs: Span | None = field(repr=False, compare=False)
    _outputs: Span | None = field(repr=False, compare=False)

    @property
    def arguments(self) -> Any:
        """The structure of its arguments: a tuple of those by position and a dict of the others."""
        return self._read(self._inputs)

    @property
    def results(self) -> Any:
        """The structure of what it returns."""
        return self._read(self._outputs)

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """The tensors among its arguments, by their way in the structure."""
        return self._specs(self._inputs)

    @property
    def outputs(self) -> Mapping[str, TensorSpec]:
        """The tensors among its results, by their way in the structure."""
        return self._specs(self._outputs)

    def _specs(self, span: Span | None) -> Mapping[str, TensorSpec]:
        try:
            return {} if span is None else specs_in(self._read(span), span)
        except FerryError as error:
            raise self._reader.located(error) from None

    def _read(self, span: Span | None) -> Any:
        try:
            return None if span is None else read_structure(self._reader, span)
        except FerryError as error:
            raise self._reader.located(error) from None


@dataclass(frozen=True, slots=True)
class CallableObject:
    """A function as an attribute of an object.

    Attributes:
        path: The way to it from the root, such as "serve".
        concrete: The names of its concrete functions.
    """

    path: str
    concrete: tuple[str, ...]


class _Node(NamedTuple):
    children: Mapping[str, int]
    slots: Sequence[tuple[int, str, int]]
    kind: str
    span: Span


# Empty objects take two bytes each, of which a file may have very many.
_NOTHING = _Node({}, (), "user_object", Span(0, 0))


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a model.

    Attributes:
        count: How many there are.
        variables: By path.
        callables: Functions that can be called on objects, by path.
        concrete_functions: By name.
        kinds: How many objects of each kind there are.
    """

    count: int
    variables: Mapping[str, Variable]
    callables: Mapping[str, CallableObject]
    concrete_functions: Mapping[str, ConcreteFunction]
    kinds: Mapping[str, int]
    _reader: Reader = field(repr=False, compare=False)
    _span: Span = field(repr=False, compare=False)
    _graph: _native.SavedObjects | None = field(repr=False, compare=False)

    def match_keys(self, graph: checkpoint_graph.Graph) -> dict[str, str]:
        """The key in a checkpoint of each variable that has a value there, by path."""
        if self._graph is None or graph.natively is None:
            return self._match_keys(graph)
        return self._graph.match(graph.natively)

    def _match_keys(self, graph: checkpoint_graph.Graph) -> dict[str, str]:
        nodes = _read_nodes(self._reader, self._span)
        twins = {0: 0} if nodes and graph.nodes else {}
        queue = list(twins)
        for number in queue:
            children = nodes[number].children
            if not children:
                continue
            others = graph.nodes[twins[number]].children
            for name, child in children.items():
                if name in others and child not in twins:
                    twins[child] = others[name]
                    queue.append(child)
        for number in queue:
            node, stored = nodes[number], graph.nodes[twins[number]]
            if not node.slots:
                continue
            places = {(variable, name): slot for variable, name, slot in stored.slots}
            for variable, name, slot in node.slots:
                found = places.get((twins.get(variable, -1), name))
                if found is not None:
                    twins.setdefault(slot, found)
        keys: dict[str, str] = {}
        paths = _find_paths(nodes, ("variable",), self._span)
        for path, number in {path: number for number, path in paths.items()}.items():
            attributes = graph.nodes[twins[number]].attributes if number in twins else ()
            for name, _, key in attributes:
                if name == VALUE:
                    keys[path] = key
        return keys


class _Found(NamedTuple):
    """What was found in an object graph.

    Attributes:
        kinds: How many objects of each kind there are.
        variables: By path.
        functions: The path, the kind and the place of each function.
    """

    kinds: dict[str, int]
    variables: dict[str, Variable]
    functions: list[tuple[str, str, Span]]


def read_objects(reader: Reader, span: Span) -> Objects:
    """The objects that a SavedObjectGraph has.

    Raises:
        FormatError: It leads to objects that it does not have.
    """
    fields = reader.read("SavedObjectGraph", span, without="nodes")
    graph = _parse_natively(reader, span)
    found = _walk(reader, span) if graph is None else _list_natively(reader, graph)
    spans = [place for _, kind, place in found.functions if kind == "function"]
    bare_spans = [place for _, kind, place in found.functions if kind != "function"]
    functions = iter(reader.rows("SavedFunction", spans))
    bare = iter(reader.rows("SavedBareConcreteFunction", bare_spans))
    callables = {
        path: CallableObject(
            path, tuple(next(functions)[0] if kind == "function" else next(bare)[:1])
        )
        for path, kind, _ in found.functions
    }
    named = reader.entries("ConcreteFunctionEntry", fields.get("concrete_functions", []))
    described = reader.rows("SavedConcreteFunction", list(named.values()))
    rows = [(name, reader, *sides) for name, sides in zip(named, described, strict=True)]
    concrete = dict(zip(named, make_many(ConcreteFunction, rows), strict=True))
    return Objects(
        sum(found.kinds.values()),
        MappingProxyType(found.variables),
        MappingProxyType(callables),
        MappingProxyType(concrete),
        MappingProxyType({kind: count for kind, count in found.kinds.items() if count}),
        reader,
        span,
        graph,
    )


def _parse_natively(reader: Reader, span: Span) -> _native.SavedObjects | None:
    """An object graph of the usual form; None for any other."""
    most = min(allowed(len(reader.data)) // PART, sys.maxsize)
    room = room_for_paths(span.end - span.start)
    return _native.saved_objects(reader.data, *span, most=most, room=room)


def _list_natively(reader: Reader, graph: _native.SavedObjects) -> _Found:
    """What an object graph of the usual form has."""
    counts, rows, described, functions = graph.list()
    kinds = {kind: counts[number] for number, kind in _NUMBERS.items()}
    kinds["user_object"] += counts[0]  # what else TensorFlow has, or will have
    dtypes = [read_dtype(dtype, offset) for dtype, offset, _ in described]
    shapes = [() if shape is None else read_shape(reader, Span(*shape)) for *_, shape in described]
    variables = make_many(
        Variable,
        [(path, name, dtypes[kind], shapes[kind], trained) for path, name, kind, trained in rows],
    )
    return _Found(
        kinds,
        dict(zip([path for path, *_ in rows], variables, strict=True)),
        [(path, _NUMBERS[number], Span(start, end)) for path, number, start, end in functions],
    )


def _walk(reader: Reader, span: Span) -> _Found:
    """The same of any object graph."""
    nodes = _read_nodes(reader, span)
    paths = _find_paths(nodes, ("variable", "function", "bare_concrete_function"), span)
    numbers = {path: number for number, path in paths.items() if nodes[number].kind == "variable"}
    variables = _read_variables(reader, numbers, nodes)
    functions = [
        (path, nodes[number].kind, nodes[number].span)
        for number, path in paths.items()
        if nodes[number].kind != "variable"
    ]
    kinds = dict.fromkeys(KINDS, 0)
    for node in nodes:
        kinds[node.kind] += 1
    return _Found(kinds, variables, functions)


def _read_nodes(reader: Reader, span: Span) -> tuple[_Node, ...]:
    """All objects, the root first."""
    places = reader.counted("SavedObjectGraph", "nodes", span, size=PART, what="objects")
    count = len(places)
    return tuple(
        _NOTHING if place.start == place.end else _make_node(row, place, count)
        for row, place in zip(reader.rows("SavedObject", places), places, strict=True)
    )


def _make_node(row: Sequence[Any], span: Span, count: int) -> _Node:
    """An object.

    Args:
        row: Its fields, in the order of the table: children, slots, and what it may be.
        span: Where it stands.
        count: How many objects there are.
    """
    references, slots = row[0], row[1]
    children = checkpoint_graph.NO_CHILDREN
    if references or slots:
        try:
            children = checkpoint_graph.find_children(references, slots, count)
        except FormatError as error:
            error.offset = span.start
            raise
    found = [(kind, place) for kind, place in zip(KINDS, row[2:], strict=True) if place is not None]
    if not found:  # what else TensorFlow has, or will have, is an object of somebody
        return _Node(children, slots, "user_object", Span(span.end, span.end))
    if len(found) > 1:
        raise FormatError(f"an object is {found[0][0]} and {found[1][0]}", offset=span.start)
    return _Node(children, slots, *found[0])


def _find_paths(nodes: tuple[_Node, ...], kinds: tuple[str, ...], span: Span) -> dict[int, str]:
    """The shortest way to each object of some kinds, the nearest first; slots last."""
    above = checkpoint_graph.find_ways([node.children for node in nodes])
    queue = list(above)
    budget = room_for_paths(span.end - span.start)

    def way(number: int) -> str:
        nonlocal budget
        names = []
        while number:
            number, name = above[number]
            names.append(name)
            budget -= len(name) + 1
            if budget < 0:
                raise LimitError(
                    "the ways to the objects are far longer than the object graph",
                    offset=span.start,
                )
        return "/".join(reversed(names))

    paths = {number: way(number) for number in queue if nodes[number].kind in kinds}
    for number in queue:
        for variable, name, slot in nodes[number].slots:
            if slot not in above and variable in above:
                above[slot] = -1, name
                paths[slot] = "/".join(filter(None, (way(number), name, way(variable))))
    return {number: path for number, path in paths.items() if nodes[number].kind in kinds}


def _read_variables(
    reader: Reader, numbers: Mapping[str, int], nodes: tuple[_Node, ...]
) -> dict[str, Variable]:
    """The variables by path, of which the numbers of their objects are known."""
    spans = [nodes[number].span for number in numbers.values()]
    found = reader.rows("SavedVariable", spans)
    rows = (
        (
            path,
            name,
            read_dtype(dtype, span.start),
            () if shape is None else read_shape(reader, shape),
            trainable,
        )
        for path, span, (dtype, shape, trainable, name) in zip(numbers, spans, found, strict=True)
    )
    return dict(zip(numbers, make_many(Variable, rows), strict=True))
