"""`tf.io` on NumPy, without TensorFlow: the same names and meanings, the same bytes.

    from tensorferry import tfio

    data = tfio.serialize_tensor([1.0, 2.0])         # the bytes that tf.io.serialize_tensor writes
    tfio.parse_tensor(data, "float32")

Replace `tf.io.` by `tfio.`. For a list of tensors of different shapes, which `tf.io` cannot
serialize, use `tensorferry.dumps(list)` and `tensorferry.loads`.

    tensors     serialized tensors, base64 and raw bytes
    examples    the parsers of Examples and SequenceExamples
    features    what to parse of an Example
    columns     columns of parsed values to tensors
    records     TFRecord files
"""

from typing import TYPE_CHECKING

from tensorferry.tfio.examples import (
    parse_example as parse_example,
    parse_sequence_example as parse_sequence_example,
    parse_single_example as parse_single_example,
    parse_single_sequence_example as parse_single_sequence_example,
)
from tensorferry.tfio.features import (
    FixedLenFeature as FixedLenFeature,
    FixedLenSequenceFeature as FixedLenSequenceFeature,
    RaggedFeature as RaggedFeature,
    SparseFeature as SparseFeature,
    VarLenFeature as VarLenFeature,
)
from tensorferry.tfio.records import (
    TFRecordOptions as TFRecordOptions,
    TFRecordWriter as TFRecordWriter,
    tf_record_iterator as tf_record_iterator,
)
from tensorferry.tfio.tensors import (
    decode_base64 as decode_base64,
    decode_raw as decode_raw,
    deserialize_many_sparse as deserialize_many_sparse,
    deserialize_sparse as deserialize_sparse,
    encode_base64 as encode_base64,
    parse_tensor as parse_tensor,
    serialize_many_sparse as serialize_many_sparse,
    serialize_sparse as serialize_sparse,
    serialize_tensor as serialize_tensor,
)

if not TYPE_CHECKING:  # for a type checker, a name that is not there is an error

    def __getattr__(name: str) -> object:
        from tensorferry.signposts import MissingNameError

        raise MissingNameError("tensorferry.tfio", name, globals())
