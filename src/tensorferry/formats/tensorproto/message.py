"""TensorProto: one dense tensor, the bytes of `tf.io.serialize_tensor`.

A protobuf message:

    1 dtype | 2 shape | 4 tensor_content | 5 .. 18 one repeated field for each kind of value

`serialize_tensor` puts everything except strings into `tensor_content`, in the layout of memory. So
do we, byte for byte, and also for the dtypes that it refuses. `tf.make_tensor_proto` and old
versions use the repeated fields, where a short field repeats its last value: all of it is read.
Content is handed out in place, as a read-only array on the source; only bool, the kinds narrower
than a byte (when they hold bits beyond their width) and repeated fields are copied. A tensor of
variants is opaque, except for one that holds a RaggedTensor.

The wire is parsed in `tensorferry._native`; which field belongs to which dtype is known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy import ndarray

from tensorferry import _native, dtypes, limits
from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple
from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import Tables, parse_schema
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.messages import TENSORS
from tensorferry.tensors.values import Array, RaggedTensor, as_tensor, clean_bits, size_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.storage import Sink

NAME = "tensorproto"

# Protobuf's own limit: TensorFlow refuses to write or to parse a longer message.
MAX_SIZE = 2**31 - 1
MAX_NUMPY_RANK = 64

STRING_VAL = 8

START = b"\x08"
"""The tag of the dtype field, which every TensorProto starts with: no dtype is 0."""


class Values(NamedTuple):
    """How a repeated field holds values: see `Values` in native/core/tensorproto.h."""

    field: int
    kind: str
    bits: int
    width: int
    group: int = 1


def _typed_fields() -> dict[str, tuple[Values, ...]]:
    fields: dict[str, tuple[Values, ...]] = {
        "float32": (Values(5, "fixed", 32, 4),),
        "float64": (Values(6, "fixed", 64, 8),),
        "complex64": (Values(9, "fixed", 32, 4, 2),),
        "int64": (Values(10, "signed", 64, 8),),
        "bool": (Values(11, "boolean", 1, 1),),
        "complex128": (Values(12, "fixed", 64, 8, 2),),
        "float16": (Values(13, "unsigned", 16, 2),),
        # The bit patterns stood in int_val before half_val took them.
        "bfloat16": (Values(13, "unsigned", 16, 2), Values(7, "unsigned", 16, 2)),
        "uint32": (Values(16, "unsigned", 32, 4),),
        "uint64": (Values(17, "unsigned", 64, 8),),
    }
    for row in dtypes.TABLE:
        if row.numpy is None or row.name in fields or row is dtypes.STRING:
            continue
        if row.name.startswith("float"):
            fields[row.name] = (Values(18, "unsigned", 8, 1),)
        else:
            kind = "unsigned" if "uint" in row.name else "signed"
            fields[row.name] = (Values(7, kind, row.bits, row.numpy.itemsize),)
    return fields


TYPED_FIELDS = _typed_fields()

IN_PLACE = {
    row.enum: (row.numpy, row.numpy.itemsize)
    for row in dtypes.TABLE
    if row.numpy is not None and row.name != "bool" and row.bits == row.numpy.itemsize * 8
}
"""Dtypes whose content is good as it is, whatever its bits, and their sizes."""


NUMBERS = {dtype: row.enum for dtype, row in dtypes.BY_NUMPY.items() if row is not dtypes.STRING}
"""The numbers of the dtypes whose values are written as they lie in memory."""


# The same by their letters in the buffer protocol, where it stands for no other dtype: TensorFlow's
# quantized numbers come as plain integers.
_LETTERS = {
    np.empty(0, name).data.format: dtypes.as_dtype(name).enum
    for name in ("bool", "int64", "uint64", "float16", "float32", "float64")
}


class _Reader(protobuf.Reader):
    tables: ClassVar[Tables] = parse_schema(TENSORS)


def encode(array: Array) -> bytes | None:
    """The message of a small array of numbers, quickly; None for others, which `write` takes."""
    return _native.tensorproto_bytes(array, NUMBERS)


def encode_sparse(
    indices: Buffer, values: Buffer, dense_shape: Buffer
) -> tuple[bytes, bytes, bytes] | None:
    """The messages of the parts of a sparse tensor; None if they are unusual, or not sound."""
    return _native.sparse_tensorprotos(indices, values, dense_shape, _LETTERS)


def write(value: Any, sink: Sink, *, string_content: bool = False) -> None:
    """Writes a dense tensor, without copying a contiguous one.

    Args:
        value: The tensor.
        sink: Where to.
        string_content: Put strings into `tensor_content`, as the parts of a serialized sparse
            tensor have them. `tf.make_ndarray` cannot read that.
    """
    array = value if value.__class__ is ndarray else as_tensor(value)
    row = dtypes.BY_NUMPY.get(array.dtype)
    if row is None or row is dtypes.STRING:
        array = as_tensor(array)
        row = dtypes.of_tensorflow(dtypes.from_numpy(array.dtype))
    if row is dtypes.STRING:
        _write_strings(array, sink, string_content)
        return
    size = array.nbytes
    _check_size(size)
    sink.write(_native.tensorproto_header(row.enum, array.shape, size))
    if size:
        sink.write(array if array.flags.c_contiguous else np.ascontiguousarray(array))


def _write_strings(array: Array, sink: Sink, as_content: bool) -> None:
    encode = _native.encode_string_list if as_content else _native.encode_string_values
    strings = encode(array.ravel())
    _check_size(len(strings))
    content_size = len(strings) if as_content else 0
    sink.write(_native.tensorproto_header(dtypes.STRING.enum, array.shape, content_size))
    sink.write(strings)


def _check_size(size: int) -> None:
    if size > MAX_SIZE - 4096:  # room for the longest header
        raise UnsupportedError(
            f"a TensorProto holds less than 2 GiB, this tensor takes {size} bytes",
            hint='write it with format="raw", or in parts',
        )


def read(
    source: bytes | memoryview,
    *,
    start: int = 0,
    end: int | None = None,
    budget: Budget | None = None,
) -> Any:
    """The tensor in a buffer, or in the part of it from `start` to `end`.

    Args:
        source: The buffer.
        start: Where the message starts.
        end: Where the message ends; by default where the buffer does.
        budget: The budget of the file, for tensors that take more memory than the message; by
            default the message has its own.
    """
    enum, shape, elements, offset, size, held = _native.tensorproto_scan(source, start, end)
    if size and not held and enum in IN_PLACE and len(shape) <= MAX_NUMPY_RANK:
        dtype, itemsize = IN_PLACE[enum]
        if size == elements * itemsize:
            return ndarray(shape, dtype, source, offset)
    end = len(source) if end is None else end
    parts = _Parts(enum, shape, elements, offset, size, held, budget)
    return _read_slowly(parts, source, start, end)


class _Parts(NamedTuple):
    enum: int
    shape: tuple[int, ...]
    elements: int
    content: int
    content_size: int
    held: int
    budget: Budget | None

    def take(self, dtype: np.dtype[Any], start: int, end: int) -> None:
        """Counts a tensor that the bytes of the message need not hold."""
        size = size_of(self.shape, dtype)
        if self.budget is None and size <= limits.memory:
            return
        (self.budget or Budget(end - start)).take(
            size,
            what=f"a tensor of shape {list(self.shape)}",
            key=(start, end),
            offset=start,
        )


def _read_slowly(parts: _Parts, source: bytes | memoryview, start: int, end: int) -> Any:
    """Reads everything except content that can be used in place: checks first, then the values."""
    row = dtypes.BY_ENUM.get(parts.enum - 100 if parts.enum > 100 else parts.enum)
    if row is None:
        raise FormatError(
            f"dtype number {parts.enum}, expected 1 to {dtypes.TABLE[-1].enum}", offset=start
        )
    if len(parts.shape) > MAX_NUMPY_RANK:
        raise _too_many_dimensions(parts.shape, start)
    if row.numpy is None:
        return _read_opaque(row, parts, source, start, end)
    fields = () if row is dtypes.STRING else TYPED_FIELDS[row.name]
    allowed = {STRING_VAL} if row is dtypes.STRING else {values.field for values in fields}
    present = [number for number in range(5, 19) if parts.held >> number & 1]
    for number in present:
        if number not in allowed or parts.content_size or len(present) > 1:
            raise FormatError(
                f"a {row.name} tensor with values in field {number}"
                + (", and content besides" if parts.content_size else ""),
                offset=start,
            )
    if row is dtypes.STRING:
        return _read_strings(parts, source, start, end)
    if parts.content_size:
        return _read_content(row, parts, source)
    parts.take(row.numpy, start, end)
    array = np.empty(parts.shape, row.numpy)
    values = next((values for values in fields if values.field in present), fields[0])
    _native.tensorproto_fill(
        source, start, end, array.reshape(-1).view(np.uint8), **values._asdict()
    )
    return array


def _too_many_dimensions(shape: tuple[int, ...], offset: int) -> UnsupportedError:
    return UnsupportedError(
        f"a tensor of {len(shape)} dimensions: NumPy has at most {MAX_NUMPY_RANK}", offset=offset
    )


def _read_content(row: dtypes.DType, parts: _Parts, source: bytes | memoryview) -> Array:
    assert row.numpy is not None
    expected = parts.elements * row.numpy.itemsize
    if parts.content_size != expected:
        raise FormatError(
            f"{parts.content_size} bytes of content, "
            f"expected {expected} for {row.name} of shape {list(parts.shape)}",
            offset=parts.content,
        )
    return clean_bits(ndarray(parts.shape, row.numpy, source, parts.content))


def _read_strings(parts: _Parts, source: bytes | memoryview, start: int, end: int) -> Array:
    if parts.content_size:
        content = parts.content, parts.content + parts.content_size
        values = _native.decode_string_list(source, *content, parts.elements)
    else:
        parts.take(np.dtype(object), start, end)
        values = _native.decode_string_values(source, start, end)
    del values[parts.elements :]
    array = np.empty(parts.elements, dtype=object)
    array[: len(values)] = values
    array[len(values) :] = values[-1] if values else b""
    return array.reshape(parts.shape)


def _read_opaque(
    row: dtypes.DType, parts: _Parts, source: bytes | memoryview, start: int, end: int
) -> RaggedTensor:
    """A variant that holds a RaggedTensor: its row splits from the outside in, then its values."""
    opaque = UnsupportedError(f"a {row.name} tensor holds no values of its own", offset=start)
    if row.name != "variant" or parts.elements != 1:
        raise opaque
    variant = _find_variant(parts, source, start, end)
    fields = _Reader(source).read("VariantTensorDataProto", variant)
    tensors = fields.get("tensors", [])
    if fields.get("type_name") != "RaggedTensorVariant" or len(tensors) < 2:
        raise opaque
    for first, last in tensors:  # variants inside variants could nest without end
        if _native.tensorproto_scan(source, first, last)[0] == row.enum:
            raise opaque
    budget = parts.budget or Budget(end - start)
    *splits, values = [
        read(source, start=first, end=last, budget=budget) for first, last in tensors
    ]
    return RaggedTensor(values, tuple(splits))


def _find_variant(
    parts: _Parts, source: bytes | memoryview, start: int, end: int
) -> tuple[int, int]:
    """The position of the only variant of the tensor: in variant_val, or in the content."""
    if parts.content_size:
        content = parts.content, parts.content + parts.content_size
        (variant,) = _native.decode_string_list(source, *content, 1)
        return content[1] - len(variant), content[1]
    for span in _Reader(source).each("TensorProto", "variant_val", (start, end)):
        return span
    raise FormatError("a variant tensor without a variant", offset=start)
