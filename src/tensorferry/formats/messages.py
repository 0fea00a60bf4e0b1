"""TensorFlow's protobuf messages that several formats have inside, as a table of their fields.

The table is in the notation of `tensorferry.codecs.protobuf`, and has the fields that are looked
into. SavedModels (`tensorferry.formats.savedmodel.messages`) and checkpoints
(`tensorferry.formats.checkpoint.messages`) add messages of their own. Nothing here needs NumPy.
"""

from __future__ import annotations

TENSORS = """
TensorShapeProto: 2 dim *Dim, 3 unknown_rank bool
Dim: 1 size int
VersionDef: 1 producer int, 2 min_consumer int, 3 bad_consumers *int
TensorProto: 1 dtype dtype, 2 tensor_shape TensorShapeProto, 4 tensor_content bytes,
    5 float_val *float, 6 double_val *double, 7 int_val *int, 8 string_val *bytes,
    9 scomplex_val *float, 10 int64_val *int, 11 bool_val *bool, 12 dcomplex_val *double,
    13 half_val *int, 15 variant_val *VariantTensorDataProto, 16 uint32_val *uint,
    17 uint64_val *uint, 18 float8_val bytes
VariantTensorDataProto: 1 type_name text, 2 metadata bytes, 3 tensors *TensorProto
"""

STRUCTURES = """
StructuredValue: 1 none_value NoneValue, 11 float64_value ?double, 12 int64_value ?zigzag,
    13 string_value ?text, 14 bool_value ?bool, 31 tensor_shape_value TensorShapeProto,
    32 tensor_dtype_value ?dtype, 33 tensor_spec_value TensorSpecProto,
    34 type_spec_value TypeSpecProto, 35 bounded_tensor_spec_value TensorSpecProto,
    51 list_value ValueList, 52 tuple_value ValueList, 53 dict_value ValueDict,
    54 named_tuple_value ValuePairs, 55 tensor_value TensorProto, 56 numpy_value TensorProto
NoneValue:
ValueList: 1 values *StructuredValue
ValueDict: 1 fields *ValuePair
ValuePairs: 1 name text, 2 values *ValuePair
ValuePair: 1 key ?text, 2 value StructuredValue
TensorSpecProto: 1 name text, 2 shape TensorShapeProto, 3 dtype dtype
TypeSpecProto: 1 type_spec_class spec, 2 type_state StructuredValue, 3 type_spec_class_name text
"""
