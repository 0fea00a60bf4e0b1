"""Descriptions of tensors in a SavedModel: dtypes, shapes, signatures and structures of those.

A TensorShapeProto has an unknown dimension as -1, and may say that not even the rank is known. A
StructuredValue (see `tensorferry.formats.structure`, which reads those that hold values) nests
descriptions in lists, tuples and dicts, as the arguments of a function nest tensors. Here a shape
is a tuple with None for each unknown dimension, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tensorferry import dtypes, limits
from tensorferry.budget import room_for_paths
from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import Span
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError, FormatError, LimitError
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.tensors.infos import is_namedtuple, make_namedtuple

Shape = tuple[int | None, ...] | None

# TensorFlow's own limit.
MAX_RANK = 254

# By the number of TypeSpecProto.type_spec_class.
SPEC_CLASSES = {
    1: "SparseTensorSpec",
    2: "IndexedSlicesSpec",
    3: "RaggedTensorSpec",
    4: "TensorArraySpec",
    5: "DatasetSpec",
    6: "IteratorSpec",
    7: "OptionalSpec",
    8: "PerReplicaSpec",
    9: "VariableSpec",
    10: "RowPartitionSpec",
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a tensor is like.

    Attributes:
        name: Of the tensor in the graph, as in "serving_default_x:0", or of an argument; "" for
            none.
        dtype: None where the file does not say.
        shape: None if the rank is unknown, in it None for each unknown dimension.
        kind: "dense", "sparse", or the name of another type that is made of several tensors.
        parts: Of a tensor of several: the names of these in the graph.
    """

    name: str
    dtype: DType | None
    shape: Shape
    kind: str = "dense"
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        dtype = "?" if self.dtype is None else self.dtype.name
        return f"{'' if self.kind == 'dense' else self.kind + ' '}{dtype}{show_shape(self.shape)}"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """What a value of several tensors is like.

    Attributes:
        name: Of its class, such as "RaggedTensorSpec".
        state: What it was made with.
    """

    name: str
    state: Any


# Up to how many bytes a shape is remembered.
SHORT = 96


def show_shape(shape: Shape) -> str:
    """A shape as people write it: "[?, 3]", or "[...]" for an unknown rank."""
    if shape is None:
        return "[...]"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def read_dtype(number: int, offset: int) -> DType | None:
    """The row of a dtype's number; None for 0, where nothing is said.

    Raises:
        FormatError: TensorFlow has no such dtype.
    """
    if number == 0:
        return None
    row = dtypes.BY_ENUM.get(number - 100 if number > 100 else number)  # references: TF 1
    if row is None:
        raise FormatError(
            f"dtype number {number}, expected 1 to {dtypes.TABLE[-1].enum}", offset=offset
        )
    return row


def read_shape(reader: Reader, span: Span) -> Shape:
    """The shape that a TensorShapeProto is.

    Raises:
        FormatError: A dimension is negative, and not -1.
        LimitError: There are more dimensions than TensorFlow allows.
    """
    raw = bytes(reader.data[span.start : span.end]) if span.end - span.start <= SHORT else None
    if raw in reader.shapes:  # of most there are many
        return reader.shapes[raw]
    shape = _read_shape(reader, span)
    if raw is not None:
        reader.shapes[raw] = shape
    return shape


def _read_shape(reader: Reader, span: Span) -> Shape:
    ((dims, has_unknown_rank),) = reader.rows("TensorShapeProto", [span])
    if has_unknown_rank:
        if dims:
            raise FormatError(f"a shape of unknown rank with {len(dims)} sizes", offset=span.start)
        return None
    if len(dims) > MAX_RANK:
        raise LimitError(f"{len(dims)} dimensions, at most {MAX_RANK} are known", offset=span.start)
    for number, (size,) in enumerate(dims):
        if size < -1:
            offset = reader.read("TensorShapeProto", span)["dim"][number].start
            raise FormatError(f"dimension {number} is {size}, expected at least -1", offset=offset)
    return tuple([None if size == -1 else size for (size,) in dims])


