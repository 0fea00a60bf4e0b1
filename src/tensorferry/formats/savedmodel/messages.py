"""The few protobuf messages of a SavedModel that are looked into, and a reader driven by a table.

A line of the table is a message: the number, the name and the kind of each field that is needed.
`*` stands before what is repeated (an entry of a map is a message with a key and a value); a kind
with a capital letter is another message. Fields that are not in the table are passed over.

Messages are not copied: a field that is a message or a run of bytes is given as its span in the
buffer, which is the mapped file. The wire itself is walked by `_native.MessageFields`; what the
fields mean is for `savedmodel_graph`, `savedmodel_objects` and `savedmodel_specs`. The same table
leads from text to bytes in `savedmodel_text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from tensorferry import _native
from tensorferry.errors import FerryError, FormatError

SCHEMA = """
SavedModel: 1 saved_model_schema_version int, 2 meta_graphs *MetaGraphDef
MetaGraphDef: 1 meta_info_def MetaInfoDef, 2 graph_def GraphDef, 3 saver_def SaverDef,
    4 collection_def *CollectionEntry, 5 signature_def *SignatureEntry,
    6 asset_file_def *AssetFileDef, 7 object_graph_def SavedObjectGraph
CollectionEntry: 1 key text, 2 value CollectionDef
CollectionDef: 2 bytes_list BytesList
BytesList: 1 value *bytes
VariableDef: 1 variable_name text
MetaInfoDef: 2 stripped_op_list OpList, 4 tags *text, 5 tensorflow_version text,
    6 tensorflow_git_version text
OpList: 1 op *OpDef
SaverDef: 1 filename_tensor_name text, 3 restore_op_name text
AssetFileDef: 1 tensor_info TensorInfo, 2 filename text

SignatureEntry: 1 key text, 2 value SignatureDef
SignatureDef: 1 inputs *TensorInfoEntry, 2 outputs *TensorInfoEntry, 3 method_name text,
    4 defaults *TensorEntry
TensorInfoEntry: 1 key text, 2 value TensorInfo
TensorInfo: 1 name text, 2 dtype dtype, 3 tensor_shape TensorShapeProto, 4 coo_sparse CooSparse,
    5 composite_tensor CompositeTensor
CooSparse: 1 values_tensor_name text, 2 indices_tensor_name text, 3 dense_shape_tensor_name text
CompositeTensor: 1 type_spec TypeSpecProto, 2 components *TensorInfo
TensorEntry: 1 key text, 2 value TensorProto

GraphDef: 1 node *NodeDef, 2 library FunctionDefLibrary, 4 versions VersionDef
VersionDef: 1 producer int, 2 min_consumer int
FunctionDefLibrary: 1 function *FunctionDef
FunctionDef: 1 signature OpDef, 3 node_def *NodeDef
OpDef: 1 name text, 2 input_arg *ArgDef, 3 output_arg *ArgDef
ArgDef: 1 name text, 3 type dtype
NodeDef: 1 name text, 2 op text, 5 attr *AttrEntry
AttrEntry: 1 key text, 2 value AttrValue
AttrValue: 1 list ListValue, 2 s bytes, 3 i int, 4 f float, 5 b bool, 6 type dtype,
    7 shape TensorShapeProto, 8 tensor TensorProto, 9 placeholder text, 10 func NameAttrList
ListValue: 2 s *bytes, 3 i *int, 4 f *float, 5 b *bool, 6 type *dtype, 7 shape *TensorShapeProto,
    8 tensor *TensorProto, 9 func *NameAttrList
NameAttrList: 1 name text, 2 attr *AttrEntry

TensorShapeProto: 2 dim *Dim, 3 unknown_rank bool
Dim: 1 size int
TensorProto: 1 dtype dtype, 2 tensor_shape TensorShapeProto, 4 tensor_content bytes,
    5 float_val *float, 6 double_val *double, 7 int_val *int, 8 string_val *bytes,
    9 scomplex_val *float, 10 int64_val *int, 11 bool_val *bool, 12 dcomplex_val *double,
    13 half_val *int, 15 variant_val *VariantTensorDataProto, 16 uint32_val *int,
    17 uint64_val *int, 18 float8_val bytes
