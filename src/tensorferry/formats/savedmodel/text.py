"""A SavedModel as text (saved_model.pbtxt), turned into the bytes that it stands for.

Fields by name become fields by number, by the table in `messages`; what is not in the
table is left out, as its reader would pass over it. The result is read like any other SavedModel,
so that there is one reader of graphs. `tensorferry.codecs.textproto` parses the text.
"""

from __future__ import annotations

import struct
from typing import Any

from tensorferry import dtypes
from tensorferry.codecs import textproto
from tensorferry.codecs.protobuf import BYTES, VARINT, Field, encode_number, varint
from tensorferry.errors import FormatError
from tensorferry.formats.savedmodel.messages import TABLES

_SPECIAL = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
DTYPE_NAMES = {f"DT_{_SPECIAL.get(row.name, row.name.upper())}": row.enum for row in dtypes.TABLE}
DTYPE_NAMES |= {f"{name}_REF": enum + 100 for name, enum in DTYPE_NAMES.items()}
DTYPE_NAMES["DT_INVALID"] = 0
SPEC_NAMES = {
    "UNKNOWN": 0,
    "SPARSE_TENSOR_SPEC": 1,
    "INDEXED_SLICES_SPEC": 2,
    "RAGGED_TENSOR_SPEC": 3,
    "TENSOR_ARRAY_SPEC": 4,
    "DATA_DATASET_SPEC": 5,
    "DATA_ITERATOR_SPEC": 6,
    "OPTIONAL_SPEC": 7,
    "PER_REPLICA_SPEC": 8,
    "VARIABLE_SPEC": 9,
    "ROW_PARTITION_SPEC": 10,
    "REGISTERED_TYPE_SPEC": 12,
    "EXTENSION_TYPE_SPEC": 13,
}
WORDS: dict[str, dict[str, int]] = {
    "bool": {"true": 1, "false": 0, "True": 1, "False": 0, "t": 1, "f": 0},
    "dtype": DTYPE_NAMES,
    "spec": SPEC_NAMES,
}

_NAMED = {
    message: {field.name: (number, field) for number, field in table.items()}
    for message, table in TABLES.items()
}


def encode(text: bytes | memoryview, message: str) -> bytes:
    """The bytes of the message that a text describes.

    Raises:
        FormatError: It is no text format, or a value is not of its field's kind.
    """
    return _encode(textproto.parse(bytes(text)), message)


def _encode(parsed: textproto.Message, message: str) -> bytes:
    # The parser bounds the depth.
    out: list[bytes] = []
    named = _NAMED[message]
    for name, value in parsed.fields:
        if name not in named:
            continue
        number, field = named[name]
        if isinstance(value, textproto.Message):
            if field.kind not in TABLES:
                raise _unfit(name, "{", field, parsed.offset)
            body = _encode(value, field.kind)
        elif field.kind in TABLES:
            raise _unfit(name, value, field, parsed.offset)
        elif isinstance(value, bytes):
            if field.kind not in ("text", "bytes"):
                raise _unfit(name, value, field, parsed.offset)
            body = value
        else:
            out.append(varint(number << 3 | field.wire) + _scalar(value, name, field, parsed))
            continue
        out.append(varint(number << 3 | field.wire) + varint(len(body)))
        out.append(body)
    return b"".join(out)


def _scalar(value: Any, name: str, field: Field, parsed: textproto.Message) -> bytes:
    number = WORDS.get(field.kind, {}).get(value) if isinstance(value, str) else value
    fits = isinstance(number, int) and -(2**63) <= number < 2**64
    if number is None or field.wire == BYTES or (field.wire == VARINT and not fits):
        raise _unfit(name, value, field, parsed.offset)
    try:
        return encode_number(field.kind, number)
    except (OverflowError, struct.error):
        raise _unfit(name, value, field, parsed.offset) from None


def _unfit(name: str, value: Any, field: Field, offset: int) -> FormatError:
    return FormatError(f"{name} is {str(value)[:60]!r}, expected {field.kind}", offset=offset)
