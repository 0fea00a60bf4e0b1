"""The graph of a SavedModel: its nodes, the functions of its library, constants and ops.

A GraphDef has nodes and a library of functions, which have nodes again. A node has a name, an op
and attributes by name; the op is one of TensorFlow's, one that somebody registered (a custom op),
or a function of the library. Other functions are named in attributes, as the body of a loop is.
The tensor of a Const node stands in its attribute "value".

All nodes are walked over once, in `tensorferry._native`; nothing is run, resolved or expanded, and
a function that calls itself is a fact to report. Constants are kept as places in the file, whose
dtype and shape were checked; their values are read by `tensorferry.formats.tensorproto` when they
are asked for. Which ops do more than compute is in `tensorferry.formats.savedmodel.ops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tensorferry import _native, dtypes, limits
from tensorferry.classes import dataclass, field
from tensorferry.codecs.protobuf import Span, find_field
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError, FormatError
from tensorferry.formats.savedmodel.cycles import find_cycles
from tensorferry.formats.savedmodel.messages import PART, TABLES, Reader
from tensorferry.formats.savedmodel.ops import ATTRIBUTES
from tensorferry.formats.savedmodel.specs import (
    TensorSpec,
    no_values,
    read_dtype,
    read_shape,
)
from tensorferry.tensors.infos import Kind, TensorInfo

if TYPE_CHECKING:
    from tensorferry.tensors.stored import Stored

# Ops that hold a variable of TensorFlow 1.
VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})

# The nodes that are looked at here; all others are only checked and counted.
_WATCHED = (*sorted(VARIABLES), *ATTRIBUTES)
_LOOKED_AT = ("dtype", "shape", *dict.fromkeys(key for key, _ in ATTRIBUTES.values()))

# Fields of AttrValue.
_TEXT, _TYPE, _SHAPE = 2, 6, 7
_NODE_OF_GRAPH = find_field(TABLES, "GraphDef", "node").number
_NODE_OF_FUNCTION = find_field(TABLES, "FunctionDef", "node_def").number


# An attribute of a node: its key, which field its value is, and where; a number is in the place of
# the start itself.
_Attribute = tuple[str, int, int, int]

# Names of arguments, and the numbers of their dtypes, which were checked.
_Arguments = Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library.

    Attributes:
        name: Such as "__inference_f_12".
        nodes: How many nodes it has.
        calls: The functions that it names, in its nodes and their attributes.
        recursive: Whether it can come to call itself.
    """

    name: str
    nodes: int
    calls: tuple[str, ...]
    recursive: bool
    _inputs: _Arguments = field(repr=False)
    _outputs: _Arguments = field(repr=False)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names and dtypes of its arguments; shapes are in the concrete function, if any."""
        return _specs_of(self._inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names and dtypes of what it returns."""
        return _specs_of(self._outputs)


def _specs_of(arguments: _Arguments) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, read_dtype(dtype, 0), None) for name, dtype in arguments)