VariantTensorDataProto: 1 type_name text, 2 metadata bytes, 3 tensors *TensorProto

SavedObjectGraph: 1 nodes *SavedObject, 2 concrete_functions *ConcreteFunctionEntry
SavedObject: 1 children *ObjectReference, 3 slot_variables *SlotVariableReference,
    4 user_object SavedUserObject, 5 asset SavedAsset, 6 function SavedFunction,
    7 variable SavedVariable, 8 bare_concrete_function SavedBareConcreteFunction,
    9 constant SavedConstant, 10 resource SavedResource, 12 captured_tensor CapturedTensor
ObjectReference: 1 node_id int, 2 local_name text
SlotVariableReference: 1 original_variable_node_id int, 2 slot_name text,
    3 slot_variable_node_id int
SavedUserObject: 1 identifier text
SavedAsset: 1 asset_file_def_index int
SavedFunction: 1 concrete_functions *text, 2 function_spec FunctionSpec
SavedVariable: 1 dtype dtype, 2 shape TensorShapeProto, 3 trainable bool, 6 name text
SavedBareConcreteFunction: 1 concrete_function_name text, 2 argument_keywords *text
SavedConstant: 1 operation text
SavedResource:
CapturedTensor: 1 name text
FunctionSpec: 1 fullargspec StructuredValue, 2 is_method bool, 5 input_signature StructuredValue
ConcreteFunctionEntry: 1 key text, 2 value SavedConcreteFunction
SavedConcreteFunction: 3 canonicalized_input_signature StructuredValue,
    4 output_signature StructuredValue

StructuredValue: 1 none_value NoneValue, 11 float64_value double, 12 int64_value zigzag,
    13 string_value text, 14 bool_value bool, 31 tensor_shape_value TensorShapeProto,
    32 tensor_dtype_value dtype, 33 tensor_spec_value TensorSpecProto,
    34 type_spec_value TypeSpecProto, 35 bounded_tensor_spec_value TensorSpecProto,
    51 list_value ValueList, 52 tuple_value ValueList, 53 dict_value ValueDict,
    54 named_tuple_value ValuePairs, 55 tensor_value TensorProto, 56 numpy_value TensorProto
NoneValue:
ValueList: 1 values *StructuredValue
ValueDict: 1 fields *ValuePair
ValuePairs: 1 name text, 2 values *ValuePair
ValuePair: 1 key text, 2 value StructuredValue
TensorSpecProto: 1 name text, 2 shape TensorShapeProto, 3 dtype dtype
TypeSpecProto: 1 type_spec_class spec, 2 type_state StructuredValue, 3 type_spec_class_name text

FingerprintDef: 1 saved_model_checksum uint, 2 graph_def_program_hash uint,
    3 signature_def_hash uint, 4 saved_object_graph_hash uint, 5 checkpoint_hash uint, 7 uuid text

ChunkMetadata: 1 version SplitterVersion, 2 chunks *ChunkInfo, 3 message ChunkedMessage
SplitterVersion: 1 splitter_version int, 2 join_version int
ChunkInfo: 1 type int, 2 size uint, 3 offset uint
ChunkedMessage: 1 chunk_index uint, 2 chunked_fields *ChunkedField
ChunkedField: 1 field_tag *FieldIndex, 3 message ChunkedMessage
FieldIndex: 1 field uint, 2 map_key MapKey, 3 index uint
MapKey: 1 s text, 2 boolean uint, 3 ui32 uint, 4 ui64 uint, 5 i32 uint, 6 i64 uint
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIRES = {"double": FIXED64, "float": FIXED32, "text": BYTES, "bytes": BYTES}


class Field(NamedTuple):
    """A field of a message."""

    name: str
    kind: str
    repeated: bool
    wire: int


