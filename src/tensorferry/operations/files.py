"""Files: values saved, loaded and opened, in every format and from every place.

    ferry.save({"ids": ragged, "scores": scores}, "pred.safetensors", metadata={"model": "en-de"})
    ferry.load("pred.safetensors")
    ferry.open("pred.safetensors")["scores"]

The end of a file's name says its format, and whether it is compressed as a whole (".npy.zst"); what
is read is recognised by its bytes first. How values become a format's bytes is
`tensorferry.operations.contents`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any

from tensorferry import formats, limits, storage
from tensorferry.codecs import compression as codecs, quantization
from tensorferry.errors import (
    FerryError,
    FormatError,
    LimitError,
    UnknownFormatError,
    UnsupportedError,
)
from tensorferry.formats import safetensors, safetensors_shards, tfrecord
from tensorferry.operations import contents, sidecars
from tensorferry.operations.bundles import Bundle, Framework
from tensorferry.operations.record_writer import writer
from tensorferry.operations.records import Records
from tensorferry.storage import STANDARD_STREAM, Source

# Endings that say how a file is compressed as a whole.
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
# What only TFRecords are opened with.
RECORD_OPTIONS = {"schema", "infer", "on_error", "raw", "threads"}
# How much of a compressed file is decompressed to recognise what is in it.
COMPRESSED_HEAD = 1 << 16
# How many times larger than its file a value may be, whatever `limits.memory` says.
MAX_RATIO = 16


@dataclass(frozen=True)
class Saved:
    """What `save` did.

    Attributes:
        path: The file.
        format: Its format.
        nbytes: Its size.
        quantized: What quantizing did to each tensor that was.
    """

    path: str
    format: str
    nbytes: int
    quantized: Mapping[str, quantization.Report] = field(default_factory=dict)


def save(
    value: Any,
    path: Any,
    *,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    quantize: Any = None,
    shard_size: int | str | None = None,
    durable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Saved:
    """Writes a value to a file, which appears when it is whole.

    Args:
        value: A tensor of any framework, a SparseTensor or RaggedTensor, a structure of those and
            of plain Python values, a bundle, or a generator of pairs of a name and a tensor, of
            which only one is in memory at a time.
        path: A local path, a URL, "-" for the standard output, or a binary file object.
        format: By default that of the path's ending.
        metadata: What to keep with it: strings, or whatever JSON takes. Of TensorFlow's tensors
            the device, and the name of variables, are kept too.
        compression: "gzip" or "zstd" for the whole file, if its name says so (".npy.zst");
            "deflate" for npz, "lz4" or "zstd" for arrow, and Parquet's own.
        quantize: Makes floats smaller: "int8", "float16", ... or `("int8", max_error)`; see
            `tensorferry.codecs.quantization`.
        shard_size: Of safetensors: the most bytes in a file, as in "5GB"; makes several with an
            index.
        durable: Waits until the disk has it.
        storage_options: For the store of a URL.
        **options: Of the format.

    Raises:
        UnsupportedError: The format cannot carry the value.
    """
    target = _Target.of(path, format, compression)
    if formats.TABLE[target.format].holds == "records":
        return _save_records(value, target, metadata, quantize, durable, options)
    row = formats.TABLE[target.format]
    if target.inner is not None:
        options["compression"] = target.inner
    if target.path is not None and target.path.endswith(".arrows"):
        options.setdefault("stream", True)
    columns = row.carries == "tensors" and bool(options.get("rows"))
    packing = contents.Packing(
        value, target.format, metadata=metadata, quantize=quantize, columns=columns
    )
    if shard_size is not None:
        return _save_shards(packing, target, shard_size, durable, storage_options)
    with ExitStack() as stack:
        announce = None
        if not row.metadata and target.path is not None and target.path != STANDARD_STREAM:
            announce = stack.enter_context(
                sidecars.replacing(target.path, durable=durable, options=storage_options)
            )
        sink: Any = stack.enter_context(target.open(durable, storage_options))
        counted = sink
        if not row.metadata or target.outer is not None:
            counted = sidecars.Sink(sink)
        with _compressing(counted, target.outer) as inner:
            packing.write(inner, **options)
        if not row.metadata:
            _keep_beside(packing, counted, announce, target)
    return Saved(str(path), target.format, sink.position, packing.reports)


def _save_shards(
    packing: contents.Packing,
    target: _Target,
    size: int | str,
    durable: bool,
    options: Mapping[str, Any] | None,
) -> Saved:
    if target.format != safetensors.NAME or target.path in (None, STANDARD_STREAM) or target.outer:
        raise UnsupportedError(
            "only uncompressed safetensors files are split by shard_size", path=target.path
        )
    assert target.path is not None
    nbytes = safetensors_shards.save_parts(
        list(packing.parts()),
        target.path,
        packing.metadata,
        shard_size=size,
        durable=durable,
        options=options,
    )
    return Saved(target.path, target.format, nbytes, packing.reports)


def _keep_beside(
    packing: contents.Packing,
    counted: sidecars.Sink,
    announce: Any,
    target: _Target,
) -> None:
    """What the format has no place for goes beside the file, if anything does."""
    metadata, kept = packing.metadata(), packing.reading_options
    if announce is not None:
        about = sidecars.About(counted.position, counted.crc32c, metadata, kept)
        announce(about if metadata or kept else None)
    elif packing.needs_metadata():
        raise UnsupportedError(
            f"{target.format} has no place for metadata, and a stream has no file beside it",
            hint="npz, safetensors, arrow and parquet have",
        )


@dataclass(frozen=True)
class _Target:
    """Where a value goes."""

    given: Any
    path: str | None  # None for a file object
    format: str
    outer: str | None  # the compression of the whole file
    inner: str | None  # the compression that is the format's own

    @classmethod
    def of(cls, given: Any, format: str | None, compression: str | None) -> _Target:
        path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        name = path if path is not None else str(getattr(given, "name", ""))
        stem, outer = _without_compression(name)
        found = format or formats.named(stem)
        if found is None:
            raise UnknownFormatError(
                "the name does not say which format to write",
                path=name,
                hint=f"pass format=, one of {', '.join(formats.TABLE)}",
            )
        formats.get(found)
        own = formats.TABLE[found].compressions
        if compression is None or compression == outer:
            return cls(given, path, found, outer, None)
        if compression in own:
            return cls(given, path, found, outer, compression)
        if compression in COMPRESSED.values():
            if path not in (None, STANDARD_STREAM):
                end = next(end for end, kind in COMPRESSED.items() if kind == compression)
                raise UnsupportedError(
                    f"a {found} file compressed as a whole by {compression} is named so",
                    path=path,
                    hint=f"save it as {stem}{end}"
                    + (f"; compression can also be {', '.join(own)}" if own else ""),
                )
            return cls(given, path, found, compression, None)
        expected = ", ".join(repr(kind) for kind in (*own, *COMPRESSED.values()))
        raise UnsupportedError(f"compression is {compression!r}, expected one of {expected}")

    @contextmanager
    def open(self, durable: bool, options: Mapping[str, Any] | None) -> Iterator[Any]:
        if self.path is None:
            yield storage.FileSink(self.given)
            return
        with storage.open_sink(self.path, durable=durable, options=options) as sink:
            yield sink


def _without_compression(name: str) -> tuple[str, str | None]:
    for end, kind in COMPRESSED.items():
        if name.endswith(end):
            return name[: -len(end)], kind
    return name, None


@contextmanager
def _compressing(sink: Any, kind: Any) -> Iterator[Any]:
    if kind is None:
        yield sink
        return
    compressor = codecs.compressor(kind)
    yield _CompressingSink(sink, compressor)
    sink.write(compressor.finish())


class _CompressingSink:
    def __init__(self, sink: Any, compressor: codecs.Compressor) -> None:
        self._sink = sink
        self._compressor = compressor

    def write(self, buffer: Any, /) -> None:
        data = self._compressor.compress(storage.byte_view(buffer))
        if data:
            self._sink.write(data)


def _save_records(
    value: Any,
    target: _Target,
    metadata: Any,
    quantize: Any,
    durable: bool,
    options: Mapping[str, Any],
) -> Saved:
    if metadata or quantize is not None or target.path is None or isinstance(value, Bundle):
        raise UnsupportedError(
            "TFRecords hold columns or records of bytes, without metadata and quantizing",
            hint="npz, safetensors, arrow and parquet have metadata",
        )
    out = writer(target.path, compression=target.outer, durable=durable, **options)
    with out:
        if isinstance(value, list | tuple) and all(isinstance(part, bytes) for part in value):
            for record in value:
                out.write(record)
        else:
            out.write_batch(value)
    return Saved(target.path, target.format, os.path.getsize(target.path))


def load(
    path: Any,
    *,
    format: str | None = None,
    to: Framework = "numpy",
    verify: bool = True,
    dequantize: bool = True,
    placed: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """The value in a file: the structure that was saved, or a dict of tensors or columns.

    Arrays of a local file are views of it wherever its bytes allow that: nothing is read before it
    is used. `np.array(value)` gives one that is writable.

    Args:
        path: A local path, a URL, "-" for the standard input, or a binary file object.
        format: By default recognised by the bytes, or else by the path's ending.
        to: Whose tensors to give back.
        verify: Check checksums, where the format has them.
        dequantize: Give the floats that quantized values stand for.
        placed: Put TensorFlow's tensors on the device where they were, and give variables back as
            such, with their names.
        storage_options: For the store of a URL.
        **options: Of the format: raw bytes need `dtype=` and `shape=`, unless a sidecar has them.

    Raises:
        FormatError: The file is damaged, or of no format known.
    """
    with _open(
        path,
        tables=False,
        format=format,
        to=to,
        verify=verify,
        dequantize=dequantize,
        placed=placed,
        storage_options=storage_options,
        **options,
    ) as opened:
        if not isinstance(opened, Records):
            return opened.value()
        return (
            list(opened) if options.get("raw") else next(opened.batches(tfrecord.MANY, to=to), {})
        )


def open(  # noqa: A001  # the public name
    path: Any,
    *,
    format: str | None = None,
    to: Framework = "numpy",
    verify: bool = True,
    dequantize: bool = True,
    placed: bool = False,
    parts: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Opens a file without reading it: tensors as a bundle, TFRecords as records, tables as such.

    Args:
        path: A file or URL; for TFRecords also a glob, a directory, "name@10" for a set of shards,
            or a list of those; "-" for the standard input, or a binary file object.
        format: By default recognised by the bytes, or else by the path's ending.
        to: Whose tensors a bundle gives.
        verify: Check checksums, where the format has them.
        dequantize: Give the floats that quantized values stand for.
        placed: See `load`.
        parts: Give the arrays as they are stored, whatever was noted about them.
        storage_options: For the store of a URL.
        **options: Of the format; for TFRecords those of `tensorferry.operations.records.Records`:
            `columns`, `schema`, `infer`, `on_error`, `raw`, `threads`.

    Returns:
        A `Bundle`, `Records`, or for Arrow and Parquet a `Table`.
    """
    return _open(
        path,
        tables=True,
        format=format,
        to=to,
        verify=verify,
        dequantize=dequantize,
        placed=placed,
        parts=parts,
        storage_options=storage_options,
        **options,
    )


