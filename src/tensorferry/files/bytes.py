"""Values to bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy import ndarray

from tensorferry import formats, frameworks
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats import tensorproto
from tensorferry.storage import Buffers, Sink, as_source, byte_view, open_source

if TYPE_CHECKING:
    from typing_extensions import Buffer

# The dtype field, which every TensorProto starts with: the short way for the most common bytes.
TENSORPROTO_START = b"\x08"

Framework = Literal["numpy", "tensorflow", "torch", "jax"]


def dumps(value: Any, *, format: str | None = None, **options: Any) -> bytes:
    """The bytes of a value.

    Args:
        value: A tensor of NumPy, TensorFlow, PyTorch, JAX or anything with DLPack or `__array__`;
            a SparseTensor or RaggedTensor; or a structure of those and of plain Python values.
        format: "tensorproto", "structure", "json", "npz", "safetensors", ...: see
            `tensorferry.formats`. By default a dense tensor becomes a TensorProto (what
            `tf.io.serialize_tensor` writes) and all else a structure.
        **options: Of the format; `metadata=` and `quantize=` as in `tensorferry.save`, where it
            has a place for them.

    Raises:
        UnsupportedError: The format cannot carry the value.
    """
    buffers = Buffers()
    if value.__class__ is ndarray and format is None and not options:
        tensorproto.write(value, buffers)
    else:
        _write(value, buffers, format, options)
    return b"".join(buffers)


def dumps_buffers(value: Any, *, format: str | None = None, **options: Any) -> list[memoryview]:
    """The bytes of a value as a list of buffers, for `os.writev`, sockets and other writers.

    The large ones are the value's own memory: nothing is copied, so the value must not change
    until they are written. Arguments are those of `dumps`.
    """
    buffers = Buffers()
    _write(value, buffers, format, options)
    return [byte_view(buffer) for buffer in buffers]


def dumps_into(value: Any, sink: Sink, *, format: str | None = None, **options: Any) -> int:
    """Writes the bytes of a value into anything with a `write` method, without copying them.

    Arguments are those of `dumps`. Nothing is written unless the format can carry the value.

    Returns:
        How many bytes were written.
    """
    size = 0
    for buffer in dumps_buffers(value, format=format, **options):
        sink.write(buffer)
        size += len(buffer)
    return size


def _write(value: Any, sink: Sink, format: str | None, options: dict[str, Any]) -> None:
    if format is not None and formats.get(format) and formats.TABLE[format].carries != "value":
        from tensorferry.tensors.content import Packing

        given = {name: options.pop(name, None) for name in ("metadata", "quantize")}
        packing = Packing(value, format, **given)
        packing.write(sink, **options)
        if not formats.TABLE[format].metadata and packing.needs_metadata():
            raise UnsupportedError(
                f"{format} bytes have no place for what has to be known beside the values",
                hint="npz, safetensors, arrow and parquet have",
            )
        return
    value = frameworks.accept(value)
    usual = "tensorproto" if isinstance(value, ndarray) else "structure"
    formats.get(format or usual).write(value, sink, **options)


def loads(
    data: Buffer, *, format: str | None = None, to: Framework = "numpy", **options: Any
) -> Any:
    """The value in some bytes; its dtype and shape come from them.

    Where the bytes hold the values as they lie in memory, the arrays are views of `data`:
    read-only, at no cost for any size. `np.array(value)` gives one that is writable and aligned.

    Args:
        data: Bytes, or anything with a buffer.
        format: As in `dumps`; by default recognised from the bytes ("raw" has to be named).
        to: Whose tensors to give back.
        **options: Of the format.

    Raises:
        FormatError: The bytes are damaged, or of no format known.
    """
    source = data if data.__class__ is bytes else as_source(data)
    if format is None and not options and source[:1] == TENSORPROTO_START:
        try:
            value = tensorproto.read(source)
        except FormatError:
            # The length of a TFRecord's first record may start like that, too.
            found = formats.detect(source)
            if found == tensorproto.NAME:
                raise
            value = _read(source, found, options)
    else:
        value = _read(source, formats.detect(source) if format is None else format, options)
    return value if to == "numpy" else frameworks.give(value, to)


def _read(source: bytes | memoryview, format: str, options: dict[str, Any]) -> Any:
    module = formats.get(format)
    if formats.TABLE[format].carries == "value":
        return module.read(source, **options)
    from tensorferry.tensors import content as contents

    names = ("dequantize", "parts", "verify")
    given = {name: options.pop(name) for name in names if name in options}
    return contents.read(open_source(source), format, options=options, **given).value()
