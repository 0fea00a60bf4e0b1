"""The protobuf messages of checkpoints, as a table of their fields.

The notation, and what reads and writes messages by such a table, are
`tensorferry.codecs.protobuf`; shapes, versions and tensors are in `tensorferry.formats.messages`.
What the fields mean is for `entries`, `slices`, `graph` and `v1` beside this module.
"""

from __future__ import annotations

from typing import ClassVar

from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import Tables, Writer, parse_schema
from tensorferry.formats.messages import TENSORS

SCHEMA = """
BundleHeaderProto: 1 num_shards int, 2 endianness uint, 3 version VersionDef
BundleEntryProto: 1 dtype dtype, 2 shape TensorShapeProto, 3 shard_id int, 4 offset int, 5 size int,
    6 crc32c fixed32, 7 slices *TensorSliceProto
TensorSliceProto: 1 extent *Extent
Extent: 1 start int, 2 length ?int

SavedTensorSlices: 1 meta SavedTensorSliceMeta, 2 data SavedSlice
SavedTensorSliceMeta: 1 tensor *SavedSliceMeta
SavedSliceMeta: 1 name text, 2 shape TensorShapeProto, 3 type dtype, 4 slice *TensorSliceProto
SavedSlice: 1 name text, 2 slice TensorSliceProto, 3 data TensorProto

TrackableObjectGraph: 1 nodes *TrackableObject
TrackableObject: 1 children *ObjectReference, 2 attributes *SerializedTensor,
    3 slot_variables *SlotVariableReference, 5 has_checkpoint_values BoolValue
ObjectReference: 1 node_id int, 2 local_name text
SerializedTensor: 1 name text, 2 full_name text, 3 checkpoint_key text
SlotVariableReference: 1 original_variable_node_id int, 2 slot_name text,
    3 slot_variable_node_id int
BoolValue: 1 value bool
"""

TABLES = parse_schema(TENSORS, SCHEMA)

WRITER = Writer(TABLES)


class Reader(protobuf.Reader):
    """Reads the messages of a checkpoint.

    Attributes:
        shapes: The shapes that were read so far, by their bytes: most come again and again.
    """

    tables: ClassVar[Tables] = TABLES

    def __init__(self, data: bytes | memoryview, path: str = "") -> None:
        super().__init__(data, path)
        self.shapes: dict[bytes, tuple[int, ...]] = {}
