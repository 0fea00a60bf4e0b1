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

from collections.abc import Iterator, Mapping
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
_LOOKED_AT: dict[str, tuple[str, ...]] = {
    "variables": tuple(sorted(VARIABLES)),
    "watched": tuple(ATTRIBUTES),
    "attributes": tuple({key: None for key, _ in ATTRIBUTES.values()}),
}

# Fields of AttrValue.
_TEXT, _TYPE, _SHAPE = 2, 6, 7
_NODE = find_field(TABLES, "GraphDef", "node").number


# Number of bytes that a table has for each constant.
_CONSTANT = 4 * 8

# An attribute of a node: its key, which field its value is, and where; a number is in the place of
# the start itself.
_Attribute = tuple[str, int, int, int]

# How many nodes there are, tables of their constants and variables, and the watched ones.
_Nodes = tuple[int, bytes, bytes, list[tuple[str, list[_Attribute]]]]


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
    _signature: _Signature = field(repr=False)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names and dtypes of its arguments; shapes are in the concrete function, if any."""
        return self._signature.read()[0]

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names and dtypes of what it returns."""
        return self._signature.read()[1]


class _Signature:
    """The arguments and results of a function, which were checked, read when they are asked for.

    Args:
        data: An OpDef, which has more than those.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> tuple[tuple[TensorSpec, ...], ...]:
        """The arguments, and the results."""
        ((_, *sides),) = Reader(self._data).rows("OpDef", [Span(0, len(self._data))])
        return tuple(
            tuple(TensorSpec(name, read_dtype(dtype, 0), None) for name, dtype in side)
            for side in sides
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Signature) and self.read() == other.read()

    def __hash__(self) -> int:
        return hash(self.read())


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
        return sum([len(table) // _CONSTANT for _, table in self._tables])

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
    # For each variable four numbers: where its node starts and ends, its dtype, and where that is.
    _variables: list[bytes] = field(repr=False, compare=False)

    @property
    def variables(self) -> tuple[TensorSpec, ...]:
        """The nodes that hold a variable, as TensorFlow 1 has them."""
        return tuple(
            _read_variable(self._reader, Span(*span))
            for table in (memoryview(found).cast("Q") for found in self._variables)
            for span in zip(table[::4], table[1::4], strict=True)
        )


def _read_variable(reader: Reader, span: Span) -> TensorSpec:
    name, attributes = _native.node_attributes(
        reader.data, *span, keys=("dtype", "shape"), depth=limits.depth
    )
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
    nodes = walk.walk_nodes(span)
    library = fields.get("library")
    functions: dict[str, Function] = {}
    if library is not None:
        places = reader.counted(
            "FunctionDefLibrary", "function", library, size=PART, what="functions"
        )
        functions = walk.walk_functions(places)
    ops = {op: count for op, count in sorted(walk.ops.items()) if op not in functions}
    constants = Constants(reader, walk.constants)
    return Graph(nodes, ops, functions, constants, walk.unusual, reader, walk.variables)


def functions_named(reader: Reader, span: Span) -> tuple[str, ...]:
    """The functions that the attributes of a node name, as a call and a loop do."""
    return tuple(dict.fromkeys(_native.node_functions(reader.data, *span, depth=limits.depth)))


class _Walk:
    """What is found on the way over all nodes, which `_native` checks and counts."""

    def __init__(self, reader: Reader) -> None:
        self.data = reader.data
        self.ops: dict[str, int] = {}
        self.unusual: dict[str, int] = {}
        self.constants: list[tuple[str, bytes]] = []
        self.variables: list[bytes] = []

    def walk_nodes(self, span: Span) -> int:
        """Takes in the nodes of the graph outside of functions, and gives their number."""
        ops, nodes = _native.graph_nodes(
            self.data, span.start, span.end, field=_NODE, depth=limits.depth, **_LOOKED_AT
        )
        self._count(ops)
        return self._take("", nodes)

    def walk_functions(self, places: list[Span]) -> dict[str, Function]:
        """Takes in the functions of the library and their nodes."""
        ops, found = _native.graph_functions(self.data, places, depth=limits.depth, **_LOOKED_AT)
        self._count(ops)
        recursive = find_cycles({name: calls for name, _, _, _, calls, _ in found})
        functions = {}
        for name, offset, signature, numbers, calls, nodes in found:
            for number in numbers:
                read_dtype(number, offset)
            count = self._take(name, nodes)
            functions[name] = Function(name, count, calls, name in recursive, _Signature(signature))
        return functions

    def _count(self, ops: list[tuple[str, int]]) -> None:
        for op, count in ops:
            if count:
                self.ops[op] = self.ops.get(op, 0) + count

    def _take(self, function: str, nodes: _Nodes) -> int:
        """Takes in what was found of nodes, and gives their number."""
        count, constants, variables, watched = nodes
        if constants:
            self.constants.append((function, constants))
        if variables:
            self.variables.append(variables)
            _check_dtypes(memoryview(variables).cast("Q"))
        for op, attributes in watched:
            if not self._is_harmless(op, attributes):
                self.unusual[op] = self.unusual.get(op, 0) + 1
        return count

    def _is_harmless(self, op: str, attributes: list[_Attribute]) -> bool:
        key, harmless = ATTRIBUTES[op]
        for name, number, first, last in attributes:
            if name == key:
                return number == _TEXT and bytes(self.data[first:last]) in harmless
        return True


def _check_dtypes(table: memoryview[int]) -> None:
    """Looks for dtypes that TensorFlow does not have, in a table of variables.

    Raises:
        FormatError: There is one.
    """
    numbers = table[2::4].tolist()
    for number in dict.fromkeys(numbers):
        read_dtype(number, table[4 * numbers.index(number) + 3])
