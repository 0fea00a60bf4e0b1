"""Opening: files of every format and from every place, whole or lazily.

    ferry.load("pred.safetensors")
    ferry.open("pred.safetensors")["scores"]

A file is recognised by its bytes, behind gzip or zstd if it is compressed as a whole, and by the
end of its name where these leave a doubt. What it holds is opened as a bundle
(`tensorferry.tensors.content`), as records, or as a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

from tensorferry import formats, limits, storage
from tensorferry.codecs import compression as codecs
from tensorferry.errors import FerryError, FormatError, LimitError, UnknownFormatError
from tensorferry.files import sidecars
from tensorferry.formats.safetensors import file as safetensors
from tensorferry.formats.tfrecord import frames as tfrecord
from tensorferry.storage import STANDARD_STREAM, Source, shards
from tensorferry.tensors import content as contents
from tensorferry.tensors.bundle import Bundle, Framework
from tensorferry.tensors.note import Note

# What only TFRecords are opened with.
RECORD_OPTIONS = {"schema", "infer", "on_error", "raw", "threads"}
# What is several files, and the names of some of them.
FOUND_BY_PATH = ("savedmodel", "checkpoint")
_NAMES = re.compile(r"\.index$|\.data-\d+-of-\d+$|(^|[/\\])(checkpoint|saved_model\.\w+)$")
# How much of a compressed file is decompressed to recognise what is in it.
COMPRESSED_HEAD = 1 << 16
# How many times larger than its file a value may be, whatever `limits.memory` says.
MAX_RATIO = 16


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
    reading = _Reading(
        format, to, verify, dequantize, placed, parts=False, storage_options=storage_options
    )
    with reading.open(path, options, tables=False) as opened:
        if hasattr(opened, "value"):  # all but records
            return opened.value()
        if options.get("raw"):
            return list(opened)
        return next(opened.batches(tfrecord.MANY, to=to), {})


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
        **options: Of the format; for TFRecords those of
        `tensorferry.formats.tfrecord.records.Records`:
            `columns`, `schema`, `infer`, `on_error`, `raw`, `threads`.

    Returns:
        A `Bundle`, `Records`, or for Arrow and Parquet a `Table`.
    """
    reading = _Reading(format, to, verify, dequantize, placed, parts, storage_options)
    return reading.open(path, options, tables=True)


