"""The graph of a SavedModel: its nodes, the functions of its library, constants and ops.

A GraphDef has nodes and a library of functions, which have nodes again. A node has a name, an op
and attributes by name; the op is one of TensorFlow's, one that somebody registered (a custom op),
or a function of the library. Other functions are named in attributes, as the body of a loop is.
The tensor of a Const node stands in its attribute "value".

All nodes are walked over once, and nothing is run, resolved or expanded: a function that calls
itself is a fact to report. Constants are kept as places in the file, whose dtype and shape were
checked; their values are read by `tensorferry.formats.tensorproto` when they are asked for. Which
ops do more than compute is in `tensorferry.formats.savedmodel.ops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tensorferry import _native, dtypes, limits
from tensorferry.codecs.protobuf import BYTES, VARINT, Span
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError, FormatError, LimitError
from tensorferry.formats.savedmodel.cycles import find_cycles
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.formats.savedmodel.ops import ATTRIBUTES
from tensorferry.formats.savedmodel.specs import (
    Shape,
    TensorSpec,
    no_values,
    read_dtype,
    read_shape,
)
from tensorferry.tensors.infos import Kind, TensorInfo

if TYPE_CHECKING:
    from tensorferry.tensors.stored import Stored

CONST = "Const"
# Ops that hold a variable of TensorFlow 1.
VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})

# Up to how many bytes the entry of an attribute is remembered.
SHORT = 96

# Fields of NodeDef, of an attribute's entry and of AttrValue.
_NAME, _OP, _INPUT, _ATTR = 1, 2, 3, 5
_KEY, _VALUE = 1, 2
_ARGUMENT_NAME, _ARGUMENT_TYPE = 1, 3
_LIST, _TEXT, _TYPE, _SHAPE, _TENSOR, _FUNC = 1, 2, 6, 7, 8, 10
_WIRES = {3: VARINT, 4: 5, 5: VARINT, 6: VARINT}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library.

    Attributes:
        name: Such as "__inference_f_12".
        inputs: Names and dtypes of its arguments; shapes are in the concrete function, if any.
        outputs: Names and dtypes of what it returns.
        nodes: How many nodes it has.
        calls: The functions that it names, in its nodes and their attributes.
        recursive: Whether it can come to call itself.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: int
    calls: tuple[str, ...]
    recursive: bool = False


class Constants(Mapping[str, "Stored"]):
    """Constants by the names of their nodes; those of a function are "function:node"."""

    def __init__(self, reader: Reader, places: dict[tuple[str, str], Span]) -> None:
        # By function and node: a long name of a function is not there for each of its nodes.
        self._reader = reader
        self._places = places

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
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    @property
    def nbytes(self) -> int:
        """How many bytes of the file they take together."""
        return sum(span.end - span.start for span in self._places.values())


@dataclass(frozen=True, slots=True)
class Graph:
    """What a GraphDef has.

    Attributes:
        nodes: How many nodes there are outside of functions.
        ops: How often each op is used, functions' bodies included, each counted once.
        functions: The library, by name.
        constants: Of nodes and of functions.
        variables: The nodes that hold a variable, as TensorFlow 1 has them.
        unusual: How often an op has an attribute that makes it do more than compute.
    """

    nodes: int
    ops: Mapping[str, int]
    functions: Mapping[str, Function]
    constants: Constants
    variables: tuple[TensorSpec, ...]
    unusual: Mapping[str, int]


def read_graph(reader: Reader, span: Span) -> Graph:
    """Walks over a GraphDef.

    Raises:
        FormatError: A node lacks what it must have, or has it twice.
        LimitError: Attributes nest deeper than `tensorferry.limits.depth`.
    """
    fields = reader.read("GraphDef", span, without="node")
    walk = _Walk(reader)
    nodes, _ = walk.walk_nodes(reader.each("GraphDef", "node", span), "")
    library = fields.get("library")
    if library is not None:
        for place in reader.each("FunctionDefLibrary", "function", library):
            walk.walk_function(place)
    functions = walk.finish()
    ops = {op: count for op, count in sorted(walk.ops.items()) if op not in functions}
    constants = Constants(reader, walk.constants)
    return Graph(nodes, ops, functions, constants, tuple(walk.variables), walk.unusual)


def functions_named(reader: Reader, spans: Iterable[Span]) -> Iterator[tuple[str, ...]]:
    """For each node the functions that its attributes name, as a call and a loop do."""
    walk = _Walk(reader)
    for span in spans:
        _, _, attributes = walk.read_node(span)
        named = (name for attribute, _ in attributes.values() for name in attribute.functions)
        yield tuple(dict.fromkeys(named))


class _Attribute(NamedTuple):
    """An attribute of a node: which field it is, and where; a number is in `first` itself.

    The place counts from where the entry starts, so that it holds for all that are alike.
    """

    key: str
    number: int
    first: int
    last: int
    functions: tuple[str, ...] = ()
    shape: Shape = None


# By name, each with where its entry starts.
_Attributes = dict[str, tuple[_Attribute, int]]


class _Walk:
    """What is found on the way over all nodes."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.data = reader.data
        self.ops: Counter[str] = Counter()
        self.unusual: Counter[str] = Counter()
        self.constants: dict[tuple[str, str], Span] = {}
        self.variables: list[TensorSpec] = []
        self.functions: dict[str, Function] = {}
        self.words: dict[bytes, str] = {}
        self.attributes: dict[bytes, _Attribute] = {}

    def word(self, first: int, last: int) -> str:
        """A text of those that come again and again: ops, names of attributes."""
        key = bytes(self.data[first:last])
        known = self.words.get(key)
        if known is None:
            known = self.words[key] = self.reader.text(first, last)
        return known

    def walk_function(self, span: Span) -> None:
        """Takes in a function and its nodes."""
        fields = self.reader.read("FunctionDef", span, without="node_def")
        if "signature" not in fields:
            raise FormatError("a function without a signature", offset=span.start)
        signature = self.reader.read("OpDef", fields["signature"])
        name = signature.get("name", "")
        if name in self.functions:
            raise self.reader.twice(f"the function {name[:60]!r}", span.start)
        nodes, called = self.walk_nodes(self.reader.each("FunctionDef", "node_def", span), name)
        inputs, outputs = (
            tuple(self._argument(place) for place in signature.get(side, []))
            for side in ("input_arg", "output_arg")
        )
        # Which of them are functions is known when all have been read.
        self.functions[name] = Function(name, inputs, outputs, nodes, tuple(called))

    def _argument(self, span: Span) -> TensorSpec:
        # Functions may have thousands: not through the table of messages.
        name, dtype = "", 0
        for number, wire, first, last in _native.MessageFields(self.data, *span):
            if number == _ARGUMENT_NAME and wire == BYTES:
                name = self.reader.text(first, last)
            elif number == _ARGUMENT_TYPE and wire == VARINT:
                dtype = first
            elif number in (_ARGUMENT_NAME, _ARGUMENT_TYPE):
                raise FormatError(
                    f"field {number} of an argument has wire type {wire}", offset=span.start
                )
        return TensorSpec(name, read_dtype(dtype, span.start), None)

    def walk_nodes(self, spans: Iterable[Span], function: str) -> tuple[int, dict[str, None]]:
        """Takes in the nodes of the graph or of a function.

        Returns:
            How many there are, and the ops and functions that they name.
        """
        seen: set[str] = set()
        called: dict[str, None] = {}
        for span in spans:
            name, op, attributes = self.read_node(span)
            if name in seen:
                raise self.reader.twice(f"the node {name[:60]!r}", span.start)
            seen.add(name)
            self.ops[op] += 1
            called[op] = None
            for attribute, _ in attributes.values():
                if attribute.functions:
                    called.update(dict.fromkeys(attribute.functions))
            if op == CONST:
                self.constants[function, name] = self._check_constant(
                    attributes, span, f"{function[:40]}:{name}" if function else name
                )
            elif op in VARIABLES:
                self.variables.append(self._variable(name, attributes))
            elif op in ATTRIBUTES and not self._is_harmless(op, attributes):
                self.unusual[op] += 1
        return len(seen), called

    def read_node(self, span: Span) -> tuple[str, str, _Attributes]:
        """The name, the op and the attributes of a node."""
        name = op = ""
        attributes: _Attributes = {}
        data, known = self.data, self.attributes
        for number, wire, first, last in _native.MessageFields(data, *span):
            if number == _INPUT or number > _ATTR:
                continue
            if wire != BYTES:
                raise FormatError(
                    f"field {number} of a node has wire type {wire}, expected 2", offset=last
                )
            if number == _ATTR:
                # Most of them come again and again.
                attribute = known.get(bytes(data[first:last])) if last - first <= SHORT else None
                if attribute is None:
                    attribute = self._read_attribute(first, last)
                if attribute.key in attributes:
                    raise self.reader.twice(
                        f"the attribute {attribute.key[:60]!r} of the node {name[:60]!r}", first
                    )
                attributes[attribute.key] = attribute, first
            elif number == _OP:
                op = self.word(first, last)
            elif number == _NAME:
                name = self.reader.text(first, last)
        if not name or not op:
            raise FormatError(
                f"a node without {'an op' if name else 'a name'}",
                offset=span.start,
                tensor=name[:60] or None,
            )
        if ":" in name:  # which stands between a node and the number of its output
            raise FormatError(f"a node is called {name[:60]!r}, with a colon", offset=span.start)
        return name, op, attributes

    def _read_attribute(self, start: int, end: int) -> _Attribute:
        """An attribute from its entry."""
        key, value = self._read_entry(start, end)
        number, first, last = self._read_value(value, key)
        functions: tuple[str, ...] = ()
        shape: Shape = None
        if number == _SHAPE:
            shape = read_shape(self.reader, Span(first, last))
        elif number in (_LIST, _FUNC):
            functions = tuple(self._functions_in(number, first, last))
        if _WIRES.get(number, BYTES) == BYTES:
            first, last = first - start, last - start
        found = _Attribute(key, number, first, last, functions, shape)
        if end - start <= SHORT:
            self.attributes[bytes(self.data[start:end])] = found
        return found

    def _read_entry(self, start: int, end: int) -> tuple[str, Span]:
        key, value = "", Span(end, end)
        seen = set()
        for number, wire, first, last in _native.MessageFields(self.data, start, end):
            if number in seen:  # protobuf would merge the two
                raise self.reader.twice(f"field {number} of an attribute", start)
            seen.add(number)
            if (number, wire) == (_KEY, BYTES):
                key = self.word(first, last)
            elif (number, wire) == (_VALUE, BYTES):
                value = Span(first, last)
        return key, value

    def _read_value(self, span: Span, key: str) -> tuple[int, int, int]:
        """The number and the place of the one value of an attribute; 0 for none."""
        found = (0, span.end, span.end)
        for number, wire, first, last in _native.MessageFields(self.data, *span):
            if wire != _WIRES.get(number, BYTES) or found[0]:
                problem = f"has wire type {wire}" if not found[0] else "is a second value"
                raise FormatError(
                    f"field {number} of the attribute {key[:60]!r} {problem}", offset=span.start
                )
            found = number, first, last
        return found

    def _functions_in(self, number: int, first: int, last: int) -> Iterator[str]:
        """The functions that an attribute names, those in attributes of these included."""
        pending = [(number, Span(first, last), limits.depth)]
        while pending:
            number, span, depth = pending.pop()
            if depth < 0:
                raise LimitError(
                    f"attributes nest deeper than {limits.depth} messages", offset=span.start
                )
            if number == _LIST:
                for place in self.reader.each("ListValue", "func", span):
                    pending.append((_FUNC, place, depth - 1))
                continue
            fields = self.reader.read("NameAttrList", span)
            yield fields.get("name", "")
            for entry in fields.get("attr", []):
                key, value = self._read_entry(*entry)
                inner, start, end = self._read_value(value, key)
                if inner in (_LIST, _FUNC):
                    pending.append((inner, Span(start, end), depth - 3))

    def _is_harmless(self, op: str, attributes: _Attributes) -> bool:
        key, harmless = ATTRIBUTES[op]
        attribute, base = attributes.get(key, (None, 0))
        if attribute is None:
            return True
        value = bytes(self.data[base + attribute.first : base + attribute.last])
        return attribute.number == _TEXT and value in harmless

    def _variable(self, name: str, attributes: _Attributes) -> TensorSpec:
        dtype = shape = None
        for attribute, base in attributes.values():
            if (attribute.key, attribute.number) == ("dtype", _TYPE):
                dtype = read_dtype(attribute.first, base)
            elif attribute.key == "shape":
                shape = attribute.shape
        return TensorSpec(name, dtype, shape)

    def _check_constant(self, attributes: _Attributes, span: Span, name: str) -> Span:
        attribute, base = attributes.get("value", (None, 0))
        if attribute is None or attribute.number != _TENSOR:
            raise FormatError(
                "a Const node without a tensor as its value", offset=span.start, tensor=name[:60]
            )
        value = Span(base + attribute.first, base + attribute.last)
        try:
            _native.tensorproto_scan(self.data, *value)
        except FerryError as error:
            raise error.located(tensor=name[:60]) from None
        return value

    def finish(self) -> dict[str, Function]:
        """All functions, with what they call."""
        calls = {
            name: tuple(called for called in function.calls if called in self.functions)
            for name, function in self.functions.items()
        }
        recursive = find_cycles(calls)
        return {
            name: replace(function, calls=calls[name], recursive=name in recursive)
            for name, function in self.functions.items()
        }
