"""Saving: values into files of every format, and to every place.

    ferry.save({"ids": ragged, "scores": scores}, "pred.safetensors", metadata={"model": "en-de"})

The end of a file's name says its format, and whether it is compressed as a whole (".npy.zst"). How
values become a format's bytes is `tensorferry.tensors.content`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tensorferry import formats, storage
from tensorferry.codecs import compression as codecs, quantization
from tensorferry.errors import UnknownFormatError, UnsupportedError
from tensorferry.files import sidecars
from tensorferry.formats.safetensors import file as safetensors, shards as safetensors_shards
from tensorferry.formats.tfrecord.writer import writer
from tensorferry.storage import STANDARD_STREAM
from tensorferry.tensors import content as contents
from tensorferry.tensors.bundle import Bundle

# By which a file is compressed as a whole.
OUTER = ("gzip", "zstd")


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
            "deflate" for npz, "lz4" or "zstd" for arrow, and Parquet's own, of which zstd is the
            default; "none" for none at all.
        quantize: Makes floats smaller: "int8", "float16", ... or `("int8", max_error)`; see
            `tensorferry.codecs.quantization`.
        shard_size: Of safetensors and Keras' weights: the most bytes in a file, as in "5GB"; makes
            several with an index.
        durable: Waits until the disk has it.
        storage_options: For the store of a URL.
        **options: Of the format.

    Raises:
        UnsupportedError: The format cannot carry the value.
    """
    plain = compression == "none"
    target = _Target.of(path, format, None if plain else compression)
    if formats.TABLE[target.format].holds == "records":
        return _save_records(value, target, metadata, quantize, durable, options)
    row = formats.TABLE[target.format]
    if target.inner is not None or (plain and row.compressions):
        options["compression"] = target.inner
    if target.path is not None and target.path.endswith(".arrows"):
        options.setdefault("stream", True)
    columns = row.carries == "tensors" and bool(options.get("rows"))
    packing = contents.Packing(
        value, target.format, metadata=metadata, quantize=quantize, columns=columns
    )
    if row.carries == "files":
        if shard_size is not None:
            options["shard_size"] = shard_size
        return _save_files(packing, target, durable, storage_options, options)
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


def _save_files(
    packing: contents.Packing,
    target: _Target,
    durable: bool,
    storage_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Saved:
    if target.path in (None, STANDARD_STREAM) or target.outer or target.inner:
        raise UnsupportedError(
            f"{target.format} is written to a path, and not compressed", path=target.path
        )
    assert target.path is not None
    nbytes = packing.save(target.path, durable=durable, storage_options=storage_options, **options)
    return Saved(target.path, target.format, nbytes, packing.reports)


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
        stem, outer = codecs.split_suffix(name)
        found = format or formats.named(stem)
        if found is None:
            raise UnknownFormatError(
                "the name does not say which format to write",
                path=name,
                hint=f"pass format=, one of {', '.join(formats.writable())}",
            )
        formats.to_write(found)
        own = formats.TABLE[found].compressions
        if compression is None or compression == outer:
            return cls(given, path, found, outer, None)
        if compression in own:
            return cls(given, path, found, outer, compression)
        if compression in OUTER:
            if path not in (None, STANDARD_STREAM):
                end = next(end for end, kind in codecs.SUFFIXES.items() if kind == compression)
                raise UnsupportedError(
                    f"a {found} file compressed as a whole by {compression} is named so",
                    path=path,
                    hint=f"save it as {stem}{end}"
                    + (f"; compression can also be {', '.join(own)}" if own else ""),
                )
            return cls(given, path, found, compression, None)
        expected = ", ".join(repr(kind) for kind in (*own, *OUTER))
        raise UnsupportedError(f"compression is {compression!r}, expected one of {expected}")

    @contextmanager
    def open(self, durable: bool, options: Mapping[str, Any] | None) -> Iterator[Any]:
        if self.path is None:
            yield storage.FileSink(self.given)
            return
        with storage.open_sink(self.path, durable=durable, options=options) as sink:
            yield sink


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