def read_infos(reader: Reader, spans: list[Span]) -> list[TensorSpec]:
    """What each TensorInfo says of an input or output."""
    rows = reader.rows("TensorInfo", spans)
    return [_read_info(reader, *each) for each in zip(spans, rows, strict=True)]


def _read_info(
    reader: Reader, span: Span, row: tuple[str, int, Span | None, Span | None, Span | None]
) -> TensorSpec:
    name, number, place, coo, composite = row
    dtype = read_dtype(number, span.start)
    # Without a shape the rank is unknown: a scalar has one, which is empty.
    shape = None if place is None else read_shape(reader, place)
    if coo is not None:
        sparse = reader.read("CooSparse", coo)
        names = ("indices_tensor_name", "values_tensor_name", "dense_shape_tensor_name")
        return TensorSpec("", dtype, shape, "sparse", tuple(sparse.get(name, "") for name in names))
    if composite is not None:
        whole = reader.read("CompositeTensor", composite)
        kind = "composite"
        if "type_spec" in whole:
            described = reader.read("TypeSpecProto", whole["type_spec"])
            kind = _class_name(described) or kind
        components = [reader.read("TensorInfo", part) for part in whole.get("components", [])]
        parts = tuple(component.get("name", "") for component in components)
        return TensorSpec("", dtype, shape, kind, parts)
    return TensorSpec(name, dtype, shape)


def read_tensor(reader: Reader, span: Span) -> Any:
    """The tensor that a TensorProto is."""
    # With NumPy: only values need it.
    from tensorferry.formats.tensorproto import message as tensorproto

    try:
        return tensorproto.read(reader.data, start=span.start, end=span.end, budget=reader.budget)
    except FerryError as error:
        raise reader.located(error) from None


@dataclass(frozen=True, slots=True)
class Default:
    """The value that an input has unless it is given; read when it is asked for."""

    reader: Reader
    span: Span

    def read(self) -> Any:
        """The tensor."""
        return read_tensor(self.reader, self.span)


@dataclass(frozen=True, slots=True)
class Signature:
    """A way to call the model.

    Attributes:
        name: Such as "serving_default".
        method: What it is for, such as "tensorflow/serving/predict".
        inputs: By name.
        outputs: By name.
        defaults: The values of inputs that need not be given.
    """

    name: str
    method: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    defaults: Mapping[str, Default]


def read_signatures(reader: Reader, named: Mapping[str, Span]) -> dict[str, Signature]:
    """Signatures in the order of their names.

    Args:
        reader: Of the file.
        named: The place of each SignatureDef, by the name of the signature.
    """
    names = sorted(named)
    rows = reader.rows("SignatureDef", [named[name] for name in names])
    places = [
        # A writer may leave out a value that is all zeros.
        Span(0, 0) if place is None else place
        for inputs, outputs, _, _ in rows
        for entries in (inputs, outputs)
        for _, place in entries
    ]
    specs = iter(read_infos(reader, places))
    found = {}
    for name, (inputs, outputs, method, defaults) in zip(names, rows, strict=True):
        sides = [{key: next(specs) for key, _ in entries} for entries in (inputs, outputs)]
        values: Mapping[str, Span] = {}
        if defaults or len(sides[0]) < len(inputs) or len(sides[1]) < len(outputs):
            fields = reader.read("SignatureDef", named[name])
            for side in ("inputs", "outputs"):
                reader.entries("TensorInfoEntry", fields.get(side, []))  # tells what comes twice
            values = reader.entries("TensorEntry", fields.get("defaults", []))
        found[name] = Signature(
            name,
            method,
            MappingProxyType(dict(sorted(sides[0].items()))),
            MappingProxyType(dict(sorted(sides[1].items()))),
            MappingProxyType({key: Default(reader, place) for key, place in values.items()}),
        )
    return found


def _class_name(fields: Mapping[str, Any]) -> str:
    known = SPEC_CLASSES.get(fields.get("type_spec_class", 0))
    return known or fields.get("type_spec_class_name", "")