class Constants(Mapping[str, "Stored"]):
    """Constants by the names of their nodes; those of a function are "function:node"."""

    def __init__(self, reader: Reader, tables: list[tuple[str, bytes]]) -> None:
        # For each function four numbers a constant: where its name starts and ends, and its tensor.
        self._reader = reader
        self._tables = tables

    def _columns(self) -> Iterator[tuple[str, memoryview]]:
        return ((function, memoryview(table).cast("Q")) for function, table in self._tables)

    @cached_property
    def _places(self) -> dict[tuple[str, str], Span]:
        # By function and node: a long name of a function is not there for each of its nodes.
        places = {}
        for function, table in self._columns():
            for place in range(0, len(table), 4):
                first, last, start, end = table[place : place + 4]
                places[function, self._reader.text(first, last)] = Span(start, end)
        return places

    def _find(self, name: object) -> Span | None:
        if not isinstance(name, str):
            return None
        function, _, node = name.rpartition(":")  # which the name of a node cannot have
        return self._places.get((function, node)) or self._places.get(("", name))

    def __getitem__(self, name: str) -> Stored:
        from tensorferry.formats.savedmodel import constants  # with NumPy: only values need it

        return constants.stored(self._reader, *self._scan(name))

    def describe(self, name: str) -> TensorInfo:
        """What a constant is like."""
        span, row, shape = self._scan(name)
        kind: Kind = "string" if row is dtypes.STRING else "dense"
        nbytes = span.end - span.start
        return TensorInfo(name, row.name, shape, nbytes, kind, unreadable=no_values(row))

    def _scan(self, name: str) -> tuple[Span, DType, tuple[int | None, ...]]:
        """Where a constant lies, its dtype and shape."""
        span = self._find(name)
        if span is None:
            raise KeyError(name)
        enum, shape, *_ = _native.tensorproto_scan(self._reader.data, *span)
        try:
            row = read_dtype(enum, span.start)
            if row is None:
                raise FormatError("a constant without a dtype", offset=span.start)
        except FerryError as error:
            raise self._reader.located(error).located(tensor=name[:60]) from None
        return span, row, tuple(shape)

    def __iter__(self) -> Iterator[str]:
        for function, node in self._places:
            yield f"{function}:{node}" if function else node

    def __len__(self) -> int:
        return sum(len(table) // 4 for _, table in self._columns())

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    @property
    def nbytes(self) -> int:
        """How many bytes of the file they take together."""
        return sum(sum(table[3::4]) - sum(table[2::4]) for _, table in self._columns())


@dataclass(frozen=True, slots=True)
class Graph:
    """What a GraphDef has.

    Attributes:
        nodes: How many nodes there are outside of functions.
        ops: How often each op is used, functions' bodies included, each counted once.
        functions: The library, by name.
        constants: Of nodes and of functions.
        unusual: How often an op has an attribute that makes it do more than compute.
    """

    nodes: int
    ops: Mapping[str, int]
    functions: Mapping[str, Function]
    constants: Constants
    unusual: Mapping[str, int]
    _reader: Reader = field(repr=False, compare=False)
    _variables: list[tuple[str, list[_Attribute]]] = field(repr=False, compare=False)

    @property
    def variables(self) -> tuple[TensorSpec, ...]:
        """The nodes that hold a variable, as TensorFlow 1 has them."""
        return tuple(_variable(self._reader, *found) for found in self._variables)


def _variable(reader: Reader, name: str, attributes: list[_Attribute]) -> TensorSpec:
    dtype = shape = None
    for key, number, first, last in attributes:
        if (key, number) == ("dtype", _TYPE):
            dtype = read_dtype(first, last)
        elif (key, number) == ("shape", _SHAPE):
            shape = read_shape(reader, Span(first, last))
    return TensorSpec(name, dtype, shape)


def read_graph(reader: Reader, span: Span) -> Graph:
    """Walks over a GraphDef.

    Raises:
        FormatError: A node lacks what it must have, or has it twice.
        LimitError: Attributes nest deeper than `tensorferry.limits.depth`.
    """
    fields = reader.read("GraphDef", span, without="node")
    walk = _Walk(reader)
    nodes, _ = walk.walk_nodes(span, _NODE_OF_GRAPH, "")
    library = fields.get("library")
    if library is not None:
        places = reader.counted(
            "FunctionDefLibrary", "function", library, size=PART, what="functions"
        )
        for place in places:
            walk.walk_function(place)
    functions = walk.finish()
    ops = {op: count for op, count in sorted(walk.ops.items()) if op not in functions}
    constants = Constants(reader, walk.constants)
    return Graph(nodes, ops, functions, constants, walk.unusual, reader, walk.variables)


def functions_named(reader: Reader, span: Span) -> tuple[str, ...]:
    """The functions that the attributes of a node name, as a call and a loop do."""
    return tuple(dict.fromkeys(_native.node_functions(reader.data, *span, depth=limits.depth)))


class _Walk:
    """What is found on the way over all nodes, which `_native` checks and counts."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.data = reader.data
        self.ops: Counter[str] = Counter()
        self.unusual: Counter[str] = Counter()
        self.constants: list[tuple[str, bytes]] = []
        self.variables: list[tuple[str, list[_Attribute]]] = []
        self.functions: dict[str, tuple[int, tuple[str, ...], _Arguments, _Arguments]] = {}

    def walk_function(self, span: Span) -> None:
        """Takes in a function and its nodes."""
        fields = self.reader.read("FunctionDef", span, without="node_def")
        if "signature" not in fields:
            raise FormatError("a function without a signature", offset=span.start)
        place = fields["signature"]
        ((name, inputs, outputs),) = self.reader.rows("OpDef", [place])
        if name in self.functions:
            raise self.reader.twice(f"the function {name[:60]!r}", span.start)
        nodes, called = self.walk_nodes(span, _NODE_OF_FUNCTION, name)
        for dtype in {dtype for side in (inputs, outputs) for _, dtype in side}:
            read_dtype(dtype, place.start)
        self.functions[name] = nodes, called, inputs, outputs

    def walk_nodes(self, span: Span, field: int, function: str) -> tuple[int, tuple[str, ...]]:
        """Takes in the nodes of the graph or of a function.

        Args:
            span: The message that has the nodes.
            field: The number of its field that they are.
            function: The name of the function, "" for the graph.

        Returns:
            How many there are, and the ops and functions that they name.
        """
        try:
            count, named, constants, watched = _native.graph_nodes(
                self.data,
                *span,
                field=field,
                watched=_WATCHED,
                attributes=_LOOKED_AT,
                depth=limits.depth,
            )
        except FerryError as error:
            if function and error.tensor:
                error.tensor = f"{function[:40]}:{error.tensor}"
            raise
        for op, times in named:
            if times:
                self.ops[op] += times
        if constants:
            self.constants.append((function, constants))
        for name, op, attributes in watched:
            if op in VARIABLES:
                for key, number, first, last in attributes:
                    if number == _TYPE and key == "dtype":
                        read_dtype(first, last)
                self.variables.append((name, attributes))
            elif not self._is_harmless(op, attributes):
                self.unusual[op] += 1
        return count, tuple(op for op, _ in named)

    def _is_harmless(self, op: str, attributes: list[_Attribute]) -> bool:
        key, harmless = ATTRIBUTES[op]
        for name, number, first, last in attributes:
            if name == key:
                return number == _TEXT and bytes(self.data[first:last]) in harmless
        return True

    def finish(self) -> dict[str, Function]:
        """All functions, with what they call."""
        # Which names are those of functions is known when all have been read.
        calls = {
            name: tuple(called for called in named if called in self.functions)
            for name, (_, named, _, _) in self.functions.items()
        }
        recursive = find_cycles(calls)
        return {
            name: Function(name, nodes, calls[name], name in recursive, inputs, outputs)
            for name, (nodes, _, inputs, outputs) in self.functions.items()
        }