def _open(
    path: Any,
    *,
    tables: bool,
    format: str | None,
    to: Framework,
    verify: bool,
    dequantize: bool,
    placed: bool,
    parts: bool = False,
    storage_options: Mapping[str, Any] | None,
    **options: Any,
) -> Any:
    path = _index_of(path)
    if format is None and RECORD_OPTIONS & options.keys():
        format = tfrecord.NAME  # noqa: A001  # the public name
    if _is_many(path):
        return Records(path, verify=verify, **options)
    source = storage.open_source(path, options=storage_options)
    try:
        outer, head = _head(source)
        found = format or _recognised(head, source.path)
        if formats.TABLE[found].holds == "records":
            return _open_records(path, source, verify, storage_options, options)
        about = None if formats.TABLE[found].metadata else sidecars.find(source, storage_options)
        inner = source if outer is None else _decompressed(source, outer)
        if formats.TABLE[found].holds == "table" and tables and not parts:
            table = _open_table(inner, found, verify, options)
            if table is not None:
                return table
        if source.path.endswith(safetensors.INDEX) and found == safetensors.NAME:
            options["storage_options"] = storage_options
        return contents.read(
            inner,
            found,
            metadata=None if about is None else about.metadata,
            check=None if about is None or not verify else partial(about.check, source),
            to=to,
            placed=placed,
            dequantize=dequantize,
            parts=parts,
            verify=verify,
            options=options if about is None else {**about.options, **options},
        )
    except BaseException as error:
        source.close()
        if isinstance(error, FerryError):
            error.located(path=source.path)
        raise