def read_structure(reader: Reader, span: Span, depth: int | None = None) -> Any:
    """What a StructuredValue describes, as nested lists, tuples and dicts.

    The leaves are `TensorSpec`, `TypeSpec`, shapes, `DType`, arrays and plain values.

    Raises:
        LimitError: It nests deeper than `tensorferry.limits.depth`.
    """
    left = limits.depth if depth is None else depth
    if left < 0:
        raise LimitError(
            f"more than {limits.depth} messages inside each other",
            offset=span.start,
            hint="raise tensorferry.limits.depth if the file is to be trusted",
        )
    fields = reader.read("StructuredValue", span)
    if len(fields) != 1:
        raise FormatError(f"{len(fields)} values where one is expected", offset=span.start)
    ((kind, value),) = fields.items()
    if kind in ("list_value", "tuple_value"):
        spans = reader.read("ValueList", value).get("values", [])
        elements = [read_structure(reader, place, left - 2) for place in spans]
        return elements if kind == "list_value" else tuple(elements)
    if kind == "dict_value":
        return _read_pairs(reader, reader.read("ValueDict", value).get("fields", []), left - 3)
    if kind == "named_tuple_value":
        described = reader.read("ValuePairs", value)
        pairs = _read_pairs(reader, described.get("values", []), left - 3)
        try:
            return make_namedtuple(described.get("name", ""), tuple(pairs))(*pairs.values())
        except FerryError as error:
            raise FormatError(f"a named tuple: {error.message}", offset=value.start) from None
    if kind == "type_spec_value":
        described = reader.read("TypeSpecProto", value)
        state = described.get("type_state")
        inner = None if state is None else read_structure(reader, state, left - 2)
        return TypeSpec(_class_name(described), inner)
    return _read_leaf(reader, kind, value, span)


def _read_leaf(reader: Reader, kind: str, value: Any, span: Span) -> Any:
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        described = reader.read("TensorSpecProto", value)
        shape = described.get("shape")
        return TensorSpec(
            described.get("name", ""),
            read_dtype(described.get("dtype", 0), value.start),
            () if shape is None else read_shape(reader, shape),
        )
    if kind == "tensor_shape_value":
        return read_shape(reader, value)
    if kind == "tensor_dtype_value":
        return read_dtype(value, span.start)
    if kind in ("tensor_value", "numpy_value"):
        return read_tensor(reader, value)
    return None if kind == "none_value" else value


def _read_pairs(reader: Reader, spans: list[Span], depth: int) -> dict[str, Any]:
    pairs = reader.entries("ValuePair", spans)
    return {key: read_structure(reader, place, depth) for key, place in pairs.items()}


def specs_in(structure: Any, span: Span) -> dict[str, TensorSpec]:
    """The tensors of a structure, by their way in it: "0/x".

    Args:
        structure: What `read_structure` gave.
        span: Where it stands.

    Raises:
        LimitError: The ways are far longer than the structure, which has a long name for many.
    """
    found: dict[str, TensorSpec] = {}
    budget = room_for_paths(span.end - span.start)
    pending = [("", structure)]
    while pending:
        way, element = pending.pop()
        if isinstance(element, TensorSpec):
            found[way] = element
            continue
        inner = []
        for key, value in _inner(element):
            budget -= len(way) + len(key)
            if budget < 0:
                raise LimitError(
                    "the ways to tensors are far longer than their structure", offset=span.start
                )
            inner.append((f"{way}/{key}" if way else key, value))
        pending += reversed(inner)
    return found


def _inner(structure: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(structure, Mapping):
        return structure.items()
    if is_namedtuple(structure):
        pairs: dict[str, Any] = structure._asdict()
        return pairs.items()
    if isinstance(structure, list | tuple):
        return ((str(place), element) for place, element in enumerate(structure))
    return ()


# Dtypes of TensorFlow's own objects.
OBJECTS = ("resource", "variant")


def no_values(row: DType) -> str | None:
    """Why a constant of a dtype cannot be read; None if it can."""
    if row.name not in OBJECTS:
        return None
    return f"a {row.name} constant holds objects of TensorFlow's, no values"