@dataclass(frozen=True)
class _Reading:
    """How something is to be opened: the arguments that `load` and `open` have in common."""

    format: str | None
    to: Framework
    verify: bool
    dequantize: bool
    placed: bool
    parts: bool
    storage_options: Mapping[str, Any] | None

    def open(self, path: Any, options: dict[str, Any], *, tables: bool) -> Any:
        """A bundle, records, or a table if that is wanted."""
        path = _index_of(path)
        found = self.format or found_by_path(path, self.storage_options)
        if found is not None and formats.TABLE[found].carries == "files":
            return self._open_files(path, found, options)
        if _is_many(path):
            return _records(path, verify=self.verify, **options)
        try:
            return self._open(path, options, tables)
        except sidecars.OtherFileError:
            if not isinstance(path, str | os.PathLike):
                raise
        # It was replaced between opening it and what is beside it.
        return self._open(path, options, tables)

    def _open(self, path: Any, options: dict[str, Any], tables: bool) -> Any:
        source = storage.open_source(path, options=self.storage_options)
        try:
            outer, head = _head(source)
            meant = tfrecord.NAME if RECORD_OPTIONS & options.keys() else None
            found = self.format or meant or self._recognised(head, path, source)
            row = formats.TABLE[found]
            if row.carries == "files":
                whole = path if found in FOUND_BY_PATH else source
                return self._open_files(whole, found, options)
            if row.holds == "records":
                return self._open_records(path, source, options)
            about = None if row.metadata else sidecars.find(source, self.storage_options)
            inner = source if outer is None else _decompressed(source, outer)
            if row.holds == "table" and tables and not self.parts:
                table = self._open_table(inner, found, options)
                if table is not None:
                    return table
            return self._open_bundle(inner, found, options, about, source)
        except BaseException as error:
            source.close()
            if isinstance(error, FerryError):
                error.located(path=source.path)
            raise

    def _recognised(self, head: bytes, path: Any, source: Source) -> str:
        stem, _ = codecs.split_suffix(source.path)
        found = formats.recognised(head, path=stem)
        if found is not None:
            return found
        # One of the first version is known by its end.
        tail = source.range(max(0, source.size - 8), source.size) if source.size else b""
        module: Any = formats.get("checkpoint")
        if module.sniff_tail(bytes(tail)) and isinstance(path, str | os.PathLike):
            return "checkpoint"
        what = f"bytes that start with {head[:16].hex(' ')!r}" if head else "a file without bytes"
        raise UnknownFormatError(
            f"no format recognises {what}",
            path=source.path,
            offset=0,
            hint="name the format: format=...",
        )

    def _open_files(self, path: Any, format: str, options: dict[str, Any]) -> Bundle:
        module: Any = formats.get(format)
        if self.parts:
            options = {**options, "parts": True}
        opened = module.open_stored(
            path, verify=self.verify, storage_options=self.storage_options, **options
        )
        note = getattr(opened, "note", None) or Note()
        stored = contents.dequantized(opened.stored, note) if self.dequantize else opened.stored
        return Bundle(
            stored,
            path=str(getattr(path, "path", path)),
            format=format,
            note=note,
            metadata=opened.metadata,
            to=self.to,
            placed=self.placed,
            details=opened,
            files=opened.files,
            aliases=opened.aliases,
        )

    def _open_records(self, path: Any, source: Source, options: dict[str, Any]) -> Any:
        # What a stream gave to be recognised is in the source; all else is opened again.
        is_stream = source.buffer is None and not storage.is_url(path)
        if not is_stream:
            source.close()
        return _records(source if is_stream else path, verify=self.verify, **options)

    def _open_table(self, source: Source, format: str, options: dict[str, Any]) -> Any:
        """A table of rows; None if the file holds whole tensors, or others than meet the eye."""
        from tensorferry.formats.tables.table import Table

        table = Table(source, format=format, verify=self.verify, **options)  # type: ignore[arg-type]
        note, _ = table.note
        return None if not table.in_rows or note.layout or note.quantized else table

    def _open_bundle(
        self,
        source: Source,
        format: str,
        options: dict[str, Any],
        about: sidecars.About | None,
        file: Source,
    ) -> Any:
        if source.path.endswith(safetensors.INDEX) and format == safetensors.NAME:
            options = {**options, "storage_options": self.storage_options}
        return contents.read(
            source,
            format,
            metadata=None if about is None else about.metadata,
            check=None if about is None or not self.verify else partial(about.check, file),
            to=self.to,
            placed=self.placed,
            dequantize=self.dequantize,
            parts=self.parts,
            verify=self.verify,
            options={**about.options, **options} if about and format == "raw" else options,
        )


def found_by_path(path: Any, storage_options: Mapping[str, Any] | None = None) -> str | None:
    """The format of what is several files: it is found by its name."""
    if not isinstance(path, str | os.PathLike) or os.fspath(path) == STANDARD_STREAM:
        return None
    name = storage.localize(path)
    is_url = storage.is_url(name)
    if not _NAMES.search(name) and (_is_one_file(name) if is_url else os.path.isfile(name)):
        return None
    is_place = is_url or os.path.isdir(name)
    for found in FOUND_BY_PATH:
        if found == "savedmodel" and not is_place and "saved_model." not in name:
            continue
        module: Any = formats.get(found)
        if module.resolve(name, storage_options=storage_options) is not None:
            return found
    return None


def _records(path: Any, **options: Any) -> Any:
    from tensorferry.formats.tfrecord.records import Records

    return Records(path, **options)


def _index_of(path: Any) -> Any:
    """The index of a model of several files, where the one file is not there."""
    if isinstance(path, str | os.PathLike) and not storage.is_url(path):
        name = os.fspath(path)
        index = name + safetensors.INDEX
        if name.endswith(".safetensors") and not os.path.exists(name) and os.path.exists(index):
            return index
    return path


def _is_one_file(url: str) -> bool:
    """Whether the name of an object tells its format, or that there are several."""
    stem, _ = codecs.split_suffix(url)
    is_known = formats.named(stem) not in (None, *FOUND_BY_PATH)
    return "*" in url or shards.is_set(url) or is_known


def _is_many(path: Any) -> bool:
    """Whether it names several files, or none: globs, shards and directories are of TFRecords."""
    if isinstance(path, list | tuple):
        return True
    if not isinstance(path, str | os.PathLike) or os.fspath(path) == STANDARD_STREAM:
        return False
    name = os.fspath(path)
    if storage.is_url(name):
        return "*" in name or name.endswith("/") or shards.is_set(name)
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