def _open_table(source: Source, format: str, verify: bool, options: Mapping[str, Any]) -> Any:
    """A table of rows; None if the file holds whole tensors, or others than meet the eye."""
    from tensorferry.operations.tables import Table

    table = Table(source, format=format, verify=verify, **options)  # type: ignore[arg-type]
    note, _ = table.note
    return None if not table.in_rows or note.layout or note.quantized else table


def _index_of(path: Any) -> Any:
    """The index of a model of several files, where the one file is not there."""
    if isinstance(path, str | os.PathLike) and not storage.is_url(path):
        name = os.fspath(path)
        index = name + safetensors.INDEX
        if name.endswith(".safetensors") and not os.path.exists(name) and os.path.exists(index):
            return index
    return path


def _is_many(path: Any) -> bool:
    """Whether it names several files, or none: globs, shards and directories are of TFRecords."""
    if isinstance(path, list | tuple):
        return True
    if not isinstance(path, str | os.PathLike) or os.fspath(path) == STANDARD_STREAM:
        return False
    name = os.fspath(path)
    if storage.is_url(name):
        return "*" in name
    return os.path.isdir(name) or not os.path.lexists(name)


def _head(source: Source) -> tuple[Any, bytes]:
    """How a file is compressed as a whole, and its first bytes without that."""
    head = source.head(formats.HEAD)
    kind = codecs.detect(head)
    if kind is None or tfrecord.sniff(head):
        return None, head
    inner = b""
    with suppress(FormatError):  # it is cut where we stopped
        for block in codecs.decompressed(BytesIO(source.head(COMPRESSED_HEAD)).read, kind):
            inner += block
            if len(inner) >= formats.HEAD:
                break
    # Two bytes can look like zlib by chance, and only TFRecords are compressed so.
    if kind == "zlib" and not tfrecord.sniff(inner):
        return None, head
    return kind, inner[: formats.HEAD]


def _recognised(head: bytes, path: str) -> str:
    stem, _ = _without_compression(path)
    found = formats.recognised(head, path=stem)
    if found is None:
        raise UnknownFormatError(
            f"no format recognises bytes that start with {head[:16].hex(' ')!r}",
            path=path,
            offset=0,
            hint="name the format: format=...",
        )
    return found


def _open_records(
    path: Any, source: Source, verify: bool, storage_options: Any, options: Mapping[str, Any]
) -> Records:
    # What a stream gave to be recognised is in the source; all else is opened again.
    is_stream = source.buffer is None and not storage.is_url(path)
    if not is_stream:
        source.close()
    return Records(source if is_stream else path, verify=verify, **options)


def _decompressed(source: Source, kind: Any) -> Source:
    """All bytes of a compressed file, in memory."""
    data = bytearray()
    for block in codecs.decompressed(source.read, kind, path=source.path):
        data += block
        if len(data) > max(limits.memory, MAX_RATIO * (source.size or 0)):
            raise LimitError(
                f"more than {len(data)} decompressed bytes, {limits.memory} are allowed",
                path=source.path,
                hint="raise tensorferry.limits.memory if the file is to be trusted",
            )
    return Source(source.path, buffer=memoryview(data).toreadonly())
