"""StructuredValue: TensorFlow's own bytes for nested structures.

A protobuf message with one field, which says what the value is:

    1 None | 11 float | 12 int | 13 str | 14 bool | 51 list | 52 tuple | 53 dict | 54 named tuple
    55 tensor, 56 array: a TensorProto each

TensorFlow's `nested_structure_coder` decodes these messages. It has no place for sparse tensors,
ragged tensors and `bytes`. These are stored as named tuples of their parts, under the names below,
so that TensorFlow sees the parts and we return the whole. Tensors are
`tensorferry.formats.tensorproto`; large ones are not copied on writing, nor, where it can be
avoided, on reading.

Messages are read and written by `tensorferry._native`, which knows lists, dicts, plain values and
contiguous arrays. It asks the builders below for everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tensorferry import frameworks, limits
from tensorferry._native import StructureReader, StructureWriter
from tensorferry.budget import Budget
from tensorferry.codecs.protobuf import utf8
from tensorferry.errors import FerryError, FormatError, LimitError, UnsupportedError
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.frameworks.conversion import QUICK
from tensorferry.storage import Buffers, Sink
from tensorferry.tensors.values import (
    Array,
    RaggedTensor,
    SparseTensor,
    is_key,
    is_namedtuple,
    make_namedtuple,
)

NAME = "structure"

SPARSE = "tensorferry_SparseTensor"
RAGGED = "tensorferry_RaggedTensor"
PLAIN_BYTES = "tensorferry_bytes"

# Protobuf's readers, TensorFlow's among them, stop at this many messages inside each other.
MAX_DEPTH = 100

_DEEPEST = 2**31 - 1  # of the native reader

_WRITER = StructureWriter(np.ndarray, tensorproto.NUMBERS)
_READER = StructureReader(np.ndarray, tensorproto.IN_PLACE)


# Writing


def write(value: Any, sink: Sink) -> None:
    """Writes any value, without copying its large contiguous tensors.

    Args:
        value: A structure, or a part of one, with tensors of any framework.
        sink: Where to.
    """
    buffers, size = _WRITER.encode(value, _TO_PARTS, MAX_DEPTH)
    if size > tensorproto.MAX_SIZE:
        raise UnsupportedError(
            f"a StructuredValue holds less than 2 GiB, this one takes {size} bytes",
            hint="write its tensors one by one",
        )
    for buffer in buffers:
        sink.write(buffer)


class _ToParts:
    """Makes of other values what the native writer knows: see `_native.StructureWriter`."""

    quick = QUICK

    def other(self, value: Any, place: str) -> tuple[str | None, Any]:
        """How a value is represented: another value, or the name and the parts of a named tuple."""
        if isinstance(value, dict):
            return None, dict(value)
        if is_namedtuple(value):
            return type(value).__name__, value._asdict()
        if isinstance(value, list | tuple):
            return None, list(value) if isinstance(value, list) else tuple(value)
        try:
            return _parts_of(frameworks.accept(value))
        except FerryError as error:
            raise error.located(tensor=place or None) from None

    def tensor(self, array: Array, place: str) -> tuple[list[Any], int]:
        """The message of a tensor whose memory cannot be written directly."""
        buffers = Buffers()
        try:
            tensorproto.write(array, buffers)
        except FerryError as error:
            raise error.located(tensor=place or None) from None
        plain = [
            buffer if type(buffer) is bytes else buffer.reshape(-1).view(np.uint8)
            for buffer in buffers
        ]
        return plain, sum(map(len, plain))

    def key(self, key: Any, place: str) -> NoReturn:
        """Refuses the key of a dict."""
        if isinstance(key, str):
            utf8(key)
        raise UnsupportedError(
            f"a dict key is {key!r}, expected a string",
            tensor=place or None,
            hint="json, npz and safetensors keep integers as keys, too" if is_key(key) else None,
        )

    def too_deep(self, place: str) -> NoReturn:
        """Refuses a structure."""
        raise LimitError(
            f"the structure takes more than {MAX_DEPTH} messages inside each other",
            tensor=place[:60],
            hint="TensorFlow's reader stops there: flatten the structure",
        )


_TO_PARTS = _ToParts()


def _parts_of(value: Any) -> tuple[str | None, Any]:
    """The representation of one of our leaves."""
    if isinstance(value, np.ndarray):
        return None, value
    if isinstance(value, SparseTensor):
        return SPARSE, {name: getattr(value, name) for name in ("indices", "values", "dense_shape")}
    if isinstance(value, RaggedTensor):
        parts = {"flat_values": value.flat_values, "nested_row_splits": value.nested_row_splits}
        return RAGGED, parts
    if isinstance(value, bytes):
        string = np.empty((), dtype=object)
        string[()] = value
        return PLAIN_BYTES, {"value": string}
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(
                f"the int {value} does not fit 64 bits", hint='format="json" has no such limit'
            )
        return None, int(value)
    if isinstance(value, float):
        return None, float(value)
    if isinstance(value, str):
        return None, utf8(value).decode()
    raise UnsupportedError(f"{type(value).__name__} has no place in a structure")


# Reading


def read(source: bytes | memoryview, *, budget: Budget | None = None) -> Any:
    """Reads the value in a buffer; where possible, its tensors are views of the buffer.

    Args:
        source: The buffer.
        budget: Counts what the tensors take beside the buffer; by default the buffer has its own.
    """
    parts = _FromParts(source, budget)
    try:
        return _READER.read(source, parts, min(limits.depth, _DEEPEST))
    except FerryError as error:
        raise error.located(tensor=parts.where and parts.where[:60]) from None
    except RecursionError:
        parts.too_deep(0)


class _FromParts:
    """Makes values that the native reader does not: see `_native.StructureReader`.

    Args:
        data: The buffer that is read.
        budget: Counts what the tensors take beside it.

    Attributes:
        where: The key of the innermost dict in which reading failed.
    """

    def __init__(self, data: bytes | memoryview, budget: Budget | None) -> None:
        self._data = data
        self._budget = budget
        self.where: str | None = None

    def tensor(self, start: int, end: int) -> Any:
        """A tensor that cannot be a view of the buffer."""
        if self._budget is None:
            self._budget = Budget(len(self._data))
        return tensorproto.read(self._data, start=start, end=end, budget=self._budget)

    def named(self, name: str, parts: dict[str, Any], offset: int) -> Any:
        """A named tuple, or the value that one of our own names represents."""
        try:
            if name in WHOLES:
                return WHOLES[name](**parts)
            return make_namedtuple(name, tuple(parts))(*parts.values())
        except FormatError as error:
            error.offset = offset
            raise
        except (TypeError, UnsupportedError) as error:
            raise FormatError(f"{name} has other parts: {error}", offset=offset) from None

    def described(self, offset: int) -> NoReturn:
        """Refuses messages that are not values."""
        raise UnsupportedError(
            "a TensorSpec, shape or dtype describes a tensor and holds no value", offset=offset
        )

    def too_deep(self, offset: int) -> NoReturn:
        """Refuses a structure."""
        raise LimitError(
            f"more than {limits.depth} messages inside each other",
            offset=offset,
            hint="raise tensorferry.limits.depth if the file is to be trusted",
        )


def _whole_sparse(indices: Any, values: Any, dense_shape: Any) -> SparseTensor:
    return SparseTensor(indices, values, dense_shape)


def _whole_ragged(flat_values: Any, nested_row_splits: Any) -> RaggedTensor:
    return RaggedTensor(flat_values, tuple(nested_row_splits))


def _whole_bytes(value: Any) -> bytes:
    whole = value.item() if isinstance(value, np.ndarray) and value.shape == () else None
    if not isinstance(whole, bytes):
        raise TypeError("expected a string scalar")
    return whole


WHOLES: dict[str, Callable[..., Any]] = {
    SPARSE: _whole_sparse,
    RAGGED: _whole_ragged,
    PLAIN_BYTES: _whole_bytes,
}
