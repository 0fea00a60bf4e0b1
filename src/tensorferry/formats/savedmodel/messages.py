"""The protobuf messages of a SavedModel that are looked into, as a table of their fields.

The notation, and what reads and writes messages by such a table, are
`tensorferry.codecs.protobuf`; the messages of tensors and structures inside a SavedModel are in
`tensorferry.formats.messages`. What the fields mean is for `graph`, `objects` and `specs` beside
this module, and the same table leads from text to bytes in `text`.
"""

from __future__ import annotations

from typing import ClassVar

from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import Span, Tables, parse_schema
from tensorferry.formats.messages import STRUCTURES, TENSORS

SCHEMA = """
SavedModel: 1 saved_model_schema_version int, 2 meta_graphs *MetaGraphDef
MetaGraphDef: 1 meta_info_def MetaInfoDef, 2 graph_def GraphDef, 3 saver_def SaverDef,
    4 collection_def *CollectionEntry, 5 signature_def *SignatureEntry,
    6 asset_file_def *AssetFileDef, 7 object_graph_def SavedObjectGraph
CollectionEntry: 1 key ?text, 2 value CollectionDef
CollectionDef: 2 bytes_list BytesList
BytesList: 1 value *bytes
VariableDef: 1 variable_name text
MetaInfoDef: 2 stripped_op_list OpList, 4 tags *text, 5 tensorflow_version text,
    6 tensorflow_git_version text
OpList: 1 op *OpDef
SaverDef: 1 filename_tensor_name text, 3 restore_op_name text
AssetFileDef: 1 tensor_info TensorInfo, 2 filename text

SignatureEntry: 1 key ?text, 2 value SignatureDef
SignatureDef: 1 inputs *TensorInfoEntry, 2 outputs *TensorInfoEntry, 3 method_name text,
    4 defaults *TensorEntry
TensorInfoEntry: 1 key ?text, 2 value TensorInfo
TensorInfo: 1 name ?text, 2 dtype dtype, 3 tensor_shape TensorShapeProto, 4 coo_sparse CooSparse,
    5 composite_tensor CompositeTensor
CooSparse: 1 values_tensor_name text, 2 indices_tensor_name text, 3 dense_shape_tensor_name text
CompositeTensor: 1 type_spec TypeSpecProto, 2 components *TensorInfo
TensorEntry: 1 key ?text, 2 value TensorProto

GraphDef: 1 node *NodeDef, 2 library FunctionDefLibrary, 4 versions VersionDef
FunctionDefLibrary: 1 function *FunctionDef
FunctionDef: 1 signature OpDef, 3 node_def *NodeDef, 4 ret *ReturnEntry
ReturnEntry: 1 key ?text, 2 value text
OpDef: 1 name text, 2 input_arg *ArgDef, 3 output_arg *ArgDef
ArgDef: 1 name text, 3 type dtype
NodeDef: 1 name text, 2 op text, 3 input *text, 5 attr *AttrEntry
AttrEntry: 1 key ?text, 2 value AttrValue
AttrValue: 1 list ListValue, 2 s ?bytes, 3 i ?int, 4 f ?float, 5 b ?bool, 6 type ?dtype,
    7 shape TensorShapeProto, 8 tensor TensorProto, 9 placeholder ?text, 10 func NameAttrList
ListValue: 2 s *bytes, 3 i *int, 4 f *float, 5 b *bool, 6 type *dtype, 7 shape *TensorShapeProto,
    8 tensor *TensorProto, 9 func *NameAttrList
NameAttrList: 1 name text, 2 attr *AttrEntry

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
ConcreteFunctionEntry: 1 key ?text, 2 value SavedConcreteFunction
SavedConcreteFunction: 3 canonicalized_input_signature StructuredValue,
    4 output_signature StructuredValue

FingerprintDef: 1 saved_model_checksum uint, 2 graph_def_program_hash uint,
    3 signature_def_hash uint, 4 saved_object_graph_hash uint, 5 checkpoint_hash uint, 7 uuid text

ChunkMetadata: 1 version SplitterVersion, 2 chunks *ChunkInfo, 3 message ChunkedMessage
SplitterVersion: 1 splitter_version int, 2 join_version int
ChunkInfo: 1 type int, 2 size uint, 3 offset uint
ChunkedMessage: 1 chunk_index uint, 2 chunked_fields *ChunkedField
ChunkedField: 1 field_tag *FieldIndex, 3 message ChunkedMessage
FieldIndex: 1 field ?uint, 2 map_key MapKey, 3 index ?uint
MapKey: 1 s ?text, 2 boolean ?uint, 3 ui32 ?uint, 4 ui64 ?uint, 5 i32 ?uint, 6 i64 ?uint
"""

TABLES = parse_schema(TENSORS, STRUCTURES, SCHEMA)

GRAPH = 1 << 20
"""As so many bytes each graph of a model counts."""

PART = 1 << 12
"""As so many bytes each function and object counts."""

SIGNATURE = 1 << 14
"""As so many bytes each signature counts."""

ASSET = 1 << 16
"""As so many bytes each asset counts, whose file is looked for."""


class Reader(protobuf.Reader):
    """Reads the messages of a SavedModel.

    Attributes:
        shapes: The shapes that were read so far, by their bytes: most come again and again.
    """

    tables: ClassVar[Tables] = TABLES

    def __init__(self, data: bytes | memoryview, path: str = "") -> None:
        super().__init__(data, path)
        self.shapes: dict[bytes | None, tuple[int | None, ...] | None] = {}

    def meta_graphs(self) -> list[Span]:
        """The graphs of the model that the buffer is.

        Raises:
            LimitError: There are more than the buffer justifies.
        """
        whole = (0, len(self.data))
        return self.counted("SavedModel", "meta_graphs", whole, size=GRAPH, what="graphs")