class Span(NamedTuple):
    """Where a message stands in its buffer."""

    start: int
    end: int


Tables = dict[str, dict[int, Field]]


def parse_schema(text: str) -> Tables:
    """The fields of messages, by the messages' names and the fields' numbers."""
    tables: Tables = {}
    for line in text.strip().replace("\n    ", " ").splitlines():
        message, _, described = line.partition(":")
        if not message:
            continue
        table = tables[message] = {}
        for part in filter(None, described.strip().split(", ")):
            number, name, kind = part.split()
            bare = kind.removeprefix("*")
            wire = BYTES if bare[0].isupper() else _WIRES.get(bare, VARINT)
            table[int(number)] = Field(name, bare, kind != bare, wire)
    return tables


TABLES = parse_schema(SCHEMA)

# What a varint stands for, where it is not the number itself.
NUMBERS: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number - (1 << 64) if number >> 63 else number,
    "bool": bool,
    "zigzag": lambda number: number >> 1 ^ -(number & 1),
}


class Reader:
    """Reads the messages of one buffer.

    Attributes:
        tables: The messages that are known.
        data: The buffer.
        path: Names it in errors.
        shapes: Those that were read, by their bytes.
    """

    tables: ClassVar[Tables] = TABLES

    def __init__(self, data: bytes | memoryview, path: str = "") -> None:
        self.data = data
        self.path = path
        self.shapes: dict[bytes | None, tuple[int | None, ...] | None] = {}

    def read(self, message: str, span: Span, *, without: str = "") -> dict[str, Any]:
        """The fields of a message by name: numbers, texts, spans, or lists of those.

        Fields that are not there are not in the dict.

        Args:
            message: Its name in the table.
            span: Where it stands.
            without: A repeated field that is left out; `each` gives it one by one.

        Raises:
            FormatError: The bytes are no such message, or have a single field twice.
        """
        table = self.tables[message]
        found: dict[str, Any] = {}
        for number, wire, first, last in _native.MessageFields(self.data, *span):
            field = table.get(number)
            if field is None:
                continue
            name, kind, repeated, expected = field
            if name == without:
                continue
            if wire != expected:
                raise FormatError(
                    f"{name} of {message} has wire type {wire}, expected {expected}",
                    offset=first if wire == BYTES else last,
                )
            value: Any
            if wire == BYTES:
                value = self.text(first, last) if kind == "text" else Span(first, last)
            else:
                value = NUMBERS[kind](first) if kind in NUMBERS else first
            if repeated:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise self.twice(f"{name} of {message}", first if wire == BYTES else last)
            else:
                found[name] = value
        return found

    def each(self, number: int, span: Span) -> Iterator[Span]:
        """The messages of a repeated field, without a list of them: there may be very many."""
        for found, wire, first, last in _native.MessageFields(self.data, *span):
            if found == number:
                if wire != BYTES:
                    raise FormatError(f"field {number} has wire type {wire}", offset=last)
                yield Span(first, last)

    def text(self, start: int, end: int) -> str:
        """A UTF-8 string."""
        try:
            return str(self.data[start:end], "utf-8")
        except UnicodeDecodeError:
            raise FormatError("a text is not UTF-8", offset=start) from None

    def entries(self, message: str, spans: Iterable[Span]) -> dict[str, Span]:
        """The values of a map with texts as keys.

        Raises:
            FormatError: A key comes twice.
        """
        found: dict[str, Span] = {}
        for span in spans:
            entry = self.read(message, span)
            key = entry.get("key", "")
            if key in found:
                raise self.twice(f"the key {key[:60]!r} of {message}", span.start)
            # A value of zeros only may be left out by a writer.
            found[key] = entry.get("value", Span(span.end, span.end))
        return found

    @staticmethod
    def twice(what: str, offset: int) -> FormatError:
        """The error for what may come only once."""
        return FormatError(f"{what} comes twice, expected once", offset=offset)

    def located(self, error: FerryError) -> FerryError:
        """The same error, with the path of the buffer."""
        return error.located(path=self.path)
