"""Values to bytes and back, without a file.

data = ferry.dumps(array)      # what tf.io.serialize_tensor writes
array = ferry.loads(data)      # dtype and shape come from the bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from numpy import ndarray

from tensorferry import _native, frameworks
from tensorferry.errors import FerryError, FormatError, OptionError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.frameworks.conversion import QUICK
from tensorferry.storage import Buffers, Sink, as_source, byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
    if value.__class__ is ndarray and format is None and not options:
        small = tensorproto.encode(value)
        if small is not None:
            return small
    buffers = Buffers()
    if value.__class__ is ndarray and format is None and not options:
        tensorproto.write(value, buffers)
    elif format is None and not options and (look := QUICK.get(value.__class__)) is not None:
        tensorproto.write(look(value), buffers)
    else:
        _write(value, buffers, format, options)
    return _native.join(buffers)


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
    buffers = Buffers()
    _write(value, buffers, format, options)
    return [byte_view(buffer) for buffer in buffers]


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
    size = 0
    for buffer in dumps_buffers(value, format=format, **options):
        sink.write(buffer)
        size += len(buffer)
    return size


def _write(value: Any, sink: Sink, format: str | None, options: Mapping[str, Any]) -> None:
    chosen = keywords.given(options)
    if format is None and not chosen:
        if not isinstance(value, dict | list | tuple):
            value = frameworks.accept(value)
        if isinstance(value, ndarray):
            tensorproto.write(value, sink)
        else:
            from tensorferry.formats.structure import message as structure

            structure.write(value, sink)
        return
    if format == "json" and not chosen and value.__class__ is ndarray:
        from tensorferry.formats.json.typed import write_numbers

        if write_numbers(value, sink):
            return
    from tensorferry.files.content import content_of
    from tensorferry.files.pouring import rows_of
    from tensorferry.files.writer import write_rows
    from tensorferry.formats import table
    from tensorferry.formats.contract import choose
    from tensorferry.storage.place import Target

    metadata, quantize = chosen.pop("metadata", None), chosen.pop("quantize", None)
    target = Target("<bytes>", into=sink)
    if format is not None and (facts := table.facts_of(format)).opens == "rows":
        rows, value = rows_of(value, facts, quantize=quantize, options=chosen)
        if rows is not None:
            chosen = {**chosen, **keywords.given({"quantize": quantize})}
            write_rows(rows, format, target, chosen, metadata=metadata)
            return
    columns = bool(chosen.get("rows"))
    content = content_of(value, metadata=metadata, quantize=quantize, columns=columns)
    usual = "tensorproto" if content.is_tensor else "structure"
    facts = table.facts_of(format or usual)
    writes = table.to_write(facts.name).writes
    assert writes is not None
    how = choose(writes.options, chosen, format=facts.name)
    writes.write(content, target, how)
    if facts.metadata == "beside" and content.needs_texts:
        raise UnsupportedError(
            f"{facts.name} bytes have no place for what has to be known beside the values",
            hint="npz, safetensors, arrow and parquet have",
        )


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
    if data.__class__ is bytes:
        source: bytes | memoryview = data
    else:
        source = _source_of(data)
    if format is None and not options and source[:1] == tensorproto.START:
        try:
            value = tensorproto.read(source)
        except FormatError:
            # The length of a TFRecord's first record may start like that as well.
            from tensorferry.formats.detect import detect_bytes

            found = detect_bytes(source)
            if found == tensorproto.NAME:
                raise
            return _read(source, found, to, options)
        return value if to == "numpy" else frameworks.give(value, to)
    return _read(source, format, to, options)


def _source_of(data: Buffer | str) -> bytes | memoryview:
    if isinstance(data, str):
        name = data if len(data) <= 60 else data[:60] + "..."
        raise OptionError(
            "a text, expected bytes",
            hint=f"tensorferry.load({name!r}) reads a file; text.encode() gives a text's bytes",
        )
    return as_source(data)


def _read(
    source: bytes | memoryview, format: str | None, to: Framework, options: Mapping[str, Any]
) -> Any:
    from tensorferry.formats.wholes import reader_of

    chosen = keywords.given(options)
    whole = reader_of(source, format)
    if whole is None:
        return _open(source, format, to, chosen)
    value = whole.read(source, chosen)  # no bundle has to be made of it
    return value if to == "numpy" else frameworks.give(value, to)


def _open(
    source: bytes | memoryview, format: str | None, to: Framework, chosen: dict[str, Any]
) -> Any:
    from tensorferry.files.open import Reading
    from tensorferry.rows.rows import Rows
    from tensorferry.storage.place import Place

    common = {name: chosen.pop(name) for name in _COMMON if name in chosen}
    # If the format was given, the bytes are of that format, whatever they start with.
    unpack = format is None
    how = Reading(format, to, given=chosen, preferred={"raw": True}, unpack=unpack, **common)
    try:
        with how.open(Place(source)) as opened:
            if isinstance(opened, Rows):
                return list(opened) if opened.raw else opened.value(to=to)
            return opened.value()
    except FerryError as error:
        error.path = None if error.path == Place.MEMORY else error.path
        raise


_COMMON = ("verify", "dequantize", "parts")
