"""Values to bytes and back, without a file.

data = ferry.dumps(array)      # what tf.io.serialize_tensor writes
array = ferry.loads(data)      # dtype and shape come from the bytes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from numpy import ndarray

from tensorferry import _native
from tensorferry.errors import FormatError
from tensorferry.files import keywords
from tensorferry.formats.tensorproto import message as tensorproto

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.storage import Sink
    from tensorferry.tensors.values import Array

Framework = Literal["numpy", "tensorflow", "torch", "jax"]


@keywords.shown(keywords.WritingBytes)
def dumps(
    value: Any, *, format: str | None = None, **options: Unpack[keywords.WritingBytes]
) -> bytes:
    """Serializes a value to bytes.

        ferry.dumps(np.zeros(3, np.float32))             # a TensorProto
        ferry.dumps({"a": array}, format="safetensors")

    Args:
        value: A tensor of NumPy, TensorFlow, PyTorch, JAX or anything with DLPack or `__array__`;
            a SparseTensor or RaggedTensor; or a structure of those and of plain Python values.
        format: "tensorproto", "structure", "json", "npz", "safetensors", ...: see
            `tensorferry.formats.table`. By default a dense tensor becomes a TensorProto (what
            `tf.io.serialize_tensor` writes) and everything else a structure.
        **options: `metadata`, `quantize` and `compression` as in `tensorferry.save`, and the
            options of the format: see `tensorferry.files.keywords.Writing`. Options that the format
            does not have are refused.

    Raises:
        UnsupportedError: The format cannot carry the value.
        OptionError: The format has no such option.

    Examples:
        >>> data = ferry.dumps(np.float32([1, 2]))  # the bytes of tf.io.serialize_tensor
        >>> ferry.loads(data)
        array([1., 2.], dtype=float32)
    """
    if value.__class__ is ndarray and not options:
        small = tensorproto.encode(value) if format is None else _encoder(format)(value)
        if small is not None:
            return small
    return _native.join(_every_way().to_buffers(value, format, options))


@keywords.shown(keywords.WritingBytes)
def dumps_buffers(
    value: Any, *, format: str | None = None, **options: Unpack[keywords.WritingBytes]
) -> list[memoryview]:
    """Serializes a value to a list of buffers, for `os.writev`, sockets and other writers.

    Large buffers are the memory of the value itself. Nothing is copied, so do not change the value
    until the buffers are written. The arguments are those of `dumps`.

    Examples:
        >>> array = np.zeros(1000, np.float32)
        >>> data = ferry.dumps(array)
        >>> b"".join(ferry.dumps_buffers(array)) == data
        True
    """
    every = _every_way()
    return [every.byte_view(buffer) for buffer in every.to_buffers(value, format, options)]


@keywords.shown(keywords.WritingBytes)
def dumps_into(
    value: Any, sink: Sink, *, format: str | None = None, **options: Unpack[keywords.WritingBytes]
) -> int:
    """Serializes a value into any object with a `write` method, without copying it.

    The arguments are those of `dumps`. Nothing is written unless the format can carry the value.

    Returns:
        Number of bytes written.

    Examples:
        >>> with open("scores.pb", "wb") as file:
        ...     size = ferry.dumps_into(np.zeros(3, np.float32), file)
        >>> ferry.load("scores.pb").shape
        (3,)
    """
    every = _every_way()
    written: int = every.write_all(every.to_buffers(value, format, options), sink)
    return written


@keywords.shown(keywords.Opening)
def loads(
    data: Buffer,
    *,
    format: str | None = None,
    to: Framework = "numpy",
    **options: Unpack[keywords.Opening],
) -> Any:
    """Reads a value from bytes, which also contain its dtype and shape.

    Where possible, the arrays are read-only views of `data`, which cost nothing whatever their
    size. `np.array(value)` makes a writable, aligned copy.

        ferry.loads(tf.io.serialize_tensor(tensor))

    Args:
        data: Bytes, anything with a buffer, or a tensor of one string.
        format: As in `dumps`; by default detected from the bytes (except "raw", which must be
            given).
        to: The framework whose tensors to return: "numpy", "tensorflow", "torch" or "jax".
        **options: `verify`, `dequantize` and `parts` as in `tensorferry.open`, and the options of
            the format: see `tensorferry.files.keywords.Reading`. Options that the format does not
            have are refused.

    Raises:
        FormatError: The bytes are damaged, or their format is unknown.
        OptionError: The format has no such option.

    Examples:
        >>> ferry.loads(ferry.dumps({"ids": [1, 2], "text": "ja"}))
        {'ids': [1, 2], 'text': 'ja'}
    """
    quick = format is None and to == "numpy" and not options
    if quick and data.__class__ is bytes and data[:1] == tensorproto.START:
        try:  # `suppress` takes as long as reading does
            return tensorproto.read(data)
        except FormatError:  # what is wrong, or what else it is, is found below
            pass
    return _every_way().from_bytes(data, format, to, options)


@lru_cache(maxsize=16)
def _encoder(format: str) -> Callable[[Array], bytes | None]:
    """What writes a small array in a format: looked up once, which takes as long as the writing."""
    found: Callable[[Array], bytes | None] = _every_way().encoder(format)
    return found


@cache
def _every_way() -> ModuleType:
    """What one small array does not need, and is imported late."""
    return import_module("tensorferry.files.serializing")
